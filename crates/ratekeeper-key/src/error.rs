//! Why a request has no key.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

/// An extractor found no key: who is asking is missing or malformed.
///
/// `Display` is for the client and names neither values nor internals; [`detail`](Self::detail) is
/// for the log. Neither ever shows what the client sent.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{KeyError, KeyErrorKind};
///
/// let error = KeyError::missing("tenant");
/// assert_eq!(error.kind(), KeyErrorKind::Missing);
/// assert_eq!(error.status(), http::StatusCode::BAD_REQUEST);
/// assert_eq!(error.to_string(), "the request does not say who is asking");
/// assert_eq!(error.detail().to_string(), "the request has no tenant");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeyError {
    kind: KeyErrorKind,
    status: StatusCode,
    what: &'static str,
    name: Option<Name>,
}

/// The configured name of what is missing.
#[derive(Clone, PartialEq, Eq)]
enum Name {
    Shared(Arc<str>),
    Static(&'static str),
}

/// What went wrong when a key was extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyErrorKind {
    /// The server did not say who its peer is. A mistake in the server: 500 by default.
    MissingPeer,
    /// The peer is a unix socket and no client address is known. A mistake in the server: 500.
    NoAddress,
    /// The request carries no such identity: 400, for credentials 401.
    Missing,
    /// The identity is there, and is not what it has to be: 400.
    Malformed,
    /// The identity may not be used: 403.
    Forbidden,
}

impl KeyError {
    pub(crate) fn missing_peer() -> Self {
        Self::new(KeyErrorKind::MissingPeer, "peer")
    }

    pub(crate) fn no_address() -> Self {
        Self::new(KeyErrorKind::NoAddress, "address")
    }

    /// Returns the error for an identity that the request does not carry; `what` names it in the
    /// log, as in `tenant`.
    #[must_use]
    pub fn missing(what: &'static str) -> Self {
        Self::new(KeyErrorKind::Missing, what)
    }

    /// Returns the error for an identity that is not well-formed; `what` names it in the log.
    #[must_use]
    pub fn malformed(what: &'static str) -> Self {
        Self::new(KeyErrorKind::Malformed, what)
    }

    /// Returns the error for an identity that may not be used; `what` names it in the log.
    #[must_use]
    pub fn forbidden(what: &'static str) -> Self {
        Self::new(KeyErrorKind::Forbidden, what)
    }

    fn new(kind: KeyErrorKind, what: &'static str) -> Self {
        let status = match kind {
            KeyErrorKind::MissingPeer | KeyErrorKind::NoAddress => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            KeyErrorKind::Missing | KeyErrorKind::Malformed => StatusCode::BAD_REQUEST,
            KeyErrorKind::Forbidden => StatusCode::FORBIDDEN,
        };
        Self {
            kind,
            status,
            what,
            name: None,
        }
    }

    /// Adds the configured name, such as that of a header field, to what the log says.
    #[must_use]
    pub(crate) fn named(mut self, name: &Arc<str>) -> Self {
        self.name = Some(Name::Shared(Arc::clone(name)));
        self
    }

    /// Adds the name of a type to what the log says.
    #[must_use]
    pub(crate) fn of_type(mut self, name: &'static str) -> Self {
        self.name = Some(Name::Static(name));
        self
    }

    /// Replaces the status of the refusal. Anything but a client or server error becomes 500.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        let is_error = status.is_client_error() || status.is_server_error();
        self.status = if is_error {
            status
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        self
    }

    /// Returns what went wrong.
    #[must_use]
    pub fn kind(&self) -> KeyErrorKind {
        self.kind
    }

    /// Returns the HTTP status to refuse the request with.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the sentence for the log: what is missing, and what the server's author can do.
    #[must_use]
    pub fn detail(&self) -> impl fmt::Display + '_ {
        Detail(self)
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            KeyErrorKind::MissingPeer | KeyErrorKind::NoAddress => {
                "the server could not tell who is asking"
            }
            KeyErrorKind::Missing => "the request does not say who is asking",
            KeyErrorKind::Malformed => "the request says malformedly who is asking",
            KeyErrorKind::Forbidden => "the identity in the request may not be used",
        })
    }
}

impl fmt::Debug for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyError")
            .field("kind", &self.kind)
            .field("status", &self.status)
            .field("detail", &format_args!("{}", Detail(self)))
            .finish()
    }
}

impl std::error::Error for KeyError {}

struct Detail<'a>(&'a KeyError);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            KeyErrorKind::MissingPeer => {
                return f.write_str(
                    "the request has no socket address: serve the axum router with \
                     `into_make_service_with_connect_info::<SocketAddr>()`, or insert \
                     `PeerAddr` into the extensions of every request",
                );
            }
            KeyErrorKind::NoAddress => {
                return f.write_str(
                    "the peer is a unix socket and names no client: call \
                     `ClientIp::trust_unix_sockets` and let the proxy name its client",
                );
            }
            KeyErrorKind::Missing => write!(f, "the request has no {}", self.0.what)?,
            KeyErrorKind::Malformed => write!(f, "the request has a malformed {}", self.0.what)?,
            KeyErrorKind::Forbidden => write!(f, "the request has a forbidden {}", self.0.what)?,
        }
        match &self.0.name {
            None => Ok(()),
            Some(Name::Shared(name)) => write!(f, " \"{}\"", name.escape_debug()),
            Some(Name::Static(name)) => write!(f, " `{name}`"),
        }
    }
}
