//! The trait that turns a request into a key, and what it answers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use ratekeeper_core::Key;

use crate::{KeyError, OnFailure, Or, Warning, WithFailure};

/// What an extractor says about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Keyed {
    /// The request counts for this key.
    Key(Key),
    /// The rule does not apply to this request.
    Exempt,
    /// The request has no key.
    Failed(KeyError),
}

impl From<Key> for Keyed {
    fn from(key: Key) -> Self {
        Self::Key(key)
    }
}

impl From<&str> for Keyed {
    fn from(text: &str) -> Self {
        Self::Key(text.into())
    }
}

impl From<String> for Keyed {
    fn from(text: String) -> Self {
        Self::Key(text.into())
    }
}

impl From<u64> for Keyed {
    fn from(number: u64) -> Self {
        Self::Key(number.into())
    }
}

impl From<IpAddr> for Keyed {
    /// Keys the single host. Clients that own a whole IPv6 network are keyed by
    /// [`Prefixes::key`](crate::Prefixes::key).
    fn from(address: IpAddr) -> Self {
        Self::Key(address.into())
    }
}

impl From<KeyError> for Keyed {
    fn from(error: KeyError) -> Self {
        Self::Failed(error)
    }
}

impl<T: Into<Self>> From<Option<T>> for Keyed {
    /// Takes `None` for a missing identity, which is refused with 400 unless
    /// [`on_failure`](KeyExtractor::on_failure) says otherwise.
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Self::Failed(KeyError::missing("identity")), Into::into)
    }
}

impl<T: Into<Self>> From<Result<T, KeyError>> for Keyed {
    fn from(value: Result<T, KeyError>) -> Self {
        value.map_or_else(Self::Failed, Into::into)
    }
}

/// Says which key a request counts for.
///
/// Extractors see the head of a request, never its body, and take no time: whatever needs a look-up
/// is done by a layer outside that leaves its result in the extensions (see [`Extension`]).
/// A tuple of up to four extractors gives one key of all parts.
///
/// [`Extension`]: crate::Extension
///
/// # Examples
///
/// ```
/// use http::request::Parts;
/// use ratekeeper_key::{KeyError, KeyExtractor, Keyed};
///
/// /// The organization in a path such as `/orgs/7/members`.
/// #[derive(Debug)]
/// struct Organization;
///
/// impl KeyExtractor for Organization {
///     fn extract(&self, parts: &Parts) -> Keyed {
///         let id = parts.uri.path().strip_prefix("/orgs/").and_then(|rest| rest.split('/').next());
///         id.ok_or(KeyError::missing("organization")).and_then(|id| {
///             id.parse::<u64>().map_err(|_| KeyError::malformed("organization"))
///         }).into()
///     }
/// }
///
/// let (parts, ()) = http::Request::get("/orgs/7/members").body(()).unwrap().into_parts();
/// assert_eq!(Organization.extract(&parts), Keyed::from(7));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which key a request counts for",
    label = "not a key extractor",
    note = "use an extractor such as `Peer`, `ClientIp` or `Header`, or a tuple of two to four of them",
    note = "wrap a closure: `by_fn(|parts: &http::request::Parts| …)`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Returns the key that the request counts for.
    fn extract(&self, parts: &Parts) -> Keyed;

    /// Returns whether a client can bring itself any number of fresh keys.
    ///
    /// A rule by such a key limits honest clients only. A set of rules in which every rule of a
    /// route is of this kind gets a warning. What can only be chosen among a few known values, as
    /// a route or a method, does not count. True by default: an extractor knows better or does not.
    fn client_chosen(&self) -> bool {
        true
    }

    /// Returns the text that names the extractor where rules are data, such as `header:x-api-key`
    /// or `(ip, route)`; `custom` for what has no name.
    fn name(&self) -> String {
        "custom".to_owned()
    }

    /// Returns what the author of the configuration should look at once more.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Returns an extractor that asks `other` where this one finds no identity.
    ///
    /// A malformed identity stays a failure, and so does a server that does not know its peer.
    ///
    /// A client leaves an identity out, or makes one up, as it likes. `header.or(ip)` is fair to
    /// honest clients and stops nobody: junk in the header is a fresh key each time. Have a second
    /// rule by address beside it.
    fn or<E: KeyExtractor>(self, other: E) -> Or<Self, E>
    where
        Self: Sized,
    {
        Or::new(self, other)
    }

    /// Returns an extractor that does this where no key is found.
    fn on_failure(self, policy: OnFailure) -> WithFailure<Self>
    where
        Self: Sized,
    {
        WithFailure::new(self, policy)
    }
}

/// Prints the extractor's name.
impl fmt::Debug for dyn KeyExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyExtractor({})", self.name())
    }
}

impl<E: KeyExtractor + ?Sized> KeyExtractor for Arc<E> {
    fn extract(&self, parts: &Parts) -> Keyed {
        self.as_ref().extract(parts)
    }

    fn client_chosen(&self) -> bool {
        self.as_ref().client_chosen()
    }

    fn name(&self) -> String {
        self.as_ref().name()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.as_ref().warnings()
    }
}

macro_rules! tuple {
    ($($part:ident)+) => {
        /// One key of all parts. Exempt if any part is; otherwise the first failure, if any.
        impl<$($part: KeyExtractor),+> KeyExtractor for ($($part,)+) {
            fn extract(&self, parts: &Parts) -> Keyed {
                #[allow(non_snake_case, reason = "the parts are named by their types")]
                let ($($part,)+) = self;
                let mut key = Ok(Key::builder());
                $(match $part.extract(parts) {
                    Keyed::Key(part) => key = key.map(|key| key.key(&part)),
                    Keyed::Exempt => return Keyed::Exempt,
                    Keyed::Failed(error) => key = key.and(Err(error)),
                })+
                key.map(|key| key.finish()).into()
            }

            fn client_chosen(&self) -> bool {
                #[allow(non_snake_case, reason = "the parts are named by their types")]
                let ($($part,)+) = self;
                false $(|| $part.client_chosen())+
            }

            fn name(&self) -> String {
                #[allow(non_snake_case, reason = "the parts are named by their types")]
                let ($($part,)+) = self;
                format!("({})", [$($part.name()),+].join(", "))
            }

            fn warnings(&self) -> Vec<Warning> {
                #[allow(non_snake_case, reason = "the parts are named by their types")]
                let ($($part,)+) = self;
                [$($part.warnings()),+].concat()
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
