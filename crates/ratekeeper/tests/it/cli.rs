use crate::support::{command, run, run_on, text};

const RULE: &str = "ip: token-bucket 1/s burst 2 by ip";

#[test]
fn exit_codes_are_as_documented() {
    for (arguments, code) in [
        (&["replay", "common.log", "--rule", RULE][..], 0),
        (
            &["replay", "common.log", "--rule", RULE, "--fail-on-refused"],
            3,
        ),
        (
            &[
                "replay",
                "common.log",
                "--rule",
                "ip: token-bucket 9/s by ip",
                "--fail-on-refused",
            ],
            0,
        ),
        (&["replay", "missing.log", "--rule", RULE], 1),
        (&["replay", ".", "--rule", RULE], 1),
        (&["replay", "common.log", "--rules", "missing.txt"], 1),
        (&["replay", "caddy.json", "--rule", RULE], 1),
        (
            &[
                "replay",
                "common.log",
                "--rule",
                RULE,
                "--html",
                "/no/such/folder/x.html",
            ],
            1,
        ),
        (&["replay", "common.log"], 2),
        (&["replay", "--rule", RULE], 2),
        (
            &["replay", "common.log", "--rule", "ip: bucket 1/s by ip"],
            2,
        ),
        (&["replay", "common.log", "--rule", RULE, "--rule", RULE], 2),
        (
            &["replay", "common.log", "--rule", RULE, "--field", "x=y"],
            2,
        ),
        (
            &["replay", "common.log", "--rule", RULE, "--max-skew", "soon"],
            2,
        ),
        (&["explain", "10/s"], 0),
        (&["explain", "10/0s"], 2),
        (
            &["explain", "10/s burst 20", "--algorithm", "sliding-log"],
            2,
        ),
        (&["explain", "10/s", "--keys", "5"], 2),
        (&["completions", "bash"], 0),
        (&["--help"], 0),
        (&["--version"], 0),
        (&[], 2),
        (&["unknown"], 2),
    ] {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        assert_eq!(
            output.stderr.is_empty(),
            matches!(code, 0 | 3),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let error = |arguments: &[&str]| text(&run(arguments).stderr);
    assert!(
        error(&["replay", "missing.log", "--rule", RULE])
            .starts_with("error: cannot open \"missing.log\": ")
    );
    assert!(
        error(&[
            "replay",
            "common.log",
            "--rule",
            "x: token-bucket 10/0s by ip"
        ])
        .contains("the period must be longer than zero")
    );
    assert!(
        error(&["explain", "10/0s"])
            .contains("invalid quota \"10/0s\": the period must be longer than zero")
    );
    let none = run_on(&["replay", "-", "--rule", RULE], b"nothing\nto read\n");
    assert!(text(&none.stderr).starts_with("error: no line could be read: "));
}

#[test]
fn an_empty_log_is_no_failure() {
    let output = run_on(&["replay", "-", "--rule", RULE, "--json"], b"");
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["total"], &json["first"]),
        (&0.into(), &serde_json::Value::Null)
    );
}

#[test]
fn the_stable_fields_come_first_and_in_their_order() {
    let json = text(&run(&["replay", "common.log", "--rule", RULE, "--json"]).stdout);
    let place = |field: &str| {
        json.find(&format!("\n  \"{field}\": "))
            .unwrap_or_else(|| panic!("{field}"))
    };
    let fields = [
        "total",
        "refused",
        "late",
        "unreadable",
        "clients",
        "clients_refused",
        "rules",
        "top",
        "refused_spread",
    ];
    assert!(fields.map(place).is_sorted());
}

#[test]
fn colors_are_for_terminals_and_wishes_only() {
    let escape = |arguments: &[&str]| text(&run(arguments).stdout).contains('\u{1b}');
    let plain = ["replay", "common.log", "--rule", RULE];
    assert!(!escape(&plain), "the output is a pipe");
    assert!(escape(&[&plain[..], &["--color", "always"]].concat()));
    assert!(!escape(&[&plain[..], &["--color", "never"]].concat()));
    let asked = command(&[&plain[..], &["--color", "auto"]].concat())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(!text(&asked.stdout).contains('\u{1b}'));
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let help = |arguments: &[&str]| text(&run(arguments).stdout);
    assert!(
        help(&["--help"])
            .contains("Exit codes: 0 done, 1 failed, 2 asked wrongly, 3 requests would be refused")
    );
    assert!(help(&["replay", "--help"]).contains(
        "ratekeeper replay access.log --rule 'per-ip: token-bucket 60/min burst 20 by ip'"
    ));
    assert!(
        help(&["explain", "--help"])
            .contains("ratekeeper explain '10/s burst 20' --backend 200/s --keys 10000")
    );
}

#[test]
fn completions_know_the_commands_in_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(
            script.contains("replay") && script.contains("max-skew"),
            "{shell}"
        );
    }
}

#[test]
fn explanations_are_worked_out_for_people_and_programs() {
    let shown = text(
        &run(&[
            "explain",
            "10/s burst 20",
            "--backend",
            "200/s",
            "--keys",
            "10000",
        ])
        .stdout,
    );
    for line in [
        "at once                    20  by a key that has rested",
        "in the first minute        620 at most",
        "in any 1s                  30 at most",
        "full again after           2s",
        "wait when all is spent     100ms",
        "RateLimit-Policy: \"default\";q=20;w=2",
        "Retry-After: 1",
        "all at once                200,000 requests, 16m 40s of the backend's work",
        "served at full rate        20 keys",
        "the queue before it        grows by 99,800 requests a second: 359,280,000 in an hour",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let json = run(&[
        "explain",
        "10/s burst 20",
        "--backend",
        "200/s",
        "--keys",
        "10000",
        "--json",
    ])
    .stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["first_minute"], &json["backend"]["queue_growth"]),
        (&620.into(), &99_800.0.into())
    );
    let compared = text(&run(&["explain", "60/min burst 5", "--compare"]).stdout);
    assert_eq!(
        compared
            .lines()
            .filter(|line| line.contains("60/min"))
            .count(),
        6,
        "{compared}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::Stdio;
    let mut child = command(&["explain", "10/s", "--compare"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
