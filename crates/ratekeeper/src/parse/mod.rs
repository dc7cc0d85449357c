//! Access-log lines as borrowed records: common and combined format, and JSON lines.

mod clf;
mod json;
mod stamp;

use std::fmt;

pub use self::json::{Fields, FieldsError, Role};
pub use crate::time::Stamp;

/// The form of a log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The common log format of Apache and nginx: client, identity, user, time, request, status, size.
    Common,
    /// The common format followed by more fields, such as referer and agent; these are not read.
    Combined,
    /// One JSON object on a line, as Caddy, Traefik and nginx with `escape=json` write.
    Json,
}

impl Format {
    /// Returns the name that the command line uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Combined => "combined",
            Self::Json => "json",
        }
    }
}

/// What a line says of a request; escapes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was logged.
    pub stamp: Stamp,
    /// The client as logged: an address, perhaps with a port, or a host name. Empty when the log has none.
    pub client: &'a [u8],
    /// The authenticated user. Empty when there is none.
    pub user: &'a [u8],
    /// The host asked for. Empty when the log has none.
    pub host: &'a [u8],
    /// The method. Empty when the request line was not HTTP.
    pub method: &'a [u8],
    /// The path without its query. Empty when the request line was not HTTP.
    pub path: &'a [u8],
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The line is longer than the bound.
    TooLong,
    /// There is no client where it has to be.
    NoClient,
    /// There is no time.
    NoTime,
    /// There is a time that cannot be read, or that lies outside the years 1678 to 2262.
    BadTime,
    /// The line is not a whole JSON object.
    BadJson,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "longer than the bound",
            Self::NoClient => "no client",
            Self::NoTime => "no time",
            Self::BadTime => "a time that cannot be read",
            Self::BadJson => "not a whole JSON object",
        })
    }
}

/// Reads the lines of one log.
///
/// A line is readable when its client and its time are: what was cut off or mangled behind them
/// does not matter to a limit.
///
/// # Examples
///
/// ```
/// use ratekeeper::parse::{Format, Parser};
///
/// let mut parser = Parser::new(None, Default::default());
/// let line = br#"192.0.2.7 - ann [07/Mar/2004:16:05:49 -0800] "GET /a?b=c HTTP/1.1" 200 12"#;
/// let record = parser.parse(line).unwrap();
/// assert_eq!((record.client, record.user, record.path), (&b"192.0.2.7"[..], &b"ann"[..], &b"/a"[..]));
/// assert_eq!(record.stamp.unix, 1_078_704_349_000_000_000);
/// assert_eq!(parser.format(), Some(Format::Common));
/// ```
#[derive(Debug)]
pub struct Parser {
    format: Option<Format>,
    fields: Fields,
    /// Holds the fields of one line whose escapes were undone.
    scratch: Vec<u8>,
}

impl Parser {
    /// Creates a parser for one format, or for the one that the first readable line has.
    #[must_use]
    pub fn new(format: Option<Format>, fields: Fields) -> Self {
        Self {
            format,
            fields,
            scratch: Vec::new(),
        }
    }

    /// Returns the format asked for or found; nothing before the first readable line.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Reads one line.
    ///
    /// # Errors
    ///
    /// Says why the line is unreadable; the next one can be read all the same.
    pub fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Record<'a>, Fault> {
        self.scratch.clear();
        let json = match self.format {
            Some(format) => format == Format::Json,
            None => line.trim_ascii_start().starts_with(b"{"),
        };
        let (found, format) = if json {
            (
                json::parse(line, &self.fields, &mut self.scratch)?,
                Format::Json,
            )
        } else {
            clf::parse(line, &mut self.scratch)?
        };
        self.format = self.format.or(Some(format));
        Ok(found.resolve(line, &self.scratch))
    }
}

/// Where a field lies: in the line, or among the fields whose escapes were undone.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: usize,
    end: usize,
    scratch: bool,
}

impl Place {
    fn get<'a>(self, line: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
        let text = if self.scratch { scratch } else { line };
        &text[self.start..self.end]
    }

    /// Returns the place of `part`, which is a part of `whole`, as this place is of the same text.
    fn within(self, offset: usize, length: usize) -> Self {
        Self {
            start: self.start + offset,
            end: self.start + offset + length,
            ..self
        }
    }
}

/// A record before its places are looked up.
#[derive(Clone, Copy, Debug)]
struct Found {
    stamp: Stamp,
    client: Place,
    user: Place,
    host: Place,
    method: Place,
    target: Place,
}

impl Found {
    fn resolve<'a>(self, line: &'a [u8], scratch: &'a [u8]) -> Record<'a> {
        Record {
            stamp: self.stamp,
            client: self.client.get(line, scratch),
            user: self.user.get(line, scratch),
            host: self.host.get(line, scratch),
            method: self.method.get(line, scratch),
            path: path_of(self.target.get(line, scratch)),
        }
    }
}

/// Returns the path of a request target: without query and fragment, without scheme and authority.
fn path_of(target: &[u8]) -> &[u8] {
    let path = match memchr::memchr2(b'?', b'#', target) {
        Some(end) => &target[..end],
        None => target,
    };
    if path.starts_with(b"/") {
        return path;
    }
    match memchr::memmem::find(path, b"://") {
        Some(scheme) => {
            let rest = &path[scheme + 3..];
            memchr::memchr(b'/', rest).map_or(b"/", |slash| &rest[slash..])
        }
        None => path,
    }
}

/// Splits a request line into method and target, as offset and length each; nothing when it is not HTTP.
fn request_line(request: &[u8]) -> Option<((usize, usize), (usize, usize))> {
    let method = memchr::memchr(b' ', request)?;
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if method == 0 || !request[..method].iter().all(token) {
        return None;
    }
    let rest = &request[method + 1..];
    // The last space parts the target from the version, for a target may be logged with spaces in it.
    let length = match memchr::memrchr(b' ', rest) {
        Some(space) if rest[space + 1..].starts_with(b"HTTP/") => space,
        _ => rest.len(),
    };
    (length > 0).then_some(((0, method), (method + 1, length)))
}

/// Undoes the escapes `\xHH`, `\"`, `\\`, `\n` and so on, as nginx and Apache write them.
fn unescape(text: &[u8], place: Place, scratch: &mut Vec<u8>) -> Place {
    let value = &text[place.start..place.end];
    if memchr::memchr(b'\\', value).is_none() {
        return place;
    }
    let start = scratch.len();
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        scratch.extend_from_slice(&rest[..at]);
        rest = unescape_one(&rest[at..], scratch);
    }
    scratch.extend_from_slice(rest);
    Place {
        start,
        end: scratch.len(),
        scratch: true,
    }
}

/// Undoes the escape that `text` starts with and returns what follows it.
fn unescape_one<'a>(text: &'a [u8], scratch: &mut Vec<u8>) -> &'a [u8] {
    let Some(&kind) = text.get(1) else {
        scratch.push(b'\\');
        return &[];
    };
    if kind == b'x' {
        if let [high, low, rest @ ..] = &text[2..]
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            scratch.push(high << 4 | low);
            return rest;
        }
        // Not an escape after all.
        scratch.extend_from_slice(b"\\x");
        return &text[2..];
    }
    scratch.push(match kind {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 0x0b,
        b'b' => 0x08,
        b'f' => 0x0c,
        other => other,
    });
    &text[2..]
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_query_fragment_scheme_and_authority() {
        let path = |target: &str| String::from_utf8(path_of(target.as_bytes()).to_vec()).unwrap();
        assert_eq!(path("/a/b?c=/d"), "/a/b");
        assert_eq!(path("/a#b"), "/a");
        assert_eq!(path("http://example.org/a?b"), "/a");
        assert_eq!(path("http://example.org"), "/");
        assert_eq!(path("*"), "*");
        assert_eq!(path("example.org:443"), "example.org:443");
        assert_eq!(path("/go?to=http://example.org/x"), "/go");
        assert_eq!(path("?x=http://example.org/x"), "");
    }

    #[test]
    fn escapes_are_undone_and_stray_backslashes_kept() {
        let undone = |text: &str| {
            let mut scratch = b"before".to_vec();
            let whole = Place {
                start: 0,
                end: text.len(),
                scratch: false,
            };
            let place = unescape(text.as_bytes(), whole, &mut scratch);
            place.get(text.as_bytes(), &scratch).to_vec()
        };
        assert_eq!(undone("plain"), b"plain");
        assert_eq!(undone(r#"a\"b\\c\x41\xfF\n"#), b"a\"b\\cA\xff\n");
        assert_eq!(undone(r"\xZZ\x4"), br"\xZZ\x4");
        assert_eq!(undone("end\\"), b"end\\");
    }

    #[test]
    fn a_request_line_needs_a_method_and_a_target() {
        assert_eq!(request_line(b"GET / HTTP/1.1"), Some(((0, 3), (4, 1))));
        assert_eq!(request_line(b"GET /a b HTTP/1.1"), Some(((0, 3), (4, 4))));
        assert_eq!(request_line(b"GET /old"), Some(((0, 3), (4, 4))));
        for odd in [&b"-"[..], b"", b" /", b"GET ", b"\x16\x03\x01 \xff", b"GET"] {
            assert_eq!(request_line(odd), None, "{odd:?}");
        }
    }
}
