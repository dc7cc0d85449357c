//! What keys promise.

use super::*;

#[test]
fn a_key_is_48_bytes() {
    assert_eq!(size_of::<Key>(), 48);
}

#[test]
fn keys_of_one_part_equal_those_that_are_built() {
    let v4 = Ipv4Addr::new(203, 0, 113, 9);
    let v6: Ipv6Addr = "2001:db8::7".parse().unwrap();
    let number = 0x0123_4567_89ab_cdef;
    let cases = [
        (Key::from(number), Key::builder().number(number).finish()),
        (Key::from(v4), Key::builder().address(v4.into()).finish()),
        (Key::from(v6), Key::builder().address(v6.into()).finish()),
        (Key::from("alice"), Key::builder().text("alice").finish()),
        (
            Key::from(&[1, 2, 0][..]),
            Key::builder().bytes(&[1, 2, 0]).finish(),
        ),
    ];
    for (short, built) in cases {
        assert_eq!(short, built);
        assert_eq!(short.as_bytes(), built.as_bytes());
    }
}

#[test]
fn forty_four_bytes_of_text_stay_inline_and_one_more_is_digested() {
    let inline = Key::from("x".repeat(44));
    assert_eq!(inline.as_bytes().len(), 46);
    assert_eq!(inline.reveal().to_string(), "x".repeat(44));
    let digested = Key::from("x".repeat(45));
    assert_eq!(digested.as_bytes().len(), 34);
    assert!(digested.reveal().to_string().starts_with('#'));
}

#[test]
fn a_digest_depends_on_every_part_and_on_their_borders() {
    let long = "x".repeat(300);
    let keys = [
        Key::builder().text(&long).text("a").finish(),
        Key::builder().text(&long).text("b").finish(),
        Key::builder().text(&format!("{long}a")).finish(),
        Key::builder().text("a").text(&long).finish(),
        Key::builder().bytes(long.as_bytes()).text("a").finish(),
    ];
    for (i, one) in keys.iter().enumerate() {
        assert!(keys[i + 1..].iter().all(|other| one != other));
    }
}

#[test]
fn text_cannot_imitate_an_address_a_number_or_a_digest() {
    let address: IpAddr = "1.2.3.4".parse().unwrap();
    assert_ne!(Key::from(address), Key::from("1.2.3.4"));
    assert_ne!(Key::from(7u64), Key::from("7"));
    let digest = Key::from("x".repeat(100));
    assert_ne!(Key::from(digest.as_bytes()), digest);
    assert_ne!(Key::from(&digest.as_bytes()[2..]), digest);
}

#[test]
fn mapped_addresses_are_their_ipv4_addresses() {
    let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
    let plain: IpAddr = "192.0.2.1".parse().unwrap();
    assert_eq!(Key::from(mapped), Key::from(plain));
    let network = Key::builder().network(mapped, 64).finish();
    assert_eq!(network, Key::from(plain));
}

#[test]
fn a_network_keeps_only_its_prefix() {
    let key = |text: &str, prefix| {
        Key::builder()
            .network(text.parse().unwrap(), prefix)
            .finish()
    };
    assert_eq!(
        key("123:4567:89ab:cdef::", 63).reveal().to_string(),
        "123:4567:89ab:cdee::/63"
    );
    assert_eq!(
        key("2001:db8:1:2ff::1", 56).reveal().to_string(),
        "2001:db8:1:200::/56"
    );
    assert_ne!(key("2001:db8::", 56), key("2001:db8::", 64));
    assert_eq!(key("10.1.2.3", 8).reveal().to_string(), "10.0.0.0/8");
    assert_eq!(key("10.1.2.3", 0), key("192.0.2.1", 0));
}

#[test]
fn nesting_keeps_the_borders_of_tuples() {
    let ab = Key::builder().text("a").text("b").finish();
    let c = Key::from("c");
    let bc = Key::builder().text("b").text("c").finish();
    let left = Key::builder().key(&ab).key(&c).finish();
    let right = Key::builder().key(&Key::from("a")).key(&bc).finish();
    assert_ne!(left, right);
    assert_eq!(left.reveal().to_string(), "(a b) c");
    assert_eq!(Key::builder().key(&c).finish(), c);
}

#[test]
fn parts_are_stable_even_and_bounded() {
    let mut counts = [0u32; 10];
    for number in 0..10_000u64 {
        let part = Key::from(number).part_of(10, b"secret");
        assert_eq!(part, Key::from(number).part_of(10, b"secret"));
        counts[part as usize] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1_100).contains(count)),
        "{counts:?}"
    );
    assert_eq!(Key::GLOBAL.part_of(0, b""), 0);
    assert_ne!(
        Key::from("a").part_of(u32::MAX, b"one"),
        Key::from("a").part_of(u32::MAX, b"two")
    );
}

#[test]
fn no_debug_text_shows_a_value() {
    let key = Key::from("secret");
    let shown = format!(
        "{key:?} {:?} {:?}",
        key.reveal(),
        Key::builder().text("secret")
    );
    assert!(!shown.contains("secret"));
}

#[test]
fn a_network_is_written_as_its_length_and_the_octets_that_this_reaches() {
    let addresses = [
        "203.0.113.255",
        "255.255.255.255",
        "2001:db8:1:2:ff05:ffff:ff07:ffff",
    ];
    for address in addresses.map(|text| text.parse::<IpAddr>().unwrap()) {
        let (kind, octets) = match address {
            IpAddr::V4(v4) => (kind::IPV4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (kind::IPV6, v6.octets().to_vec()),
        };
        for prefix in 0..=u8::MAX {
            let bits = prefix.min(8 * u8::try_from(octets.len()).unwrap());
            let mut value = vec![bits];
            value.extend(&octets[..usize::from(bits.div_ceil(8))]);
            if bits % 8 != 0 {
                *value.last_mut().unwrap() &= !(u8::MAX >> (bits % 8));
            }
            let expected = [&[kind, u8::try_from(value.len()).unwrap()], &value[..]].concat();
            let key = Key::network(address, prefix);
            assert_eq!(key.as_bytes(), expected, "{address}/{prefix}");
            assert_eq!(key, Key::builder().network(address, prefix).finish());
        }
    }
}
