//! What is allowed in a configuration but probably not meant.

use std::fmt;

use ipnet::IpNet;

/// A configuration that works and that its author should look at once more.
///
/// Extractors return theirs from [`KeyExtractor::warnings`](crate::KeyExtractor::warnings); a layer
/// reports them when it is built. `Display` is one sentence without a full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning(About);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    WideNetwork(IpNet),
    ExemptOnFailure,
}

/// What a [`Warning`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// A trusted network holds more hosts than anybody can vouch for.
    WideNetwork,
    /// Requests without an identity pass unlimited.
    ExemptOnFailure,
}

impl Warning {
    pub(crate) fn wide_network(network: IpNet) -> Self {
        Self(About::WideNetwork(network))
    }

    pub(crate) fn exempt_on_failure() -> Self {
        Self(About::ExemptOnFailure)
    }

    /// Returns what the warning is about.
    #[must_use]
    pub fn kind(&self) -> WarningKind {
        match self.0 {
            About::WideNetwork(_) => WarningKind::WideNetwork,
            About::ExemptOnFailure => WarningKind::ExemptOnFailure,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            About::WideNetwork(network) => write!(
                f,
                "every host in {network} is trusted to name any client address: list the proxies' \
                 own networks"
            ),
            About::ExemptOnFailure => f.write_str(
                "requests without an identity are exempt: leaving it out lifts the limit",
            ),
        }
    }
}
