//! A limit to ask directly, without HTTP.

use crate::decision::Outcome;
use crate::key::Key;
use crate::limit::{Limit, LimitError};
use crate::memory::Memory;
use crate::store::Store;

/// A limit and the memory that counts for it: ask it, and it answers at once.
///
/// For code that is not a Tower service, or for keys that only the handler knows. Clones share
/// their counts, and so does everything else on the same [`Memory`] that names the same counter.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Limit, Limiter, ManualClock, Memory, Quota, Wait};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let memory = Memory::builder().clock(time.clone()).build();
/// let logins = Limiter::on(&memory, Limit::sliding_log("logins", Quota::per_minute(2))?)?;
///
/// assert!(logins.check("alice").is_allowed());
/// assert!(logins.check("alice").is_allowed());
/// assert_eq!(logins.check("alice").wait(), Wait::For(Duration::from_secs(60)));
/// assert!(logins.check("bob").is_allowed());
///
/// time.advance(Duration::from_secs(60));
/// assert!(logins.check("alice").is_allowed());
/// # Ok::<(), ratekeeper_core::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    limit: Limit,
    memory: Memory,
}

impl Limiter {
    /// Creates a limiter with a memory of its own.
    ///
    /// # Errors
    ///
    /// When a default [`Memory`] cannot keep the limit: a sliding log of more units than it holds
    /// entries.
    pub fn new(limit: Limit) -> Result<Self, LimitError> {
        Self::on(&Memory::new(), limit)
    }

    /// Creates a limiter that counts in this memory.
    ///
    /// # Errors
    ///
    /// When the memory cannot keep the limit.
    pub fn on(memory: &Memory, limit: Limit) -> Result<Self, LimitError> {
        memory.supports(&limit)?;
        Ok(Self {
            limit,
            memory: memory.clone(),
        })
    }

    /// Spends one unit of a key's, if the limit admits it.
    #[inline]
    #[must_use = "an outcome that nobody looks at limits nothing"]
    pub fn check(&self, key: impl Into<Key>) -> Outcome {
        self.check_n(key, 1)
    }

    /// Spends `cost` units of a key's, all or none. A cost of zero spends nothing; one above the
    /// limit's capacity is never admitted.
    #[inline]
    #[must_use = "an outcome that nobody looks at limits nothing"]
    pub fn check_n(&self, key: impl Into<Key>, cost: u64) -> Outcome {
        self.memory.check(&self.limit, &key.into(), cost)
    }

    /// Tells how a request of one unit would fare, and spends nothing.
    #[must_use]
    pub fn peek(&self, key: impl Into<Key>) -> Outcome {
        self.memory.peek(&self.limit, &key.into(), 1)
    }

    /// Makes a key as fresh as one never seen.
    pub fn reset(&self, key: impl Into<Key>) {
        self.memory.reset(&self.limit, &key.into());
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }
}
