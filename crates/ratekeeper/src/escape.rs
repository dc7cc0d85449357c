//! Text from logs, made harmless for where it is shown.
//!
//! Log lines hold what strangers sent. JSON is escaped by its writer; terminals and HTML here.

use std::fmt::Write;

/// Returns the text with every byte that is not UTF-8 as `\xNN`.
#[must_use]
pub fn utf8(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        shown.push_str(chunk.valid());
        chunk
            .invalid()
            .iter()
            .for_each(|byte| hex(&mut shown, *byte));
    }
    shown
}

/// Returns the text fit for a terminal: control characters, and those that hide or reorder text,
/// by the `\xNN` of their bytes.
///
/// # Examples
///
/// ```
/// assert_eq!(ratekeeper::escape::terminal("a\x1b[31mb\u{202e}"), r"a\x1b[31mb\xe2\x80\xae");
/// ```
#[must_use]
pub fn terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmless(letter) {
            shown.push(letter);
        } else {
            let mut bytes = [0; 4];
            letter
                .encode_utf8(&mut bytes)
                .bytes()
                .for_each(|byte| hex(&mut shown, byte));
        }
    }
    shown
}

/// Returns the text fit for HTML, as text and as a quoted attribute; control characters and those
/// that hide or reorder text as for the terminal.
///
/// # Examples
///
/// ```
/// assert_eq!(ratekeeper::escape::html("<b a='x'>&"), "&lt;b a=&#39;x&#39;&gt;&amp;");
/// ```
#[must_use]
pub fn html(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in terminal(text).chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            other => shown.push(other),
        }
    }
    shown
}

/// Returns JSON with the same meaning, in which control characters beyond ASCII and those that hide
/// or reorder text are written as `\uHHHH`. Such characters stand only inside strings.
#[must_use]
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmless(letter) || letter == '\n' {
            shown.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    shown
}

/// Whether a character shows as itself: not a control character, not one that is invisible, joins,
/// reorders or ends a line.
fn is_harmless(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}')
}

fn hex(shown: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(shown, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_byte_reaches_a_terminal() {
        for byte in 0..=u8::MAX {
            let shown = terminal(&utf8(&[b'a', byte, b'b']));
            let printable = (0x20..0x7f).contains(&byte);
            let expected = if printable {
                format!("a{}b", char::from(byte))
            } else {
                format!("a\\x{byte:02x}b")
            };
            assert_eq!(shown, expected);
        }
        assert_eq!(
            terminal(&utf8("\u{9b}31m\u{2028}é".as_bytes())),
            "\\xc2\\x9b31m\\xe2\\x80\\xa8é"
        );
    }

    #[test]
    fn json_keeps_its_meaning_and_shows_no_hidden_character() {
        let value = "a\u{9b}\u{202e}\u{e0001}\0\x7fé\n\u{fe0f}";
        let text = json(&serde_json::to_string(value).unwrap());
        assert!(text.chars().all(is_harmless), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }

    #[test]
    fn html_has_no_markup_left() {
        let shown = html("</script><img src=x onerror='alert(\"1\")'>\0&amp;");
        assert_eq!(
            shown,
            "&lt;/script&gt;&lt;img src=x onerror=&#39;alert(&quot;1&quot;)&#39;&gt;\\x00&amp;amp;"
        );
    }
}
