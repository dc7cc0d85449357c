//! Who has a say, and the switch that changes it while the layer runs.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a rule refuses, only counts, or does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuleMode {
    /// It refuses.
    #[default]
    Enforced,
    /// It counts and is observed, but refuses nothing and is never shown to clients.
    Shadowed,
    /// It does nothing.
    Off,
    /// It refuses for this share of the keys, and is shadowed for the others, and for requests
    /// without a key unless the share is the whole.
    EnforcedFor(Share),
}

impl RuleMode {
    /// Returns whether the rule refuses whatever the key.
    pub(crate) fn is_enforced_for_all(self) -> bool {
        match self {
            Self::Enforced => true,
            Self::EnforcedFor(share) => share.0 == Share::WHOLE,
            Self::Shadowed | Self::Off => false,
        }
    }
}

/// A share of all keys, in thousandths.
///
/// Which keys belong to it follows from a digest of the key under the layer's secret: the same key
/// always does, and a larger share contains a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u16);

impl Share {
    pub(crate) const WHOLE: u16 = 1_000;

    /// Creates a share of this many percent; `None` above 100.
    #[must_use]
    pub const fn percent(percent: u16) -> Option<Self> {
        if percent > 100 {
            None
        } else {
            Some(Self(percent * 10))
        }
    }

    /// Creates a share of this many thousandths; `None` above 1000.
    #[must_use]
    pub const fn per_mille(thousandths: u16) -> Option<Self> {
        if thousandths > Self::WHOLE {
            None
        } else {
            Some(Self(thousandths))
        }
    }

    /// Returns the thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u16 {
        self.0
    }
}

/// Prints percent: `10%`, `2.5%`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{}%", self.0 / 10),
            tenth => write!(f, "{}.{tenth}%", self.0 / 10),
        }
    }
}

/// A rule's mode as it is now.
#[derive(Debug)]
pub(crate) struct Switch(
    /// Below 2^16 a share's thousandths; above, one of the marks. Relaxed: the word is the whole
    /// state, and a request may as well have come a moment earlier.
    AtomicU32,
);

const ENFORCED: u32 = 1 << 16;
const SHADOWED: u32 = ENFORCED + 1;
const OFF: u32 = ENFORCED + 2;

impl Switch {
    pub(crate) fn new(mode: RuleMode) -> Self {
        let switch = Self(AtomicU32::new(0));
        switch.set(mode);
        switch
    }

    pub(crate) fn set(&self, mode: RuleMode) {
        let word = match mode {
            RuleMode::Enforced => ENFORCED,
            RuleMode::Shadowed => SHADOWED,
            RuleMode::Off => OFF,
            RuleMode::EnforcedFor(share) => u32::from(share.0),
        };
        self.0.store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> RuleMode {
        match self.0.load(Ordering::Relaxed) {
            ENFORCED => RuleMode::Enforced,
            SHADOWED => RuleMode::Shadowed,
            OFF => RuleMode::Off,
            share => RuleMode::EnforcedFor(Share(u16::try_from(share).unwrap_or(Share::WHOLE))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_keeps_every_mode() {
        let switch = Switch::new(RuleMode::Enforced);
        let modes = [RuleMode::Enforced, RuleMode::Shadowed, RuleMode::Off];
        for mode in modes.into_iter().chain(
            (0..=1_000)
                .filter_map(Share::per_mille)
                .map(RuleMode::EnforcedFor),
        ) {
            switch.set(mode);
            assert_eq!(switch.get(), mode);
        }
    }

    #[test]
    fn shares_are_bounded_and_print_as_percent() {
        assert_eq!(Share::percent(101), None);
        assert_eq!(Share::per_mille(1_001), None);
        assert_eq!(Share::per_mille(25).unwrap().to_string(), "2.5%");
        assert_eq!(Share::percent(100).unwrap().to_string(), "100%");
    }
}
