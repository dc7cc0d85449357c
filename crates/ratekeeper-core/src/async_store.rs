//! Stores as people write them: an async function.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::claim::{Claim, Claims, Cost, Mode};
use crate::clock::Nanos;
use crate::inspect::{Done, Inspect};
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::receipt::{Receipt, Settle};
use crate::store::{Acquire, Answer, Store, StoreError, StoreErrorKind};

/// A claim that owns its limit, for stores that have to wait.
#[derive(Clone, Debug)]
pub struct OwnedClaim {
    /// The limit.
    pub limit: Limit,
    /// Whom it counts for.
    pub key: Key,
    /// What the request costs under this limit.
    pub cost: Cost,
    /// Whether the limit has a say.
    pub mode: Mode,
    /// Whether a receipt is wanted even where nothing is charged yet.
    pub settles: bool,
}

/// The claims of one request, owned: what [`AsyncStore::acquire`] is asked.
#[derive(Clone, Debug)]
pub struct OwnedClaims {
    claims: Vec<OwnedClaim>,
    peek: bool,
    as_of: Option<Nanos>,
}

impl OwnedClaims {
    /// Returns the claims in their order, at most [`MAX_CLAIMS`](crate::MAX_CLAIMS).
    #[must_use]
    pub fn as_slice(&self) -> &[OwnedClaim] {
        &self.claims
    }

    /// Returns whether nothing is to be charged.
    #[must_use]
    pub fn is_peek(&self) -> bool {
        self.peek
    }

    /// Returns the moment to decide as of, if it is not the present one; see [`Claims::as_of`].
    #[must_use]
    pub fn moment(&self) -> Option<Nanos> {
        self.as_of
    }

    /// Lends the claims to somebody who asks another store.
    pub fn with<R>(&self, ask: impl FnOnce(&Claims<'_>) -> R) -> R {
        let lent: Vec<Claim<'_>> = self
            .claims
            .iter()
            .map(|claim| Claim {
                limit: &claim.limit,
                key: claim.key,
                cost: claim.cost,
                mode: claim.mode,
                settles: claim.settles,
            })
            .collect();
        ask(&Claims::lent(&lent, self.peek, self.as_of))
    }
}

impl From<&Claims<'_>> for OwnedClaims {
    fn from(claims: &Claims<'_>) -> Self {
        let owned = |claim: &Claim<'_>| OwnedClaim {
            limit: claim.limit.clone(),
            key: claim.key,
            cost: claim.cost,
            mode: claim.mode,
            settles: claim.settles,
        };
        Self {
            claims: claims.as_slice().iter().map(owned).collect(),
            peek: claims.is_peek(),
            as_of: claims.moment(),
        }
    }
}

/// A store as an async function; [`Async`] makes it a [`Store`].
///
/// The contract is the same: all claims are charged or none is, a refusal changes nothing, and no
/// interleaving of callers admits more than the limits allow. An answer carries a receipt for every
/// claim that was charged or [settles](OwnedClaim::settles), in the order of the claims, since the
/// caller may have to give the charges back.
///
/// Whoever waits may stop waiting: the future is then dropped where it stands. What has been charged
/// by then, or will be by a call that can no longer be stopped, has to be given back.
///
/// # Examples
///
/// A store that has to ask elsewhere, here pretended:
///
/// ```
/// use ratekeeper_core::{
///     Acquire, Answer, Async, AsyncStore, Limit, LimitError, Memory, OwnedClaims, Receipt, Settle,
///     Store, StoreError,
/// };
///
/// struct Elsewhere(Memory);
///
/// impl AsyncStore for Elsewhere {
///     async fn acquire(&self, claims: OwnedClaims) -> Result<Answer, StoreError> {
///         match claims.with(|claims| self.0.acquire(claims)) {
///             Acquire::Now(answer) => answer,
///             Acquire::Later(answer) => answer.await,
///         }
///     }
///
///     fn settle(&self, receipt: Receipt, how: Settle) {
///         self.0.settle(receipt, how);
///     }
///
///     fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
///         self.0.supports(limit)
///     }
/// }
///
/// fn is_a_store(_: &impl Store) {}
/// is_a_store(&Async::new(Elsewhere(Memory::new())));
/// ```
pub trait AsyncStore: Send + Sync + 'static {
    /// Decides all claims of a request, all or none.
    ///
    /// # Errors
    ///
    /// When the store cannot decide.
    fn acquire(
        &self,
        claims: OwnedClaims,
    ) -> impl Future<Output = Result<Answer, StoreError>> + Send;

    /// Ends a charge. Called from destructors: it returns at once and does not fail.
    fn settle(&self, receipt: Receipt, how: Settle);

    /// Checks that the store can keep this limit; asked when a layer is built.
    ///
    /// # Errors
    ///
    /// When it cannot, naming the bound.
    fn supports(&self, limit: &Limit) -> Result<(), LimitError>;

    /// Makes a key as fresh as one never seen.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`] unless overridden; otherwise when the store cannot.
    fn reset(&self, limit: Limit, key: Key) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (limit, key);
        async { Err(StoreError::new(StoreErrorKind::Unsupported)) }
    }
}

/// A [`Store`] of an [`AsyncStore`]; clones share it.
pub struct Async<T>(Arc<T>);

impl<T: AsyncStore> Async<T> {
    /// Creates a store of one that is written as an async function.
    #[must_use]
    pub fn new(store: T) -> Self {
        Self(Arc::new(store))
    }

    /// Returns what it was made of.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Async<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Async").finish_non_exhaustive()
    }
}

impl<T: AsyncStore> Store for Async<T> {
    type Future = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send>>;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
        let store = Arc::clone(&self.0);
        let claims = OwnedClaims::from(claims);
        Acquire::Later(Box::pin(async move { store.acquire(claims).await }))
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        self.0.settle(receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        self.0.supports(limit)
    }
}

impl<T: AsyncStore> Inspect for Async<T> {
    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        let (store, limit, key) = (Arc::clone(&self.0), limit.clone(), *key);
        Box::pin(async move { store.reset(limit, key).await })
    }
}
