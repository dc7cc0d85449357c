//! A limited tonic service, whose refused callers are told in gRPC's own terms when to come back.
//!
//! ```text
//! cargo run --example grpc --features grpc
//! grpcurl -plaintext -proto examples/src/hello.proto localhost:3000 hello.Greeter/Greet
//! ```

use std::error::Error;
use std::time::Duration;

use ratekeeper_examples as example;
use ratekeeper_examples::hello::greeter_client::GreeterClient;
use ratekeeper_examples::hello::greeter_server::{Greeter, GreeterServer};
use ratekeeper_examples::hello::{Greeting, Name};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;
use tower_ratekeeper::key::{GrpcService, Peer};
use tower_ratekeeper::{Clock, Grpc, ManualClock, RateLimitLayer, Rule};

struct Hello;

#[tonic::async_trait]
impl Greeter for Hello {
    async fn greet(&self, name: Request<Name>) -> Result<Response<Greeting>, Status> {
        let text = format!("hello {}", name.into_inner().name);
        Ok(Response::new(Greeting { text }))
    }
}

/// Each client has a quota for each service; those that do not exist share one.
fn limit(quota: &str, clock: Clock) -> Result<RateLimitLayer, Box<dyn Error>> {
    let services = GrpcService::new(["hello.Greeter"]);
    let rule = Rule::token_bucket("calls", quota.parse()?).by((Peer, services));
    let layer = RateLimitLayer::builder().rule(rule).clock(clock);
    Ok(layer.grpc(Grpc::new("hello.example.org")).build()?)
}

async fn serve(
    listener: TcpListener,
    limit: RateLimitLayer,
) -> Result<(), tonic::transport::Error> {
    let server = Server::builder().layer(limit).add_service(GreeterServer::new(Hello));
    server.serve_with_incoming(TcpIncoming::from(listener)).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if !example::is_check() {
        let limit = limit(&example::setting("QUOTA", "1/s burst 3"), Clock::system())?;
        let listener = TcpListener::bind(example::setting("ADDR", "127.0.0.1:3000")).await?;
        example::announce(listener.local_addr()?);
        return Ok(serve(listener, limit).await?);
    }
    let time = ManualClock::new();
    let limit = limit("2/3s burst 2", time.clone().into())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener, limit));

    let mut client =
        GreeterClient::new(Endpoint::new(format!("http://{address}"))?.connect().await?);
    let mut greet = async || client.greet(Name { name: "Ann".to_owned() }).await;
    assert_eq!(greet().await?.into_inner().text, "hello Ann");
    greet().await?;
    let refused = greet().await.err().ok_or("the third is admitted")?;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let retry = refused.get_details_retry_info().ok_or("no word of another try")?;
    let delay = retry.retry_delay.ok_or("no delay")?;
    assert_eq!(delay, Duration::from_millis(1_500));
    time.advance(delay - Duration::from_nanos(1));
    assert!(greet().await.is_err(), "too early");
    time.advance(Duration::from_nanos(1));
    greet().await?;
    Ok(())
}
