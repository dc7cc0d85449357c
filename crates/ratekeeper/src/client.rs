//! Who asked, from the text that a log has of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A client as a log names it: an address or a host name.
///
/// A port is not part of it, an IPv4 address mapped into IPv6 or translated to it
/// (`64:ff9b::/96`) is that IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client<'a> {
    /// A single IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address that is no IPv4 address in disguise.
    V6(Ipv6Addr),
    /// Whatever else the log has in place of an address.
    Name(&'a [u8]),
}

impl<'a> Client<'a> {
    /// Reads a client; nothing when the text is empty.
    #[must_use]
    pub fn read(text: &'a [u8]) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if let Some(address) = dotted(text) {
            return Some(Self::V4(address));
        }
        Some(address(text).map_or(Self::Name(text), Self::of))
    }

    /// Returns the client behind an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => match address.octets() {
                [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => {
                    Self::V4(Ipv4Addr::new(a, b, c, d))
                }
                _ => Self::V6(address),
            },
        }
    }
}

/// Reads four decimal numbers with dots between, which is what most lines begin with.
fn dotted(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut index = 0;
    let mut value: Option<u32> = None;
    for byte in text {
        match byte {
            // A leading zero is octal to some readers: such an address is no address.
            b'0'..=b'9' if value != Some(0) => {
                value = Some(value.unwrap_or(0) * 10 + u32::from(byte - b'0'));
                u8::try_from(value?).ok()?;
            }
            b'.' if index < 3 => {
                octets[index] = u8::try_from(value.take()?).ok()?;
                index += 1;
            }
            _ => return None,
        }
    }
    octets[3] = u8::try_from(value?).ok()?;
    (index == 3).then(|| octets.into())
}

/// Reads an address in any usual form: with a port, in brackets, with a zone.
fn address(text: &[u8]) -> Option<IpAddr> {
    // The longest: a mapped address with zone, brackets and port.
    if text.len() > 100 {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, port) = rest.split_once(']')?;
        let port_fits = port.is_empty()
            || port
                .strip_prefix(':')
                .is_some_and(|port| port.parse::<u16>().is_ok());
        return port_fits.then(|| v6(inside).map(IpAddr::V6))?;
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => {
            port.parse::<u16>().ok()?;
            dotted(host.as_bytes()).map(IpAddr::V4)
        }
        _ => v6(text).map(IpAddr::V6),
    }
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    text.split_once('%')
        .map_or(text, |(address, _)| address)
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_every_usual_form() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:5678", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:192.0.2.1]:443", "192.0.2.1"),
            ("64:ff9b::192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"),
            ("[2001:db8:1:2::9]:443", "2001:db8:1:2::9"),
            ("[2001:db8:1:2::9]", "2001:db8:1:2::9"),
            ("fe80::1%eth0", "fe80::1"),
            ("::1", "::1"),
        ] {
            let found = match Client::read(text.as_bytes()) {
                Some(Client::V4(address)) => address.to_string(),
                Some(Client::V6(address)) => address.to_string(),
                other => panic!("{text}: {other:?}"),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn everything_else_is_a_name() {
        for text in [
            "example.org",
            "192.0.2.256",
            "192.0.2",
            "192.0.2.01",
            "1.2.3.4.5",
            "192.0.2.1:99999",
            "[x]:1",
            "a:b:c",
            "unknown",
            "1.2.3.4.",
        ] {
            assert_eq!(
                Client::read(text.as_bytes()),
                Some(Client::Name(text.as_bytes())),
                "{text}"
            );
        }
        assert_eq!(Client::read(b""), None);
    }
}
