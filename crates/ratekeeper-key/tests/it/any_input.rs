//! The properties, on random inputs and on the worst ones.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::properties::{self, Part};
use crate::support::{key, request};

/// Returns a strategy for texts made of the pieces that a grammar turns on.
fn pieces(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece =
        prop_oneof![8 => prop::sample::select(of).prop_map(str::to_owned), 1 => "[ -~]{0,4}"];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[ab]{0,3}".prop_map(Part::Text),
        "x{40,50}".prop_map(Part::Text),
        "[ab]{0,3}".prop_map(|text| Part::Bytes(text.into_bytes())),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(Part::Bytes),
        (0..4u64).prop_map(Part::Number),
        any::<[u8; 4]>().prop_map(|v4| Part::Address(IpAddr::from(v4))),
        any::<[u8; 16]>().prop_map(|v6| Part::Address(IpAddr::from(v6))),
        Just(Part::Text(
            String::from_utf8_lossy(&[3, 5, 32, 1, 2, 3, 4]).into_owned()
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn x_forwarded_for_never_gives_an_address_left_of_an_untrusted_one(text in pieces(&[
        "10.0.0.1", "10.9.9.9", "203.0.113.9", "1.1.1.1", "2001:db8:ffff::1", "2001:db8::9", "::ffff:10.0.0.3",
        "[", "]", ":", ":80", ":99999", "::", "1", ".", ",", ",", ", ", " ", "\n", "unknown", "_x", "%eth0",
    ])) {
        properties::x_forwarded_for(text.as_bytes());
    }

    #[test]
    fn forwarded_from_the_right_agrees_with_forwarded_from_the_left(text in pieces(&[
        "for=10.0.0.1", "for=203.0.113.9", "for=\"[2001:db8:ffff::1]\"", "For=\"[2001:db8::9]:80\"", "for=", "by=",
        "host=a", "proto=http", "x=", "x=\"a,b;c\"", "x=\"a,\\\"b,\\\\\"", "\"", "\"", "\\", "\\\"", "10.0.0.3", "1.1.1.1", "[::1]",
        ":80", ":_x", "_hidden", "unknown", ";", ";", ",", ",", ", ", "; ", "=", " ", "\n",
    ])) {
        properties::forwarded(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        properties::x_forwarded_for(&bytes);
        properties::forwarded(&bytes);
        properties::texts(&bytes);
        properties::key_bytes(&bytes);
        properties::extractor_text(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn texts_are_keyed_or_fail_by_kind(text in pieces(&[
        "Bearer ", "bearer", " ", "abc", "=", "sid=", "key=", "sid", "; ", ";", "&", "%61", "%", "%ff", "+", "\"",
        "a.example", "A", ":80", "[", "]", "\n", ".",
    ])) {
        properties::texts(text.as_bytes());
    }

    #[test]
    fn different_tuples_have_different_keys(
        one in prop::collection::vec(part(), 0..5),
        other in prop::collection::vec(part(), 0..5),
    ) {
        properties::keys(&one, &other);
        properties::keys(&one, &one);
    }

    #[test]
    fn extractors_are_printed_as_they_are_read(text in pieces(&[
        "ip", "ip:32/48", "peer", "header:x-a", "cookie:a%20b", "query:%", "bearer", "global", "method", "host:a|b",
        "(", ")", ",", ", ", " or ", " else ", "401", "200", "shared", "exempt", " ", ":",
    ])) {
        properties::extractor_text(&text);
    }
}

#[test]
fn sixty_four_kibibytes_take_linear_time() {
    const LENGTH: usize = 64 * 1024;
    let by = ["x-forwarded-for", "forwarded"].map(|name| {
        let source = match name {
            "forwarded" => ratekeeper_key::Source::Forwarded,
            _ => ratekeeper_key::Source::XForwardedFor,
        };
        (
            name,
            ratekeeper_key::ClientIp::behind(source, "10.0.0.0/8".parse().unwrap()),
        )
    });
    let patterns = [
        ",",
        " ",
        ";",
        "\"",
        "\\",
        "\"\\",
        "\\\"",
        "\\\\\"",
        "=",
        "10.0.0.1,",
        "for=10.0.0.1,",
        "for=10.0.0.1;",
        "x=\"\\\\\",",
        "a=b;",
        "\",",
        "1",
        ", ,",
    ];
    // One pass over 64 KiB takes about a millisecond, unoptimized; 64 Ki passes take minutes.
    let begun = Instant::now();
    for pattern in patterns {
        let value = pattern.repeat(LENGTH / pattern.len());
        for (name, by_ip) in &by {
            let parts = request(Some("10.0.0.2"), &[(name, &value)]);
            assert!(key(by_ip, &parts).starts_with("10.0.0."), "{pattern}");
        }
    }
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(5), "{taken:?}");
}
