//! What handlers can learn of the decision on their request.

use std::fmt;
use std::sync::Arc;

use ratekeeper_core::{Decision, Limit, Outcome};

use crate::active::{Active, Picks};
use crate::queue::Waited;

/// The decision on a request, in its extensions where the layer
/// [exposes](crate::RateLimitLayerBuilder::expose_decision) it.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::RateLimitInfo;
///
/// fn handler(parts: &http::request::Parts) -> Option<u64> {
///     let info = parts.extensions.get::<RateLimitInfo>()?;
///     info.outcome("per-client").map(|outcome| outcome.remaining())
/// }
/// ```
#[derive(Clone)]
pub struct RateLimitInfo {
    active: Arc<Active>,
    decision: Decision,
    picks: Picks,
    #[cfg_attr(not(feature = "queue"), expect(dead_code, reason = "nothing waits"))]
    waited: Option<Waited>,
}

impl RateLimitInfo {
    pub(crate) fn new(
        active: Arc<Active>,
        decision: Decision,
        picks: Picks,
        waited: Option<Waited>,
    ) -> Self {
        Self {
            active,
            decision,
            picks,
            waited,
        }
    }

    /// Returns the decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns how the request waited for its turn; `None` where it did not.
    #[cfg(feature = "queue")]
    #[must_use]
    pub fn waited(&self) -> Option<Waited> {
        self.waited
    }

    /// Returns the limits that were asked, with what they said.
    pub fn outcomes(&self) -> impl Iterator<Item = (&Limit, &Outcome)> {
        let picks = self.picks.as_slice().iter().zip(self.decision.outcomes());
        picks.filter_map(|(pick, outcome)| Some((self.active.limit(*pick)?, outcome)))
    }

    /// Returns what the rule of this name said, if it was asked.
    #[must_use]
    pub fn outcome(&self, rule: &str) -> Option<&Outcome> {
        self.outcomes()
            .find(|(limit, _)| limit.name() == rule)
            .map(|(_, outcome)| outcome)
    }
}

impl fmt::Debug for RateLimitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.outcomes()
                    .map(|(limit, outcome)| (limit.name(), outcome)),
            )
            .finish()
    }
}
