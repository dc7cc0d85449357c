//! Waiting for one's turn instead of being refused: the leaky bucket as a queue.
//!
//! Nothing is reserved: a place that was promised ahead could not be given to those behind it when
//! its owner goes away. Whoever waits for a key stands in its line; only the first has a timer, set
//! for the moment that the store named when it refused. Then the first asks the store again, as of
//! that moment, so that waking up late costs no capacity; admitted, it leaves the line and wakes the
//! next, which asks as of the same moment and learns its own.
//!
//! There is no task, no lock while waiting, no polling, and one key's line knows nothing of
//! another's. A waiter is charged nothing until its turn, and holds nothing of the service behind.

mod lines;
mod pacer;
mod place;
mod throttle;
mod turn;

use std::fmt;
use std::time::Duration;

use ratekeeper_core::{Limit, LimitError, Quota};

pub(crate) use self::lines::Lines;
pub use self::pacer::{Grant, Pace, Pacer, PacerError, TooLong};
pub use self::throttle::{Throttle, ThrottleError, ThrottleFuture, ThrottleLayer};
pub(crate) use self::turn::{Arrived, Turn, ask};

/// How requests wait that a limit would refuse.
///
/// Requests of one key leave in the order in which they came. At most so many wait for a key; one
/// that is known to wait longer than [`max_wait`](Self::max_wait) is refused at once, and told how
/// long it would have been.
///
/// # When to queue, and when to refuse
///
/// Queue what has to be done anyway and comes in bursts, in front of something that breaks under
/// bursts: payments, reports, calls to others' services, jobs. Refuse people and programs that can
/// come again, and whatever a client stops waiting for: a queue in front of them only makes everyone
/// slow. A queue never cures overload that lasts; it is then full, and refuses as well.
///
/// # Examples
///
/// Two stages: three at once, the next hundred evenly at ten a second, and the rest refused.
///
/// ```
/// use std::time::Duration;
/// use tower_ratekeeper::queue::Queue;
/// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
///
/// let layer = RateLimitLayer::new([
///     Rule::leaky_bucket("reports", Quota::per_second(10))
///         .queue(Queue::new(100).max_wait(Duration::from_secs(5)).at_once(3)),
/// ])?;
/// # Ok::<(), tower_ratekeeper::RuleError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    pub(crate) capacity: usize,
    pub(crate) max_wait: Duration,
    pub(crate) at_once: AtOnce,
}

/// How many requests a bucket in front of a queue lets pass at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtOnce {
    /// What the quota says; where it says nothing, one by a leaky bucket.
    Evenly,
    /// What the limit lets pass without a queue.
    AsLimit,
    Units(u64),
}

impl Queue {
    /// The longest wait unless set: clients seldom have the patience for more.
    pub const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(30);

    /// The requests that wait for a key at most where only the longest wait was given.
    pub const DEFAULT_CAPACITY: usize = 1_024;

    /// Creates a queue in which at most `capacity` requests wait for each key.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            max_wait: Self::DEFAULT_MAX_WAIT,
            at_once: AtOnce::Evenly,
        }
    }

    /// Creates the queue of a limit that is to stay as it is, burst and all; at most
    /// [`DEFAULT_CAPACITY`](Self::DEFAULT_CAPACITY) requests wait for each key.
    #[must_use]
    pub const fn wait_up_to(max_wait: Duration) -> Self {
        Self {
            capacity: Self::DEFAULT_CAPACITY,
            max_wait,
            at_once: AtOnce::AsLimit,
        }
    }

    /// Sets the longest wait, kept to the millisecond; 30 seconds unless set. With zero nobody
    /// waits: a request is tried once.
    #[must_use]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }

    /// Sets the units, at least one, that pass at once before the others are paced; instead of the
    /// burst of the quota. It has to be no less than the largest cost.
    ///
    /// Unless set, a leaky bucket whose quota names no burst lets requests pass one by one.
    #[must_use]
    pub const fn at_once(self, units: u64) -> Self {
        let units = if units == 0 { 1 } else { units };
        Self {
            at_once: AtOnce::Units(units),
            ..self
        }
    }

    /// Returns the quota with the burst that this queue gives a limit of this algorithm.
    pub(crate) fn quota(&self, algorithm: ratekeeper_core::Algorithm, quota: Quota) -> Quota {
        let burst = match self.at_once {
            AtOnce::Units(units) => Some(units),
            AtOnce::Evenly
                if algorithm == ratekeeper_core::Algorithm::LeakyBucket && !quota.has_burst() =>
            {
                Some(1)
            }
            AtOnce::Evenly | AtOnce::AsLimit => None,
        };
        burst
            .and_then(|burst| quota.try_with_burst(burst).ok())
            .unwrap_or(quota)
    }

    /// Returns the limit with the burst that this queue gives it.
    fn shape(&self, limit: Limit) -> Result<Limit, LimitError> {
        let quota = self.quota(limit.algorithm(), limit.quota());
        if quota == limit.quota() {
            return Ok(limit);
        }
        let usual = Limit::new(limit.name(), limit.algorithm(), limit.quota())?.max_debt();
        let shaped = Limit::new(limit.name(), limit.algorithm(), quota)?;
        let shaped = if limit.max_debt() == usual {
            shaped
        } else {
            shaped.with_max_debt(limit.max_debt())?
        };
        shaped
            .with_generation(limit.generation())
            .with_counter(limit.counter())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("capacity", &self.capacity)
            .field("max_wait", &self.max_wait)
            .field("at_once", &self.at_once)
            .finish()
    }
}

/// What becomes of requests that wait, or would have to: so that a service can end without keeping
/// anyone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Waiters {
    /// They wait for their turn.
    #[default]
    Hold,
    /// They go on, now: the limit that delays them has no say, others do.
    Release,
    /// They are refused, now, and told how long they would still have waited.
    Refuse,
}

/// How a request waited for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waited {
    ahead: usize,
    time: Duration,
}

impl Waited {
    /// Returns how many requests of the same key were waiting already when this one came.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// Returns how long the request waited.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Writes the wait into a response's header fields, beside what stands there.
    pub(crate) fn write_field(&self, headers: &mut http::HeaderMap) {
        let text = format!("ratelimit;dur={}", self.time.as_millis());
        if let Ok(value) = http::HeaderValue::try_from(text) {
            // Where there is no room for a field, the response does without.
            let _ = headers.try_append("server-timing", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(limit: Result<Limit, LimitError>, queue: Queue) -> Result<u64, LimitError> {
        queue.shape(limit.unwrap()).map(|limit| limit.capacity())
    }

    #[test]
    fn a_leaky_bucket_that_names_no_burst_lets_requests_pass_one_by_one() {
        let ten = Quota::per_second(10);
        let queue = Queue::new(5);
        assert_eq!(burst(Limit::leaky_bucket("q", ten), queue), Ok(1));
        assert_eq!(
            burst(Limit::leaky_bucket("q", ten.with_burst(4)), queue),
            Ok(4)
        );
        assert_eq!(
            burst(Limit::leaky_bucket("q", ten), queue.at_once(3)),
            Ok(3)
        );
        assert_eq!(
            burst(Limit::leaky_bucket("q", ten), queue.at_once(0)),
            Ok(1)
        );
        assert_eq!(burst(Limit::token_bucket("q", ten), queue), Ok(10));
        assert_eq!(
            burst(
                Limit::leaky_bucket("q", ten),
                Queue::wait_up_to(Duration::MAX)
            ),
            Ok(10)
        );
        assert!(burst(Limit::sliding_log("q", ten), queue.at_once(3)).is_err());
    }

    #[test]
    fn another_burst_keeps_the_counter_and_a_debt_that_was_set() {
        let limit = Limit::leaky_bucket("q", Quota::per_second(10)).unwrap();
        let shaped = Queue::new(1).shape(limit.clone()).unwrap();
        assert_eq!((shaped.max_debt(), shaped.counter()), (1, "q"));
        let limit = limit.with_max_debt(7).unwrap().with_counter("c").unwrap();
        let shaped = Queue::new(1).shape(limit).unwrap();
        assert_eq!((shaped.max_debt(), shaped.counter()), (7, "c"));
    }
}
