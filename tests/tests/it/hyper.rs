//! A plain hyper service: no router, no runtime of a framework.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use ratekeeper_tests::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::{Layer, service_fn};
use tower_ratekeeper::{ManualClock, Quota, RateLimitLayer, Rule};

fn two() -> RateLimitLayer {
    let rule = Rule::token_bucket("per-client", Quota::per_minute(2));
    let builder = RateLimitLayer::builder().rule(rule);
    builder.clock(ManualClock::new()).build().unwrap()
}

async fn length(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let length = body.map_or(0, |body| body.to_bytes().len());
    Ok(Response::new(Full::from(length.to_string())))
}

#[tokio::test]
async fn a_service_is_limited_by_the_address_in_its_extensions() {
    let server = Server::hyper(two().layer(service_fn(length))).await;
    for expected in [200, 200, 429, 429] {
        let reply = server.get("/").await;
        assert_eq!(reply.status, expected, "{reply}");
        assert!(reply.field("ratelimit").is_some());
        assert_eq!(reply.field("retry-after").is_some(), expected == 429);
    }
}

/// What a raw client reads until the server closes the connection.
async fn raw(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    String::from_utf8(reply).unwrap()
}

/// A client that waits to be told to go on is told no before it has sent its body.
#[tokio::test]
async fn a_refused_upload_is_never_asked_for() {
    let server = Server::hyper(two().layer(service_fn(length))).await;
    for _ in 0..2 {
        assert_eq!(server.get("/").await.status, StatusCode::OK);
    }
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1000000\r\n\r\n";
    let reply = raw(&server, head).await;
    assert!(reply.starts_with("HTTP/1.1 429 "), "{reply}");
    assert!(!reply.contains("100 Continue"), "{reply}");
}

/// Odd bytes from a raw client are answered, and the server serves on.
#[tokio::test]
async fn bytes_that_are_no_request_spend_nothing() {
    let server = Server::hyper(two().layer(service_fn(length))).await;
    for garbage in [
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/1.1\r\nx y: z\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let reply = raw(&server, garbage).await;
        assert!(!reply.contains("429"), "{reply}");
    }
    let odd = "GET /%ff%00?\u{fffd} HTTP/1.1\r\nhost: \u{e9}\r\nx-key: \u{fffd}\u{7ff}\r\nconnection: close\r\n\r\n";
    let reply = raw(&server, odd).await;
    assert!(
        reply.starts_with("HTTP/1.1 200 ") || reply.starts_with("HTTP/1.1 400 "),
        "{reply}"
    );
    assert_ne!(server.get("/").await.status, StatusCode::TOO_MANY_REQUESTS);
}
