//! An axum application and a tonic service behind one layer: one budget for each client, and each
//! refused in its own language.
//!
//! ```text
//! cargo run --example mixed --features grpc
//! curl -i localhost:3000
//! grpcurl -plaintext -proto examples/src/hello.proto localhost:3000 hello.Greeter/Greet
//! ```

use std::error::Error;

use axum::body::Body;
use axum::{Router, routing::get};
use ratekeeper_examples as example;
use ratekeeper_examples::hello::greeter_server::{Greeter, GreeterServer};
use ratekeeper_examples::hello::{Greeting, Name};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use tower_ratekeeper::{Grpc, RateLimitLayer, Rule};

struct Hello;

#[tonic::async_trait]
impl Greeter for Hello {
    async fn greet(&self, name: Request<Name>) -> Result<Response<Greeting>, Status> {
        let text = format!("hello {}", name.into_inner().name);
        Ok(Response::new(Greeting { text }))
    }
}

fn app(quota: &str) -> Result<Router, Box<dyn Error>> {
    let limit = RateLimitLayer::builder()
        .rule(Rule::token_bucket("per-client", quota.parse()?))
        .grpc(Grpc::new("hello.example.org"))
        .build()?;
    let calls = Routes::new(GreeterServer::new(Hello)).into_axum_router();
    Ok(calls.route("/", get(async || "hello\n")).layer(limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if !example::is_check() {
        return example::serve(app(&example::setting("QUOTA", "1/s burst 5"))?).await;
    }
    let app = app("1/min burst 3")?;
    let peer = [192, 0, 2, 1];
    let page = async || example::get(&app, peer, "/", &[]).await;
    let call = async || {
        let call = http::Request::post("/hello.Greeter/Greet");
        let call = call.header("content-type", "application/grpc").header("te", "trailers");
        // An empty name: not compressed, no bytes.
        example::ask(&app, peer, call.body(Body::from(&[0; 5][..]))?).await
    };
    assert_eq!(page().await?.body, "hello\n");
    assert!(call().await?.body.contains("hello "));
    assert_eq!(page().await?.status, 200);

    let refused = page().await?;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert_eq!(refused.headers["retry-after"], "60");
    let refused = call().await?;
    assert_eq!(refused.status, 200, "what went wrong is in the status of gRPC");
    assert_eq!(refused.headers["content-type"], "application/grpc");
    let status = Status::from_header_map(&refused.headers).ok_or("no status")?;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(refused.body, "");
    Ok(())
}
