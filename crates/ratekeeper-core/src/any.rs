//! A store chosen while running.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::claim::Claims;
use crate::clock::Nanos;
use crate::inspect::{Done, Inspect};
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::memory::Memory;
use crate::receipt::{Receipt, Settle};
use crate::store::{Acquire, Answer, Store, StoreError};

/// Any store behind one type: memory in development, a shared one in production. Clones share it.
///
/// An answer that is known at once costs a call through a pointer; only one that comes later is
/// boxed.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{AnyStore, Async, Memory};
/// # use ratekeeper_core::{Answer, AsyncStore, Claims, Limit, LimitError, OwnedClaims, Receipt, Settle, StoreError, StoreErrorKind};
/// # struct Elsewhere;
/// # impl AsyncStore for Elsewhere {
/// #     async fn acquire(&self, _: OwnedClaims) -> Result<Answer, StoreError> {
/// #         Err(StoreError::new(StoreErrorKind::Unavailable))
/// #     }
/// #     fn settle(&self, _: Receipt, _: Settle) {}
/// #     fn supports(&self, _: &Limit) -> Result<(), LimitError> { Ok(()) }
/// # }
///
/// fn store(in_production: bool) -> AnyStore {
///     if in_production {
///         AnyStore::new(Async::new(Elsewhere))
///     } else {
///         AnyStore::from(Memory::new())
///     }
/// }
/// # let _ = (store(true), store(false));
/// ```
#[derive(Clone)]
pub struct AnyStore(Arc<dyn Erased>);

type Answering = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send>>;

trait Erased: Send + Sync {
    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Answering>;
    fn settle(&self, receipt: Receipt, how: Settle);
    fn supports(&self, limit: &Limit) -> Result<(), LimitError>;
    fn now(&self) -> Option<Nanos>;
    fn reset(&self, limit: &Limit, key: &Key) -> Done;
}

impl<St: Inspect> Erased for St {
    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Answering> {
        match Store::acquire(self, claims) {
            Acquire::Now(answer) => Acquire::Now(answer),
            Acquire::Later(answer) => Acquire::Later(Box::pin(answer)),
        }
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        Store::settle(self, receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        Store::supports(self, limit)
    }

    fn now(&self) -> Option<Nanos> {
        Store::now(self)
    }

    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        Inspect::reset(self, limit, key)
    }
}

impl AnyStore {
    /// Puts a store behind the common type.
    pub fn new(store: impl Inspect) -> Self {
        Self(Arc::new(store))
    }
}

impl Store for AnyStore {
    type Future = Answering;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Answering> {
        self.0.acquire(claims)
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        self.0.settle(receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        self.0.supports(limit)
    }

    fn now(&self) -> Option<Nanos> {
        self.0.now()
    }
}

impl Inspect for AnyStore {
    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        self.0.reset(limit, key)
    }
}

impl From<Memory> for AnyStore {
    fn from(memory: Memory) -> Self {
        Self::new(memory)
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyStore").finish_non_exhaustive()
    }
}
