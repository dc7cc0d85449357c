//! Keys are made without the heap.

use http::request::Parts;
use ratekeeper_key::{
    BearerToken, ClientIp, Cookie, Exemptions, Global, GrpcMethod, Header, Host, KeyExtractor,
    Keyed, Method, Networks, Peer, Query, Source, TextExtractor, by_extension,
};

use crate::support::request;

/// 36 bytes, as identifiers of 128 bits are written.
const TOKEN: &str = "3b12f1df-5232-4804-897e-917bf397618a";

fn parts() -> Parts {
    let mut parts = request(
        Some("10.0.0.2"),
        &[
            ("x-forwarded-for", "6.6.6.6, 2001:db8:1:2::9, 10.0.0.7"),
            (
                "forwarded",
                "for=6.6.6.6, for=\"[2001:db8:1:2::9]:80\";proto=https, for=10.0.0.7",
            ),
            ("x-real-ip", "203.0.113.9"),
            ("x-api-key", TOKEN),
            ("x-long", &"x".repeat(4_000)),
            ("authorization", &format!("Bearer {TOKEN}")),
            ("cookie", &format!("theme=dark; sid={TOKEN}")),
            ("host", "example.com:8080"),
        ],
    );
    parts.uri = format!("/pkg.Greeter/SayHello?key={TOKEN}")
        .parse()
        .unwrap();
    parts.extensions.insert(7u64);
    parts
}

#[track_caller]
fn allocates_nothing(extractor: &impl KeyExtractor) {
    let parts = parts();
    let mut keyed = Keyed::Exempt;
    let counted = allocation_counter::measure(|| keyed = extractor.extract(&parts));
    assert_eq!(counted.count_total, 0, "{}", extractor.name());
    assert!(
        matches!(keyed, Keyed::Key(_)),
        "{}: {keyed:?}",
        extractor.name()
    );
}

#[test]
fn an_address_is_keyed_without_allocation() {
    let trusted = || Networks::new(["10.0.0.0/16"]).unwrap();
    allocates_nothing(&Peer);
    for source in [Source::XForwardedFor, Source::Forwarded, Source::XRealIp] {
        allocates_nothing(&ClientIp::behind(source.clone(), trusted()));
        allocates_nothing(&ClientIp::behind_hops(source, 2));
    }
}

#[test]
fn a_token_of_36_bytes_is_keyed_without_allocation() {
    allocates_nothing(&Header::from_static("x-api-key"));
    allocates_nothing(&BearerToken);
    allocates_nothing(&Cookie::new("sid"));
    allocates_nothing(&Query::new("key"));
    allocates_nothing(&(BearerToken, Peer));
    allocates_nothing(&BearerToken.or(Peer));
}

#[test]
fn a_header_of_any_length_is_keyed_without_allocation() {
    allocates_nothing(&Header::from_static("x-long"));
    allocates_nothing(&(
        Header::from_static("x-long"),
        Header::from_static("x-api-key"),
        Method,
    ));
}

#[test]
fn other_keys_are_made_without_allocation() {
    allocates_nothing(&Host::new());
    allocates_nothing(&Host::known(["example.com"]));
    allocates_nothing(&GrpcMethod::new(["pkg.Greeter/SayHello"]));
    allocates_nothing(&by_extension(|id: &u64| *id));
    allocates_nothing(&(Method, Global));
}

#[test]
fn failures_and_exemptions_are_found_without_allocation() {
    let parts = parts();
    let (missing, anonymous) = (
        Header::from_static("x-none"),
        by_extension(|id: &u32| u64::from(*id)),
    );
    let exempt = Exemptions::new()
        .health_checks()
        .grpc_health()
        .networks(Networks::new(["192.0.2.0/24"]).unwrap(), ClientIp::direct());
    let counted = allocation_counter::measure(|| {
        assert!(matches!(missing.extract(&parts), Keyed::Failed(_)));
        assert!(matches!(anonymous.extract(&parts), Keyed::Failed(_)));
        assert!(!exempt.apply_to(&parts));
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn the_counter_counts() {
    let by_user = Header::from_static("x-api-key").normalized(|user| user.to_lowercase());
    let parts = parts();
    let counted = allocation_counter::measure(|| _ = by_user.extract(&parts));
    assert_eq!(counted.count_total, 1);
}
