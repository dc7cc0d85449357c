//! The rules in force, with everything about them that can be prepared.

use bytes::Bytes;
use http::Response;
use ratekeeper_core::{Clock, Limit, MAX_CLAIMS, Policy};

use crate::fields::{FieldScope, PolicySet};
use crate::problem::Problem;
use crate::report::SECOND;
use crate::ruleset::{CheckedRule, RuleError, RuleErrorKind, RuleSet};
use crate::shared::Settings;

/// The rules in force; replaced as a whole.
pub(crate) struct Active {
    pub(crate) rules: RuleSet,
    prepared: Vec<PreparedRule>,
    pub(crate) fields: PolicySet,
    /// Which allowed responses carry fields, if there are any to write.
    on_allowed: Option<FieldScope>,
}

struct PreparedRule {
    /// The body of a refusal by this rule alone.
    refusal: Bytes,
    /// For each plan the index of its policy in the header fields.
    policies: Vec<Option<usize>>,
}

/// Which rule and plan a claim of a request stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) rule: u16,
    pub(crate) plan: u16,
}

impl Pick {
    pub(crate) fn new(rule: usize, plan: usize) -> Self {
        // A set holds at most 256 rules; a plan beyond the last number is the rule's own quota.
        Self {
            rule: u16::try_from(rule).unwrap_or(u16::MAX),
            plan: u16::try_from(plan).unwrap_or(0),
        }
    }
}

/// The picks of a request in the order of its claims.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Picks {
    picks: [Pick; MAX_CLAIMS],
    count: u8,
}

impl Picks {
    pub(crate) fn push(&mut self, pick: Pick) {
        if let Some(slot) = self.picks.get_mut(usize::from(self.count)) {
            *slot = pick;
            self.count += 1;
        }
    }

    /// Removes the pick at this place in the list.
    pub(crate) fn remove(&mut self, index: usize) {
        if let Some(after) = self.picks[..usize::from(self.count)].get_mut(index..)
            && !after.is_empty()
        {
            after.rotate_left(1);
            self.count -= 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[Pick] {
        &self.picks[..usize::from(self.count)]
    }
}

impl Active {
    pub(crate) fn new(rules: RuleSet, settings: &Settings) -> Result<Self, RuleError> {
        if !rules.covers_everything() {
            return Err(RuleError::new("", RuleErrorKind::NoCatchAll));
        }
        let rules = rules.put_in_force();
        let mut policies = Vec::new();
        let mut prepared = Vec::new();
        for rule in rules.rules() {
            let mut indices = Vec::new();
            for (_, policy) in &rule.policies {
                indices.push(match policy {
                    Policy::Limit(limit) => {
                        policies.push(field_policy(limit)?);
                        Some(policies.len() - 1)
                    }
                    _ => None,
                });
            }
            let refusal = Problem::QuotaExceeded {
                policies: &[&rule.name],
            }
            .body(settings.body, rule.status);
            // The first clone of bytes allocates; let it be now.
            drop(refusal.clone());
            prepared.push(PreparedRule {
                refusal,
                policies: indices,
            });
        }
        Ok(Self {
            rules,
            prepared,
            fields: PolicySet::new(policies, settings.formats),
            on_allowed: settings.on_allowed.filter(|_| !settings.formats.is_none()),
        })
    }

    pub(crate) fn rule(&self, pick: Pick) -> &CheckedRule {
        &self.rules.rules()[usize::from(pick.rule)]
    }

    /// Returns the limit that a pick stands for.
    pub(crate) fn limit(&self, pick: Pick) -> Option<&Limit> {
        match &self.rule(pick).policies[usize::from(pick.plan)].1 {
            Policy::Limit(limit) => Some(limit),
            _ => None,
        }
    }

    pub(crate) fn refusal_body(&self, pick: Pick) -> Bytes {
        self.prepared[usize::from(pick.rule)].refusal.clone()
    }

    /// Returns the time that reports need: only formats with an epoch look at a calendar.
    pub(crate) fn unix(&self, clock: &Clock) -> u64 {
        if self.fields.formats().needs_epoch() {
            u64::try_from(clock.unix_now().as_nanos()).unwrap_or(u64::MAX)
        } else {
            0
        }
    }

    /// Returns whether there are allowed responses that carry fields.
    pub(crate) fn tells_allowed(&self) -> bool {
        self.on_allowed.is_some()
    }

    /// Returns whether this allowed response carries fields.
    pub(crate) fn tells<B>(&self, response: &Response<B>) -> bool {
        self.on_allowed
            .is_some_and(|scope| scope.contains(response.status(), response.headers()))
    }

    /// Returns the index of a pick's policy among those of the fields.
    pub(crate) fn policy_of(&self, pick: Pick) -> Option<usize> {
        self.prepared[usize::from(pick.rule)].policies[usize::from(pick.plan)]
    }
}

/// Returns a limit as the header fields show it: a bucket has its burst as quota, and as window the
/// time in which an empty one fills.
fn field_policy(limit: &Limit) -> Result<crate::fields::Policy, RuleError> {
    let quota = limit.quota();
    let units = u128::from(limit.capacity());
    let window = (units * quota.period().as_nanos())
        .div_ceil(u128::from(quota.units()) * u128::from(SECOND));
    let policy = crate::fields::Policy::new(limit.name(), limit.capacity());
    let policy = policy.map_err(|_| RuleError::new(limit.name(), RuleErrorKind::Name))?;
    Ok(policy.window(u64::try_from(window).unwrap_or(u64::MAX).max(1)))
}
