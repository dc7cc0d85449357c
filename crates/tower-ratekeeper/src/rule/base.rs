//! What a rule allows, kept as data until the rule is checked.

use ratekeeper_core::{Algorithm, Limit, LimitError, Policy, Quota};

use super::{CostOf, Rule};
use crate::ruleset::RuleErrorKind;

/// What a rule allows where no plan says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Limit(Algorithm, Quota),
    DenyAll,
    Unlimited,
}

impl Rule {
    /// Prepares the limit that this rule makes of a quota.
    pub(crate) fn limit(&self, quota: Quota) -> Result<Limit, LimitError> {
        let Base::Limit(algorithm, _) = self.base else {
            return Err(LimitError::no_algorithm(&self.name));
        };
        let quota = self
            .queue
            .map_or(quota, |queue| queue.quota(algorithm, quota));
        let mut limit = Limit::new(&self.name, algorithm, quota)?;
        if let Some(units) = self.max_debt {
            limit = limit.with_max_debt(units)?;
        }
        match &self.counter {
            Some(counter) => limit.with_counter(counter),
            None => Ok(limit),
        }
    }

    /// Prepares what the rule allows where no plan says otherwise.
    pub(crate) fn own_policy(&self) -> Result<Policy, LimitError> {
        match self.base {
            Base::Limit(_, quota) => self.limit(quota).map(Policy::Limit),
            Base::DenyAll => Ok(Policy::DenyAll),
            Base::Unlimited => Ok(Policy::Unlimited),
        }
    }

    /// Prepares what the rule allows: its own policy, without a name, then those of its plans.
    pub(crate) fn policies(&self) -> Result<Vec<(String, Policy)>, RuleErrorKind> {
        let mut policies = vec![(
            String::new(),
            self.own_policy().map_err(RuleErrorKind::Limit)?,
        )];
        for (plan, quota) in &self.plans.named {
            // The rule's own policy has the name that no plan may have.
            if policies.iter().any(|(other, _)| other == plan) {
                return Err(RuleErrorKind::Plan(plan.clone()));
            }
            if let (Base::Limit(algorithm, own), Some(quota)) = (self.base, quota)
                && !algorithm.has_burst()
                && own.period() != quota.period()
            {
                return Err(RuleErrorKind::PlanPeriod(plan.clone()));
            }
            let policy = match quota {
                Some(quota) => Policy::Limit(self.limit(*quota).map_err(RuleErrorKind::Limit)?),
                None => Policy::Unlimited,
            };
            policies.push((plan.clone(), policy));
        }
        Ok(policies)
    }

    /// Checks that a fixed cost is one that can be admitted.
    pub(crate) fn check_cost(&self, capacity: u64) -> Result<(), RuleErrorKind> {
        let CostOf::Fixed(cost) = self.cost else {
            return Ok(());
        };
        let capacity = self.max_cost.map_or(capacity, |most| most.min(capacity));
        if cost > capacity {
            return Err(RuleErrorKind::CostAboveCapacity { cost, capacity });
        }
        Ok(())
    }
}
