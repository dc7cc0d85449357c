//! The sliding window log: every admitted request remembered for as long as it counts.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Moment, next_unit};
use crate::decision::{Standing, Wait};
use crate::limit::LimitErrorKind;
use crate::quota::Quota;

/// A sliding window log with the numbers of one limit: at most N units in any `(t − W, t]`.
///
/// Exact to the nanosecond, at 16 bytes an admitted request; requests of one moment share an entry.
/// Bounds: N in any interval W.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    units: u64,
    window: u64,
}

/// The admitted requests of one key, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Moments with the units charged at each, strictly ascending. Invariant: no entry of zero units.
    entries: VecDeque<(u64, u64)>,
    /// The sum of the entries' units.
    used: u64,
}

impl Log {
    /// Returns the number of entries kept, each of 16 bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no entry is kept: the log of a key never seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl SlidingLog {
    pub(crate) fn new(quota: Quota, max_debt: u64) -> Result<Self, LimitErrorKind> {
        super::fixed_window::count_fits(quota.units(), max_debt)?;
        Ok(Self {
            units: quota.units(),
            window: quota.period_nanos(),
        })
    }

    /// Returns the largest cost that is ever admitted.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.units
    }

    /// Forgets the entries that no longer count; an entry at t is gone at t + W.
    pub fn expire(&self, log: &mut Log, moment: Moment) {
        let now = moment.now.get();
        if log
            .entries
            .back()
            .is_none_or(|(at, _)| at + self.window <= now)
        {
            log.entries.clear();
            log.used = 0;
        }
        while let Some((at, units)) = log.entries.front().copied() {
            if at + self.window > now {
                break;
            }
            log.used -= units;
            log.entries.pop_front();
        }
        // Gives back what a burst took, in steps that are paid for by the entries that have gone.
        let (length, room) = (log.entries.len(), log.entries.capacity());
        if room > 64 && length < room / 4 {
            log.entries.shrink_to(2 * length);
        }
    }

    /// Returns whether `cost` units fit now. The log has been expired at this moment.
    #[must_use]
    pub fn admits(&self, log: &Log, cost: u64) -> bool {
        cost == 0 || cost <= self.units.saturating_sub(log.used)
    }

    /// Adds an entry of `units`. The log has been expired at this moment. A moment before that of
    /// the last entry is taken as that one, so that entries stay in their order.
    pub fn push(&self, log: &mut Log, moment: Moment, units: u64) {
        let now = moment.now.get();
        if units == 0 {
            return;
        }
        log.used += units;
        match log.entries.back_mut() {
            Some((at, charged)) if *at >= now => *charged += units,
            _ => log.entries.push_back((now, units)),
        }
    }

    /// Returns how long until `cost` units would be admitted, nothing else happening. The log has
    /// been expired at this moment.
    #[must_use]
    pub fn wait(&self, log: &Log, moment: Moment, cost: u64) -> Wait {
        if cost > self.units {
            return Wait::Never;
        }
        if self.admits(log, cost) {
            return Wait::None;
        }
        // Units that have to leave before the cost fits.
        let mut excess = log.used - (self.units - cost);
        let mut entries = log.entries.iter();
        let at = loop {
            match entries.next() {
                Some((_, units)) if *units < excess => excess -= units,
                Some((at, _)) => break *at,
                None => break moment.now.get(),
            }
        };
        Wait::For(Duration::from_nanos(at + self.window - moment.now.get()))
    }

    /// Returns how the key stands. The log has been expired at this moment.
    #[must_use]
    pub fn standing(&self, log: &Log, moment: Moment) -> Standing {
        let remaining = self.units.saturating_sub(log.used);
        let reset = self.fresh_at(log).saturating_sub(moment.now.get());
        Standing {
            remaining,
            next: next_unit(remaining, self.units, |cost| self.wait(log, moment, cost)),
            reset,
        }
    }

    /// Returns the moment from which the key is as fresh as one never seen.
    #[must_use]
    pub fn fresh_at(&self, log: &Log) -> u64 {
        log.entries.back().map_or(0, |(at, _)| at + self.window)
    }

    /// Charges units whether or not they fit, up to `max_debt` above the capacity; returns the
    /// units that were not charged. The log has been expired at this moment.
    pub fn charge(&self, log: &mut Log, moment: Moment, units: u64, max_debt: u64) -> u64 {
        let room = (self.units.saturating_add(max_debt)).saturating_sub(log.used);
        let taken = units.min(room);
        self.push(log, moment, taken);
        units - taken
    }

    /// Gives back `units` of the entry charged at `stamp`, if it still counts.
    pub fn refund(&self, log: &mut Log, units: u64, stamp: u64) {
        let Ok(index) = log.entries.binary_search_by_key(&stamp, |(at, _)| *at) else {
            return;
        };
        let left = log.entries[index].1;
        let returned = units.min(left);
        log.used -= returned;
        if returned == left {
            log.entries.remove(index);
        } else {
            log.entries[index].1 -= returned;
        }
    }

    /// Returns the units in use. The log has been expired at this moment.
    #[must_use]
    pub fn used(&self, log: &Log) -> u64 {
        log.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(limit: &SlidingLog, log: &mut Log, now: u64, cost: u64) -> bool {
        let moment = Moment::at(now);
        limit.expire(log, moment);
        let admitted = limit.admits(log, cost);
        if admitted {
            limit.push(log, moment, cost);
        }
        admitted
    }

    #[test]
    fn a_moment_before_the_last_entry_keeps_the_order() {
        let limit = SlidingLog::new(Quota::per_second(2), 0).unwrap();
        let mut log = Log::default();
        assert!(admit(&limit, &mut log, 100, 1));
        assert!(admit(&limit, &mut log, 98, 1));
        for now in [97, 98, 100, 1_000_000_098, 1_000_000_099] {
            assert!(!admit(&limit, &mut log, now, 1), "at {now}");
            let wait = Duration::from_nanos(1_000_000_100 - now);
            assert_eq!(limit.wait(&log, Moment::at(now), 1), Wait::For(wait));
        }
        assert!(admit(&limit, &mut log, 1_000_000_100, 2));
    }

    #[test]
    fn an_entry_is_gone_exactly_one_window_later() {
        let limit = SlidingLog::new(Quota::per_second(2), 0).unwrap();
        let mut log = Log::default();
        assert!(admit(&limit, &mut log, 10, 1));
        assert!(admit(&limit, &mut log, 20, 1));
        assert!(!admit(&limit, &mut log, 1_000_000_009, 1));
        assert_eq!(
            limit.wait(&log, Moment::at(1_000_000_009), 1),
            Wait::For(Duration::from_nanos(1))
        );
        assert_eq!(
            limit.wait(&log, Moment::at(1_000_000_009), 2),
            Wait::For(Duration::from_nanos(11))
        );
        assert!(admit(&limit, &mut log, 1_000_000_010, 1));
        assert_eq!(log.len(), 2);
    }

    #[test]
    fn a_log_gives_back_what_a_burst_took() {
        let limit = SlidingLog::new(Quota::per_second(10_000), 0).unwrap();
        let mut log = Log::default();
        for now in 0..10_000 {
            assert!(admit(&limit, &mut log, now, 1));
        }
        assert!(log.entries.capacity() >= 10_000);
        assert!(admit(&limit, &mut log, 2_000_000_000, 1));
        assert!(log.entries.capacity() <= 64, "{}", log.entries.capacity());
    }

    #[test]
    fn requests_of_one_moment_share_an_entry_and_a_refund_takes_its_part() {
        let limit = SlidingLog::new(Quota::per_second(10_000), 0).unwrap();
        let mut log = Log::default();
        assert!(admit(&limit, &mut log, 5, 8_001));
        assert!(admit(&limit, &mut log, 5, 9));
        assert_eq!(log.len(), 1);
        limit.refund(&mut log, 9, 5);
        assert_eq!(limit.used(&log), 8_001);
        limit.refund(&mut log, 9_000, 5);
        assert_eq!(log, Log::default());
        limit.refund(&mut log, 1, 5);
        assert_eq!(log, Log::default());
    }
}
