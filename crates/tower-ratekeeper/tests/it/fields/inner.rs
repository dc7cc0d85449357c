//! What becomes of the fields that an inner service has written.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use tower_ratekeeper::fields::{FieldFormat, FieldFormats, PolicySet, Reset, Standing};

use super::{policy, written_over, x_rate_limit};

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

proptest! {
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
