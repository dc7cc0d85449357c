//! What responses tell of the limits that were asked.

use std::slice;

use http::HeaderMap;
use ratekeeper_core::{self as core, Algorithm, Decision, Limit, MAX_CLAIMS, Outcome, Wait};

use crate::active::{Active, Pick, Picks};
use crate::fields::Standing;
use crate::partition::Partitions;

/// What the header fields of a response say: how each limit decided that was asked.
pub(crate) struct Report<'a> {
    pub(crate) outcomes: &'a [Outcome],
    pub(crate) picks: &'a [Pick],
    /// Which of them have a say; all of them without it.
    pub(crate) decision: Option<&'a Decision>,
    /// Nanoseconds since the Unix epoch at the decision, where a format asks for it.
    pub(crate) unix: u64,
    pub(crate) partitions: Option<&'a Partitions>,
}

/// A report that is kept until there is a response.
pub(crate) struct KeptReport {
    pub(crate) decision: Decision,
    pub(crate) picks: Picks,
    pub(crate) unix: u64,
    pub(crate) partitions: Option<Box<Partitions>>,
}

impl KeptReport {
    pub(crate) fn view(&self) -> Report<'_> {
        Report {
            outcomes: self.decision.outcomes(),
            picks: self.picks.as_slice(),
            decision: Some(&self.decision),
            unix: self.unix,
            partitions: self.partitions.as_deref(),
        }
    }
}

impl<'a> Report<'a> {
    /// Returns a report of a single enforced limit.
    pub(crate) fn of_one(outcome: &'a Outcome, pick: &'a Pick, unix: u64) -> Self {
        Self {
            outcomes: slice::from_ref(outcome),
            picks: slice::from_ref(pick),
            decision: None,
            unix,
            partitions: None,
        }
    }

    /// Returns the outcomes that have a say, each with its place and its pick.
    pub(crate) fn enforced(&self) -> impl Iterator<Item = (usize, &'a Outcome, Pick)> {
        let decision = self.decision;
        let shadowed = move |index| decision.is_some_and(|decision| decision.is_shadowed(index));
        let picked = self.outcomes.iter().zip(self.picks).enumerate();
        picked
            .filter(move |(index, _)| !shadowed(*index))
            .map(|(index, (outcome, pick))| (index, outcome, *pick))
    }

    /// Returns how long to wait before the request would be admitted, as [`Decision::wait`] does.
    pub(crate) fn wait(&self) -> Wait {
        let waits = self.enforced().map(|(_, outcome, _)| outcome.wait());
        waits.reduce(Wait::longest).unwrap_or(Wait::None)
    }

    /// Returns the decision as a whole.
    pub(crate) fn decision(&self) -> Decision {
        self.decision.copied().unwrap_or_else(|| {
            let mut decision = Decision::UNLIMITED;
            let outcomes = self.outcomes.iter();
            outcomes.for_each(|outcome| decision.push(*outcome, false));
            decision
        })
    }
}

impl Active {
    /// Writes the header fields of a report: every enforced rule, the most constrained first.
    ///
    /// Of a refusal, no window may last longer than the client is told to wait.
    pub(crate) fn write_fields(
        &self,
        report: &Report<'_>,
        retry_after: Option<u64>,
        headers: &mut HeaderMap,
    ) {
        // One has no order.
        if let [_] = report.outcomes {
            if let Some(entry) = report.enforced().next()
                && let Some(only) = &self.standing(report, entry, retry_after)
            {
                self.fields.write(slice::from_ref(only), headers);
            }
            return;
        }
        let mut ranked: [Option<(Rank, Standing<'_>)>; MAX_CLAIMS] = [const { None }; MAX_CLAIMS];
        let mut count = 0;
        for entry in report.enforced() {
            let standing = self.standing(report, entry, retry_after);
            if let (Some(limit), Some(standing)) = (self.limit(entry.2), standing) {
                ranked[count] = Some((Rank::new(limit, entry.1), standing));
                count += 1;
            }
        }
        ranked[..count].sort_by_key(|entry| entry.as_ref().map(|(rank, _)| *rank));
        let mut sorted = [Standing::new(0, 0); MAX_CLAIMS];
        for (slot, entry) in sorted.iter_mut().zip(ranked.iter().flatten()) {
            *slot = entry.1;
        }
        self.fields.write(&sorted[..count], headers);
    }

    /// Returns how a rule's key stands, as the fields tell it.
    #[inline]
    fn standing<'a>(
        &self,
        report: &Report<'a>,
        (index, outcome, pick): (usize, &Outcome, Pick),
        retry_after: Option<u64>,
    ) -> Option<Standing<'a>> {
        let limit = self.limit(pick)?;
        let policy = self.policy_of(pick)?;
        let stands = outcome.standing();
        let after = effective_window(limit, stands);
        let after = retry_after.map_or(after, |retry_after| after.min(retry_after));
        let mut standing = Standing::new(policy, stands.remaining).after(after);
        if report.unix > 0 {
            standing = standing.reset_epoch(reset_epoch(report.unix, stands));
        }
        if let Some(key) = report.partitions.and_then(|keys| keys.get(index)) {
            standing = standing.partition(key);
        }
        Some(standing)
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

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Returns the seconds within which a client can use no more than what remains, at least one.
///
/// A bucket gives more all the time, so the time is that in which it gives what remains once more:
/// a client that spreads the remaining units over it stays within the rate.
#[inline]
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
