//! The fixed window that follows the calendar: quotas per day or month as contracts name them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::fixed_window::{count_fits, overdraw};
use super::{Charged, Moment, Words, next_unit};
use crate::decision::{Standing, Wait};
use crate::limit::LimitErrorKind;
use crate::quota::Quota;

const SECOND: u64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A calendar's unit, in UTC or at a fixed distance from it.
///
/// A week begins on Monday. There is no daylight saving time: a fixed offset is what a contract can
/// be held to.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::algorithm::Calendar;
/// use std::time::Duration;
///
/// // 2024-02-29T12:00:00Z lies in a month that ends 24 hours after the 29th began.
/// let (start, end) = Calendar::MONTH.window(Duration::from_secs(1_709_208_000));
/// assert_eq!(start.as_secs(), 1_706_745_600); // 2024-02-01T00:00:00Z
/// assert_eq!(end.as_secs(), 1_709_251_200); // 2024-03-01T00:00:00Z
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    unit: CalendarUnit,
    /// Seconds east of UTC.
    offset: i32,
}

/// The units of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// 60 s.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// Seven days from Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl Calendar {
    /// Minutes of UTC.
    pub const MINUTE: Self = Self {
        unit: CalendarUnit::Minute,
        offset: 0,
    };
    /// Hours of UTC.
    pub const HOUR: Self = Self {
        unit: CalendarUnit::Hour,
        offset: 0,
    };
    /// Days of UTC.
    pub const DAY: Self = Self {
        unit: CalendarUnit::Day,
        offset: 0,
    };
    /// Weeks of UTC, from Monday.
    pub const WEEK: Self = Self {
        unit: CalendarUnit::Week,
        offset: 0,
    };
    /// Months of UTC.
    pub const MONTH: Self = Self {
        unit: CalendarUnit::Month,
        offset: 0,
    };
    /// Years of UTC.
    pub const YEAR: Self = Self {
        unit: CalendarUnit::Year,
        offset: 0,
    };

    /// Returns the calendar for a place this far east of UTC.
    #[must_use]
    pub const fn at(self, offset: UtcOffset) -> Self {
        Self {
            unit: self.unit,
            offset: offset.0,
        }
    }

    /// Returns the unit.
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the distance from UTC.
    #[must_use]
    pub const fn offset(&self) -> UtcOffset {
        UtcOffset(self.offset)
    }

    /// Returns the calendar whose unit lasts as long as the quota's period: a month is 30 days, a
    /// year 365.
    pub(crate) fn of_period(period: Duration) -> Option<Self> {
        if period.subsec_nanos() != 0 {
            return None;
        }
        match period.as_secs() {
            60 => Some(Self::MINUTE),
            3_600 => Some(Self::HOUR),
            86_400 => Some(Self::DAY),
            604_800 => Some(Self::WEEK),
            2_592_000 => Some(Self::MONTH),
            31_536_000 => Some(Self::YEAR),
            _ => None,
        }
    }

    /// Returns the start and the end of the window that contains a time, all as times since the
    /// Unix epoch. A window that began before the epoch starts at it.
    #[must_use]
    pub fn window(&self, since_epoch: Duration) -> (Duration, Duration) {
        let (start, end) = self.window_nanos(crate::clock::nanos(since_epoch));
        (Duration::from_nanos(start), Duration::from_nanos(end))
    }

    #[expect(
        clippy::cast_sign_loss,
        reason = "an end lies after the epoch, and a start is cut at it"
    )]
    #[expect(
        clippy::cast_possible_wrap,
        reason = "seconds of 64-bit nanoseconds fit 35 bits"
    )]
    fn window_nanos(&self, unix: u64) -> (u64, u64) {
        let local = (unix / SECOND) as i64 + i64::from(self.offset);
        let even = |length: i64, phase: i64| {
            let start = (local + phase).div_euclid(length) * length - phase;
            (start, start + length)
        };
        let (start, end) = match self.unit {
            CalendarUnit::Minute => even(60, 0),
            CalendarUnit::Hour => even(3_600, 0),
            CalendarUnit::Day => even(DAY, 0),
            // The epoch was a Thursday.
            CalendarUnit::Week => even(7 * DAY, 3 * DAY),
            CalendarUnit::Month => {
                let (year, month) = year_and_month(local.div_euclid(DAY));
                let next = if month == 12 {
                    (year + 1, 1)
                } else {
                    (year, month + 1)
                };
                (first_of(year, month) * DAY, first_of(next.0, next.1) * DAY)
            }
            CalendarUnit::Year => {
                let (year, _) = year_and_month(local.div_euclid(DAY));
                (first_of(year, 1) * DAY, first_of(year + 1, 1) * DAY)
            }
        };
        let unix_nanos =
            |local: i64| ((local - i64::from(self.offset)).max(0) as u64).saturating_mul(SECOND);
        (unix_nanos(start), unix_nanos(end))
    }
}

/// Days in which the Gregorian calendar repeats: 400 years.
const CYCLE: i64 = 146_097;

/// Returns the day on which a month begins, counted from the epoch.
///
/// Years are counted from March, so that the leap day is the last of its year.
fn first_of(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
    let days = 365 * year + year / 4 - year / 100 + (153 * month + 2) / 5;
    cycle * CYCLE + days - 719_468
}

/// Returns the year and the month (1 to 12) that a day counted from the epoch lies in.
fn year_and_month(day: i64) -> (i64, i64) {
    let mut year = 1970 + day.div_euclid(366);
    while first_of(year + 1, 1) <= day {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && first_of(year, month + 1) <= day {
        month += 1;
    }
    (year, month)
}

/// A fixed distance from UTC of up to 18 hours, printed and read as `Z`, `+02:00` or `-05:30`.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::algorithm::UtcOffset;
///
/// let berlin: UtcOffset = "+01:00".parse().unwrap();
/// assert_eq!(berlin.seconds(), 3_600);
/// assert!("+25:00".parse::<UtcOffset>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UtcOffset(i32);

impl UtcOffset {
    /// UTC itself.
    pub const UTC: Self = Self(0);

    /// Returns the offset of this many minutes east of UTC, or `None` beyond 18 hours.
    #[must_use]
    pub const fn from_minutes(minutes: i32) -> Option<Self> {
        if minutes.abs() > 18 * 60 {
            None
        } else {
            Some(Self(minutes * 60))
        }
    }

    /// Returns the seconds east of UTC.
    #[must_use]
    pub const fn seconds(&self) -> i32 {
        self.0
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.0.abs() / 60;
        match self.0 {
            0 => f.write_str("Z"),
            _ => write!(
                f,
                "{}{:02}:{:02}",
                if self.0 < 0 { '-' } else { '+' },
                minutes / 60,
                minutes % 60
            ),
        }
    }
}

impl FromStr for UtcOffset {
    type Err = UtcOffsetError;

    fn from_str(text: &str) -> Result<Self, UtcOffsetError> {
        let fail = || UtcOffsetError(text.to_owned());
        if matches!(text, "Z" | "UTC") {
            return Ok(Self::UTC);
        }
        let (sign, rest) = match text.as_bytes().first() {
            Some(b'+') => (1, &text[1..]),
            Some(b'-') => (-1, &text[1..]),
            _ => return Err(fail()),
        };
        let (hours, minutes) = rest.split_once(':').ok_or_else(fail)?;
        let number = |text: &str| {
            let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            if digits {
                text.parse::<i32>().ok()
            } else {
                None
            }
        };
        let (hours, minutes) = number(hours).zip(number(minutes)).ok_or_else(fail)?;
        if minutes > 59 {
            return Err(fail());
        }
        Self::from_minutes(sign * (hours * 60 + minutes)).ok_or_else(fail)
    }
}

/// Why a text is not an offset from UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UtcOffsetError(String);

impl fmt::Display for UtcOffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid offset {:?}: expected \"Z\" or a form like \"+02:00\", up to 18 hours",
            self.0
        )
    }
}

impl std::error::Error for UtcOffsetError {}

/// A fixed window on the calendar with the numbers of one limit.
///
/// Time is the calendar's, which may step. The window of a step back of up to a second is the one
/// that stood; a longer step back keeps the units and moves them into the window of the new time.
/// State: the start of the window since the epoch, the units charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CalendarWindow {
    units: u64,
    calendar: Calendar,
}

/// The window of a moment: where it starts and ends, and what was charged in it.
struct Standings {
    start: u64,
    end: u64,
    count: u64,
    /// The time that the decision is taken at.
    now: u64,
}

impl CalendarWindow {
    pub(crate) fn new(
        quota: Quota,
        calendar: Calendar,
        max_debt: u64,
    ) -> Result<Self, LimitErrorKind> {
        count_fits(quota.units(), max_debt)?;
        Ok(Self {
            units: quota.units(),
            calendar,
        })
    }

    pub(super) fn capacity(&self) -> u64 {
        self.units
    }

    pub(super) fn same_calendar(&self, other: &Self) -> bool {
        self.calendar == other.calendar
    }

    pub(super) fn rebase(&self, [start, count]: Words, moment: Moment) -> Option<Words> {
        let stepped_back = count > 0 && start > moment.unix && start - moment.unix > SECOND;
        stepped_back.then(|| [self.calendar.window_nanos(moment.unix).0, count])
    }

    fn stand(&self, [start, count]: Words, moment: Moment) -> Standings {
        let slightly_back = start > moment.unix && start - moment.unix <= SECOND;
        let now = if slightly_back { start } else { moment.unix };
        let (window, end) = self.calendar.window_nanos(now);
        let count = if start >= window { count } else { 0 };
        Standings {
            start: window,
            end,
            count,
            now,
        }
    }

    pub(super) fn admit(&self, words: Words, moment: Moment, cost: u64) -> Option<Words> {
        if cost == 0 {
            return Some(words);
        }
        let stand = self.stand(words, moment);
        (cost <= self.units.saturating_sub(stand.count)).then(|| [stand.start, stand.count + cost])
    }

    pub(super) fn wait(&self, words: Words, moment: Moment, cost: u64) -> Wait {
        if cost > self.units {
            return Wait::Never;
        }
        let stand = self.stand(words, moment);
        if cost == 0 || cost <= self.units.saturating_sub(stand.count) {
            return Wait::None;
        }
        Wait::For(Duration::from_nanos(stand.end - moment.unix.min(stand.now)))
    }

    pub(super) fn standing(&self, words: Words, moment: Moment) -> Standing {
        let stand = self.stand(words, moment);
        let remaining = self.units.saturating_sub(stand.count);
        let reset = if stand.count == 0 {
            0
        } else {
            stand.end - moment.unix.min(stand.now)
        };
        Standing {
            remaining,
            next: next_unit(remaining, self.units, |cost| self.wait(words, moment, cost)),
            reset,
        }
    }

    pub(super) fn fresh_at(&self, [start, count]: Words) -> u64 {
        if count == 0 {
            0
        } else {
            self.calendar.window_nanos(start).1
        }
    }

    pub(super) fn charge(
        &self,
        words: Words,
        moment: Moment,
        units: u64,
        max_debt: u64,
    ) -> Charged {
        let stand = self.stand(words, moment);
        let (count, clipped) = overdraw(stand.count, units, self.units.saturating_add(max_debt));
        Charged {
            words: [stand.start, count],
            clipped,
        }
    }

    pub(super) fn refund(&self, words: Words, moment: Moment, units: u64, stamp: u64) -> Words {
        let stand = self.stand(words, moment);
        if stand.count > 0 && words[0] == stamp {
            [words[0], stand.count.saturating_sub(units)]
        } else {
            words
        }
    }

    pub(super) fn used(&self, words: Words, moment: Moment) -> u64 {
        self.stand(words, moment).count
    }

    pub(super) fn with_used(&self, units: u64, moment: Moment) -> Words {
        [
            self.calendar.window_nanos(moment.unix).0,
            units.min(self.units),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_and_years_are_found_for_every_day_of_eight_centuries() {
        let (mut year, mut month, mut day_of_month) = (1970, 1, 1);
        for day in 0..2 * CYCLE {
            assert_eq!(year_and_month(day), (year, month), "day {day}");
            assert_eq!(first_of(year, month), day + 1 - day_of_month);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day_of_month += 1;
            if day_of_month > length {
                (month, day_of_month) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn a_day_at_an_offset_ends_at_midnight_there() {
        let tokyo = Calendar::DAY.at("+09:00".parse().unwrap());
        let noon_utc = Duration::from_secs(1_700_049_600); // 2023-11-15T12:00:00Z
        let (start, end) = tokyo.window(noon_utc);
        assert_eq!(start.as_secs(), 1_699_974_000); // 2023-11-14T15:00:00Z
        assert_eq!(end - start, Duration::from_secs(86_400));
    }

    #[test]
    fn weeks_begin_on_monday() {
        let (start, end) = Calendar::WEEK.window(Duration::from_secs(1_700_049_600)); // a Wednesday
        assert_eq!(start.as_secs(), 1_699_833_600); // Monday, 2023-11-13T00:00:00Z
        assert_eq!(end - start, Duration::from_secs(7 * 86_400));
    }

    #[test]
    fn a_clock_that_steps_back_neither_frees_nor_freezes() {
        let daily = CalendarWindow::new(Quota::per_day(5), Calendar::DAY, 0).unwrap();
        let at = |seconds: u64| Moment {
            now: crate::Nanos::ZERO,
            unix: seconds * SECOND,
        };
        let midnight = 86_400;
        let words = daily.admit([0, 0], at(midnight), 5).unwrap();
        // Half a second back, into yesterday: the window that stood goes on.
        let back = Moment {
            unix: midnight * SECOND - SECOND / 2,
            ..at(0)
        };
        assert_eq!(daily.admit(words, back, 1), None);
        assert_eq!(
            daily.wait(words, back, 1),
            Wait::For(Duration::from_millis(86_400_500))
        );
        // A whole day back: the units moved there, and that day ends as it should.
        assert_eq!(daily.admit(words, at(100), 1), None);
        let words = daily.rebase(words, at(100)).unwrap();
        assert_eq!(daily.rebase(words, at(100)), None);
        assert!(daily.admit(words, at(midnight), 5).is_some());
        assert_eq!(
            daily.wait(words, at(100), 1),
            Wait::For(Duration::from_secs(86_300))
        );
    }

    #[test]
    fn offsets_are_printed_as_they_are_read() {
        for text in ["Z", "+02:00", "-05:30", "+18:00"] {
            assert_eq!(text.parse::<UtcOffset>().unwrap().to_string(), text);
        }
        for text in ["", "2", "+2:00", "+02:60", "+18:01", "02:00", "+0200"] {
            assert!(text.parse::<UtcOffset>().is_err(), "{text}");
        }
    }
}
