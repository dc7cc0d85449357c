//! What all clones of a layer share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use http::request::Parts;
use ratekeeper_core::{Clock, Memory, Observer, Store};

use crate::active::Active;
use crate::fields::{FieldFormats, FieldScope};
use crate::layer::Grpc;
use crate::problem::BodyFormat;
use crate::queue::Lines;
use crate::refusal::Responder;
use crate::retry::Draws;

/// Decides whether a request is none of the limiter's business.
pub(crate) type Exempt = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// What the builder was told and nothing changes later.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) exempt: Option<Exempt>,
    /// Which allowed responses carry header fields.
    pub(crate) on_allowed: Option<FieldScope>,
    pub(crate) formats: FieldFormats,
    pub(crate) body: BodyFormat,
    pub(crate) responder: Option<Arc<dyn Responder>>,
    pub(crate) grpc: Option<Grpc>,
    /// In seconds.
    pub(crate) retry_after_cap: u64,
    /// Whether requests carry their decision.
    pub(crate) expose: bool,
    pub(crate) share_secret: Arc<[u8]>,
    /// Under which clients are told their partitions; they are not told without.
    pub(crate) partition_secret: Option<Arc<[u8]>>,
}

/// The state behind a layer, its services and its handles.
pub(crate) struct Shared<St> {
    pub(crate) store: St,
    /// Counts refunds for server errors: the layer's business and not the store's. Like the store
    /// it outlives the rules.
    pub(crate) refunds: Memory,
    /// The rules in force. A request works on those it found when it came.
    active: ArcSwap<Active>,
    /// Counts the rules that were put in force. Released after they are, so that who sees a number
    /// sees the rules of that number or newer ones.
    changes: AtomicU64,
    /// Whether the layer limits at all. Relaxed: nothing else is read through it.
    enabled: AtomicBool,
    pub(crate) clock: Clock,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) settings: Settings,
    pub(crate) draws: Draws,
    /// Those who wait for their turn.
    pub(crate) lines: Arc<Lines>,
}

impl<St> Shared<St> {
    pub(crate) fn new(
        store: St,
        active: Active,
        clock: Clock,
        observer: Option<Arc<dyn Observer>>,
        settings: Settings,
    ) -> Self {
        let active = ArcSwap::from_pointee(active);
        let enabled = AtomicBool::new(true);
        let refunds = Memory::builder().clock(clock.clone()).build();
        Self {
            store,
            refunds,
            active,
            changes: AtomicU64::new(0),
            enabled,
            clock,
            observer,
            settings,
            draws: Draws::new(),
            lines: Arc::new(Lines::new()),
        }
    }

    /// Returns the rules in force.
    pub(crate) fn active(&self) -> Guard<Arc<Active>> {
        self.active.load()
    }

    /// Puts other rules in force.
    pub(crate) fn put_in_force(&self, active: Active) {
        self.active.store(Arc::new(active));
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }
}

/// The rules in force as one service has seen them last. To see that they still are costs a load,
/// where the shared place would cost two atomic exchanges.
#[derive(Clone)]
pub(crate) struct Seen {
    active: Arc<Active>,
    changes: u64,
}

impl Seen {
    pub(crate) fn new<St>(shared: &Shared<St>) -> Self {
        let changes = shared.changes.load(Ordering::Acquire);
        Self {
            active: shared.active.load_full(),
            changes,
        }
    }

    /// Returns the rules in force now.
    #[inline]
    pub(crate) fn now<St>(&mut self, shared: &Shared<St>) -> &Arc<Active> {
        if shared.changes.load(Ordering::Acquire) != self.changes {
            self.look_again(shared);
        }
        &self.active
    }

    #[cold]
    fn look_again<St>(&mut self, shared: &Shared<St>) {
        *self = Self::new(shared);
    }
}

impl<St: Store> Shared<St> {
    /// Returns whether the limiter has nothing to do with a request.
    #[inline]
    pub(crate) fn passes(&self, parts: &Parts) -> bool {
        !self.is_enabled()
            || self
                .settings
                .exempt
                .as_ref()
                .is_some_and(|exempt| exempt(parts))
    }
}
