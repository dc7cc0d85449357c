//! A limit to wait for, without HTTP.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use ratekeeper_core::{
    Claim, Claims, Clock, Cost, Key, Limit, LimitError, Memory, Observer, Outcome, Receipt, Settle,
    Store, StoreError, TokioClock, Wait,
};

use super::{Arrived, Lines, Queue, Turn, Waited, Waiters, ask};

/// A limit that is waited for: asked for a turn, it lets requests of one key leave in order, at the
/// limit's rate.
///
/// Clones share counts and lines. Needs a tokio runtime with time enabled. The order holds among
/// those who ask this pacer; the rate holds for all who count in the same store.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tower_ratekeeper::queue::{Pacer, Queue};
/// use tower_ratekeeper::{Limit, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = Limit::leaky_bucket("mail", Quota::per_second(100))?;
/// let mail = Pacer::new(limit, Queue::new(1_000).max_wait(Duration::from_secs(20)))?;
///
/// for _ in 0..3 {
///     let grant = mail.turn("example.org").await?;
///     assert!(grant.waited().is_none_or(|waited| waited.ahead() == 0));
/// }
/// # Ok(())
/// # }
/// ```
pub struct Pacer<St = Memory>(Arc<Inner<St>>);

struct Inner<St> {
    store: St,
    limit: Limit,
    queue: Queue,
    lines: Arc<Lines>,
    observer: OnceLock<Arc<dyn Observer>>,
}

impl Pacer {
    /// Creates a pacer that counts in a memory of its own, by tokio's clock: in tests it follows
    /// the time that tokio's is paused at.
    ///
    /// # Errors
    ///
    /// When [`at_once`](Queue::at_once) was set for a limit without a burst, or cannot be counted.
    pub fn new(limit: Limit, queue: Queue) -> Result<Self, LimitError> {
        let clock = Clock::new(TokioClock::new());
        Self::on(Memory::builder().clock(clock).build(), limit, queue)
    }
}

impl<St: Store> Pacer<St> {
    /// Creates a pacer that counts in this store.
    ///
    /// In tests with paused time, a [`Memory`] has to be given a [`TokioClock`].
    ///
    /// # Errors
    ///
    /// As [`Pacer::new`], and when the store cannot keep the limit.
    pub fn on(store: St, limit: Limit, queue: Queue) -> Result<Self, LimitError> {
        let limit = queue.shape(limit)?;
        store.supports(&limit)?;
        Ok(Self(Arc::new(Inner {
            store,
            limit,
            queue,
            lines: Arc::new(Lines::new()),
            observer: OnceLock::new(),
        })))
    }

    /// Returns the pacer, telling `observer` of waits. The first one that is set stays.
    #[must_use]
    pub fn with_observer(self, observer: impl Observer) -> Self {
        let _ = self.0.observer.set(Arc::new(observer));
        self
    }

    /// Waits until one unit of a key's is admitted.
    ///
    /// The place in the line is taken when the future is first polled, and given back when it is
    /// dropped.
    pub fn turn(&self, key: impl Into<Key>) -> Pace<St> {
        self.turn_n(key, 1)
    }

    /// Waits until `cost` units of a key's are admitted, all or none. Zero units do not wait.
    pub fn turn_n(&self, key: impl Into<Key>, cost: u64) -> Pace<St> {
        Pace {
            pacer: self.clone(),
            key: key.into(),
            cost,
            turn: None,
        }
    }

    /// Returns how many wait, for all keys together.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lines.waiting()
    }

    /// Sets what becomes of those who wait, and of those who would have to.
    pub fn set_waiters(&self, waiters: Waiters) {
        self.0.lines.set_waiters(waiters);
    }

    /// Returns the limit, with the burst that the queue gives it.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.0.limit
    }

    pub(super) fn settle(&self, receipt: Receipt, how: Settle) {
        self.0.store.settle(receipt, how);
    }
}

impl<St> Clone for Pacer<St> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<St> fmt::Debug for Pacer<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer")
            .field("limit", &self.0.limit)
            .field("queue", &self.0.queue)
            .finish_non_exhaustive()
    }
}

/// A future of one's turn; made by [`Pacer::turn`]. Dropped, it gives its place back.
#[must_use = "futures do nothing unless polled"]
pub struct Pace<St: Store = Memory> {
    pacer: Pacer<St>,
    key: Key,
    cost: u64,
    turn: Option<Box<Turn<St::Future>>>,
}

impl<St: Store> Future for Pace<St> {
    type Output = Result<Grant, PacerError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let inner = &this.pacer.0;
        let turn = match &mut this.turn {
            Some(turn) => turn,
            none => {
                let claim = Claim::new(&inner.limit, this.key)
                    .with_cost(Cost::Units(this.cost))
                    .settled_later();
                let arrival = ask(
                    &inner.lines,
                    inner.observer.get(),
                    &inner.store,
                    &Claims::one(&claim),
                    // What costs nothing is delayed by nothing.
                    if this.cost == 0 { usize::MAX } else { 0 },
                    &inner.queue,
                );
                match arrival {
                    Ok(arrived) => return Poll::Ready(Grant::of(arrived)),
                    Err(turn) => none.insert(turn),
                }
            }
        };
        turn.poll(cx, &inner.store).map(Grant::of)
    }
}

impl<St: Store> fmt::Debug for Pace<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace")
            .field("limit", &self.pacer.0.limit)
            .finish_non_exhaustive()
    }
}

/// A turn that was granted. Dropped, the charge stays; [`into_receipt`](Self::into_receipt) is for
/// those who may want to give it back.
#[derive(Debug)]
pub struct Grant {
    outcome: Option<Outcome>,
    waited: Option<Waited>,
    receipt: Option<Receipt>,
}

impl Grant {
    fn of(arrived: Arrived) -> Result<Self, PacerError> {
        let Arrived { answer, waited } = arrived;
        let answer = answer.map_err(PacerError::Store)?;
        let outcome = answer.decision.outcomes().first().copied();
        if !answer.decision.is_allowed() {
            return Err(PacerError::TooLong(TooLong {
                wait: answer.decision.wait(),
                waited,
            }));
        }
        Ok(Self {
            outcome,
            waited,
            receipt: answer.receipts.into_iter().next(),
        })
    }

    /// Returns how the key stands with the limit now.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Returns how the turn was waited for; `None` if it came at once.
    #[must_use]
    pub fn waited(&self) -> Option<Waited> {
        self.waited
    }

    /// Returns the receipt of the charge, to settle it with the store.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt
    }
}

/// Why there was no turn.
#[derive(Debug)]
#[non_exhaustive]
pub enum PacerError {
    /// The wait is too long, or there is no place left to wait.
    TooLong(TooLong),
    /// The store could not decide.
    Store(StoreError),
}

/// A wait that is longer than the queue allows, or without a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    wait: Wait,
    waited: Option<Waited>,
}

impl TooLong {
    /// Returns how long it would be until a request like this one was admitted, those before it
    /// counted: exact for buckets, and no more than the truth for windows and logs. `Never` is of a
    /// cost above the capacity.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// Returns how the request waited before it was refused; `None` if it was refused at once.
    #[must_use]
    pub fn waited(&self) -> Option<Waited> {
        self.waited
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait {
            Wait::For(wait) => write!(f, "the turn would come in {} ms, too late", millis(wait)),
            Wait::Never => f.write_str("the cost is above the capacity of the limit"),
            Wait::None | Wait::Unknown => f.write_str("the turn would come too late"),
        }
    }
}

/// Rounds up, so that waiting as long is enough.
fn millis(wait: Duration) -> u128 {
    wait.as_nanos().div_ceil(1_000_000)
}

impl Error for TooLong {}

impl fmt::Display for PacerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(too_long) => too_long.fmt(f),
            Self::Store(_) => f.write_str("the limit could not be asked"),
        }
    }
}

impl Error for PacerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooLong(_) => None,
            Self::Store(error) => Some(error),
        }
    }
}
