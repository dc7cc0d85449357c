//! The rules in force, with everything about them that can be prepared.

use bytes::Bytes;
use http::{HeaderMap, Response};
use ratekeeper_core::{
    self as core, Algorithm, Clock, Decision, Limit, MAX_CLAIMS, Outcome, Policy,
};

use crate::fields::{FieldScope, PolicySet, Standing};
use crate::partition::Partitions;
use crate::problem::Problem;
use crate::ruleset::{CheckedRule, RuleError, RuleErrorKind, RuleSet};
use crate::shared::Settings;

/// The rules in force; replaced as a whole.
pub(crate) struct Active {
    pub(crate) rules: RuleSet,
    prepared: Vec<PreparedRule>,
    fields: PolicySet,
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

/// What the header fields of a response say.
pub(crate) struct Report {
    pub(crate) decision: Decision,
    pub(crate) picks: Picks,
    /// Nanoseconds since the Unix epoch at the decision, where a format asks for it.
    pub(crate) unix: u64,
    pub(crate) partitions: Option<Box<Partitions>>,
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

    /// Writes the header fields of a response that tells of one claim.
    pub(crate) fn write_one(&self, standing: &Standing<'_>, headers: &mut HeaderMap) {
        self.fields.write(std::slice::from_ref(standing), headers);
    }

    /// Returns how a rule's key stands, as the fields tell it.
    ///
    /// Of a refusal, no window may last longer than the client is told to wait.
    pub(crate) fn standing_of(
        &self,
        pick: Pick,
        outcome: &Outcome,
        unix: u64,
        retry_after: Option<u64>,
    ) -> Option<Standing<'static>> {
        let limit = self.limit(pick)?;
        let policy = self.prepared[usize::from(pick.rule)].policies[usize::from(pick.plan)]?;
        let stands = outcome.standing();
        let after = effective_window(limit, stands);
        let after = retry_after.map_or(after, |retry_after| after.min(retry_after));
        let mut standing = Standing::new(policy, stands.remaining).after(after);
        if unix > 0 {
            standing = standing.reset_epoch(reset_epoch(unix, stands));
        }
        Some(standing)
    }

    /// Writes the header fields of a report: every enforced rule, the most constrained first.
    ///
    /// Of a refusal, no window may last longer than the client is told to wait.
    pub(crate) fn write_fields(
        &self,
        report: &Report,
        retry_after: Option<u64>,
        headers: &mut HeaderMap,
    ) {
        let mut standings: [Option<(Rank, Standing<'_>)>; MAX_CLAIMS] =
            [const { None }; MAX_CLAIMS];
        let mut count = 0;
        let outcomes = report
            .decision
            .outcomes()
            .iter()
            .zip(report.picks.as_slice());
        for (index, (outcome, pick)) in outcomes.enumerate() {
            if report.decision.is_shadowed(index) {
                continue;
            }
            let (Some(limit), Some(mut standing)) = (
                self.limit(*pick),
                self.standing_of(*pick, outcome, report.unix, retry_after),
            ) else {
                continue;
            };
            let partitions = report.partitions.as_ref();
            if let Some(partition) = partitions.and_then(|partitions| partitions.get(index)) {
                standing = standing.partition(partition);
            }
            standings[count] = Some((Rank::new(limit, outcome), standing));
            count += 1;
        }
        standings[..count].sort_by(|one, other| {
            let rank = |entry: &Option<(Rank, Standing<'_>)>| entry.as_ref().map(|(rank, _)| *rank);
            rank(one).cmp(&rank(other))
        });
        let mut sorted = [Standing::new(0, 0); MAX_CLAIMS];
        for (slot, entry) in sorted.iter_mut().zip(standings.iter().flatten()) {
            *slot = entry.1;
        }
        self.fields.write(&sorted[..count], headers);
    }
}

/// The order of standings: refusing before all, then the smallest share left, then the longest wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    allowed: bool,
    /// Remaining over capacity, in parts of 2^32.
    share: u64,
    next: std::cmp::Reverse<u64>,
}

impl Rank {
    fn new(limit: &Limit, outcome: &Outcome) -> Self {
        let stands = outcome.standing();
        let share = (u128::from(stands.remaining) << 32) / u128::from(limit.capacity().max(1));
        Self {
            allowed: outcome.is_allowed(),
            share: u64::try_from(share).unwrap_or(u64::MAX),
            next: std::cmp::Reverse(stands.next),
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// Returns the seconds within which a client can use no more than what remains, at least one.
///
/// A bucket gives more all the time, so the time is that in which it gives what remains once more:
/// a client that spreads the remaining units over it stays within the rate.
fn effective_window(limit: &Limit, stands: core::Standing) -> u64 {
    let period = limit.quota().period().as_nanos();
    let nanos = match limit.algorithm() {
        Algorithm::LeakyBucket | Algorithm::TokenBucket => {
            let spread = u128::from(stands.remaining) * period;
            div_ceil(spread, limit.quota().units()).max(stands.next.into())
        }
        Algorithm::SlidingCounter => u128::from(stands.reset).min(period),
        _ => stands.next.into(),
    };
    seconds(nanos).max(1)
}

/// Returns the second at which the key will be fresh, as a time since the Unix epoch.
///
/// The two clocks are read one after the other; a window that ends on a whole second is not to be
/// moved to the next by the microseconds between.
fn reset_epoch(unix: u64, stands: core::Standing) -> u64 {
    const SLACK: u128 = 1_000_000;
    let reset = u128::from(unix) + u128::from(stands.reset);
    seconds(reset.saturating_sub(SLACK))
}

/// Returns the nanoseconds in seconds, rounded up.
fn seconds(nanos: u128) -> u64 {
    u64::try_from(div_ceil(nanos, SECOND)).unwrap_or(u64::MAX)
}

/// Divides and rounds up. Nearly all that is divided fits a word, for which there is an instruction.
fn div_ceil(number: u128, by: u64) -> u128 {
    match u64::try_from(number) {
        Ok(number) => number.div_ceil(by).into(),
        Err(_) => number.div_ceil(by.into()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_core::{Limiter, ManualClock, Memory, Quota};
    use std::time::Duration;

    #[test]
    fn a_full_bucket_is_spread_over_the_time_it_takes_to_fill() {
        let limit = Limit::token_bucket("t", Quota::per_second(10).with_burst(100)).unwrap();
        let limiter = Limiter::on(
            &Memory::builder().clock(ManualClock::new()).build(),
            limit.clone(),
        )
        .unwrap();
        assert_eq!(effective_window(&limit, limiter.check("k").standing()), 10);
        let empty = limiter.check_n("k", 99);
        assert_eq!(empty.remaining(), 0);
        assert_eq!(effective_window(&limit, empty.standing()), 1);
    }

    #[test]
    fn two_replies_in_one_window_name_the_same_second() {
        let time = ManualClock::new();
        let memory = Memory::builder().clock(time.clone()).build();
        let limiter = Limiter::on(
            &memory,
            Limit::fixed_window("w", Quota::per_second(5)).unwrap(),
        )
        .unwrap();
        time.set_unix(Duration::from_millis(999_000));
        let mut seen = Vec::new();
        for step in [0, 200, 400] {
            time.advance(Duration::from_millis(step));
            let outcome = limiter.check("k");
            // The calendar is read a little later than the clock of the decision.
            let unix = u64::try_from(time.unix_now().as_nanos()).unwrap() + 900;
            seen.push(reset_epoch(unix, outcome.standing()));
        }
        assert_eq!(seen, [1_000, 1_000, 1_000]);
    }
}
