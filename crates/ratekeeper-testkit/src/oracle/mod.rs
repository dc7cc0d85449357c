//! The obvious slow version of each algorithm.
//!
//! An oracle is written to be read, not to be fast: exact rational numbers, one sentence of the contract per line, the whole
//! history kept where that makes it plainer. It shares no code with `ratekeeper-core`, so that an agreement of the two means
//! something. Time is a number of nanoseconds that the caller gives with each call; it starts anywhere and never goes back.
//!
//! All oracles answer with the same four numbers, defined once for every algorithm:
//!
//! * `remaining`: the largest cost that would be admitted at this same instant, after this decision;
//! * `next`: the smallest time after which `remaining` would be larger, nothing else happening; zero when the key is fresh;
//! * `reset`: the smallest time after which the key equals one never seen;
//! * `wait`: the smallest time after which a refused cost would be admitted, nothing else happening; `Never` above capacity.
//!
//! "Smallest" means the smallest whole number of steps of the store's clock ([`Terms::tick`]).

mod bucket;
pub mod calendar;
mod fixed_window;
mod sliding_counter;
mod sliding_log;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

pub use self::{
    bucket::{LeakyBucket, TokenBucket},
    fixed_window::{FixedWindow, Windows},
    sliding_counter::SlidingCounter,
    sliding_log::SlidingLog,
};

/// The numbers of a limit: `units` per `period`, at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Units that each period allows, at least 1.
    pub units: u64,
    /// The period in nanoseconds, at least 1.
    pub period: u64,
    /// What a bucket holds, at least 1. Windows, logs and counters hold `units` and ignore it.
    pub burst: u64,
    /// The step of the store's clock in nanoseconds, at least 1: promised times are rounded up to whole steps.
    pub tick: u64,
}

impl Terms {
    /// Returns `units` per `period` nanoseconds, with a burst of as many units, on a clock of 1 ns.
    #[must_use]
    pub const fn new(units: u64, period: u64) -> Self {
        Self {
            units,
            period,
            burst: units,
            tick: 1,
        }
    }

    /// Returns the same terms with another burst.
    #[must_use]
    pub const fn burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// Returns the same terms on a clock whose step is `tick` nanoseconds.
    #[must_use]
    pub const fn tick(self, tick: u64) -> Self {
        Self { tick, ..self }
    }

    /// Units per nanosecond.
    fn rate(&self) -> Exact {
        exact(self.units) / exact(self.period)
    }

    /// The least number of whole clock steps that are at least `duration`, in nanoseconds; `u64::MAX` for anything longer.
    fn up(&self, duration: &Exact) -> u64 {
        if *duration <= Exact::zero() {
            return 0;
        }
        let steps = (duration / exact(self.tick)).ceil();
        (steps * exact(self.tick))
            .to_integer()
            .to_u64()
            .unwrap_or(u64::MAX)
    }
}

/// Whether and when a request would be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It is admitted now.
    None,
    /// It would be admitted after this many nanoseconds, not one clock step earlier.
    For(u64),
    /// It costs more than the capacity.
    Never,
}

/// What an oracle says about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may pass.
    pub admitted: bool,
    /// The largest cost that would be admitted at this instant, after this decision.
    pub remaining: u64,
    /// Nanoseconds until `remaining` would be larger; 0 when the key is as fresh.
    pub next: u64,
    /// Nanoseconds until the key equals a fresh one.
    pub reset: u64,
    /// When the request would be admitted.
    pub wait: Wait,
}

/// An admitted charge, as the caller remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When it was charged.
    pub at: u64,
    /// How many units.
    pub units: u64,
}

/// One key under one limit.
///
/// The required methods describe the algorithm; the decisions are the same for all and provided.
///
/// # Panics
///
/// Implementations may panic when `now` is earlier than in an earlier call: what a store does then is the store's rule, and the
/// caller passes the later of the two.
pub trait Oracle: Debug {
    /// Returns the largest cost that a fresh key admits.
    fn capacity(&self) -> u64;

    /// Returns whether a request of this cost, which is not 0, fits at `now`.
    fn admits(&self, now: u64, cost: u64) -> bool;

    /// Returns the largest cost that fits at `now`; 0 in debt.
    fn remaining(&self, now: u64) -> u64;

    /// Returns the nanoseconds until the key equals a fresh one.
    fn reset(&self, now: u64) -> u64;

    /// Returns the nanoseconds until a request of `cost`, which is at most the capacity, fits.
    fn wait(&self, now: u64, cost: u64) -> u64;

    /// Charges units whether they fit or not.
    fn charge(&mut self, now: u64, units: u64);

    /// Charges units until the key is at most `max_debt` above its capacity, and returns how many whole units it did not charge.
    fn overdraw(&mut self, now: u64, units: u64, max_debt: u64) -> u64;

    /// Gives an admitted charge back, as far as it still weighs.
    fn refund(&mut self, now: u64, charge: Charge);

    /// Puts the key under other terms. What it has used stays in use, also beyond the new capacity, and so does the start of a
    /// window.
    fn change(&mut self, now: u64, terms: Terms);

    /// Returns what [`check`](Self::check) would, and charges nothing.
    fn peek(&self, now: u64, cost: u64) -> Verdict {
        // A cost of 0 is admitted even in debt: it asks for nothing.
        let admitted = cost == 0 || self.admits(now, cost);
        let remaining = self.remaining(now);
        let reset = self.reset(now);
        Verdict {
            admitted,
            remaining,
            next: if reset == 0 {
                0
            } else {
                self.wait(now, remaining + 1)
            },
            reset,
            wait: if admitted {
                Wait::None
            } else if cost > self.capacity() {
                Wait::Never
            } else {
                Wait::For(self.wait(now, cost))
            },
        }
    }

    /// Decides a request and charges it if it is admitted. A refusal and a cost of 0 change nothing.
    fn check(&mut self, now: u64, cost: u64) -> Verdict {
        let asked = self.peek(now, cost);
        if !asked.admitted || cost == 0 {
            return asked;
        }
        self.charge(now, cost);
        Verdict {
            admitted: true,
            wait: Wait::None,
            ..self.peek(now, 0)
        }
    }

    /// Ends a charge with what it really cost and returns how many units were clipped.
    ///
    /// Less than was charged: the difference is refunded. More: the difference is charged at `now`, at most until the key is
    /// `max_debt` above its capacity; the rest is clipped.
    fn settle(&mut self, now: u64, charge: Charge, actual: u64, max_debt: u64) -> u64 {
        if actual <= charge.units {
            let units = charge.units - actual;
            self.refund(now, Charge { units, ..charge });
            return 0;
        }
        self.overdraw(now, actual - charge.units, max_debt)
    }
}

/// An exact number. Never a float.
type Exact = BigRational;

fn exact(whole: impl Into<BigInt>) -> Exact {
    Exact::from_integer(whole.into())
}

/// Rounded down, 0 when negative, `u64::MAX` when larger.
fn whole(number: &Exact) -> u64 {
    if *number < Exact::zero() {
        return 0;
    }
    number.floor().to_integer().to_u64().unwrap_or(u64::MAX)
}

fn larger(a: Exact, b: Exact) -> Exact {
    if a < b { b } else { a }
}

fn smaller(a: Exact, b: Exact) -> Exact {
    if a < b { a } else { b }
}
