//! The one header field that is believed.

use http::HeaderName;
use http::header::FORWARDED;

/// The header field in which a trusted proxy names its client. Exactly one is configured.
///
/// A limiter that takes the first field it finds lets the client choose among the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// `X-Forwarded-For`: a list; every proxy appends its peer.
    XForwardedFor,
    /// `Forwarded` (RFC 7239): a list of elements with a `for` node.
    ///
    /// Read strictly: an IPv6 address, or a node with a port, has to be quoted as the RFC says.
    Forwarded,
    /// `CF-Connecting-IP`: one address, overwritten by Cloudflare.
    CfConnectingIp,
    /// `X-Real-IP`: one address, perhaps with a port; nginx's habit.
    XRealIp,
    /// `Fly-Client-IP`: one address, as Fly's edge saw it.
    FlyClientIp,
    /// `True-Client-IP`: one address. Passed through unchanged, so forged at will, where the front
    /// end has not been told to set it.
    TrueClientIp,
    /// Another field with one address, such as `X-Envoy-External-Address`.
    ///
    /// Only for a field that the proxy always overwrites. `Fastly-Client-IP` is not one: a value
    /// that a client sent is kept.
    Single(HeaderName),
}

impl Source {
    /// Returns the name of the field.
    #[must_use]
    pub fn header(&self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => FORWARDED,
            Self::CfConnectingIp => HeaderName::from_static("cf-connecting-ip"),
            Self::XRealIp => HeaderName::from_static("x-real-ip"),
            Self::FlyClientIp => HeaderName::from_static("fly-client-ip"),
            Self::TrueClientIp => HeaderName::from_static("true-client-ip"),
            Self::Single(name) => name.clone(),
        }
    }
}
