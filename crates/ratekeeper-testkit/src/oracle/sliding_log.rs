//! The sliding log: every charge with its time.

use super::{Charge, Oracle, Terms, exact};

/// The sliding log: at most `units` in any (t − period, t]; an entry at t is gone at t + period.
#[derive(Clone, Debug)]
pub struct SlidingLog {
    terms: Terms,
    /// What was charged and not refunded, in order of time; charges of one instant are one entry. What still counts is asked anew
    /// each time.
    entries: Vec<Charge>,
}

impl SlidingLog {
    /// Returns an empty log.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            entries: Vec::new(),
        }
    }

    fn gone_at(&self, entry: &Charge) -> u128 {
        u128::from(entry.at) + u128::from(self.terms.period)
    }

    /// Time never goes back, so that what is gone once is gone for ever.
    fn forget(&mut self, now: u64) {
        let period = u128::from(self.terms.period);
        self.entries
            .retain(|entry| u128::from(now) < u128::from(entry.at) + period);
    }

    fn used_at(&self, time: u128) -> u128 {
        self.entries
            .iter()
            .filter(|entry| time < self.gone_at(entry))
            .map(|entry| u128::from(entry.units))
            .sum()
    }

    fn used(&self, now: u64) -> u128 {
        self.used_at(u128::from(now))
    }

    /// From `now` until `time`, in whole clock steps.
    fn until(&self, now: u64, time: u128) -> u64 {
        self.terms.up(&exact(time.saturating_sub(u128::from(now))))
    }
}

impl Oracle for SlidingLog {
    fn capacity(&self) -> u64 {
        self.terms.units
    }

    fn admits(&self, now: u64, cost: u64) -> bool {
        self.used(now) + u128::from(cost) <= u128::from(self.terms.units)
    }

    fn remaining(&self, now: u64) -> u64 {
        let left = u128::from(self.terms.units).saturating_sub(self.used(now));
        u64::try_from(left).expect("at most the units of the log")
    }

    fn reset(&self, now: u64) -> u64 {
        let last = self.entries.iter().map(|entry| self.gone_at(entry)).max();
        last.map_or(0, |time| self.until(now, time))
    }

    fn wait(&self, now: u64, cost: u64) -> u64 {
        if self.admits(now, cost) {
            return 0;
        }
        // Room only appears when an entry goes.
        let fits =
            |time: &u128| self.used_at(*time) + u128::from(cost) <= u128::from(self.terms.units);
        let first = self
            .entries
            .iter()
            .map(|entry| self.gone_at(entry))
            .filter(fits)
            .min();
        self.until(now, first.expect("an empty log admits its capacity"))
    }

    fn charge(&mut self, now: u64, units: u64) {
        self.forget(now);
        match self.entries.last_mut() {
            Some(last) if last.at == now => last.units = last.units.saturating_add(units),
            _ => self.entries.push(Charge { at: now, units }),
        }
    }

    fn overdraw(&mut self, now: u64, units: u64, max_debt: u64) -> u64 {
        let most = u128::from(self.terms.units) + u128::from(max_debt);
        let room = most.saturating_sub(self.used(now));
        let charged = units.min(u64::try_from(room).unwrap_or(u64::MAX));
        if charged > 0 {
            self.charge(now, charged);
        }
        units - charged
    }

    fn refund(&mut self, _now: u64, charge: Charge) {
        // Several charges of one instant cannot be told apart, and need not be.
        let mut left = charge.units;
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.at == charge.at)
        {
            let back = left.min(entry.units);
            entry.units -= back;
            left -= back;
        }
        self.entries.retain(|entry| entry.units > 0);
    }

    fn change(&mut self, now: u64, terms: Terms) {
        self.forget(now);
        self.terms = terms;
    }
}
