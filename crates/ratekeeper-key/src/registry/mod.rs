//! Extractors by name, for rules that are data.

mod error;
mod parse;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;

pub use error::{ExtractorError, ExtractorErrorKind};

use self::parse::Parser;
use crate::{ClientIp, KeyExtractor, Keyed, Warning};

/// The names that no extractor of one's own can have.
const RESERVED: [&str; 15] = [
    "bearer",
    "cookie",
    "custom",
    "else",
    "global",
    "grpc-method",
    "grpc-service",
    "header",
    "host",
    "ip",
    "method",
    "or",
    "peer",
    "query",
    "route",
];

/// Reads extractors from text, such as `header:x-api-key or ip`.
///
/// | text | extractor |
/// |---|---|
/// | `ip`, `ip:32/48` | the registry's [`ClientIp`], with the given [`Prefixes`](crate::Prefixes) |
/// | `peer` | [`Peer`](crate::Peer) |
/// | `header:NAME`, `cookie:NAME`, `query:NAME` | [`Header`](crate::Header), [`Cookie`](crate::Cookie), [`Query`](crate::Query) |
/// | `bearer` | [`BearerToken`](crate::BearerToken) |
/// | `route` | `MatchedRoute` (feature `axum`) |
/// | `method`, `global` | [`Method`](crate::Method), [`Global`](crate::Global) |
/// | `host`, `host:a.example\|b.example` | [`Host`](crate::Host), any or the known ones |
/// | `grpc-method:pkg.Service/Method\|…`, `grpc-service:pkg.Service\|…` | [`GrpcMethod`](crate::GrpcMethod), [`GrpcService`](crate::GrpcService) |
/// | `NAME` | one of your own, by [`with`](Self::with) |
/// | `(a, b)` | a tuple of two to four |
/// | `a or b` | [`KeyExtractor::or`] |
/// | `a else 401`, `a else shared`, `a else exempt` | [`KeyExtractor::on_failure`] |
///
/// `or` binds more closely than `else`; parentheses group. Cookie and parameter names are
/// percent-encoded where they hold anything but letters, digits and `-._~`.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{FrontEnd, KeyExtractor, Networks, Registry, by_extension};
///
/// #[derive(Clone)]
/// struct Tenant(u64);
///
/// let registry = Registry::new()
///     .with_client_ip(FrontEnd::Nginx.within(Networks::loopback()))
///     .with("tenant", by_extension(|tenant: &Tenant| tenant.0))?;
/// let extractor = registry.parse("(tenant or ip, method)")?;
/// assert_eq!(extractor.name(), "(tenant or ip, method)");
///
/// let error = registry.parse("(tenant, plan)").unwrap_err();
/// assert_eq!(error.position(), 9);
/// # Ok::<_, ratekeeper_key::ExtractorError>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    client_ip: ClientIp,
    named: BTreeMap<Box<str>, Arc<dyn KeyExtractor>>,
}

impl Registry {
    /// Returns the registry of the built-in extractors; `ip` trusts no proxy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what `ip` means: which proxies are trusted is a matter of the server, not of a
    /// rule.
    #[must_use]
    pub fn with_client_ip(self, client_ip: ClientIp) -> Self {
        Self { client_ip, ..self }
    }

    /// Adds an extractor under a name of lower-case letters, digits and hyphens. One that was added
    /// by the same name before is replaced.
    ///
    /// # Errors
    ///
    /// [`ExtractorErrorKind::BadName`] when the name has another form or is a built-in one.
    pub fn with(
        mut self,
        name: &str,
        extractor: impl KeyExtractor,
    ) -> Result<Self, ExtractorError> {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let starts = name.starts_with(|first: char| first.is_ascii_lowercase());
        if !starts || !name.bytes().all(good) || RESERVED.contains(&name) {
            return Err(ExtractorError::new(ExtractorErrorKind::BadName, 0, name));
        }
        let named = Named {
            name: name.into(),
            extractor,
        };
        self.named.insert(name.into(), Arc::new(named));
        Ok(self)
    }

    /// Reads an extractor; [`KeyExtractor::name`] prints it back.
    ///
    /// # Errors
    ///
    /// [`ExtractorError`] with the position of what is wrong.
    pub fn parse(&self, text: &str) -> Result<Arc<dyn KeyExtractor>, ExtractorError> {
        let (extractor, rest) = self.parse_prefix(text)?;
        if rest.is_empty() {
            Ok(extractor)
        } else {
            let position = text.len() - rest.len();
            Err(ExtractorError::new(
                ExtractorErrorKind::Unexpected,
                position,
                rest,
            ))
        }
    }

    /// Reads an extractor at the start of a text and returns it with what follows, white space
    /// stripped: for texts in which the extractor is only a part.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_prefix<'a>(
        &self,
        text: &'a str,
    ) -> Result<(Arc<dyn KeyExtractor>, &'a str), ExtractorError> {
        let mut parser = Parser::new(self, text);
        let extractor = parser.expression()?;
        Ok((extractor, parser.rest()))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("client_ip", &self.client_ip)
            .field("named", &self.named.keys())
            .finish()
    }
}

/// An extractor under the name that it was registered by.
struct Named<E> {
    name: Box<str>,
    extractor: E,
}

impl<E: KeyExtractor> KeyExtractor for Named<E> {
    fn extract(&self, parts: &Parts) -> Keyed {
        self.extractor.extract(parts)
    }

    fn client_chosen(&self) -> bool {
        self.extractor.client_chosen()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.extractor.warnings()
    }
}
