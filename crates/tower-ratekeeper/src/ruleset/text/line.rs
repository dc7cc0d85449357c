//! One line, read word by word.

use std::borrow::Cow;

use ratekeeper_core::Quota;

use super::clause::is_clause;
use super::error::{Fault, RuleTextErrorKind};

/// A line without its comment, and how much of it has been read.
pub(in super::super) struct Line<'t> {
    text: &'t str,
    /// What has not been read yet, without white space in front.
    rest: &'t str,
    /// Where the word began that was read last.
    last: usize,
}

impl<'t> Line<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self::whole(without_comment(text))
    }

    /// Creates a line that cannot have a comment.
    pub(in super::super) fn whole(text: &'t str) -> Self {
        let text = text.trim_end();
        let rest = text.trim_start();
        let last = text.len() - rest.len();
        Self { text, rest, last }
    }

    /// Returns how many bytes have been read.
    pub(super) fn position(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn is_quoted(&self) -> bool {
        self.rest.starts_with('"')
    }

    /// Returns what comes next up to white space, nothing at the end.
    pub(super) fn peek(&self) -> &'t str {
        let end = self.rest.find(char::is_whitespace);
        end.map_or(self.rest, |end| &self.rest[..end])
    }

    /// Reads up to white space, nothing at the end.
    pub(super) fn word(&mut self) -> &'t str {
        self.take(self.peek().len())
    }

    /// Reads this word if it comes next.
    pub(super) fn takes(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        if found {
            self.word();
        }
        found
    }

    /// Reads a colon if it comes next.
    pub(super) fn colon(&mut self) -> bool {
        let found = self.rest.starts_with(':');
        if found {
            self.take(1);
        }
        found
    }

    /// Reads a name: up to white space or a colon, or whatever stands between quotation marks.
    pub(super) fn name(&mut self, expected: &'static str) -> Result<Cow<'t, str>, Fault> {
        if self.is_quoted() {
            return self.quoted().map(Cow::Owned);
        }
        let ends = |c: char| c.is_whitespace() || c == ':';
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.unexpected(expected));
        }
        Ok(Cow::Borrowed(self.take(end)))
    }

    fn quoted(&mut self) -> Result<String, Fault> {
        let mut name = String::new();
        let mut chars = self.rest[1..].char_indices();
        loop {
            let c = match chars.next() {
                Some((end, '"')) => {
                    self.take(end + 2);
                    return Ok(name);
                }
                Some((_, '\\')) => match chars.next() {
                    Some((_, c @ ('"' | '\\'))) => Some(c),
                    Some((_, 'u')) => {
                        let hex = chars.as_str().strip_prefix('{');
                        let hex = hex.and_then(|hex| hex.split_once('}')).map(|(hex, _)| hex);
                        let hex = hex.filter(|hex| hex.len() <= 6 && !hex.starts_with('+'));
                        // The number and its braces.
                        hex.and_then(|hex| chars.nth(hex.len() + 1).map(|_| hex))
                            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
                            .and_then(char::from_u32)
                    }
                    _ => None,
                },
                Some((_, c)) => Some(c),
                None => None,
            };
            let expected = "a name up to a closing `\"`, in it only `\\\"`, `\\\\` and `\\u{…}`";
            name.push(c.ok_or_else(|| self.unexpected(expected))?);
        }
    }

    /// Reads a number.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<u64, Fault> {
        let word = self.word();
        let digits = word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_');
        if !digits || !word.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(self.unexpected_last(expected));
        }
        let number = word.replace('_', "").parse();
        number.map_err(|_| Fault::new(self.last, RuleTextErrorKind::NumberTooLarge, word))
    }

    /// Reads the generation of a set's numbers.
    pub(in super::super) fn generation(&mut self) -> Result<u32, Fault> {
        let number = self.number("a generation such as `7`")?;
        u32::try_from(number).map_err(|_| self.unexpected_last("a generation below 2^32"))
    }

    /// Reads everything up to the next clause as a quota.
    pub(super) fn quota(&mut self) -> Result<Quota, Fault> {
        let (start, from) = (self.position(), self.rest);
        while !self.is_empty() && !is_clause(self.peek()) {
            self.word();
        }
        let text = from[..from.len() - self.rest.len()].trim_end();
        if text.is_empty() {
            return Err(self.unexpected("a quota such as `100/min` or `10/s burst 20`"));
        }
        text.parse()
            .map_err(|error| Fault::quota(start, text, error))
    }

    /// Reads something else in the rest, which returns what it has left of it.
    pub(super) fn with_rest<T>(
        &mut self,
        read: impl FnOnce(&'t str) -> Result<(T, &'t str), Fault>,
    ) -> Result<T, Fault> {
        let start = self.position();
        let (value, rest) = read(self.rest).map_err(|fault| fault.moved(start))?;
        self.last = start;
        self.rest = rest;
        Ok(value)
    }

    /// Says that the next word is not what was expected.
    pub(in super::super) fn unexpected(&self, expected: &'static str) -> Fault {
        Fault::expected(self.position(), expected, self.peek())
    }

    /// Says that the last word is not what was expected.
    pub(super) fn unexpected_last(&self, expected: &'static str) -> Fault {
        let found = self.text[self.last..].split(char::is_whitespace).next();
        Fault::expected(self.last, expected, found.unwrap_or_default())
    }

    fn take(&mut self, length: usize) -> &'t str {
        self.last = self.position();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        taken
    }
}

/// Strips what follows a `#` that begins a word and is not between quotation marks.
fn without_comment(text: &str) -> &str {
    let (mut begins, mut quoted, mut escaped) = (true, false, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if quoted => quoted = false,
            '"' if begins => quoted = true,
            '#' if begins && !quoted => return &text[..index],
            _ => {}
        }
        begins = c.is_whitespace();
    }
    text
}
