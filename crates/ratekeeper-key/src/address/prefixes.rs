//! How many leading bits of an address count as one client.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ratekeeper_core::Key;

/// The bits of an IPv4 and of an IPv6 address that are counted as one client.
///
/// The default is the whole IPv4 address and an IPv6 /64: a host normally owns a /64 and changes
/// the lower half at will, so counting single IPv6 addresses would give everybody 2^64 budgets.
///
/// Before a prefix is taken an address is brought to the form in which it is counted: an
/// IPv4-mapped address (`::ffff:203.0.113.9`, what a dual-stack socket reports) and an address
/// translated by the well-known NAT64 prefix (`64:ff9b::/96`) are their IPv4 address. Otherwise
/// all of IPv4 would fall into one IPv6 /64.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::Prefixes;
///
/// let key = |prefixes: Prefixes, address: &str| prefixes.key(address.parse().unwrap()).reveal().to_string();
/// assert_eq!(key(Prefixes::default(), "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
/// assert_eq!(key(Prefixes::default(), "::ffff:203.0.113.9"), "203.0.113.9");
/// assert_eq!(key(Prefixes::SITE, "2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefixes {
    v4: u8,
    v6: u8,
}

impl Prefixes {
    /// One host: IPv4 /32, IPv6 /64. The default.
    pub const HOST: Self = Self { v4: 32, v6: 64 };

    /// One site: IPv4 /32, IPv6 /48.
    ///
    /// An attacker who rents a /48 owns 65,536 /64 networks and can rotate through them. A second
    /// rule with these prefixes and a higher limit bounds that; see
    /// [`ClientIp::site`](crate::ClientIp::site).
    pub const SITE: Self = Self { v4: 32, v6: 48 };

    /// Returns the given prefixes: 8 to 32 bits of IPv4, 32 to 128 bits of IPv6.
    ///
    /// # Errors
    ///
    /// [`PrefixError`] when a length lies outside its range.
    pub fn new(v4: u8, v6: u8) -> Result<Self, PrefixError> {
        if (8..=32).contains(&v4) && (32..=128).contains(&v6) {
            Ok(Self { v4, v6 })
        } else {
            Err(PrefixError {
                text: format!("{v4}/{v6}"),
            })
        }
    }

    /// Returns the bits of an IPv4 address that count.
    #[must_use]
    pub fn v4(self) -> u8 {
        self.v4
    }

    /// Returns the bits of an IPv6 address that count.
    #[must_use]
    pub fn v6(self) -> u8 {
        self.v6
    }

    /// Returns the key of the client at this address.
    #[must_use]
    #[inline]
    pub fn key(self, address: IpAddr) -> Key {
        match counted(address) {
            IpAddr::V4(v4) => Key::network(IpAddr::V4(v4), self.v4),
            IpAddr::V6(v6) => Key::network(IpAddr::V6(v6), self.v6),
        }
    }
}

impl Default for Prefixes {
    fn default() -> Self {
        Self::HOST
    }
}

/// Prints `32/64`: the bits of IPv4, a slash, the bits of IPv6.
impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.v4, self.v6)
    }
}

/// Reads what `Display` prints.
impl FromStr for Prefixes {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let refused = || PrefixError {
            text: text.to_owned(),
        };
        let (v4, v6) = text.split_once('/').ok_or_else(refused)?;
        let (v4, v6) = (
            v4.parse().map_err(|_| refused())?,
            v6.parse().map_err(|_| refused())?,
        );
        Self::new(v4, v6).map_err(|_| refused())
    }
}

/// The address prefixes are not `IPV4/IPV6` within their ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixError {
    text: String,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid address prefixes \"{}\": 8 to 32 bits of IPv4, a slash, 32 to 128 bits of IPv6",
            self.text.escape_debug()
        )
    }
}

impl std::error::Error for PrefixError {}

/// Returns the address that is counted for: IPv4 for mapped and for NAT64 addresses.
///
/// Trust is decided on the canonical address alone, never on this one: a NAT64 address that embeds
/// a proxy's address is not that proxy.
#[inline]
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => translated(v6).map_or(IpAddr::V6(v6), IpAddr::V4),
    }
}

/// Returns the IPv4 address that the well-known NAT64 prefix `64:ff9b::/96` embeds.
#[inline]
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.octets() {
        [0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => {
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}
