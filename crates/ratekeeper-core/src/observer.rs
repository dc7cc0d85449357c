//! A hook for those who want to know what a limiter does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Mode;
use crate::decision::Outcome;
use crate::limit::Limit;
use crate::store::StoreError;

/// Told what happens; every method does nothing unless overridden.
///
/// Methods are called while a request waits for its decision: they return quickly and do not
/// block. They never see a key.
pub trait Observer: Send + Sync + 'static {
    /// A limit decided on a request. `allowed` is its own opinion; what became of the request
    /// depends on the other limits and on the mode.
    fn decided(&self, limit: &Limit, mode: Mode, outcome: &Outcome) {
        let _ = (limit, mode, outcome);
    }

    /// A store at its bound forgot a live key of this limit to make room.
    fn evicted(&self, limit: &Limit) {
        let _ = limit;
    }

    /// Settling a request came to more than the limit's debt allows; the rest was not charged.
    fn clipped(&self, limit: &Limit, units: u64) {
        let _ = (limit, units);
    }

    /// A mistake in the setup was found; told once for each kind. The code is stable, the sentence
    /// says what to do.
    fn diagnosed(&self, code: &'static str, sentence: &'static str) {
        let _ = (code, sentence);
    }

    /// A request began to wait for its turn under a limit that delays, behind `ahead` others of its
    /// key.
    fn queued(&self, limit: &Limit, ahead: usize) {
        let _ = (limit, ahead);
    }

    /// A request waits no longer; told once after each [`queued`](Self::queued), however it ended.
    fn waited(&self, limit: &Limit, time: Duration, end: WaitEnd) {
        let _ = (limit, time, end);
    }

    /// A store could not decide.
    fn store_failed(&self, error: &StoreError) {
        let _ = error;
    }

    /// A shared store has stopped answering, and its fallback decides from now on; told once.
    fn store_lost(&self, error: &StoreError) {
        let _ = error;
    }

    /// A shared store that was lost answers again; told once.
    fn store_back(&self) {}
}

/// How a request's wait for its turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitEnd {
    /// It went on.
    Admitted,
    /// It was refused: by another limit, since the wait had become too long, since waiting was
    /// ended, or since the store could not decide.
    Refused,
    /// Whoever waited went away.
    Left,
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Forwards every method: one that is missing here would be lost for whoever shares an observer.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn decided(&self, limit: &Limit, mode: Mode, outcome: &Outcome) {
        self.as_ref().decided(limit, mode, outcome);
    }

    fn evicted(&self, limit: &Limit) {
        self.as_ref().evicted(limit);
    }

    fn clipped(&self, limit: &Limit, units: u64) {
        self.as_ref().clipped(limit, units);
    }

    fn diagnosed(&self, code: &'static str, sentence: &'static str) {
        self.as_ref().diagnosed(code, sentence);
    }

    fn queued(&self, limit: &Limit, ahead: usize) {
        self.as_ref().queued(limit, ahead);
    }

    fn waited(&self, limit: &Limit, time: Duration, end: WaitEnd) {
        self.as_ref().waited(limit, time, end);
    }

    fn store_failed(&self, error: &StoreError) {
        self.as_ref().store_failed(error);
    }

    fn store_lost(&self, error: &StoreError) {
        self.as_ref().store_lost(error);
    }

    fn store_back(&self) {
        self.as_ref().store_back();
    }
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dyn Observer")
    }
}
