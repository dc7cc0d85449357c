//! The library's own limiter on a clock that follows the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{
    Acquire, Claim, Claims, Decision, Key, Limit, MAX_CLAIMS, ManualClock, Memory, Nanos, Observer,
    Store, StoreError, StoreErrorKind,
};

use super::names::KeyRef;
use super::{Failure, ReplayError};
use crate::rules::Rule;

/// Entries of sliding logs that are kept at most, of 16 bytes each.
const LOG_ENTRIES: usize = 8 << 20;

/// Counts the live keys that the store had to forget.
#[derive(Clone, Debug, Default)]
struct Evictions(Arc<AtomicU64>);

impl Observer for Evictions {
    fn evicted(&self, _: &Limit) {
        // Relaxed: a plain count, read at the end by the same thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Decides requests in the order of their times.
pub(super) struct Engine {
    memory: Memory,
    clock: ManualClock,
    evictions: Evictions,
    /// The time of the first request, which is the clock's first moment.
    start: Option<i64>,
}

impl Engine {
    pub(super) fn new(keys: usize, rules: &[Rule]) -> Result<Self, ReplayError> {
        let clock = ManualClock::new();
        let evictions = Evictions::default();
        let memory = Memory::builder()
            .clock(clock.clone())
            .observer(evictions.clone())
            .max_keys(keys)
            .max_log_entries(LOG_ENTRIES)
            .build();
        for rule in rules {
            memory
                .supports(&rule.limit)
                .map_err(|error| ReplayError(Failure::Limit(error)))?;
        }
        Ok(Self {
            memory,
            clock,
            evictions,
            start: None,
        })
    }

    /// Returns the live keys that had to be forgotten.
    pub(super) fn evicted(&self) -> u64 {
        self.evictions.0.load(Ordering::Relaxed)
    }

    /// Decides a request at a time that is not before an earlier one's, by the rules and keys that
    /// apply to it.
    pub(super) fn decide(
        &mut self,
        time: i64,
        rules: &[Rule],
        claimed: &[(usize, KeyRef)],
    ) -> Result<Decision, ReplayError> {
        self.set_time(time);
        let claim = |(rule, key): &(usize, KeyRef)| {
            let rule = &rules[*rule];
            let claim = Claim::new(&rule.limit, Key::from(key.print)).with_cost(rule.cost);
            if rule.shadowed {
                claim.shadowed()
            } else {
                claim
            }
        };
        match claimed {
            [] => Ok(Decision::UNLIMITED),
            [one] => {
                let rule = &rules[one.0];
                let outcome = self
                    .memory
                    .check(&rule.limit, &Key::from(one.1.print), rule.cost);
                let mut decision = Decision::UNLIMITED;
                decision.push(outcome, rule.shadowed);
                Ok(decision)
            }
            [first, rest @ ..] => {
                let mut claims = [claim(first); MAX_CLAIMS];
                claims[1..]
                    .iter_mut()
                    .zip(rest)
                    .for_each(|(slot, next)| *slot = claim(next));
                let claims = claims
                    .get(..claimed.len())
                    .and_then(|claims| Claims::new(claims).ok());
                let claims = claims.ok_or(ReplayError(Failure::TooMany(claimed.len())))?;
                let answer = match self.memory.acquire(&claims) {
                    Acquire::Now(answer) => answer,
                    // Memory knows at once.
                    Acquire::Later(_) => Err(StoreError::new(StoreErrorKind::Fault)),
                };
                answer
                    .map(|answer| answer.decision)
                    .map_err(|error| ReplayError(Failure::Store(error)))
            }
        }
    }

    fn set_time(&mut self, time: i64) {
        let start = *self.start.get_or_insert(time);
        let since_start = Nanos::new(time.abs_diff(start));
        if since_start > self.clock.now() || self.clock.unix_now().is_zero() {
            self.clock.advance_to(since_start);
            self.clock
                .set_unix(Duration::from_nanos(u64::try_from(time).unwrap_or(0)));
        }
    }
}
