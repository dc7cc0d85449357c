//! Plans: a free user has a small quota, a paying one a larger, staff none; nobody gains by
//! changing back and forth.
//!
//! ```text
//! cargo run --example tiers
//! curl -i -H 'x-user: ann' localhost:3000            # free
//! curl -i -H 'x-user: pro-ann' localhost:3000        # pro
//! ```

use std::error::Error;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Router, routing::get};
use ratekeeper_examples as example;
use tower_ratekeeper::key::by_extension;
use tower_ratekeeper::{Quota, RateLimitLayer, Rule, RuleError};

/// What an authentication layer leaves in the extensions of a request.
#[derive(Clone)]
struct Account {
    user: String,
    plan: String,
}

/// Stands for real authentication: the plan is a prefix of the name.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let name = request.headers().get("x-user").and_then(|name| name.to_str().ok());
    let name = name.unwrap_or("nobody");
    let (plan, user) = name.split_once('-').unwrap_or(("free", name));
    let account = Account { user: user.to_owned(), plan: plan.to_owned() };
    request.extensions_mut().insert(account);
    next.run(request).await
}

fn app(free: Quota) -> Result<Router, RuleError> {
    let pro = Quota::new(free.units() * 10, free.period()).with_burst(free.burst() * 10);
    let per_user = Rule::token_bucket("per-user", free)
        .plan("pro", pro)
        .unlimited_plan("staff")
        .by(by_extension(|account: &Account| account.user.clone()))
        .quota_by(|parts| parts.extensions.get().map(|account: &Account| account.plan.as_str()));
    let app = Router::new().route("/", get(async || "hello\n"));
    // The last layer is the outermost: users are known before they are limited.
    Ok(app.layer(RateLimitLayer::new([per_user])?).layer(from_fn(authenticate)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if !example::is_check() {
        let quota = example::setting("QUOTA", "60/min burst 5").parse()?;
        return example::serve(app(quota)?).await;
    }
    let app = app("1/min burst 5".parse()?)?;
    for (user, passed, why) in [
        ("ann", 5, "the free quota"),
        ("pro-ann", 45, "an upgrade counts at once, less what was used"),
        ("ann", 0, "going back gives nothing"),
        ("pro-ann", 0, "nor does coming again"),
        ("staff-bob", 100, "no limit"),
    ] {
        let mut count = 0;
        for _ in 0..100 {
            let reply = example::get(&app, [192, 0, 2, 1], "/", &[("x-user", user)]).await?;
            count += usize::from(reply.status == 200);
        }
        assert_eq!(count, passed, "{why}");
    }
    Ok(())
}
