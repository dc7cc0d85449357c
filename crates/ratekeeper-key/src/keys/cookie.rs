//! Keys by a cookie.

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use http::header::COOKIE;
use http::request::Parts;

use super::percent::{decode, encode, same};
use super::text::{TextExtractor, keyed};
use crate::{KeyError, KeyExtractor, Keyed};

/// Keys by the value of a cookie, such as a session. Registered as `cookie:NAME`.
///
/// Percent-encoding and surrounding quotes are undone, since applications do so. An absent or empty
/// cookie is a missing identity (401); two different values of the name, or a value that is not
/// UTF-8, are malformed (400). The client chooses it.
#[derive(Clone, Debug)]
pub struct Cookie {
    name: Arc<str>,
}

impl Cookie {
    /// Returns the extractor for the cookie of this name; case matters.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into() }
    }
}

impl TextExtractor for Cookie {
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError> {
        let malformed = || KeyError::malformed("cookie").named(&self.name);
        let mut found = None;
        // HTTP/2 may split the cookies over several fields.
        for line in parts.headers.get_all(COOKIE) {
            for pair in line.as_bytes().split(|byte| *byte == b';') {
                let pair = pair.trim_ascii();
                let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
                    continue;
                };
                if pair[..equals].trim_ascii() != self.name.as_bytes() {
                    continue;
                }
                let value = pair[equals + 1..].trim_ascii();
                let value = value
                    .strip_prefix(b"\"")
                    .and_then(|v| v.strip_suffix(b"\""))
                    .unwrap_or(value);
                let value = std::str::from_utf8(value).map_err(|_| malformed())?;
                let value = decode(value, false).ok_or_else(malformed)?;
                same(&mut found, value).map_err(|()| malformed())?;
            }
        }
        found.filter(|value| !value.is_empty()).ok_or_else(|| {
            KeyError::missing("cookie")
                .named(&self.name)
                .with_status(StatusCode::UNAUTHORIZED)
        })
    }
}

impl KeyExtractor for Cookie {
    fn extract(&self, parts: &Parts) -> Keyed {
        keyed(self.text(parts))
    }

    fn name(&self) -> String {
        format!("cookie:{}", encode(&self.name))
    }
}
