//! Two servers on two ports that share one limit through Redis: a fleet has one budget.
//!
//! ```text
//! redis-server --port 6380 --save '' &
//! REDIS_URL=redis://127.0.0.1:6380 cargo run --example redis --features redis
//! for i in $(seq 6); do curl -s -o /dev/null -o /dev/null -w '%{http_code} ' localhost:3000 localhost:3001; done
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use ratekeeper_examples as example;
use tokio::net::TcpListener;
use tower_ratekeeper::core::{OnFailure, WithFallback};
use tower_ratekeeper::redis::{KeyNames, Redis};
use tower_ratekeeper::{Quota, RateLimitLayer, Rule};

/// One server of the fleet, with a connection of its own.
async fn app(url: &str, quota: Quota) -> Result<Router, Box<dyn Error>> {
    // All nodes know the secret, and nobody who reads Redis learns whom the keys stand for.
    let names = KeyNames::secret(example::setting("SECRET", "only for this example, not yours"))?;
    let redis = Redis::builder(url, "example", names).build()?;
    redis.verify().await?;
    // While Redis is away, each of two nodes goes on with half of the quota.
    let store = WithFallback::builder(redis).nodes(2).on_failure(OnFailure::Local).build();
    let rule = Rule::token_bucket("per-client", quota);
    let limit = RateLimitLayer::builder().rule(rule).store(store).build()?;
    Ok(Router::new().route("/", get(async || "hello\n")).layer(limit))
}

async fn serve(app: Router, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    example::announce(listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if example::is_check() {
        return check().await;
    }
    let url = example::setting("REDIS_URL", "redis://127.0.0.1:6379");
    let quota: Quota = example::setting("QUOTA", "1/s burst 10").parse()?;
    let first: SocketAddr = example::setting("ADDR", "127.0.0.1:3000").parse()?;
    let next = if first.port() == 0 { 0 } else { first.port().wrapping_add(1) };
    let second = SocketAddr::new(first.ip(), next);
    let (one, two) = (app(&url, quota).await?, app(&url, quota).await?);
    tokio::try_join!(serve(one, first), serve(two, second))?;
    Ok(())
}

async fn check() -> Result<(), Box<dyn Error>> {
    let server = example::RedisServer::start()?;
    let quota = Quota::per_minute(1).with_burst(10);
    let (one, two) = (app(&server.url(), quota).await?, app(&server.url(), quota).await?);
    let mut admitted = 0;
    for _ in 0..10 {
        for node in [&one, &two] {
            let reply = example::get(node, [192, 0, 2, 1], "/", &[]).await?;
            admitted += usize::from(reply.status == 200);
        }
    }
    assert_eq!(admitted, 10, "two nodes, one budget");
    drop(server);
    let reply = example::get(&one, [192, 0, 2, 2], "/", &[]).await?;
    assert_eq!(reply.status, 200, "the node goes on without Redis");
    Ok(())
}
