//! Percent-encoding, undone the way that forms and cookies are read.

use std::borrow::Cow;
use std::fmt::Write;

/// Undoes percent-encoding, and `+` for a space where that is meant. What is no valid escape stays
/// as it is. Returns `None` where the result is not UTF-8.
///
/// The application takes `%61bc` and `abc` for the same value, so they have to be one key:
/// otherwise one value could be spelled in 2^n ways, each with a budget of its own.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<Cow<'_, str>> {
    let special = |byte| byte == b'%' || (plus_is_space && byte == b'+');
    if !text.bytes().any(special) {
        return Some(Cow::Borrowed(text));
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        plain.push(match byte {
            b'%' => match escaped(after) {
                Some(escaped) => {
                    rest = &after[2..];
                    escaped
                }
                None => b'%',
            },
            b'+' if plus_is_space => b' ',
            byte => *byte,
        });
    }
    String::from_utf8(plain).ok().map(Cow::Owned)
}

/// Encodes everything but letters, digits and `-._~`, for names in the text of an extractor.
pub(super) fn encode(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Returns the byte that the two hexadecimal digits in front stand for.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let [high, low, ..] = bytes else { return None };
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    Some(digit(high)? << 4 | digit(low)?)
}

/// Keeps the only value of a name that occurs several times; `Err` when the values differ.
///
/// Applications take the first or the last of several values; a limiter that takes another one
/// than the application counts for somebody else.
pub(super) fn same<'a>(found: &mut Option<Cow<'a, str>>, value: Cow<'a, str>) -> Result<(), ()> {
    match found {
        Some(first) if *first != value => Err(()),
        Some(_) => Ok(()),
        None => {
            *found = Some(value);
            Ok(())
        }
    }
}
