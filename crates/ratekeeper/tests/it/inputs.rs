//! Many files, compression, standard input, bounds.

use std::io::Write;

use ratekeeper::read::{Bounds, Taken, lines_of};
use ratekeeper::replay::{Settings, replay};

use crate::support::{findings, line, lines, rules, run_on, text};

const RULE: &str = "ip: token-bucket 1/9s burst 3 by ip";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Fifty minutes of a few clients, and the same history in three parts.
fn history() -> (String, [String; 3]) {
    let all: Vec<String> = (0..3_000u64)
        .map(|n| line(&format!("192.0.2.{}", n * n % 7), n))
        .collect();
    (
        all.concat(),
        [
            all[..1_000].concat(),
            all[1_000..2_000].concat(),
            all[2_000..].concat(),
        ],
    )
}

#[test]
fn rotated_logs_are_one_history_in_any_order_and_compression() {
    let (whole, [old, middle, new]) = history();
    let settings = Settings::new(rules(&[RULE]));
    let expected = findings(whole, &settings);
    assert!(expected.refused.at_once > 100);
    let parts = [
        ("new".to_owned(), lines(new)),
        ("old".to_owned(), lines(gzip(old.as_bytes()))),
        ("middle".to_owned(), lines(zstd(middle.as_bytes()))),
    ];
    let found = replay(parts.into_iter().collect(), &settings, || ()).unwrap();
    assert_eq!(
        (found.total, found.late, found.refused),
        (expected.total, 0, expected.refused)
    );
    assert_eq!(
        found
            .files
            .iter()
            .map(|file| file.lines)
            .collect::<Vec<_>>(),
        [1_000; 3]
    );
}

#[test]
fn logs_of_several_servers_are_merged_by_time() {
    let (whole, _) = history();
    let settings = Settings::new(rules(&[RULE]));
    let mut servers = vec![String::new(); 4];
    whole
        .lines()
        .enumerate()
        .for_each(|(n, line)| servers[n * 7 % 4].extend([line, "\n"]));
    let logs = servers
        .into_iter()
        .enumerate()
        .map(|(n, text)| (n.to_string(), lines(text)))
        .collect();
    let found = replay(logs, &settings, || ()).unwrap();
    assert_eq!(found.refused, findings(whole, &settings).refused);
}

#[test]
fn standard_input_is_read_and_decompressed() {
    let (whole, _) = history();
    let json = |input: &[u8]| {
        let output = run_on(&["replay", "-", "--rule", RULE, "--json"], input);
        assert!(output.status.success());
        text(&output.stdout)
    };
    let plain = json(whole.as_bytes());
    assert!(plain.starts_with("{\n  \"total\": 3000,"));
    assert_eq!(json(&gzip(whole.as_bytes())), plain);
    assert_eq!(json(&zstd(whole.as_bytes())), plain);
}

#[test]
fn an_overlong_line_is_unreadable_and_the_next_is_not() {
    let log = [
        line("192.0.2.1", 1),
        format!("{}\n", "x".repeat(5_000_000)),
        line("192.0.2.1", 2),
    ]
    .concat();
    let found = findings(log, &Settings::new(rules(&[RULE])));
    assert_eq!((found.total, found.unreadable), (2, 1));
    assert_eq!(
        (
            found.samples[0].line,
            found.samples[0].fault.to_string().as_str()
        ),
        (2, "longer than the bound")
    );
}

#[test]
fn a_log_that_is_cut_in_its_compression_fails_instead_of_counting_less() {
    let (whole, _) = history();
    let mut cut = gzip(whole.as_bytes());
    cut.truncate(cut.len() / 2);
    let output = run_on(&["replay", "-", "--rule", RULE], &cut);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: cannot read \"-\": "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_bomb_is_refused() {
    let bomb = gzip(&vec![b'x'; 30_000_000]);
    let bounds = Bounds {
        line: 1_000,
        expansion: 10,
    };
    let lines = lines_of(
        Box::new(std::io::Cursor::new(bomb)),
        bounds,
        &Taken::default(),
    )
    .unwrap();
    let error = replay(
        vec![("bomb".to_owned(), lines)],
        &Settings::new(rules(&[RULE])),
        || (),
    )
    .unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "expands to more than 10 times its compressed size");
}

#[test]
fn keys_beyond_the_bound_are_counted_together() {
    let log: String = (0..100u64)
        .flat_map(|n| {
            [
                line(&format!("192.0.2.{n}"), n),
                line(&format!("192.0.2.{n}"), n),
            ]
        })
        .collect();
    let rule = rules(&["ip: token-bucket 1/min burst 1 by ip"]);
    let found = findings(
        log.clone(),
        &Settings {
            keys: 10,
            ..Settings::new(rule.clone())
        },
    );
    assert_eq!((found.clients, found.rules[0].keys), (10, 10));
    assert_eq!(
        (found.other_clients.requests, found.rules[0].others.requests),
        (180, 180)
    );
    assert_eq!(found.top.len(), 10);
    // Enough room: every second request is refused.
    let found = findings(log, &Settings::new(rule));
    assert_eq!(
        (
            found.refused.at_once,
            found.other_clients.requests,
            found.evicted
        ),
        (100, 0, 0)
    );
}

#[test]
fn a_skew_of_nothing_leaves_out_every_line_that_goes_back() {
    let log: String = [5u64, 4, 6, 5, 6]
        .map(|second| line("192.0.2.1", second))
        .concat();
    let found = findings(
        log,
        &Settings {
            skew: 0,
            ..Settings::new(rules(&[RULE]))
        },
    );
    assert_eq!((found.total, found.decided, found.late), (5, 3, 2));
    let late = found.first_late.unwrap();
    assert_eq!((late.line, late.after, late.by), (2, 1, 1_000_000_000));
}

#[test]
fn fields_with_names_of_ones_own_are_read() {
    let log = br#"{"at":"2025-10-10T00:00:01Z","net":{"peer":"192.0.2.1"}}"#;
    let arguments = [
        "replay",
        "-",
        "--rule",
        RULE,
        "--json",
        "--field",
        "time=at",
        "--field",
        "client=net.peer",
    ];
    let output = run_on(&arguments, log);
    assert!(
        text(&output.stdout).contains("\"clients\": 1,"),
        "{}",
        text(&output.stderr)
    );
}
