//! A node's share of a limit that a fleet shares.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use crate::limit::{Algorithm, Limit, LimitError};
use crate::quota::Quota;

/// Shares remembered at once: limits are configuration, but nothing keeps somebody from making one for
/// each request.
const REMEMBERED: usize = 1_024;

/// What tells limits apart that are counted differently.
type Numbers = (u32, Algorithm, Quota, u64);

/// The shares of the limits seen so far.
#[derive(Debug)]
pub(super) struct Shares {
    nodes: u32,
    shares: RwLock<HashMap<Numbers, Limit>>,
}

impl Shares {
    pub(super) fn new(nodes: u32) -> Self {
        Self {
            nodes: nodes.max(1),
            shares: RwLock::default(),
        }
    }

    /// Returns the limit that one node holds its clients to.
    ///
    /// # Errors
    ///
    /// When the share cannot be counted exactly.
    pub(super) fn of(&self, limit: &Limit) -> Result<Limit, LimitError> {
        if self.nodes == 1 {
            return Ok(limit.clone());
        }
        let numbers = (
            limit.counter_number(),
            limit.algorithm(),
            limit.quota(),
            limit.max_debt(),
        );
        let shares = self.shares.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&numbers) {
            return Ok(share.clone());
        }
        drop(shares);
        let share = share(limit, self.nodes)?;
        let mut shares = self.shares.write().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= REMEMBERED {
            shares.clear();
        }
        shares.insert(numbers, share.clone());
        Ok(share)
    }
}

/// Divides a limit by the number of nodes, exactly where that can be: a bucket's rate, and the units
/// of a window. What cannot be divided, a burst of one or the unit that a window has, is one.
fn share(limit: &Limit, nodes: u32) -> Result<Limit, LimitError> {
    let quota = limit.quota();
    let (units, nodes) = (quota.units(), u64::from(nodes));
    let longer = |times: u64| {
        let nanos = quota.period().as_nanos() * u128::from(times);
        let longest = Quota::MAX_PERIOD.as_nanos();
        Duration::from_nanos(u64::try_from(nanos.min(longest)).unwrap_or(u64::MAX))
    };
    let (algorithm, quota) = match limit.algorithm() {
        bucket @ (Algorithm::LeakyBucket | Algorithm::TokenBucket) => {
            let burst = (quota.burst() / nodes).max(1);
            let quota = Quota::new(units, longer(nodes)).with_burst(burst);
            (bucket, quota)
        }
        window if units >= nodes => (window, Quota::new(units / nodes, quota.period())),
        // A calendar has no longer window of this kind.
        Algorithm::CalendarWindow(_) => (
            Algorithm::FixedWindow,
            Quota::new(1, longer(nodes.div_ceil(units))),
        ),
        window => (window, Quota::new(1, longer(nodes.div_ceil(units)))),
    };
    let debt = limit.max_debt() / nodes;
    Limit::new(limit.name(), algorithm, quota)?
        .with_max_debt(debt)?
        .with_counter(limit.counter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::UtcOffset;

    fn shared(limit: Result<Limit, LimitError>, nodes: u32) -> String {
        share(&limit.unwrap(), nodes).unwrap().to_string()
    }

    #[test]
    fn shares_add_up_to_no_more_than_the_limit_where_units_can_be_divided() {
        let bucket = Limit::token_bucket("x", Quota::per_second(10).with_burst(20));
        assert_eq!(shared(bucket, 4), "x: token-bucket 10/4s burst 5");
        let bucket = Limit::leaky_bucket("x", Quota::per_minute(1).with_burst(1));
        assert_eq!(shared(bucket, 3), "x: leaky-bucket 1/3min burst 1");
        let log = Limit::sliding_log("x", Quota::per_minute(10));
        assert_eq!(shared(log, 3), "x: sliding-log 3/min");
        let counter = Limit::sliding_counter("x", Quota::per_minute(3));
        assert_eq!(shared(counter, 10), "x: sliding-counter 1/4min");
        let monthly = || Limit::calendar_window("x", "5/month".parse().unwrap(), UtcOffset::UTC);
        assert_eq!(shared(monthly(), 2), "x: calendar-window 2/month");
        assert_eq!(shared(monthly(), 10), "x: fixed-window 1/2month");
    }

    #[test]
    fn the_longest_period_stays_the_longest() {
        let limit = Limit::fixed_window("x", Quota::new(1, Quota::MAX_PERIOD)).unwrap();
        assert_eq!(
            share(&limit, 7).unwrap().quota().period(),
            Quota::MAX_PERIOD
        );
    }
}
