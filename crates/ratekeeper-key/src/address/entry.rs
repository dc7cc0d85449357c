//! One entry of an address list: an address, perhaps with brackets and a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest entry that can be an address: brackets, 45 characters, a colon and a port.
const LONGEST: usize = 53;

/// Reads `IPv4`, `IPv6`, `[IPv6]`, `IPv4:port` or `[IPv6]:port` and returns the canonical address.
///
/// `unknown`, obfuscated names and anything else are `None`. An IPv6 address with a port and no
/// brackets cannot be told from a longer address and is read as one, where it is one.
pub(crate) fn address(entry: &[u8]) -> Option<IpAddr> {
    if entry.len() > LONGEST {
        return None;
    }
    let entry = std::str::from_utf8(entry).ok()?;
    let address = if let Some(rest) = entry.strip_prefix('[') {
        let (inside, port) = rest.split_once(']')?;
        if !(port.is_empty() || port.strip_prefix(':').is_some_and(is_port)) {
            return None;
        }
        IpAddr::V6(inside.parse::<Ipv6Addr>().ok()?)
    } else if let Ok(address) = entry.parse::<IpAddr>() {
        address
    } else {
        let (address, port) = entry.split_once(':')?;
        if !is_port(port) {
            return None;
        }
        IpAddr::V4(address.parse::<Ipv4Addr>().ok()?)
    };
    Some(address.to_canonical())
}

/// Returns whether this is a port: one to five digits, at most 65535.
pub(crate) fn is_port(text: &str) -> bool {
    (1..=5).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u16>().is_ok()
}

/// Returns the entries of one line from the right, without the empty ones.
pub(crate) fn from_the_right(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    line.rsplit(|byte| *byte == b',')
        .map(trim)
        .filter(|entry| !entry.is_empty())
        .map(address)
}

/// Strips spaces and tabs, the only white space that a field value may hold.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
