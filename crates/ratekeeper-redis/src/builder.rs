//! Settings of a store on a server.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{NoObserver, Observer};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::link::Link;
use crate::names::{KeyNames, Namer};
use crate::settler;
use crate::store::{Inner, PATIENCE, Redis};

/// Calls under way at once, given up ones included, unless told otherwise.
const IN_FLIGHT: usize = 4_096;

/// Settings of a [`Redis`]; made by [`Redis::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct RedisBuilder {
    url: String,
    namespace: String,
    names: KeyNames,
    observer: Arc<dyn Observer>,
    patience: Duration,
    in_flight: usize,
    #[cfg(feature = "__test-clock")]
    clock: Option<Arc<std::sync::atomic::AtomicU64>>,
}

impl RedisBuilder {
    pub(crate) fn new(url: &str, namespace: &str, names: KeyNames) -> Self {
        Self {
            url: url.to_owned(),
            namespace: namespace.to_owned(),
            names,
            observer: Arc::new(NoObserver),
            patience: PATIENCE,
            in_flight: IN_FLIGHT,
            #[cfg(feature = "__test-clock")]
            clock: None,
        }
    }

    /// Sets whom to tell of clipped debts.
    pub fn observer(self, observer: impl Observer) -> Self {
        Self {
            observer: Arc::new(observer),
            ..self
        }
    }

    /// Sets how long a call waits before it fails with a timeout, its outcome unknown: one second
    /// unless set.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sets how many calls are under way at once, at least one: 4,096 unless set. More fail at once.
    /// A call that nobody waits for any more counts until its answer arrives.
    pub fn max_in_flight(self, calls: usize) -> Self {
        Self {
            in_flight: calls.clamp(1, Semaphore::MAX_PERMITS),
            ..self
        }
    }

    /// Takes the time from here, in microseconds since the epoch. Not for use: keys do not expire as
    /// they should.
    #[cfg(feature = "__test-clock")]
    #[doc(hidden)]
    pub fn test_clock(self, micros: Arc<std::sync::atomic::AtomicU64>) -> Self {
        Self {
            clock: Some(micros),
            ..self
        }
    }

    /// Creates the store. It connects when it is first asked; [`Redis::verify`] does so at once.
    ///
    /// # Errors
    ///
    /// - [`BuildErrorKind::Url`]: the address is not one, or needs a TLS feature;
    /// - [`BuildErrorKind::Namespace`]: the namespace is empty, longer than 64 bytes or has other
    ///   characters than it may;
    /// - [`BuildErrorKind::NoRuntime`]: called outside of a tokio runtime.
    pub fn build(self) -> Result<Redis, BuildError> {
        if !is_namespace(&self.namespace) {
            return Err(BuildError::new(BuildErrorKind::Namespace, self.namespace));
        }
        // The address may hold a password, so errors do not repeat it.
        let url = |error: redis::RedisError| BuildError {
            kind: BuildErrorKind::Url,
            value: String::new(),
            source: Some(Box::new(error)),
        };
        let info = self.url.as_str().into_connection_info().map_err(url)?;
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info).map_err(url)?;
        let runtime = Handle::try_current()
            .map_err(|_| BuildError::new(BuildErrorKind::NoRuntime, String::new()))?;
        let namer = Namer::new(&self.namespace, self.names);
        let link = Arc::new(Link::new(client, namer.canary(), runtime));
        let ends = settler::start(Arc::clone(&link), self.observer);
        Ok(Redis::new(Inner {
            link,
            namer,
            patience: self.patience,
            in_flight: Arc::new(Semaphore::new(self.in_flight)),
            ends,
            #[cfg(feature = "__test-clock")]
            clock: self.clock,
        }))
    }
}

fn is_namespace(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'))
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder")
            .field("namespace", &self.namespace)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Why a store was not built.
#[derive(Debug)]
pub struct BuildError {
    kind: BuildErrorKind,
    value: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What is wrong with the settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildErrorKind {
    /// The address is not one, or needs a TLS feature.
    Url,
    /// The namespace is empty, longer than 64 bytes, or holds spaces, braces or other than ASCII.
    Namespace,
    /// There is no tokio runtime here.
    NoRuntime,
}

impl BuildError {
    fn new(kind: BuildErrorKind, value: String) -> Self {
        Self {
            kind,
            value,
            source: None,
        }
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> BuildErrorKind {
        self.kind
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            BuildErrorKind::Url => f.write_str("the server's address is not valid"),
            BuildErrorKind::Namespace => write!(
                f,
                "invalid namespace {:?}: it has 1 to 64 printable ASCII characters, no space or brace",
                self.value
            ),
            BuildErrorKind::NoRuntime => {
                f.write_str("a store on a server is built inside a tokio runtime")
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}
