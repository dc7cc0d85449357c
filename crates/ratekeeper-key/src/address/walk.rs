//! From the socket peer to the client, right to left through what the proxies wrote.
//!
//! Every proxy appends the address it was contacted from. So the last entry was written by our
//! peer, the one before it by the proxy that the last entry names, and so on: an entry is worth
//! exactly as much as the proxy to its right. The walk ends at the first address that is not a
//! trusted proxy, and never looks at what stands left of it.

use std::net::IpAddr;

use super::Networks;

/// Walks through trusted proxies; `candidate` is the peer, already found to be one of them.
///
/// An entry that is no address ends the walk at the last proxy. At most `max_hops` proxies are
/// believed, the peer included.
pub(crate) fn through_networks(
    mut candidate: Option<IpAddr>,
    entries: impl Iterator<Item = Option<IpAddr>>,
    trusted: &Networks,
    max_hops: u32,
) -> Walk {
    let mut all_trusted = false;
    for (hops, entry) in (1..).zip(entries) {
        let Some(address) = entry else {
            return Walk::at(candidate);
        };
        candidate = Some(address);
        if hops >= max_hops || !trusted.contains(address) {
            return Walk::at(candidate);
        }
        all_trusted = true;
    }
    Walk {
        address: candidate,
        all_trusted,
    }
}

/// Takes the entry that the outermost of `hops` proxies wrote, or else the peer.
pub(crate) fn through_hops(
    peer: Option<IpAddr>,
    mut entries: impl Iterator<Item = Option<IpAddr>>,
    hops: usize,
) -> Option<IpAddr> {
    let Some(skipped) = hops.checked_sub(1) else {
        return peer;
    };
    entries.nth(skipped).flatten().or(peer)
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) address: Option<IpAddr>,
    /// Whether there were entries and all of them named trusted proxies.
    pub(crate) all_trusted: bool,
}

impl Walk {
    pub(crate) fn at(address: Option<IpAddr>) -> Self {
        Self {
            address,
            all_trusted: false,
        }
    }
}
