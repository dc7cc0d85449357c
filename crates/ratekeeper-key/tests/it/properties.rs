//! What holds for any input. The fuzz targets include this file and call the same functions.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use ratekeeper_key::{
    BearerToken, ClientIp, Cookie, Header, Host, Key, KeyBuilder, KeyErrorKind, KeyExtractor,
    Keyed, Networks, Query, Registry, SocketPeer, Source, TextExtractor,
};

/// The networks that are trusted here.
const TRUSTED: [&str; 2] = ["10.0.0.0/8", "2001:db8:ffff::/48"];

/// Reads lines of a header field from any bytes; bytes that no header holds are left out.
fn field(name: &'static str, input: &[u8]) -> HeaderMap {
    input
        .split(|byte| *byte == b'\n')
        .filter_map(|line| HeaderValue::from_bytes(line).ok())
        .map(|line| (HeaderName::from_static(name), line))
        .collect()
}

fn trusted() -> Networks {
    Networks::new(TRUSTED).unwrap()
}

fn peer() -> IpAddr {
    "10.0.0.2".parse().unwrap()
}

/// The obvious way: all entries in a list, then from the right.
fn naive_walk(entries: &[Option<IpAddr>], trusted: &Networks) -> IpAddr {
    let mut candidate = peer();
    for entry in entries.iter().rev() {
        match entry {
            None => return candidate,
            Some(address) => candidate = *address,
        }
        if !trusted.contains(candidate) {
            return candidate;
        }
    }
    candidate
}

/// The obvious way to count proxies.
fn naive_count(entries: &[Option<IpAddr>], hops: usize) -> IpAddr {
    let at = entries.len().checked_sub(hops);
    at.and_then(|at| entries[at]).unwrap_or_else(peer)
}

/// `X-Forwarded-For` resolves as the obvious list does, whatever is in it, and never to an address
/// left of one that is not trusted.
pub(crate) fn x_forwarded_for(input: &[u8]) {
    let headers = field("x-forwarded-for", input);
    let entries: Vec<Option<IpAddr>> = headers
        .get_all("x-forwarded-for")
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(|entry| {
            String::from_utf8_lossy(entry)
                .trim_matches([' ', '\t'])
                .to_owned()
        })
        .filter(|entry| !entry.is_empty())
        .map(|entry| naive_entry(&entry))
        .collect();
    let peer = SocketPeer::from(peer());

    let found = ClientIp::behind(Source::XForwardedFor, trusted())
        .resolve(peer, &headers)
        .unwrap();
    assert_eq!(found, naive_walk(&entries, &trusted()));
    let first_stranger = entries
        .iter()
        .rev()
        .flatten()
        .find(|address| !trusted().contains(**address));
    assert!(
        trusted().contains(found) || Some(&found) == first_stranger,
        "left of a stranger"
    );

    for hops in 1..=3 {
        let by_ip = ClientIp::behind_hops(Source::XForwardedFor, hops);
        let expected = naive_count(&entries, usize::from(hops));
        assert_eq!(by_ip.resolve(peer, &headers), Some(expected), "{hops} hops");
    }
}

fn naive_entry(entry: &str) -> Option<IpAddr> {
    let port = |text: &str| {
        text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
    };
    let bracketed = || {
        let (inside, after) = entry.strip_prefix('[')?.split_once(']')?;
        let good = after.is_empty() || after.strip_prefix(':').is_some_and(port);
        inside
            .parse::<IpAddr>()
            .ok()
            .filter(|address| good && address.is_ipv6())
    };
    let with_port = || {
        let (address, after) = entry.split_once(':')?;
        address
            .parse::<IpAddr>()
            .ok()
            .filter(|address| port(after) && address.is_ipv4())
    };
    entry
        .parse()
        .ok()
        .or_else(bracketed)
        .or_else(with_port)
        .map(|address| address.to_canonical())
}

/// `Forwarded` resolves as reading every line from the left does.
pub(crate) fn forwarded(input: &[u8]) {
    let headers = field("forwarded", input);
    let entries: Vec<Option<IpAddr>> = headers
        .get_all("forwarded")
        .iter()
        .flat_map(|line| naive_elements(line.as_bytes()))
        .map(|element| naive_element(&element))
        .collect();
    let by_ip = ClientIp::behind(Source::Forwarded, trusted());
    let found = by_ip.resolve(SocketPeer::from(peer()), &headers);
    assert_eq!(found, Some(naive_walk(&entries, &trusted())), "{entries:?}");
}

/// Splits a line at the commas outside quotes, from the left.
fn naive_elements(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut elements, mut element) = (Vec::new(), Vec::new());
    let (mut quoted, mut escaped) = (false, false);
    for byte in line.iter().copied().chain([b',']) {
        if byte == b',' && !quoted {
            elements.push(std::mem::take(&mut element));
            continue;
        }
        element.push(byte);
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    if quoted {
        elements.push(element);
    }
    let blank = |element: &Vec<u8>| element.iter().all(|byte| b" \t".contains(byte));
    elements
        .into_iter()
        .filter(|element| !blank(element))
        .collect()
}

/// Reads an element by cutting it at the semicolons outside quotes.
fn naive_element(element: &[u8]) -> Option<IpAddr> {
    let element = String::from_utf8(element.to_vec()).ok()?;
    let (mut pairs, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for c in element.chars() {
        match c {
            ';' if !quoted => {
                pairs.push(String::new());
                continue;
            }
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        pairs.last_mut()?.push(c);
    }
    let (mut names, mut node) = (Vec::new(), None);
    for pair in &pairs {
        let pair = pair.trim_matches([' ', '\t']);
        if pair.is_empty() {
            continue;
        }
        let (name, value) = pair.split_once('=')?;
        let name = name.to_ascii_lowercase();
        if !is_token(&name)
            || (["for", "by", "host", "proto"].contains(&&*name) && names.contains(&name))
        {
            return None;
        }
        let value = naive_value(value)?;
        if name == "for" {
            node = Some(value);
        }
        names.push(name);
    }
    naive_node(&node?)
}

fn is_token(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(good)
}

fn naive_value(value: &str) -> Option<String> {
    let Some(quoted) = value.strip_prefix('"') else {
        return is_token(value).then(|| value.to_owned());
    };
    let mut plain = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(plain),
            '\\' => plain.push(chars.next()?),
            c => plain.push(c),
        }
    }
}

fn naive_node(node: &str) -> Option<IpAddr> {
    let port = |text: &str| match text.strip_prefix('_') {
        Some(name) => {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        }
        None => {
            text.len() <= 5
                && text.bytes().all(|b| b.is_ascii_digit())
                && text.parse::<u16>().is_ok()
        }
    };
    let (address, after) = match node.strip_prefix('[') {
        Some(rest) => {
            let (inside, after) = rest.split_once(']')?;
            (
                inside.parse::<IpAddr>().ok().filter(IpAddr::is_ipv6)?,
                after,
            )
        }
        None => {
            let (v4, after) = node.split_at(node.find(':').unwrap_or(node.len()));
            (v4.parse::<IpAddr>().ok().filter(IpAddr::is_ipv4)?, after)
        }
    };
    let good = after.is_empty() || after.strip_prefix(':').is_some_and(port);
    good.then(|| address.to_canonical())
}

/// Extractors of text give a key, or say that the identity is missing or malformed; a text is never
/// empty.
pub(crate) fn texts(input: &[u8]) {
    for name in ["x-api-key", "authorization", "cookie", "host"] {
        let mut request = Request::new(());
        *request.headers_mut() = field(name, input);
        if let Ok(uri) = http::Uri::try_from([b"/?", input].concat()) {
            *request.uri_mut() = uri;
        }
        let (parts, ()) = request.into_parts();
        let extractors: [&dyn Text; 5] = [
            &Header::from_static("x-api-key"),
            &BearerToken,
            &Cookie::new("sid"),
            &Query::new("key"),
            &Host::new(),
        ];
        for extractor in extractors {
            match extractor.both(&parts) {
                (Ok(text), keyed) => {
                    assert!(!text.is_empty());
                    assert_eq!(keyed, Keyed::from(text));
                }
                (Err(kind), keyed) => {
                    assert!(matches!(
                        kind,
                        KeyErrorKind::Missing | KeyErrorKind::Malformed
                    ));
                    assert!(matches!(keyed, Keyed::Failed(error) if error.kind() == kind));
                }
            }
        }
    }
}

/// What an extractor of text says in both of its ways.
trait Text {
    fn both(&self, parts: &http::request::Parts) -> (Result<String, KeyErrorKind>, Keyed);
}

impl<E: TextExtractor> Text for E {
    fn both(&self, parts: &http::request::Parts) -> (Result<String, KeyErrorKind>, Keyed) {
        let text = self
            .text(parts)
            .map(|text| text.into_owned())
            .map_err(|error| error.kind());
        (text, self.extract(parts))
    }
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Bytes(Vec<u8>),
    Number(u64),
    Address(IpAddr),
}

impl Part {
    fn add(&self, key: KeyBuilder) -> KeyBuilder {
        match self {
            Self::Text(text) => key.text(text),
            Self::Bytes(bytes) => key.bytes(bytes),
            Self::Number(number) => key.number(*number),
            Self::Address(address) => key.address(*address),
        }
    }

    fn canonical(&self) -> Self {
        match self {
            Self::Address(address) => Self::Address(address.to_canonical()),
            other => other.clone(),
        }
    }
}

/// Two lists of parts give the same key only if they are the same, and so do two extractors of
/// tuples.
pub(crate) fn keys(one: &[Part], other: &[Part]) {
    let flat = |parts: &[Part]| {
        parts
            .iter()
            .fold(Key::builder(), |key, part| part.add(key))
            .finish()
    };
    let nested = |parts: &[Part]| {
        let parts = parts.iter().map(|part| part.add(Key::builder()).finish());
        parts
            .fold(Key::builder(), |key, part| key.key(&part))
            .finish()
    };
    let canonical = |parts: &[Part]| parts.iter().map(Part::canonical).collect::<Vec<_>>();
    let same = canonical(one) == canonical(other);
    assert_eq!(flat(one) == flat(other), same, "{one:?} {other:?}");
    assert_eq!(nested(one) == nested(other), same, "{one:?} {other:?}");
}

/// Reads two lists of parts from any bytes.
pub(crate) fn key_bytes(input: &[u8]) {
    let mut lists = [Vec::new(), Vec::new()];
    let mut rest = input;
    while let [which, length, after @ ..] = rest {
        let (value, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let part = match (which % 8) / 2 {
            0 => Part::Text(String::from_utf8_lossy(value).into_owned()),
            1 => Part::Bytes(value.to_vec()),
            2 => Part::Number(
                value
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            ),
            _ => match <[u8; 16]>::try_from(value) {
                Ok(v6) => Part::Address(IpAddr::from(v6)),
                Err(_) => Part::Address(IpAddr::from([value.len().to_le_bytes()[0]; 4])),
            },
        };
        lists[usize::from(which % 2)].push(part);
    }
    keys(&lists[0], &lists[1]);
}

/// What is read as an extractor is printed as a text that reads as the same.
pub(crate) fn extractor_text(text: &str) {
    if let Ok(extractor) = Registry::new().parse(text) {
        let name = extractor.name();
        assert_eq!(Registry::new().parse(&name).unwrap().name(), name, "{text}");
    }
}
