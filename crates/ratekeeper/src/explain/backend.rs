//! Many keys together against a backend of known capacity.

use ratekeeper_core::Quota;

use super::Explanation;

/// What all keys together may send to a backend, and what comes of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Backend {
    /// How many keys there are.
    pub keys: u64,
    /// What the backend serves.
    pub capacity: Quota,
    /// Units that all keys may spend at the same moment.
    pub at_once: u128,
    /// Units a second that all keys together may send for ever.
    pub rate: f64,
    /// Units a second that the backend serves.
    pub served: f64,
    /// Keys that the backend can serve at their full rate.
    pub sustained_keys: u64,
    /// Units a second by which a queue before the backend grows; zero when it keeps up.
    pub queue_growth: f64,
    /// Seconds until what came at once is worked off while all keys go on at their rate; nothing
    /// when the queue only grows.
    pub worked_off: Option<f64>,
}

impl Backend {
    /// Works out what `keys` keys of this limit do to a backend in the worst case.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown with a few digits; counts stay exact"
    )]
    pub fn new(explanation: &Explanation, keys: u64, capacity: Quota) -> Self {
        let per_second = |quota: Quota| quota.units() as f64 / quota.period().as_secs_f64();
        let at_once = u128::from(keys) * u128::from(explanation.at_once);
        let rate = keys as f64 * per_second(explanation.quota);
        let served = per_second(capacity);
        // In whole numbers, so that a backend of exactly k keys' rate sustains k.
        let share =
            |units: Quota, period: Quota| u128::from(units.units()) * period.period().as_nanos();
        let sustained =
            share(capacity, explanation.quota) / share(explanation.quota, capacity).max(1);
        let keeps_up = u128::from(keys) <= sustained;
        Self {
            keys,
            capacity,
            at_once,
            rate,
            served,
            sustained_keys: u64::try_from(sustained).unwrap_or(u64::MAX),
            queue_growth: if keeps_up { 0.0 } else { rate - served },
            worked_off: (served > rate).then(|| at_once as f64 / (served - rate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper_core::Algorithm;

    use super::*;

    fn against(quota: &str, keys: u64, capacity: &str) -> Backend {
        let explanation = Explanation::new(Algorithm::TokenBucket, quota.parse().unwrap()).unwrap();
        Backend::new(&explanation, keys, capacity.parse().unwrap())
    }

    #[test]
    fn more_than_the_backend_serves_makes_a_queue_grow() {
        let backend = against("10/s burst 20", 10_000, "200/s");
        assert_eq!((backend.at_once, backend.sustained_keys), (200_000, 20));
        assert_eq!(
            (backend.rate, backend.queue_growth, backend.worked_off),
            (100_000.0, 99_800.0, None)
        );
    }

    #[test]
    fn less_than_it_serves_is_worked_off() {
        let backend = against("10/s burst 20", 10, "200/s");
        assert_eq!((backend.queue_growth, backend.worked_off), (0.0, Some(2.0)));
    }

    #[test]
    fn exactly_what_it_serves_neither_grows_nor_shrinks() {
        let backend = against("1/3s", 600, "200/s");
        assert_eq!((backend.sustained_keys, backend.queue_growth), (600, 0.0));
        assert_eq!(against("10/s", 20, "200/s").worked_off, None);
    }
}
