//! What an operator asks of a store, apart from deciding.

use std::future::{Future, ready};
use std::pin::Pin;

use crate::key::Key;
use crate::limit::Limit;
use crate::memory::Memory;
use crate::store::{Store, StoreError, StoreErrorKind};

/// An operator's verb on its way.
pub type Done = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// What an operator asks of a store. Looking at a key is [`Claims::peek`](crate::Claims::peek).
///
/// # Examples
///
/// A store of one's own that knows none of this:
///
/// ```
/// # use ratekeeper_core::*;
/// # use std::future::Ready;
/// # struct Mine;
/// # impl Store for Mine {
/// #     type Future = Ready<Result<Answer, StoreError>>;
/// #     fn acquire(&self, _: &Claims<'_>) -> Acquire<Self::Future> {
/// #         Acquire::Now(Ok(Answer { decision: Decision::UNLIMITED, receipts: Vec::new() }))
/// #     }
/// #     fn settle(&self, _: Receipt, _: Settle) {}
/// #     fn supports(&self, _: &Limit) -> Result<(), LimitError> { Ok(()) }
/// # }
/// impl Inspect for Mine {}
/// let any = AnyStore::new(Mine);
/// # let _ = any;
/// ```
pub trait Inspect: Store {
    /// Makes a key as fresh as one never seen.
    ///
    /// The future fails with [`StoreErrorKind::Unsupported`] unless this is overridden.
    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        let _ = (limit, key);
        Box::pin(ready(Err(StoreError::new(StoreErrorKind::Unsupported))))
    }
}

impl Inspect for Memory {
    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        Self::reset(self, limit, key);
        Box::pin(ready(Ok(())))
    }
}
