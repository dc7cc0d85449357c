//! What a running limiter can see of mistakes in its setup.

use std::fmt;

/// A mistake in the setup, found in the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Diagnosis {
    /// A request has no socket address.
    NoPeer,
    /// Peers that are not trusted send a forwarding field: everybody shares the proxy's budget.
    UntrustedProxy,
    /// All addresses that proxies name are trusted: clients choose theirs.
    EverybodyTrusted,
    /// More than nine in ten requests count for one key.
    OneKey,
    /// One rule charged one request twice.
    ChargedTwice,
    /// Limiters are built as often as they are used, so that nothing is ever counted.
    LimiterPerRequest,
}

impl Diagnosis {
    /// Every diagnosis.
    pub const ALL: [Self; 6] = [
        Self::NoPeer,
        Self::UntrustedProxy,
        Self::EverybodyTrusted,
        Self::OneKey,
        Self::ChargedTwice,
        Self::LimiterPerRequest,
    ];

    /// Returns the stable code, for filters and alerts.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NoPeer => "no-peer",
            Self::UntrustedProxy => "untrusted-proxy",
            Self::EverybodyTrusted => "everybody-trusted",
            Self::OneKey => "one-key",
            Self::ChargedTwice => "charged-twice",
            Self::LimiterPerRequest => "limiter-per-request",
        }
    }

    /// Returns what was seen and what to do, in one sentence without a full stop.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NoPeer => {
                "requests have no socket address: serve the axum router with \
                 `into_make_service_with_connect_info::<SocketAddr>()`, or insert `PeerAddr` into \
                 the extensions of every request"
            }
            Self::UntrustedProxy => {
                "peers that are not trusted send a forwarding field, so all clients of a proxy \
                 share one budget: name the proxies with `ClientIp::behind`, or ignore this where \
                 there are none"
            }
            Self::EverybodyTrusted => {
                "every address that the proxies name lies in a trusted network, so clients can \
                 choose theirs: trust only the networks of the proxies themselves, or set \
                 `ClientIp::max_hops`"
            }
            Self::OneKey => {
                "more than nine in ten requests count for one key: check that it is not a proxy's \
                 address or a default that all clients share"
            }
            Self::ChargedTwice => {
                "one rule charged the same request twice: apply the layer once, to the router or \
                 to its routes"
            }
            Self::LimiterPerRequest => {
                "limiters are built as often as they are used, so nothing is ever limited: build \
                 one when the server starts and clone it"
            }
        }
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Prints the code and the sentence.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.sentence())
    }
}
