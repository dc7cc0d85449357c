//! The decision tables: which address a chain of proxies resolves to, and what it is keyed by.

use http::{HeaderMap, HeaderName, HeaderValue};
use ratekeeper_key::{ClientIp, Networks, Prefixes, SocketPeer, Source};

use crate::support::address;

const TRUSTED: [&str; 2] = ["10.0.0.0/8", "2001:db8:ffff::/48"];

fn headers(name: &'static str, lines: &[&str]) -> HeaderMap {
    lines
        .iter()
        .map(|line| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(line).unwrap(),
            )
        })
        .collect()
}

fn by_networks(source: Source) -> ClientIp {
    ClientIp::behind(source, Networks::new(TRUSTED).unwrap())
}

fn resolve(by_ip: &ClientIp, peer: &str, headers: &HeaderMap) -> String {
    by_ip
        .resolve(SocketPeer::from(address(peer)), headers)
        .unwrap()
        .to_string()
}

#[test]
fn x_forwarded_for_resolves_as_the_table_says() {
    const PEER: &str = "10.0.0.2";
    const CLIENT: &str = "203.0.113.9";
    const V6: &str = "2001:db8:1:2::9";
    #[rustfmt::skip]
    let table: &[(u8, &str, &[&str], [&str; 3])] = &[
        // row, peer, lines, [by networks, one hop, two hops]
        (1, "198.51.100.7", &["1.1.1.1"], ["198.51.100.7", "1.1.1.1", "198.51.100.7"]),
        (2, PEER, &["203.0.113.9"], [CLIENT, CLIENT, PEER]),
        (3, PEER, &["1.1.1.1, 203.0.113.9"], [CLIENT, CLIENT, "1.1.1.1"]),
        (4, PEER, &["1.1.1.1, 203.0.113.9, 10.0.0.1"], [CLIENT, "10.0.0.1", CLIENT]),
        (5, PEER, &["1.1.1.1", "203.0.113.9, 10.0.0.1"], [CLIENT, "10.0.0.1", CLIENT]),
        (6, PEER, &["10.9.9.9, 10.0.0.1"], ["10.9.9.9", "10.0.0.1", "10.9.9.9"]),
        (7, PEER, &[], [PEER, PEER, PEER]),
        (8, PEER, &["203.0.113.9:54321"], [CLIENT, CLIENT, PEER]),
        (9, PEER, &["2001:DB8:1:2::9"], [V6, V6, PEER]),
        (10, PEER, &["[2001:db8:1:2::9]"], [V6, V6, PEER]),
        (11, PEER, &["[2001:db8:1:2::9]:443"], [V6, V6, PEER]),
        (12, PEER, &["::ffff:203.0.113.9"], [CLIENT, CLIENT, PEER]),
        (13, "::ffff:10.0.0.2", &["203.0.113.9"], [CLIENT, CLIENT, PEER]),
        (14, "::ffff:a00:2", &["203.0.113.9"], [CLIENT, CLIENT, PEER]),
        (15, PEER, &["203.0.113.9, <script>"], [PEER, PEER, CLIENT]),
        (16, PEER, &["<script>, 203.0.113.9"], [CLIENT, CLIENT, PEER]),
        (17, PEER, &["203.0.113.9, garbage, 10.0.0.1"], ["10.0.0.1", "10.0.0.1", PEER]),
        (18, PEER, &["203.0.113.9, unknown"], [PEER, PEER, CLIENT]),
        (19, PEER, &[" , 203.0.113.9 ,, 10.0.0.1 , "], [CLIENT, "10.0.0.1", CLIENT]),
        (20, PEER, &["203.000.113.009"], [PEER, PEER, PEER]),
        (21, PEER, &["fe80::1%eth0"], [PEER, PEER, PEER]),
        (22, "2001:db8:ffff::2", &["2001:db8:1:2::9, 2001:db8:ffff::1"], [V6, "2001:db8:ffff::1", V6]),
        (23, PEER, &["203.0.113.9:99999"], [PEER, PEER, PEER]),
        (24, PEER, &["2001:db8::1:8080"], ["2001:db8::1:8080", "2001:db8::1:8080", PEER]),
    ];
    let by = [
        by_networks(Source::XForwardedFor),
        ClientIp::behind_hops(Source::XForwardedFor, 1),
        ClientIp::behind_hops(Source::XForwardedFor, 2),
    ];
    for (row, peer, lines, expected) in table {
        let headers = headers("x-forwarded-for", lines);
        let found = by.each_ref().map(|by_ip| resolve(by_ip, peer, &headers));
        assert_eq!(found, *expected, "row {row}");
    }
}

#[test]
fn forwarded_resolves_as_the_table_says() {
    const PEER: &str = "10.0.0.2";
    const CLIENT: &str = "203.0.113.9";
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str], &str)] = &[
        ("F1", PEER, &["for=203.0.113.9;proto=https;by=10.0.0.2"], CLIENT),
        ("F2", PEER, &[r#"For="[2001:db8:cafe::17]:4711""#], "2001:db8:cafe::17"),
        ("F3", PEER, &["for=1.1.1.1, for=203.0.113.9, for=10.0.0.1"], CLIENT),
        ("F4", PEER, &[r#"for="203.0.113.9:47011""#], CLIENT),
        ("F5", PEER, &[r#"for="_gazonk""#], PEER),
        ("F6", PEER, &["for=unknown"], PEER),
        ("F7", PEER, &["for=203.0.113.9, for=_hidden, for=10.0.0.1"], "10.0.0.1"),
        ("F8", PEER, &[r#"for=203.0.113.9;foo="a,b;for=1.1.1.1""#], CLIENT),
        ("F9", PEER, &["for=1.1.1.1", "for=203.0.113.9"], CLIENT),
        ("F10", PEER, &["proto=https"], PEER),
        ("F11", PEER, &["for=203.0.113.9;for=1.1.1.1"], PEER),
        ("F12", PEER, &[r#"for="[::ffff:203.0.113.9]""#], CLIENT),
        ("F13", PEER, &[r#"for="203.0.113.9:_obf""#], CLIENT),
        ("F14", "198.51.100.7", &["for=1.1.1.1"], "198.51.100.7"),
        ("F15", PEER, &["for=203.0.113.9; proto=https , for=10.0.0.1"], CLIENT),
        ("F16, strict", PEER, &["for=[2001:db8::1]"], PEER),
    ];
    let by_ip = by_networks(Source::Forwarded);
    for (row, peer, lines, expected) in table {
        let headers = headers("forwarded", lines);
        assert_eq!(resolve(&by_ip, peer, &headers), *expected, "row {row}");
    }
}

#[test]
fn forwarded_is_read_strictly() {
    const PEER: &str = "10.0.0.2";
    const CLIENT: &str = "203.0.113.9";
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        // Escapes are undone before the node is read, and hide no border.
        (&[r#"for="203\.0.113.9""#], CLIENT),
        (&[r#"foo="\",for=1.1.1.1";for=203.0.113.9"#], CLIENT),
        (&[r#"foo="\\";for=203.0.113.9"#], CLIENT),
        (&[r#"foo="a,b\"c,d";for=203.0.113.9"#], CLIENT),
        (&[r#"foo="a,\\\"b";for=203.0.113.9"#], CLIENT),
        (&[r#"for=1.1.1.1;foo="\\", for=203.0.113.9"#], CLIENT),
        // An open quote on a line leaves nothing on it to rely on; other lines are not touched.
        (&[r#"for="1.1.1.1, for=203.0.113.9"#], PEER),
        (&[r#"for=1.1.1.1, for="203.0.113.9"#], PEER),
        (&[r#"for="1.1.1.1"#, "for=203.0.113.9"], CLIENT),
        (&[r#"for="1.1.1.1\"#, "for=203.0.113.9"], CLIENT),
        // Quotes in the wrong place.
        (&[r#"for=1.1.1.1, for=203".0.113.9""#], PEER),
        (&[r#"for="203.0.113.9"x"#], PEER),
        (&[r#"for="203.0.113.9";;proto=http;"#], CLIENT),
        // White space stands around commas and semicolons only.
        (&["for = 203.0.113.9"], PEER),
        (&["for=203.0.113.9 ;\tproto=https"], CLIENT),
        // Nodes.
        (&["for=203.0.113.9:80"], PEER),
        (&[r#"for="203.0.113.9:""#], PEER),
        (&[r#"for="203.0.113.9:99999""#], PEER),
        (&[r#"for="203.0.113.9:_""#], PEER),
        (&[r#"for="2001:db8::1""#], PEER),
        (&[r#"for="[203.0.113.9]""#], PEER),
        (&[r#"for="[2001:db8::1""#], PEER),
        (&[r#"for="""#], PEER),
        (&["for="], PEER),
        (&["=203.0.113.9"], PEER),
        (&["203.0.113.9"], PEER),
        (&[";"], PEER),
        (&[","], PEER),
        // Repeated names spoil the element, in whatever case.
        (&["for=203.0.113.9;FOR=203.0.113.9"], PEER),
        (&["for=203.0.113.9;proto=http;Proto=https"], PEER),
    ];
    let by_ip = by_networks(Source::Forwarded);
    for (lines, expected) in table {
        let headers = headers("forwarded", lines);
        assert_eq!(resolve(&by_ip, PEER, &headers), *expected, "{lines:?}");
    }
}

#[test]
fn a_unix_socket_is_a_proxy_only_when_it_is_trusted() {
    let headers = headers("x-forwarded-for", &["203.0.113.9"]);
    let untrusted = by_networks(Source::XForwardedFor);
    let trusted = untrusted.clone().trust_unix_sockets();
    assert_eq!(
        trusted.resolve(SocketPeer::Unix, &headers),
        Some(address("203.0.113.9")),
        "U1"
    );
    assert_eq!(untrusted.resolve(SocketPeer::Unix, &headers), None, "U2");
    assert_eq!(
        trusted.resolve(SocketPeer::Unix, &HeaderMap::new()),
        None,
        "names no client"
    );

    let untrusted = ClientIp::behind_hops(Source::XForwardedFor, 1);
    let trusted = untrusted.clone().trust_unix_sockets();
    assert_eq!(
        trusted.resolve(SocketPeer::Unix, &headers),
        Some(address("203.0.113.9"))
    );
    assert_eq!(untrusted.resolve(SocketPeer::Unix, &headers), None);
}

#[test]
fn addresses_are_keyed_as_the_table_says() {
    // `64:ff9b::/96` is counted by the IPv4 address that it embeds.
    #[rustfmt::skip]
    let table = [
        // address, [by /64, by /56, by /48]
        ("203.0.113.9", ["203.0.113.9", "203.0.113.9", "203.0.113.9"]),
        ("::ffff:203.0.113.9", ["203.0.113.9", "203.0.113.9", "203.0.113.9"]),
        ("::ffff:cb00:7109", ["203.0.113.9", "203.0.113.9", "203.0.113.9"]),
        ("2001:db8:1:2:3:4:5:6", ["2001:db8:1:2::/64", "2001:db8:1::/56", "2001:db8:1::/48"]),
        ("2001:db8:1:2ff:3:4:5:6", ["2001:db8:1:2ff::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"]),
        ("2001:db8::1.2.3.4", ["2001:db8::/64", "2001:db8::/56", "2001:db8::/48"]),
        ("::1", ["::/64", "::/56", "::/48"]),
        ("::1.2.3.4", ["::/64", "::/56", "::/48"]),
        ("64:ff9b::192.0.2.1", ["192.0.2.1", "192.0.2.1", "192.0.2.1"]),
        ("64:ff9b:1::192.0.2.1", ["64:ff9b:1::/64", "64:ff9b:1::/56", "64:ff9b:1::/48"]),
        ("123:4567:89ab:cdef::", ["123:4567:89ab:cdef::/64", "123:4567:89ab:cd00::/56", "123:4567:89ab::/48"]),
    ];
    let by = [64, 56, 48].map(|bits| Prefixes::new(32, bits).unwrap());
    for (host, expected) in table {
        let found = by.map(|prefixes| prefixes.key(address(host)).reveal().to_string());
        assert_eq!(found, expected, "{host}");
    }
}

#[test]
fn prefixes_need_not_end_at_a_byte_and_tell_hosts_from_networks() {
    let key = |v4, v6, host| Prefixes::new(v4, v6).unwrap().key(address(host));
    assert_eq!(
        key(32, 63, "123:4567:89ab:cdef::1").reveal().to_string(),
        "123:4567:89ab:cdee::/63"
    );
    assert_eq!(
        key(20, 64, "203.0.113.9").reveal().to_string(),
        "203.0.112.0/20"
    );
    assert_ne!(key(32, 64, "2001:db8::"), key(32, 128, "2001:db8::"));
}
