//! One small log of each format and everything that is found in it. `RATEKEEPER_BLESS=1 cargo test`
//! writes the expected files anew; read the difference before committing it.

use std::fs;

use crate::support::{data, run, text};

fn check(log: &str, rules: &[&str]) {
    let mut arguments = vec!["replay", log, "--json"];
    rules
        .iter()
        .for_each(|rule| arguments.extend(["--rule", rule]));
    let output = run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = data(&log.replace(".log", ".json"));
    if std::env::var_os("RATEKEEPER_BLESS").is_some() {
        fs::write(&expected, &output.stdout).unwrap();
    }
    let wanted = fs::read_to_string(&expected).unwrap();
    assert_eq!(text(&output.stdout), wanted, "{log}");
}

#[test]
fn common_format() {
    check(
        "common.log",
        &[
            "ip: token-bucket 1/s burst 2 by ip",
            "login: sliding-log 2/min by user on POST /login",
        ],
    );
}

#[test]
fn combined_format() {
    check(
        "combined.log",
        &[
            "ip: fixed-window 3/min by ip",
            "path: token-bucket 1/min by (ip, path)",
        ],
    );
}

#[test]
fn caddy_json() {
    check(
        "caddy.log",
        &[
            "ip: token-bucket 2/s burst 1 by ip",
            "host: fixed-window 3/min by host on GET",
        ],
    );
}

#[test]
fn traefik_json() {
    check(
        "traefik.log",
        &[
            "ip: sliding-counter 2/s by ip",
            "user: leaky-bucket 1/s by user",
        ],
    );
}

#[test]
fn nginx_json() {
    check(
        "nginx.log",
        &[
            "ip: token-bucket 1/s burst 2 by ip",
            "path: fixed-window 1/min by path on GET /a",
        ],
    );
}
