//! What clients are told: header fields and bodies, on responses and on refusals.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use proptest::prelude::*;
use tower::{Layer, ServiceExt, service_fn};
use tower_ratekeeper::fields::{FieldFormat, FieldFormats, Reset};
use tower_ratekeeper::grpc::Code;
use tower_ratekeeper::{
    Algorithm, BodyFormat, Grpc, Jitter, ManualClock, Memory, Quota, RateLimitLayer,
    RateLimitLayerBuilder, Reason, Rule, Wait,
};

use crate::support::{
    Fine, MINUTE, SECOND, TestStore, at_once, bucket, empty, field, full, key_of, poll_once,
    request, request_to, send, text_of,
};

fn builder(rules: impl IntoIterator<Item = Rule>) -> (RateLimitLayerBuilder, ManualClock) {
    let clock = ManualClock::new();
    let builder = RateLimitLayer::builder().rules(rules).clock(clock.clone());
    (builder, clock)
}

fn heads<B>(response: &Response<B>) -> Vec<(String, String)> {
    let fields = response.headers().iter();
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let mut heads: Vec<_> = fields
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect();
    heads.sort();
    heads
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

#[tokio::test]
async fn an_allowed_response_carries_two_fields_and_a_refusal_all() {
    let (builder, _) = builder([bucket("per-key").cost(10)]);
    let layer = builder.build().unwrap();
    let allowed = send(&layer, request(1)).await;
    let policy = ("ratelimit-policy", r#""per-key";q=10;w=60"#);
    let expected = [("ratelimit", r#""per-key";r=0;t=6"#), policy];
    assert_eq!(heads(&allowed), pairs(&expected));
    assert_eq!(text_of(allowed.into_body()).await, "ok");

    let body = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["per-key"]}"#;
    for method in ["GET", "HEAD", "POST"] {
        let refused = send(&layer, request_to(method, "/", 1)).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let expected = [
            ("cache-control", "no-store"),
            ("content-length", &*body.len().to_string()),
            ("content-type", "application/problem+json"),
            ("ratelimit", r#""per-key";r=0;t=6"#),
            policy,
            ("retry-after", "60"),
        ];
        assert_eq!(heads(&refused), pairs(&expected), "{method}");
        assert_eq!(text_of(refused.into_body()).await, body);
    }
}

#[tokio::test]
async fn the_most_constrained_rule_stands_first_and_a_refusing_one_before_all() {
    let (builder, clock) = builder([
        bucket("roomy"),
        bucket("tight").cost(9),
        Rule::sliding_counter("day", Quota::per_day(100)).by_fn(key_of),
        Rule::fixed_window("hour", Quota::per_hour(10))
            .by_fn(key_of)
            .cost(9),
    ]);
    let layer = builder.build().unwrap();
    let names = |response: &Response<_>| -> Vec<String> {
        let standing = field(response, "ratelimit").unwrap();
        standing
            .split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    // Of a tenth left each, the one that is longer to wait for.
    let allowed = send(&layer, request(1)).await;
    assert_eq!(names(&allowed), ["hour", "tight", "roomy", "day"]);
    clock.advance(12 * SECOND);
    // Both refuse: the hour stays the longer. Of the others the day has less left.
    let refused = send(&layer, request(1)).await;
    assert_eq!(names(&refused), ["hour", "tight", "day", "roomy"]);
    let body: serde_json::Value =
        serde_json::from_str(&text_of(refused.into_body()).await).unwrap();
    assert_eq!(
        body["violated-policies"],
        serde_json::json!(["tight", "hour"])
    );
    clock.advance(48 * SECOND);
    // Only the hour refuses.
    let refused = send(&layer, request(1)).await;
    assert_eq!(
        names(&refused),
        ["hour", "day", "roomy", "tight"].map(|n| n.to_owned())
    );
    let policies = field(&refused, "ratelimit-policy").unwrap();
    let expected =
        r#""roomy";q=10;w=60, "tight";q=10;w=60, "day";q=100;w=86400, "hour";q=10;w=3600"#;
    assert_eq!(policies, expected);
}

/// What a `RateLimit` field says: the remaining units and the seconds of each item.
fn items(value: &str) -> Vec<(u64, u64)> {
    let number = |item: &str, key: &str| -> u64 {
        let value = item.split(';').find_map(|part| part.strip_prefix(key));
        value.unwrap().parse().unwrap()
    };
    let items = value.split(", ");
    items
        .map(|item| (number(item, "r="), number(item, "t=")))
        .collect()
}

proptest! {
    /// Whatever was spent: no window lasts longer than the client is told to wait, and waiting is enough.
    #[test]
    fn windows_end_within_the_wait_and_the_wait_is_enough(
        algorithms in prop::sample::subsequence(vec![
            Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::FixedWindow, Algorithm::SlidingLog, Algorithm::SlidingCounter,
        ], 1..=5),
        quotas in prop::collection::vec((1..=20_u64, prop::sample::select(vec![1_u64, 7, 60, 3_600])), 5),
        steps in prop::collection::vec((0..=90_000_u64, 1..=25_u64), 1..=25),
    ) {
        let rules = algorithms.iter().zip(quotas).map(|(algorithm, (units, period))| {
            let quota = Quota::new(units, Duration::from_secs(period));
            let rule = Rule::with(&algorithm.to_string(), *algorithm, quota).by_fn(key_of);
            rule.cost_by(|parts| parts.headers["x-cost"].to_str().unwrap().parse().unwrap())
        });
        let clock = ManualClock::new();
        // A store for few keys is quickly made.
        let store = Memory::builder().clock(clock.clone()).max_keys(8).max_log_entries(64).build();
        let layer = RateLimitLayer::builder().rules(rules).store(store).build().unwrap();
        let costing = |cost: u64| {
            let mut request = request(1);
            request.headers_mut().insert("x-cost", cost.into());
            request
        };
        for (millis, cost) in steps {
            clock.advance(Duration::from_millis(millis));
            let response = at_once(send(&layer, costing(cost)));
            let standing = items(&field(&response, "ratelimit").unwrap());
            prop_assert_eq!(standing.len(), algorithms.len());
            prop_assert!(standing.iter().all(|(_, window)| *window >= 1));
            if response.status() == StatusCode::OK {
                prop_assert_eq!(field(&response, "retry-after"), None);
                continue;
            }
            let Some(wait) = field(&response, "retry-after") else {
                continue;
            };
            let wait: u64 = wait.parse().unwrap();
            prop_assert!(standing.iter().all(|(_, window)| *window <= wait), "{:?} in {}", standing, wait);
            clock.advance(Duration::from_secs(wait));
            prop_assert_eq!(at_once(send(&layer, costing(cost))).status(), StatusCode::OK);
        }
    }
}

#[tokio::test]
async fn fields_of_allowed_responses_can_be_left_out_and_refusals_keep_them() {
    let (builder, _) = builder([bucket("per-key").cost(10)]);
    let layer = builder.fields_when_allowed(None).build().unwrap();
    assert_eq!(heads(&send(&layer, request(1)).await), []);
    let refused = send(&layer, request(1)).await;
    assert_eq!(
        field(&refused, "ratelimit").as_deref(),
        Some(r#""per-key";r=0;t=6"#)
    );
    let (builder, _) = self::builder([bucket("per-key").cost(10)]);
    let layer = builder.fields(FieldFormats::none()).build().unwrap();
    assert_eq!(heads(&send(&layer, request(1)).await), []);
    let names: Vec<_> = heads(&send(&layer, request(1)).await)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "cache-control",
            "content-length",
            "content-type",
            "retry-after"
        ]
    );
}

#[tokio::test]
async fn the_customary_fields_name_the_second_of_the_reset() {
    let (builder, clock) =
        builder([Rule::fixed_window("per-key", Quota::per_minute(2)).by_fn(key_of)]);
    clock.set_unix(Duration::from_millis(1_700_000_000_200));
    let epoch = FieldFormat::XRateLimit {
        reset: Reset::Epoch,
    };
    let layer = builder.fields(epoch).build().unwrap();
    // The window ends at …060.2; the field says the same second in every reply.
    for (left, expected) in [("1", 200), ("0", 200), ("0", 429)] {
        let response = send(&layer, request(1)).await;
        assert_eq!(response.status(), expected);
        assert_eq!(field(&response, "x-ratelimit-limit").as_deref(), Some("2"));
        assert_eq!(
            field(&response, "x-ratelimit-remaining").as_deref(),
            Some(left)
        );
        assert_eq!(
            field(&response, "x-ratelimit-reset").as_deref(),
            Some("1700000061")
        );
        assert_eq!(field(&response, "ratelimit"), None);
        clock.advance(Duration::from_millis(400));
    }
    let (builder, _) = self::builder([bucket("per-key").cost(10)]);
    let delta = FieldFormat::XRateLimit {
        reset: Reset::Delta,
    };
    let both = FieldFormats::new([FieldFormat::Draft11, delta]).unwrap();
    let layer = builder.fields(both).build().unwrap();
    let response = send(&layer, request(1)).await;
    assert_eq!(field(&response, "x-ratelimit-reset").as_deref(), Some("6"));
    assert_eq!(
        field(&response, "ratelimit").as_deref(),
        Some(r#""per-key";r=0;t=6"#)
    );
}

/// Sends a request to a service that answers with these fields.
async fn beside(
    layer: &RateLimitLayer,
    fields: &[(&'static str, &'static str)],
    status: StatusCode,
) -> Response<tower_ratekeeper::RateLimitBody<Full<Bytes>>> {
    let service = service_fn(|_: Request<()>| {
        let mut response = Response::new(full("ok"));
        *response.status_mut() = status;
        for (name, value) in fields {
            response
                .headers_mut()
                .append(*name, HeaderValue::from_static(value));
        }
        async { Ok::<_, Infallible>(response) }
    });
    layer.layer(service).oneshot(request(1)).await.unwrap()
}

#[tokio::test]
async fn what_the_service_says_of_limits_of_its_own_stays() {
    let (builder, _) = builder([bucket("per-key")]);
    let layer = builder.build().unwrap();
    let inner = [
        ("ratelimit", r#""inner";r=1;t=1"#),
        ("cache-control", "max-age=60"),
    ];
    let response = beside(&layer, &inner, StatusCode::OK).await;
    let lines: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(lines, [r#""inner";r=1;t=1"#, r#""per-key";r=9;t=54"#]);
    assert_eq!(
        field(&response, "cache-control").as_deref(),
        Some("max-age=60")
    );
    let redirect = beside(&layer, &[], StatusCode::FOUND).await;
    assert_eq!(heads(&redirect), []);
}

#[tokio::test]
async fn a_responders_own_fields_win_and_the_others_are_added() {
    let (builder, _) = builder([bucket("other"), bucket("per-key").cost(10)]);
    let layer = builder
        .fields(
            FieldFormats::new([
                FieldFormat::Draft11,
                FieldFormat::XRateLimit {
                    reset: Reset::Delta,
                },
            ])
            .unwrap(),
        )
        .respond_with(|refusal, parts| {
            assert_eq!(refusal.rules, ["per-key"]);
            assert_eq!(refusal.reason, Reason::Limited);
            assert_eq!(refusal.retry_after, Some(60));
            assert_eq!(refusal.wait, Wait::For(MINUTE));
            assert_eq!(refusal.decision.unwrap().outcomes().len(), 2);
            let mut response = Response::new(parts.uri.path().to_owned());
            *response.status_mut() = StatusCode::FORBIDDEN;
            let headers = response.headers_mut();
            for (name, value) in [
                ("retry-after", "7"),
                ("cache-control", "private"),
                ("content-type", "text/plain"),
                ("ratelimit", r#""mine";r=3;t=1"#),
                ("x-ratelimit-remaining", "5"),
            ] {
                headers.insert(name, HeaderValue::from_static(value));
            }
            response
        })
        .build()
        .unwrap();
    assert_eq!(send(&layer, request(1)).await.status(), StatusCode::OK);
    let refused = send(&layer, request_to("GET", "/path", 1)).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let expected = [
        // No response to a refused request may be stored, whatever else is said of caches.
        ("cache-control", "no-store"),
        ("cache-control", "private"),
        ("content-length", "5"),
        ("content-type", "text/plain"),
        ("ratelimit", r#""mine";r=3;t=1"#),
        (
            "ratelimit-policy",
            r#""other";q=10;w=60, "per-key";q=10;w=60"#,
        ),
        ("retry-after", "7"),
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "5"),
        ("x-ratelimit-reset", "6"),
    ];
    assert_eq!(heads(&refused), pairs(&expected));
    assert_eq!(text_of(refused.into_body()).await, "/path");
}

#[tokio::test]
async fn bodies_are_problems_one_line_or_none() {
    for (format, kind, body) in [
        (
            BodyFormat::Plain,
            Some("text/plain; charset=utf-8"),
            "rate limit exceeded: one, two\n",
        ),
        (BodyFormat::Empty, None, ""),
    ] {
        let (builder, _) = builder([bucket("one").cost(10), bucket("two").cost(10)]);
        let layer = builder.body(format).build().unwrap();
        send(&layer, request(1)).await;
        let refused = send(&layer, request(1)).await;
        assert_eq!(field(&refused, "content-type").as_deref(), kind);
        assert_eq!(
            field(&refused, "cache-control").as_deref(),
            Some("no-store")
        );
        assert_eq!(text_of(refused.into_body()).await, body);
    }
}

#[tokio::test]
async fn the_wait_is_capped_and_jitter_only_adds() {
    let (builder, _) = builder([bucket("per-key").cost(10)]);
    let layer = builder.retry_after_cap(20).build().unwrap();
    send(&layer, request(1)).await;
    let refused = send(&layer, request(1)).await;
    assert_eq!(field(&refused, "retry-after").as_deref(), Some("20"));
    let rule = || bucket("per-key").cost(10);
    let (builder, _) = self::builder([rule().jitter(Jitter::up_to(30 * SECOND))]);
    let layer = builder.build().unwrap();
    send(&layer, request(1)).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let refused = send(&layer, request(1)).await;
        seen.insert(
            field(&refused, "retry-after")
                .unwrap()
                .parse::<u64>()
                .unwrap(),
        );
    }
    assert!(
        *seen.first().unwrap() >= 60 && *seen.last().unwrap() <= 90,
        "{seen:?}"
    );
    assert!(seen.len() > 20, "{seen:?}");
}

fn grpc_call(key: u64) -> Request<()> {
    let mut call = request_to("POST", "/pkg.Service/Method", key);
    let kind = HeaderValue::from_static("application/grpc");
    call.headers_mut().insert("content-type", kind);
    call
}

#[tokio::test]
async fn grpc_calls_are_answered_in_their_own_terms_where_that_is_switched_on() {
    let rules = || [bucket("per-key").cost(10)];
    let (plain, _) = builder(rules());
    let layer = plain.build().unwrap();
    send(&layer, grpc_call(1)).await;
    assert_eq!(
        send(&layer, grpc_call(1)).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );

    let (on, _) = builder(rules());
    let layer = on.grpc(Grpc::new("api.example.org")).build().unwrap();
    send(&layer, grpc_call(1)).await;
    let refused = send(&layer, grpc_call(1)).await;
    assert_eq!(refused.status(), StatusCode::OK);
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("grpc-status", "8"),
        ("cache-control", "no-store"),
        ("retry-after", "60"),
        ("ratelimit", r#""per-key";r=0;t=6"#),
    ] {
        assert_eq!(field(&refused, name).as_deref(), Some(value));
    }
    assert_eq!(text_of(refused.into_body()).await, "");
    // Others are refused as ever.
    assert_eq!(
        send(&layer, request(1)).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );

    let (other, _) = builder(rules());
    let grpc = Grpc::new("api.example.org").code(Code::Unavailable);
    let layer = other.grpc(grpc).build().unwrap();
    send(&layer, grpc_call(1)).await;
    let refused = send(&layer, grpc_call(1)).await;
    assert_eq!(field(&refused, "grpc-status").as_deref(), Some("14"));
}

#[tokio::test]
async fn a_failed_store_is_unavailable_in_grpc_terms_too() {
    let store = TestStore::later(&ManualClock::new());
    let layer = RateLimitLayer::builder()
        .store(store.clone())
        .rule(bucket("per-key"))
        .grpc(Grpc::new("api.example.org"))
        .build()
        .unwrap();
    let mut call = Box::pin(layer.layer(Fine).oneshot(grpc_call(1)));
    assert!(poll_once(call.as_mut()).is_pending());
    store.fail(tower_ratekeeper::core::StoreErrorKind::Timeout);
    let refused = call.await.unwrap();
    assert_eq!(refused.status(), StatusCode::OK);
    assert_eq!(field(&refused, "grpc-status").as_deref(), Some("14"));
}

/// The response already has as many fields as a map takes.
#[tokio::test]
async fn a_response_without_room_for_another_field_goes_out_without_it() {
    let (builder, _) = builder([bucket("per-key").cost(10)]);
    let layer = builder
        .respond_with(|_, _| {
            let mut response = Response::new("");
            *response.headers_mut() = overfull();
            response
        })
        .build()
        .unwrap();
    let service = service_fn(|_: Request<()>| async {
        let mut response = Response::new(empty());
        *response.headers_mut() = overfull();
        Ok::<_, Infallible>(response)
    });
    let service = layer.layer(service);
    for _ in 0..2 {
        let response = service.clone().oneshot(request(1)).await.unwrap();
        assert!(response.headers().len() >= 24_576);
    }
}

fn overfull() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for number in 0.. {
        let name: http::HeaderName = format!("x-{number}").parse().unwrap();
        if headers
            .try_insert(name, HeaderValue::from_static(""))
            .is_err()
        {
            break;
        }
    }
    headers
}
