//! What all clones of a layer share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
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
    pub(crate) active: ArcSwap<Active>,
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
            enabled,
            clock,
            observer,
            settings,
            draws: Draws::new(),
            lines: Arc::new(Lines::new()),
        }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
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
