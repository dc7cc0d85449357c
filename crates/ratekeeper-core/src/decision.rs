//! What a limiter answers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::algorithm::{Fixed, Span};
use crate::claim::MAX_CLAIMS;

/// How long until a request like the refused one would be admitted, nothing else happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The request is admitted now.
    None,
    /// Refused one clock step before this, admitted at it.
    For(Duration),
    /// Nobody can tell: it depends on when others finish.
    Unknown,
    /// The cost is above the limit's capacity: no wait is long enough.
    Never,
}

impl Wait {
    /// Returns which of two waits tells a client more: `Never`, then `Unknown`, then the longer.
    #[must_use]
    pub fn longest(self, other: Self) -> Self {
        let rank = |wait: Self| match wait {
            Self::None => (0, Duration::ZERO),
            Self::For(wait) => (1, wait),
            Self::Unknown => (2, Duration::ZERO),
            Self::Never => (3, Duration::ZERO),
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

/// What one limit says of one request. Durations count from the decision.
#[derive(Clone, Copy)]
pub struct Outcome {
    /// How a key stands, or the level of a bucket, from which that is worked out when somebody asks:
    /// many callers want to know only whether a request is allowed. Words of one size are passed
    /// on without a stall, which an enum's are not.
    figures: [u64; 3],
    /// The version of the bucket's numbers, or [`Self::KNOWN`].
    version: u32,
    wait: u64,
}

/// `Outcome::wait` holds nanoseconds below this mark and [`Outcome::NEVER`].
const UNKNOWN: u64 = u64::MAX - 1;

impl Outcome {
    pub(crate) const NEVER: u64 = u64::MAX;

    /// Stands where a version would, for figures that are a standing. No version reaches it.
    const KNOWN: u32 = u32::MAX;

    /// Puts an outcome together; for those who write stores.
    ///
    /// Durations are kept in nanoseconds up to 2^62; longer ones end there.
    #[must_use]
    pub fn new(standing: Standing, wait: Wait) -> Self {
        let wait = match wait {
            Wait::None => 0,
            Wait::For(wait) => crate::clock::nanos(wait).clamp(1, crate::Nanos::MAX.get()),
            Wait::Unknown => UNKNOWN,
            Wait::Never => Self::NEVER,
        };
        Self::known(standing, wait)
    }

    #[inline]
    fn known(standing: Standing, wait: u64) -> Self {
        let Standing {
            remaining,
            next,
            reset,
        } = standing;
        Self {
            figures: [remaining, next, reset],
            version: Self::KNOWN,
            wait,
        }
    }

    /// Puts the outcome of a bucket together; the wait is in nanoseconds or
    /// [`NEVER`](Self::NEVER), and zero where the request is admitted.
    #[inline]
    pub(crate) const fn of_bucket(level: Span, version: u32, wait: u64) -> Self {
        let [nanos, rest] = level.words();
        Self {
            figures: [nanos, rest, 0],
            version,
            wait,
        }
    }

    /// Returns the same answer for a key that stands otherwise.
    pub(crate) fn with_standing(self, standing: Standing) -> Self {
        Self::known(standing, self.wait)
    }

    /// Returns how the key stands after the decision.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if self.version == Self::KNOWN {
            let [remaining, next, reset] = self.figures;
            return Standing {
                remaining,
                next,
                reset,
            };
        }
        let [nanos, rest, _] = self.figures;
        match crate::intern::fixed(self.version) {
            Some(Fixed::Bucket(bucket)) => bucket.standing_at(Span::of_words([nanos, rest])),
            // Only buckets make such outcomes.
            _ => Standing::default(),
        }
    }

    /// Returns whether the limit admits the request.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.wait == 0
    }

    /// Returns the largest cost that would still be admitted at this moment, after the decision.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.standing().remaining
    }

    /// Returns the time until [`remaining`](Self::remaining) grows, nothing else happening; zero
    /// when it is at the limit's capacity.
    #[must_use]
    pub fn next(&self) -> Duration {
        Duration::from_nanos(self.standing().next)
    }

    /// Returns the time until the key is as fresh as one never seen, nothing else happening.
    #[must_use]
    pub fn reset(&self) -> Duration {
        Duration::from_nanos(self.standing().reset)
    }

    /// Returns how long to wait before the same request would be admitted.
    #[must_use]
    pub fn wait(&self) -> Wait {
        match self.wait {
            0 => Wait::None,
            Self::NEVER => Wait::Never,
            UNKNOWN => Wait::Unknown,
            nanos => Wait::For(Duration::from_nanos(nanos)),
        }
    }
}

/// Two outcomes are equal when they say the same.
impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        (self.standing(), self.wait) == (other.standing(), other.wait)
    }
}

impl Eq for Outcome {}

impl Hash for Outcome {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.standing(), self.wait).hash(state);
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("remaining", &self.remaining())
            .field("next", &self.next())
            .field("reset", &self.reset())
            .field("wait", &self.wait())
            .finish()
    }
}

/// How a key stands with a limit at one moment, in units and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The largest cost that would be admitted now.
    pub remaining: u64,
    /// Nanoseconds until `remaining` grows; zero when it is at the capacity.
    pub next: u64,
    /// Nanoseconds until the key is as fresh as one never seen.
    pub reset: u64,
}

/// The answer to all claims of one request: admitted by every enforced limit, or refused.
///
/// Outcomes stand in the order of the claims.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision {
    outcomes: [Outcome; MAX_CLAIMS],
    count: u8,
    /// Bit i: claim i is shadowed and has no say.
    shadowed: u8,
    refused: bool,
}

impl Decision {
    /// An outcome in whose place another is to be put.
    pub(crate) const EMPTY: Outcome = Outcome::of_bucket(Span::ZERO, 0, 0);

    /// The decision on a request that no limit applies to.
    pub const UNLIMITED: Self = Self {
        outcomes: [Self::EMPTY; MAX_CLAIMS],
        count: 0,
        shadowed: 0,
        refused: false,
    };

    /// Adds the next claim's outcome; for those who write stores.
    ///
    /// An outcome beyond the eighth is ignored; requests never carry more claims.
    #[inline]
    pub fn push(&mut self, outcome: Outcome, shadowed: bool) {
        let index = usize::from(self.count);
        if let Some(slot) = self.outcomes.get_mut(index) {
            *slot = outcome;
            self.shadowed |= u8::from(shadowed) << index;
            self.refused |= !shadowed && !outcome.is_allowed();
            self.count += 1;
        }
    }

    /// Returns whether every enforced limit admits the request.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        !self.refused
    }

    /// Returns the outcomes in the order of the claims.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes[..usize::from(self.count)]
    }

    /// Returns whether the claim at this index is shadowed: observed, but without a say.
    #[must_use]
    pub fn is_shadowed(&self, index: usize) -> bool {
        index < MAX_CLAIMS && self.shadowed >> index & 1 == 1
    }

    /// Returns how long to wait before the request would be admitted: of several refusing limits
    /// `Never` before `Unknown` before the longest.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let outcomes = self.outcomes().iter().enumerate();
        outcomes
            .filter(|(index, _)| !self.is_shadowed(*index))
            .fold(Wait::None, |wait, (_, outcome)| {
                wait.longest(outcome.wait())
            })
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.is_allowed())
            .field("outcomes", &self.outcomes())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(wait: Wait) -> Outcome {
        Outcome::new(
            Standing {
                remaining: 0,
                next: 0,
                reset: 0,
            },
            wait,
        )
    }

    #[test]
    fn never_goes_before_unknown_before_the_longest_wait() {
        let waits = [
            Wait::For(Duration::from_secs(1)),
            Wait::None,
            Wait::For(Duration::from_secs(2)),
            Wait::Unknown,
            Wait::Never,
        ];
        for (count, expected) in [
            (1, waits[0]),
            (3, waits[2]),
            (4, Wait::Unknown),
            (5, Wait::Never),
        ] {
            let mut decision = Decision::UNLIMITED;
            waits[..count]
                .iter()
                .for_each(|wait| decision.push(outcome(*wait), false));
            assert_eq!(decision.wait(), expected);
        }
    }

    #[test]
    fn a_shadowed_refusal_has_no_say() {
        let mut decision = Decision::UNLIMITED;
        decision.push(outcome(Wait::Never), true);
        assert!(decision.is_allowed());
        assert_eq!(decision.wait(), Wait::None);
        decision.push(outcome(Wait::Unknown), false);
        assert!(!decision.is_allowed());
        assert_eq!(decision.wait(), Wait::Unknown);
    }

    #[test]
    fn a_wait_of_zero_still_refuses() {
        assert!(!outcome(Wait::For(Duration::ZERO)).is_allowed());
    }
}
