//! The sliding window counter: two windows, the earlier one weighted by how much of it is in reach.

use std::time::Duration;

use super::{Charged, Moment, Words, next_unit};
use crate::algorithm::fixed_window::overdraw;
use crate::decision::{Standing, Wait};
use crate::limit::LimitErrorKind;
use crate::quota::Quota;

/// A sliding window counter with the numbers of one limit.
///
/// With e the time since the present window began, a cost c is admitted when
/// `previous·(W − e) + (current + c)·W <= N·W`, in exact integers: 18 s into a minute the previous
/// minute counts 70 %. Windows start with the key's first request and anew after it was idle.
///
/// Bounds: the formula assumes that the previous window's units came evenly, so an interval W can
/// hold just under 2·N.
/// State: the start of the present window; the units of the previous one and of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingCounter {
    units: u32,
    window: u64,
}

#[derive(Clone, Copy)]
struct Windows {
    start: u64,
    previous: u64,
    current: u64,
}

impl Windows {
    fn pack(self) -> Words {
        [self.start, self.previous << 32 | self.current]
    }
}

impl SlidingCounter {
    pub(crate) fn new(quota: Quota, max_debt: u64) -> Result<Self, LimitErrorKind> {
        let most = quota
            .units()
            .checked_add(max_debt)
            .and_then(|most| u32::try_from(most).ok());
        match (most, u32::try_from(quota.units())) {
            (Some(_), Ok(units)) => Ok(Self {
                units,
                window: quota.period_nanos(),
            }),
            _ => Err(LimitErrorKind::CounterTooLarge),
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.units.into()
    }

    /// Returns the windows as they stand at this moment: the present one contains it.
    #[inline]
    fn roll(&self, [start, counts]: Words, moment: Moment) -> Windows {
        let now = moment.now.get();
        let (previous, current) = (counts >> 32, counts & u64::from(u32::MAX));
        if now < start + self.window && counts != 0 {
            Windows {
                start,
                previous,
                current,
            }
        } else if now < start + 2 * self.window && current != 0 {
            Windows {
                start: start + self.window,
                previous: current,
                current: 0,
            }
        } else {
            Windows {
                start: now,
                previous: 0,
                current: 0,
            }
        }
    }

    /// Returns `previous · (W − e)`: what the previous window still counts, in units times W.
    #[inline]
    fn weight(&self, windows: Windows, moment: Moment) -> u128 {
        let left = windows.start + self.window - moment.now.get();
        u128::from(windows.previous) * u128::from(left)
    }

    #[inline]
    pub(super) fn admit(&self, words: Words, moment: Moment, cost: u64) -> Option<Words> {
        if cost == 0 {
            return Some(words);
        }
        let mut windows = self.roll(words, moment);
        let free = self
            .capacity()
            .saturating_sub(windows.current)
            .checked_sub(cost)?;
        if self.weight(windows, moment) > u128::from(free) * u128::from(self.window) {
            return None;
        }
        windows.current += cost;
        Some(windows.pack())
    }

    pub(super) fn wait(&self, words: Words, moment: Moment, cost: u64) -> Wait {
        if cost > self.capacity() {
            return Wait::Never;
        }
        if cost == 0 {
            return Wait::None;
        }
        let windows = self.roll(words, moment);
        let window = u128::from(self.window);
        let to_end = u128::from(windows.start + self.window - moment.now.get());
        let wait = match self
            .capacity()
            .saturating_sub(windows.current)
            .checked_sub(cost)
        {
            // The previous window's weight falls by `previous` a nanosecond.
            Some(free) => {
                let excess = self
                    .weight(windows, moment)
                    .saturating_sub(u128::from(free) * window);
                if excess == 0 {
                    return Wait::None;
                }
                excess.div_ceil(u128::from(windows.previous))
            }
            // This window alone is too full: it must become the previous one and fade.
            None => {
                let excess = u128::from(windows.current - (self.capacity() - cost)) * window;
                to_end + excess.div_ceil(u128::from(windows.current))
            }
        };
        Wait::For(Duration::from_nanos(
            u64::try_from(wait).unwrap_or(u64::MAX),
        ))
    }

    #[inline]
    pub(super) fn standing(&self, words: Words, moment: Moment) -> Standing {
        let windows = self.roll(words, moment);
        let counted = self.counted(windows, moment);
        let remaining = self.capacity().saturating_sub(counted);
        let next = next_unit(remaining, self.capacity(), |cost| {
            self.wait(words, moment, cost)
        });
        let reset = self
            .fresh_at(windows.pack())
            .saturating_sub(moment.now.get());
        Standing {
            remaining,
            next,
            reset,
        }
    }

    /// Returns the units that count now, the weighted part rounded up.
    fn counted(&self, windows: Windows, moment: Moment) -> u64 {
        let weight = self.weight(windows, moment);
        let weighted = match u64::try_from(weight) {
            Ok(weight) => weight.div_ceil(self.window),
            // The quotient is at most `previous`.
            Err(_) => {
                u64::try_from(weight.div_ceil(u128::from(self.window))).unwrap_or(windows.previous)
            }
        };
        windows.current + weighted
    }

    #[inline]
    pub(super) fn fresh_at(&self, [start, counts]: Words) -> u64 {
        match counts {
            0 => 0,
            _ if counts & u64::from(u32::MAX) == 0 => start + self.window,
            _ => start + 2 * self.window,
        }
    }

    pub(super) fn charge(
        &self,
        words: Words,
        moment: Moment,
        units: u64,
        max_debt: u64,
    ) -> Charged {
        let mut windows = self.roll(words, moment);
        // The bound is on all that counts, the previous window's part included.
        let counted = self.counted(windows, moment);
        let (charged, clipped) = overdraw(
            counted,
            units,
            self.capacity()
                .saturating_add(max_debt)
                .min(u32::MAX.into()),
        );
        windows.current += charged - counted;
        Charged {
            words: windows.pack(),
            clipped,
        }
    }

    pub(super) fn refund(&self, words: Words, moment: Moment, units: u64, stamp: u64) -> Words {
        let mut windows = self.roll(words, moment);
        if windows.start == stamp {
            windows.current = windows.current.saturating_sub(units);
        } else if windows.start == stamp + self.window {
            windows.previous = windows.previous.saturating_sub(units);
        } else {
            return words;
        }
        windows.pack()
    }

    pub(super) fn used(&self, words: Words, moment: Moment) -> u64 {
        self.counted(self.roll(words, moment), moment)
    }

    pub(super) fn with_used(&self, units: u64, moment: Moment) -> Words {
        Windows {
            start: moment.now.get(),
            previous: 0,
            current: units.min(self.capacity()),
        }
        .pack()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn eighteen_seconds_into_a_minute_the_previous_minute_counts_seventy_percent() {
        let counter = SlidingCounter::new(Quota::per_minute(100), 0).unwrap();
        let words = counter.admit([0, 0], Moment::at(0), 80).unwrap();
        let moment = Moment::at(78 * SECOND);
        // 80 · 0.7 = 56 of 100 count.
        assert_eq!(counter.standing(words, moment).remaining, 44);
        assert!(counter.admit(words, moment, 44).is_some());
        assert_eq!(counter.admit(words, moment, 45), None);
    }

    #[test]
    fn limits_beyond_32_bits_are_refused() {
        let error = SlidingCounter::new(Quota::per_second(1 << 32), 0);
        assert_eq!(error, Err(LimitErrorKind::CounterTooLarge));
        assert_eq!(
            SlidingCounter::new(Quota::per_second(u64::from(u32::MAX)), 1),
            Err(LimitErrorKind::CounterTooLarge)
        );
    }

    #[test]
    fn a_refund_reaches_the_window_that_was_charged_even_as_the_previous_one() {
        let counter = SlidingCounter::new(Quota::per_second(10), 0).unwrap();
        let words = counter.admit([0, 0], Moment::at(5), 4).unwrap();
        let later = Moment::at(5 + SECOND);
        assert_eq!(counter.standing(words, later).remaining, 6);
        let refunded = counter.refund(words, later, 4, 5);
        assert_eq!(counter.standing(refunded, later).remaining, 10);
        let long_after = Moment::at(5 + 3 * SECOND);
        let anew = counter.admit(words, long_after, 2).unwrap();
        assert_eq!(counter.refund(anew, long_after, 4, 5), anew);
    }
}
