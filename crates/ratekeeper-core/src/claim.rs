//! What a request asks of a store.

use std::fmt;

use crate::clock::Nanos;
use crate::key::Key;
use crate::limit::Limit;

/// The most claims that one request carries.
pub const MAX_CLAIMS: usize = 8;

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// This many units, charged when the request is admitted. Zero units are a peek.
    Units(u64),
    /// Known later: the request is admitted if one unit would fit, and charged when it is settled.
    Deferred,
}

impl Cost {
    /// Returns the units that must fit now.
    #[must_use]
    pub fn needed(&self) -> u64 {
        match self {
            Self::Units(units) => *units,
            Self::Deferred => 1,
        }
    }

    /// Returns the units charged now.
    #[must_use]
    pub fn charged(&self) -> u64 {
        match self {
            Self::Units(units) => *units,
            Self::Deferred => 0,
        }
    }
}

impl From<u64> for Cost {
    fn from(units: u64) -> Self {
        Self::Units(units)
    }
}

impl Default for Cost {
    /// One unit.
    fn default() -> Self {
        Self::Units(1)
    }
}

/// Whether a limit has a say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A refusal refuses the request.
    #[default]
    Enforced,
    /// The limit counts and is observed, but refuses nothing.
    Shadowed,
}

/// One limit's question: may this key spend that much?
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// Whom it counts for.
    pub key: Key,
    /// What the request costs under this limit.
    pub cost: Cost,
    /// Whether the limit has a say.
    pub mode: Mode,
    /// Whether a receipt is wanted, to settle the charge later.
    pub settles: bool,
}

impl<'a> Claim<'a> {
    /// Creates an enforced claim of one unit that is not settled.
    pub fn new(limit: &'a Limit, key: impl Into<Key>) -> Self {
        Self {
            limit,
            key: key.into(),
            cost: Cost::default(),
            mode: Mode::Enforced,
            settles: false,
        }
    }

    /// Returns the claim with this cost.
    #[must_use]
    pub fn with_cost(self, cost: impl Into<Cost>) -> Self {
        Self {
            cost: cost.into(),
            ..self
        }
    }

    /// Returns the claim without a say.
    #[must_use]
    pub fn shadowed(self) -> Self {
        Self {
            mode: Mode::Shadowed,
            ..self
        }
    }

    /// Returns the claim with a receipt.
    #[must_use]
    pub fn settled_later(self) -> Self {
        Self {
            settles: true,
            ..self
        }
    }
}

/// The claims of one request, at most [`MAX_CLAIMS`]: all are charged or none is.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    claims: &'a [Claim<'a>],
    peek: bool,
    as_of: Option<Nanos>,
}

impl<'a> Claims<'a> {
    /// Creates the claims of a request.
    ///
    /// # Errors
    ///
    /// [`TooManyClaims`] when there are more than [`MAX_CLAIMS`].
    pub fn new(claims: &'a [Claim<'a>]) -> Result<Self, TooManyClaims> {
        if claims.len() > MAX_CLAIMS {
            return Err(TooManyClaims(claims.len()));
        }
        Ok(Self {
            claims,
            peek: false,
            as_of: None,
        })
    }

    /// Puts claims back together that were taken from a request.
    pub(crate) fn lent(claims: &'a [Claim<'a>], peek: bool, as_of: Option<Nanos>) -> Self {
        Self {
            claims,
            peek,
            as_of,
        }
    }

    /// Creates the claims of a request with a single one.
    #[must_use]
    pub fn one(claim: &'a Claim<'a>) -> Self {
        Self {
            claims: std::slice::from_ref(claim),
            peek: false,
            as_of: None,
        }
    }

    /// Returns the claims as a question that charges nothing whatever the answer.
    #[must_use]
    pub fn peek(self) -> Self {
        Self { peek: true, ..self }
    }

    /// Returns whether nothing is to be charged.
    #[must_use]
    pub fn is_peek(&self) -> bool {
        self.peek
    }

    /// Returns the claims as of a moment that [`Store::now`](crate::Store::now) gave or promised:
    /// buckets are charged as if it was now, so that whoever waited for it loses nothing by waking
    /// up late.
    ///
    /// A moment that is still to come is now. Windows and logs are decided at the present moment
    /// whatever is asked, and so is everything by a store that names no moments.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::{Acquire, Claim, Claims, Limit, ManualClock, Memory, Nanos, Quota, Store};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let memory = Memory::builder().clock(time.clone()).build();
    /// let limit = Limit::leaky_bucket("even", Quota::per_second(10).with_burst(1))?;
    /// let claim = Claim::new(&limit, "alice");
    /// let admitted = |claims: Claims<'_>| {
    ///     matches!(memory.acquire(&claims), Acquire::Now(Ok(answer)) if answer.decision.is_allowed())
    /// };
    ///
    /// assert!(admitted(Claims::one(&claim)));
    /// // A unit was promised for 100 ms and another for 200 ms, and nobody looked until now.
    /// time.advance(Duration::from_millis(205));
    /// assert!(admitted(Claims::one(&claim).as_of(Nanos::new(100_000_000))));
    /// assert!(admitted(Claims::one(&claim).as_of(Nanos::new(200_000_000))));
    /// assert!(!admitted(Claims::one(&claim).as_of(Nanos::new(300_000_000))), "that is still to come");
    /// # Ok::<(), ratekeeper_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn as_of(self, moment: Nanos) -> Self {
        Self {
            as_of: Some(moment),
            ..self
        }
    }

    /// Returns the moment to decide as of, if it is not the present one.
    #[must_use]
    pub fn moment(&self) -> Option<Nanos> {
        self.as_of
    }

    /// Returns the claims in their order.
    #[must_use]
    pub fn as_slice(&self) -> &'a [Claim<'a>] {
        self.claims
    }
}

/// A request carried more claims than a store decides at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyClaims(usize);

impl fmt::Display for TooManyClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} limits apply to one request, at most {MAX_CLAIMS} can",
            self.0
        )
    }
}

impl std::error::Error for TooManyClaims {}
