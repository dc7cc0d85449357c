//! When refused clients are told to come back.

use std::collections::BTreeSet;
use std::future::{Ready, ready};

use http::StatusCode;
use tower_ratekeeper::core::{Acquire, Answer, Claims, Receipt, Standing, StoreError};
use tower_ratekeeper::{
    Algorithm, Decision, Jitter, Limit, LimitError, Outcome, Quota, RateLimitLayer, Rule, Settle,
    Store, Wait,
};

use super::{
    SECOND, builder, everybody, exhaust, limit_fields, one_a_minute, request, retry_after, send,
    value,
};

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
    Algorithm::SlidingCounter,
];

fn is_bucket(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
}

#[tokio::test]
async fn a_wait_is_rounded_up_and_capped() {
    for (quota, cap, told) in [
        ("1000/s burst 1", None, 1),
        ("1/s", None, 1),
        ("2/3s burst 1", None, 2),
        ("1/min", None, 60),
        ("1/min", Some(10), 10),
        ("1/min", Some(0), 1),
        ("1/day", None, 86_400),
    ] {
        let quota: Quota = quota.parse().unwrap();
        let (mut builder, time) = builder([everybody(Rule::token_bucket("default", quota))]);
        if let Some(cap) = cap {
            builder = builder.retry_after_cap(cap);
        }
        let layer = builder.build().unwrap();
        exhaust(&layer).await;
        let refused = send(&layer, request()).await;
        assert_eq!(retry_after(refused.headers()), Some(told), "{quota}");
        if cap.is_none() {
            time.advance(SECOND * u32::try_from(told).unwrap());
            assert_eq!(send(&layer, request()).await.status(), StatusCode::OK);
        }
    }
}

/// The different waits that many clients are told who are refused at once.
async fn crowd(rule: Rule) -> BTreeSet<u64> {
    let (builder, _) = builder([rule]);
    let layer = builder.build().unwrap();
    exhaust(&layer).await;
    let mut told = BTreeSet::new();
    for _ in 0..300 {
        let refused = send(&layer, request()).await;
        let seconds = retry_after(refused.headers()).unwrap();
        let window = value(refused.headers(), "ratelimit").unwrap();
        assert!(window.ends_with(";r=0;t=60"), "{window}");
        told.insert(seconds);
    }
    told
}

#[tokio::test]
async fn only_window_algorithms_spread_their_clients_unless_told_otherwise() {
    for algorithm in ALGORITHMS {
        let rule = || everybody(Rule::with("default", algorithm, Quota::per_minute(1)));
        let exactly = crowd(rule().jitter(Jitter::none())).await;
        assert_eq!(exactly.len(), 1, "{exactly:?} of {algorithm:?}");
        let wait = *exactly.first().unwrap();
        let told = crowd(rule()).await;
        if is_bucket(algorithm) {
            assert_eq!(told, exactly, "{algorithm:?}");
        } else {
            // A tenth of the window. That nothing is added is as good as never drawn.
            let spread: BTreeSet<u64> = (wait..=wait + 6).collect();
            assert!(told.is_subset(&spread), "{told:?} of {algorithm:?}");
            assert!(told.len() >= 6, "{told:?} of {algorithm:?}");
        }
        let told = crowd(rule().jitter(Jitter::up_to(3 * SECOND))).await;
        let spread: BTreeSet<u64> = (wait..=wait + 3).collect();
        assert!(told.is_subset(&spread), "{told:?} of {algorithm:?}");
        assert!(told.len() >= 3, "{told:?} of {algorithm:?}");
    }
}

#[tokio::test]
async fn what_never_fits_is_told_no_time_and_charged_nothing() {
    let (builder, _) = builder([
        everybody(Rule::token_bucket("default", Quota::per_minute(5))).cost_by(|parts| {
            if parts.method == http::Method::POST {
                6
            } else {
                5
            }
        }),
    ]);
    let layer = builder.build().unwrap();
    let post = || http::Request::post("/").body(()).unwrap();
    let never = send(&layer, post()).await;
    assert_eq!(never.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(retry_after(never.headers()), None);
    assert_eq!(
        value(never.headers(), "ratelimit"),
        Some(r#""default";r=5;t=60"#)
    );
    assert_eq!(send(&layer, request()).await.status(), StatusCode::OK);

    let (denying, _) = super::builder([everybody(Rule::deny_all("default"))]);
    let denied = send(&denying.build().unwrap(), request()).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(retry_after(denied.headers()), None);
    assert!(limit_fields(denied.headers()).is_empty());
}

/// Refuses everything without knowing for how long, as one that counts permits does.
struct Unsure;

impl Store for Unsure {
    type Future = Ready<Result<Answer, StoreError>>;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
        let mut decision = Decision::UNLIMITED;
        for _ in claims.as_slice() {
            let standing = Standing {
                remaining: 0,
                next: 0,
                reset: 0,
            };
            decision.push(Outcome::new(standing, Wait::Unknown), false);
        }
        Acquire::Later(ready(Ok(Answer {
            decision,
            receipts: Vec::new(),
        })))
    }

    fn settle(&self, _: Receipt, _: Settle) {}

    fn supports(&self, _: &Limit) -> Result<(), LimitError> {
        Ok(())
    }
}

#[tokio::test]
async fn an_unknown_wait_is_not_told() {
    let rule = one_a_minute("default");
    let layer = RateLimitLayer::builder().rule(rule).store(Unsure).build();
    let refused = send(&layer.unwrap(), request()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(retry_after(refused.headers()), None);
    assert_eq!(
        value(refused.headers(), "ratelimit"),
        Some(r#""default";r=0;t=1"#)
    );
}
