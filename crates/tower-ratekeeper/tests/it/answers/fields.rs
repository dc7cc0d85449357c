//! The rate limit fields from end to end.

use http::{Response, StatusCode};
use sfv::{BareItem, List, ListEntry, Parser};
use tower_ratekeeper::fields::{
    FieldFormat, FieldFormats, FieldScope, OnCacheable, OnRedirect, Reset,
};
use tower_ratekeeper::{Key, Quota, Rule};

use super::{
    SECOND, builder, exhaust, hundred, limit_fields, one_a_minute, request, retry_after, send,
    send_to, value,
};

/// What allowed and refused requests are told in a format: after one request, ten seconds later
/// after another, and when nothing is left.
async fn told(formats: impl Into<FieldFormats>) -> [Vec<String>; 3] {
    let (builder, time) = builder([hundred()]);
    let layer = builder.fields(formats).build().unwrap();
    let first = limit_fields(send(&layer, request()).await.headers());
    time.advance(10 * SECOND);
    let second = limit_fields(send(&layer, request()).await.headers());
    assert_eq!(exhaust(&layer).await, 98);
    let refused = send(&layer, request()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(retry_after(refused.headers()), Some(50));
    [first, second, limit_fields(refused.headers())]
}

#[tokio::test]
async fn the_default_fields_name_the_policy_with_what_is_left() {
    let policy = r#"ratelimit-policy: "default";q=100;w=60"#;
    assert_eq!(
        told(FieldFormats::default()).await,
        [
            [r#"ratelimit: "default";r=99;t=60"#, policy],
            [r#"ratelimit: "default";r=98;t=50"#, policy],
            [r#"ratelimit: "default";r=0;t=50"#, policy],
        ]
    );
}

#[tokio::test]
async fn draft_07_is_a_dictionary() {
    let policy = "ratelimit-policy: 100;w=60";
    assert_eq!(
        told(FieldFormat::Draft07).await,
        [
            ["ratelimit: limit=100, remaining=99, reset=60", policy],
            ["ratelimit: limit=100, remaining=98, reset=50", policy],
            ["ratelimit: limit=100, remaining=0, reset=50", policy],
        ]
    );
}

#[tokio::test]
async fn draft_06_is_three_numbers_and_a_policy() {
    let lines = |remaining: u64, reset: u64| {
        vec![
            "ratelimit-limit: 100".to_owned(),
            "ratelimit-policy: 100;w=60".to_owned(),
            format!("ratelimit-remaining: {remaining}"),
            format!("ratelimit-reset: {reset}"),
        ]
    };
    assert_eq!(
        told(FieldFormat::Draft06).await,
        [lines(99, 60), lines(98, 50), lines(0, 50)]
    );
}

#[tokio::test]
async fn customary_fields_name_a_second_or_count_to_it() {
    let lines = |remaining: u64, reset: u64| {
        vec![
            "x-ratelimit-limit: 100".to_owned(),
            format!("x-ratelimit-remaining: {remaining}"),
            format!("x-ratelimit-reset: {reset}"),
        ]
    };
    let format = |reset| FieldFormat::XRateLimit { reset };
    let end = 1_700_000_060;
    assert_eq!(
        told(format(Reset::Epoch)).await,
        [lines(99, end), lines(98, end), lines(0, end)]
    );
    assert_eq!(
        told(format(Reset::Delta)).await,
        [lines(99, 60), lines(98, 50), lines(0, 50)]
    );
}

#[tokio::test]
async fn several_formats_go_side_by_side_and_none_is_none() {
    let both = FieldFormats::new([
        FieldFormat::Draft11,
        FieldFormat::XRateLimit {
            reset: Reset::Delta,
        },
    ]);
    let [first, ..] = told(both.unwrap()).await;
    assert_eq!(
        first,
        [
            r#"ratelimit: "default";r=99;t=60"#,
            r#"ratelimit-policy: "default";q=100;w=60"#,
            "x-ratelimit-limit: 100",
            "x-ratelimit-remaining: 99",
            "x-ratelimit-reset: 60",
        ]
    );
    let nothing: [Vec<String>; 3] = told(FieldFormats::none()).await;
    assert!(nothing.iter().all(Vec::is_empty), "{nothing:?}");
}

#[tokio::test]
async fn redirects_and_by_option_stored_responses_go_without_fields() {
    let respond = |status: u16, cache: Option<&str>| {
        let response = Response::builder().status(status);
        let response = cache.into_iter().fold(response, |response, cache| {
            response.header("cache-control", cache)
        });
        response.body("").unwrap()
    };
    let redirect = || respond(302, None);
    let stored = || respond(200, Some("public, max-age=60"));
    let plain = || respond(200, None);
    let usual = FieldScope::default();
    let careful = usual.cacheable(OnCacheable::Omit);
    let open = usual.redirects(OnRedirect::Send);
    for (scope, response, told) in [
        (Some(usual), redirect(), false),
        (Some(usual), stored(), true),
        (Some(usual), plain(), true),
        (Some(careful), redirect(), false),
        (Some(careful), stored(), false),
        (Some(careful), plain(), true),
        (Some(open), redirect(), true),
        (None, plain(), false),
    ] {
        let (builder, _) = builder([one_a_minute("default")]);
        let layer = builder.fields_when_allowed(scope).build().unwrap();
        let case = format!("{scope:?} {response:?}");
        let cache = response.headers().get("cache-control").cloned();
        let response = send_to(&layer, response, request()).await;
        assert_eq!(!limit_fields(response.headers()).is_empty(), told, "{case}");
        // What an allowed response says of caches is its own business.
        assert_eq!(response.headers().get("cache-control"), cache.as_ref());
        let refused = send_to(&layer, plain(), request()).await;
        assert_eq!(limit_fields(refused.headers()).len(), 2, "{case}");
    }
}

/// The policies of a list, each with its partition.
fn partitions(list: &str) -> Vec<(String, Option<Vec<u8>>)> {
    let list: List = Parser::new(list).parse().unwrap();
    let items = list.into_iter().map(|entry| match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(_) => panic!("an inner list"),
    });
    let partition = |item: sfv::Item| {
        let name = item.bare_item.as_string().unwrap().as_str().to_owned();
        let key = item.params.get("pk").and_then(BareItem::as_byte_sequence);
        (name, key.map(<[u8]>::to_vec))
    };
    items.map(partition).collect()
}

#[tokio::test]
async fn partitions_are_told_by_option_and_never_name_the_key() {
    let tenant = |parts: &http::request::Parts| {
        let tenant = parts.headers.get("x-tenant")?.to_str().ok()?;
        Some(tenant.to_owned())
    };
    let rules = || {
        [
            Rule::fixed_window("tenant", Quota::per_minute(2)).by_fn(tenant),
            hundred(),
        ]
    };
    let from = |tenant: &str| {
        let request = http::Request::get("/").header("x-tenant", tenant);
        request.body(()).unwrap()
    };
    let (plain, _) = builder(rules());
    let plain = plain.build().unwrap();
    let fields = send(&plain, from("acme")).await;
    assert!(!format!("{:?}", fields.headers()).contains("pk="));

    let secret = b"0123456789abcdef";
    let (told, _) = builder(rules());
    let told = told.partition_keys(secret).build().unwrap();
    for tenant in ["acme", "initech", "acme", "acme"] {
        let response = send(&told, from(tenant)).await;
        let headers = response.headers();
        let expected = vec![
            (
                "tenant".to_owned(),
                Some(Key::from(tenant).pseudonym(secret).to_vec()),
            ),
            (
                "default".to_owned(),
                Some(Key::from(0).pseudonym(secret).to_vec()),
            ),
        ];
        for field in ["ratelimit", "ratelimit-policy"] {
            assert_eq!(partitions(value(headers, field).unwrap()), expected);
        }
    }

    let (older, _) = builder(rules());
    let older = older.partition_keys(secret).fields(FieldFormat::Draft07);
    let response = send(&older.build().unwrap(), from("acme")).await;
    assert_eq!(
        limit_fields(response.headers()),
        [
            "ratelimit: limit=2, remaining=1, reset=60",
            "ratelimit-policy: 2;w=60, 100;w=60",
        ]
    );
}
