//! How much of something per how much time.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::clock::nanos;

mod text;

/// So many units per period and, for algorithms that have one, a burst.
///
/// `Quota::per_second(50)` is fifty a second. The text form reads the same way: `100/min`,
/// `10/s burst 20`, `10000/day`, `1000/month`, `2/5s burst 2`; see [`Quota`'s `FromStr`](#impl-FromStr-for-Quota).
/// With the feature `serde` a quota is (de)serialized as that text.
///
/// The **burst** is the capacity of a bucket: what a client that has been away may spend at once
/// before it is held to the rate. In any interval W at most `burst + rate · W` is admitted. It is
/// one period's units unless set. Windows and logs have no burst.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::Quota;
/// use std::time::Duration;
///
/// let pages = Quota::per_second(10).with_burst(20);
/// assert_eq!(pages.to_string(), "10/s burst 20");
/// assert_eq!("10/s burst 20".parse(), Ok(pages));
///
/// let reports = Quota::new(2, Duration::from_secs(5));
/// assert_eq!(reports.to_string(), "2/5s");
/// assert_eq!(reports.burst(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    units: u64,
    /// In nanoseconds.
    period: u64,
    /// `None` is one period's units.
    burst: Option<u64>,
}

impl Quota {
    /// The longest period: 36,525 days, about a hundred years.
    pub const MAX_PERIOD: Duration = Duration::from_secs(36_525 * 86_400);

    /// Creates a quota of `units` per `period`.
    ///
    /// # Panics
    ///
    /// When the units or the period are zero, or the period is longer than [`Quota::MAX_PERIOD`].
    /// [`Quota::try_new`] returns an error instead.
    #[must_use]
    pub const fn new(units: u64, period: Duration) -> Self {
        assert!(
            units > 0,
            "a quota needs at least one unit; `Policy::DenyAll` refuses everything"
        );
        assert!(!period.is_zero(), "the period must be longer than zero");
        assert!(
            period.as_nanos() <= Self::MAX_PERIOD.as_nanos(),
            "the period must not be longer than 36525 days"
        );
        let nanos = period.as_secs() * 1_000_000_000 + period.subsec_nanos() as u64;
        Self {
            units,
            period: nanos,
            burst: None,
        }
    }

    /// Creates a quota of `units` per `period`.
    ///
    /// # Errors
    ///
    /// - [`QuotaErrorKind::ZeroUnits`] when `units` is zero;
    /// - [`QuotaErrorKind::ZeroPeriod`] when the period is zero;
    /// - [`QuotaErrorKind::PeriodTooLong`] when it is longer than [`Quota::MAX_PERIOD`].
    pub fn try_new(units: u64, period: Duration) -> Result<Self, QuotaError> {
        let quota = Self {
            units,
            period: nanos(period),
            burst: None,
        };
        let kind = if units == 0 {
            QuotaErrorKind::ZeroUnits
        } else if period.is_zero() {
            QuotaErrorKind::ZeroPeriod
        } else if period > Self::MAX_PERIOD {
            QuotaErrorKind::PeriodTooLong
        } else {
            return Ok(quota);
        };
        Err(QuotaError::new(format!("{units} per {period:?}"), kind))
    }

    /// Creates a quota of `units` per second.
    ///
    /// # Panics
    ///
    /// When `units` is zero.
    #[must_use]
    pub const fn per_second(units: u64) -> Self {
        Self::new(units, Duration::from_secs(1))
    }

    /// Creates a quota of `units` per minute.
    ///
    /// # Panics
    ///
    /// When `units` is zero.
    #[must_use]
    pub const fn per_minute(units: u64) -> Self {
        Self::new(units, Duration::from_secs(60))
    }

    /// Creates a quota of `units` per hour.
    ///
    /// # Panics
    ///
    /// When `units` is zero.
    #[must_use]
    pub const fn per_hour(units: u64) -> Self {
        Self::new(units, Duration::from_secs(3_600))
    }

    /// Creates a quota of `units` per day of 24 hours.
    ///
    /// # Panics
    ///
    /// When `units` is zero.
    #[must_use]
    pub const fn per_day(units: u64) -> Self {
        Self::new(units, Duration::from_secs(86_400))
    }

    /// Returns the quota with this burst: the capacity of a bucket, in units.
    ///
    /// # Panics
    ///
    /// When `burst` is zero: nothing would ever be admitted. [`Quota::try_with_burst`] returns an
    /// error instead.
    #[must_use]
    pub const fn with_burst(self, burst: u64) -> Self {
        assert!(burst > 0, "the burst must be at least one unit");
        Self {
            burst: Some(burst),
            ..self
        }
    }

    /// Returns the quota with this burst: the capacity of a bucket, in units.
    ///
    /// # Errors
    ///
    /// [`QuotaErrorKind::ZeroBurst`] when `burst` is zero: nothing would ever be admitted.
    pub fn try_with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        if burst == 0 {
            return Err(QuotaError::new(
                format!("{self} burst 0"),
                QuotaErrorKind::ZeroBurst,
            ));
        }
        Ok(Self {
            burst: Some(burst),
            ..self
        })
    }

    /// Returns the units per period.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Returns the burst, which is one period's units unless set.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        match self.burst {
            Some(burst) => burst,
            None => self.units,
        }
    }

    /// Returns whether a burst was set, even to one period's units.
    #[must_use]
    pub const fn has_burst(&self) -> bool {
        self.burst.is_some()
    }

    pub(crate) const fn period_nanos(&self) -> u64 {
        self.period
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Quota {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Quota {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a quota was not built; names the value that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError {
    input: String,
    kind: QuotaErrorKind,
}

/// What is wrong with a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaErrorKind {
    /// The text does not have the form `units/period [burst n]`.
    Syntax,
    /// A number does not fit 64 bits.
    NumberTooLarge,
    /// The quota has no units. Refusing everything is `Policy::DenyAll`.
    ZeroUnits,
    /// The period is zero.
    ZeroPeriod,
    /// The period is longer than [`Quota::MAX_PERIOD`].
    PeriodTooLong,
    /// The burst is zero.
    ZeroBurst,
}

impl QuotaError {
    fn new(input: impl Into<String>, kind: QuotaErrorKind) -> Self {
        Self {
            input: input.into(),
            kind,
        }
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> QuotaErrorKind {
        self.kind
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.kind {
            QuotaErrorKind::Syntax => "expected a form like \"100/min\" or \"10/s burst 20\"",
            QuotaErrorKind::NumberTooLarge => "a number does not fit 64 bits",
            QuotaErrorKind::ZeroUnits => {
                "the units must be at least one (a policy of \"deny\" refuses everything)"
            }
            QuotaErrorKind::ZeroPeriod => "the period must be longer than zero",
            QuotaErrorKind::PeriodTooLong => "the period must not be longer than 36525 days",
            QuotaErrorKind::ZeroBurst => "the burst must be at least one",
        };
        write!(f, "invalid quota {:?}: {reason}", self.input)
    }
}

impl Error for QuotaError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_value_and_the_reason() {
        let error = "10/0s".parse::<Quota>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid quota \"10/0s\": the period must be longer than zero"
        );
        let error = Quota::try_new(5, Duration::from_secs(u64::MAX)).unwrap_err();
        assert_eq!(error.kind(), QuotaErrorKind::PeriodTooLong);
        assert_eq!(
            Quota::try_new(0, Duration::from_secs(1))
                .unwrap_err()
                .kind(),
            QuotaErrorKind::ZeroUnits
        );
        assert_eq!(
            Quota::try_new(1, Duration::ZERO).unwrap_err().kind(),
            QuotaErrorKind::ZeroPeriod
        );
        assert_eq!(
            Quota::per_second(1).try_with_burst(0).unwrap_err().kind(),
            QuotaErrorKind::ZeroBurst
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_uses_the_text_form() {
        let quota = Quota::per_minute(100).with_burst(5);
        let text = serde_json::to_string(&quota).unwrap();
        assert_eq!(text, "\"100/min burst 5\"");
        assert_eq!(serde_json::from_str::<Quota>(&text).unwrap(), quota);
        let error = serde_json::from_str::<Quota>("\"10/0s\"").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the period must be longer than zero")
        );
    }
}
