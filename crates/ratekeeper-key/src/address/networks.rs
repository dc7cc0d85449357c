//! Sets of networks, given as CIDRs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// An IPv4 network with fewer bits than this is wide.
const WIDE_V4: u8 = 16;

/// An IPv6 network with fewer bits than this is wide: a provider's whole allocation is a /32, so a
/// wider one reaches into other organizations.
const WIDE_V6: u8 = 32;

/// A set of networks: the proxies that are trusted, or the clients that are exempt.
///
/// Addresses are compared in their canonical form, so `::ffff:10.0.0.2` lies in `10.0.0.0/8`.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::Networks;
///
/// let proxies = Networks::new(["10.1.0.0/16", "2001:db8:ffff::/48", "192.0.2.7"])?;
/// assert!(proxies.contains("::ffff:10.1.0.2".parse().unwrap()));
/// assert!(!proxies.contains("192.0.2.8".parse().unwrap()));
/// assert!(Networks::new(["10.0.0.7/8"]).is_err());
/// # Ok::<_, ratekeeper_key::NetworkError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// Disjoint and sorted, as `lookup` needs it.
    v4: Vec<Ipv4Net>,
    v6: Vec<Ipv6Net>,
    wide: Vec<IpNet>,
}

impl Networks {
    /// Reads networks such as `10.0.0.0/8` and single addresses such as `192.0.2.7`.
    ///
    /// # Errors
    ///
    /// - [`NetworkErrorKind::Malformed`]: a text is neither an address nor a network.
    /// - [`NetworkErrorKind::HostBits`]: a network's address has bits set after its prefix, so that
    ///   it is unclear whether the host or the network is meant.
    pub fn new<I>(networks: I) -> Result<Self, NetworkError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        networks
            .into_iter()
            .map(|network| parse(network.as_ref()))
            .collect()
    }

    /// Returns the loopback networks, `127.0.0.0/8` and `::1`: for a proxy on the same host.
    #[must_use]
    pub fn loopback() -> Self {
        let v4 = IpNet::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8);
        let v6 = IpNet::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 128);
        v4.into_iter().chain(v6).collect()
    }

    /// Returns whether the address, in its canonical form, lies in one of the networks.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let after = self.v4.partition_point(|network| network.network() <= v4);
                self.v4[..after]
                    .last()
                    .is_some_and(|network| network.contains(&v4))
            }
            IpAddr::V6(v6) => {
                let after = self.v6.partition_point(|network| network.network() <= v6);
                self.v6[..after]
                    .last()
                    .is_some_and(|network| network.contains(&v6))
            }
        }
    }

    /// Returns whether no address lies in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Returns whether every IPv4 or every IPv6 address lies in the set.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.v4
            .first()
            .is_some_and(|network| network.prefix_len() == 0)
            || self
                .v6
                .first()
                .is_some_and(|network| network.prefix_len() == 0)
    }

    /// Returns the networks as they were given that are wider than /16 in IPv4 or /32 in IPv6,
    /// other than loopback: too many hosts to vouch for.
    #[must_use]
    pub fn wide(&self) -> &[IpNet] {
        &self.wide
    }

    /// Returns the networks of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all: Self = self.iter().chain(other.iter()).collect();
        all.wide = [self.wide.as_slice(), &other.wide].concat();
        all
    }

    fn iter(&self) -> impl Iterator<Item = IpNet> {
        let v4 = self.v4.iter().copied().map(IpNet::V4);
        v4.chain(self.v6.iter().copied().map(IpNet::V6))
    }
}

impl FromIterator<IpNet> for Networks {
    /// Takes networks as they are; bits after a prefix are ignored.
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        let mut set = Self::default();
        for network in networks {
            let network = canonical(network.trunc());
            if is_wide(network) {
                set.wide.push(network);
            }
            match network {
                IpNet::V4(v4) => set.v4.push(v4),
                IpNet::V6(v6) => set.v6.push(v6),
            }
        }
        set.v4 = Ipv4Net::aggregate(&set.v4);
        set.v6 = Ipv6Net::aggregate(&set.v6);
        set.v4.sort_unstable();
        set.v6.sort_unstable();
        set
    }
}

/// Reads networks parted by commas or white space.
impl FromStr for Networks {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        Self::new(
            text.split(|c: char| c == ',' || c.is_whitespace())
                .filter(|network| !network.is_empty()),
        )
    }
}

/// Prints the networks parted by a comma and a space, overlapping and adjacent ones joined.
impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .enumerate()
            .try_for_each(|(at, network)| write!(f, "{}{network}", if at == 0 { "" } else { ", " }))
    }
}

impl fmt::Debug for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Networks({self})")
    }
}

fn parse(text: &str) -> Result<IpNet, NetworkError> {
    let text = text.trim();
    let error = |kind| NetworkError {
        kind,
        text: text.to_owned(),
    };
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let network = text
        .parse::<IpNet>()
        .map_err(|_| error(NetworkErrorKind::Malformed))?;
    if network.trunc() == network {
        Ok(network)
    } else {
        Err(error(NetworkErrorKind::HostBits))
    }
}

/// Turns a network of IPv4-mapped addresses into the IPv4 network.
fn canonical(network: IpNet) -> IpNet {
    if let IpNet::V6(v6) = network
        && let Some(bits) = v6.prefix_len().checked_sub(96)
        && let Some(v4) = v6.network().to_ipv4_mapped()
    {
        return Ipv4Net::new(v4, bits).map_or(network, IpNet::V4);
    }
    network
}

fn is_wide(network: IpNet) -> bool {
    let short = match network {
        IpNet::V4(v4) => v4.prefix_len() < WIDE_V4,
        IpNet::V6(v6) => v6.prefix_len() < WIDE_V6,
    };
    short && !network.network().is_loopback()
}

/// A text is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError {
    kind: NetworkErrorKind,
    text: String,
}

/// What is wrong with a network's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkErrorKind {
    /// It is neither an address nor a network.
    Malformed,
    /// The address has bits set after the prefix.
    HostBits,
}

impl NetworkError {
    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> NetworkErrorKind {
        self.kind
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_debug();
        match self.kind {
            NetworkErrorKind::Malformed => {
                write!(
                    f,
                    "invalid network \"{text}\": neither an address nor a network such as 10.0.0.0/8"
                )
            }
            NetworkErrorKind::HostBits => {
                write!(
                    f,
                    "invalid network \"{text}\": its address has bits set after the prefix"
                )
            }
        }
    }
}

impl std::error::Error for NetworkError {}
