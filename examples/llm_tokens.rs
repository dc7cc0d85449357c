//! Tokens of a language model: what a request costs is known when its stream has ended. It is
//! admitted while the budget is not spent, and charged what it came to, even into debt.
//!
//! ```text
//! cargo run --example llm_tokens
//! curl -iN 'localhost:3000/?tokens=300'
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Query;
use axum::{Router, routing::get};
use http_body_util::BodyExt;
use ratekeeper_examples as example;
use tower_ratekeeper::{Clock, ManualClock, RateLimitLayer, Rule, Settle, SettleHandle};

#[derive(serde::Deserialize)]
struct Prompt {
    tokens: u64,
}

/// Streams tokens, and says with each what the answer costs so far.
async fn complete(handle: SettleHandle, Query(Prompt { tokens }): Query<Prompt>) -> Body {
    let pieces = (1..=tokens).map(move |sent| {
        handle.settle(Settle::Actual(sent));
        Ok::<_, Infallible>("token ")
    });
    Body::from_stream(tokio_stream::iter(pieces))
}

fn app(quota: &str, clock: Clock) -> Result<Router, Box<dyn Error>> {
    let rule = Rule::token_bucket("tokens", quota.parse()?);
    let rule = rule.cost_later().settle_by_handle();
    let layer = RateLimitLayer::builder().rule(rule).clock(clock).build()?;
    Ok(Router::new().route("/", get(complete)).layer(layer))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if !example::is_check() {
        let quota = example::setting("QUOTA", "1000/min");
        return example::serve(app(&quota, Clock::system())?).await;
    }
    let time = ManualClock::new();
    let app = app("1000/min", time.clone().into())?;
    let peer = [192, 0, 2, 1];
    let ask =
        async |tokens: u64| example::get(&app, peer, &format!("/?tokens={tokens}"), &[]).await;
    assert_eq!(ask(400).await?.body.split_whitespace().count(), 400);
    assert_eq!(ask(900).await?.status, 200, "600 tokens were left, so the request began");
    let refused = ask(1).await?;
    assert_eq!(refused.status, 429, "1300 of 1000 tokens are spent");
    assert_eq!(refused.headers["retry-after"], "19", "301 have to come back, of 1000 a minute");

    // A client that goes away pays for what it was sent.
    time.advance(Duration::from_secs(78));
    let mut response = example::open(&app, peer, "/?tokens=500").await?;
    for _ in 0..100 {
        response.body_mut().frame().await;
    }
    drop(response);
    assert_eq!(ask(0).await?.headers["ratelimit"], "\"tokens\";r=900;t=54");
    Ok(())
}
