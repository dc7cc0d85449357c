//! The algorithms as pure functions of state, limit, time and cost.
//!
//! Nothing here reads a clock, locks or allocates. A store keeps the state, calls
//! [`Fixed::admit`] and writes the state it returns, atomically; that is all of its part in an
//! algorithm. States are two words of 64 bits whatever the algorithm, and two zero words are the
//! state of a key never seen. The sliding log alone keeps a list; see [`SlidingLog`].
//!
//! Time is in nanoseconds, and every quantity is an exact integer: no float, no rounding that
//! accumulates.

mod bucket;
mod calendar;
mod divisor;
mod fixed_window;
mod sliding_counter;
mod sliding_log;

pub use bucket::Bucket;
pub(crate) use bucket::Span;
pub use calendar::{Calendar, CalendarUnit, CalendarWindow, UtcOffset, UtcOffsetError};
pub use fixed_window::FixedWindow;
pub use sliding_counter::SlidingCounter;
pub use sliding_log::{Log, SlidingLog};

use crate::clock::Nanos;
use crate::decision::{Outcome, Standing, Wait};

/// The state of a key under an algorithm of fixed size; two zeros are the state of a fresh key.
pub type Words = [u64; 2];

/// The moment of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The monotonic time.
    pub now: Nanos,
    /// Nanoseconds since the Unix epoch; only calendar windows look at it.
    pub unix: u64,
}

impl Moment {
    /// Creates a moment whose calendar time is unknown (zero).
    #[must_use]
    pub const fn at(nanos: u64) -> Self {
        Self {
            now: Nanos::new(nanos),
            unix: 0,
        }
    }
}

impl From<Nanos> for Moment {
    /// Takes the monotonic time; the calendar time is unknown (zero).
    fn from(now: Nanos) -> Self {
        Self { now, unix: 0 }
    }
}

/// What came of a charge that may overdraw a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The state after the charge.
    pub words: Words,
    /// Units that were not charged, because the debt had reached its bound.
    pub clipped: u64,
}

/// What an algorithm says of a request: whether it fits, how the key stands then, and the state to
/// write where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// The state after the charge; where the request is refused, of no meaning.
    pub(crate) words: Words,
}

/// An algorithm whose state is two words, with the numbers of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fixed {
    /// A leaky bucket as a meter, or a token bucket: one arithmetic.
    Bucket(Bucket),
    /// A window that starts with the key's first request.
    Window(FixedWindow),
    /// A window that follows the calendar.
    Calendar(CalendarWindow),
    /// A sliding window counter.
    Counter(SlidingCounter),
}

/// Calls the same method on whichever algorithm it is.
macro_rules! each {
    ($fixed:expr, $algorithm:ident => $call:expr) => {
        match $fixed {
            Fixed::Bucket($algorithm) => $call,
            Fixed::Window($algorithm) => $call,
            Fixed::Calendar($algorithm) => $call,
            Fixed::Counter($algorithm) => $call,
        }
    };
}

impl Fixed {
    /// Returns the state after admitting `cost` units, or `None` when the limit refuses them.
    ///
    /// A cost of zero is always admitted and changes nothing that an observer could tell.
    #[must_use]
    #[inline]
    pub fn admit(&self, words: Words, moment: Moment, cost: u64) -> Option<Words> {
        each!(self, algorithm => algorithm.admit(words, moment, cost))
    }

    /// Returns what [`admit`](Self::admit), [`wait`](Self::wait) and [`standing`](Self::standing) say
    /// of a request, the standing being that after the charge. `version` stands for these numbers.
    #[inline]
    pub(crate) fn decide(&self, version: u32, words: Words, moment: Moment, cost: u64) -> Verdict {
        match self {
            Self::Bucket(bucket) => bucket.decide(version, words, moment, cost),
            Self::Window(_) | Self::Calendar(_) | Self::Counter(_) => {
                self.decide_step_by_step(words, moment, cost)
            }
        }
    }

    #[inline(never)]
    fn decide_step_by_step(&self, words: Words, moment: Moment, cost: u64) -> Verdict {
        let (words, wait) = match self.admit(words, moment, cost) {
            Some(words) => (words, Wait::None),
            None => (words, self.wait(words, moment, cost)),
        };
        let outcome = Outcome::new(self.standing(words, moment), wait);
        Verdict { outcome, words }
    }

    /// Returns how long until `cost` units would be admitted, nothing else happening.
    #[must_use]
    pub fn wait(&self, words: Words, moment: Moment, cost: u64) -> Wait {
        each!(self, algorithm => algorithm.wait(words, moment, cost))
    }

    /// Returns how the key stands.
    #[must_use]
    #[inline]
    pub fn standing(&self, words: Words, moment: Moment) -> Standing {
        each!(self, algorithm => algorithm.standing(words, moment))
    }

    /// Returns the moment from which the key is as fresh as one never seen.
    ///
    /// Calendar windows answer in time since the Unix epoch.
    #[must_use]
    #[inline]
    pub fn fresh_at(&self, words: Words) -> u64 {
        each!(self, algorithm => algorithm.fresh_at(words))
    }

    /// Returns whether the state equals that of a key never seen.
    #[must_use]
    #[inline]
    pub fn is_fresh(&self, words: Words, moment: Moment) -> bool {
        let now = if let Self::Calendar(_) = self {
            moment.unix
        } else {
            moment.now.get()
        };
        self.fresh_at(words) <= now
    }

    /// Returns whether the limit would refuse a single unit.
    #[must_use]
    pub fn is_exhausted(&self, words: Words, moment: Moment) -> bool {
        self.admit(words, moment, 1).is_none()
    }

    /// Returns the state after charging `units` whether or not they fit, up to `max_debt` units
    /// above the capacity.
    #[must_use]
    pub fn charge(&self, words: Words, moment: Moment, units: u64, max_debt: u64) -> Charged {
        each!(self, algorithm => algorithm.charge(words, moment, units, max_debt))
    }

    /// Returns the state after giving back `units` of a charge with this stamp.
    ///
    /// A bucket gives back what has not drained since, a window only into the window that was
    /// charged; never more than would make the key fresh.
    #[must_use]
    pub fn refund(&self, words: Words, moment: Moment, units: u64, stamp: u64) -> Words {
        each!(self, algorithm => algorithm.refund(words, moment, units, stamp))
    }

    /// Returns the stamp of a charge made at this moment that left this state: what
    /// [`refund`](Self::refund) needs to know of it later.
    #[must_use]
    pub fn stamp(&self, words: Words, moment: Moment) -> u64 {
        match self {
            Self::Bucket(_) => moment.now.get(),
            Self::Window(_) | Self::Calendar(_) | Self::Counter(_) => words[0],
        }
    }

    /// Returns the units in use, rounded up.
    #[must_use]
    pub fn used(&self, words: Words, moment: Moment) -> u64 {
        each!(self, algorithm => algorithm.used(words, moment))
    }

    /// Returns the state of a key that has just spent `units`, at most the capacity.
    #[must_use]
    pub fn with_used(&self, units: u64, moment: Moment) -> Words {
        each!(self, algorithm => algorithm.with_used(units, moment))
    }

    /// Returns the state under these numbers of a key that was counted under others: the units in
    /// use stay, and so does the start of a window.
    ///
    /// Nothing is given away, so going back and forth between two quotas yields no more than the
    /// larger one. Units in use beyond the new capacity are a debt; a bucket's goes away at the
    /// faster of the two rates. (Windows of different lengths are another matter: what has passed
    /// in the shorter one is gone.)
    #[must_use]
    pub fn adopt(&self, from: &Self, words: Words, moment: Moment) -> Words {
        if from.is_fresh(words, moment) {
            return [0, 0];
        }
        match (from, self) {
            (Self::Bucket(from), Self::Bucket(to)) => to.adopt(from, words, moment),
            (Self::Window(_), Self::Window(_)) | (Self::Counter(_), Self::Counter(_)) => words,
            (Self::Calendar(from), Self::Calendar(to)) if from.same_calendar(to) => words,
            (from, to) => to.with_used(from.used(words, moment), moment),
        }
    }

    /// Returns the state to go on from where calendar time has stepped back by more than a second:
    /// the units are moved into the window of the new time, or they would stay until it has caught
    /// up. `None` where nothing has to be done.
    #[must_use]
    #[inline]
    pub fn rebase(&self, words: Words, moment: Moment) -> Option<Words> {
        match self {
            Self::Calendar(calendar) => calendar.rebase(words, moment),
            Self::Bucket(_) | Self::Window(_) | Self::Counter(_) => None,
        }
    }

    /// Returns the largest cost that is ever admitted.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        each!(self, algorithm => algorithm.capacity())
    }
}

/// Returns the wait that makes `remaining` grow, in nanoseconds: zero at the capacity.
fn next_unit(remaining: u64, capacity: u64, wait: impl FnOnce(u64) -> Wait) -> u64 {
    if remaining >= capacity {
        return 0;
    }
    match wait(remaining + 1) {
        Wait::For(wait) => crate::clock::nanos(wait),
        Wait::None | Wait::Unknown | Wait::Never => 0,
    }
}
