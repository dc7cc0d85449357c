//! Presets for the usual front ends.

use super::{ClientIp, Networks, Source};

/// A usual front end: which field it names the client in, and what to watch for.
///
/// No list of a vendor's addresses is built in: such lists change, and an address that the vendor
/// has given up would stay trusted.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{FrontEnd, Networks};
///
/// // nginx on the same host:
/// let by_ip = FrontEnd::Nginx.within(Networks::loopback());
/// // An AWS load balancer in a network where nothing else can reach the server:
/// let by_ip = FrontEnd::AwsAlb.alone();
/// # let _ = by_ip;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrontEnd {
    /// nginx that appends to `X-Forwarded-For`.
    Nginx,
    /// Cloudflare, by `CF-Connecting-IP`.
    Cloudflare,
    /// Fly.io, by `Fly-Client-IP`.
    Fly,
    /// An AWS application load balancer.
    AwsAlb,
    /// A Google Cloud external application load balancer.
    GcpExternalAlb,
    /// Envoy.
    Envoy,
    /// Traefik.
    Traefik,
    /// Caddy.
    Caddy,
}

impl FrontEnd {
    /// Every preset.
    pub const ALL: [Self; 8] = [
        Self::Nginx,
        Self::Cloudflare,
        Self::Fly,
        Self::AwsAlb,
        Self::GcpExternalAlb,
        Self::Envoy,
        Self::Traefik,
        Self::Caddy,
    ];

    /// Returns the extractor for this front end in the given networks, and for any number of
    /// trusted proxies behind it. Safe also where the server can be reached directly.
    #[must_use]
    pub fn within(self, networks: Networks) -> ClientIp {
        ClientIp::behind(self.source(), networks)
    }

    /// Returns the extractor for a server that can be reached through this front end only, with
    /// nothing between the two.
    ///
    /// Whoever reaches the server in another way chooses the address it is limited by.
    #[must_use]
    pub fn alone(self) -> ClientIp {
        ClientIp::behind_hops(self.source(), self.entries())
    }

    /// Returns the field that names the client.
    #[must_use]
    pub fn source(self) -> Source {
        match self {
            Self::Cloudflare => Source::CfConnectingIp,
            Self::Fly => Source::FlyClientIp,
            Self::Nginx
            | Self::AwsAlb
            | Self::GcpExternalAlb
            | Self::Envoy
            | Self::Traefik
            | Self::Caddy => Source::XForwardedFor,
        }
    }

    /// Returns how many entries the front end adds to the field, the client's first.
    fn entries(self) -> u8 {
        match self {
            Self::GcpExternalAlb => 2,
            _ => 1,
        }
    }

    /// Returns what has to hold for the address to be the client's.
    #[must_use]
    pub fn caveat(self) -> &'static str {
        match self {
            Self::Nginx => {
                "nginx sends the field only where it is told to: `proxy_set_header \
                 X-Forwarded-For $proxy_add_x_forwarded_for;` (plain `$http_x_forwarded_for` \
                 would pass on what the client typed)"
            }
            Self::Cloudflare => {
                "trust only Cloudflare's published ranges, kept up to date, or an authenticated \
                 tunnel; other Cloudflare customers' workers come from the same ranges, and their \
                 subrequests show 2a06:98c0:3600::103"
            }
            Self::Fly => {
                "the address is the one that Fly's edge saw: another network in front of Fly \
                 makes it that network's; do not take X-Forwarded-For instead, its last entry is \
                 the app's own address at Fly"
            }
            Self::AwsAlb => {
                "the load balancer has to append to X-Forwarded-For, its default mode: `preserve` \
                 passes on what the client typed, and `remove` leaves only the load balancer's \
                 own address; a port after the address is understood"
            }
            Self::GcpExternalAlb => {
                "the load balancer appends two entries, the client's address and its own, so the \
                 client is second from the right: its own address has to lie in the trusted \
                 networks together with the proxies' ranges"
            }
            Self::Envoy => {
                "Envoy appends its peer only with `use_remote_address: true`; the address that \
                 Envoy itself decides on is in X-Envoy-External-Address, which it sets for \
                 external requests only"
            }
            Self::Traefik => {
                "Traefik drops what its client sent unless `forwardedHeaders.trustedIPs` lists \
                 that client; `forwardedHeaders.insecure` must stay off unless everything left of \
                 Traefik is trusted"
            }
            Self::Caddy => {
                "Caddy drops what its client sent unless `trusted_proxies` lists that client, and \
                 appends its peer"
            }
        }
    }
}
