//! JSON lines: one pass over the object that stops at the fields asked for.
//!
//! Logs are not always valid UTF-8 inside strings (nginx passes bytes on), so this reads bytes and
//! checks only what matters: that the object is whole.

use std::fmt;

use super::{Fault, Found, Place, hex, request_line, stamp};
use crate::time::Stamp;

/// What a field is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The time: ISO 8601, the common format's, or a number of (milli, micro, nano) seconds.
    Time,
    /// The client's address, perhaps with a port, or its host name.
    Client,
    /// The authenticated user.
    User,
    /// The host asked for.
    Host,
    /// The method.
    Method,
    /// The request target.
    Path,
    /// The whole request line, for logs that have no method and path of their own.
    Request,
}

impl Role {
    const ALL: [Self; 7] = [
        Self::Time,
        Self::Client,
        Self::User,
        Self::Host,
        Self::Method,
        Self::Path,
        Self::Request,
    ];

    /// Returns the name that the command line uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Client => "client",
            Self::User => "user",
            Self::Host => "host",
            Self::Method => "method",
            Self::Path => "path",
            Self::Request => "request",
        }
    }
}

/// The names to look for, the preferred ones of each role first. Those of Caddy, Traefik and of
/// usual nginx formats do not contradict each other, so one table reads them all.
const KNOWN: [(Role, &[&str]); 7] = [
    (
        Role::Time,
        &[
            "ts",
            "StartUTC",
            "StartLocal",
            "msec",
            "time_iso8601",
            "time_local",
            "@timestamp",
            "timestamp",
            "time",
        ],
    ),
    (
        Role::Client,
        &[
            "request.client_ip",
            "request.remote_ip",
            "request.remote_addr",
            "ClientHost",
            "ClientAddr",
            "remote_addr",
            "client_ip",
            "remote_ip",
            "client",
        ],
    ),
    (
        Role::User,
        &["user_id", "ClientUsername", "remote_user", "user"],
    ),
    (
        Role::Host,
        &[
            "request.host",
            "RequestHost",
            "RequestAddr",
            "http_host",
            "host",
            "server_name",
        ],
    ),
    (
        Role::Method,
        &[
            "request.method",
            "RequestMethod",
            "request_method",
            "method",
        ],
    ),
    (
        Role::Path,
        &["request.uri", "RequestPath", "request_uri", "uri", "path"],
    ),
    (Role::Request, &["request"]),
];

/// The names of the fields in JSON lines; a dot stands for an object inside an object.
///
/// By default the names of Caddy, of Traefik and of usual nginx formats.
#[derive(Clone, Debug)]
pub struct Fields {
    /// The preferred name of a role comes before its others.
    names: Vec<(String, Role)>,
}

impl Default for Fields {
    fn default() -> Self {
        let names = KNOWN
            .iter()
            .flat_map(|(role, names)| names.iter().map(|name| ((*name).to_owned(), *role)));
        Self {
            names: names.collect(),
        }
    }
}

impl Fields {
    /// Reads `role=name`, which replaces that role's names.
    ///
    /// # Errors
    ///
    /// Fails when the role is unknown or the name empty.
    pub fn set(&mut self, text: &str) -> Result<(), FieldsError> {
        let (role, name) = text
            .split_once('=')
            .and_then(|(role, name)| {
                Some((
                    Role::ALL.into_iter().find(|known| known.name() == role)?,
                    name,
                ))
            })
            .filter(|(_, name)| !name.is_empty())
            .ok_or_else(|| FieldsError(text.to_owned()))?;
        self.names.retain(|(_, other)| *other != role);
        if matches!(role, Role::Method | Role::Path) {
            // A request line would otherwise come in where the named field is missing.
            self.names.retain(|(_, other)| *other != Role::Request);
        }
        self.names.push((name.to_owned(), role));
        Ok(())
    }
}

/// The error for a field setting that is not `role=name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldsError(String);

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles = Role::ALL.map(Role::name).join(", ");
        write!(
            f,
            "invalid field {:?}: write role=name, the role being one of {roles}",
            self.0
        )
    }
}

impl std::error::Error for FieldsError {}

/// Finds the fields of one line.
pub(super) fn parse(line: &[u8], fields: &Fields, scratch: &mut Vec<u8>) -> Result<Found, Fault> {
    let mut reader = Reader {
        line,
        at: 0,
        fields,
        best: [None; Role::ALL.len()],
    };
    reader.space();
    reader
        .object(&mut Vec::new(), fields.names.len())
        .ok_or(Fault::BadJson)?;
    reader.space();
    if reader.at != line.len() {
        return Err(Fault::BadJson);
    }
    let best = reader.best;
    let mut text = |role: Role| match best[role as usize] {
        Some((_, value)) if !value.is(line, b"-") => value.text(line, scratch),
        _ => Place::default(),
    };
    let (client, user, host) = (text(Role::Client), text(Role::User), text(Role::Host));
    let (mut method, mut target) = (text(Role::Method), text(Role::Path));
    let request = text(Role::Request);
    let time = text(Role::Time);
    if method.start == method.end
        && target.start == target.end
        && let Some((found, rest)) = request_line(request.get(line, scratch))
    {
        method = request.within(found.0, found.1);
        target = request.within(rest.0, rest.1);
    }
    if best[Role::Client as usize].is_none() {
        return Err(Fault::NoClient);
    }
    if time.start == time.end {
        return Err(Fault::NoTime);
    }
    let stamp = any_stamp(time.get(line, scratch)).ok_or(Fault::BadTime)?;
    Ok(Found {
        stamp,
        client,
        user,
        host,
        method,
        target,
    })
}

fn any_stamp(text: &[u8]) -> Option<Stamp> {
    match text {
        [_, _, b'/', ..] => stamp::clf(text),
        [_, _, _, _, b'-' | b'/', ..] => stamp::iso(text),
        _ => stamp::epoch(text),
    }
}

/// A string or a number, by its bytes in the line; a string without its quotes.
#[derive(Clone, Copy, Debug)]
struct Value {
    place: Place,
    escaped: bool,
}

impl Value {
    fn is(self, line: &[u8], text: &[u8]) -> bool {
        self.place.get(line, &[]) == text
    }

    fn text(self, line: &[u8], scratch: &mut Vec<u8>) -> Place {
        if !self.escaped {
            return self.place;
        }
        let start = scratch.len();
        let mut rest = self.place.get(line, &[]);
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
}

/// Undoes the escape that `text` starts with and returns what follows it.
fn unescape_one<'a>(text: &'a [u8], scratch: &mut Vec<u8>) -> &'a [u8] {
    if text.get(1) != Some(&b'u') {
        return super::unescape_one(text, scratch);
    }
    let Some(first) = unit(text) else {
        scratch.extend_from_slice(b"\\u");
        return &text[2..];
    };
    let rest = &text[6..];
    let (code, rest) = match (first, unit(rest)) {
        (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => (
            0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
            &rest[6..],
        ),
        _ => (first, rest),
    };
    let mut bytes = [0; 4];
    let letter = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    scratch.extend_from_slice(letter.encode_utf8(&mut bytes).as_bytes());
    rest
}

/// Returns the number of the `\uHHHH` that `text` starts with.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits
        .iter()
        .try_fold(0, |sum, digit| Some(sum << 4 | u32::from(hex(*digit)?)))
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    fields: &'a Fields,
    /// Per role the best field so far and its rank; a lower rank is better.
    best: [Option<(usize, Value)>; Role::ALL.len()],
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// Reads an object whose fields' names begin with `prefix`; returns nothing when it is not whole.
    fn object(&mut self, prefix: &mut Vec<u8>, depth: usize) -> Option<()> {
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let name = self.string()?.place;
            self.space();
            self.take(b':')?;
            self.space();
            self.member(prefix, name, depth)?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    fn member(&mut self, prefix: &mut Vec<u8>, name: Place, depth: usize) -> Option<()> {
        let fields = self.fields;
        let name = &self.line[name.start..name.end];
        if self.peek()? == b'{' {
            let inside = |(field, _): &(String, Role)| {
                let rest = field
                    .as_bytes()
                    .strip_prefix(prefix.as_slice())
                    .and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.first() == Some(&b'.'))
            };
            // Only objects that a field's name leads into are opened, so names bound the depth.
            if depth > 0 && fields.names.iter().any(inside) {
                let length = prefix.len();
                prefix.extend_from_slice(name);
                prefix.push(b'.');
                self.object(prefix, depth - 1)?;
                prefix.truncate(length);
                return Some(());
            }
            return self.skip();
        }
        let (start, first) = (self.at, self.peek()?);
        let value = match first {
            b'"' => self.string()?,
            b'[' => return self.skip(),
            _ => {
                self.skip()?;
                Value {
                    place: Place {
                        start,
                        end: self.at,
                        scratch: false,
                    },
                    escaped: false,
                }
            }
        };
        let scalar = first == b'"' || first == b'-' || first.is_ascii_digit();
        if !scalar || value.place.start == value.place.end {
            return Some(());
        }
        for (rank, (field, role)) in fields.names.iter().enumerate() {
            if field.len() == prefix.len() + name.len()
                && field.as_bytes().ends_with(name)
                && field.as_bytes().starts_with(prefix)
            {
                let best = &mut self.best[*role as usize];
                // The first of two equal names counts, so that a later one cannot replace it.
                if best.is_none_or(|(other, _)| rank < other) {
                    *best = Some((rank, value));
                }
            }
        }
        Some(())
    }

    /// Reads a string and returns what stands between its quotes.
    fn string(&mut self) -> Option<Value> {
        self.take(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let found = memchr::memchr2(b'"', b'\\', self.line.get(self.at..)?)?;
            self.at += found + 1;
            if self.line[self.at - 1] == b'"' {
                return Some(Value {
                    place: Place {
                        start,
                        end: self.at - 1,
                        scratch: false,
                    },
                    escaped,
                });
            }
            escaped = true;
            self.at += 1;
        }
    }

    /// Skips a value of any kind, however deep, without recursion.
    fn skip(&mut self) -> Option<()> {
        let mut open = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if open > 0 => {
                    self.at += 1;
                    continue;
                }
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    let rest = &self.line[self.at..];
                    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                    self.at += rest.iter().take_while(|byte| word(byte)).count();
                }
                _ => return None,
            }
            if open == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
