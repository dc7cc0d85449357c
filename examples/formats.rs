//! The header fields in every format, each under a path of its own, to see what a client reads.
//!
//! ```text
//! cargo run --example formats
//! curl -i localhost:3000/draft-11
//! ```

use std::error::Error;
use std::time::Duration;

use axum::{Router, routing::get};
use ratekeeper_examples as example;
use tower_ratekeeper::fields::{FieldFormat, Reset};
use tower_ratekeeper::{Clock, Jitter, ManualClock, Quota, RateLimitLayer, Rule, RuleError};

const FORMATS: [(&str, FieldFormat); 5] = [
    ("/draft-11", FieldFormat::Draft11),
    ("/draft-07", FieldFormat::Draft07),
    ("/draft-06", FieldFormat::Draft06),
    ("/x-epoch", FieldFormat::XRateLimit { reset: Reset::Epoch }),
    ("/x-delta", FieldFormat::XRateLimit { reset: Reset::Delta }),
];

fn app(quota: Quota, clock: &Clock) -> Result<Router, RuleError> {
    let mut app = Router::new();
    for (path, format) in FORMATS {
        let layer = RateLimitLayer::builder()
            .rule(Rule::fixed_window("default", quota).jitter(Jitter::none()))
            .clock(clock.clone())
            .fields(format)
            .build()?;
        app = app.merge(Router::new().route(path, get(async || "hello\n")).layer(layer));
    }
    Ok(app)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if !example::is_check() {
        let quota = example::setting("QUOTA", "3/min").parse()?;
        return example::serve(app(quota, &Clock::system())?).await;
    }
    let time = ManualClock::new();
    time.set_unix(Duration::from_secs(1_700_000_000));
    let app = app(Quota::per_minute(100), &time.into())?;
    let named = ("ratelimit-policy", r#""default";q=100;w=60"#);
    let policy = ("ratelimit-policy", "100;w=60");
    for (path, fields) in [
        ("/draft-11", &[("ratelimit", r#""default";r=99;t=60"#), named][..]),
        ("/draft-07", &[("ratelimit", "limit=100, remaining=99, reset=60"), policy]),
        ("/draft-06", &[("ratelimit-limit", "100"), ("ratelimit-remaining", "99"), policy]),
        ("/x-epoch", &[("x-ratelimit-limit", "100"), ("x-ratelimit-reset", "1700000060")]),
        ("/x-delta", &[("x-ratelimit-remaining", "99"), ("x-ratelimit-reset", "60")]),
    ] {
        let reply = example::get(&app, [192, 0, 2, 1], path, &[]).await?;
        for (name, value) in fields {
            assert_eq!(reply.headers[*name], value, "{path}");
        }
    }
    Ok(())
}
