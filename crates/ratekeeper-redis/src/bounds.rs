//! The numbers that a limit has on the server, and which limits it can keep exactly.

use ratekeeper_core::{Algorithm, Limit, LimitError};

/// Integers up to here are exact on the server, whose numbers are doubles.
pub(crate) const MAX_EXACT: u64 = (1 << 53) - 1;

/// A bucket's units per period, reduced, stay below this, so that the product of two rests is exact.
const MAX_BUCKET_UNITS: u64 = 1 << 26;

/// Twice a counter's window in microseconds: added to a time before 2112 it stays exact.
const MAX_COUNTER_SPAN: u64 = 1 << 52;

/// Entries of one key's log, of about 15 bytes each.
const MAX_LOG_UNITS: u64 = 1 << 20;

/// A limit as the script knows it: the algorithm's letter, its two numbers and the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) kind: Kind,
    /// Of a bucket the period over the units, reduced; of a window its length; of a calendar its unit.
    pub(crate) period: u64,
    /// Of a bucket the units per period, reduced; of a calendar the seconds east of UTC.
    pub(crate) units: i64,
    pub(crate) capacity: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bucket,
    Window,
    Calendar,
    Counter,
    Log,
}

impl Kind {
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::Bucket => "b",
            Self::Window => "w",
            Self::Calendar => "c",
            Self::Counter => "s",
            Self::Log => "l",
        }
    }

    /// Returns the kind that has this letter.
    pub(crate) fn of_letter(letter: u8) -> Option<Self> {
        [
            Self::Bucket,
            Self::Window,
            Self::Calendar,
            Self::Counter,
            Self::Log,
        ]
        .into_iter()
        .find(|kind| kind.letter().as_bytes() == [letter])
    }
}

impl Numbers {
    /// Works out the numbers of a limit.
    ///
    /// # Errors
    ///
    /// When they are not exact on the server.
    pub(crate) fn of(limit: &Limit) -> Result<Self, LimitError> {
        let quota = limit.quota();
        let refused = |reason: String| Err(LimitError::unsupported(limit, reason));
        let nanos = quota.period().as_nanos();
        let Some(micros) = u64::try_from(nanos / 1000)
            .ok()
            .filter(|_| nanos.is_multiple_of(1000))
        else {
            return refused(format!(
                "the period of {quota} is not a whole number of microseconds, the step of the server's clock"
            ));
        };
        let capacity = limit.capacity();
        if capacity.saturating_add(limit.max_debt()) > MAX_EXACT {
            return refused(format!(
                "the capacity of {quota} and its debt reach 2^53 units, more than the server counts exactly"
            ));
        }
        let numbers = |kind, period, units| Self {
            kind,
            period,
            units,
            capacity,
        };
        match limit.algorithm() {
            Algorithm::LeakyBucket | Algorithm::TokenBucket => {
                let divisor = gcd(quota.units(), micros);
                let units = quota.units() / divisor;
                if units >= MAX_BUCKET_UNITS {
                    return refused(format!(
                        "the rate of {quota}, reduced, has 2^26 or more units per {} us, too fine for the server",
                        micros / divisor
                    ));
                }
                Ok(numbers(Kind::Bucket, micros / divisor, units.cast_signed()))
            }
            Algorithm::FixedWindow => Ok(numbers(Kind::Window, micros, 0)),
            Algorithm::CalendarWindow(offset) => match calendar_unit(micros) {
                Some(unit) => Ok(numbers(Kind::Calendar, unit, offset.seconds().into())),
                None => refused(format!(
                    "the period of {quota} is not a unit of the calendar"
                )),
            },
            Algorithm::SlidingCounter if 2 * micros > MAX_COUNTER_SPAN => refused(format!(
                "two windows of {quota} are longer than 2^52 us (142 years)"
            )),
            Algorithm::SlidingCounter => Ok(numbers(Kind::Counter, micros, 0)),
            Algorithm::SlidingLog if capacity > MAX_LOG_UNITS => refused(format!(
                "{capacity} units need as many entries, but a key's log holds {MAX_LOG_UNITS}"
            )),
            Algorithm::SlidingLog => Ok(numbers(Kind::Log, micros, 0)),
            other => refused(format!("the server's script does not know {other}")),
        }
    }
}

fn calendar_unit(micros: u64) -> Option<u64> {
    match micros / 1_000_000 {
        60 => Some(1),
        3_600 => Some(2),
        86_400 => Some(3),
        604_800 => Some(4),
        2_592_000 => Some(5),
        31_536_000 => Some(6),
        _ => None,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_core::Quota;
    use std::time::Duration;

    #[test]
    fn what_the_server_cannot_count_exactly_is_refused_by_name() {
        let cases = [
            (
                Limit::fixed_window("x", Quota::new(1, Duration::from_nanos(1_500))),
                "the period of 1/1500ns is not a whole number of microseconds, the step of the server's clock",
            ),
            (
                Limit::fixed_window("x", Quota::per_second(1 << 53)),
                "the capacity of 9007199254740992/s and its debt reach 2^53 units, more than the server counts exactly",
            ),
            (
                Limit::token_bucket("x", Quota::per_second(67_108_867)),
                "the rate of 67108867/s, reduced, has 2^26 or more units per 1000000 us, too fine for the server",
            ),
            (
                Limit::sliding_counter("x", Quota::new(1, Duration::from_secs(72 * 366 * 86_400))),
                "two windows of 1/26352day are longer than 2^52 us (142 years)",
            ),
            (
                Limit::sliding_log("x", Quota::per_day(1_048_577)),
                "1048577 units need as many entries, but a key's log holds 1048576",
            ),
        ];
        for (limit, reason) in cases {
            let error = Numbers::of(&limit.unwrap()).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid limit \"x\": {reason}"));
        }
    }

    #[test]
    fn a_unit_that_takes_a_fraction_of_a_microsecond_is_exact() {
        let limit = Limit::token_bucket("x", Quota::new(3, Duration::from_micros(1))).unwrap();
        let numbers = Numbers::of(&limit).unwrap();
        assert_eq!((numbers.period, numbers.units), (1, 3));
    }
}
