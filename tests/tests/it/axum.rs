//! An axum application behind its own kinds of layers.

use std::time::Duration;

use axum::Router;
use axum::routing::{any, get, post};
use http::StatusCode;
use ratekeeper_tests::{Client, Server};
use tower_ratekeeper::key::{MatchedRoute, Peer};
use tower_ratekeeper::{ManualClock, Quota, RateLimitLayer, Rule};

/// Three at once for each client; the clock stands unless it is moved.
fn three() -> (RateLimitLayer, ManualClock) {
    layer([Rule::token_bucket("per-client", Quota::per_minute(3))])
}

fn layer(rules: impl IntoIterator<Item = Rule>) -> (RateLimitLayer, ManualClock) {
    let clock = ManualClock::new();
    let builder = RateLimitLayer::builder().rules(rules).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

async fn statuses(server: &Server, path: &str, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(server.get(path).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn a_layer_of_the_router_limits_all_that_it_answers() {
    let (limit, clock) = three();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit);
    let server = Server::axum(app).await;
    let first = server.get("/").await;
    assert_eq!(
        (first.status, first.body.as_str()),
        (StatusCode::OK, "hello")
    );
    assert_eq!(first.field("ratelimit"), Some(r#""per-client";r=2;t=40"#));
    assert_eq!(
        first.field("ratelimit-policy"),
        Some(r#""per-client";q=3;w=60"#)
    );
    // What is not found counts too.
    assert_eq!(statuses(&server, "/nowhere", 1).await, [404]);
    assert_eq!(statuses(&server, "/", 2).await, [200, 429]);
    let refused = server.get("/nowhere").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.field("retry-after"), Some("20"));
    assert_eq!(refused.field("cache-control"), Some("no-store"));
    assert_eq!(
        refused.field("content-type"),
        Some("application/problem+json")
    );
    assert!(
        refused
            .body
            .contains(r#""violated-policies":["per-client"]"#),
        "{refused}"
    );
    clock.advance(Duration::from_secs(20));
    assert_eq!(statuses(&server, "/", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_layer_of_the_routes_leaves_alone_what_is_not_found() {
    let (limit, _) = three();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route_layer(limit);
    let server = Server::axum(app).await;
    assert_eq!(statuses(&server, "/nowhere", 5).await, [404; 5]);
    assert_eq!(statuses(&server, "/", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&server, "/nowhere", 1).await, [404]);
}

#[tokio::test]
async fn a_layer_of_one_route_limits_that_one() {
    let (limit, _) = three();
    let app = Router::new()
        .route("/limited", get(|| async { "few" }).layer(limit))
        .route("/open", get(|| async { "many" }));
    let server = Server::axum(app).await;
    assert_eq!(statuses(&server, "/limited", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&server, "/open", 5).await, [200; 5]);
}

#[tokio::test]
async fn one_layer_in_two_places_is_one_budget() {
    let (limit, _) = three();
    let app = Router::new()
        .route("/a", get(|| async { "a" }).layer(limit.clone()))
        .route("/b", get(|| async { "b" }).layer(limit));
    let server = Server::axum(app).await;
    assert_eq!(statuses(&server, "/a", 2).await, [200, 200]);
    assert_eq!(statuses(&server, "/b", 2).await, [200, 429]);
    assert_eq!(statuses(&server, "/a", 1).await, [429]);
}

#[tokio::test]
async fn rules_find_the_path_that_was_sent_within_a_nested_router() {
    let (limit, _) = layer([
        Rule::token_bucket("login", Quota::per_minute(2)).on(["POST"], ["/api/login"]),
        Rule::token_bucket("everything", Quota::per_minute(100)),
    ]);
    let api = Router::new()
        .route("/login", post(|| async { "in" }))
        .layer(limit);
    let server = Server::axum(Router::new().nest("/api", api)).await;
    let mut client = server.connect().await;
    for expected in [200, 200, 429] {
        assert_eq!(client.send("POST", "/api/login").await.status, expected);
    }
    assert_eq!(client.send("GET", "/api/login").await.status, 405);
}

#[tokio::test]
async fn matched_routes_are_keys_and_parameters_are_not() {
    let by_route = Rule::token_bucket("by-route", Quota::per_minute(2)).by((MatchedRoute, Peer));
    let (limit, _) = layer([by_route]);
    let app = Router::new()
        .route("/users/{id}", any(|| async { "user" }))
        .route("/files/{id}", any(|| async { "file" }))
        .layer(limit);
    let server = Server::axum(app).await;
    assert_eq!(statuses(&server, "/users/1", 1).await, [200]);
    assert_eq!(statuses(&server, "/users/2", 1).await, [200]);
    assert_eq!(statuses(&server, "/users/3", 1).await, [429]);
    assert_eq!(statuses(&server, "/files/3", 1).await, [200]);
}

/// After a refusal the connection goes on, also where the refusal had no body to send.
#[tokio::test]
async fn a_connection_outlives_its_refusals() {
    let (limit, clock) = three();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit);
    let server = Server::axum(app).await;
    let mut client = server.connect().await;
    for method in ["GET", "HEAD", "GET"] {
        assert_eq!(client.send(method, "/").await.status, 200, "{method}");
    }
    let head = client.send("HEAD", "/").await;
    let get = client.send("GET", "/").await;
    assert_eq!(
        (head.status, get.status.as_u16()),
        (StatusCode::TOO_MANY_REQUESTS, 429)
    );
    assert_eq!(head.body, "");
    for name in [
        "content-length",
        "content-type",
        "retry-after",
        "ratelimit",
        "cache-control",
    ] {
        assert_eq!(head.field(name), get.field(name), "{name}");
        assert!(head.field(name).is_some(), "{name}");
    }
    clock.advance(Duration::from_secs(20));
    assert_eq!(client.send("GET", "/").await.body, "hello");
}

#[tokio::test]
async fn a_page_of_fifteen_parallel_requests_passes_with_a_burst_of_fifteen() {
    let rule = Rule::token_bucket("per-client", Quota::per_second(5).with_burst(15));
    let (limit, _) = layer([rule]);
    let app = Router::new().fallback(|| async { "part" }).layer(limit);
    let server = Server::axum(app).await;
    let page: Vec<_> = (0..15).map(|part| format!("/part/{part}")).collect();
    let mut page: tokio::task::JoinSet<StatusCode> = page
        .into_iter()
        .map(|path| {
            let address = server.address();
            async move {
                Client::connect(address)
                    .await
                    .send("GET", &path)
                    .await
                    .status
            }
        })
        .collect();
    while let Some(status) = page.join_next().await {
        assert_eq!(status.unwrap(), StatusCode::OK);
    }
    assert_eq!(statuses(&server, "/one-more", 1).await, [429]);
}

#[tokio::test]
async fn waiting_as_long_as_one_is_told_is_enough() {
    let (limit, clock) = layer([Rule::token_bucket(
        "per-client",
        "2/5s burst 2".parse().unwrap(),
    )]);
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit);
    let server = Server::axum(app).await;
    assert_eq!(statuses(&server, "/", 2).await, [200, 200]);
    let refused = server.get("/").await;
    assert_eq!(refused.field("retry-after"), Some("3"));
    clock.advance(Duration::from_secs(3));
    assert_eq!(statuses(&server, "/", 1).await, [200]);
}

/// Served without the addresses of its peers, a router says that the server is at fault and counts nobody.
#[tokio::test]
async fn a_router_that_does_not_know_its_peers_answers_500() {
    let (limit, _) = three();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit);
    let server = Server::start(|listener| async move {
        axum::serve(listener, app).await.unwrap();
    })
    .await;
    let answer = server.get("/").await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        answer.field("content-type"),
        Some("application/problem+json")
    );
    assert!(!answer.body.to_lowercase().contains("connect"), "{answer}");
}
