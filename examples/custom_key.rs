//! A key of your own: the organization in the path, as a type of your own, and the day's word of
//! a header as a closure.
//!
//! ```text
//! cargo run --example custom_key
//! curl -i localhost:3000/orgs/7/members
//! ```

use std::error::Error;

use axum::{Router, routing::get};
use http::request::Parts;
use ratekeeper_examples as example;
use tower_ratekeeper::key::{KeyError, KeyExtractor, Keyed, Peer};
use tower_ratekeeper::{Quota, RateLimitLayer, Rule, RuleError};

/// The organization in a path such as `/orgs/7/members`.
struct Organization;

impl KeyExtractor for Organization {
    fn extract(&self, parts: &Parts) -> Keyed {
        let id = parts.uri.path().strip_prefix("/orgs/").and_then(|rest| rest.split('/').next());
        id.map(|id| id.parse::<u64>().map_err(|_| KeyError::malformed("organization"))).into()
    }
}

fn app(quota: Quota) -> Result<Router, RuleError> {
    let limit = RateLimitLayer::new([
        Rule::token_bucket("per-organization", quota).by(Organization),
        // Anybody can write any number into a path, so there is a rule by address too.
        Rule::token_bucket("per-address", Quota::per_second(50)).by(Peer),
        // A request without the field is exempt from this one.
        Rule::token_bucket("per-job", Quota::per_minute(2)).by_fn(|parts| {
            let job = parts.headers.get("x-job").and_then(|job| job.to_str().ok());
            job.map_or(Keyed::Exempt, Keyed::from)
        }),
    ])?;
    Ok(Router::new().route("/orgs/{id}/members", get(async || "ann, bob\n")).layer(limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = app(example::setting("QUOTA", "3/min").parse()?)?;
    if !example::is_check() {
        return example::serve(app).await;
    }
    let peer = [192, 0, 2, 1];
    for (path, job, status) in [
        ("/orgs/7/members", None, 200),
        ("/orgs/7/members", Some("nightly"), 200),
        ("/orgs/7/members", Some("nightly"), 200),
        ("/orgs/7/members", None, 429),
        ("/orgs/8/members", Some("nightly"), 429),
        ("/orgs/8/members", Some("hourly"), 200),
        ("/orgs/eight/members", None, 400),
        ("/elsewhere", None, 400),
    ] {
        let fields: Vec<_> = job.map(|job| ("x-job", job)).into_iter().collect();
        let reply = example::get(&app, peer, path, &fields).await?;
        assert_eq!(reply.status, status, "{path} {job:?}: {}", reply.body);
    }
    Ok(())
}
