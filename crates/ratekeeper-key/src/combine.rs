//! Extractors made of others: closures, fall-backs, failure policies.

use std::any::type_name;
use std::fmt;

use http::StatusCode;
use http::request::Parts;
use ratekeeper_core::Key;

use crate::{KeyErrorKind, KeyExtractor, Keyed, Warning};

/// Returns an extractor that asks a closure, which returns anything that becomes a [`Keyed`].
///
/// A closure that keys by text borrowed from the request returns a [`Key`]:
/// `|parts| Key::from(parts.uri.path())`.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{KeyExtractor, Keyed, by_fn};
///
/// let by_tenant = by_fn(|parts| {
///     let host = parts.headers.get("host")?.to_str().ok()?;
///     Some(host.split('.').next()?.to_ascii_lowercase())
/// });
/// let (parts, ()) = http::Request::get("/").header("host", "Acme.example.com").body(()).unwrap().into_parts();
/// assert_eq!(by_tenant.extract(&parts), Keyed::from("acme"));
/// ```
pub fn by_fn<F, K>(function: F) -> ByFn<F>
where
    F: Fn(&Parts) -> K + Send + Sync + 'static,
    K: Into<Keyed>,
{
    ByFn {
        function,
        client_chosen: true,
    }
}

/// An extractor that asks a closure; made by [`by_fn`].
#[derive(Clone)]
pub struct ByFn<F> {
    function: F,
    client_chosen: bool,
}

impl<F> ByFn<F> {
    /// Says that a client cannot bring itself fresh keys: what the closure returns was verified, or
    /// is one of few.
    #[must_use]
    pub fn verified(self) -> Self {
        Self {
            client_chosen: false,
            ..self
        }
    }
}

impl<F> fmt::Debug for ByFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByFn({})", type_name::<F>())
    }
}

impl<F, K> KeyExtractor for ByFn<F>
where
    F: Fn(&Parts) -> K + Send + Sync + 'static,
    K: Into<Keyed>,
{
    fn extract(&self, parts: &Parts) -> Keyed {
        (self.function)(parts).into()
    }

    fn client_chosen(&self) -> bool {
        self.client_chosen
    }
}

/// Asks a second extractor where the first finds no identity; made by [`KeyExtractor::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B> {
    first: A,
    second: B,
}

impl<A, B> Or<A, B> {
    pub(crate) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for Or<A, B> {
    fn extract(&self, parts: &Parts) -> Keyed {
        match self.first.extract(parts) {
            Keyed::Failed(error) if error.kind() == KeyErrorKind::Missing => {
                self.second.extract(parts)
            }
            keyed => keyed,
        }
    }

    fn client_chosen(&self) -> bool {
        self.first.client_chosen() || self.second.client_chosen()
    }

    fn name(&self) -> String {
        format!(
            "{} or {}",
            operand(self.first.name()),
            operand(self.second.name())
        )
    }

    fn warnings(&self) -> Vec<Warning> {
        [self.first.warnings(), self.second.warnings()].concat()
    }
}

/// Groups the text of an extractor that has a failure policy: `or` binds more closely.
fn operand(name: String) -> String {
    if has_policy(&name) {
        format!("({name})")
    } else {
        name
    }
}

/// Returns whether the text of an extractor ends with a failure policy that is not in parentheses.
fn has_policy(name: &str) -> bool {
    name.rsplit_once(" else ")
        .is_some_and(|(_, policy)| !policy.contains(')'))
}

/// What happens to a request without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// It is refused with this status: 400, 401, 403 or 500. Anything but a client or server error
    /// becomes 500.
    Refuse(StatusCode),
    /// It counts for one key that all such requests share, which no other key equals.
    Shared,
    /// The rule does not apply. Whoever leaves the identity out is unlimited; gives a warning.
    Exempt,
}

/// Prints the policy as it stands in the text of an extractor: the status, `shared` or `exempt`.
impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(status) => f.write_str(status.as_str()),
            Self::Shared => f.write_str("shared"),
            Self::Exempt => f.write_str("exempt"),
        }
    }
}

/// An extractor with a failure policy of its own; made by [`KeyExtractor::on_failure`].
#[derive(Clone, Debug)]
pub struct WithFailure<E> {
    extractor: E,
    policy: OnFailure,
}

impl<E> WithFailure<E> {
    pub(crate) fn new(extractor: E, policy: OnFailure) -> Self {
        Self { extractor, policy }
    }
}

impl<E: KeyExtractor> KeyExtractor for WithFailure<E> {
    fn extract(&self, parts: &Parts) -> Keyed {
        match (self.extractor.extract(parts), self.policy) {
            (Keyed::Failed(error), OnFailure::Refuse(status)) => {
                Keyed::Failed(error.with_status(status))
            }
            (Keyed::Failed(_), OnFailure::Shared) => Keyed::Key(Key::GLOBAL),
            (Keyed::Failed(_), OnFailure::Exempt) => Keyed::Exempt,
            (keyed @ (Keyed::Key(_) | Keyed::Exempt), _) => keyed,
        }
    }

    fn client_chosen(&self) -> bool {
        self.extractor.client_chosen()
    }

    fn name(&self) -> String {
        format!("{} else {}", operand(self.extractor.name()), self.policy)
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.extractor.warnings();
        if self.policy == OnFailure::Exempt {
            warnings.push(Warning::exempt_on_failure());
        }
        warnings
    }
}
