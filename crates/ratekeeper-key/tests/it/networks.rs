//! Sets of networks and prefixes as configuration.

use ratekeeper_key::{
    ClientIp, KeyExtractor, NetworkErrorKind, Networks, Prefixes, Source, WarningKind,
};

use crate::support::address;

#[test]
fn a_set_contains_what_lies_in_one_of_its_networks() {
    let set: Networks =
        "10.0.0.0/8, 10.1.0.0/16 192.0.2.7,2001:db8:ffff::/48\n::ffff:198.51.100.0/120"
            .parse()
            .unwrap();
    for inside in [
        "10.0.0.0",
        "10.255.255.255",
        "::ffff:10.1.2.3",
        "192.0.2.7",
        "198.51.100.255",
    ] {
        assert!(set.contains(address(inside)), "{inside}");
    }
    assert!(set.contains(address("2001:db8:ffff:1::9")));
    for outside in [
        "9.255.255.255",
        "11.0.0.0",
        "192.0.2.6",
        "192.0.2.8",
        "2001:db8:fffe::",
        "::",
    ] {
        assert!(!set.contains(address(outside)), "{outside}");
    }
    assert_eq!(
        set.to_string(),
        "10.0.0.0/8, 192.0.2.7/32, 198.51.100.0/24, 2001:db8:ffff::/48",
        "joined and sorted"
    );
}

#[test]
fn an_address_that_embeds_a_proxys_address_is_not_that_proxy() {
    let set = Networks::new(["10.0.0.0/8"]).unwrap();
    for disguise in ["64:ff9b::10.0.0.2", "::10.0.0.2", "2002:a00:2::"] {
        assert!(!set.contains(address(disguise)), "{disguise}");
    }
}

#[test]
fn a_network_that_is_malformed_or_ambiguous_is_refused_by_name() {
    for (text, kind) in [
        ("10.0.0.0/33", NetworkErrorKind::Malformed),
        ("10.0.0/8", NetworkErrorKind::Malformed),
        ("proxy", NetworkErrorKind::Malformed),
        ("", NetworkErrorKind::Malformed),
        ("10.0.0.7/8", NetworkErrorKind::HostBits),
        ("2001:db8::1/32", NetworkErrorKind::HostBits),
    ] {
        let error = Networks::new([text]).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("invalid network \"{text}\": ")),
            "{error}"
        );
    }
}

#[test]
fn wide_networks_are_warned_of_and_loopback_is_not() {
    let warned = |networks: &[&str]| {
        let warnings =
            ClientIp::behind(Source::XForwardedFor, Networks::new(networks).unwrap()).warnings();
        assert!(
            warnings
                .iter()
                .all(|warning| warning.kind() == WarningKind::WideNetwork)
        );
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(warned(&["10.1.0.0/16", "2001:db8::/32", "127.0.0.0/8"]).is_empty());
    let wide = warned(&["10.0.0.0/15", "2001:db8::/31", "192.0.2.0/24"]);
    assert_eq!(wide.len(), 2);
    assert!(
        wide[0].contains("10.0.0.0/15") && wide[1].contains("2001:db8::/31"),
        "{wide:?}"
    );
    assert!(
        warned(&["10.1.0.0/16", "10.0.0.0/16"]).is_empty(),
        "each was named by itself"
    );
}

#[test]
fn a_set_knows_whether_it_holds_everything_or_nothing() {
    let set = |networks: &[&str]| Networks::new(networks).unwrap();
    assert!(set(&[]).is_empty() && !set(&["::/0"]).is_empty());
    assert!(set(&["0.0.0.0/0"]).is_everything() && set(&["::/0"]).is_everything());
    assert!(set(&["0.0.0.0/1", "128.0.0.0/1"]).is_everything());
    assert!(!set(&["0.0.0.0/1"]).is_everything());
    let both = set(&["10.0.0.0/8"]).and(&set(&["192.0.2.0/24"]));
    assert!(both.contains(address("10.1.2.3")) && both.contains(address("192.0.2.1")));
    assert_eq!(both.wide().len(), 1);
}

#[test]
fn loopback_is_this_host_alone() {
    let loopback = Networks::loopback();
    assert_eq!(loopback.to_string(), "127.0.0.0/8, ::1/128");
    assert!(loopback.wide().is_empty());
}

#[test]
fn prefixes_are_text_and_have_bounds() {
    for text in ["32/64", "8/32", "24/128"] {
        assert_eq!(text.parse::<Prefixes>().unwrap().to_string(), text);
    }
    for text in [
        "7/64", "33/64", "32/31", "32/129", "64", "/64", "32/", "a/b", "32/64/1",
    ] {
        let error = text.parse::<Prefixes>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("invalid address prefixes \"{text}\": ")),
            "{error}"
        );
    }
}
