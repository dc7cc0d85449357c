//! A tonic server and tonic's own client.

use std::time::Duration;

use ratekeeper_tests::Server;
use ratekeeper_tests::grpc::{Echo, say};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::service::LayerExt;
use tonic_types::StatusExt;
use tower_ratekeeper::key::Peer;
use tower_ratekeeper::{Grpc, ManualClock, Quota, RateLimitLayer, RateLimitLayerBuilder, Rule};

fn two() -> RateLimitLayerBuilder {
    let rule = Rule::token_bucket("per-client", Quota::per_minute(2)).by(Peer);
    let builder = RateLimitLayer::builder().rule(rule);
    builder.clock(ManualClock::new())
}

fn server_of(
    layer: RateLimitLayer,
) -> tonic::transport::Server<tower::layer::util::Stack<RateLimitLayer, tower::layer::util::Identity>>
{
    tonic::transport::Server::builder().layer(layer)
}

#[tokio::test]
async fn a_layer_of_the_server_refuses_with_a_status_that_says_when_to_retry() {
    let layer = two().grpc(Grpc::new("api.example.org")).build().unwrap();
    let server = Server::start(|listener| async move {
        let router = server_of(layer).add_service(Echo);
        let incoming = TcpListenerStream::new(listener);
        router.serve_with_incoming(incoming).await.unwrap();
    })
    .await;
    for text in ["one", "two"] {
        let said = say(server.address(), text).await.unwrap();
        assert!(said.metadata().contains_key("ratelimit"));
        assert_eq!(said.into_inner(), text);
    }
    let refused = say(server.address(), "three").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "rate limit exceeded");
    let details = refused.get_error_details();
    let retry = details.retry_info().unwrap().retry_delay;
    assert_eq!(retry, Some(Duration::from_secs(30)));
    assert_eq!(details.error_info().unwrap().domain, "api.example.org");
    assert_eq!(refused.metadata().get("cache-control").unwrap(), "no-store");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "30");
}

/// Around one service, which keeps its name and its infallible errors.
#[tokio::test]
async fn a_layer_of_one_service_keeps_its_name() {
    let layer = two().grpc(Grpc::new("api.example.org")).build().unwrap();
    let server = Server::start(|listener| async move {
        let limited = layer.named_layer(Echo);
        let router = tonic::transport::Server::builder().add_service(limited);
        let incoming = TcpListenerStream::new(listener);
        router.serve_with_incoming(incoming).await.unwrap();
    })
    .await;
    for _ in 0..2 {
        say(server.address(), "fine").await.unwrap();
    }
    let refused = say(server.address(), "three").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
}

/// Without gRPC terms a refusal is still a refusal, which clients make what they can of.
#[tokio::test]
async fn a_plain_layer_refuses_calls_too() {
    let layer = two().build().unwrap();
    let server = Server::start(|listener| async move {
        let router = server_of(layer).add_service(Echo);
        let incoming = TcpListenerStream::new(listener);
        router.serve_with_incoming(incoming).await.unwrap();
    })
    .await;
    for _ in 0..2 {
        say(server.address(), "fine").await.unwrap();
    }
    assert!(say(server.address(), "three").await.is_err());
}
