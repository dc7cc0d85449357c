//! Settings of a store with a fallback.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::memory::Memory;
use crate::observer::{NoObserver, Observer};
use crate::store::Store;

use super::breaker::Breaker;
use super::share::Shares;
use super::{Inner, Slots, WithFallback};

/// What a limit does while the shared store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// It is counted on this node, with the quota divided by the expected number of
    /// [nodes](FallbackBuilder::nodes).
    #[default]
    Local,
    /// It refuses, with 503 where it is HTTP.
    Refuse,
    /// It lets everything through, uncounted. Told to the observer when a layer is built, since
    /// whoever can take the store away then takes the limit away.
    Allow,
}

/// Settings of a [`WithFallback`]; made by [`WithFallback::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct FallbackBuilder<A, B = Memory> {
    first: A,
    local: B,
    deadline: Duration,
    failures: u32,
    pause: Duration,
    in_flight: usize,
    nodes: u32,
    on_failure: OnFailure,
    on_failure_of: Vec<(String, OnFailure)>,
    observer: Arc<dyn Observer>,
}

impl<A: Store> FallbackBuilder<A> {
    pub(super) fn new(first: A) -> Self {
        Self {
            first,
            local: Memory::new(),
            deadline: Duration::from_millis(50),
            failures: 5,
            pause: Duration::from_secs(1),
            in_flight: 1_024,
            nodes: 1,
            on_failure: OnFailure::default(),
            on_failure_of: Vec::new(),
            observer: Arc::new(NoObserver),
        }
    }
}

impl<A, B> FallbackBuilder<A, B> {
    /// Sets the store that decides while the first is away, for nothing else to use: a [`Memory`]
    /// of its own unless set.
    pub fn local<Other: Store>(self, local: Other) -> FallbackBuilder<A, Other> {
        FallbackBuilder {
            first: self.first,
            local,
            deadline: self.deadline,
            failures: self.failures,
            pause: self.pause,
            in_flight: self.in_flight,
            nodes: self.nodes,
            on_failure: self.on_failure,
            on_failure_of: self.on_failure_of,
            observer: self.observer,
        }
    }

    /// Sets how many nodes are expected to share the limits: one unless set. Each holds its clients
    /// to that part of a limit while it decides alone.
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Sets how long a call may take: 50 ms unless set.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets after how many failures in a row the breaker opens, at least one, and the pause before
    /// each probe: five and one second unless set.
    pub fn breaker(self, failures: u32, pause: Duration) -> Self {
        Self {
            failures,
            pause,
            ..self
        }
    }

    /// Sets how many calls may be under way at once: 1,024 unless set.
    pub fn max_in_flight(self, calls: usize) -> Self {
        Self {
            in_flight: calls,
            ..self
        }
    }

    /// Sets what limits do while the shared store is away, unless they are named.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self { on_failure, ..self }
    }

    /// Sets what the limit of this name does while the shared store is away.
    pub fn on_failure_of(mut self, limit: &str, on_failure: OnFailure) -> Self {
        self.on_failure_of.retain(|(name, _)| name != limit);
        self.on_failure_of.push((limit.to_owned(), on_failure));
        self
    }

    /// Sets whom to tell when the store is lost and when it is back.
    pub fn observer(self, observer: impl Observer) -> Self {
        Self {
            observer: Arc::new(observer),
            ..self
        }
    }

    /// Creates the store.
    #[must_use]
    pub fn build(self) -> WithFallback<A, B> {
        WithFallback(Arc::new(Inner {
            first: self.first,
            local: self.local,
            deadline: self.deadline,
            breaker: Breaker::new(self.failures, self.pause),
            slots: Slots {
                taken: AtomicUsize::new(0),
                most: self.in_flight,
            },
            shares: Shares::new(self.nodes),
            on_failure: self.on_failure,
            on_failure_of: self.on_failure_of,
            observer: self.observer,
        }))
    }
}

impl<A, B> fmt::Debug for FallbackBuilder<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackBuilder")
            .field("deadline", &self.deadline)
            .field("nodes", &self.nodes)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}
