//! A limit to ask directly, over any store.

use crate::any::AnyStore;
use crate::claim::{Claim, Claims};
use crate::decision::Outcome;
use crate::inspect::Inspect;
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::store::{Acquire, Store, StoreError, StoreErrorKind};

/// A limit and the store that counts for it: ask it from a handler, and await the answer.
///
/// What [`Limiter`](crate::Limiter) is for memory this is for any store, a shared one above all.
/// Clones share their counts, and so does everything else that names the same counter on the
/// same store. A call that is dropped while it waits leaves nothing charged.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = std::task::Context::from_waker(std::task::Waker::noop());
/// use ratekeeper_core::{Limit, Memory, Quota, SharedLimiter};
///
/// let limit = Limit::token_bucket("mails", Quota::per_hour(20))?;
/// let mails: SharedLimiter = SharedLimiter::new(Memory::new().into(), limit)?;
/// # let checked = std::pin::pin!(async {
/// let outcome = mails.check_n("alice", 3).await?;
/// assert!(outcome.is_allowed());
/// assert_eq!(outcome.remaining(), 17);
///
/// mails.reset("alice").await?;
/// assert_eq!(mails.peek("alice").await?.remaining(), 20);
/// # Ok::<(), ratekeeper_core::StoreError>(())
/// # });
/// # let mut runtime = runtime;
/// # let std::task::Poll::Ready(checked) = checked.poll(&mut runtime) else { panic!("memory never waits") };
/// # checked?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedLimiter<St = AnyStore> {
    limit: Limit,
    store: St,
}

impl<St: Store> SharedLimiter<St> {
    /// Creates a limiter that counts in this store.
    ///
    /// # Errors
    ///
    /// When the store cannot keep the limit.
    pub fn new(store: St, limit: Limit) -> Result<Self, LimitError> {
        store.supports(&limit)?;
        Ok(Self { limit, store })
    }

    /// Spends one unit of a key's, if the limit admits it.
    ///
    /// # Errors
    ///
    /// When the store cannot decide.
    pub async fn check(&self, key: impl Into<Key>) -> Result<Outcome, StoreError> {
        self.check_n(key, 1).await
    }

    /// Spends `cost` units of a key's, all or none. A cost of zero spends nothing; one above the
    /// limit's capacity is never admitted.
    ///
    /// # Errors
    ///
    /// When the store cannot decide.
    pub async fn check_n(&self, key: impl Into<Key>, cost: u64) -> Result<Outcome, StoreError> {
        let claim = Claim::new(&self.limit, key).with_cost(cost);
        let answer = self.store.acquire(&Claims::one(&claim));
        Self::outcome(answer).await
    }

    /// Tells how a request of one unit would fare, and spends nothing.
    ///
    /// # Errors
    ///
    /// When the store cannot decide.
    pub async fn peek(&self, key: impl Into<Key>) -> Result<Outcome, StoreError> {
        let claim = Claim::new(&self.limit, key);
        let answer = self.store.acquire(&Claims::one(&claim).peek());
        Self::outcome(answer).await
    }

    async fn outcome(answer: Acquire<St::Future>) -> Result<Outcome, StoreError> {
        let answer = match answer {
            Acquire::Now(answer) => answer,
            Acquire::Later(answer) => answer.await,
        }?;
        let outcome = answer.decision.outcomes().first().copied();
        // A receipt that is dropped leaves its charge as it is.
        outcome.ok_or_else(|| StoreError::new(StoreErrorKind::Fault))
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }
}

impl<St: Inspect> SharedLimiter<St> {
    /// Makes a key as fresh as one never seen.
    ///
    /// # Errors
    ///
    /// When the store cannot.
    pub async fn reset(&self, key: impl Into<Key>) -> Result<(), StoreError> {
        self.store.reset(&self.limit, &key.into()).await
    }
}
