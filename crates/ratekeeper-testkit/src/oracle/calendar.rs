//! Calendar windows, found by walking through the days.

/// What one window of a calendar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// From second 0 to second 0.
    Minute,
    /// From minute 0 to minute 0.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the first of the next.
    Year,
}

impl Unit {
    /// Every unit, shortest first.
    pub const ALL: [Self; 6] = [
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
    ];
}

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// 1968 began on a Monday, two years (one of them a leap year) before the Unix epoch.
const FIRST_YEAR: u32 = 1968;
const FIRST_DAY: i128 = -(366 + 365);

/// Returns the start and end, in Unix nanoseconds, of the window that contains `unix` nanoseconds.
///
/// `offset` is how many seconds local time is ahead of UTC: windows begin and end on the local clock. Years from 1968 on.
///
/// # Panics
///
/// Panics before 1968.
#[must_use]
pub fn window(unit: Unit, offset: i32, unix: i128) -> (i128, i128) {
    let offset = i128::from(offset) * SECOND;
    let (start, end) = local_window(unit, unix + offset);
    (start - offset, end - offset)
}

fn local_window(unit: Unit, now: i128) -> (i128, i128) {
    let every = |length: i128| {
        let start = now - now.rem_euclid(length);
        (start, start + length)
    };
    match unit {
        Unit::Minute => every(60 * SECOND),
        Unit::Hour => every(3_600 * SECOND),
        Unit::Day => every(DAY),
        Unit::Week => walk(now, std::iter::repeat(7)),
        Unit::Month => walk(now, (FIRST_YEAR..).flat_map(months)),
        Unit::Year => walk(now, (FIRST_YEAR..).map(|year| months(year).iter().sum())),
    }
}

/// Goes from span to span, each so many days long, until one contains `now`.
fn walk(now: i128, mut spans: impl Iterator<Item = i128>) -> (i128, i128) {
    let mut start = FIRST_DAY * DAY;
    assert!(now >= start, "the calendar of the oracle begins in 1968");
    loop {
        let end = start + DAY * spans.next().expect("there is always another span");
        if now < end {
            return (start, end);
        }
        start = end;
    }
}

/// The days of each month.
fn months(year: u32) -> [i128; 12] {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let february = if leap { 29 } else { 28 };
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

#[cfg(test)]
mod tests {
    use super::{DAY, SECOND, Unit, window};

    /// Unix seconds as `date -u -d … +%s` prints them.
    #[test]
    fn windows_are_those_that_date_prints() {
        let cases: [(Unit, i32, i128, i128, i128); 14] = [
            (Unit::Minute, 0, 0, 0, 60),
            (Unit::Hour, 0, 3_599, 0, 3_600),
            (Unit::Hour, 0, 3_600, 3_600, 7_200),
            // A quarter of an hour ahead by 45 minutes (Nepal): the hour begins at :15 UTC.
            (Unit::Hour, 20_700, 900, 900, 4_500),
            (Unit::Day, 0, 86_399, 0, 86_400),
            // Midnight in Tokyo is 15:00 UTC, midnight in New York (standard time) 05:00 UTC.
            (Unit::Day, 32_400, 0, -32_400, 54_000),
            (Unit::Day, -18_000, 0, -68_400, 18_000),
            // 1970-01-01 was a Thursday.
            (Unit::Week, 0, 0, -259_200, 345_600),
            // 2024-02-29 12:00 lies in a leap month; 2024-02-26 was its Monday.
            (Unit::Week, 0, 1_709_208_000, 1_708_905_600, 1_709_510_400),
            (Unit::Month, 0, 1_709_208_000, 1_706_745_600, 1_709_251_200),
            (Unit::Year, 0, 1_709_208_000, 1_704_067_200, 1_735_689_600),
            // 2026-11-30 23:30 UTC is December two hours further east.
            (Unit::Month, 0, 1_796_081_400, 1_793_491_200, 1_796_083_200),
            (
                Unit::Month,
                7_200,
                1_796_081_400,
                1_796_076_000,
                1_798_754_400,
            ),
            // 2100 is no leap year: February ends after 28 days.
            (Unit::Month, 0, 4_107_456_000, 4_105_123_200, 4_107_542_400),
        ];
        for (unit, offset, now, start, end) in cases {
            let found = window(unit, offset, now * SECOND);
            assert_eq!(
                found,
                (start * SECOND, end * SECOND),
                "{unit:?} {offset} {now}"
            );
        }
    }

    #[test]
    fn windows_touch_and_contain_what_they_were_asked_for() {
        for unit in Unit::ALL {
            for offset in [0, 3_600, -12_600] {
                let mut now = 0;
                while now < 3 * 365 * DAY {
                    let (start, end) = window(unit, offset, now);
                    assert!(start <= now && now < end, "{unit:?} {offset} {now}");
                    assert_eq!(window(unit, offset, end - 1), (start, end));
                    assert_eq!(window(unit, offset, end).0, end);
                    // Prime, so that it wanders through the day.
                    now += 17_389 * SECOND + 1;
                }
            }
        }
    }
}
