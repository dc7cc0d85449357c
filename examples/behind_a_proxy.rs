//! Behind nginx on the same host: clients are told apart by the address that nginx appends to
//! `X-Forwarded-For`, whatever they write there themselves.
//!
//! ```text
//! cargo run --example behind_a_proxy
//! # nginx: location / { proxy_pass http://127.0.0.1:3000;
//! #                     proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }
//! curl -i -H 'x-forwarded-for: 6.6.6.6' localhost:8080
//! ```

use std::error::Error;

use axum::{Router, routing::get};
use ratekeeper_examples as example;
use tower_ratekeeper::key::{FrontEnd, Networks};
use tower_ratekeeper::{Quota, RateLimitLayer, Rule, RuleError};

fn app(quota: Quota) -> Result<Router, RuleError> {
    // Only what runs on this host is believed; a client that connects directly is its own peer.
    let client = FrontEnd::Nginx.within(Networks::loopback());
    let limit = RateLimitLayer::new([
        Rule::token_bucket("per-client", quota).by(client.clone()),
        // A site that owns many IPv6 networks is held as a whole, more generously.
        Rule::token_bucket("per-site", Quota::new(quota.units() * 16, quota.period()))
            .by(client.site()),
    ])?;
    Ok(Router::new().route("/", get(async || "hello\n")).layer(limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = app(example::setting("QUOTA", "10/min").parse()?)?;
    if !example::is_check() {
        return example::serve(app).await;
    }
    let (nginx, stranger) = ([127, 0, 0, 1], [198, 51, 100, 66]);
    let mut admitted = 0;
    for forged in 1..=100 {
        let chain = format!("6.6.6.{forged}, 203.0.113.7");
        let reply = example::get(&app, nginx, "/", &[("x-forwarded-for", &chain)]).await?;
        admitted += usize::from(reply.status == 200);
    }
    assert_eq!(admitted, 10, "one client, whatever it writes");

    let other = [("x-forwarded-for", "203.0.113.8")];
    assert_eq!(example::get(&app, nginx, "/", &other).await?.status, 200);
    // From outside the field is worth nothing.
    for _ in 0..10 {
        assert_eq!(example::get(&app, stranger, "/", &other).await?.status, 200);
    }
    assert_eq!(example::get(&app, stranger, "/", &other).await?.status, 429);
    Ok(())
}
