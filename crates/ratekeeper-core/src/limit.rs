//! A named algorithm with its quota, prepared once.

mod error;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::algorithm::{
    Bucket, Calendar, CalendarWindow, Fixed, FixedWindow, SlidingCounter, SlidingLog, UtcOffset,
};
use crate::intern;
use crate::quota::Quota;

pub use self::error::{LimitError, LimitErrorKind};

/// How requests are counted. The README compares them with figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Requests fill a bucket that leaks at the rate; what would overflow is refused.
    LeakyBucket,
    /// Requests take tokens that come back at the rate; a fresh bucket is full.
    TokenBucket,
    /// So many units in a window that starts with the key's first request.
    FixedWindow,
    /// So many units in each minute, hour, day, week, month or year of a calendar.
    CalendarWindow(UtcOffset),
    /// Every request is remembered: never more than the units in any window's length.
    SlidingLog,
    /// Two counters approximate the log in a fixed number of bytes.
    SlidingCounter,
}

impl Algorithm {
    /// Returns the name used in the text form of rules, such as `token-bucket`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::LeakyBucket => "leaky-bucket",
            Self::TokenBucket => "token-bucket",
            Self::FixedWindow => "fixed-window",
            Self::CalendarWindow(_) => "calendar-window",
            Self::SlidingLog => "sliding-log",
            Self::SlidingCounter => "sliding-counter",
        }
    }

    /// Returns whether the algorithm has a burst apart from its rate.
    #[must_use]
    pub fn has_burst(&self) -> bool {
        matches!(self, Self::LeakyBucket | Self::TokenBucket)
    }
}

/// Prints the [name](Algorithm::name); a calendar's offset is not part of it.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the [name](Algorithm::name); a calendar is one of UTC.
impl FromStr for Algorithm {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        Ok(match text {
            "leaky-bucket" => Self::LeakyBucket,
            "token-bucket" => Self::TokenBucket,
            "fixed-window" => Self::FixedWindow,
            "calendar-window" => Self::CalendarWindow(UtcOffset::UTC),
            "sliding-log" => Self::SlidingLog,
            "sliding-counter" => Self::SlidingCounter,
            _ => return Err(LimitError::new(text, LimitErrorKind::UnknownAlgorithm)),
        })
    }
}

/// A name, an algorithm and a quota, checked and prepared; cheap to clone.
///
/// The name stands in header fields, metrics and errors. The counter that a store keeps is named
/// by it too, unless [`with_counter`](Self::with_counter) says otherwise: two limits on one store
/// share their counts only when they name the same counter. Names are kept for the life of the
/// process, so a limit is named after a plan or a purpose; tenants and users are keys.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Limit, Quota};
///
/// let limit = Limit::token_bucket("pages", Quota::per_second(10).with_burst(20))?;
/// assert_eq!(limit.capacity(), 20);
///
/// let error = Limit::sliding_log("coupons", Quota::per_hour(5).with_burst(9)).unwrap_err();
/// assert_eq!(error.to_string(), "invalid limit \"coupons\": sliding-log has no burst, but \"5/h burst 9\" sets one");
/// # Ok::<(), ratekeeper_core::LimitError>(())
/// ```
#[derive(Clone)]
pub struct Limit(Arc<Prepared>);

#[derive(Clone)]
struct Prepared {
    name: Arc<str>,
    algorithm: Algorithm,
    quota: Quota,
    max_debt: u64,
    counter_name: Arc<str>,
    counter: u32,
    generation: u32,
    numbers: Numbers,
}

/// The algorithm with its numbers worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Numbers {
    /// An algorithm whose state is two words.
    #[non_exhaustive]
    Fixed {
        /// The algorithm.
        fixed: Fixed,
        /// Stands for the numbers; equal numbers have equal versions within a process.
        version: u32,
    },
    /// The sliding log.
    Log(SlidingLog),
}

impl Limit {
    /// Creates a limit.
    ///
    /// # Errors
    ///
    /// - [`LimitErrorKind::Name`]: the name is empty, longer than 64 bytes or not printable ASCII;
    /// - [`LimitErrorKind::NoBurst`]: a burst was set for an algorithm that has none;
    /// - [`LimitErrorKind::NoCalendarUnit`]: the period of a calendar window is not a minute, an
    ///   hour, a day, a week, a month (30 days) or a year (365 days);
    /// - [`LimitErrorKind::RateTooFine`], [`CapacityTooLarge`](LimitErrorKind::CapacityTooLarge),
    ///   [`CounterTooLarge`](LimitErrorKind::CounterTooLarge): the quota cannot be counted exactly.
    pub fn new(name: &str, algorithm: Algorithm, quota: Quota) -> Result<Self, LimitError> {
        if !is_name(name) {
            return Err(LimitError::new(name, LimitErrorKind::Name));
        }
        if quota.has_burst() && !algorithm.has_burst() {
            return Err(LimitError::of(
                name,
                algorithm,
                quota,
                LimitErrorKind::NoBurst,
            ));
        }
        let capacity = if algorithm.has_burst() {
            quota.burst()
        } else {
            quota.units()
        };
        let (numbers, max_debt) = match Numbers::new(algorithm, quota, capacity) {
            Ok(numbers) => (numbers, capacity),
            // A limit that is exact only without debt is still a limit.
            Err(_) => match Numbers::new(algorithm, quota, 0) {
                Ok(numbers) => (numbers, 0),
                Err(kind) => return Err(LimitError::of(name, algorithm, quota, kind)),
            },
        };
        let (counter_name, counter) = intern::counter(name);
        let name = Arc::clone(&counter_name);
        Ok(Self(Arc::new(Prepared {
            name,
            algorithm,
            quota,
            max_debt,
            counter_name,
            counter,
            generation: 0,
            numbers,
        })))
    }

    /// Creates a token bucket: it starts full, and tokens come back at the quota's rate.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`].
    pub fn token_bucket(name: &str, quota: Quota) -> Result<Self, LimitError> {
        Self::new(name, Algorithm::TokenBucket, quota)
    }

    /// Creates a leaky bucket as a meter: what would overflow it is refused.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`].
    pub fn leaky_bucket(name: &str, quota: Quota) -> Result<Self, LimitError> {
        Self::new(name, Algorithm::LeakyBucket, quota)
    }

    /// Creates a fixed window that starts with a key's first request.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`].
    pub fn fixed_window(name: &str, quota: Quota) -> Result<Self, LimitError> {
        Self::new(name, Algorithm::FixedWindow, quota)
    }

    /// Creates a window on the calendar, at an offset from UTC; the quota's period names the unit.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::{Limit, algorithm::UtcOffset};
    ///
    /// let contract = Limit::calendar_window("contract", "1000/month".parse().unwrap(), UtcOffset::UTC);
    /// assert!(contract.is_ok());
    /// let odd = Limit::calendar_window("odd", "10/90s".parse().unwrap(), UtcOffset::UTC);
    /// assert!(odd.is_err());
    /// ```
    pub fn calendar_window(
        name: &str,
        quota: Quota,
        offset: UtcOffset,
    ) -> Result<Self, LimitError> {
        Self::new(name, Algorithm::CalendarWindow(offset), quota)
    }

    /// Creates a sliding window log: exact in every interval, at 16 bytes an admitted request.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`].
    pub fn sliding_log(name: &str, quota: Quota) -> Result<Self, LimitError> {
        Self::new(name, Algorithm::SlidingLog, quota)
    }

    /// Creates a sliding window counter.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`].
    pub fn sliding_counter(name: &str, quota: Quota) -> Result<Self, LimitError> {
        Self::new(name, Algorithm::SlidingCounter, quota)
    }

    /// Returns the limit with another bound on debt: the units above the capacity that settling a
    /// request may charge. It is one capacity unless set.
    ///
    /// # Errors
    ///
    /// As [`Limit::new`], when the debt is too large to be counted exactly.
    pub fn with_max_debt(self, units: u64) -> Result<Self, LimitError> {
        let Prepared {
            algorithm, quota, ..
        } = *self.0;
        let numbers = Numbers::new(algorithm, quota, units)
            .map_err(|kind| LimitError::of(&self.0.name, algorithm, quota, kind))?;
        let mut prepared = Arc::unwrap_or_clone(self.0);
        prepared.max_debt = units;
        prepared.numbers = numbers;
        Ok(Self(Arc::new(prepared)))
    }

    /// Returns the limit counting under another name than its own, so that it can share a counter.
    ///
    /// # Errors
    ///
    /// [`LimitErrorKind::Name`] when the name is empty, longer than 64 bytes or not printable ASCII.
    pub fn with_counter(self, counter: &str) -> Result<Self, LimitError> {
        if !is_name(counter) {
            return Err(LimitError::new(counter, LimitErrorKind::Name));
        }
        let mut prepared = Arc::unwrap_or_clone(self.0);
        (prepared.counter_name, prepared.counter) = intern::counter(counter);
        Ok(Self(Arc::new(prepared)))
    }

    /// Returns the limit in another generation than 0, for a change of its numbers that reaches the
    /// nodes of a fleet one after the other.
    ///
    /// A shared store may decide by it whose numbers count where two nodes differ: those of the newer
    /// generation, also for a node that does not have them yet.
    /// [`Memory`](crate::Memory) takes no notice, as there all limits are replaced at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::{Limit, Quota};
    ///
    /// let old = Limit::token_bucket("pages", Quota::per_second(10))?;
    /// let new = Limit::token_bucket("pages", Quota::per_second(5))?.with_generation(1);
    /// assert!(new.generation() > old.generation());
    /// # Ok::<(), ratekeeper_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn with_generation(self, generation: u32) -> Self {
        let mut prepared = Arc::unwrap_or_clone(self.0);
        prepared.generation = generation;
        Self(Arc::new(prepared))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name of the counter that a store keeps for this limit.
    #[must_use]
    pub fn counter(&self) -> &str {
        &self.0.counter_name
    }

    /// Returns the generation of the numbers.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.0.algorithm
    }

    /// Returns the quota.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.0.quota
    }

    /// Returns the largest cost that is ever admitted: a bucket's burst, a window's units.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match &self.0.numbers {
            Numbers::Fixed { fixed, .. } => fixed.capacity(),
            Numbers::Log(log) => log.capacity(),
        }
    }

    /// Returns about how many bytes a key takes in a full [`Memory`](crate::Memory): 48, and for a
    /// sliding log at most an entry of 16 for each unit, which requests of one moment share.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::{Limit, Quota};
    ///
    /// assert_eq!(Limit::token_bucket("pages", Quota::per_second(10))?.bytes_per_key(), 48);
    /// assert_eq!(Limit::sliding_log("coupons", Quota::per_minute(3))?.bytes_per_key(), 48 + 3 * 16);
    /// # Ok::<(), ratekeeper_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn bytes_per_key(&self) -> u64 {
        const ENTRY: u64 = 16;
        match &self.0.numbers {
            Numbers::Fixed { .. } => 48,
            Numbers::Log(log) => log.capacity().saturating_mul(ENTRY).saturating_add(48),
        }
    }

    /// Returns the units above the capacity that settling may charge.
    #[must_use]
    pub fn max_debt(&self) -> u64 {
        self.0.max_debt
    }

    /// Returns the prepared numbers; for those who write stores.
    #[must_use]
    #[inline]
    pub fn numbers(&self) -> &Numbers {
        &self.0.numbers
    }

    /// Returns a number that stands for the counter's name within this process.
    #[must_use]
    #[inline]
    pub fn counter_number(&self) -> u32 {
        self.0.counter
    }
}

impl Numbers {
    fn new(algorithm: Algorithm, quota: Quota, max_debt: u64) -> Result<Self, LimitErrorKind> {
        let fixed = match algorithm {
            Algorithm::LeakyBucket | Algorithm::TokenBucket => {
                Fixed::Bucket(Bucket::new(quota, max_debt)?)
            }
            Algorithm::FixedWindow => Fixed::Window(FixedWindow::new(quota, max_debt)?),
            Algorithm::CalendarWindow(offset) => {
                let calendar =
                    Calendar::of_period(quota.period()).ok_or(LimitErrorKind::NoCalendarUnit)?;
                Fixed::Calendar(CalendarWindow::new(quota, calendar.at(offset), max_debt)?)
            }
            Algorithm::SlidingCounter => Fixed::Counter(SlidingCounter::new(quota, max_debt)?),
            Algorithm::SlidingLog => return SlidingLog::new(quota, max_debt).map(Self::Log),
        };
        Ok(Self::Fixed {
            fixed,
            version: intern::version(fixed),
        })
    }
}

/// Two limits are equal when they count the same way under the same names, in one generation.
impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        let key = |limit: &Self| {
            let Prepared {
                algorithm,
                quota,
                max_debt,
                counter,
                generation,
                ..
            } = *limit.0;
            (algorithm, quota, max_debt, counter, generation)
        };
        key(self) == key(other) && self.0.name == other.0.name
    }
}

impl Eq for Limit {}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limit({self})")
    }
}

/// Prints the name, the algorithm and the quota: `pages: token-bucket 10/s burst 20`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.0.name, self.0.algorithm, self.0.quota)
    }
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
}

/// What applies to a key: a limit, or one of the two ends that need no counting.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Limit, Policy, Quota};
///
/// let policy = Policy::from(Limit::token_bucket("free", Quota::per_minute(60))?);
/// assert_ne!(policy, Policy::DenyAll);
/// # Ok::<(), ratekeeper_core::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Counted.
    Limit(Limit),
    /// Everything is refused, for ever; no store is asked.
    DenyAll,
    /// Nothing is refused; no store is asked.
    Unlimited,
}

impl From<Limit> for Policy {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_refused_value_is_named() {
        for (error, text) in [
            (
                Limit::token_bucket("", Quota::per_second(1)),
                "invalid limit \"\": a name has 1 to 64 printable ASCII characters",
            ),
            (
                Limit::token_bucket("a\nb", Quota::per_second(1)),
                "invalid limit \"a\\nb\": a name has 1 to 64 printable ASCII characters",
            ),
            (
                Limit::new(
                    "x",
                    Algorithm::CalendarWindow(UtcOffset::UTC),
                    Quota::new(1, Duration::from_secs(7)),
                ),
                "invalid limit \"x\": the period of \"calendar-window 1/7s\" is not a minute, hour, day, week, month or year",
            ),
            (
                Limit::token_bucket("x", Quota::new(4_294_967_297, Duration::from_nanos(1))),
                "invalid limit \"x\": the rate of \"token-bucket 4294967297/ns\", reduced, has 2^32 or more units per period",
            ),
            (
                Limit::sliding_counter("x", Quota::per_second(1 << 32)),
                "invalid limit \"x\": the units of \"sliding-counter 4294967296/s\" and its debt reach 2^32",
            ),
        ] {
            assert_eq!(error.unwrap_err().to_string(), text);
        }
        assert_eq!(
            "bucket".parse::<Algorithm>().unwrap_err().to_string(),
            "unknown algorithm \"bucket\""
        );
    }

    #[test]
    fn equal_numbers_share_a_version_and_counters_a_number() {
        let one = Limit::token_bucket("one", Quota::per_second(10)).unwrap();
        let two = Limit::leaky_bucket("two", Quota::per_minute(600).with_burst(10)).unwrap();
        assert_eq!(one.numbers(), two.numbers());
        assert_ne!(one.counter_number(), two.counter_number());
        let shared = two.with_counter("one").unwrap();
        assert_eq!(one.counter_number(), shared.counter_number());
        assert_eq!(shared.name(), "two");
    }

    #[test]
    fn a_generation_changes_neither_numbers_nor_names_but_tells_limits_apart() {
        let old = Limit::token_bucket("x", Quota::per_second(10)).unwrap();
        let new = old.clone().with_generation(7);
        assert_eq!((old.generation(), new.generation()), (0, 7));
        assert_eq!(old.numbers(), new.numbers());
        assert_eq!(old.counter_number(), new.counter_number());
        assert_ne!(old, new);
        assert_eq!(new.clone().with_generation(0), old);
        let debt = new.with_max_debt(3).unwrap().with_counter("y").unwrap();
        assert_eq!(debt.generation(), 7);
    }

    #[test]
    fn algorithm_names_are_read_as_they_are_printed() {
        for algorithm in [
            Algorithm::LeakyBucket,
            Algorithm::TokenBucket,
            Algorithm::FixedWindow,
            Algorithm::CalendarWindow(UtcOffset::UTC),
            Algorithm::SlidingLog,
            Algorithm::SlidingCounter,
        ] {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
    }
}
