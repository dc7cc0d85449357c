//! The extractors and what combines them.

use std::sync::Arc;

use http::StatusCode;
use ratekeeper_key::{
    Extension, Global, Header, Key, KeyError, KeyErrorKind, KeyExtractor, Keyed, Method, OnFailure,
    Peer, TextExtractor, WarningKind, by_extension, by_fn,
};

use crate::support::{address, failure, key, request};

#[test]
fn the_peer_is_keyed_without_its_port_and_by_its_network() {
    let peer = |address| key(&Peer, &request(Some(address), &[]));
    assert_eq!(peer("203.0.113.9"), "203.0.113.9");
    assert_eq!(peer("::ffff:203.0.113.9"), "203.0.113.9");
    assert_ne!(peer("::ffff:192.0.2.1"), peer("::ffff:192.0.2.2"));
    assert_eq!(peer("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
}

#[test]
fn a_request_without_a_peer_fails_and_shares_no_key() {
    let error = failure(&Peer, &request(None, &[]));
    assert_eq!(error.kind(), KeyErrorKind::MissingPeer);
    assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[cfg(feature = "axum")]
#[test]
fn axum_peers_are_found_real_and_mocked() {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    use axum::extract::connect_info::MockConnectInfo;

    let socket = SocketAddr::new(address("203.0.113.9"), 80);
    let mut parts = request(None, &[]);
    parts.extensions.insert(MockConnectInfo(socket));
    assert_eq!(key(&Peer, &parts), "203.0.113.9");
    parts
        .extensions
        .insert(ConnectInfo(SocketAddr::new(address("203.0.113.10"), 80)));
    assert_eq!(key(&Peer, &parts), "203.0.113.10", "the real one wins");
}

#[cfg(feature = "tonic")]
#[test]
fn tonic_peers_are_found() {
    use std::net::SocketAddr;

    use tonic::transport::server::{TcpConnectInfo, UdsConnectInfo};

    let socket = SocketAddr::new(address("203.0.113.9"), 80);
    let mut parts = request(None, &[]);
    parts.extensions.insert(TcpConnectInfo {
        local_addr: None,
        remote_addr: Some(socket),
    });
    assert_eq!(key(&Peer, &parts), "203.0.113.9");
    parts.extensions.insert(TcpConnectInfo {
        local_addr: None,
        remote_addr: None,
    });
    assert_eq!(failure(&Peer, &parts).kind(), KeyErrorKind::MissingPeer);
    let mut parts = request(None, &[]);
    parts.extensions.insert(UdsConnectInfo {
        peer_addr: None,
        peer_cred: None,
    });
    assert_eq!(failure(&Peer, &parts).kind(), KeyErrorKind::NoAddress);
}

#[cfg(feature = "axum")]
#[test]
fn an_unmatched_route_is_one_constant_key() {
    use ratekeeper_key::MatchedRoute;

    for path in ["/a", "/b", "/unmatched"] {
        let mut parts = request(None, &[]);
        parts.uri = path.parse().unwrap();
        assert_eq!(key(&MatchedRoute, &parts), "unmatched");
    }
}

#[test]
fn a_header_is_one_line_of_text() {
    let by_key = Header::from_static("x-api-key");
    let of = |lines: &[(&str, &str)]| request(None, lines);
    assert_eq!(key(&by_key, &of(&[("x-api-key", " abc\t")])), "abc");
    let missing = failure(&by_key, &of(&[]));
    assert_eq!(
        (missing.kind(), missing.status()),
        (KeyErrorKind::Missing, StatusCode::BAD_REQUEST)
    );
    assert_eq!(
        missing.detail().to_string(),
        "the request has no header \"x-api-key\""
    );
    assert_eq!(
        failure(&by_key, &of(&[("x-api-key", " ")])).kind(),
        KeyErrorKind::Missing
    );
    let twice = failure(&by_key, &of(&[("x-api-key", "a"), ("x-api-key", "a")]));
    assert_eq!(
        (twice.kind(), twice.status()),
        (KeyErrorKind::Malformed, StatusCode::BAD_REQUEST)
    );
    let mut parts = of(&[]);
    parts
        .headers
        .insert("x-api-key", http::HeaderValue::from_bytes(b"\xff").unwrap());
    assert_eq!(failure(&by_key, &parts).kind(), KeyErrorKind::Malformed);
}

#[test]
fn errors_show_nothing_that_the_client_sent() {
    let by_key = Header::from_static("x-api-key");
    let parts = request(None, &[("x-api-key", "s3cret"), ("x-api-key", "s3cret2")]);
    let error = failure(&by_key, &parts);
    let shown = format!("{error} {error:?} {}", error.detail());
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(
        !error.to_string().contains("x-api-key"),
        "names no internals to the client"
    );
}

#[test]
fn spellings_of_one_identity_are_normalized_into_one_key() {
    let by_user = Header::from_static("x-user").normalized(|user| user.to_lowercase());
    let of = |user| key(&by_user, &request(None, &[("x-user", user)]));
    assert_eq!(of(" User@X.com"), of("user@x.com"));
}

#[test]
fn an_extension_is_keyed_by_a_closure_or_by_conversion() {
    #[derive(Clone)]
    struct User(u64);
    let mut parts = request(None, &[]);
    let by_user = by_extension(|user: &User| user.0);
    let error = failure(&by_user, &parts);
    assert_eq!(
        (error.kind(), error.status()),
        (KeyErrorKind::Missing, StatusCode::UNAUTHORIZED)
    );
    assert!(error.detail().to_string().contains("User"));
    parts.extensions.insert(User(7));
    assert_eq!(by_user.extract(&parts), Keyed::from(7));
    parts.extensions.insert("alice".to_owned());
    assert_eq!(
        Extension::<String>::new().extract(&parts),
        Keyed::from("alice")
    );
    assert!(!by_user.client_chosen());
}

#[test]
fn invented_methods_share_one_key_and_head_is_get() {
    let of = |method: &str| {
        let mut parts = request(None, &[]);
        parts.method = method.parse().unwrap();
        key(&Method, &parts)
    };
    assert_eq!(
        (of("HEAD"), of("GET"), of("POST")),
        ("GET".into(), "GET".into(), "POST".into())
    );
    assert_eq!(
        (of("X1"), of("X2"), of("get")),
        ("(other)".into(), "(other)".into(), "(other)".into())
    );
}

#[test]
fn what_closures_return_becomes_an_outcome() {
    let parts = request(None, &[]);
    assert_eq!(by_fn(|_| "a").extract(&parts), Keyed::from("a"));
    assert_eq!(
        by_fn(|_| String::from("a")).extract(&parts),
        Keyed::from("a")
    );
    assert_eq!(by_fn(|_| 7).extract(&parts), Keyed::from(7));
    assert_eq!(
        by_fn(|_| address("192.0.2.1")).extract(&parts),
        Keyed::from(address("192.0.2.1"))
    );
    assert_eq!(by_fn(|_| Key::from("a")).extract(&parts), Keyed::from("a"));
    assert_eq!(by_fn(|_| Some("a")).extract(&parts), Keyed::from("a"));
    assert_eq!(by_fn(|_| Keyed::Exempt).extract(&parts), Keyed::Exempt);
    assert_eq!(
        by_fn(|_| Ok::<_, KeyError>("a")).extract(&parts),
        Keyed::from("a")
    );
    assert_eq!(
        by_fn(|_| Some(Keyed::Exempt)).extract(&parts),
        Keyed::Exempt
    );
    let none = failure(&by_fn(|_| None::<u64>), &parts);
    assert_eq!(
        (none.kind(), none.status()),
        (KeyErrorKind::Missing, StatusCode::BAD_REQUEST)
    );
    let forbidden = failure(
        &by_fn(|_| Err::<u64, _>(KeyError::forbidden("plan"))),
        &parts,
    );
    assert_eq!(forbidden.status(), StatusCode::FORBIDDEN);
    assert!(by_fn(|_| 7).client_chosen() && !by_fn(|_| 7).verified().client_chosen());
}

#[test]
fn a_tuple_needs_all_parts_and_never_collides() {
    let header = |name| Header::from_static(name);
    let pair = (header("x-a"), header("x-b"));
    let of = |a, b| pair.extract(&request(None, &[("x-a", a), ("x-b", b)]));
    assert_ne!(of("ab", "c"), of("a", "bc"));
    assert_eq!(of("a", "b"), of("a", "b"));
    assert_ne!(of("a", "b"), of("b", "a"));
    let nested = ((header("x-a"), header("x-b")), Global);
    let flat = (header("x-a"), header("x-b"), Global);
    let parts = request(None, &[("x-a", "a"), ("x-b", "b")]);
    assert_ne!(nested.extract(&parts), flat.extract(&parts));
    let four = (header("x-a"), Global, header("x-b"), Method);
    assert_eq!(key(&four, &parts), "a (global) b GET");

    let first = failure(&(header("x-a"), header("x-b")), &request(None, &[]));
    assert!(
        first.detail().to_string().contains("x-a"),
        "the first failure wins"
    );
    let exempt = (header("x-a"), by_fn(|_| Keyed::Exempt));
    assert_eq!(exempt.extract(&request(None, &[])), Keyed::Exempt);
}

#[test]
fn a_tuple_is_chosen_by_the_client_if_a_part_is() {
    assert!(!(Peer, Method).client_chosen());
    assert!((Peer, Header::from_static("x-a")).client_chosen());
    assert_eq!(
        (Peer, Header::from_static("x-a"), Method).name(),
        "(peer, header:x-a, method)"
    );
}

#[test]
fn the_fall_back_is_asked_only_where_the_identity_is_absent() {
    let by_key = Header::from_static("x-api-key").or(Peer);
    let of = |lines: &[(&str, &str)]| request(Some("192.0.2.1"), lines);
    assert_eq!(key(&by_key, &of(&[("x-api-key", "a")])), "a");
    assert_eq!(key(&by_key, &of(&[])), "192.0.2.1");
    let twice = of(&[("x-api-key", "a"), ("x-api-key", "b")]);
    assert_eq!(failure(&by_key, &twice).kind(), KeyErrorKind::Malformed);
    let typed = key(&by_key, &of(&[("x-api-key", "192.0.2.1")]));
    assert_eq!(typed, "192.0.2.1", "reads alike");
    let typed = by_key.extract(&of(&[("x-api-key", "192.0.2.1")]));
    assert_ne!(typed, by_key.extract(&of(&[])), "and is another key");
    assert!(by_key.client_chosen());
    let unknown_peer = Peer.or(Global);
    assert_eq!(
        failure(&unknown_peer, &request(None, &[])).kind(),
        KeyErrorKind::MissingPeer
    );
    assert_eq!(by_key.name(), "header:x-api-key or peer");
}

#[test]
fn a_failure_is_refused_shared_or_exempt_as_configured() {
    let with = |policy| Header::from_static("x-api-key").on_failure(policy);
    let without = request(None, &[]);
    let refused = failure(&with(OnFailure::Refuse(StatusCode::UNAUTHORIZED)), &without);
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let nonsense = failure(&with(OnFailure::Refuse(StatusCode::OK)), &without);
    assert_eq!(nonsense.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let shared = with(OnFailure::Shared);
    assert_eq!(shared.extract(&without), Keyed::Key(Key::GLOBAL));
    let typed = shared.extract(&request(None, &[("x-api-key", "global")]));
    assert_ne!(typed, Keyed::Key(Key::GLOBAL));
    let exempt = with(OnFailure::Exempt);
    assert_eq!(exempt.extract(&without), Keyed::Exempt);
    let kinds = |e: &dyn KeyExtractor| e.warnings().iter().map(|w| w.kind()).collect::<Vec<_>>();
    assert_eq!(kinds(&exempt), [WarningKind::ExemptOnFailure]);
    assert_eq!(kinds(&(Global, exempt)), [WarningKind::ExemptOnFailure]);
    assert!(shared.warnings().is_empty());
}

#[test]
fn a_shared_extractor_says_what_the_extractor_says() {
    let shared: Arc<dyn KeyExtractor> = Arc::new(Global.on_failure(OnFailure::Exempt));
    assert_eq!(shared.extract(&request(None, &[])), Keyed::Key(Key::GLOBAL));
    assert_eq!(shared.name(), "global else exempt");
    assert!(!shared.client_chosen());
    assert_eq!(shared.warnings().len(), 1);
    assert_eq!(
        (Arc::clone(&shared), shared).name(),
        "(global else exempt, global else exempt)"
    );
}

#[test]
fn debug_texts_show_types_and_no_values() {
    assert_eq!(
        format!("{:?}", by_extension(|user: &u64| *user)),
        "Extension<u64>"
    );
    assert!(format!("{:?}", by_fn(|_| 7)).starts_with("ByFn("));
    assert_eq!(format!("{:?}", Keyed::from("s3cret")), "Key(Key(..))");
}
