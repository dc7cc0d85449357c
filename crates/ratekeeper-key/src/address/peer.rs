//! The socket peer: the one address that nobody can forge over TCP.

use std::net::{IpAddr, SocketAddr};

use http::header::FORWARDED;
use http::request::Parts;
use http::{Extensions, HeaderMap};

use super::Prefixes;
use crate::{Diagnosis, KeyError, KeyExtractor, Keyed, SelfCheck};

/// The peer's address, put into the request's extensions by a server of your own.
///
/// Servers that have no such extension of their own (plain hyper) insert this one per connection:
///
/// ```
/// use ratekeeper_key::{KeyExtractor, Keyed, Peer, PeerAddr};
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(PeerAddr("203.0.113.9:4711".parse().unwrap()));
/// let (parts, ()) = request.into_parts();
/// assert!(matches!(Peer.extract(&parts), Keyed::Key(key) if key.reveal().to_string() == "203.0.113.9"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

/// Says that the peer is a unix-domain socket, which has no address; an extension like [`PeerAddr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnixPeer;

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketPeer {
    /// A host, by its canonical address; the port is dropped, since a client has thousands.
    Address(IpAddr),
    /// A unix-domain socket.
    Unix,
}

impl SocketPeer {
    /// Returns the peer that the server put into the extensions, the first of: [`PeerAddr`];
    /// [`UnixPeer`]; axum's `ConnectInfo<SocketAddr>` and `MockConnectInfo<SocketAddr>` (feature
    /// `axum`); tonic's `TcpConnectInfo` and `UdsConnectInfo` (feature `tonic`; over TLS tonic
    /// inserts the former too).
    #[must_use]
    #[inline(always)]
    pub fn of(extensions: &Extensions) -> Option<Self> {
        if let Some(PeerAddr(address)) = extensions.get() {
            return Some(Self::from(*address));
        }
        if extensions.get::<UnixPeer>().is_some() {
            return Some(Self::Unix);
        }
        of_axum(extensions).or_else(|| of_tonic(extensions))
    }

    /// Returns the address, canonical; `None` for a unix socket.
    #[must_use]
    #[inline]
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Unix => None,
        }
    }

    /// Tells the self-diagnosis whether this peer, whom nobody trusts, behaves like a proxy.
    #[cold]
    pub(super) fn watch(self, headers: &HeaderMap, check: &SelfCheck) {
        let forwards = headers.contains_key("x-forwarded-for") || headers.contains_key(FORWARDED);
        check.note_untrusted_proxy(forwards, self.address().is_none_or(is_private));
    }
}

/// Returns whether the address belongs to no host on the internet.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let shared = matches!(v4.octets(), [100, 64..128, ..]);
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || shared
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

impl From<IpAddr> for SocketPeer {
    /// Takes the address in its canonical form: IPv4-mapped is IPv4.
    #[inline]
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl From<SocketAddr> for SocketPeer {
    #[inline]
    fn from(address: SocketAddr) -> Self {
        Self::from(address.ip())
    }
}

#[cfg(feature = "axum")]
#[inline]
fn of_axum(extensions: &Extensions) -> Option<SocketPeer> {
    use axum::extract::ConnectInfo;
    use axum::extract::connect_info::MockConnectInfo;

    let real = extensions
        .get()
        .map(|ConnectInfo(address): &ConnectInfo<SocketAddr>| *address);
    let mock = || extensions.get().map(|MockConnectInfo(address)| *address);
    real.or_else(mock).map(SocketPeer::from)
}

#[cfg(not(feature = "axum"))]
fn of_axum(_: &Extensions) -> Option<SocketPeer> {
    None
}

#[cfg(feature = "tonic")]
fn of_tonic(extensions: &Extensions) -> Option<SocketPeer> {
    use tonic::transport::server::TcpConnectInfo;

    if let Some(info) = extensions.get::<TcpConnectInfo>() {
        return info.remote_addr().map(SocketPeer::from);
    }
    #[cfg(unix)]
    if extensions
        .get::<tonic::transport::server::UdsConnectInfo>()
        .is_some()
    {
        return Some(SocketPeer::Unix);
    }
    None
}

#[cfg(not(feature = "tonic"))]
fn of_tonic(_: &Extensions) -> Option<SocketPeer> {
    None
}

/// Keys by the socket peer, IPv4 whole and IPv6 by its /64. Registered as `peer`.
///
/// Behind a proxy that is the proxy, for everybody: use [`ClientIp`](crate::ClientIp) there, and
/// [`ClientIp::direct`](crate::ClientIp::direct) for other prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer;

impl KeyExtractor for Peer {
    fn extract(&self, parts: &Parts) -> Keyed {
        let check = SelfCheck::global();
        let Some(peer) = SocketPeer::of(&parts.extensions) else {
            check.report(Diagnosis::NoPeer);
            return Keyed::Failed(KeyError::missing_peer());
        };
        if check.watches_proxies() {
            peer.watch(&parts.headers, check);
        }
        match peer {
            SocketPeer::Address(address) => Keyed::Key(Prefixes::HOST.key(address)),
            SocketPeer::Unix => Keyed::Failed(KeyError::no_address()),
        }
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        "peer".to_owned()
    }
}
