//! Three algorithms in one service: a token bucket for pages, a sliding log for coupons, where one
//! too many is money, and a sliding counter for a long window at scale.
//!
//! ```text
//! cargo run --example hybrid
//! curl -i localhost:3000/ ; curl -i -X POST localhost:3000/coupons/spring
//! ```

use std::error::Error;

use axum::Router;
use axum::routing::{get, post};
use ratekeeper_examples as example;
use tower_ratekeeper::{Limit, ManualClock, Memory, Quota, RateLimitLayer, Rule, RuleError};

fn rules(pages: Quota) -> [Rule; 3] {
    [
        Rule::token_bucket("pages", pages),
        Rule::sliding_log("coupons", Quota::per_minute(3)).on(["POST"], ["/coupons/*"]),
        Rule::sliding_counter("daily", Quota::per_day(5_000)),
    ]
}

fn app(pages: Quota, memory: Memory) -> Result<Router, RuleError> {
    let layer = RateLimitLayer::builder().rules(rules(pages)).store(memory).build()?;
    let app = Router::new()
        .route("/", get(async || "page\n"))
        .route("/coupons/{name}", post(async || "10 % off\n"));
    Ok(app.layer(layer))
}

#[expect(clippy::print_stdout, reason = "this is what the example shows")]
fn print_sizes(memory: &Memory, limits: &[Limit]) {
    for limit in limits {
        println!(
            "{limit}: {} keys, about {} bytes each",
            memory.entries(limit),
            limit.bytes_per_key()
        );
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pages: Quota = example::setting("QUOTA", "10/s burst 20").parse()?;
    if !example::is_check() {
        return example::serve(app(pages, Memory::new())?).await;
    }
    let time = ManualClock::new();
    let memory = Memory::builder().clock(time.clone()).build();
    let app = app(pages, memory.clone())?;
    let coupon = async |last| {
        let request = http::Request::post("/coupons/spring").body(axum::body::Body::empty())?;
        Ok::<_, Box<dyn Error>>(example::ask(&app, [192, 0, 2, last], request).await?.status)
    };
    for _ in 0..3 {
        assert_eq!(coupon(1).await?, 200);
    }
    assert_eq!(coupon(1).await?, 429, "the fourth coupon within a minute");
    assert_eq!(example::get(&app, [192, 0, 2, 1], "/", &[]).await?.status, 200, "pages go on");
    for last in 2..200 {
        assert_eq!(coupon(last).await?, 200);
    }
    let limits = [
        Limit::token_bucket("pages", pages)?,
        Limit::sliding_log("coupons", Quota::per_minute(3))?,
        Limit::sliding_counter("daily", Quota::per_day(5_000))?,
    ];
    print_sizes(&memory, &limits);
    assert_eq!(limits.map(|limit| memory.entries(&limit)), [199; 3]);
    Ok(())
}
