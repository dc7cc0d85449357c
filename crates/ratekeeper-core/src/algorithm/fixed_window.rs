//! The fixed window that starts with a key's first request.

use std::time::Duration;

use super::{Charged, Moment, Words, next_unit};
use crate::decision::{Standing, Wait};
use crate::limit::LimitErrorKind;
use crate::quota::Quota;

/// A fixed window with the numbers of one limit: N units in `[start, start + W)`, then fresh.
///
/// Bounds: N per window, so up to 2·N in an interval W that crosses an edge.
/// State: the start, the units charged. No units is fresh, whatever the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    units: u64,
    window: u64,
}

impl FixedWindow {
    pub(crate) fn new(quota: Quota, max_debt: u64) -> Result<Self, LimitErrorKind> {
        count_fits(quota.units(), max_debt)?;
        Ok(Self {
            units: quota.units(),
            window: quota.period_nanos(),
        })
    }

    pub(super) fn capacity(&self) -> u64 {
        self.units
    }

    /// Returns the start of the window that stands at this moment, and its count.
    fn standing_window(&self, [start, count]: Words, moment: Moment) -> Words {
        let now = moment.now.get();
        if count == 0 || now >= start + self.window {
            [now, 0]
        } else {
            [start, count]
        }
    }

    #[inline]
    pub(super) fn admit(&self, words: Words, moment: Moment, cost: u64) -> Option<Words> {
        let [start, count] = self.standing_window(words, moment);
        if cost == 0 {
            return Some(words);
        }
        (cost <= self.units.saturating_sub(count)).then(|| [start, count + cost])
    }

    pub(super) fn wait(&self, words: Words, moment: Moment, cost: u64) -> Wait {
        if cost > self.units {
            return Wait::Never;
        }
        let [start, count] = self.standing_window(words, moment);
        if cost == 0 || cost <= self.units.saturating_sub(count) {
            return Wait::None;
        }
        Wait::For(Duration::from_nanos(start + self.window - moment.now.get()))
    }

    #[inline]
    pub(super) fn standing(&self, words: Words, moment: Moment) -> Standing {
        let [start, count] = self.standing_window(words, moment);
        let remaining = self.units.saturating_sub(count);
        let reset = if count == 0 {
            0
        } else {
            start + self.window - moment.now.get()
        };
        Standing {
            remaining,
            next: next_unit(remaining, self.units, |cost| self.wait(words, moment, cost)),
            reset,
        }
    }

    #[inline]
    pub(super) fn fresh_at(&self, [start, count]: Words) -> u64 {
        if count == 0 { 0 } else { start + self.window }
    }

    pub(super) fn charge(
        &self,
        words: Words,
        moment: Moment,
        units: u64,
        max_debt: u64,
    ) -> Charged {
        let [start, count] = self.standing_window(words, moment);
        let (count, clipped) = overdraw(count, units, self.units.saturating_add(max_debt));
        Charged {
            words: [start, count],
            clipped,
        }
    }

    pub(super) fn refund(&self, words: Words, moment: Moment, units: u64, stamp: u64) -> Words {
        let [start, count] = self.standing_window(words, moment);
        if count > 0 && start == stamp {
            [start, count.saturating_sub(units)]
        } else {
            words
        }
    }

    pub(super) fn used(&self, words: Words, moment: Moment) -> u64 {
        self.standing_window(words, moment)[1]
    }

    pub(super) fn with_used(&self, units: u64, moment: Moment) -> Words {
        [moment.now.get(), units.min(self.units)]
    }
}

/// Checks that the count of a window in debt fits its word.
pub(super) fn count_fits(units: u64, max_debt: u64) -> Result<(), LimitErrorKind> {
    units
        .checked_add(max_debt)
        .map(|_| ())
        .ok_or(LimitErrorKind::CapacityTooLarge)
}

/// Adds units to a count, at most up to `most`; returns the count and what did not fit.
pub(super) fn overdraw(count: u64, units: u64, most: u64) -> (u64, u64) {
    let room = most.saturating_sub(count);
    let taken = units.min(room);
    (count + taken, units - taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> FixedWindow {
        FixedWindow::new(text.parse().unwrap(), 0).unwrap()
    }

    #[test]
    fn a_window_ends_exactly_its_length_after_its_first_request() {
        let window = window("2/s");
        let words = window.admit([0, 0], Moment::at(700), 2).unwrap();
        let end = 700 + 1_000_000_000;
        assert_eq!(window.admit(words, Moment::at(end - 1), 1), None);
        assert_eq!(
            window.wait(words, Moment::at(end - 1), 1),
            Wait::For(Duration::from_nanos(1))
        );
        assert_eq!(window.admit(words, Moment::at(end), 1), Some([end, 1]));
    }

    #[test]
    fn a_refund_goes_only_into_the_window_that_was_charged() {
        let window = window("5/s");
        let first = window.admit([0, 0], Moment::at(0), 3).unwrap();
        assert_eq!(window.refund(first, Moment::at(1), 3, 0), [0, 0]);
        let second = window.admit(first, Moment::at(2_000_000_000), 2).unwrap();
        assert_eq!(
            window.refund(second, Moment::at(2_000_000_001), 3, 0),
            second
        );
    }

    #[test]
    fn counts_at_the_end_of_64_bits_do_not_wrap() {
        let window = FixedWindow::new(Quota::per_second(u64::MAX), 0).unwrap();
        let words = window.admit([0, 0], Moment::at(0), u64::MAX).unwrap();
        assert_eq!(window.admit(words, Moment::at(0), 1), None);
        assert_eq!(window.admit(words, Moment::at(0), u64::MAX), None);
        assert_eq!(
            FixedWindow::new(Quota::per_second(u64::MAX), 1),
            Err(LimitErrorKind::CapacityTooLarge)
        );
    }
}
