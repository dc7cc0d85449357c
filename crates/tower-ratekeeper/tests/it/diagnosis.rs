//! Mistakes in the setup are told, once. What was told is kept for the whole process, so each of these tests runs in one of its
//! own.

use std::process::Command;
use std::sync::{Arc, Mutex};

use http::{Request, StatusCode};
use tower_ratekeeper::key::{Header, Peer, PeerAddr};
use tower_ratekeeper::{Observer, Quota, RateLimitLayer, Rule, RuleMode};

use crate::support::{at_once, field, send, status, text_of};

const ALONE: &str = "RATEKEEPER_TEST_ALONE";

/// Runs the test of this name again, alone in a process; returns whether this is that process.
fn alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}"
    );
    false
}

/// Writes down the codes of what it is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(&'static str, &'static str)>>>);

impl Observer for Told {
    fn diagnosed(&self, code: &'static str, sentence: &'static str) {
        self.0.lock().unwrap().push((code, sentence));
    }
}

fn by_peer(told: &Told, mode: RuleMode) -> RateLimitLayer {
    let rule = Rule::token_bucket("per-client", Quota::per_minute(10))
        .by(Peer)
        .mode(mode);
    let builder = RateLimitLayer::builder().rule(rule).observer(told.clone());
    builder.build().unwrap()
}

#[test]
fn a_server_without_peer_addresses_answers_500_and_is_told_once() {
    if !alone("diagnosis::a_server_without_peer_addresses_answers_500_and_is_told_once") {
        return;
    }
    let told = Told::default();
    let layer = by_peer(&told, RuleMode::Enforced);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let answer = at_once(status(&layer, Request::new(())));
                    assert_eq!(answer, StatusCode::INTERNAL_SERVER_ERROR);
                }
            });
        }
    });
    let answer = at_once(send(&layer, Request::new(())));
    assert_eq!(field(&answer, "cache-control").as_deref(), Some("no-store"));
    assert_eq!(field(&answer, "retry-after"), None);
    assert_eq!(
        field(&answer, "content-type").as_deref(),
        Some("application/problem+json")
    );
    let body = at_once(text_of(answer.into_body()));
    for word in ["onnect", "xtension", "eer", "axum", "per-client"] {
        assert!(!body.contains(word), "{word} in {body}");
    }
    let told = told.0.lock().unwrap();
    let [(code, sentence)] = told[..] else {
        panic!("told {told:?}")
    };
    assert_eq!(code, "no-peer");
    assert!(
        sentence.contains("into_make_service_with_connect_info"),
        "{sentence}"
    );
}

/// Nobody sees a refusal, and nothing would be counted for ever.
#[test]
fn a_shadowed_rule_without_peer_addresses_tells_of_it_too() {
    if !alone("diagnosis::a_shadowed_rule_without_peer_addresses_tells_of_it_too") {
        return;
    }
    let told = Told::default();
    let layer = by_peer(&told, RuleMode::Shadowed);
    for _ in 0..3 {
        assert_eq!(at_once(status(&layer, Request::new(()))), StatusCode::OK);
    }
    assert_eq!(told.0.lock().unwrap().len(), 1);
}

#[test]
fn a_server_that_is_set_up_well_is_told_nothing() {
    if !alone("diagnosis::a_server_that_is_set_up_well_is_told_nothing") {
        return;
    }
    let told = Told::default();
    let quota = Quota::per_second(1_000_000);
    let rules = [
        Rule::token_bucket("per-client", quota).by(Peer),
        Rule::token_bucket("per-key", quota).by(Header::from_static("x-key")),
    ];
    let builder = RateLimitLayer::builder()
        .rules(rules)
        .observer(told.clone());
    let layer = builder.build().unwrap();
    for number in 0..3_000_u32 {
        let mut request = Request::new(());
        let address = std::net::Ipv4Addr::from(0x0101_0000 + number % 50);
        request
            .extensions_mut()
            .insert(PeerAddr(std::net::SocketAddr::from((address, 443))));
        request.headers_mut().insert("x-key", (number % 40).into());
        assert_eq!(at_once(status(&layer, request)), StatusCode::OK);
    }
    assert_eq!(*told.0.lock().unwrap(), []);
}
