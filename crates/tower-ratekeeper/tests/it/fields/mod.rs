//! The rate limit fields, as a client on the other side of the wire reads them.

mod inner;
mod read_back;

use http::{HeaderMap, HeaderName, HeaderValue};
use tower_ratekeeper::fields::{
    EXPOSED_FIELDS, EXPOSED_FIELDS_TEXT, FieldFormat, FieldFormats, Policy, PolicySet, Reset,
    Standing, Unit,
};

fn policy(name: &str, quota: u64) -> Policy {
    Policy::new(name, quota).unwrap()
}

fn x_rate_limit(reset: Reset) -> FieldFormat {
    FieldFormat::XRateLimit { reset }
}

/// The fields that are written onto a response which an inner service has given these headers.
fn written_over<const N: usize>(
    inner: &[(&'static str, &'static str)],
    formats: impl Into<FieldFormats>,
    policies: [Policy; N],
    standings: &[Standing<'_>],
) -> Vec<String> {
    let mut headers = HeaderMap::new();
    for (name, value) in inner {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    PolicySet::new(policies, formats.into()).write(standings, &mut headers);
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
    lines
}

fn written<const N: usize>(
    formats: impl Into<FieldFormats>,
    policies: [Policy; N],
    standings: &[Standing<'_>],
) -> Vec<String> {
    written_over(&[], formats, policies, standings)
}

#[test]
fn one_policy_is_written_as_the_draft_has_it() {
    assert_eq!(
        written(
            FieldFormat::Draft11,
            [policy("default", 100).window(60)],
            &[Standing::new(0, 99).after(50)]
        ),
        [
            r#"ratelimit: "default";r=99;t=50"#,
            r#"ratelimit-policy: "default";q=100;w=60"#
        ]
    );
    assert_eq!(
        written(
            FieldFormat::Draft11,
            [policy("default", 100).window(60)],
            &[Standing::new(0, 0).after(5)]
        )[0],
        r#"ratelimit: "default";r=0;t=5"#
    );
}

#[test]
fn several_policies_are_items_under_their_own_names() {
    let policies = [
        policy("hour", 1000).window(3600),
        policy("day", 5000).window(86_400),
    ];
    assert_eq!(
        written(
            FieldFormat::Draft11,
            policies.clone(),
            &[
                Standing::new(0, 12).after(30),
                Standing::new(1, 100).after(36_000)
            ]
        ),
        [
            r#"ratelimit: "hour";r=12;t=30, "day";r=100;t=36000"#,
            r#"ratelimit-policy: "hour";q=1000;w=3600, "day";q=5000;w=86400"#
        ]
    );
    // The order of the standings is the caller's, the policies keep theirs.
    assert_eq!(
        written(
            FieldFormat::Draft11,
            policies,
            &[Standing::new(1, 1), Standing::new(0, 900)]
        ),
        [
            r#"ratelimit: "day";r=1, "hour";r=900"#,
            r#"ratelimit-policy: "hour";q=1000;w=3600, "day";q=5000;w=86400"#
        ]
    );
}

#[test]
fn only_policies_that_a_response_reports_on_are_listed() {
    let policies = ["a", "b", "c"].map(|name| policy(name, 9).window(1));
    let lines =
        |standings: &[Standing<'_>]| written(FieldFormat::Draft11, policies.clone(), standings);
    assert_eq!(
        lines(&[Standing::new(1, 5)]),
        [r#"ratelimit: "b";r=5"#, r#"ratelimit-policy: "b";q=9;w=1"#]
    );
    assert_eq!(
        lines(&[Standing::new(2, 5), Standing::new(0, 6)]),
        [
            r#"ratelimit: "c";r=5, "a";r=6"#,
            r#"ratelimit-policy: "a";q=9;w=1, "c";q=9;w=1"#
        ]
    );
    // A place that is none is passed over.
    assert_eq!(
        lines(&[Standing::new(7, 5), Standing::new(0, 6)]),
        [r#"ratelimit: "a";r=6"#, r#"ratelimit-policy: "a";q=9;w=1"#]
    );
    assert!(lines(&[Standing::new(usize::MAX, 5)]).is_empty());
}

#[test]
fn partition_keys_are_byte_sequences() {
    let policies = || [policy("default", 1000).window(60)];
    assert_eq!(
        written(
            FieldFormat::Draft11,
            policies(),
            &[Standing::new(0, 999).partition(b"trial121323")]
        ),
        [
            r#"ratelimit: "default";r=999;pk=:dHJpYWwxMjEzMjM=:"#,
            r#"ratelimit-policy: "default";q=1000;w=60;pk=:dHJpYWwxMjEzMjM=:"#
        ]
    );
    assert_eq!(
        written(
            FieldFormat::Draft11,
            policies(),
            &[Standing::new(0, 300_000_000)
                .after(60)
                .partition(b"App-999")]
        )[0],
        r#"ratelimit: "default";r=300000000;t=60;pk=:QXBwLTk5OQ==:"#
    );
}

#[test]
fn units_other_than_requests_are_named() {
    let value = |policy| written(FieldFormat::Draft11, [policy], &[Standing::new(0, 1)]).remove(1);
    assert_eq!(
        value(policy("conc", 10).unit(Unit::ConcurrentRequests)),
        r#"ratelimit-policy: "conc";q=10;qu="concurrent-requests""#
    );
    assert_eq!(
        value(
            policy("peruser", 65_535)
                .unit(Unit::ContentBytes)
                .window(10)
        ),
        r#"ratelimit-policy: "peruser";q=65535;qu="content-bytes";w=10"#
    );
    assert_eq!(
        value(policy("plain", 1).unit(Unit::Requests).window(0)),
        r#"ratelimit-policy: "plain";q=1;w=1"#
    );
}

#[test]
fn quotes_and_backslashes_in_a_name_are_escaped() {
    assert_eq!(
        written(
            FieldFormat::Draft11,
            [policy(r#"a"b\c"#, 1).window(1)],
            &[Standing::new(0, 1)]
        ),
        [
            r#"ratelimit: "a\"b\\c";r=1"#,
            r#"ratelimit-policy: "a\"b\\c";q=1;w=1"#
        ]
    );
}

#[test]
fn a_reset_of_nothing_left_is_at_least_a_second() {
    let value = |format, standing| written(format, [policy("p", 9).window(1)], &[standing]);
    assert_eq!(
        value(FieldFormat::Draft11, Standing::new(0, 0).after(0))[0],
        r#"ratelimit: "p";r=0;t=1"#
    );
    assert_eq!(
        value(FieldFormat::Draft11, Standing::new(0, 1).after(0))[0],
        r#"ratelimit: "p";r=1;t=0"#
    );
    assert_eq!(
        value(FieldFormat::Draft07, Standing::new(0, 0).after(0))[0],
        "ratelimit: limit=9, remaining=0, reset=1"
    );
}

#[test]
fn numbers_saturate_at_fifteen_digits() {
    let policies = [policy("p", u64::MAX).window(u64::MAX)];
    let standing = Standing::new(0, u64::MAX)
        .after(u64::MAX)
        .reset_epoch(u64::MAX);
    let most = "999999999999999";
    assert_eq!(
        written(FieldFormat::Draft11, policies.clone(), &[standing]),
        [
            format!(r#"ratelimit: "p";r={most};t={most}"#),
            format!(r#"ratelimit-policy: "p";q={most};w={most}"#)
        ]
    );
    assert_eq!(
        written(x_rate_limit(Reset::Epoch), policies, &[standing]),
        [
            format!("x-ratelimit-limit: {most}"),
            format!("x-ratelimit-remaining: {most}"),
            format!("x-ratelimit-reset: {most}")
        ]
    );
}

#[test]
fn no_standing_and_no_format_write_nothing() {
    for format in [
        FieldFormat::Draft11,
        FieldFormat::Draft07,
        FieldFormat::Draft06,
        x_rate_limit(Reset::Delta),
    ] {
        let lines = written(format, [policy("p", 9).window(1)], &[]);
        assert!(lines.is_empty(), "{lines:?} of {format:?}");
    }
    let lines = written(
        FieldFormats::none(),
        [policy("p", 9).window(1)],
        &[Standing::new(0, 1).after(1)],
    );
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn older_revisions_report_the_first_policy_with_a_reset() {
    let policies = || [policy("conc", 10), policy("default", 100).window(60)];
    let standings = [Standing::new(0, 1), Standing::new(1, 50).after(5)];
    assert_eq!(
        written(FieldFormat::Draft07, policies(), &standings),
        [
            "ratelimit: limit=100, remaining=50, reset=5",
            "ratelimit-policy: 100;w=60"
        ]
    );
    assert_eq!(
        written(FieldFormat::Draft06, policies(), &standings),
        [
            "ratelimit-limit: 100",
            "ratelimit-policy: 100;w=60",
            "ratelimit-remaining: 50",
            "ratelimit-reset: 5"
        ]
    );
}

#[test]
fn older_revisions_name_each_quota_once_with_its_longest_window() {
    let policies = [
        policy("a", 10).window(1),
        policy("b", 10).window(60),
        policy("c", 500).window(3600),
        policy("d", 10),
    ];
    let standings = [0, 1, 2, 3].map(|place| Standing::new(place, 5).after(1));
    assert_eq!(
        written(FieldFormat::Draft07, policies.clone(), &standings)[1],
        "ratelimit-policy: 10;w=60, 500;w=3600"
    );
    // A shorter window stays where the longer one does not apply.
    assert_eq!(
        written(
            FieldFormat::Draft07,
            policies,
            &[standings[2], standings[0]]
        )[1],
        "ratelimit-policy: 10;w=1, 500;w=3600"
    );
    let twice = [policy("a", 10).window(60), policy("b", 10).window(60)];
    assert_eq!(
        written(FieldFormat::Draft07, twice, &standings[..2])[1],
        "ratelimit-policy: 10;w=60"
    );
}

#[test]
fn customary_fields_count_to_an_epoch_or_from_now() {
    let policies = || [policy("default", 100).window(60)];
    let standing = Standing::new(0, 0).after(5).reset_epoch(1_700_000_000);
    assert_eq!(
        written(x_rate_limit(Reset::Epoch), policies(), &[standing]),
        [
            "x-ratelimit-limit: 100",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1700000000"
        ]
    );
    assert_eq!(
        written(x_rate_limit(Reset::Delta), policies(), &[standing])[2],
        "x-ratelimit-reset: 5"
    );
    assert_eq!(
        written(
            x_rate_limit(Reset::Epoch),
            policies(),
            &[Standing::new(0, 3)]
        ),
        ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 3"]
    );
}

#[test]
fn formats_with_different_names_are_sent_side_by_side() {
    let formats = FieldFormats::new([FieldFormat::Draft11, x_rate_limit(Reset::Delta)]).unwrap();
    let lines = written(
        formats,
        [policy("p", 9).window(1)],
        &[Standing::new(0, 4).after(1)],
    );
    assert_eq!(
        lines,
        [
            r#"ratelimit: "p";r=4;t=1"#,
            r#"ratelimit-policy: "p";q=9;w=1"#,
            "x-ratelimit-limit: 9",
            "x-ratelimit-remaining: 4",
            "x-ratelimit-reset: 1"
        ]
    );
}

#[test]
fn formats_with_the_same_names_are_refused_when_they_are_chosen() {
    let revisions = [
        FieldFormat::Draft11,
        FieldFormat::Draft07,
        FieldFormat::Draft06,
    ];
    for first in revisions {
        for second in revisions {
            let chosen = FieldFormats::new([first, x_rate_limit(Reset::Epoch), second]);
            if first == second {
                assert!(chosen.is_ok());
            } else {
                assert_eq!(chosen.unwrap_err().formats(), (first, second));
            }
        }
    }
    let error =
        FieldFormats::new([x_rate_limit(Reset::Epoch), x_rate_limit(Reset::Delta)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "field formats XRateLimit { reset: Epoch } and XRateLimit { reset: Delta } \
         use the same header names"
    );
}

#[test]
fn the_default_fields_cost_three_allocations() {
    let policies = PolicySet::new(
        [
            policy("hour", 1000).window(3600),
            policy("day", 5000).window(86_400),
        ],
        FieldFormats::default(),
    );
    let standings = [
        Standing::new(0, 12).after(30),
        Standing::new(1, 100).after(36_000),
    ];
    // The map makes two by itself; the policy value is shared and the other value is written into one buffer.
    for standings in [&standings[..], &standings[1..]] {
        let allocations = allocation_counter::measure(|| {
            let mut headers = HeaderMap::new();
            policies.write(standings, &mut headers);
        });
        assert_eq!(allocations.count_total, 3);
    }
}

#[test]
fn exposed_fields_are_the_same_as_names_and_as_text() {
    let names = EXPOSED_FIELDS.map(|name| name.to_string());
    assert_eq!(names.join(", "), EXPOSED_FIELDS_TEXT);
}
