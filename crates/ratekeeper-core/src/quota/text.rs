//! The text form of a quota, read and printed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Quota, QuotaError, QuotaErrorKind};

/// Names of units of time with their nanoseconds. The first name of each is the printed one.
const UNITS: &[(&[&str], u64)] = &[
    (&["year", "years", "y"], 365 * DAY),
    (&["month", "months"], 30 * DAY),
    (&["week", "weeks", "w"], 7 * DAY),
    (&["day", "days", "d"], DAY),
    (&["h", "hour", "hours", "hr"], 3_600 * SECOND),
    (&["min", "m", "minute", "minutes"], 60 * SECOND),
    (&["s", "sec", "second", "seconds"], SECOND),
    (&["ms"], 1_000_000),
    (&["us", "µs"], 1_000),
    (&["ns"], 1),
];

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Prints the shortest exact form; parsing it gives the same quota.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.units)?;
        let (name, nanos) = UNITS
            .iter()
            .find(|(_, nanos)| self.period.is_multiple_of(*nanos))
            .map_or(("ns", 1), |(names, nanos)| (names[0], *nanos));
        match self.period / nanos {
            1 => f.write_str(name)?,
            count => write!(f, "{count}{name}")?,
        }
        match self.burst {
            Some(burst) => write!(f, " burst {burst}"),
            None => Ok(()),
        }
    }
}

/// Reads `units/period`, optionally followed by `burst n`.
///
/// The period is a unit of time, or a whole number of them: `s`, `5s`, `min`, `2h`, `day`, `week`,
/// `month` (30 days), `year` (365 days), `500ms`, `us`, `ns`; the long names (`second`, `minutes`,
/// `days`) are read as well. White space around the parts is allowed, so is `_` between digits.
impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let fail = |kind| QuotaError::new(text, kind);
        let (units, rest) = text.split_once('/').ok_or(fail(QuotaErrorKind::Syntax))?;
        let mut words = rest.split_ascii_whitespace();
        let mut period = words.next().ok_or(fail(QuotaErrorKind::Syntax))?.to_owned();
        let mut word = words.next();
        // "5 s" is read as "5s".
        if period
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
        {
            period.push_str(word.ok_or(fail(QuotaErrorKind::Syntax))?);
            word = words.next();
        }
        let burst = match word {
            None => None,
            Some("burst") => {
                let burst = words.next().ok_or(fail(QuotaErrorKind::Syntax))?;
                Some(number(burst).map_err(fail)?)
            }
            Some(_) => return Err(fail(QuotaErrorKind::Syntax)),
        };
        if words.next().is_some() {
            return Err(fail(QuotaErrorKind::Syntax));
        }
        let units = number(units.trim()).map_err(fail)?;
        let period = duration(&period).map_err(fail)?;
        let quota = Self::try_new(units, period).map_err(|error| fail(error.kind()))?;
        match burst {
            None => Ok(quota),
            Some(burst) => quota
                .try_with_burst(burst)
                .map_err(|error| fail(error.kind())),
        }
    }
}

fn number(text: &str) -> Result<u64, QuotaErrorKind> {
    let digits = text.as_bytes();
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return Err(QuotaErrorKind::Syntax);
    }
    digits.iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'9' => value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(byte - b'0')))
            .ok_or(QuotaErrorKind::NumberTooLarge),
        b'_' => Ok(value),
        _ => Err(QuotaErrorKind::Syntax),
    })
}

fn duration(text: &str) -> Result<Duration, QuotaErrorKind> {
    let digits = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'_')
        .count();
    let (count, name) = text.split_at(digits);
    let count = if count.is_empty() { 1 } else { number(count)? };
    let (_, nanos) = UNITS
        .iter()
        .find(|(names, _)| names.contains(&name))
        .ok_or(QuotaErrorKind::Syntax)?;
    let nanos = u128::from(count) * u128::from(*nanos);
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| QuotaErrorKind::PeriodTooLong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Quota, QuotaErrorKind> {
        text.parse::<Quota>().map_err(|error| error.kind())
    }

    #[test]
    fn every_form_of_the_documentation_is_read_and_printed() {
        for (text, quota, printed) in [
            ("100/min", Quota::per_minute(100), "100/min"),
            (
                "10/s burst 20",
                Quota::per_second(10).with_burst(20),
                "10/s burst 20",
            ),
            ("10000/day", Quota::per_day(10_000), "10000/day"),
            (
                "1000/month",
                Quota::new(1_000, Duration::from_secs(30 * 86_400)),
                "1000/month",
            ),
            (
                "2/5s burst 2",
                Quota::new(2, Duration::from_secs(5)).with_burst(2),
                "2/5s burst 2",
            ),
            (
                " 1_000 / 5 minutes  burst 7 ",
                Quota::new(1_000, Duration::from_secs(300)).with_burst(7),
                "1000/5min burst 7",
            ),
            (
                "3/500ms",
                Quota::new(3, Duration::from_millis(500)),
                "3/500ms",
            ),
            (
                "1/7days",
                Quota::new(1, Duration::from_secs(7 * 86_400)),
                "1/week",
            ),
            ("1/90s", Quota::new(1, Duration::from_secs(90)), "1/90s"),
        ] {
            assert_eq!(parse(text), Ok(quota), "{text}");
            assert_eq!(quota.to_string(), printed);
        }
    }

    #[test]
    fn what_is_not_a_quota_is_refused_with_its_kind() {
        use QuotaErrorKind::{
            NumberTooLarge, PeriodTooLong, Syntax, ZeroBurst, ZeroPeriod, ZeroUnits,
        };
        for (text, kind) in [
            ("", Syntax),
            ("10", Syntax),
            ("10/", Syntax),
            ("/s", Syntax),
            ("10/fortnight", Syntax),
            ("-1/s", Syntax),
            ("1.5/s", Syntax),
            ("10/s burst", Syntax),
            ("10/s bust 5", Syntax),
            ("10/s burst 5 6", Syntax),
            ("10/5", Syntax),
            ("_1/s", Syntax),
            ("0/s", ZeroUnits),
            ("1/0s", ZeroPeriod),
            ("1/s burst 0", ZeroBurst),
            ("99999999999999999999/s", NumberTooLarge),
            ("1/101years", PeriodTooLong),
            ("1/18446744073709551615years", PeriodTooLong),
        ] {
            assert_eq!(parse(text), Err(kind), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_reading_are_inverse(
            units in 1..=u64::MAX,
            period in 1..=Quota::MAX_PERIOD.as_secs() * SECOND,
            burst in proptest::option::of(1..=u64::MAX),
        ) {
            let quota = Quota::new(units, Duration::from_nanos(period));
            let quota = burst.map_or(quota, |burst| quota.with_burst(burst));
            prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Quota>();
        }
    }
}
