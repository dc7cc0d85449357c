//! Keys in front of a service: forged addresses, shared addresses, made-up identities.

use http::{Request, StatusCode};
use tower_ratekeeper::key::{
    BearerToken, ClientIp, Exemptions, Header, Networks, Peer, PeerAddr, Source,
};
use tower_ratekeeper::{Quota, RateLimitLayer, Rule};

use crate::support::{field, layer, status, text_of};

fn from(peer: &str) -> http::request::Builder {
    Request::builder().extension(PeerAddr(format!("{peer}:4711").parse().unwrap()))
}

async fn admitted(layer: &RateLimitLayer, requests: impl Iterator<Item = Request<()>>) -> usize {
    let mut admitted = 0;
    for request in requests {
        admitted += usize::from(status(layer, request).await == StatusCode::OK);
    }
    admitted
}

#[tokio::test]
async fn addresses_that_a_client_writes_left_of_its_own_change_nothing() {
    let trusted = Networks::new(["10.0.0.0/8"]).unwrap();
    for by in [
        ClientIp::behind(Source::XForwardedFor, trusted),
        ClientIp::behind_hops(Source::XForwardedFor, 1),
    ] {
        let (layer, _) = layer([Rule::token_bucket("ip", Quota::per_minute(10)).by(by)]);
        let requests = (1..=100).map(|n| {
            let forwarded = format!("6.6.6.{n}, 203.0.113.7");
            let request = from("10.0.0.2").header("x-forwarded-for", forwarded);
            request.body(()).unwrap()
        });
        assert_eq!(admitted(&layer, requests).await, 10);
        let other = from("10.0.0.2").header("x-forwarded-for", "203.0.113.8");
        assert_eq!(
            status(&layer, other.body(()).unwrap()).await,
            StatusCode::OK
        );
    }
}

#[tokio::test]
async fn one_abuser_behind_a_shared_address_is_the_only_one_refused() {
    let (layer, _) = layer([
        Rule::token_bucket("user", Quota::per_minute(10)).by(Header::from_static("x-user")),
        Rule::token_bucket("address", Quota::per_minute(10_000)).by(Peer),
    ]);
    let request = |user: u64| from("203.0.113.7").header("x-user", user).body(()).unwrap();
    assert_eq!(admitted(&layer, (0..1_000).map(|_| request(0))).await, 10);
    for user in 1..50 {
        assert_eq!(
            admitted(&layer, (0..10).map(|_| request(user))).await,
            10,
            "user {user}"
        );
    }
}

#[tokio::test]
async fn made_up_tokens_never_escape_the_rule_by_address() {
    let (layer, _) = layer([
        Rule::token_bucket("token", Quota::per_minute(5)).by(BearerToken),
        Rule::token_bucket("address", Quota::per_minute(20)).by(Peer),
    ]);
    assert_eq!(layer.warnings(), []);
    let requests = (0..500).map(|n| {
        let request = from("203.0.113.7").header("authorization", format!("Bearer junk{n}"));
        request.body(()).unwrap()
    });
    assert_eq!(admitted(&layer, requests).await, 20);
}

#[tokio::test]
async fn a_server_that_does_not_know_its_peer_answers_500_and_shares_no_bucket() {
    let (layer, _) = layer([Rule::token_bucket("ip", Quota::per_minute(10))]);
    for _ in 0..20 {
        let response = crate::support::send(&layer, Request::new(())).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(
            field(&response, "content-type").unwrap(),
            "application/problem+json"
        );
        let body = text_of(response.into_body()).await;
        for internal in [
            "connect_info",
            "ratekeeper",
            "axum",
            "PeerAddr",
            "extension",
        ] {
            assert!(!body.contains(internal), "{body}");
        }
    }
    assert_eq!(
        status(&layer, from("203.0.113.7").body(()).unwrap()).await,
        StatusCode::OK
    );
}

#[tokio::test]
async fn preflights_have_a_limit_of_their_own() {
    let (layer, _) = layer([
        Rule::token_bucket("user", Quota::per_minute(1)).by(Header::from_static("x-user")),
        Rule::preflights(Quota::per_minute(30)),
    ]);
    let preflight = || {
        let request = from("203.0.113.7")
            .method("OPTIONS")
            .header("origin", "https://a.example");
        request
            .header("access-control-request-method", "POST")
            .body(())
            .unwrap()
    };
    assert_eq!(admitted(&layer, (0..100).map(|_| preflight())).await, 30);
    // Any other OPTIONS is a request like all others.
    let plain = || {
        from("203.0.113.7")
            .method("OPTIONS")
            .header("x-user", "ann")
            .body(())
            .unwrap()
    };
    assert_eq!(admitted(&layer, (0..5).map(|_| plain())).await, 1);
    // Nor does calling oneself PREFLIGHT get around the other rules.
    let named = from("203.0.113.8")
        .method("PREFLIGHT")
        .header("x-user", "ann");
    assert_eq!(
        status(&layer, named.body(()).unwrap()).await,
        StatusCode::TOO_MANY_REQUESTS
    );
}

#[tokio::test]
async fn health_checks_are_exempt_where_that_was_asked_for() {
    let layer = RateLimitLayer::builder()
        .rule(Rule::token_bucket("ip", Quota::per_minute(1)))
        .exempt(Exemptions::new().health_checks())
        .build()
        .unwrap();
    let health = || Request::get("/healthz").body(()).unwrap();
    assert_eq!(admitted(&layer, (0..10).map(|_| health())).await, 10);
    assert_eq!(
        status(&layer, Request::get("/").body(()).unwrap()).await,
        500
    );
}

#[test]
fn rules_by_what_a_client_chooses_alone_get_a_warning() {
    let (layer, _) = layer([Rule::token_bucket("token", Quota::per_minute(5)).by(BearerToken)]);
    let warnings = layer.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].to_string().contains("\"token\""),
        "{}",
        warnings[0]
    );
}
