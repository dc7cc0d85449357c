//! Keys by a header field.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName};

use super::text::{TextExtractor, keyed};
use crate::{KeyError, KeyExtractor, Keyed};

/// Keys by the value of a header field, such as an API key.
///
/// Spaces around the value do not count. An absent or empty field is a missing identity (400); more
/// than one line, or a value that is not UTF-8, is malformed (400). A value of any length becomes a
/// key without heap. The client chooses it. Registered as `header:NAME`.
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
    /// The name for errors, shared so that a failure does not allocate.
    label: Arc<str>,
}

impl Header {
    /// Returns the extractor for this field.
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self {
            label: name.as_str().into(),
            name,
        }
    }

    /// Returns the extractor for the field of this lower-case name.
    ///
    /// # Panics
    ///
    /// When this is no lower-case field name; [`new`](Self::new) with
    /// [`HeaderName::from_bytes`] checks names that are not literals.
    #[must_use]
    pub fn from_static(name: &'static str) -> Self {
        Self::new(HeaderName::from_static(name))
    }
}

/// Returns the trimmed value of a field that has exactly one line.
pub(super) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    what: &'static str,
) -> Result<&'a str, KeyError> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or_else(|| KeyError::missing(what))?;
    if lines.next().is_some() {
        return Err(KeyError::malformed(what));
    }
    let value = std::str::from_utf8(line.as_bytes()).map_err(|_| KeyError::malformed(what))?;
    match value.trim_matches([' ', '\t']) {
        "" => Err(KeyError::missing(what)),
        value => Ok(value),
    }
}

impl TextExtractor for Header {
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError> {
        single(&parts.headers, &self.name, "header")
            .map(Cow::Borrowed)
            .map_err(|error| error.named(&self.label))
    }
}

impl KeyExtractor for Header {
    fn extract(&self, parts: &Parts) -> Keyed {
        keyed(self.text(parts))
    }

    fn name(&self) -> String {
        format!("header:{}", self.name)
    }
}
