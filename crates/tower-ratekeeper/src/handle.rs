//! Changing a layer while it runs.

use std::fmt;
use std::sync::Arc;

use ratekeeper_core::{Memory, Policy, Store};

use crate::active::Active;
use crate::rule::{RuleMode, Switch};
use crate::ruleset::{RuleError, RuleErrorKind, RuleSet};
use crate::shared::Shared;

/// Changes a running layer: modes of rules, all rules at once, or whether it limits at all.
///
/// Got from [`RateLimitLayer::handle`](crate::RateLimitLayer::handle); clones change the same layer.
/// No change blocks a request: each goes on with the rules that it found when it came.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{Quota, RateLimitLayer, Rule, RuleMode, RuleSet};
///
/// let layer = RateLimitLayer::new([Rule::token_bucket("api", Quota::per_second(10)).shadowed()])?;
/// let handle = layer.handle();
///
/// // After a week in the dark:
/// assert!(handle.set_mode("api", RuleMode::Enforced));
/// assert!(!handle.set_mode("apo", RuleMode::Enforced), "no such rule");
///
/// handle.replace(RuleSet::new([Rule::token_bucket("api", Quota::per_second(20))])?)?;
/// # Ok::<(), tower_ratekeeper::RuleError>(())
/// ```
pub struct RateLimitHandle<St = Memory>(Arc<Shared<St>>);

impl<St: Store> RateLimitHandle<St> {
    pub(crate) fn new(shared: Arc<Shared<St>>) -> Self {
        Self(shared)
    }

    /// Sets the mode of the rule of this name; returns whether there is one.
    #[must_use = "a rule that does not exist keeps its mode"]
    pub fn set_mode(&self, rule: &str, mode: RuleMode) -> bool {
        loop {
            let active = self.0.active();
            let Some(switch) = active.rules.switch_of(rule) else {
                return false;
            };
            switch.set(mode);
            // Rules that were put in force meanwhile have switches of their own.
            if Arc::ptr_eq(&active, &self.0.active()) {
                return true;
            }
        }
    }

    /// Returns the mode of the rule of this name.
    #[must_use]
    pub fn mode(&self, rule: &str) -> Option<RuleMode> {
        let active = self.0.active();
        active.rules.switch_of(rule).map(Switch::get)
    }

    /// Switches all limiting off or on again. While it is off, requests pass as if there was no
    /// layer, and nothing is counted.
    pub fn set_enabled(&self, enabled: bool) {
        self.0.set_enabled(enabled);
    }

    /// Returns whether the layer limits.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled()
    }

    /// Sets what becomes of requests that wait for their turn, and of those that would have to:
    /// before a service ends, let them go or refuse them. It can be taken back.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::queue::{Queue, Waiters};
    /// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
    ///
    /// let rule = Rule::leaky_bucket("reports", Quota::per_second(2)).queue(Queue::new(50));
    /// let handle = RateLimitLayer::new([rule])?.handle();
    /// // When the signal to end has come:
    /// handle.set_waiters(Waiters::Refuse);
    /// assert_eq!(handle.waiting(), 0);
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    #[cfg(feature = "queue")]
    pub fn set_waiters(&self, waiters: crate::queue::Waiters) {
        self.0.lines.set_waiters(waiters);
    }

    /// Returns how many requests wait for their turn, of all keys together.
    #[cfg(feature = "queue")]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lines.waiting()
    }

    /// Puts other rules in force, with the modes they were built with.
    ///
    /// Counters are found by name: what a key has used under a rule stays used under the new rule
    /// of that name. A grown quota admits at once; a shrunk one gives nothing away. Two changes do
    /// start keys afresh: one between the sliding log and another algorithm, and a shorter window,
    /// for what has passed in it.
    ///
    /// # Errors
    ///
    /// When the store cannot keep one of the limits, or requests could pass without a rule. The
    /// old rules stay in force.
    pub fn replace(&self, rules: RuleSet) -> Result<(), RuleError> {
        check_store(&self.0.store, &rules)?;
        self.0.put_in_force(Active::new(rules, &self.0.settings)?);
        Ok(())
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn rules(&self) -> RuleSet {
        self.0.active().rules.clone()
    }
}

impl<St> Clone for RateLimitHandle<St> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<St> fmt::Debug for RateLimitHandle<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitHandle")
            .field(&self.0.active().rules)
            .finish()
    }
}

/// Asks the store whether it can keep all limits of the rules.
pub(crate) fn check_store<St: Store>(store: &St, rules: &RuleSet) -> Result<(), RuleError> {
    for rule in rules.rules() {
        for (_, policy) in &rule.policies {
            if let Policy::Limit(limit) = policy {
                store
                    .supports(limit)
                    .map_err(|error| RuleError::new(&rule.name, RuleErrorKind::Limit(error)))?;
            }
        }
    }
    Ok(())
}
