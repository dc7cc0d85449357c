//! Lines of bounded length out of a byte stream, borrowed from one buffer.

use std::fmt;
use std::io::{self, Read};

/// One line of input, without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the bound.
    Text(&'a [u8]),
    /// A line that was longer than the bound; it has been skipped.
    TooLong,
}

/// Splits a byte stream into lines in memory of twice the longest line, at least 256 KiB.
pub struct Lines<R> {
    source: R,
    /// Invariant: `start <= end <= buffer.len()`; what lies between is read and not yet returned.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    longest: usize,
    ended: bool,
}

impl<R: Read> Lines<R> {
    /// Creates a splitter for lines of up to `longest` bytes, their end not counted.
    pub fn new(source: R, longest: usize) -> Self {
        // Room for the longest line, its end, and then some, so that reads stay large.
        let size = (2 * longest.max(1)).max(256 * 1024);
        Self {
            source,
            buffer: vec![0; size],
            start: 0,
            end: 0,
            longest,
            ended: false,
        }
    }

    /// Returns the next line, or nothing at the end. A last line needs no line end.
    ///
    /// # Errors
    ///
    /// Passes on what the source reports; an interrupted read is tried again.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut skipping = false;
        let mut searched = 0;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(found) = memchr::memchr(b'\n', &waiting[searched..]) {
                let length = searched + found;
                let begin = self.start;
                self.start += length + 1;
                return Ok(Some(self.line(begin, length, skipping)));
            }
            if self.ended {
                let (begin, length) = (self.start, waiting.len());
                self.start = self.end;
                return Ok((length > 0 || skipping).then(|| self.line(begin, length, skipping)));
            }
            searched = waiting.len();
            // One byte more than the longest may still be the carriage return of a fitting line.
            if skipping || searched > self.longest + 1 {
                skipping = true;
                searched = 0;
                self.start = self.end;
            }
            self.fill()?;
        }
    }

    fn line(&self, begin: usize, length: usize, skipped: bool) -> Line<'_> {
        let text = &self.buffer[begin..begin + length];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if skipped || text.len() > self.longest {
            Line::TooLong
        } else {
            Line::Text(text)
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.buffer.len() - self.end < self.buffer.len() / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    self.ended = read == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R> fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("longest", &self.longest)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, so that lines cross reads.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(self.0.len()).min(buffer.len());
            buffer[..size].copy_from_slice(&self.0[..size]);
            self.0 = &self.0[size..];
            Ok(size)
        }
    }

    fn split(text: &[u8], longest: usize, drip: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Drip(text, drip), longest);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong => None,
            });
        }
        found
    }

    #[test]
    fn lines_split_alike_however_the_bytes_arrive() {
        let text = b"one\r\n\ntwo\nlonger than ten\nthree\n1234567890\r\n12345678901\nlast";
        let expected = [
            Some("one"),
            Some(""),
            Some("two"),
            None,
            Some("three"),
            Some("1234567890"),
            None,
            Some("last"),
        ]
        .map(|line| line.map(|text| text.as_bytes().to_vec()));
        for drip in 1..text.len() + 1 {
            assert_eq!(split(text, 10, drip), expected, "{drip} bytes at a time");
        }
    }

    #[test]
    fn a_line_far_beyond_the_buffer_is_skipped_in_bounded_memory() {
        let mut text = vec![b'x'; 3_000_000];
        text.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(text.as_slice(), 1_000);
        assert_eq!(lines.next_line().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Text(b"next")));
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.buffer.len(), 256 * 1024);
    }

    #[test]
    fn an_overlong_last_line_without_an_end_is_reported_once() {
        let text = vec![b'x'; 700_000];
        assert_eq!(split(&text, 100, 50_000), [None]);
    }
}
