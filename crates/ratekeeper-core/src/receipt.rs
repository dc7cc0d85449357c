//! What was charged, and what it finally comes to.

use crate::key::Key;
use crate::limit::Limit;

/// One charge that is still to be settled. Dropping it leaves the charge as it is.
#[derive(Debug)]
#[must_use = "a charge whose receipt is dropped stays as it is"]
pub struct Receipt {
    /// The limit that was charged.
    pub limit: Limit,
    /// The key that was charged.
    pub key: Key,
    /// The units that were charged; none where the cost was deferred.
    pub units: u64,
    /// When or into which window, in the store's own terms.
    pub stamp: u64,
}

/// How a charge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settle {
    /// It stands.
    Commit,
    /// It is given back, as far as it has not drained or passed.
    Refund,
    /// It was this many units in truth: the difference is given back, or charged even beyond the
    /// capacity up to the limit's `max_debt`.
    Actual(u64),
}
