//! What a limit admits, keeps and tells, before anybody runs it.
//!
//! Waits and times to full come from the algorithms themselves on a clock that stands still. What
//! is admitted at most is each algorithm's bound, which the tests hold against exhaustive search.

mod backend;

use std::time::Duration;

use ratekeeper_core::algorithm::{Log, Moment};
use ratekeeper_core::{Algorithm, Limit, LimitError, Numbers, Quota, Standing, Wait};

pub use self::backend::Backend;

const MINUTE: Duration = Duration::from_secs(60);

/// What a limit means in numbers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The quota, without a burst where the algorithm has none.
    pub quota: Quota,
    /// Units that a fresh key spends at once.
    pub at_once: u64,
    /// The most units in a key's first minute.
    pub first_minute: u128,
    /// The most units in any interval as long as the quota's period.
    pub worst_period: u128,
    /// The most units in any interval of a hundredth of the quota's period.
    pub worst_hundredth: u128,
    /// How long a key that has spent everything must rest to be as good as fresh.
    pub to_full: Duration,
    /// How long a key that has spent everything at once waits for its next unit.
    pub wait: Duration,
    /// Bytes that a key takes in memory, at most.
    pub memory: u64,
    /// Bytes that a key takes in Redis, about.
    pub redis: u64,
    /// The header fields of a response, by name: of a first response, then of a refusal.
    pub fields: [Vec<(&'static str, String)>; 2],
}

impl Explanation {
    /// Works out what a quota means under an algorithm.
    ///
    /// # Errors
    ///
    /// Fails when the algorithm cannot count the quota, for instance when it has no burst.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::explain::Explanation;
    /// use ratekeeper_core::Algorithm;
    ///
    /// let bucket = Explanation::new(Algorithm::TokenBucket, "10/s burst 20".parse().unwrap()).unwrap();
    /// assert_eq!((bucket.at_once, bucket.first_minute, bucket.worst_period), (20, 620, 30));
    /// assert_eq!((bucket.to_full.as_millis(), bucket.wait.as_millis()), (2_000, 100));
    /// ```
    pub fn new(algorithm: Algorithm, quota: Quota) -> Result<Self, LimitError> {
        let limit = Limit::new("default", algorithm, quota)?;
        let capacity = limit.capacity();
        let first = spend(limit.numbers(), 1);
        let spent = spend(limit.numbers(), capacity);
        let wait = match spent.1 {
            Wait::For(wait) => wait,
            Wait::None | Wait::Unknown | Wait::Never => Duration::ZERO,
        };
        let (memory, redis) = bytes(algorithm, capacity);
        let policy = format!("\"default\";q={capacity};w={}", window(&limit));
        let retry_after = seconds(wait).max(1);
        let standing = |standing: Standing, most: u64| {
            format!(
                "\"default\";r={};t={}",
                standing.remaining,
                effective_window(&limit, standing).min(most)
            )
        };
        Ok(Self {
            algorithm,
            quota,
            at_once: capacity,
            first_minute: most(algorithm, quota, MINUTE),
            worst_period: most_anywhere(algorithm, quota, quota.period()),
            worst_hundredth: most_anywhere(algorithm, quota, quota.period() / 100),
            to_full: Duration::from_nanos(spent.0.reset),
            wait,
            memory,
            redis,
            fields: [
                vec![
                    ("RateLimit-Policy", policy.clone()),
                    ("RateLimit", standing(first.0, u64::MAX)),
                ],
                vec![
                    ("RateLimit-Policy", policy),
                    ("RateLimit", standing(spent.0, retry_after)),
                    ("Retry-After", retry_after.to_string()),
                ],
            ],
        })
    }

    /// Explains a quota under every algorithm; those without a burst take the quota without it, and
    /// a calendar is left out where the period is none of its units.
    #[must_use]
    pub fn compare(quota: Quota) -> Vec<Self> {
        let names = [
            "token-bucket",
            "leaky-bucket",
            "fixed-window",
            "calendar-window",
            "sliding-log",
            "sliding-counter",
        ];
        let algorithms = names
            .into_iter()
            .filter_map(|name| name.parse::<Algorithm>().ok());
        let explained = algorithms.filter_map(|algorithm| {
            let plain = Quota::try_new(quota.units(), quota.period()).ok()?;
            Self::new(algorithm, if algorithm.has_burst() { quota } else { plain }).ok()
        });
        explained.collect()
    }
}

/// Returns how a fresh key stands after spending `units` at once, and the wait for one more.
fn spend(numbers: &Numbers, units: u64) -> (Standing, Wait) {
    let moment = Moment::at(0);
    match numbers {
        Numbers::Log(numbers) => {
            let mut log = Log::default();
            numbers.push(&mut log, moment, units);
            (
                numbers.standing(&log, moment),
                numbers.wait(&log, moment, 1),
            )
        }
        Numbers::Fixed { fixed, .. } => {
            let words = fixed.admit([0, 0], moment, units).unwrap_or_default();
            (fixed.standing(words, moment), fixed.wait(words, moment, 1))
        }
        // A new kind of numbers: nothing is known of it.
        _ => (
            Standing {
                remaining: 0,
                next: 0,
                reset: 0,
            },
            Wait::Unknown,
        ),
    }
}

/// Returns the most units that a key spends in an interval that begins with its first request.
fn most(algorithm: Algorithm, quota: Quota, interval: Duration) -> u128 {
    let units = u128::from(quota.units());
    match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            u128::from(quota.burst()) + refilled(quota, interval)
        }
        // A calendar's edge can follow the first request at once.
        Algorithm::CalendarWindow(_) => {
            units
                * (interval
                    .as_nanos()
                    .saturating_sub(1)
                    .div_ceil(quota.period().as_nanos())
                    + 1)
        }
        _ => units * interval.as_nanos().div_ceil(quota.period().as_nanos()),
    }
}

/// Returns the most units in any interval this long, which is no longer than the period.
fn most_anywhere(algorithm: Algorithm, quota: Quota, interval: Duration) -> u128 {
    let units = u128::from(quota.units());
    match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            u128::from(quota.burst()) + refilled(quota, interval)
        }
        // All of one window at its end, all of the next at its start. A key's own window begins
        // with a request, which is then too early to count.
        Algorithm::FixedWindow => (2 * units - 1).max(1),
        Algorithm::CalendarWindow(_) => 2 * units,
        // A full window at its end, and then what its fading weight leaves room for.
        Algorithm::SlidingCounter => units + refilled(quota, interval).min(units - 1),
        _ => units,
    }
}

/// Returns the whole units that come back in an interval.
fn refilled(quota: Quota, interval: Duration) -> u128 {
    u128::from(quota.units()) * interval.as_nanos() / quota.period().as_nanos()
}

/// Returns the window that a client is told: the period, or the time in which a bucket fills.
fn window(limit: &Limit) -> u64 {
    let quota = limit.quota();
    let nanos = if limit.algorithm().has_burst() {
        u128::from(quota.burst()) * quota.period().as_nanos() / u128::from(quota.units())
    } else {
        quota.period().as_nanos()
    };
    u64::try_from(nanos.div_ceil(1_000_000_000))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Returns the seconds within which a client can use no more than what remains, as the layer tells
/// them: those in which a bucket gives as much again, a counter forgets, a window ends.
fn effective_window(limit: &Limit, standing: Standing) -> u64 {
    let quota = limit.quota();
    let period = quota.period().as_nanos();
    let nanos = match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            let again =
                (u128::from(standing.remaining) * period).div_ceil(u128::from(quota.units()));
            again.max(u128::from(standing.next))
        }
        Algorithm::SlidingCounter => u128::from(standing.reset).min(period),
        _ => u128::from(standing.next),
    };
    u64::try_from(nanos.div_ceil(1_000_000_000))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Returns seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Returns the bytes of one key in memory, and about those in Redis.
fn bytes(algorithm: Algorithm, capacity: u64) -> (u64, u64) {
    match algorithm {
        Algorithm::SlidingLog => (
            LOG_MEMORY + capacity.saturating_mul(16),
            LOG_REDIS + capacity.saturating_mul(LOG_ENTRY_REDIS),
        ),
        // Two keys share a line of 64 bytes; some lines are chained to others.
        _ => (44, WORDS_REDIS),
    }
}

/// A log's own slot and index entry in memory, without its requests.
const LOG_MEMORY: u64 = 120;

/// A key of two words in Redis, with its name of a dozen letters beside the digest and its expiry;
/// measured on Redis 7.
const WORDS_REDIS: u64 = 240;

/// A log in Redis, likewise, without its requests; and one request.
const LOG_REDIS: u64 = 320;
const LOG_ENTRY_REDIS: u64 = 21;

#[cfg(test)]
mod tests;
