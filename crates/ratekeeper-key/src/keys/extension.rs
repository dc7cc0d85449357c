//! Keys by what another layer left in the request's extensions.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use http::StatusCode;
use http::request::Parts;
use ratekeeper_core::Key;

use crate::{KeyError, KeyExtractor, Keyed};

/// Keys by a value in the request's extensions: what an authentication layer outside verified.
///
/// The best key there is, since no client can make one up. An absent value is a missing identity
/// (401): the request is anonymous, or the limiter stands outside the layer that inserts the value.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{Extension, KeyExtractor, Keyed, by_extension};
///
/// #[derive(Clone)]
/// struct User { id: u64 }
///
/// let by_user = by_extension(|user: &User| user.id);
/// let (mut parts, ()) = http::Request::new(()).into_parts();
/// parts.extensions.insert(User { id: 7 });
/// assert_eq!(by_user.extract(&parts), Keyed::from(7));
///
/// // Types that turn into keys need no closure.
/// let by_name = Extension::<String>::new();
/// # let _ = by_name;
/// ```
pub struct Extension<T, F = fn(&T) -> Key> {
    function: F,
    value: PhantomData<fn(&T)>,
}

impl<T> Extension<T>
where
    for<'a> &'a T: Into<Key>,
{
    /// Returns the extractor for a type whose references turn into keys.
    #[must_use]
    pub fn new() -> Self {
        Self {
            function: |value| value.into(),
            value: PhantomData,
        }
    }
}

impl<T> Default for Extension<T>
where
    for<'a> &'a T: Into<Key>,
{
    fn default() -> Self {
        Self::new()
    }
}

/// Returns an extractor that keys by what a closure makes of the value of type `T` in the
/// extensions.
///
/// A closure that keys by borrowed text returns a [`Key`]: `|user: &User| Key::from(user.name())`.
pub fn by_extension<T, F, K>(function: F) -> Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
    K: Into<Keyed>,
{
    Extension {
        function,
        value: PhantomData,
    }
}

impl<T, F, K> KeyExtractor for Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
    K: Into<Keyed>,
{
    fn extract(&self, parts: &Parts) -> Keyed {
        match parts.extensions.get::<T>() {
            Some(value) => (self.function)(value).into(),
            None => {
                let error = KeyError::missing("extension").of_type(type_name::<T>());
                Keyed::Failed(error.with_status(StatusCode::UNAUTHORIZED))
            }
        }
    }

    fn client_chosen(&self) -> bool {
        false
    }
}

impl<T, F: Clone> Clone for Extension<T, F> {
    fn clone(&self) -> Self {
        Self {
            function: self.function.clone(),
            value: PhantomData,
        }
    }
}

impl<T, F> fmt::Debug for Extension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension<{}>", type_name::<T>())
    }
}
