//! The rate limit fields, as a client on the other side of the wire reads them.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parser};
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

/// The field as a structured list that is written back as it was.
fn canonical<T: FieldType<SerializeResult = Option<String>>>(text: &str) -> T {
    let value: T = Parser::new(text).parse().unwrap();
    assert_eq!(value.serialize().as_deref(), Some(text));
    value
}

fn item(entry: &ListEntry) -> &Item {
    match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(list) => panic!("{list:?} is no item"),
    }
}

fn integer(item: &Item, key: &str) -> Option<u64> {
    match item.params.get(key)? {
        BareItem::Integer(number) => Some(u64::try_from(i64::from(*number)).unwrap()),
        other => panic!("{key} is {other:?}"),
    }
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
        )[0],
        r#"ratelimit: "default";r=999;pk=:dHJpYWwxMjEzMjM=:"#
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
fn lists_of_an_inner_service_are_kept_and_added_to() {
    let inner = [
        ("ratelimit", r#""inner";r=1;t=9"#),
        ("ratelimit", r#" "other";r=2"#),
        ("ratelimit-policy", r#""inner";q=5;w=9"#),
    ];
    assert_eq!(
        written_over(
            &inner,
            FieldFormat::Draft11,
            [policy("own", 9).window(1)],
            &[Standing::new(0, 4).after(1)]
        ),
        [
            r#"ratelimit: "inner";r=1;t=9"#,
            r#"ratelimit:  "other";r=2"#,
            r#"ratelimit: "own";r=4;t=1"#,
            r#"ratelimit-policy: "inner";q=5;w=9"#,
            r#"ratelimit-policy: "own";q=9;w=1"#
        ]
    );
    assert_eq!(
        written_over(
            &[("ratelimit-policy", "5;w=9")],
            FieldFormat::Draft07,
            [policy("own", 9).window(1)],
            &[Standing::new(0, 4).after(1)]
        )[1..],
        ["ratelimit-policy: 5;w=9", "ratelimit-policy: 9;w=1"]
    );
}

#[test]
fn an_inner_value_in_another_format_does_not_spoil_the_list() {
    let inner = [
        ("ratelimit", "limit=100, remaining=50, reset=5"),
        ("ratelimit-policy", "100;w=60"),
    ];
    assert_eq!(
        written_over(
            &inner,
            FieldFormat::Draft11,
            [policy("own", 9).window(1)],
            &[Standing::new(0, 4).after(1)]
        ),
        [
            r#"ratelimit: "own";r=4;t=1"#,
            r#"ratelimit-policy: "own";q=9;w=1"#
        ]
    );
    assert_eq!(
        written_over(
            &[
                ("ratelimit", r#""inner";r=1;t=9"#),
                ("ratelimit-policy", r#""inner";q=5;w=9"#)
            ],
            FieldFormat::Draft07,
            [policy("own", 9).window(1)],
            &[Standing::new(0, 4).after(1)]
        ),
        [
            "ratelimit: limit=9, remaining=4, reset=1",
            "ratelimit-policy: 9;w=1"
        ]
    );
}

#[test]
fn of_single_values_the_more_constrained_stays() {
    let over = |remaining, reset: Option<_>| {
        let mut inner = vec![
            ("x-ratelimit-limit", "70"),
            ("x-ratelimit-remaining", remaining),
        ];
        inner.extend(reset.map(|reset| ("x-ratelimit-reset", reset)));
        written_over(
            &inner,
            x_rate_limit(Reset::Delta),
            [policy("own", 9).window(1)],
            &[Standing::new(0, 4).after(6)],
        )
        .join(", ")
    };
    let own = "x-ratelimit-limit: 9, x-ratelimit-remaining: 4, x-ratelimit-reset: 6";
    let inner = |remaining, reset| {
        format!(
            "x-ratelimit-limit: 70, x-ratelimit-remaining: {remaining}, x-ratelimit-reset: {reset}"
        )
    };
    assert_eq!(over("3", Some("1")), inner("3", "1"));
    assert_eq!(over("4", Some("7")), inner("4", "7"));
    assert_eq!(over("4", Some("6")), own);
    assert_eq!(over("5", Some("9")), own);
    assert_eq!(
        over("3", None),
        "x-ratelimit-limit: 70, x-ratelimit-remaining: 3"
    );
    for garbage in ["", "soon", "-1", "apples"] {
        assert_eq!(over(garbage, Some("9")), own, "{garbage:?}");
    }
}

#[test]
fn a_triple_is_never_mixed_from_two_limiters() {
    let inner = [
        ("x-ratelimit-limit", "70"),
        ("x-ratelimit-remaining", "60"),
        ("x-ratelimit-reset", "1700000000"),
    ];
    // Ours has no reset, so the inner one, which belongs to another quota, goes.
    assert_eq!(
        written_over(
            &inner,
            x_rate_limit(Reset::Epoch),
            [policy("own", 9)],
            &[Standing::new(0, 4)]
        ),
        ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 4"]
    );
    let twice = [
        ("x-ratelimit-remaining", "1"),
        ("x-ratelimit-remaining", "2"),
    ];
    assert_eq!(
        written_over(
            &twice,
            x_rate_limit(Reset::Epoch),
            [policy("own", 9)],
            &[Standing::new(0, 4)]
        ),
        ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 4"]
    );
}

#[test]
fn of_two_dictionaries_the_more_constrained_stays() {
    let over = |inner| {
        written_over(
            &[("ratelimit", inner)],
            FieldFormat::Draft07,
            [policy("own", 9).window(1)],
            &[Standing::new(0, 4).after(6)],
        )
        .remove(0)
    };
    let own = "ratelimit: limit=9, remaining=4, reset=6";
    for tighter in [
        "limit=70, remaining=3, reset=1",
        "limit=70,remaining=4,reset=7",
        "remaining=0",
    ] {
        assert_eq!(over(tighter), format!("ratelimit: {tighter}"));
    }
    for looser in [
        "limit=70, remaining=5, reset=9",
        "limit=70, remaining=4, reset=6",
        "limit=70, reset=9",
        "nonsense",
    ] {
        assert_eq!(over(looser), own);
    }
}

#[test]
fn a_full_header_map_loses_the_fields_and_nothing_else() {
    let mut headers = HeaderMap::new();
    let mut count = 0;
    while headers
        .try_insert(
            HeaderName::try_from(format!("x-{count}")).unwrap(),
            HeaderValue::from_static(""),
        )
        .is_ok()
    {
        count += 1;
    }
    let policies = PolicySet::new([policy("p", 9).window(1)], FieldFormats::default());
    policies.write(&[Standing::new(0, 4).after(1)], &mut headers);
    assert_eq!(headers.len(), count);
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

/// What a parser of structured fields makes of the drafts' traps, so that the bounds kept here are those of real readers.
#[test]
fn readers_refuse_whole_fields_for_what_is_never_written() {
    let back = |text: &str| {
        let list: List = Parser::new(text).parse().ok()?;
        list.serialize()
    };
    let read = [
        (
            r#""x";q=999999999999999;w=1"#,
            r#""x";q=999999999999999;w=1"#,
        ),
        (r#""x"; q=1"#, r#""x";q=1"#),
        (r#""x";q=1;q=2"#, r#""x";q=2"#),
        (r#""x";q=007"#, r#""x";q=7"#),
    ];
    for (text, canonical) in read {
        assert_eq!(back(text).as_deref(), Some(canonical));
    }
    for text in [
        r#""x";q=1000000000000000;w=1"#,
        r#""x" ;q=1"#,
        r#""x";Q=1"#,
        r#""x";q=1,"#,
        r#""é";q=1"#,
        r#""x";r=1, limit=100, remaining=50"#,
    ] {
        assert_eq!(back(text), None, "{text}");
    }
}

fn any_name() -> impl Strategy<Value = String> {
    proptest::string::string_regex(r"[ -~]{0,40}").unwrap()
}

fn any_integer() -> impl Strategy<Value = u64> {
    // All lengths of numbers alike.
    (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
}

proptest! {
    #[test]
    fn every_list_that_is_written_is_read_back(
        policies in proptest::collection::vec((any_name(), any_integer(), proptest::option::of(any_integer())), 1..6),
        standings in proptest::collection::vec(
            (0..6_usize, any_integer(), proptest::option::of(any_integer()), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40))),
            1..9,
        ),
    ) {
        let built: Vec<Policy> = policies
            .iter()
            .map(|(name, quota, window)| match window {
                Some(seconds) => policy(name, *quota).window(*seconds),
                None => policy(name, *quota),
            })
            .collect();
        let given: Vec<Standing<'_>> = standings
            .iter()
            .map(|(place, remaining, after, partition)| {
                let mut standing = Standing::new(*place, *remaining);
                if let Some(seconds) = after {
                    standing = standing.after(*seconds);
                }
                if let Some(key) = partition {
                    standing = standing.partition(key);
                }
                standing
            })
            .collect();
        let known: Vec<_> = standings.iter().filter(|standing| standing.0 < policies.len()).collect();
        let most = 999_999_999_999_999;

        let mut headers = HeaderMap::new();
        PolicySet::new(built, FieldFormats::default()).write(&given, &mut headers);
        if known.is_empty() {
            prop_assert!(headers.is_empty());
            return Ok(());
        }

        let list: List = canonical(headers["ratelimit"].to_str().unwrap());
        prop_assert_eq!(list.len(), known.len());
        for (entry, (place, remaining, after, partition)) in list.iter().zip(&known) {
            let item = item(entry);
            prop_assert_eq!(item.bare_item.as_string().unwrap().as_str(), &policies[*place].0);
            prop_assert_eq!(integer(item, "r"), Some((*remaining).min(most)));
            let least = u64::from(*remaining == 0);
            prop_assert_eq!(integer(item, "t"), after.map(|seconds| seconds.clamp(least, most)));
            let key = item.params.get("pk").map(|key| key.as_byte_sequence().unwrap());
            prop_assert_eq!(key, partition.as_deref());
        }

        let list: List = canonical(headers["ratelimit-policy"].to_str().unwrap());
        let mut places: Vec<usize> = known.iter().map(|standing| standing.0).collect();
        places.sort_unstable();
        places.dedup();
        prop_assert_eq!(list.len(), places.len());
        for (entry, place) in list.iter().zip(places) {
            let (name, quota, window) = &policies[place];
            let item = item(entry);
            prop_assert_eq!(item.bare_item.as_string().unwrap().as_str(), name);
            prop_assert_eq!(integer(item, "q"), Some((*quota).min(most)));
            prop_assert_eq!(integer(item, "w"), window.map(|seconds| seconds.clamp(1, most)));
        }
    }

    #[test]
    fn every_dictionary_that_is_written_is_read_back(
        quota in any_integer(),
        remaining in any_integer(),
        after in any_integer(),
    ) {
        let policies = PolicySet::new(
            [policy("p", quota).window(60)],
            FieldFormat::Draft07.into(),
        );
        let mut headers = HeaderMap::new();
        policies.write(&[Standing::new(0, remaining).after(after)], &mut headers);
        let dictionary: Dictionary = canonical(headers["ratelimit"].to_str().unwrap());
        let member = |key: &str| {
            let number = item(&dictionary[key]).bare_item.as_integer().unwrap();
            u64::try_from(i64::from(number)).unwrap()
        };
        let most = 999_999_999_999_999;
        prop_assert_eq!(member("limit"), quota.min(most));
        prop_assert_eq!(member("remaining"), remaining.min(most));
        prop_assert_eq!(member("reset"), after.clamp(u64::from(remaining == 0), most));
        canonical::<List>(headers["ratelimit-policy"].to_str().unwrap());
    }

    #[test]
    fn no_inner_value_can_break_the_writer(
        inner in proptest::collection::vec((0..5_usize, proptest::collection::vec(b' '..=b'~', 0..30)), 0..6),
        remaining in 0..9_u64,
    ) {
        let names = [
            "ratelimit",
            "ratelimit-policy",
            "ratelimit-remaining",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ];
        for format in [
            FieldFormat::Draft11,
            FieldFormat::Draft07,
            FieldFormat::Draft06,
            x_rate_limit(Reset::Delta),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in &inner {
                headers.append(names[*name], HeaderValue::from_bytes(value).unwrap());
            }
            let before = headers.clone();
            let policies = PolicySet::new([policy("own", 9).window(1)], format.into());
            policies.write(&[Standing::new(0, remaining).after(1)], &mut headers);
            // Whatever was there, the client learns of a bound that is at least as tight as ours.
            let told = match format {
                FieldFormat::Draft11 => headers
                    .get_all("ratelimit")
                    .iter()
                    .any(|line| line == &format!(r#""own";r={remaining};t=1"#)),
                FieldFormat::Draft07 => {
                    headers["ratelimit"] == format!("limit=9, remaining={remaining}, reset=1")
                        || headers.get_all("ratelimit").iter().eq(before.get_all("ratelimit"))
                }
                FieldFormat::Draft06 => headers.contains_key("ratelimit-remaining"),
                _ => headers.contains_key("x-ratelimit-remaining"),
            };
            prop_assert!(told, "{format:?} over {before:?} gave {headers:?}");
        }
    }
}
