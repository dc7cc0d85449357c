//! Requests that no limit applies to.

use http::request::Parts;
use ratekeeper_key::{ClientIp, Exemptions, FrontEnd, Networks, is_preflight};

use crate::support::request;

fn to(method: &str, uri: &str) -> Parts {
    let mut parts = request(Some("10.0.0.2"), &[]);
    parts.method = method.parse().unwrap();
    parts.uri = uri.parse().unwrap();
    parts
}

#[test]
fn nothing_is_exempt_unless_it_is_said() {
    for parts in [
        to("GET", "/healthz"),
        to("POST", "/grpc.health.v1.Health/Check"),
        to("OPTIONS", "/"),
    ] {
        assert!(!Exemptions::new().apply_to(&parts));
    }
}

#[test]
fn health_checks_are_exempt_by_exact_path_and_reading_method() {
    let exempt = Exemptions::new().health_checks().path("/ping");
    for uri in [
        "/health",
        "/healthz",
        "/livez",
        "/readyz",
        "/ping",
        "/healthz?verbose",
    ] {
        assert!(
            exempt.apply_to(&to("GET", uri)) && exempt.apply_to(&to("HEAD", uri)),
            "{uri}"
        );
        assert!(!exempt.apply_to(&to("POST", uri)), "{uri}");
    }
    for uri in [
        "/",
        "/healthz/",
        "//healthz",
        "/health%7A",
        "/api/healthz",
        "/Healthz",
    ] {
        assert!(!exempt.apply_to(&to("GET", uri)), "{uri}");
    }
}

#[cfg(feature = "axum")]
#[test]
fn in_a_nested_router_the_whole_path_counts() {
    let exempt = Exemptions::new().path("/healthz");
    let mut parts = to("GET", "/healthz");
    parts.extensions.insert(axum::extract::OriginalUri(
        "/admin/healthz".parse().unwrap(),
    ));
    assert!(!exempt.apply_to(&parts));
}

#[test]
fn grpc_health_and_reflection_are_exempt_by_service() {
    let exempt = Exemptions::new().grpc_health().grpc_reflection();
    for uri in [
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        assert!(exempt.apply_to(&to("POST", uri)), "{uri}");
    }
    for uri in [
        "/grpc.health.v1.HealthX/Check",
        "/pkg.Greeter/SayHello",
        "/grpc.health.v1.Health",
    ] {
        assert!(!exempt.apply_to(&to("POST", uri)), "{uri}");
    }
}

#[test]
fn networks_are_exempt_by_the_clients_address_not_the_proxys() {
    let office = || Networks::new(["192.0.2.0/24"]).unwrap();
    let by_ip = FrontEnd::Nginx.within(Networks::new(["10.0.0.0/16"]).unwrap());
    let exempt = Exemptions::new().networks(office(), by_ip);
    let from = |typed| request(Some("10.0.0.2"), &[("x-forwarded-for", typed)]);
    assert!(exempt.apply_to(&from("192.0.2.7")));
    assert!(
        !exempt.apply_to(&from("192.0.2.7, 203.0.113.9")),
        "typed by the client"
    );
    let direct = Exemptions::new().networks(office(), ClientIp::direct());
    assert!(!direct.apply_to(&from("192.0.2.7")), "no proxy is trusted");
    assert!(
        !exempt.apply_to(&request(None, &[])),
        "nobody knows who this is"
    );
}

#[test]
fn a_predicate_exempts_what_it_likes() {
    let exempt = Exemptions::new().when(|parts| parts.uri.path().starts_with("/static/"));
    assert!(exempt.apply_to(&to("GET", "/static/a.css")) && !exempt.apply_to(&to("GET", "/a")));
    assert_eq!(format!("{exempt:?}"), "Exemptions { any_of: [When(..)] }");
}

#[test]
fn a_preflight_needs_all_three_conditions() {
    let (origin, asks) = (
        ("origin", "https://a.example"),
        ("access-control-request-method", "PUT"),
    );
    let of = |method: &str, lines: &[(&str, &str)]| {
        let mut parts = request(None, lines);
        parts.method = method.parse().unwrap();
        is_preflight(&parts)
    };
    assert!(of("OPTIONS", &[origin, asks]));
    assert!(!of("GET", &[origin, asks]));
    assert!(!of("OPTIONS", &[origin]));
    assert!(!of("OPTIONS", &[asks]));
}
