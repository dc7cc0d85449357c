//! A limited service for browsers: CORS stands outside the limit and exposes its fields, so that a
//! script of another origin can read a refusal, and so that preflights cost nothing.
//!
//! ```text
//! cargo run --example cors --features cors
//! # then open http://localhost:3000/page, whose script asks http://127.0.0.1:3000
//! ```

use std::error::Error;

use axum::body::Body;
use axum::response::Html;
use axum::{Router, routing::get};
use http::{HeaderName, Request};
use ratekeeper_examples as example;
use tower_http::cors::{Any, CorsLayer};
use tower_ratekeeper::fields::EXPOSED_FIELDS;
use tower_ratekeeper::{RateLimitLayer, Rule};

/// Another name of the same host is another origin, and a field of its own makes the browser ask
/// before it sends the request.
const PAGE: &str = r#"<!doctype html>
<link rel="icon" href="data:,">
<title>Limited</title>
<button>Ask</button>
<pre></pre>
<script>
  document.querySelector("button").onclick = async () => {
    const reply = await fetch(`http://127.0.0.1:${location.port}/`, { headers: { "x-client": "page" } })
    const fields = ["RateLimit", "RateLimit-Policy", "Retry-After"].map((name) => `${name}: ${reply.headers.get(name)}`)
    document.querySelector("pre").textContent = [reply.status, ...fields].join("\n")
  }
</script>
"#;

fn app(quota: &str) -> Result<Router, Box<dyn Error>> {
    let limit = RateLimitLayer::new([Rule::token_bucket("per-client", quota.parse()?)])?;
    let cors = CorsLayer::new()
        .allow_origin(Any)
        .allow_headers([HeaderName::from_static("x-client")])
        .expose_headers(EXPOSED_FIELDS);
    let limited = Router::new().route("/", get(async || "hello\n")).layer(limit);
    // The last layer is the outermost.
    Ok(limited.route("/page", get(Html(PAGE))).layer(cors))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if !example::is_check() {
        return example::serve(app(&example::setting("QUOTA", "1/5s burst 3"))?).await;
    }
    let app = app("1/min burst 2")?;
    let peer = [192, 0, 2, 1];
    let ask = async || example::get(&app, peer, "/", &[("origin", "https://example.org")]).await;
    for (status, why) in [(200, ""), (200, "preflights cost nothing"), (429, "two are used up")] {
        let preflight = Request::options("/").header("origin", "https://example.org");
        let preflight = preflight.header("access-control-request-method", "GET");
        let reply = example::ask(&app, peer, preflight.body(Body::empty())?).await?;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.headers["access-control-allow-headers"], "x-client");

        let reply = ask().await?;
        assert_eq!(reply.status, status, "{why}");
        assert_eq!(reply.headers["access-control-allow-origin"], "*");
        let exposed = reply.headers["access-control-expose-headers"].to_str()?;
        assert!(reply.headers.keys().filter(|name| EXPOSED_FIELDS.contains(name)).count() >= 2);
        assert!(EXPOSED_FIELDS.iter().all(|name| exposed.contains(name.as_str())));
    }
    Ok(())
}
