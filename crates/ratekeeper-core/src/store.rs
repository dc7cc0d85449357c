//! Where counters live.

use std::error::Error;
use std::fmt;
use std::future::Future;

use crate::claim::{Claim, Claims};
use crate::clock::Nanos;
use crate::decision::{Decision, Outcome};
use crate::limit::{Limit, LimitError};
use crate::receipt::{Receipt, Settle};

/// A decision now, or a future of one.
#[derive(Debug)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "an answer known at once is the common case and must not allocate"
)]
pub enum Acquire<F> {
    /// The store knew at once.
    Now(Result<Answer, StoreError>),
    /// The store has to ask elsewhere.
    Later(F),
}

/// A store's answer to the claims of one request.
#[derive(Debug)]
#[must_use]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// A receipt for each charged claim that wanted one, in the order of the claims.
    ///
    /// A store that answers later gives one for every charged claim, since its caller may have to
    /// give them back.
    pub receipts: Vec<Receipt>,
}

/// Keeps counters and decides claims against them.
///
/// The contract, which `ratekeeper-testkit` checks: all claims of a request are charged or none
/// is; a refusal changes nothing and creates no entry; no interleaving of callers admits more
/// than the limits allow. Those who write a store that has to wait implement it more easily
/// as an async function; see the crate that re-exports this one.
pub trait Store: Send + Sync + 'static {
    /// What an answer that takes time is. It owns what it needs.
    type Future: Future<Output = Result<Answer, StoreError>> + Send + 'static;

    /// Decides all claims of a request, all or none.
    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future>;

    /// Decides a single claim that is as plain as can be: units known now, no receipt, charged if
    /// admitted. `None` is no answer: [`acquire`](Self::acquire) is asked then.
    ///
    /// A store that knows at once spares its caller the larger answer with this.
    #[inline]
    fn check(&self, claim: &Claim<'_>) -> Option<Outcome> {
        let _ = claim;
        None
    }

    /// Ends a charge. Called from destructors: it returns at once and does not fail.
    fn settle(&self, receipt: Receipt, how: Settle);

    /// Checks that the store can keep this limit; asked when a layer is built.
    ///
    /// # Errors
    ///
    /// When it cannot, naming the bound.
    fn supports(&self, limit: &Limit) -> Result<(), LimitError>;

    /// Returns the present moment of the clock that the store decides by, for
    /// [`Claims::as_of`]; `None` where that is not a clock of this process.
    fn now(&self) -> Option<Nanos> {
        None
    }
}

/// A store could not decide.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Why a store could not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It could not be reached, or said that it is not able to answer now.
    Unavailable,
    /// It did not answer within the deadline. The claims may have been charged.
    Timeout,
    /// Too many questions were under way already.
    Overloaded,
    /// It answered something that makes no sense: a fault in the store or another's data under
    /// its keys.
    Fault,
    /// It does not know how to do what was asked.
    Unsupported,
}

impl StoreError {
    /// Creates an error without a source.
    #[must_use]
    pub fn new(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Creates an error with its source.
    #[must_use]
    pub fn with_source(
        kind: StoreErrorKind,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            kind,
            source: Some(source.into()),
        }
    }

    /// Returns why the store could not decide.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Unavailable => "the store is unavailable",
            StoreErrorKind::Timeout => "the store did not answer within the deadline",
            StoreErrorKind::Overloaded => "too many questions to the store are under way",
            StoreErrorKind::Fault => "the store answered something unexpected",
            StoreErrorKind::Unsupported => "the store does not know how to do this",
        })
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}
