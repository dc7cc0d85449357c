//! Digits, quoted strings and base64, written without formatting machinery: every response pays for these.

/// The largest Integer a structured field can carry: fifteen digits.
const MAX_INTEGER: u64 = 999_999_999_999_999;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Whether base64 text is filled up with `=` to a multiple of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    Padded,
    Unpadded,
}

/// Appends `number` in decimal, saturated at what a structured field can carry.
pub(crate) fn push_integer(text: &mut Vec<u8>, number: u64) {
    let mut rest = number.min(MAX_INTEGER);
    let mut digits = [0_u8; 15];
    let mut start = digits.len();
    loop {
        start -= 1;
        let digit = (rest % 10) as u8;
        digits[start] = b'0' + digit;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[start..]);
}

/// Returns how many bytes [`push_integer`] appends for `number`.
pub(crate) fn integer_len(number: u64) -> usize {
    number
        .min(MAX_INTEGER)
        .checked_ilog10()
        .map_or(1, |log| log as usize + 1)
}

/// Appends `string` in double quotes; only `"` and `\` are escaped. The caller has checked that it is printable ASCII.
pub(crate) fn push_quoted(text: &mut Vec<u8>, string: &str) {
    text.push(b'"');
    for byte in string.bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
}

/// Appends `bytes` in the standard base64 alphabet with zero pad bits.
pub(crate) fn push_base64(text: &mut Vec<u8>, bytes: &[u8], padding: Padding) {
    for group in bytes.chunks(3) {
        let first = group.first().copied().unwrap_or(0);
        let second = group.get(1).copied().unwrap_or(0);
        let third = group.get(2).copied().unwrap_or(0);
        let letters = [
            first >> 2,
            (first & 0b11) << 4 | second >> 4,
            (second & 0b1111) << 2 | third >> 6,
            third & 0b11_1111,
        ];
        for letter in &letters[..=group.len()] {
            text.push(ALPHABET[usize::from(*letter)]);
        }
        if padding == Padding::Padded {
            text.extend(std::iter::repeat_n(b'=', 3 - group.len()));
        }
    }
}

/// Returns how many bytes [`push_base64`] appends for that many bytes.
pub(crate) fn base64_len(bytes: usize, padding: Padding) -> usize {
    match padding {
        Padding::Padded => bytes.div_ceil(3) * 4,
        Padding::Unpadded => bytes / 3 * 4 + [0, 2, 3][bytes % 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(number: u64) -> String {
        let mut text = Vec::new();
        push_integer(&mut text, number);
        assert_eq!(text.len(), integer_len(number), "length of {number}");
        String::from_utf8(text).unwrap()
    }

    fn base64(bytes: &[u8], padding: Padding) -> String {
        let mut text = Vec::new();
        push_base64(&mut text, bytes, padding);
        assert_eq!(
            text.len(),
            base64_len(bytes.len(), padding),
            "length of {bytes:?}"
        );
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn integers_are_written_as_the_standard_library_writes_them() {
        let powers = (0..15).map(|exponent| 10_u64.pow(exponent));
        for number in powers.flat_map(|power| [power - 1, power, power + 1]) {
            assert_eq!(integer(number), number.to_string());
        }
    }

    #[test]
    fn integers_saturate_at_fifteen_digits() {
        for number in [MAX_INTEGER, MAX_INTEGER + 1, u64::MAX] {
            assert_eq!(integer(number), "999999999999999");
        }
    }

    #[test]
    fn base64_agrees_with_the_vectors_of_its_rfc() {
        let vectors = [
            ("", "", ""),
            ("f", "Zg==", "Zg"),
            ("fo", "Zm8=", "Zm8"),
            ("foo", "Zm9v", "Zm9v"),
            ("foob", "Zm9vYg==", "Zm9vYg"),
            ("fooba", "Zm9vYmE=", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy", "Zm9vYmFy"),
        ];
        for (bytes, padded, unpadded) in vectors {
            assert_eq!(base64(bytes.as_bytes(), Padding::Padded), padded);
            assert_eq!(base64(bytes.as_bytes(), Padding::Unpadded), unpadded);
        }
        assert_eq!(base64(&[0xFB, 0xEF, 0xFF], Padding::Padded), "++//");
    }
}
