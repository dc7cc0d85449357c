//! Identities that are text, and what is done to them before they become keys.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;

use http::request::Parts;
use ratekeeper_core::Key;

use crate::{KeyError, KeyExtractor, Keyed, Warning};

/// An extractor whose identity is text, which can be brought to one form before it becomes a key.
pub trait TextExtractor: KeyExtractor {
    /// Returns the text, which is never empty.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the request carries no such text or a malformed one.
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError>;

    /// Returns an extractor that keys by what the function makes of the text.
    ///
    /// Two spellings that the application takes for the same identity must give the same key, or
    /// each is a budget of its own.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_key::{Header, KeyExtractor, Keyed, TextExtractor};
    ///
    /// let by_user = Header::from_static("x-user").normalized(|user| user.trim().to_lowercase());
    /// let (parts, ()) = http::Request::get("/").header("x-user", "User@X.com").body(()).unwrap().into_parts();
    /// assert_eq!(by_user.extract(&parts), Keyed::from("user@x.com"));
    /// ```
    fn normalized<F>(self, function: F) -> Normalized<Self, F>
    where
        Self: Sized,
        F: Fn(&str) -> String + Send + Sync + 'static,
    {
        Normalized {
            extractor: self,
            function,
        }
    }
}

/// Returns the key of a text extractor.
pub(super) fn keyed(text: Result<Cow<'_, str>, KeyError>) -> Keyed {
    text.map(|text| Key::from(&*text)).into()
}

/// Keys by what a function makes of another extractor's text; made by
/// [`TextExtractor::normalized`].
#[derive(Clone)]
pub struct Normalized<E, F> {
    extractor: E,
    function: F,
}

impl<E: TextExtractor, F> TextExtractor for Normalized<E, F>
where
    F: Fn(&str) -> String + Send + Sync + 'static,
{
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError> {
        self.extractor
            .text(parts)
            .map(|text| Cow::Owned((self.function)(&text)))
    }
}

impl<E: TextExtractor, F> KeyExtractor for Normalized<E, F>
where
    F: Fn(&str) -> String + Send + Sync + 'static,
{
    fn extract(&self, parts: &Parts) -> Keyed {
        keyed(self.text(parts))
    }

    fn client_chosen(&self) -> bool {
        self.extractor.client_chosen()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.extractor.warnings()
    }
}

impl<E: fmt::Debug, F> fmt::Debug for Normalized<E, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Normalized({:?}, {})", self.extractor, type_name::<F>())
    }
}
