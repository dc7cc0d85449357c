//! Plans, and what a request costs.

use http::{Request, StatusCode};
use proptest::prelude::*;
use tower_ratekeeper::{Limit, Quota, Rule};

use crate::support::{
    admitted, at_once, bucket, field, layer, remaining, request, send, status, text_of,
};

fn limit(name: &str) -> Limit {
    Limit::token_bucket(name, Quota::per_minute(10)).unwrap()
}

fn planned() -> Rule {
    bucket("per-key")
        .plan("pro", Quota::per_minute(30))
        .unlimited_plan("staff")
        .quota_by(|parts| parts.headers.get("x-plan")?.to_str().ok())
}

fn on_plan(key: u64, plan: &str) -> Request<()> {
    let mut request = request(key);
    request
        .headers_mut()
        .insert("x-plan", plan.parse().unwrap());
    request
}

#[tokio::test]
async fn a_plan_that_nobody_knows_is_the_rules_own_quota() {
    let (layer, _) = layer([planned()]);
    for (key, plan, policy) in [
        (1, "pro", Some(r#""per-key";q=30;w=60"#)),
        (2, "", Some(r#""per-key";q=10;w=60"#)),
        (3, "Pro", Some(r#""per-key";q=10;w=60"#)),
        (4, "enterprise", Some(r#""per-key";q=10;w=60"#)),
        (5, "staff", None),
    ] {
        let response = send(&layer, on_plan(key, plan)).await;
        assert_eq!(
            field(&response, "ratelimit-policy").as_deref(),
            policy,
            "{plan}"
        );
    }
    assert_eq!(admitted(&layer, 6, 12).await, 10);
}

#[tokio::test]
async fn what_was_used_stays_used_when_the_plan_changes() {
    let (layer, _) = layer([planned()]);
    assert_eq!(admitted(&layer, 1, 10).await, 10);
    let response = send(&layer, on_plan(1, "pro")).await;
    assert_eq!(
        field(&response, "ratelimit").as_deref(),
        Some(r#""per-key";r=19;t=38"#)
    );
    for _ in 0..19 {
        assert_eq!(status(&layer, on_plan(1, "pro")).await, StatusCode::OK);
    }
    for plan in ["pro", "", "pro", "unknown"] {
        assert_eq!(
            status(&layer, on_plan(1, plan)).await,
            StatusCode::TOO_MANY_REQUESTS
        );
    }
    // What is not limited uses nothing and leaves no trace.
    assert_eq!(status(&layer, on_plan(1, "staff")).await, StatusCode::OK);
    assert_eq!(
        status(&layer, on_plan(1, "pro")).await,
        StatusCode::TOO_MANY_REQUESTS
    );
}

proptest! {
    /// Going back and forth between plans yields no more than the larger one.
    #[test]
    fn flipping_plans_gains_nothing(plans in prop::collection::vec(any::<bool>(), 0..200)) {
        let (layer, _) = layer([planned()]);
        let sent = plans.iter().map(|pro| at_once(status(&layer, on_plan(1, if *pro { "pro" } else { "" }))));
        let admitted = sent.filter(|status| *status == StatusCode::OK).count();
        prop_assert!(admitted <= 30);
        let pro = plans.iter().filter(|pro| **pro).count();
        prop_assert!(admitted >= pro.min(30), "{} of {}", admitted, pro);
    }
}

fn costing(key: u64, cost: u64) -> Request<()> {
    let mut request = request(key);
    request.headers_mut().insert("x-cost", cost.into());
    request
}

fn cost_of(parts: &http::request::Parts) -> u64 {
    let cost = parts
        .headers
        .get("x-cost")
        .and_then(|cost| cost.to_str().ok());
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(1)
}

#[tokio::test]
async fn a_request_above_the_most_that_one_may_cost_is_refused_with_413_and_charged_nowhere() {
    let (layer, _) = layer([
        bucket("other"),
        bucket("units").cost_by(cost_of).max_cost(4),
    ]);
    assert_eq!(status(&layer, costing(1, 4)).await, StatusCode::OK);
    for cost in [5, 7, 11, u64::MAX] {
        let refused = send(&layer, costing(1, cost)).await;
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
        for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
            assert_eq!(field(&refused, name), None);
        }
        assert_eq!(
            field(&refused, "cache-control").as_deref(),
            Some("no-store")
        );
        let body = text_of(refused.into_body()).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (body["status"].as_u64(), &body["type"]),
            (Some(413), &"about:blank".into())
        );
    }
    assert_eq!(remaining(&layer, &limit("units"), 1), 6);
    assert_eq!(remaining(&layer, &limit("other"), 1), 9);
    // Also where the bucket is empty, which waiting would mend: this waiting would not.
    assert_eq!(status(&layer, costing(1, 4)).await, StatusCode::OK);
    assert_eq!(
        status(&layer, costing(1, 4)).await,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(
        status(&layer, costing(1, 5)).await,
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

#[tokio::test]
async fn a_cost_above_the_capacity_has_no_retry_after_and_leaves_the_key_as_it_was() {
    let (layer, _) = layer([bucket("units").cost_by(cost_of), bucket("other")]);
    let refused = send(&layer, costing(1, 11)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&refused, "retry-after"), None);
    let body = text_of(refused.into_body()).await;
    assert!(body.contains(r#""violated-policies":["units"]"#), "{body}");
    assert_eq!(layer.store().entries(&limit("units")), 0);
    assert_eq!(layer.store().entries(&limit("other")), 0);
    assert_eq!(status(&layer, costing(1, 10)).await, StatusCode::OK);
}

#[tokio::test]
async fn a_cost_that_the_client_names_can_only_raise_the_floor() {
    let (layer, _) = layer([bucket("units").cost_at_least(2, cost_of)]);
    for (cost, left) in [(0, 8), (1, 6), (3, 3)] {
        assert_eq!(status(&layer, costing(1, cost)).await, StatusCode::OK);
        assert_eq!(remaining(&layer, &limit("units"), 1), left);
    }
    let (layer, _) = self::layer([bucket("units").cost_by(|_| 0)]);
    assert_eq!(admitted(&layer, 1, 50).await, 50);
    assert_eq!(layer.store().entries(&limit("units")), 0);
}

#[tokio::test]
async fn a_cost_that_nobody_tells_is_one_unit() {
    let rule = bucket("tokens");
    let (layer, _) = layer([rule.cost_later().settle_by_handle()]);
    // The client goes away, again and again, before the handler has said a word.
    for _ in 0..10 {
        let response = send(&layer, request(1)).await;
        assert_eq!(response.status(), StatusCode::OK);
        drop(response);
    }
    assert_eq!(
        status(&layer, request(1)).await,
        StatusCode::TOO_MANY_REQUESTS
    );
}
