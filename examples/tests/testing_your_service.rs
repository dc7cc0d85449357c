//! How a service tests its own limits: the clock is moved by hand, or the limits are switched off.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use ratekeeper_examples as example;
use tower_ratekeeper::{ManualClock, Quota, RateLimitLayer, Rule, RuleError};

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).layer(layer)
}

async fn status(app: &Router) -> u16 {
    let reply = example::get(app, [192, 0, 2, 1], "/", &[]).await;
    reply.map_or(0, |reply| reply.status.as_u16())
}

#[tokio::test]
async fn a_refused_client_passes_when_the_time_it_was_told_is_over() -> Result<(), RuleError> {
    let time = ManualClock::new();
    let layer = RateLimitLayer::builder()
        .rule(Rule::token_bucket("per-client", Quota::new(2, Duration::from_secs(5))))
        .clock(time.clone())
        .build()?;
    let app = app(layer);
    assert_eq!([status(&app).await, status(&app).await], [200, 200]);

    let refused = example::get(&app, [192, 0, 2, 1], "/", &[]).await.unwrap();
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["retry-after"], "3", "two and a half seconds, rounded up");

    time.advance(Duration::from_millis(2_499));
    assert_eq!(status(&app).await, 429);
    time.advance(Duration::from_millis(1));
    assert_eq!(status(&app).await, 200);
    Ok(())
}

#[tokio::test]
async fn limits_can_be_switched_off_for_tests_of_what_is_behind_them() -> Result<(), RuleError> {
    let layer = RateLimitLayer::builder()
        .rule(Rule::token_bucket("per-client", Quota::per_minute(1)))
        .disabled()
        .build()?;
    let app = app(layer.clone());
    for _ in 0..10 {
        assert_eq!(status(&app).await, 200);
    }
    layer.handle().set_enabled(true);
    assert_eq!([status(&app).await, status(&app).await], [200, 429]);
    Ok(())
}
