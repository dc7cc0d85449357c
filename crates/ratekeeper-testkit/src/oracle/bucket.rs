//! Leaky bucket and token bucket: one algorithm seen from two sides, written down twice so that each can be read alone.

use num_traits::Zero;

use super::{Charge, Exact, Oracle, Terms, exact, larger, smaller, whole};

/// The leaky bucket as a meter: requests fill it, time drains it, what would overflow is refused.
#[derive(Clone, Debug)]
pub struct LeakyBucket {
    terms: Terms,
    level: Exact,
    /// The time that `level` is true of.
    at: u64,
}

impl LeakyBucket {
    /// Returns an empty bucket.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            level: Exact::zero(),
            at: 0,
        }
    }

    fn size(&self) -> Exact {
        exact(self.terms.burst)
    }

    fn level(&self, now: u64) -> Exact {
        let drained = exact(elapsed(self.at, now)) * self.terms.rate();
        larger(&self.level - drained, Exact::zero())
    }

    fn set(&mut self, now: u64, level: Exact) {
        self.level = level;
        self.at = now;
    }
}

impl Oracle for LeakyBucket {
    fn capacity(&self) -> u64 {
        self.terms.burst
    }

    fn admits(&self, now: u64, cost: u64) -> bool {
        self.level(now) + exact(cost) <= self.size()
    }

    fn remaining(&self, now: u64) -> u64 {
        whole(&(self.size() - self.level(now)))
    }

    fn reset(&self, now: u64) -> u64 {
        self.terms.up(&(self.level(now) / self.terms.rate()))
    }

    fn wait(&self, now: u64, cost: u64) -> u64 {
        let over = self.level(now) + exact(cost) - self.size();
        self.terms.up(&(over / self.terms.rate()))
    }

    fn charge(&mut self, now: u64, units: u64) {
        self.set(now, self.level(now) + exact(units));
    }

    fn overdraw(&mut self, now: u64, units: u64, max_debt: u64) -> u64 {
        let wanted = self.level(now) + exact(units);
        let most = larger(self.size() + exact(max_debt), self.level(now));
        self.set(now, smaller(wanted.clone(), most));
        whole(&(wanted - &self.level))
    }

    fn refund(&mut self, now: u64, charge: Charge) {
        let left = larger(
            self.level(now) - undrained(&self.terms, now, charge),
            Exact::zero(),
        );
        self.set(now, left);
    }

    fn change(&mut self, now: u64, terms: Terms) {
        let used = round_up(self.level(now), &terms);
        self.terms = terms;
        self.set(now, used);
    }
}

/// The token bucket: it starts full, requests take tokens, time adds them.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    terms: Terms,
    /// Negative in debt.
    tokens: Exact,
    /// The time that `tokens` is true of.
    at: u64,
}

impl TokenBucket {
    /// Returns a full bucket.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            tokens: exact(terms.burst),
            at: 0,
        }
    }

    fn full(&self) -> Exact {
        exact(self.terms.burst)
    }

    fn tokens(&self, now: u64) -> Exact {
        let added = exact(elapsed(self.at, now)) * self.terms.rate();
        smaller(&self.tokens + added, self.full())
    }

    fn set(&mut self, now: u64, tokens: Exact) {
        self.tokens = tokens;
        self.at = now;
    }
}

impl Oracle for TokenBucket {
    fn capacity(&self) -> u64 {
        self.terms.burst
    }

    fn admits(&self, now: u64, cost: u64) -> bool {
        self.tokens(now) >= exact(cost)
    }

    fn remaining(&self, now: u64) -> u64 {
        whole(&self.tokens(now))
    }

    fn reset(&self, now: u64) -> u64 {
        self.terms
            .up(&((self.full() - self.tokens(now)) / self.terms.rate()))
    }

    fn wait(&self, now: u64, cost: u64) -> u64 {
        let missing = exact(cost) - self.tokens(now);
        self.terms.up(&(missing / self.terms.rate()))
    }

    fn charge(&mut self, now: u64, units: u64) {
        self.set(now, self.tokens(now) - exact(units));
    }

    fn overdraw(&mut self, now: u64, units: u64, max_debt: u64) -> u64 {
        let wanted = self.tokens(now) - exact(units);
        let least = smaller(-exact(max_debt), self.tokens(now));
        self.set(now, larger(wanted.clone(), least));
        whole(&(&self.tokens - wanted))
    }

    fn refund(&mut self, now: u64, charge: Charge) {
        let back = undrained(&self.terms, now, charge);
        self.set(now, smaller(self.tokens(now) + back, self.full()));
    }

    fn change(&mut self, now: u64, terms: Terms) {
        let used = round_up(self.full() - self.tokens(now), &terms);
        self.terms = terms;
        self.set(now, self.full() - used);
    }
}

fn elapsed(since: u64, now: u64) -> u64 {
    now.checked_sub(since)
        .expect("the caller never lets time go back")
}

/// The part of a charge that has not drained since: what a refund may give back.
fn undrained(terms: &Terms, now: u64, charge: Charge) -> Exact {
    let drained = exact(elapsed(charge.at, now)) * terms.rate();
    larger(exact(charge.units) - drained, Exact::zero())
}

/// The least level not below `level` that can arise under `terms` from whole units and whole clock steps.
///
/// With a rate of a/b units per clock step, those are the multiples of 1/b.
fn round_up(level: Exact, terms: &Terms) -> Exact {
    let per_step = terms.rate() * exact(terms.tick);
    let grain = Exact::new(1.into(), per_step.denom().clone());
    (level / &grain).ceil() * grain
}
