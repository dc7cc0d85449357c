//! gRPC calls through the layer.

use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use tonic_types::StatusExt;
use tower_ratekeeper::grpc::Code;
use tower_ratekeeper::key::{GrpcMethod, GrpcService, Header};
use tower_ratekeeper::{Grpc, Quota, RateLimitLayer, RateLimitLayerBuilder, Rule, Store};

use super::{builder, everybody, exhaust, one_a_minute, request, retry_after, send, text, value};

fn call_of(path: &str, kind: &str) -> Request<()> {
    let request = Request::post(path).header("content-type", kind);
    request.body(()).unwrap()
}

fn call(path: &str) -> Request<()> {
    call_of(path, "application/grpc")
}

/// The status as tonic reads it.
fn status(headers: &HeaderMap) -> tonic::Status {
    tonic::Status::from_header_map(headers).unwrap()
}

/// A layer that answers gRPC and has nothing left.
async fn exhausted(
    rule: Rule,
    set: fn(RateLimitLayerBuilder) -> RateLimitLayerBuilder,
) -> RateLimitLayer {
    let (builder, _) = builder([rule]);
    let builder = builder.grpc(Grpc::new("hello.example.org"));
    let layer = set(builder).build().unwrap();
    exhaust(&layer).await;
    layer
}

#[tokio::test]
async fn a_refused_call_is_told_in_headers_alone() {
    let rule = everybody(Rule::token_bucket(
        "default",
        "2/3s burst 1".parse().unwrap(),
    ));
    let layer = exhausted(rule, |builder| builder).await;
    for kind in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc-web",
        "application/grpc-web-text+proto",
    ] {
        let refused = send(&layer, call_of("/hello.Greeter/Greet", kind)).await;
        assert_eq!(refused.status(), StatusCode::OK);
        assert!(refused.body().is_end_stream(), "the headers end the stream");
        let headers = refused.headers();
        assert_eq!(value(headers, "content-type"), Some(kind));
        assert_eq!(value(headers, "grpc-status"), Some("8"));
        assert_eq!(value(headers, "cache-control"), Some("no-store"));
        assert_eq!(value(headers, "grpc-retry-pushback-ms"), Some("1500"));
        assert_eq!(value(headers, "content-length"), None);
        let status = status(headers);
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        let details = status.get_error_details();
        let delay = details.retry_info().unwrap().retry_delay;
        assert_eq!(delay, Some(Duration::from_millis(1_500)));
        let violations = &details.quota_failure().unwrap().violations;
        assert_eq!(violations[0].subject, "default");
        assert_eq!(details.error_info().unwrap().domain, "hello.example.org");
        assert_eq!(text(refused).await, "");
    }
}

#[tokio::test]
async fn other_requests_are_refused_as_usual() {
    let layer = exhausted(one_a_minute("default"), |builder| builder).await;
    let get = Request::get("/").header("content-type", "application/grpc");
    for request in [
        request(),
        call_of("/", "application/json"),
        get.body(()).unwrap(),
    ] {
        let refused = send(&layer, request).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(value(refused.headers(), "grpc-status"), None);
    }
}

#[tokio::test]
async fn without_grpc_a_call_is_refused_as_any_request() {
    let (builder, _) = builder([one_a_minute("default")]);
    let layer = builder.build().unwrap();
    exhaust(&layer).await;
    let refused = send(&layer, call("/hello.Greeter/Greet")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(value(refused.headers(), "grpc-status"), None);
}

#[tokio::test]
async fn a_responder_is_not_asked_about_calls() {
    let layer = exhausted(one_a_minute("default"), |builder| {
        builder.respond_with(|refusal, _| {
            let response = Response::builder().status(refusal.status);
            response.body("mine").unwrap()
        })
    })
    .await;
    let refused = send(&layer, request()).await;
    assert_eq!(text(refused).await, "mine");
    let refused = send(&layer, call("/hello.Greeter/Greet")).await;
    assert_eq!(value(refused.headers(), "grpc-status"), Some("8"));
}

#[tokio::test]
async fn the_code_of_refusals_can_be_chosen_and_the_wait_is_capped() {
    let layer = exhausted(one_a_minute("default"), |builder| {
        let grpc = Grpc::new("").code(Code::Unavailable);
        builder.grpc(grpc).retry_after_cap(10)
    })
    .await;
    let refused = send(&layer, call("/hello.Greeter/Greet")).await;
    let status = status(refused.headers());
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let delay = status.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(Duration::from_secs(10)));
    assert_eq!(retry_after(refused.headers()), Some(10));
}

#[tokio::test]
async fn a_call_that_never_fits_is_not_to_be_tried_again() {
    let layer = exhausted(
        one_a_minute("default").cost_by(|parts| {
            if parts.method == http::Method::POST {
                2
            } else {
                1
            }
        }),
        |builder| builder,
    )
    .await;
    let refused = send(&layer, call("/hello.Greeter/Greet")).await;
    assert_eq!(
        value(refused.headers(), "grpc-retry-pushback-ms"),
        Some("-1")
    );
    let status = status(refused.headers());
    assert!(status.get_details_retry_info().is_none());
    assert_eq!(retry_after(refused.headers()), None);
}

#[tokio::test]
async fn a_call_without_an_identity_is_unauthenticated() {
    let rule = Rule::token_bucket("default", Quota::per_minute(1));
    let (builder, _) = builder([rule.by(Header::from_static("x-api-key"))]);
    let layer = builder.grpc(Grpc::new("")).build().unwrap();
    let refused = send(&layer, call("/hello.Greeter/Greet")).await;
    assert_eq!(refused.status(), StatusCode::OK);
    let status = status(refused.headers());
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
    assert_eq!(value(refused.headers(), "grpc-retry-pushback-ms"), None);
}

/// Whether a call is admitted.
async fn passes<St: Store>(layer: &RateLimitLayer<St>, path: &str) -> bool {
    let response = send(layer, call(path)).await;
    value(response.headers(), "grpc-status").is_none()
}

#[tokio::test]
async fn each_known_method_has_a_quota_and_all_unknown_ones_share_one() {
    let methods = GrpcMethod::new(["hello.Greeter/Greet", "hello.Greeter/Part"]);
    let (builder, _) = builder([Rule::token_bucket("method", Quota::per_minute(1)).by(methods)]);
    let layer = builder.grpc(Grpc::new("")).build().unwrap();
    for (path, admitted) in [
        ("/hello.Greeter/Greet", true),
        ("/hello.Greeter/Greet", false),
        ("/hello.Greeter/Part", true),
        ("/hello.Greeter/Part", false),
        ("/hello.Greeter/Unknown", true),
        ("/hello.Greeter/Unknown2", false),
        ("/other.Service/Greet", false),
        ("/hello.Greeter/greet", false),
        ("/", false),
    ] {
        assert_eq!(passes(&layer, path).await, admitted, "{path}");
    }
    // However many are made up, they are one key.
    for number in 0..50 {
        assert!(!passes(&layer, &format!("/made.Up/M{number}")).await);
    }
}

#[tokio::test]
async fn each_service_and_each_method_can_have_rules_of_its_own() {
    let service = GrpcService::new(["hello.Greeter", "hello.Clock"]);
    let (builder, _) = builder([
        Rule::token_bucket("service", Quota::per_minute(3)).by(service),
        everybody(Rule::token_bucket("costly", Quota::per_minute(1)))
            .on(["POST"], ["/hello.Greeter/Report"]),
    ]);
    let layer = builder.grpc(Grpc::new("")).build().unwrap();
    for (path, admitted) in [
        ("/hello.Greeter/Report", true),
        ("/hello.Greeter/Report", false),
        ("/hello.Greeter/Greet", true),
        ("/hello.Greeter/Greet", true),
        ("/hello.Greeter/Greet", false),
        ("/hello.Clock/Now", true),
        ("/hello.Unknown/A", true),
        ("/hello.Unknown2/A", true),
        ("/hello.Unknown3/A", true),
        ("/hello.Unknown4/A", false),
    ] {
        assert_eq!(passes(&layer, path).await, admitted, "{path}");
    }
}
