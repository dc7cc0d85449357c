//! One rule, ready for requests.

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use ratekeeper_core::{Claim, Cost, Key, Limit, LimitError, Mode, Policy, Quota};
use ratekeeper_key::{Global, KeyExtractor, KeyShare, SelfCheck};

use super::{RuleError, RuleErrorKind};
use crate::queue::Queue;
use crate::retry::Jitter;
use crate::rule::{CostOf, Place, Plans, Rule, Settlement};

/// A rule ready for requests.
pub(crate) struct CheckedRule {
    pub(crate) name: String,
    /// The rule's own policy, then those of its plans.
    pub(crate) policies: Vec<(String, Policy)>,
    pub(super) plans: Plans,
    pub(crate) place: Place,
    /// Whether the place is everywhere, which then is not asked.
    everywhere: bool,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) cost: CostOf,
    pub(crate) max_cost: Option<u64>,
    pub(crate) settlement: Settlement,
    /// How many refunds for server errors a key has.
    pub(crate) refunds: Option<Limit>,
    pub(crate) status: StatusCode,
    pub(crate) jitter: Jitter,
    /// How requests wait that the rule would refuse.
    pub(crate) queue: Option<Queue>,
    /// Finds out whether everybody counts for one key; not where that is meant.
    key_share: Option<KeyShare>,
}

/// What a request is to the rules for CORS preflights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preflight {
    /// No preflight, or there are no such rules.
    No,
    /// A preflight that such a rule limits; all others leave it alone.
    Apart,
    /// A preflight that no such rule refuses, for its path or its mode. The others do not leave it
    /// alone, or it would pass unlimited.
    Beside,
}

/// What a rule asks for one request that has a key.
pub(crate) enum Asked<'a> {
    /// Nothing: the plan is unlimited.
    Nothing,
    /// A claim on the limit of this plan.
    Claim {
        plan: usize,
        limit: &'a Limit,
        cost: Cost,
    },
    /// The plan admits nothing.
    Denied { plan: usize },
    /// The request costs more than any may.
    TooCostly,
}

impl CheckedRule {
    pub(super) fn new(rule: Rule) -> Result<Self, RuleError> {
        let fail = |kind| RuleError::new(&rule.name, kind);
        let policies = rule.policies().map_err(fail)?;
        if !is_name(&rule.name) {
            return Err(fail(RuleErrorKind::Name));
        }
        for (_, policy) in &policies {
            if let Policy::Limit(limit) = policy {
                rule.check_cost(limit.capacity()).map_err(fail)?;
            }
        }
        let Rule {
            name,
            plans,
            place,
            key,
            cost,
            max_cost,
            settlement,
            status,
            jitter,
            queue,
            mode: _,
            base: _,
            counter: _,
            max_debt: _,
        } = rule;
        let fail = |kind| RuleError::new(&name, kind);
        let place = place.map_err(|error| fail(RuleErrorKind::Place(error)))?;
        let refunds = settlement
            .refund_cap
            .map(|cap| refund_limit(&name, cap))
            .transpose();
        let refunds = refunds.map_err(|error| fail(RuleErrorKind::Limit(error)))?;
        let jitter = jitter.unwrap_or_else(|| default_jitter(&policies));
        let key_share = (key.name() != Global.name()).then(KeyShare::new);
        Ok(Self {
            name,
            policies,
            plans,
            everywhere: place.is_everywhere(),
            place,
            key,
            cost,
            max_cost,
            settlement,
            refunds,
            status: status.unwrap_or(StatusCode::TOO_MANY_REQUESTS),
            jitter,
            queue,
            key_share,
        })
    }

    /// Returns the rule with its limits in this generation; refunds are counted in this process.
    pub(super) fn with_generation(&self, generation: u32) -> Self {
        let policies = self.policies.iter().map(|(plan, policy)| {
            let policy = match policy {
                Policy::Limit(limit) => Policy::Limit(limit.clone().with_generation(generation)),
                other => other.clone(),
            };
            (plan.clone(), policy)
        });
        Self {
            name: self.name.clone(),
            policies: policies.collect(),
            plans: self.plans.clone(),
            place: self.place.clone(),
            everywhere: self.everywhere,
            key: Arc::clone(&self.key),
            cost: self.cost.clone(),
            max_cost: self.max_cost,
            settlement: self.settlement.clone(),
            refunds: self.refunds.clone(),
            status: self.status,
            jitter: self.jitter,
            queue: self.queue,
            key_share: self.key_share.as_ref().map(|_| KeyShare::new()),
        }
    }

    /// Returns whether the rule is for this request.
    #[inline]
    pub(crate) fn applies_to(&self, parts: &Parts, preflight: Preflight) -> bool {
        match preflight {
            Preflight::No => self.everywhere || self.place.contains(parts),
            Preflight::Beside => self.place.contains(parts) || self.is_for_preflight(parts),
            Preflight::Apart => self.is_for_preflight(parts),
        }
    }

    /// Returns whether the rule is for a preflight with this path.
    pub(crate) fn is_for_preflight(&self, parts: &Parts) -> bool {
        self.place.is_for_preflights() && self.place.has_path_of(parts)
    }

    /// Notes whom a request counts for.
    #[inline]
    pub(crate) fn note_key(&self, key: &Key) {
        if let Some(share) = &self.key_share {
            share.note(key, SelfCheck::global());
        }
    }

    /// Returns how the request of this claim waits, if the rule may delay it: one that has no say
    /// delays nobody, and what costs nothing is never refused.
    #[inline]
    pub(crate) fn delays(&self, claim: &Claim<'_>) -> Option<&Queue> {
        let queue = self.queue.as_ref()?;
        (claim.mode == Mode::Enforced && claim.cost.needed() > 0).then_some(queue)
    }

    /// Finds out what the rule asks for a request at its place that has a key.
    #[inline]
    pub(crate) fn ask(&self, parts: &Parts) -> Asked<'_> {
        let plan = self.plan_of(parts);
        let limit = match &self.policies[plan].1 {
            Policy::Limit(limit) => limit,
            Policy::DenyAll => return Asked::Denied { plan },
            _ => return Asked::Nothing,
        };
        let cost = self.cost.of(parts);
        if self.max_cost.is_some_and(|most| cost.charged() > most) {
            return Asked::TooCostly;
        }
        Asked::Claim { plan, limit, cost }
    }

    #[inline]
    fn plan_of(&self, parts: &Parts) -> usize {
        let Some(name) = self.plans.by.as_ref().and_then(|by| by.name(parts)) else {
            return 0;
        };
        // The first stands for the rule's own quota and has no name.
        let named = self
            .policies
            .iter()
            .skip(1)
            .position(|(plan, _)| plan == name);
        named.map_or(0, |position| position + 1)
    }
}

fn refund_limit(rule: &str, cap: Quota) -> Result<Limit, LimitError> {
    let quota = Quota::try_new(cap.units(), cap.period()).unwrap_or(cap);
    Limit::fixed_window(rule, quota)
}

/// What limits are named alike; rules without one are to be as printable.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn default_jitter(policies: &[(String, Policy)]) -> Jitter {
    match policies.first() {
        Some((_, Policy::Limit(limit))) if !limit.algorithm().has_burst() => {
            Jitter::of_window(limit.quota().period())
        }
        _ => Jitter::none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleSet;

    #[test]
    fn the_generation_of_a_set_is_that_of_every_limit_and_changes_nothing_else() {
        let text =
            "a: sliding-log 1/s plan pro 2/s plan staff unlimited\nb: token-bucket 1/s\nc: deny";
        let old: RuleSet = text.parse().unwrap();
        let new = old.clone().with_generation(7);
        let limits = |set: &RuleSet| -> Vec<Limit> {
            let policies = set.rules().iter().flat_map(|rule| rule.policies.clone());
            let limit = |(_, policy)| match policy {
                Policy::Limit(limit) => Some(limit),
                _ => None,
            };
            policies.filter_map(limit).collect()
        };
        assert_eq!(limits(&new).len(), 3);
        for (old, new) in limits(&old).into_iter().zip(limits(&new)) {
            assert_eq!((old.generation(), new.generation()), (0, 7));
            assert_eq!(new.with_generation(0), old);
        }
        let plans = |set: &RuleSet| -> Vec<String> {
            let policies = set.rules().iter().flat_map(|rule| &rule.policies);
            policies.map(|(plan, _)| plan.clone()).collect()
        };
        assert_eq!(plans(&new), plans(&old));
    }
}
