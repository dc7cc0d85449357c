//! The client's address: what forging and garbage achieve.

use std::collections::HashSet;

use http::HeaderName;
use ratekeeper_key::{
    ClientIp, FrontEnd, KeyErrorKind, KeyExtractor, Networks, Prefixes, Source, UnixPeer,
};

use crate::support::{failure, key, request};

fn behind(trusted: &str) -> ClientIp {
    ClientIp::behind(Source::XForwardedFor, trusted.parse().unwrap())
}

#[test]
fn a_spoofed_leftmost_address_gives_no_second_key() {
    let by_ip = behind("10.0.0.0/8");
    let keys: HashSet<String> = (1..=100)
        .map(|n| {
            let typed = format!("6.6.6.{n}, 203.0.113.7");
            key(
                &by_ip,
                &request(Some("10.0.0.2"), &[("x-forwarded-for", &typed)]),
            )
        })
        .collect();
    assert_eq!(keys, HashSet::from(["203.0.113.7".to_owned()]));
}

#[test]
fn fields_that_are_not_the_configured_one_are_never_looked_at() {
    let others = [
        ("forwarded", "for=6.6.6.6"),
        ("cf-connecting-ip", "6.6.6.6"),
        ("x-real-ip", "6.6.6.6"),
        ("true-client-ip", "6.6.6.6"),
        ("fly-client-ip", "6.6.6.6"),
    ];
    assert_eq!(
        key(&behind("10.0.0.0/8"), &request(Some("10.0.0.2"), &others)),
        "10.0.0.2"
    );
    assert_eq!(
        key(&ClientIp::direct(), &request(Some("10.0.0.2"), &others)),
        "10.0.0.2"
    );
}

#[test]
fn at_most_max_hops_proxies_are_believed() {
    // A client inside the trusted network, 10.5.5.5, typed the first entry.
    let parts = request(
        Some("10.0.0.2"),
        &[("x-forwarded-for", "1.1.1.1, 10.5.5.5")],
    );
    assert_eq!(
        key(&behind("10.0.0.0/8"), &parts),
        "1.1.1.1",
        "without a bound"
    );
    assert_eq!(key(&behind("10.0.0.0/8").max_hops(2), &parts), "1.1.1.1");
    assert_eq!(key(&behind("10.0.0.0/8").max_hops(1), &parts), "10.5.5.5");
    assert_eq!(key(&behind("10.0.0.0/8").max_hops(0), &parts), "10.0.0.2");
}

#[test]
fn a_field_with_one_address_is_believed_from_a_trusted_peer_only() {
    for (source, name) in [
        (Source::CfConnectingIp, "cf-connecting-ip"),
        (Source::XRealIp, "x-real-ip"),
        (Source::FlyClientIp, "fly-client-ip"),
        (Source::TrueClientIp, "true-client-ip"),
        (
            Source::Single(HeaderName::from_static("x-envoy-external-address")),
            "x-envoy-external-address",
        ),
    ] {
        let by_ip = ClientIp::behind(source.clone(), "10.0.0.0/8".parse().unwrap());
        let from = |peer, value| key(&by_ip, &request(Some(peer), &[(name, value)]));
        assert_eq!(from("10.0.0.2", "203.0.113.9"), "203.0.113.9", "{name}");
        assert_eq!(
            from("10.0.0.2", " 203.0.113.9:80 "),
            "203.0.113.9",
            "{name}"
        );
        assert_eq!(
            from("10.0.0.2", "2001:db8:1:2::9"),
            "2001:db8:1:2::/64",
            "{name}"
        );
        assert_eq!(
            from("10.0.0.2", "10.0.0.3"),
            "10.0.0.3",
            "a client inside, {name}"
        );
        assert_eq!(from("198.51.100.7", "6.6.6.6"), "198.51.100.7", "{name}");
        for bad in [
            "6.6.6.6, 203.0.113.9",
            "203.0.113.9,",
            "unknown",
            "",
            "203.0.113.9 x",
        ] {
            assert_eq!(from("10.0.0.2", bad), "10.0.0.2", "{name}: {bad}");
        }
        let twice = request(
            Some("10.0.0.2"),
            &[(name, "6.6.6.6"), (name, "203.0.113.9")],
        );
        assert_eq!(key(&by_ip, &twice), "10.0.0.2", "{name}");
        let hops = ClientIp::behind_hops(source, 1);
        assert_eq!(
            key(&hops, &request(Some("10.0.0.2"), &[(name, "203.0.113.9")])),
            "203.0.113.9"
        );
    }
}

#[test]
fn lists_of_commas_and_long_entries_resolve_to_the_proxy() {
    let commas = ",".repeat(64 * 1024);
    let long = "1".repeat(64 * 1024);
    for value in [
        "",
        " ",
        &commas,
        &long,
        "_obf",
        "unknown",
        "-",
        "203.0.113.9 1.1.1.1",
    ] {
        let parts = request(Some("10.0.0.2"), &[("x-forwarded-for", value)]);
        assert_eq!(key(&behind("10.0.0.0/8"), &parts), "10.0.0.2");
        let parts = request(Some("10.0.0.2"), &[("forwarded", value)]);
        let forwarded = ClientIp::behind(Source::Forwarded, "10.0.0.0/8".parse().unwrap());
        assert_eq!(key(&forwarded, &parts), "10.0.0.2");
    }
}

#[test]
fn a_value_that_is_not_text_ends_the_walk() {
    let mut parts = request(Some("10.0.0.2"), &[]);
    let value = http::HeaderValue::from_bytes(b"1.1.1.1, 203.0.113.\xff").unwrap();
    parts.headers.insert("x-forwarded-for", value);
    assert_eq!(key(&behind("10.0.0.0/8"), &parts), "10.0.0.2");
}

#[test]
fn without_a_peer_the_server_is_at_fault_whatever_the_client_sent() {
    let parts = request(None, &[("x-forwarded-for", "203.0.113.9")]);
    for by_ip in [
        behind("10.0.0.0/8"),
        ClientIp::behind_hops(Source::XForwardedFor, 1),
    ] {
        let error = failure(&by_ip, &parts);
        assert_eq!(error.kind(), KeyErrorKind::MissingPeer);
        assert_eq!(error.status(), 500);
        assert_eq!(error.to_string(), "the server could not tell who is asking");
        let detail = error.detail().to_string();
        assert!(
            detail.contains("into_make_service_with_connect_info::<SocketAddr>()"),
            "{detail}"
        );
    }
}

#[test]
fn a_unix_socket_without_trust_has_no_address() {
    let mut parts = request(None, &[("x-forwarded-for", "203.0.113.9")]);
    parts.extensions.insert(UnixPeer);
    assert_eq!(
        failure(&behind("10.0.0.0/8"), &parts).kind(),
        KeyErrorKind::NoAddress
    );
    assert_eq!(failure(&ClientIp::direct(), &parts).status(), 500);
    assert_eq!(
        key(&behind("10.0.0.0/8").trust_unix_sockets(), &parts),
        "203.0.113.9"
    );
}

#[test]
fn a_site_is_wider_than_a_host_and_a_rotating_client_stays_in_it() {
    let by_host = ClientIp::direct();
    let by_site = by_host.site();
    let keys = |by_ip: &ClientIp| {
        let rotated = (0..50).map(|n| request(Some(&format!("2001:db8:1:{n:x}::1")), &[]));
        rotated
            .map(|parts| key(by_ip, &parts))
            .collect::<HashSet<_>>()
    };
    assert_eq!(keys(&by_host).len(), 50);
    assert_eq!(
        keys(&by_site),
        HashSet::from(["2001:db8:1::/48".to_owned()])
    );
    assert_eq!(by_site.name(), format!("ip:{}", Prefixes::SITE));
}

#[test]
fn presets_find_the_client_behind_their_front_end() {
    #[rustfmt::skip]
    let table = [
        (FrontEnd::Nginx, "x-forwarded-for", "6.6.6.6, 203.0.113.9"),
        (FrontEnd::AwsAlb, "x-forwarded-for", "6.6.6.6, 203.0.113.9:4711"),
        (FrontEnd::GcpExternalAlb, "x-forwarded-for", "6.6.6.6, 203.0.113.9, 10.0.0.9"),
        (FrontEnd::Envoy, "x-forwarded-for", "6.6.6.6,203.0.113.9"),
        (FrontEnd::Traefik, "x-forwarded-for", "203.0.113.9"),
        (FrontEnd::Caddy, "x-forwarded-for", "203.0.113.9"),
        (FrontEnd::Cloudflare, "cf-connecting-ip", "203.0.113.9"),
        (FrontEnd::Fly, "fly-client-ip", "203.0.113.9"),
    ];
    assert_eq!(
        table.map(|(front_end, ..)| front_end).len(),
        FrontEnd::ALL.len()
    );
    for (front_end, field, value) in table {
        let parts = request(Some("10.0.0.2"), &[(field, value)]);
        let networks = Networks::new(["10.0.0.0/24"]).unwrap();
        assert_eq!(
            key(&front_end.within(networks.clone()), &parts),
            "203.0.113.9",
            "{front_end:?}"
        );
        assert_eq!(
            key(&front_end.alone(), &parts),
            "203.0.113.9",
            "{front_end:?} alone"
        );
        let direct = request(Some("198.51.100.7"), &[(field, value)]);
        assert_eq!(
            key(&front_end.within(networks), &direct),
            "198.51.100.7",
            "{front_end:?}"
        );
        assert!(front_end.caveat().len() > 60);
    }
}
