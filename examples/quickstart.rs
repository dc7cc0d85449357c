//! A limited axum service: `QUOTA` for each client, by the address of the socket's peer.
//!
//! ```text
//! cargo run --example quickstart
//! for i in $(seq 12); do curl -si localhost:3000 | head -1; done
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tower_ratekeeper::{Quota, RateLimitLayer, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let quota: Quota = ratekeeper_examples::setting("QUOTA", "5/s burst 10").parse()?;
    let limit = RateLimitLayer::new([Rule::token_bucket("per-client", quota)])?;
    let app = Router::new().route("/", get(async || "hello\n")).layer(limit);

    let listener =
        TcpListener::bind(ratekeeper_examples::setting("ADDR", "127.0.0.1:3000")).await?;
    ratekeeper_examples::announce(listener.local_addr()?);
    // The limit needs to know who is asking: this is what tells it the peer's address.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}
