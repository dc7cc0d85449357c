//! Whole numbers as values of fields.

use http::HeaderValue;

/// The largest number whose digits are prepared: the seconds of an hour, and more bytes than a
/// refusal's body has.
const MOST: usize = 3_600;

/// The digits of a prepared number, with zeros in front.
const DIGITS: usize = 4;

const BYTES: [u8; (MOST + 1) * DIGITS] = {
    let mut bytes = [b'0'; (MOST + 1) * DIGITS];
    let mut number = 0;
    while number <= MOST {
        let mut rest = number;
        let mut place = (number + 1) * DIGITS;
        while rest > 0 {
            place -= 1;
            bytes[place] = b"0123456789"[rest % 10];
            rest /= 10;
        }
        number += 1;
    }
    bytes
};

static TEXT: &str = match str::from_utf8(&BYTES) {
    Ok(text) => text,
    Err(_) => panic!("digits are text"),
};

/// Returns a number as a field's value. Those of usual waits and lengths cost neither an
/// allocation nor a count that all threads change.
pub(crate) fn number(number: u64) -> HeaderValue {
    let prepared = usize::try_from(number)
        .ok()
        .filter(|number| *number <= MOST);
    match prepared {
        Some(number) => {
            let zeros = DIGITS - 1 - number.checked_ilog10().unwrap_or(0) as usize;
            let start = number * DIGITS;
            HeaderValue::from_static(&TEXT[start + zeros..start + DIGITS])
        }
        None => HeaderValue::from(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_or_not_a_number_is_written_in_decimal() {
        for value in (0..=4_000).chain([9_999, 86_400, u64::MAX]) {
            assert_eq!(number(value), value.to_string());
        }
        assert_eq!(allocations_of(u64::try_from(MOST).unwrap()), 0);
    }

    fn allocations_of(value: u64) -> u64 {
        allocation_counter::measure(|| drop(number(value))).count_total
    }
}
