//! The client's address, behind none, one or several proxies.

use std::net::IpAddr;

use http::header::ValueIter;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::walk::{self, Walk};
use super::{Networks, Prefixes, SocketPeer, Source, entry, forwarded};
use crate::{Diagnosis, KeyError, KeyExtractor, Keyed, SelfCheck, Warning};

/// Keys by the client's address, which trusted proxies name in one configured header field.
///
/// Right to left: the socket peer is the client unless it is a trusted proxy; then the last entry
/// of the field is, unless that is a trusted proxy; and so on. Garbage ends the walk at the last
/// trusted proxy, so nothing that a client typed is ever believed. IPv4 is keyed whole, IPv6 by
/// its /64. Registered as `ip`.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{ClientIp, Networks, Source};
///
/// let by_ip = ClientIp::behind(Source::XForwardedFor, Networks::new(["10.1.0.0/16"])?);
/// let mut headers = http::HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 203.0.113.7".parse().unwrap());
///
/// let proxy: std::net::IpAddr = "10.1.0.2".parse().unwrap();
/// assert_eq!(by_ip.resolve(proxy.into(), &headers), "203.0.113.7".parse().ok());
/// let stranger: std::net::IpAddr = "198.51.100.7".parse().unwrap();
/// assert_eq!(by_ip.resolve(stranger.into(), &headers), Some(stranger));
/// # Ok::<_, ratekeeper_key::NetworkError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    proxies: Option<Proxies>,
    prefixes: Prefixes,
    unix_sockets: bool,
}

#[derive(Clone, Debug)]
struct Proxies {
    source: Source,
    /// The source's field, kept so that no request has to look its name up.
    header: HeaderName,
    trust: Trust,
}

#[derive(Clone, Debug)]
enum Trust {
    Networks { networks: Networks, max_hops: u32 },
    Hops(usize),
}

impl ClientIp {
    /// Returns the extractor for a server without proxies: the client is the socket peer.
    #[must_use]
    pub fn direct() -> Self {
        Self {
            proxies: None,
            prefixes: Prefixes::default(),
            unix_sockets: false,
        }
    }

    /// Returns the extractor for a server behind proxies in the given networks.
    ///
    /// The peer itself is checked, so that this stays safe when the server can also be reached
    /// directly. Networks wider than /16 (IPv6: /32) give a [warning](Self::warnings).
    #[must_use]
    pub fn behind(source: Source, trusted: Networks) -> Self {
        Self::with(
            source,
            Trust::Networks {
                networks: trusted,
                max_hops: u32::MAX,
            },
        )
    }

    /// Returns the extractor for a server behind this many proxies, the one that connects to it
    /// included.
    ///
    /// Only where the server can be reached in no other way: whoever connects directly chooses
    /// the address. With 0 the client is the socket peer. For a field with one address any other
    /// number means that the peer is trusted.
    #[must_use]
    pub fn behind_hops(source: Source, hops: u8) -> Self {
        Self::with(source, Trust::Hops(usize::from(hops)))
    }

    fn with(source: Source, trust: Trust) -> Self {
        let header = source.header();
        Self {
            proxies: Some(Proxies {
                source,
                header,
                trust,
            }),
            ..Self::direct()
        }
    }

    /// Believes at most this many proxies, the socket peer included; the next address is the
    /// client even if it lies in a trusted network. No bound by default.
    ///
    /// Set it where clients live in the trusted networks too: one of them could otherwise name any
    /// other address. Does nothing beside [`behind_hops`](Self::behind_hops).
    #[must_use]
    pub fn max_hops(mut self, proxies: u8) -> Self {
        if let Some(Proxies {
            trust: Trust::Networks { max_hops, .. },
            ..
        }) = &mut self.proxies
        {
            *max_hops = proxies.into();
        }
        self
    }

    /// Trusts peers that connect over a unix-domain socket as proxies.
    ///
    /// Otherwise, and where such a proxy names no client, the request has no address, which is a
    /// failure.
    #[must_use]
    pub fn trust_unix_sockets(mut self) -> Self {
        self.unix_sockets = true;
        self
    }

    /// Replaces the prefixes that addresses are keyed by.
    #[must_use]
    pub fn with_prefixes(mut self, prefixes: Prefixes) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Returns the same extractor by [`Prefixes::SITE`], an IPv6 /48: for a second rule with a
    /// higher limit, which bounds a client that rotates through its /64 networks.
    #[must_use]
    pub fn site(&self) -> Self {
        self.clone().with_prefixes(Prefixes::SITE)
    }

    /// Returns the client's address in its canonical form; `None` where there is none, behind a
    /// unix socket that is not trusted or that names no client.
    #[must_use]
    pub fn resolve(&self, peer: SocketPeer, headers: &HeaderMap) -> Option<IpAddr> {
        self.walk(peer, headers).address
    }

    /// Returns where the walk ended, and whether only trusted proxies were met.
    fn walk(&self, peer: SocketPeer, headers: &HeaderMap) -> Walk {
        let peer = peer.address().map(|address| address.to_canonical());
        let Some(proxies) = &self.proxies else {
            return Walk::at(peer);
        };
        if !proxies.trust.believes(peer, self.unix_sockets) {
            return Walk::at(peer);
        }
        let lines = headers.get_all(&proxies.header).iter();
        match proxies.source {
            Source::XForwardedFor => {
                let entries = lines
                    .rev()
                    .map(HeaderValue::as_bytes)
                    .flat_map(entry::from_the_right);
                proxies.trust.walk(peer, entries)
            }
            Source::Forwarded => {
                let lines = lines.rev().map(HeaderValue::as_bytes);
                proxies
                    .trust
                    .walk(peer, lines.flat_map(forwarded::from_the_right))
            }
            _ => Walk::at(only(lines).or(peer)),
        }
    }

    /// Tells the self-diagnosis what this request says about the proxies.
    #[cold]
    fn watch(&self, peer: SocketPeer, headers: &HeaderMap, walk: Walk, check: &SelfCheck) {
        let trust = self.proxies.as_ref().map(|proxies| &proxies.trust);
        match trust.filter(|trust| trust.believes(peer.address(), self.unix_sockets)) {
            Some(Trust::Networks { networks, .. }) if networks.is_everything() => {
                check.report(Diagnosis::EverybodyTrusted);
            }
            Some(_) => check.note_trust(walk.all_trusted),
            None => peer.watch(headers, check),
        }
    }
}

impl Trust {
    fn believes(&self, peer: Option<IpAddr>, unix_sockets: bool) -> bool {
        match (self, peer) {
            (Self::Networks { max_hops: 0, .. } | Self::Hops(0), _) => false,
            (_, None) => unix_sockets,
            (Self::Networks { networks, .. }, Some(peer)) => networks.contains(peer),
            (Self::Hops(_), Some(_)) => true,
        }
    }

    fn walk(&self, peer: Option<IpAddr>, entries: impl Iterator<Item = Option<IpAddr>>) -> Walk {
        match self {
            Self::Networks { networks, max_hops } => {
                walk::through_networks(peer, entries, networks, *max_hops)
            }
            Self::Hops(hops) => Walk::at(walk::through_hops(peer, entries, *hops)),
        }
    }
}

/// Returns the address of a field that has one line with one address.
fn only(mut lines: ValueIter<'_, HeaderValue>) -> Option<IpAddr> {
    let line = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    entry::address(entry::trim(line.as_bytes()))
}

impl Default for ClientIp {
    fn default() -> Self {
        Self::direct()
    }
}

impl KeyExtractor for ClientIp {
    fn extract(&self, parts: &Parts) -> Keyed {
        let check = SelfCheck::global();
        let Some(peer) = SocketPeer::of(&parts.extensions) else {
            check.report(Diagnosis::NoPeer);
            return Keyed::Failed(KeyError::missing_peer());
        };
        let walk = self.walk(peer, &parts.headers);
        if check.watches_proxies() {
            self.watch(peer, &parts.headers, walk, check);
        }
        match walk.address {
            Some(address) => Keyed::Key(self.prefixes.key(address)),
            None => Keyed::Failed(KeyError::no_address()),
        }
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        if self.prefixes == Prefixes::default() {
            "ip".to_owned()
        } else {
            format!("ip:{}", self.prefixes)
        }
    }

    fn warnings(&self) -> Vec<Warning> {
        match &self.proxies {
            Some(Proxies {
                trust: Trust::Networks { networks, .. },
                ..
            }) => networks
                .wide()
                .iter()
                .map(|network| Warning::wide_network(*network))
                .collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::FORWARDED;

    use super::*;

    /// Returns what the self-diagnosis says after one request, or after a thousand.
    fn diagnosed(by_ip: &ClientIp, peer: &str, typed: &str, requests: u32) -> Option<Diagnosis> {
        let check = SelfCheck::new();
        let peer = SocketPeer::from(peer.parse::<IpAddr>().unwrap());
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", typed.parse().unwrap());
        headers.insert(FORWARDED, format!("for={typed}").parse().unwrap());
        for _ in 0..requests {
            by_ip.watch(peer, &headers, by_ip.walk(peer, &headers), &check);
        }
        check.take()
    }

    fn behind(networks: &str) -> ClientIp {
        ClientIp::behind(Source::XForwardedFor, networks.parse().unwrap())
    }

    #[test]
    fn an_untrusted_proxy_is_told_and_a_trusted_one_is_not() {
        let told = Some(Diagnosis::UntrustedProxy);
        assert_eq!(
            diagnosed(&ClientIp::direct(), "10.0.0.2", "203.0.113.9", 1),
            told
        );
        assert_eq!(
            diagnosed(&behind("10.1.0.0/16"), "10.0.0.2", "203.0.113.9", 1),
            told
        );
        assert_eq!(
            diagnosed(&behind("10.0.0.0/16"), "10.0.0.2", "203.0.113.9", 1_000),
            None
        );
        let hops = |hops| ClientIp::behind_hops(Source::XForwardedFor, hops);
        assert_eq!(diagnosed(&hops(0), "10.0.0.2", "203.0.113.9", 1), told);
        assert_eq!(diagnosed(&hops(1), "10.0.0.2", "203.0.113.9", 1_000), None);
    }

    #[test]
    fn strangers_who_type_the_field_do_not_make_a_proxy_until_nearly_all_do() {
        assert_eq!(
            diagnosed(&ClientIp::direct(), "198.51.100.7", "203.0.113.9", 999),
            None
        );
        let told = Some(Diagnosis::UntrustedProxy);
        assert_eq!(
            diagnosed(&ClientIp::direct(), "198.51.100.7", "203.0.113.9", 1_000),
            told
        );
    }

    #[test]
    fn trusting_everybody_is_told() {
        let told = Some(Diagnosis::EverybodyTrusted);
        assert_eq!(
            diagnosed(&behind("0.0.0.0/0"), "198.51.100.7", "203.0.113.9", 1),
            told
        );
        assert_eq!(
            diagnosed(&behind("10.0.0.0/8"), "10.0.0.2", "10.0.0.3", 1_000),
            told
        );
        assert_eq!(
            diagnosed(
                &behind("10.0.0.0/8").max_hops(1),
                "10.0.0.2",
                "10.0.0.3",
                1_000
            ),
            None
        );
    }
}
