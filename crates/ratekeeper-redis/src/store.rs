//! Counters on a server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratekeeper_core::{
    Acquire, Answer, AnyStore, Claims, Decision, Done, Inspect, Key, Limit, LimitError, Receipt,
    Settle, Store, StoreError, StoreErrorKind,
};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::bounds::Numbers;
use crate::builder::RedisBuilder;
use crate::call::Call;
use crate::link::Link;
use crate::names::{KeyNames, Namer};
use crate::reply;
use crate::request::{Request, Time};
use crate::settler::{End, Message};

/// How long a caller waits for an answer unless told otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Counters in Redis or Valkey, shared by everything that names the same server, namespace and
/// counter. Clones share one connection.
///
/// Answers come [`Later`](Acquire::Later), with a receipt for every charged claim. Without an answer
/// a call fails with [`StoreErrorKind::Timeout`] after a second unless
/// [set otherwise](RedisBuilder::patience); a deadline that suits requests, and what to do then, is the
/// business of `ratekeeper_core::WithFallback`.
///
/// It is bound to the tokio runtime in which it was built.
///
/// # Examples
///
/// See the [crate's documentation](crate).
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) link: Arc<Link>,
    pub(crate) namer: Namer,
    pub(crate) patience: Duration,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) ends: mpsc::Sender<Message>,
    #[cfg(feature = "__test-clock")]
    pub(crate) clock: Option<Arc<std::sync::atomic::AtomicU64>>,
}

impl Redis {
    /// Starts a store on the server at `url` (`redis://user:password@host:port/database`, or
    /// `rediss://` with one of the TLS features), counting in `namespace` under `names`.
    ///
    /// A namespace has 1 to 64 printable ASCII characters, neither spaces nor braces. Everything that
    /// uses the same one on the same server shares its counters.
    pub fn builder(url: &str, namespace: &str, names: KeyNames) -> RedisBuilder {
        RedisBuilder::new(url, namespace, names)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Connects if need be, and checks that no node with another secret uses the namespace.
    ///
    /// # Errors
    ///
    /// - [`StoreErrorKind::Unavailable`]: the server cannot be reached or is not able to answer now;
    /// - [`StoreErrorKind::Fault`]: a node with another secret counts in this namespace.
    pub async fn verify(&self) -> Result<(), StoreError> {
        self.0.link.live().await.map(drop)
    }

    /// Waits until every charge that was settled before has been ended on the server, or could not
    /// be; for orderly shutdowns and tests.
    pub async fn flush(&self) {
        let (done, all_done) = oneshot::channel();
        if self.0.ends.send(Message::Flush(done)).await.is_ok() {
            // An error says that the runtime is going down.
            let _ = all_done.await;
        }
    }
}

impl Inner {
    #[cfg(not(feature = "__test-clock"))]
    #[expect(clippy::unused_self, reason = "a test's store has a clock")]
    fn time(&self) -> Time {
        Time::Server
    }

    #[cfg(feature = "__test-clock")]
    fn time(&self) -> Time {
        self.clock.as_ref().map_or(Time::Server, |clock| {
            Time::Caller(clock.load(Ordering::Relaxed))
        })
    }

    pub(crate) fn settle(&self, receipt: &Receipt, how: Settle) {
        if let Some(end) = End::new(receipt, how, &self.namer, self.time()) {
            // When too many wait already, or the runtime is gone, the charge stays as it is.
            let _ = self.ends.try_send(Message::End(end));
        }
    }
}

impl Store for Redis {
    type Future = Call;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Call> {
        let inner = &self.0;
        if claims.as_slice().is_empty() {
            return Acquire::Now(Ok(Answer {
                decision: Decision::UNLIMITED,
                receipts: Vec::new(),
            }));
        }
        let Ok(permit) = Arc::clone(&inner.in_flight).try_acquire_owned() else {
            return Acquire::Now(Err(StoreError::new(StoreErrorKind::Overloaded)));
        };
        let request = match Request::new(claims, &inner.namer, inner.time()) {
            Ok(request) => request,
            Err(error) => {
                return Acquire::Now(Err(StoreError::with_source(StoreErrorKind::Fault, error)));
            }
        };
        let sent = Arc::new(AtomicBool::new(false));
        let (link, flag) = (Arc::clone(&inner.link), Arc::clone(&sent));
        let answering = Box::pin(async move {
            let mark = || flag.store(true, Ordering::Relaxed);
            let value = link.call(&request.command, request.time, mark).await?;
            drop(permit);
            reply::read(request, &value)
        });
        Acquire::Later(Call::new(Arc::clone(inner), sent, answering))
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        self.0.settle(&receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        Numbers::of(limit).map(drop)
    }
}

impl Inspect for Redis {
    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        let mut command = redis::cmd("DEL");
        for log in [false, true] {
            command.arg(self.0.namer.name_of(limit, key, log));
        }
        let link = Arc::clone(&self.0.link);
        Box::pin(async move { link.call(&command, Time::Server, || {}).await.map(drop) })
    }
}

impl From<Redis> for AnyStore {
    fn from(redis: Redis) -> Self {
        Self::new(redis)
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("names", &self.0.namer)
            .finish_non_exhaustive()
    }
}
