//! The forms that logs write times in.

use crate::time::{Stamp, days_of};

/// Returns the number that `text` is, all of it decimal digits, at most 18.
fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |sum: i64, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

fn small(text: &[u8]) -> Option<u32> {
    digits(text).and_then(|number| u32::try_from(number).ok())
}

/// Returns the seconds since the Unix epoch, before the offset is taken off.
///
/// A leap second, `60`, is the first second of the next minute.
fn seconds(year: i64, month: u32, day: u32, time: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else {
        return None;
    };
    let (hour, minute, second) = (
        digits(&[*h1, *h2])?,
        digits(&[*m1, *m2])?,
        digits(&[*s1, *s2])?,
    );
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days_of(year, month, day)? * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Returns the seconds that an offset is ahead of UTC: `Z`, `+0100`, `+01:00` or `+01`.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, hour, minute) = match text {
        [] | b"Z" | b"z" => return Some(0),
        [sign, h1, h2] => (sign, [*h1, *h2], [b'0', b'0']),
        [sign, h1, h2, m1, m2] | [sign, h1, h2, b':', m1, m2] => (sign, [*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let ahead = digits(&hour)? * 3_600 + digits(&minute)? * 60;
    match sign {
        b'+' => Some(ahead),
        b'-' => Some(-ahead),
        _ => None,
    }
}

/// Reads the time of the common format, without its brackets: `07/Mar/2004:16:05:49 -0800`.
///
/// Without an offset it is UTC.
pub(super) fn clf(text: &[u8]) -> Option<Stamp> {
    let (date, rest) = text.split_at_checked(12)?;
    let (time, rest) = rest.split_at_checked(8)?;
    let [d1, d2, b'/', month @ .., b'/', y1, y2, y3, y4, b':'] = date else {
        return None;
    };
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    let local = seconds(year, month_of(month)?, small(&[*d1, *d2])?, time)?;
    let ahead = match rest {
        [] => 0,
        [b' ', rest @ ..] => offset(rest)?,
        _ => return None,
    };
    Stamp::second(local - ahead)
}

fn month_of(name: &[u8]) -> Option<u32> {
    let [a, b, c] = name else { return None };
    match &[
        a.to_ascii_lowercase(),
        b.to_ascii_lowercase(),
        c.to_ascii_lowercase(),
    ] {
        b"jan" => Some(1),
        b"feb" => Some(2),
        b"mar" => Some(3),
        b"apr" => Some(4),
        b"may" => Some(5),
        b"jun" => Some(6),
        b"jul" => Some(7),
        b"aug" => Some(8),
        b"sep" => Some(9),
        b"oct" => Some(10),
        b"nov" => Some(11),
        b"dec" => Some(12),
        _ => None,
    }
}

/// Reads an ISO 8601 time with or without fraction and offset: `2026-11-30T21:51:05.123+01:00`.
pub(super) fn iso(text: &[u8]) -> Option<Stamp> {
    let (date, rest) = text.split_at_checked(11)?;
    let (time, rest) = rest.split_at_checked(8)?;
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T' | b't' | b' ',
    ] = date
    else {
        return None;
    };
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    let local = seconds(year, small(&[*m1, *m2])?, small(&[*d1, *d2])?, time)?;
    if let [b'.' | b',', rest @ ..] = rest {
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, rest) = rest.split_at(length);
        Stamp::fraction(local - offset(rest)?, nanos_of(fraction)?)
    } else {
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        Stamp::second(local - offset(rest)?)
    }
}

/// Returns the nanoseconds of a decimal fraction; digits beyond the ninth are cut off.
fn nanos_of(fraction: &[u8]) -> Option<u32> {
    let kept = &fraction[..fraction.len().min(9)];
    let number = small(kept)?;
    let missing = u32::try_from(9 - kept.len()).ok()?;
    Some(number * 10u32.pow(missing))
}

/// Reads a number of seconds since the Unix epoch, with or without a fraction.
///
/// Whole numbers too large for this century's seconds are milli-, micro- or nanoseconds.
pub(super) fn epoch(text: &[u8]) -> Option<Stamp> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(point) => (&text[..point], Some(&text[point + 1..])),
        None => (text, None),
    };
    if memchr::memchr2(b'e', b'E', text).is_some() {
        return exponent(negative, whole, fraction);
    }
    let number = digits_or_nanos(whole)?;
    // Caddy's `unix_milli_float` has a fraction of a millisecond: the unit comes before the point.
    let unit: i64 = match number {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let part = match fraction {
        Some(fraction) => i64::from(nanos_of(fraction)?) / (1_000_000_000 / unit),
        None => 0,
    };
    let unix = number.checked_mul(unit)?.checked_add(part)?;
    let unix = if negative { -unix } else { unix };
    Some(Stamp {
        unix,
        whole_second: unit == 1_000_000_000 && fraction.is_none(),
    })
}

fn digits_or_nanos(text: &[u8]) -> Option<i64> {
    match text.len() {
        19 => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => digits(text),
    }
}

/// Reads a mantissa and an exponent exactly: `1.6468614015241024e+09`.
fn exponent(negative: bool, whole: &[u8], fraction: Option<&[u8]>) -> Option<Stamp> {
    let last = fraction.unwrap_or(whole);
    let at = memchr::memchr2(b'e', b'E', last)?;
    let (kept, power) = (&last[..at], &last[at + 1..]);
    let (whole, fraction) = if fraction.is_some() {
        (whole, kept)
    } else {
        (kept, &b""[..])
    };
    let power = usize::try_from(digits(power.strip_prefix(b"+").unwrap_or(power))?).ok()?;
    if power > 18 || whole.len() + power > 18 {
        return None;
    }
    // Moves the point to the right by `power` digits.
    let mut plain = Vec::with_capacity(40);
    plain.extend_from_slice(if negative { b"-" } else { b"" });
    plain.extend_from_slice(whole);
    plain.extend((0..power).map(|i| fraction.get(i).copied().unwrap_or(b'0')));
    if let Some(rest @ [_, ..]) = fraction.get(power..) {
        plain.push(b'.');
        plain.extend_from_slice(rest);
    }
    epoch(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(seconds: i64) -> Option<Stamp> {
        Stamp::second(seconds)
    }

    fn part(seconds: i64, nanos: u32) -> Option<Stamp> {
        Stamp::fraction(seconds, nanos)
    }

    #[test]
    fn common_format_times_with_offsets_and_months() {
        assert_eq!(clf(b"07/Mar/2004:16:05:49 -0800"), whole(1_078_704_349));
        assert_eq!(clf(b"08/mar/2004:00:05:49 +0000"), whole(1_078_704_349));
        assert_eq!(clf(b"08/Mar/2004:05:35:49 +0530"), whole(1_078_704_349));
        assert_eq!(clf(b"08/Mar/2004:00:05:49"), whole(1_078_704_349));
        assert_eq!(clf(b"29/Feb/2024:12:00:00 +0000"), whole(1_709_208_000));
        let months = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let days = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut expected = 1_672_531_200;
        for (month, days) in months.into_iter().zip(days) {
            assert_eq!(
                clf(format!("01/{month}/2023:00:00:00 +0000").as_bytes()),
                whole(expected)
            );
            expected += days * 86_400;
        }
    }

    #[test]
    fn a_leap_second_is_the_next_minutes_first() {
        assert_eq!(
            clf(b"31/Dec/2016:23:59:60 +0000"),
            clf(b"01/Jan/2017:00:00:00 +0000")
        );
        assert_eq!(iso(b"2016-12-31T23:59:60Z"), whole(1_483_228_800));
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for odd in [
            "30/Feb/2024:12:00:00 +0000",
            "01/Foo/2024:12:00:00 +0000",
            "01/Jan/2024:24:00:00 +0000",
            "01/Jan/2024:12:60:00 +0000",
            "01/Jan/2024:12:00:61 +0000",
            "01/Jan/2024:12:00:00 0000",
            "01/Jan/2024:12:00:00 +00",
            "1/Jan/2024:12:00:00 +0000",
            "",
            "01/Jan/9999:12:00:00 +0000",
        ] {
            let expected = (odd == "01/Jan/2024:12:00:00 +00")
                .then_some(1_704_110_400)
                .and_then(whole);
            assert_eq!(clf(odd.as_bytes()), expected, "{odd}");
        }
    }

    #[test]
    fn iso_times_with_and_without_fraction_and_offset() {
        assert_eq!(iso(b"2026-11-30T21:51:05+00:00"), whole(1_796_075_465));
        assert_eq!(iso(b"2026-11-30 21:51:05 +0000"), whole(1_796_075_465));
        assert_eq!(
            iso(b"2026-11-30T22:51:05.5+01:00"),
            part(1_796_075_465, 500_000_000)
        );
        assert_eq!(
            iso(b"2026-11-30T21:51:05.123456789Z"),
            part(1_796_075_465, 123_456_789)
        );
        assert_eq!(
            iso(b"2026-11-30T21:51:05,1234567891Z"),
            part(1_796_075_465, 123_456_789)
        );
        for odd in [
            "2026-11-30",
            "2026-11-30T21:51:05.Z",
            "2026-13-30T21:51:05Z",
            "2026-11-30T21:51:05ZZ",
        ] {
            assert_eq!(iso(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn epoch_numbers_in_every_unit() {
        assert_eq!(epoch(b"1646861401"), whole(1_646_861_401));
        assert_eq!(epoch(b"1646861401.524"), part(1_646_861_401, 524_000_000));
        assert_eq!(
            epoch(b"1646861401.5241024"),
            part(1_646_861_401, 524_102_400)
        );
        assert_eq!(epoch(b"1646861401524"), part(1_646_861_401, 524_000_000));
        assert_eq!(
            epoch(b"1646861401524.1024"),
            part(1_646_861_401, 524_102_400)
        );
        assert_eq!(epoch(b"1646861401524102"), part(1_646_861_401, 524_102_000));
        assert_eq!(
            epoch(b"1646861401524102400"),
            part(1_646_861_401, 524_102_400)
        );
        assert_eq!(
            epoch(b"1.6468614015241024e+09"),
            part(1_646_861_401, 524_102_400)
        );
        assert_eq!(epoch(b"1.646861401e9"), whole(1_646_861_401));
        for odd in [
            "",
            "-",
            ".5",
            "12x",
            "1e99",
            "99999999999999999999",
            "1.2.3",
        ] {
            assert_eq!(epoch(odd.as_bytes()), None, "{odd}");
        }
    }
}
