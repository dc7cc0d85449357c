//! A new limit in the dark: it counts, refuses nothing and is never shown; then it is enforced for
//! a share of the clients, and then for all, while the server runs.
//!
//! ```text
//! cargo run --example shadow
//! curl -i localhost:3000            # only the old limit is seen
//! curl -X POST localhost:3000/enforce
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::{get, post};
use ratekeeper_examples as example;
use tower_ratekeeper::core::Mode;
use tower_ratekeeper::{Limit, Observer, Outcome, Quota, RateLimitLayer, Rule, RuleMode, Share};

/// Counts what the shadowed limit would have refused.
#[derive(Clone, Default)]
struct WouldRefuse(Arc<AtomicU64>);

impl Observer for WouldRefuse {
    fn decided(&self, _: &Limit, mode: Mode, outcome: &Outcome) {
        if mode == Mode::Shadowed && !outcome.is_allowed() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let quota: Quota = example::setting("QUOTA", "1/min burst 3").parse()?;
    let seen = WouldRefuse::default();
    let layer = RateLimitLayer::builder()
        .rule(Rule::token_bucket("old", Quota::per_second(1_000)))
        .rule(Rule::token_bucket("new", quota).shadowed())
        .share_secret("the same on every node")
        .observer(seen.clone())
        .build()?;
    let handle = layer.handle();
    let app = Router::new().route("/", get(async || "hello\n")).layer(layer);
    if !example::is_check() {
        // Not limited itself; a real service would ask who is there.
        let enforce = async move || handle.set_mode("new", RuleMode::Enforced).to_string();
        return example::serve(app.route("/enforce", post(enforce))).await;
    }
    let refused = async |client: u8, tries: usize| {
        let mut refused = 0;
        for _ in 0..tries {
            let reply = example::get(&app, [192, 0, 2, client], "/", &[]).await?;
            refused += u64::from(reply.status == 429);
            let shown = reply.headers["ratelimit"].to_str()?.contains("new");
            assert!(!shown || handle.mode("new") != Some(RuleMode::Shadowed));
        }
        Ok::<_, Box<dyn Error>>(refused)
    };
    assert_eq!(refused(1, 5).await?, 0, "a shadowed limit refuses nothing");
    assert_eq!(seen.0.load(Ordering::Relaxed), 2, "but it would have refused two");

    let half = Share::percent(50).ok_or("more than all")?;
    assert!(handle.set_mode("new", RuleMode::EnforcedFor(half)));
    let mut clients = 0;
    for client in 2..102 {
        clients += refused(client, 4).await?;
    }
    assert!((30..70).contains(&clients), "{clients} of 100 clients were refused once");

    assert!(handle.set_mode("new", RuleMode::Enforced));
    assert_eq!(refused(1, 1).await?, 1);
    Ok(())
}
