//! The layer around a tonic service.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::{LayerExt, Routes};
use tower::{Layer, Service, ServiceExt};
use tower_ratekeeper::{Grpc, RateLimit, RateLimitLayer};

use super::{builder, one_a_minute, value};

/// Stands for a generated server.
#[derive(Clone, Debug)]
struct Greeter;

impl NamedService for Greeter {
    const NAME: &'static str = "hello.Greeter";
}

impl Service<Request<Body>> for Greeter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(tonic::Status::ok("greeted").into_http()))
    }
}

fn layer() -> RateLimitLayer {
    let (builder, _) = builder([one_a_minute("greetings")]);
    builder
        .grpc(Grpc::new("hello.example.org"))
        .build()
        .unwrap()
}

/// The gRPC status of a call, and the message with it.
async fn status(routes: &Routes, path: &str) -> tonic::Status {
    let call = Request::post(path).header("content-type", "application/grpc");
    let call = call.body(Body::empty()).unwrap();
    let Ok(response) = routes.clone().oneshot(call).await;
    assert_eq!(response.status(), 200);
    assert!(value(response.headers(), "grpc-status").is_some());
    tonic::Status::from_header_map(response.headers()).unwrap()
}

#[tokio::test]
async fn a_limited_service_keeps_its_name_and_its_place_in_the_routes() {
    fn name_of<S: NamedService>(_: &S) -> &'static str {
        S::NAME
    }
    let limited = layer().layer(Greeter);
    assert_eq!(name_of(&limited), "hello.Greeter");
    for routes in [
        Routes::new(limited),
        Routes::new(layer().named_layer(Greeter)),
    ] {
        let greet = status(&routes, "/hello.Greeter/Greet").await;
        assert_eq!(greet.code(), tonic::Code::Ok);
        let refused = status(&routes, "/hello.Greeter/Greet").await;
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        // What is no method of the service never came to its limit.
        let unknown = status(&routes, "/hello.Other/Greet").await;
        assert_eq!(unknown.code(), tonic::Code::Unimplemented);
    }
}

#[tokio::test]
async fn a_refusal_is_no_error_of_the_service() {
    fn never_fails<S>(service: S) -> S
    where
        S: Service<Request<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    {
        service
    }
    let mut limited: RateLimit<Greeter> = never_fails(layer().layer(Greeter));
    for _ in 0..3 {
        let call = Request::post("/hello.Greeter/Greet").header("content-type", "application/grpc");
        let Ok(_response) = limited.call(call.body(Body::empty()).unwrap()).await;
    }
}
