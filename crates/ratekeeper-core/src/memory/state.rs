//! The state of a key as the numbers of a claim see it.

use crate::algorithm::{Fixed, Moment, Verdict, Words};
use crate::decision::{Outcome, Standing, Wait};

use super::table::{Chain, Inserted, Slot};

/// The state of a key as the claim's numbers see it.
#[derive(Clone, Copy)]
pub(super) enum State<'a> {
    Known(Words),
    /// More is in use, counted by `from`, than these numbers hold; it drains there first.
    Held {
        from: &'a Fixed,
        words: Words,
    },
}

impl<'a> State<'a> {
    /// The state of a key never seen.
    pub(super) const FRESH: Self = State::Known([0, 0]);

    /// Reads the state of an entry under the claim's numbers, and writes it back where it was
    /// counted under others: a key is converted when it is next touched.
    #[inline]
    pub(super) fn adopt(
        chain: &mut Chain<'_>,
        slot: Option<Slot<'_>>,
        (fixed, version): (&Fixed, u32),
        moment: Moment,
    ) -> Self {
        match slot {
            None => State::FRESH,
            Some(slot) if slot.version() == version => State::Known(slot.words()),
            Some(slot) => Self::convert(chain, slot, (fixed, version), moment),
        }
    }

    #[cold]
    fn convert(
        chain: &mut Chain<'_>,
        slot: Slot<'_>,
        (fixed, version): (&Fixed, u32),
        moment: Moment,
    ) -> Self {
        let Some(from) = crate::intern::fixed(slot.version()) else {
            return State::FRESH;
        };
        let state = Self::of(from, slot.words(), fixed, moment);
        if let State::Known(words) = state {
            chain.write(slot, version, words);
        }
        state
    }

    /// Returns words that were counted by some numbers as others see them.
    pub(super) fn of(from: &'a Fixed, words: Words, to: &Fixed, moment: Moment) -> Self {
        match to.adopt(from, words, moment) {
            Some(words) => State::Known(words),
            None => State::Held { from, words },
        }
    }

    /// Decides on a request of this cost; see [`Fixed::decide`].
    #[inline]
    pub(super) fn decide(
        self,
        (fixed, version): (&Fixed, u32),
        moment: Moment,
        cost: u64,
    ) -> Verdict {
        let (from, words) = match self {
            State::Known(words) => return fixed.decide(version, words, moment, cost),
            State::Held { from, words } => (from, words),
        };
        let wait = if cost == 0 {
            Wait::None
        } else if cost > fixed.capacity() {
            Wait::Never
        } else {
            from.wait_for_used(words, moment, fixed.capacity() - cost)
        };
        let outcome = Outcome::new(self.standing(fixed, moment), wait);
        Verdict { outcome, words }
    }

    pub(super) fn standing(self, fixed: &Fixed, moment: Moment) -> Standing {
        match self {
            State::Known(words) => fixed.standing(words, moment),
            State::Held { from, words } => {
                let next = match from.wait_for_used(words, moment, fixed.capacity() - 1) {
                    Wait::For(wait) => crate::clock::nanos(wait),
                    Wait::None | Wait::Unknown | Wait::Never => 0,
                };
                Standing {
                    remaining: 0,
                    next,
                    reset: from.standing(words, moment).reset,
                }
            }
        }
    }
}

/// Writes a state into its entry, or a new one.
#[inline]
pub(super) fn write(
    chain: &mut Chain<'_>,
    slot: Option<Slot<'_>>,
    tag: u64,
    numbers: (&Fixed, u32),
    words: Words,
    moment: Moment,
) -> Option<Inserted> {
    match slot {
        Some(slot) => {
            chain.write(slot, numbers.1, words);
            None
        }
        None => Some(chain.insert(tag, numbers, words, moment)),
    }
}
