//! The leaky bucket as a meter and the token bucket, which are one arithmetic.
//!
//! A meter's level falls at the rate r and a request of cost c fits when `level + c <= B`; a token
//! bucket holds `B - level` tokens. Both, and the generic cell rate algorithm, are told by one
//! number: the time at which the bucket will have drained. With T the time in which one unit
//! drains, the level in units of time is `max(0, drained - now)`, and a request fits when
//! `max(0, drained - now) + c·T <= B·T`.
//!
//! T = period / units is a fraction of a nanosecond as soon as the division has a rest, so times
//! are kept as nanoseconds and a numerator over the (reduced) units: exact for ever, and without
//! a division as long as a product fits 64 bits.

use super::divisor::Divisor;
use super::{Charged, Moment, Verdict, Words};
use crate::decision::{Outcome, Standing, Wait};
use crate::limit::LimitErrorKind;
use crate::quota::Quota;

/// A bucket with the numbers of one limit.
///
/// Bounds: in any interval W at most B + r·W units are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The period over the units, reduced: one unit drains in `period / units` nanoseconds.
    period: Divisor,
    /// Invariant: fits 32 bits.
    units: Divisor,
    burst: u64,
    unit: Span,
    capacity: Span,
}

/// A length or point of time: nanoseconds and a rest in `1 / units` of one. The order is that of
/// the fields, since the rest is always less than a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    nanos: u64,
    rest: u32,
}

impl Span {
    pub(crate) const ZERO: Self = Self { nanos: 0, rest: 0 };

    /// Returns the span in whole words: the nanoseconds and the rest.
    #[inline]
    pub(crate) const fn words(self) -> Words {
        [self.nanos, self.rest as u64]
    }

    /// Returns the span of such words.
    #[inline]
    pub(crate) fn of_words(words: Words) -> Self {
        Self {
            nanos: words[0],
            rest: u32::try_from(words[1]).unwrap_or(0),
        }
    }

    fn ceil(self) -> u64 {
        self.nanos + u64::from(self.rest > 0)
    }
}

impl Bucket {
    /// The longest time that a bucket may take to drain, its debt included: half of what
    /// [`Nanos`](crate::Nanos) spans, so that no sum overflows.
    const MAX_DRAIN: u64 = 1 << 61;

    pub(crate) fn new(quota: Quota, max_debt: u64) -> Result<Self, LimitErrorKind> {
        let divisor = gcd(quota.units(), quota.period_nanos());
        let units =
            u32::try_from(quota.units() / divisor).map_err(|_| LimitErrorKind::RateTooFine)?;
        let period = quota.period_nanos() / divisor;
        let mut bucket = Self {
            period: Divisor::new(period),
            units: Divisor::new(units.into()),
            burst: quota.burst(),
            unit: Span::ZERO,
            capacity: Span::ZERO,
        };
        let most = quota
            .burst()
            .checked_add(max_debt)
            .ok_or(LimitErrorKind::CapacityTooLarge)?;
        let drain = u128::from(most) * u128::from(period) / u128::from(units);
        if drain > u128::from(Self::MAX_DRAIN) {
            return Err(LimitErrorKind::CapacityTooLarge);
        }
        bucket.unit = bucket.span(1);
        bucket.capacity = bucket.span(bucket.burst);
        Ok(bucket)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.burst
    }

    /// Returns the time in which `cost` units drain; the caller has bounded the cost.
    #[inline]
    fn span(&self, cost: u64) -> Span {
        if cost == 1 && self.unit != Span::ZERO {
            return self.unit;
        }
        self.span_of_rests(u128::from(cost) * self.period.wide())
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "bounded by MAX_DRAIN, and a rest by the units"
    )]
    fn span_of_rests(&self, rests: u128) -> Span {
        let (nanos, rest) = self.units.divide(rests);
        Span {
            nanos: nanos as u64,
            rest: rest as u32,
        }
    }

    #[inline]
    fn rests(&self, span: Span) -> u128 {
        u128::from(span.nanos) * self.units.wide() + u128::from(span.rest)
    }

    #[inline]
    fn add(&self, one: Span, other: Span) -> Span {
        let rest = u64::from(one.rest) + u64::from(other.rest);
        let carry = rest >= self.units.get();
        let rest = if carry { rest - self.units.get() } else { rest };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a rest is less than the units, which fit 32 bits"
        )]
        Span {
            nanos: one.nanos + other.nanos + u64::from(carry),
            rest: rest as u32,
        }
    }

    /// Subtracts, down to zero.
    #[inline]
    fn subtract(&self, from: Span, other: Span) -> Span {
        if from <= other {
            return Span::ZERO;
        }
        if from.rest >= other.rest {
            Span {
                nanos: from.nanos - other.nanos,
                rest: from.rest - other.rest,
            }
        } else {
            let rest = self.units.get() - u64::from(other.rest) + u64::from(from.rest);
            #[expect(clippy::cast_possible_truncation, reason = "less than the units")]
            Span {
                nanos: from.nanos - other.nanos - 1,
                rest: rest as u32,
            }
        }
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the second word holds a rest, which fits 32 bits"
    )]
    fn level(words: Words, moment: Moment) -> Span {
        let now = moment.now.get();
        let drained = Span {
            nanos: words[0],
            rest: words[1] as u32,
        };
        if drained.nanos < now {
            Span::ZERO
        } else {
            Span {
                nanos: drained.nanos - now,
                rest: drained.rest,
            }
        }
    }

    #[inline]
    fn drained(level: Span, moment: Moment) -> Words {
        [moment.now.get() + level.nanos, u64::from(level.rest)]
    }

    #[inline]
    pub(super) fn admit(&self, words: Words, moment: Moment, cost: u64) -> Option<Words> {
        if cost > self.burst {
            return None;
        }
        if cost == 0 {
            return Some(words);
        }
        let level = self.add(Self::level(words, moment), self.span(cost));
        (level <= self.capacity).then(|| Self::drained(level, moment))
    }

    /// See [`Fixed::decide`](super::Fixed::decide).
    #[inline(always)]
    pub(crate) fn decide(&self, version: u32, words: Words, moment: Moment, cost: u64) -> Verdict {
        let level = Self::level(words, moment);
        let (words, level, wait) = self.judge(words, level, moment, cost);
        Verdict {
            outcome: Outcome::of_bucket(level, version, wait),
            words,
        }
    }

    /// Returns the words and the level that a request leaves, and its wait: zero if it fits.
    #[inline(always)]
    fn judge(&self, words: Words, level: Span, moment: Moment, cost: u64) -> (Words, Span, u64) {
        if cost == 0 {
            return (words, level, 0);
        }
        if cost > self.burst {
            return (words, level, Outcome::NEVER);
        }
        let after = self.add(level, self.span(cost));
        if after <= self.capacity {
            (Self::drained(after, moment), after, 0)
        } else {
            (words, level, self.subtract(after, self.capacity).ceil())
        }
    }

    pub(super) fn wait(&self, words: Words, moment: Moment, cost: u64) -> Wait {
        let (_, level, wait) = self.judge(words, Self::level(words, moment), moment, cost);
        Outcome::of_bucket(level, 0, wait).wait()
    }

    pub(super) fn standing(&self, words: Words, moment: Moment) -> Standing {
        self.standing_at(Self::level(words, moment))
    }

    /// Returns how a key stands whose bucket has this level.
    pub(crate) fn standing_at(&self, level: Span) -> Standing {
        let room = self.subtract(self.capacity, level);
        // Whole units that drain in this time, and what the next one lacks.
        let (remaining, part) = self.period.divide(self.rests(room));
        let next = if level > self.capacity {
            self.subtract(self.add(level, self.unit), self.capacity)
        } else if level == Span::ZERO {
            level
        } else {
            self.span_of_rests(self.period.wide() - part)
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a span within the capacity holds at most the burst"
        )]
        Standing {
            remaining: remaining as u64,
            next: next.ceil(),
            reset: level.ceil(),
        }
    }

    #[inline]
    #[expect(clippy::unused_self, reason = "every algorithm has this method")]
    pub(super) fn fresh_at(&self, words: Words) -> u64 {
        words[0] + u64::from(words[1] > 0)
    }

    pub(super) fn charge(
        &self,
        words: Words,
        moment: Moment,
        units: u64,
        max_debt: u64,
    ) -> Charged {
        let level = Self::level(words, moment);
        let most = u128::from(self.burst) + u128::from(max_debt);
        let most = (most * self.period.wide()).min(u128::from(Self::MAX_DRAIN) * self.units.wide());
        let ceiling = self.span_of_rests(most).max(level);
        let wanted = u128::from(units) * self.period.wide();
        let room = self.rests(self.subtract(ceiling, level));
        let taken = wanted.min(room);
        let (clipped, _) = self.period.divide(wanted - taken);
        Charged {
            words: Self::drained(self.add(level, self.span_of_rests(taken)), moment),
            clipped: u64::try_from(clipped).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn refund(&self, words: Words, moment: Moment, units: u64, stamp: u64) -> Words {
        let drained = Span {
            nanos: moment.now.get().saturating_sub(stamp),
            rest: 0,
        };
        let left = self.subtract(self.span(units.min(self.burst)), drained);
        Self::drained(self.subtract(Self::level(words, moment), left), moment)
    }

    pub(super) fn used(&self, words: Words, moment: Moment) -> u64 {
        let rests = self.rests(Self::level(words, moment));
        u64::try_from(rests.div_ceil(self.period.wide())).unwrap_or(u64::MAX)
    }

    pub(super) fn with_used(&self, units: u64, moment: Moment) -> Words {
        Self::drained(self.span(units.min(self.burst)), moment)
    }

    /// Returns this bucket's state after another's.
    ///
    /// What is in use stays in units, up to the capacity of the slower bucket of the two. What is
    /// beyond stays in time, so that it goes away as it would at the faster rate, and going back
    /// finds all of it. Nothing is given away: fractions are rounded up.
    pub(super) fn adopt(&self, from: &Self, words: Words, moment: Moment) -> Words {
        let level = from.rests(Self::level(words, moment));
        let (own, other) = (self.period.wide(), from.period.wide());
        let is_slower = own * from.units.wide() > other * self.units.wide();
        let shared = u128::from(if is_slower { self.burst } else { from.burst });
        let in_units = level.min(shared * other);
        // Whole units and the rest of one apart, so that the products fit.
        let (units, part) = from.period.divide(in_units);
        let kept = units * own + (part * own).div_ceil(other);
        let beyond = ((level - in_units) * self.units.wide()).div_ceil(from.units.wide());
        let ceiling = u128::from(Self::MAX_DRAIN) * self.units.wide();
        let level = self.span_of_rests((kept + beyond).min(ceiling));
        Self::drained(level, moment)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn bucket(text: &str) -> Bucket {
        Bucket::new(text.parse().unwrap(), 0).unwrap()
    }

    #[test]
    fn a_level_of_nineteen_and_a_half_of_twenty_refuses_a_unit() {
        let bucket = bucket("10/s burst 20");
        let full = bucket.with_used(20, Moment::at(0));
        let moment = Moment::at(SECOND / 20);
        assert_eq!(bucket.admit(full, moment, 1), None);
        assert_eq!(
            bucket.wait(full, moment, 1),
            Wait::For(Duration::from_millis(50))
        );
        assert_eq!(bucket.standing(full, moment).remaining, 0);
    }

    #[test]
    fn two_per_five_seconds_wait_two_and_a_half_seconds() {
        let bucket = bucket("2/5s burst 2");
        let full = bucket.with_used(2, Moment::at(0));
        assert_eq!(
            bucket.wait(full, Moment::at(0), 1),
            Wait::For(Duration::from_millis(2_500))
        );
        assert_eq!(bucket.wait(full, Moment::at(0), 3), Wait::Never);
    }

    #[test]
    fn three_per_second_never_drift() {
        let bucket = bucket("3/s burst 1");
        let mut words = [0, 0];
        let mut now = 0;
        for _ in 0..3_000 {
            words = bucket.admit(words, Moment::at(now), 1).unwrap();
            let Wait::For(wait) = bucket.wait(words, Moment::at(now), 1) else {
                panic!("empty")
            };
            let step = u64::try_from(wait.as_nanos()).unwrap();
            assert_eq!(bucket.admit(words, Moment::at(now + step - 1), 1), None);
            now += step;
        }
        // Waiting for whole nanoseconds loses at most one of them a request, and nothing else.
        assert!(
            (1_000 * SECOND..=1_000 * SECOND + 3_000).contains(&now),
            "{now}"
        );
    }

    #[test]
    fn what_cannot_be_exact_is_refused() {
        let too_fine = Quota::new(4_294_967_297, Duration::from_nanos(1));
        assert_eq!(Bucket::new(too_fine, 0), Err(LimitErrorKind::RateTooFine));
        let too_large = Quota::per_day(1).with_burst(u64::MAX);
        assert_eq!(
            Bucket::new(too_large, 0),
            Err(LimitErrorKind::CapacityTooLarge)
        );
        let debt = Bucket::new(Quota::per_day(1), u64::MAX);
        assert_eq!(debt, Err(LimitErrorKind::CapacityTooLarge));
    }

    #[test]
    fn a_refund_returns_only_what_has_not_drained() {
        let bucket = bucket("1/s burst 10");
        let charged = bucket.admit([0, 0], Moment::at(0), 5).unwrap();
        let later = Moment::at(2 * SECOND);
        assert_eq!(bucket.standing(charged, later).remaining, 7);
        let refunded = bucket.refund(charged, later, 5, 0);
        assert_eq!(bucket.standing(refunded, later).remaining, 10);
        // Others spent since: three of five units are given back, two had drained.
        let busy = bucket.admit(charged, later, 7).unwrap();
        let refunded = bucket.refund(busy, later, 5, 0);
        assert_eq!(bucket.standing(refunded, later).remaining, 3);
    }

    #[test]
    fn a_debt_is_bounded_and_the_rest_is_counted() {
        let bucket = bucket("1/s burst 10");
        let charged = bucket.charge([0, 0], Moment::at(0), 25, 10);
        assert_eq!(charged.clipped, 5);
        let standing = bucket.standing(charged.words, Moment::at(0));
        assert_eq!(standing.remaining, 0);
        assert_eq!(
            bucket.wait(charged.words, Moment::at(0), 1),
            Wait::For(Duration::from_secs(11))
        );
    }

    #[test]
    fn a_change_keeps_the_units_in_use() {
        let (small, large) = (bucket("10/s burst 10"), bucket("100/s burst 1000"));
        let moment = Moment::at(7);
        let grown = large.adopt(&small, small.with_used(10, moment), moment);
        assert_eq!(large.standing(grown, moment).remaining, 990);
        let shrunk = small.adopt(&large, large.with_used(9, moment), moment);
        assert_eq!(small.standing(shrunk, moment).remaining, 1);
    }

    #[test]
    fn more_than_fits_drains_at_the_faster_rate_and_is_there_on_the_way_back() {
        let (small, large) = (bucket("10/s burst 10"), bucket("100/s burst 1000"));
        let moment = Moment::at(7);
        let shrunk = small.adopt(&large, large.with_used(500, moment), moment);
        // 490 units at 100 a second, and one at 10 a second.
        let wait = small.wait(shrunk, moment, 1);
        assert_eq!(wait, Wait::For(Duration::from_millis(5_000)));
        let back = large.adopt(&small, shrunk, moment);
        assert_eq!(large.standing(back, moment).remaining, 500);

        let slow = bucket("1/s burst 1000");
        let faster = small.adopt(&slow, slow.with_used(500, moment), moment);
        let wait = small.wait(faster, moment, 1);
        assert_eq!(wait, Wait::For(Duration::from_millis(49_100)));
        let back = slow.adopt(&small, faster, moment);
        assert_eq!(slow.standing(back, moment).remaining, 500);
    }
}
