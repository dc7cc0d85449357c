//! The sliding counter: two counts, the older one weighed by how much of its window is still in sight.

use super::{Charge, Exact, Oracle, Terms, exact, whole};

/// The sliding counter: previous · (W − e) + (current + c) · W ≤ N · W, `e` into a window that began with the key's first request.
#[derive(Clone, Debug)]
pub struct SlidingCounter {
    terms: Terms,
    /// None when the key is fresh.
    counts: Option<Counts>,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    start: u128,
    previous: u128,
    current: u128,
}

impl Counts {
    /// The same counts as seen at `now`; none when nothing of them is left.
    fn seen_at(mut self, now: u128, period: u128) -> Option<Self> {
        if now >= self.start + 2 * period {
            return None;
        }
        if now >= self.start + period {
            self = Self {
                start: self.start + period,
                previous: self.current,
                current: 0,
            };
        }
        (self.previous > 0 || self.current > 0).then_some(self)
    }
}

impl SlidingCounter {
    /// Returns a key that has counted nothing.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            counts: None,
        }
    }

    fn period(&self) -> u128 {
        u128::from(self.terms.period)
    }

    fn counts(&self, now: u128) -> Option<Counts> {
        self.counts
            .and_then(|counts| counts.seen_at(now, self.period()))
    }

    /// previous · (W − e) ÷ W + current.
    fn used(&self, now: u128) -> Exact {
        let Some(counts) = self.counts(now) else {
            return exact(0);
        };
        let into = exact(now - counts.start);
        let window = exact(self.period());
        exact(counts.previous) * (&window - into) / window + exact(counts.current)
    }

    fn fits(&self, now: u128, cost: u64) -> bool {
        self.used(now) + exact(cost) <= exact(self.terms.units)
    }
}

impl Oracle for SlidingCounter {
    fn capacity(&self) -> u64 {
        self.terms.units
    }

    fn admits(&self, now: u64, cost: u64) -> bool {
        self.fits(u128::from(now), cost)
    }

    fn remaining(&self, now: u64) -> u64 {
        whole(&(exact(self.terms.units) - self.used(u128::from(now))))
    }

    fn reset(&self, now: u64) -> u64 {
        let now = u128::from(now);
        let Some(counts) = self.counts(now) else {
            return 0;
        };
        // What is in the current window is in sight until the end of the next one.
        let windows = if counts.current > 0 { 2 } else { 1 };
        self.terms
            .up(&exact(counts.start + windows * self.period() - now))
    }

    fn wait(&self, now: u64, cost: u64) -> u64 {
        if self.admits(now, cost) {
            return 0;
        }
        // What is used never grows while nothing happens, and after two windows nothing is left, so that the first step at which
        // the cost fits can be found by halving.
        let now = u128::from(now);
        let tick = u128::from(self.terms.tick);
        let (mut refused, mut admitted) = (0, (2 * self.period()).div_ceil(tick));
        while admitted - refused > 1 {
            let middle = refused.midpoint(admitted);
            if self.fits(now + middle * tick, cost) {
                admitted = middle;
            } else {
                refused = middle;
            }
        }
        u64::try_from(admitted * tick).unwrap_or(u64::MAX)
    }

    fn charge(&mut self, now: u64, units: u64) {
        let now = u128::from(now);
        let mut counts = self.counts(now).unwrap_or(Counts {
            start: now,
            previous: 0,
            current: 0,
        });
        counts.current += u128::from(units);
        self.counts = Some(counts);
    }

    fn overdraw(&mut self, now: u64, units: u64, max_debt: u64) -> u64 {
        let most = exact(self.terms.units) + exact(max_debt);
        let charged = units.min(whole(&(most - self.used(u128::from(now)))));
        if charged > 0 {
            self.charge(now, charged);
        }
        units - charged
    }

    fn refund(&mut self, now: u64, charge: Charge) {
        let period = self.period();
        self.counts = self.counts(u128::from(now)).and_then(|mut counts| {
            let (at, units) = (u128::from(charge.at), u128::from(charge.units));
            if at >= counts.start {
                counts.current = counts.current.saturating_sub(units);
            } else if at + period >= counts.start {
                counts.previous = counts.previous.saturating_sub(units);
            }
            counts.seen_at(u128::from(now), period)
        });
    }

    fn change(&mut self, now: u64, terms: Terms) {
        let now = u128::from(now);
        let counts = self.counts(now);
        self.terms = terms;
        self.counts = counts.and_then(|counts| counts.seen_at(now, self.period()));
    }
}
