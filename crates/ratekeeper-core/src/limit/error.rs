//! Why a limit was not built.

use std::error::Error;
use std::fmt;

use super::{Algorithm, Limit};
use crate::quota::Quota;

/// Why a limit was not built; names the value that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    name: String,
    detail: String,
    kind: LimitErrorKind,
}

/// What is wrong with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitErrorKind {
    /// A name is empty, longer than 64 bytes or not printable ASCII.
    Name,
    /// The text names no algorithm.
    UnknownAlgorithm,
    /// The algorithm has no burst.
    NoBurst,
    /// The period is not a unit of the calendar.
    NoCalendarUnit,
    /// A bucket's units per period, reduced, reach 2^32.
    RateTooFine,
    /// A bucket, its debt included, would take more than 2^61 ns (73 years) to drain, or a window's
    /// units and debt do not fit 64 bits.
    CapacityTooLarge,
    /// A sliding counter's units and debt reach 2^32.
    CounterTooLarge,
    /// A log's units exceed the entries that the store keeps.
    LogTooLarge,
    /// The store does not support the limit.
    Unsupported,
}

impl LimitError {
    pub(crate) fn new(name: &str, kind: LimitErrorKind) -> Self {
        Self {
            name: name.to_owned(),
            detail: String::new(),
            kind,
        }
    }

    pub(super) fn of(name: &str, algorithm: Algorithm, quota: Quota, kind: LimitErrorKind) -> Self {
        Self {
            name: name.to_owned(),
            detail: format!("{algorithm} {quota}"),
            kind,
        }
    }

    /// Creates the error of a store that cannot keep a limit; `reason` completes the sentence.
    #[must_use]
    pub fn unsupported(limit: &Limit, reason: impl Into<String>) -> Self {
        Self {
            name: limit.name().to_owned(),
            detail: reason.into(),
            kind: LimitErrorKind::Unsupported,
        }
    }

    /// Creates the error of a plan whose rule names no algorithm to count it with.
    #[must_use]
    pub fn no_algorithm(name: &str) -> Self {
        let detail = "a plan with a quota needs a rule with an algorithm".to_owned();
        Self {
            name: name.to_owned(),
            detail,
            kind: LimitErrorKind::Unsupported,
        }
    }

    pub(crate) fn log_too_large(limit: &Limit, entries: usize) -> Self {
        let detail = format!(
            "{} units need as many entries, but the store keeps {entries}",
            limit.capacity()
        );
        Self {
            name: limit.name().to_owned(),
            detail,
            kind: LimitErrorKind::LogTooLarge,
        }
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> LimitErrorKind {
        self.kind
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, detail, kind } = self;
        if *kind == LimitErrorKind::UnknownAlgorithm {
            return write!(f, "unknown algorithm {name:?}");
        }
        write!(f, "invalid limit {name:?}: ")?;
        match kind {
            LimitErrorKind::Name => f.write_str("a name has 1 to 64 printable ASCII characters"),
            LimitErrorKind::NoBurst => {
                let (algorithm, quota) = detail.split_once(' ').unwrap_or((detail, ""));
                write!(f, "{algorithm} has no burst, but {quota:?} sets one")
            }
            LimitErrorKind::NoCalendarUnit => {
                write!(
                    f,
                    "the period of {detail:?} is not a minute, hour, day, week, month or year"
                )
            }
            LimitErrorKind::RateTooFine => write!(
                f,
                "the rate of {detail:?}, reduced, has 2^32 or more units per period"
            ),
            LimitErrorKind::CapacityTooLarge => write!(
                f,
                "the capacity of {detail:?} and its debt take more than 2^61 ns to drain or 64 bits to count"
            ),
            LimitErrorKind::CounterTooLarge => {
                write!(f, "the units of {detail:?} and its debt reach 2^32")
            }
            LimitErrorKind::LogTooLarge
            | LimitErrorKind::Unsupported
            | LimitErrorKind::UnknownAlgorithm => f.write_str(detail),
        }
    }
}

impl Error for LimitError {}
