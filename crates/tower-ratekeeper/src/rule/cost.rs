//! What a request costs under a rule.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use ratekeeper_core::Cost;

/// A cost, or how to find it.
#[derive(Clone)]
pub(crate) enum CostOf {
    Fixed(u64),
    By {
        floor: u64,
        function: Arc<dyn Fn(&Parts) -> u64 + Send + Sync>,
    },
    Deferred,
}

impl CostOf {
    pub(crate) fn by(floor: u64, function: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self::By {
            floor,
            function: Arc::new(function),
        }
    }

    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self, Self::Deferred)
    }

    pub(crate) fn of(&self, parts: &Parts) -> Cost {
        match self {
            Self::Fixed(units) => Cost::Units(*units),
            Self::By { floor, function } => Cost::Units(function(parts).max(*floor)),
            Self::Deferred => Cost::Deferred,
        }
    }
}

impl Default for CostOf {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

impl fmt::Debug for CostOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(units) => write!(f, "{units}"),
            Self::By { floor, .. } => write!(f, "at least {floor}"),
            Self::Deferred => f.write_str("deferred"),
        }
    }
}
