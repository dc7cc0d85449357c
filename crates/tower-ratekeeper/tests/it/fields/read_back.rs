//! Every field that is written is read back by a parser of structured fields.

use http::HeaderMap;
use proptest::prelude::*;
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parser};
use tower_ratekeeper::fields::{FieldFormat, FieldFormats, Policy, PolicySet, Standing};

use super::policy;

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
}
