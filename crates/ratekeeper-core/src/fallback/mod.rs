//! What happens while a shared store is away.

mod breaker;
mod builder;
mod share;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::async_store::OwnedClaims;
use crate::claim::{Claim, Claims, Mode};
use crate::decision::{Decision, Outcome, Standing, Wait};
use crate::inspect::{Done, Inspect};
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::memory::Memory;
use crate::observer::Observer;
use crate::receipt::{Receipt, Settle};
use crate::store::{Acquire, Answer, Store, StoreError, StoreErrorKind};

pub use self::builder::{FallbackBuilder, OnFailure};

use self::breaker::{Breaker, Pass};
use self::share::Shares;

/// A shared store with a deadline, a breaker, and something to go on with while it is away.
///
/// Every call has a deadline of 50 ms unless set otherwise. After five failures in a row the
/// breaker opens: requests no longer ask, and once a second a probe beside them, which charges
/// nothing, finds out whether the store is back. No more than 1,024 calls are under way at once;
/// a request beyond them is treated as one whose call has failed.
///
/// What a request is told then is a matter of the limit: [`OnFailure::Local`] unless set otherwise.
/// It is one answer for all limits of a request: if one of them refuses then, the request is
/// refused; the others are decided by the local store, all or none.
///
/// An [`Observer`] is told once when the store is lost and once when it is back.
///
/// # What is charged
///
/// A call that ends in the deadline may have charged. If the request goes on, the charge stays, once;
/// if it does not, or is dropped while it waits, the call is dropped as well, and a store keeps its
/// part of the contract by giving back what nobody waits for any more.
///
/// # Limits
///
/// It needs a tokio runtime: outside of one every request takes the way of a failed call. Stamps of
/// both stores' receipts stay below 2^63; so a store of this kind does not go inside another.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Memory, OnFailure, WithFallback};
/// # let shared = Memory::new();
///
/// // `shared` is a store that several nodes use.
/// let store = WithFallback::builder(shared)
///     .nodes(4)
///     .on_failure_of("payments", OnFailure::Refuse)
///     .build();
/// # let _ = store;
/// ```
pub struct WithFallback<A, B = Memory>(Arc<Inner<A, B>>);

struct Inner<A, B> {
    first: A,
    local: B,
    deadline: Duration,
    breaker: Breaker,
    slots: Slots,
    shares: Shares,
    on_failure: OnFailure,
    on_failure_of: Vec<(String, OnFailure)>,
    observer: Arc<dyn Observer>,
}

/// Set in the stamp of what the local store charged.
const LOCAL: u64 = 1 << 63;

type Answering = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send>>;

impl<A: Store> WithFallback<A> {
    /// Starts a store that asks `first`, and decides in a [`Memory`] of its own while that is away.
    pub fn builder(first: A) -> FallbackBuilder<A> {
        FallbackBuilder::new(first)
    }
}

impl<A, B> WithFallback<A, B> {
    /// Returns the store that is asked first.
    #[must_use]
    pub fn first(&self) -> &A {
        &self.0.first
    }

    /// Returns the store that decides while the first is away.
    #[must_use]
    pub fn local(&self) -> &B {
        &self.0.local
    }
}

impl<A, B> Clone for WithFallback<A, B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A, B> fmt::Debug for WithFallback<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithFallback")
            .field("deadline", &self.0.deadline)
            .field("on_failure", &self.0.on_failure)
            .field("on_failure_of", &self.0.on_failure_of)
            .finish_non_exhaustive()
    }
}

impl<A: Store, B: Store> Inner<A, B> {
    fn on_failure(&self, claim: &Claim<'_>) -> OnFailure {
        let name = claim.limit.name();
        let own = self.on_failure_of.iter().find(|(limit, _)| limit == name);
        let on_failure = own.map_or(self.on_failure, |(_, on_failure)| *on_failure);
        // A shadowed limit refuses nothing.
        if on_failure == OnFailure::Refuse && claim.mode == Mode::Shadowed {
            OnFailure::Allow
        } else {
            on_failure
        }
    }

    fn failed(&self, error: &StoreError) {
        // That we ask too much says nothing of the store.
        if error.kind() == StoreErrorKind::Overloaded {
            return;
        }
        if self.breaker.failed() {
            self.observer.store_lost(error);
        }
    }

    /// Asks the store something that charges nothing, to see whether it is back.
    fn probe(self: &Arc<Self>, claims: &Claims<'_>, runtime: &Handle) {
        let asked = self.first.acquire(&claims.peek());
        let inner = Arc::clone(self);
        runtime.spawn(async move {
            let answered = match asked {
                Acquire::Now(answer) => answer.is_ok(),
                Acquire::Later(answer) => timeout(inner.deadline, answer)
                    .await
                    .is_ok_and(|answer| answer.is_ok()),
            };
            if inner.breaker.probed(answered) {
                inner.observer.store_back();
            }
        });
    }

    /// Answers without the first store. `late`: the caller has waited, and may have to give back what
    /// is charged now.
    fn fall_back(
        &self,
        claims: &Claims<'_>,
        error: StoreError,
        late: bool,
    ) -> Acquire<impl Future<Output = Result<Answer, StoreError>> + Send + use<A, B>> {
        let asked = claims.as_slice();
        let on_failure = |claim: &Claim<'_>| self.on_failure(claim);
        if asked
            .iter()
            .any(|claim| on_failure(claim) == OnFailure::Refuse)
        {
            return Acquire::Now(Err(error));
        }
        let mut shares = Vec::with_capacity(asked.len());
        for claim in asked {
            let share = match on_failure(claim) {
                OnFailure::Local => match self.shares.of(claim.limit) {
                    Ok(share) => Some(share),
                    Err(_) => return Acquire::Now(Err(error)),
                },
                OnFailure::Refuse | OnFailure::Allow => None,
            };
            shares.push(share);
        }
        let local: Vec<Claim<'_>> = asked
            .iter()
            .zip(&shares)
            .filter_map(|(claim, share)| {
                share.as_ref().map(|limit| Claim {
                    limit,
                    settles: claim.settles || late,
                    ..*claim
                })
            })
            .collect();
        let local = Claims::lent(&local, claims.is_peek(), None);
        match self.local.acquire(&local) {
            Acquire::Now(answer) => {
                Acquire::Now(answer.map(|answer| merge(&Merged::new(asked, &shares), answer)))
            }
            Acquire::Later(answer) => {
                let merged = Merged::new(asked, &shares);
                Acquire::Later(async move { Ok(merge(&merged, answer.await?)) })
            }
        }
    }

    fn answer_without(&self, claims: &Claims<'_>, error: StoreError) -> Acquire<Answering>
    where
        A: Store,
    {
        match self.fall_back(claims, error, false) {
            Acquire::Now(answer) => Acquire::Now(answer),
            Acquire::Later(answer) => Acquire::Later(Box::pin(answer)),
        }
    }

    /// Waits for the first store's answer until the deadline, and answers without it then.
    async fn wait(
        self: Arc<Self>,
        answer: A::Future,
        claims: OwnedClaims,
        slot: Slot<A, B>,
    ) -> Result<Answer, StoreError> {
        let mut answer = Box::pin(answer);
        let (error, unanswered) = match timeout(self.deadline, &mut answer).await {
            Ok(Ok(answer)) => {
                self.breaker.succeeded();
                return Ok(answer);
            }
            Ok(Err(error)) => (error, None),
            Err(_) => (StoreError::new(StoreErrorKind::Timeout), Some(answer)),
        };
        self.failed(&error);
        let fallen = match claims.with(|claims| self.fall_back(claims, error, true)) {
            Acquire::Now(answer) => answer,
            Acquire::Later(answer) => answer.await,
        };
        let goes_on = fallen
            .as_ref()
            .is_ok_and(|answer| answer.decision.is_allowed());
        if let Some(unanswered) = unanswered
            && goes_on
        {
            // Whatever it charges stays: a call that is dropped would be given back.
            tokio::spawn(async move {
                let _ = unanswered.await;
                drop(slot);
            });
        }
        fallen
    }
}

/// What is to become of the local store's answer.
struct Merged(Vec<Part>);

struct Part {
    limit: Limit,
    share: Option<Limit>,
    key: Key,
    shadowed: bool,
}

impl Merged {
    fn new(claims: &[Claim<'_>], shares: &[Option<Limit>]) -> Self {
        let parts = claims.iter().zip(shares).map(|(claim, share)| Part {
            limit: claim.limit.clone(),
            share: share.clone(),
            key: claim.key,
            shadowed: claim.mode == Mode::Shadowed,
        });
        Self(parts.collect())
    }
}

/// Puts what the local store said in the places of the claims it was asked, and an admission in
/// those that need none.
fn merge(merged: &Merged, answer: Answer) -> Answer {
    let mut outcomes = answer.decision.outcomes().iter();
    let mut receipts = answer.receipts.into_iter().peekable();
    let mut decision = Decision::UNLIMITED;
    let mut marked = Vec::with_capacity(receipts.len());
    for part in &merged.0 {
        let fresh = Standing {
            remaining: part.limit.capacity(),
            next: 0,
            reset: 0,
        };
        let own = part.share.as_ref().and_then(|_| outcomes.next().copied());
        let outcome = own.unwrap_or_else(|| Outcome::new(fresh, Wait::None));
        decision.push(outcome, part.shadowed);
        let of_this = |receipt: &Receipt| {
            Some(&receipt.limit) == part.share.as_ref() && receipt.key == part.key
        };
        if outcome.is_allowed()
            && let Some(receipt) = receipts.next_if(of_this)
        {
            marked.push(Receipt {
                limit: part.limit.clone(),
                stamp: receipt.stamp | LOCAL,
                ..receipt
            });
        }
    }
    Answer {
        decision,
        receipts: marked,
    }
}

impl<A: Store, B: Store> Store for WithFallback<A, B> {
    type Future = Answering;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Answering> {
        let inner = &self.0;
        let away = || StoreError::new(StoreErrorKind::Unavailable);
        let Ok(runtime) = Handle::try_current() else {
            return inner.answer_without(claims, away());
        };
        match inner.breaker.pass() {
            Pass::Ask => {}
            Pass::Fall => return inner.answer_without(claims, away()),
            Pass::FallAndProbe => {
                inner.probe(claims, &runtime);
                return inner.answer_without(claims, away());
            }
        }
        let Some(slot) = Slot::take(inner) else {
            let error = StoreError::new(StoreErrorKind::Overloaded);
            return inner.answer_without(claims, error);
        };
        match inner.first.acquire(claims) {
            Acquire::Now(Ok(answer)) => {
                inner.breaker.succeeded();
                Acquire::Now(Ok(answer))
            }
            Acquire::Now(Err(error)) => {
                inner.failed(&error);
                inner.answer_without(claims, error)
            }
            Acquire::Later(answer) => {
                let waiting = Arc::clone(inner).wait(answer, claims.into(), slot);
                Acquire::Later(Box::pin(waiting))
            }
        }
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        if receipt.stamp & LOCAL == 0 {
            self.0.first.settle(receipt, how);
        } else if let Ok(limit) = self.0.shares.of(&receipt.limit) {
            let receipt = Receipt {
                limit,
                stamp: receipt.stamp & !LOCAL,
                ..receipt
            };
            self.0.local.settle(receipt, how);
        }
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        self.0.first.supports(limit)?;
        match self.0.on_failure(&Claim::new(limit, Key::GLOBAL)) {
            OnFailure::Local => self.0.local.supports(&self.0.shares.of(limit)?),
            OnFailure::Refuse => Ok(()),
            OnFailure::Allow => {
                self.0.observer.diagnosed(
                    "allows-on-failure",
                    "a limit lets everything through while the shared store is away; \
                     use OnFailure::Local or OnFailure::Refuse where that must not be",
                );
                Ok(())
            }
        }
    }
}

impl<A: Inspect, B: Inspect> Inspect for WithFallback<A, B> {
    /// Resets the key in both stores.
    fn reset(&self, limit: &Limit, key: &Key) -> Done {
        let first = self.0.first.reset(limit, key);
        let local = self.0.shares.of(limit).ok();
        let local = local.map(|limit| self.0.local.reset(&limit, key));
        Box::pin(async move {
            let first = first.await;
            if let Some(local) = local {
                local.await?;
            }
            first
        })
    }
}

/// Calls that may be under way. Relaxed: a count that nothing else is read through.
struct Slots {
    taken: AtomicUsize,
    most: usize,
}

/// The place of one call under way.
struct Slot<A, B>(Arc<Inner<A, B>>);

impl<A, B> Slot<A, B> {
    fn take(inner: &Arc<Inner<A, B>>) -> Option<Self> {
        let Slots { taken, most } = &inner.slots;
        if taken.fetch_add(1, Ordering::Relaxed) < *most {
            Some(Self(Arc::clone(inner)))
        } else {
            taken.fetch_sub(1, Ordering::Relaxed);
            None
        }
    }
}

impl<A, B> Drop for Slot<A, B> {
    fn drop(&mut self) {
        self.0.slots.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
