//! Keys by a parameter of the query.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;

use super::percent::{decode, encode, same};
use super::text::{TextExtractor, keyed};
use crate::{KeyError, KeyExtractor, Keyed};

/// Keys by the value of a query parameter. Registered as `query:NAME`.
///
/// Names and values are read as forms encode them. An absent or empty parameter is a missing
/// identity (400); two different values of the name, or a value that is not UTF-8, are malformed
/// (400). The client chooses it.
#[derive(Clone, Debug)]
pub struct Query {
    name: Arc<str>,
}

impl Query {
    /// Returns the extractor for the parameter of this name; case matters.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into() }
    }
}

impl TextExtractor for Query {
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError> {
        let malformed = || KeyError::malformed("query parameter").named(&self.name);
        let mut found = None;
        for pair in parts.uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if decode(name, true).is_some_and(|name| *name == *self.name) {
                let value = decode(value, true).ok_or_else(malformed)?;
                same(&mut found, value).map_err(|()| malformed())?;
            }
        }
        found
            .filter(|value| !value.is_empty())
            .ok_or_else(|| KeyError::missing("query parameter").named(&self.name))
    }
}

impl KeyExtractor for Query {
    fn extract(&self, parts: &Parts) -> Keyed {
        keyed(self.text(parts))
    }

    fn name(&self) -> String {
        format!("query:{}", encode(&self.name))
    }
}
