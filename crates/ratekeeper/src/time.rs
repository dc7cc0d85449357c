//! Calendar arithmetic for log stamps: to and from nanoseconds since the Unix epoch, in UTC.

use std::fmt;

/// Nanoseconds of one second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// When a request was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since the Unix epoch, negative before it.
    pub unix: i64,
    /// The log gives whole seconds only, so the request came at some moment within this one.
    pub whole_second: bool,
}

impl Stamp {
    /// Returns the stamp of a whole second, or nothing when it lies outside the years 1678 to 2262.
    #[must_use]
    pub fn second(seconds: i64) -> Option<Self> {
        Some(Self {
            unix: seconds.checked_mul(SECOND)?,
            whole_second: true,
        })
    }

    /// Returns the stamp of a second and a fraction of it in nanoseconds.
    #[must_use]
    pub fn fraction(seconds: i64, nanos: u32) -> Option<Self> {
        let unix = seconds.checked_mul(SECOND)?.checked_add(i64::from(nanos))?;
        Some(Self {
            unix,
            whole_second: false,
        })
    }
}

/// Returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar, or nothing for a
/// date that does not exist.
pub(crate) fn days_of(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 || day > days_in(year, month) {
        return None;
    }
    // The year starts in March here, so that the leap day is its last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns year, month and day of a number of days since 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Prints nanoseconds since the Unix epoch as `2004-03-08T00:05:49Z`, with milliseconds if there are any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utc(pub(crate) i64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(SECOND);
        let millis = self.0.rem_euclid(SECOND) / 1_000_000;
        let (year, month, day) = date_of(seconds.div_euclid(86_400));
        let time = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if millis != 0 {
            write!(f, ".{millis:03}")?;
        }
        f.write_str("Z")
    }
}

/// Prints nanoseconds as a short span: `250ms`, `12.5s`, `3m 20s`, `2h 5m`, `4d 1h`; never rounded down to zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0;
        let seconds = nanos / 1_000_000_000;
        let two = |f: &mut fmt::Formatter<'_>, large: u64, unit: &str, small: u64, rest: &str| {
            if small == 0 {
                write!(f, "{large}{unit}")
            } else {
                write!(f, "{large}{unit} {small}{rest}")
            }
        };
        match seconds {
            0 if nanos == 0 => f.write_str("0s"),
            0 => write!(f, "{}ms", nanos.div_ceil(1_000_000)),
            1..60 => {
                let tenths = nanos % 1_000_000_000 / 100_000_000;
                if tenths == 0 {
                    write!(f, "{seconds}s")
                } else {
                    write!(f, "{seconds}.{tenths}s")
                }
            }
            60..3_600 => two(f, seconds / 60, "m", seconds % 60, "s"),
            3_600..86_400 => two(f, seconds / 3_600, "h", seconds / 60 % 60, "m"),
            _ => two(f, seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_converts_both_ways() {
        let mut expected = days_of(1600, 1, 1).unwrap();
        for year in 1600..2400 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    assert_eq!(days_of(year, month, day), Some(expected));
                    assert_eq!(date_of(expected), (year, i64::from(month), i64::from(day)));
                    expected += 1;
                }
            }
        }
        assert_eq!(days_of(1970, 1, 1), Some(0));
        assert_eq!(days_of(2023, 2, 29), None);
        assert_eq!(days_of(2024, 13, 1), None);
    }

    #[test]
    fn times_print_in_utc() {
        assert_eq!(
            Utc(1_078_704_349 * SECOND).to_string(),
            "2004-03-08T00:05:49Z"
        );
        assert_eq!(Utc(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn spans_print_short_and_never_as_nothing() {
        let shown = |nanos| Span(nanos).to_string();
        assert_eq!(shown(1), "1ms");
        assert_eq!(shown(12_500_000_000), "12.5s");
        assert_eq!(shown(200_000_000_000), "3m 20s");
        assert_eq!(shown(7_500_000_000_000), "2h 5m");
        assert_eq!(shown(86_400_000_000_000), "1d");
    }
}
