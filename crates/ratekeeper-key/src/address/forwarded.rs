//! The `Forwarded` field of RFC 7239, strictly.
//!
//! Elements are read from the right, so that what a client typed is not even looked at once the
//! walk has ended. A line whose quotes do not close has no reliable borders between its elements:
//! it counts as one element that is no address. Every line is judged by itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::entry;

/// The longest node that can be an address: `[`, 45 characters, `]:` and an obfuscated port.
const LONGEST_NODE: usize = 128;

/// Returns the addresses of one line's elements from the right, without the empty ones.
pub(crate) fn from_the_right(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    let readable = quotes_close(line);
    let mut rest = Some(line);
    let elements = std::iter::from_fn(move || {
        let line = rest.take()?;
        let start = if readable { last_element(line) } else { 0 };
        rest = start.checked_sub(1).map(|comma| &line[..comma]);
        Some(&line[start..])
    });
    elements
        .map(entry::trim)
        .filter(|element| !element.is_empty())
        .map(element_address)
}

/// Returns whether every quoted string of the line ends.
fn quotes_close(line: &[u8]) -> bool {
    let mut quoted = false;
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => _ = bytes.next(),
            _ => {}
        }
    }
    !quoted
}

/// Returns where the last element begins: after the last comma that is not quoted.
fn last_element(line: &[u8]) -> usize {
    let mut quoted = false;
    for (at, byte) in line.iter().enumerate().rev() {
        match byte {
            b',' if !quoted => return at + 1,
            // Read backwards, a quote ends its string unless it is escaped. Each run of
            // backslashes touches one quote, so that counting them stays linear.
            b'"' if quoted => {
                let escapes = line[..at]
                    .iter()
                    .rev()
                    .take_while(|byte| **byte == b'\\')
                    .count();
                quoted = escapes % 2 == 1;
            }
            b'"' => quoted = true,
            _ => {}
        }
    }
    0
}

/// Returns the address of the element's `for`; `None` for a malformed element, an unknown or
/// hidden node, and an element without `for`.
fn element_address(element: &[u8]) -> Option<IpAddr> {
    let mut rest = element;
    let mut seen = 0u8;
    let mut found = None;
    loop {
        rest = entry::trim(rest);
        match rest {
            [] => return found.and_then(Value::node),
            [b';', after @ ..] => rest = after,
            _ => {
                let (name, after) = token(rest)?;
                let (value, after) = value(after.strip_prefix(b"=")?)?;
                // Only the four names of the RFC are checked for being repeated: remembering any
                // other would need memory or quadratic time, and nothing here reads it.
                let known = ["for", "by", "host", "proto"]
                    .iter()
                    .position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
                if let Some(bit) = known {
                    if seen & 1 << bit != 0 {
                        return None;
                    }
                    seen |= 1 << bit;
                    if bit == 0 {
                        found = Some(value);
                    }
                }
                rest = entry::trim(after);
                if !matches!(rest, [] | [b';', ..]) {
                    return None;
                }
            }
        }
    }
}

/// A value as it stands: a token, or the inside of a quoted string, still escaped.
#[derive(Clone, Copy)]
enum Value<'a> {
    Token(&'a [u8]),
    Quoted(&'a [u8]),
}

impl Value<'_> {
    fn node(self) -> Option<IpAddr> {
        match self {
            Self::Token(node) => node_address(node),
            Self::Quoted(inside) => {
                let mut plain = [0; LONGEST_NODE];
                let mut length = 0;
                let mut bytes = inside.iter();
                while let Some(mut byte) = bytes.next() {
                    if *byte == b'\\' {
                        byte = bytes.next()?;
                    }
                    *plain.get_mut(length)? = *byte;
                    length += 1;
                }
                node_address(&plain[..length])
            }
        }
    }
}

fn token(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = bytes.iter().take_while(|byte| is_token(**byte)).count();
    if length == 0 {
        None
    } else {
        bytes.split_at_checked(length)
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn value(bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let [b'"', inside @ ..] = bytes else {
        return token(bytes).map(|(token, rest)| (Value::Token(token), rest));
    };
    let mut escaped = false;
    let end = inside.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((Value::Quoted(&inside[..end]), &inside[end + 1..]))
}

/// Reads an IPv4 address or a bracketed IPv6 address, each perhaps with a port.
fn node_address(node: &[u8]) -> Option<IpAddr> {
    let node = std::str::from_utf8(node).ok()?;
    let (address, port) = if let Some(rest) = node.strip_prefix('[') {
        let (inside, port) = rest.split_once(']')?;
        (IpAddr::V6(inside.parse::<Ipv6Addr>().ok()?), port)
    } else {
        let (address, port) = node.split_at(node.find(':').unwrap_or(node.len()));
        (IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), port)
    };
    let port_is_good = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| entry::is_port(port) || is_obfuscated(port));
    port_is_good.then(|| address.to_canonical())
}

fn is_obfuscated(text: &str) -> bool {
    text.strip_prefix('_').is_some_and(|rest| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    })
}
