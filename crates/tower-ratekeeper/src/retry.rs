//! When a refused client is told to come back.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The most seconds a recipient is sure to read: it may keep 31 bits.
pub(crate) const MAX_RETRY_AFTER: u64 = 2_147_483_647;

/// Returns the seconds of `Retry-After` for that wait: rounded up, at least 1, at most `cap`.
///
/// Rounding down would make an obedient client come too early, and 0 would tell it to come at once.
pub(crate) fn retry_after_seconds(wait: Duration, cap: u64) -> u64 {
    let seconds = wait
        .as_secs()
        .saturating_add(u64::from(wait.subsec_nanos() > 0));
    seconds.min(cap).clamp(1, MAX_RETRY_AFTER)
}

/// Time added to the wait that a refused client is told, so that clients refused together do not return together.
///
/// Jitter only ever adds: a client that waits as it is told is never early. The addition is spread evenly from nothing to the
/// given bound; as `Retry-After` counts whole seconds, less than a second spreads nothing there.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tower_ratekeeper::Jitter;
///
/// assert_eq!(Jitter::up_to(Duration::from_secs(5)).bound(), Duration::from_secs(5));
/// assert_eq!(Jitter::none().bound(), Duration::ZERO);
/// // A tenth of the window, but no longer than half a minute.
/// assert_eq!(Jitter::of_window(Duration::from_secs(60)).bound(), Duration::from_secs(6));
/// assert_eq!(Jitter::of_window(Duration::from_secs(86_400)).bound(), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    bound: Duration,
}

impl Jitter {
    /// Returns the jitter that adds up to `bound`, that included; bounds of more than 584 years are taken as that.
    #[must_use]
    pub const fn up_to(bound: Duration) -> Self {
        Self { bound }
    }

    /// Returns the jitter that adds nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self::up_to(Duration::ZERO)
    }

    /// Returns the jitter for a limit whose window ends for all callers at once: a tenth of the window, at most 30 seconds.
    #[must_use]
    pub fn of_window(window: Duration) -> Self {
        Self::up_to((window / 10).min(Duration::from_secs(30)))
    }

    /// Returns the most that is added.
    #[must_use]
    pub const fn bound(self) -> Duration {
        self.bound
    }

    /// Returns the wait with the addition that `draw`, a number from the whole range of `u64`, stands for.
    pub(crate) fn add(self, wait: Duration, draw: u64) -> Duration {
        let bound = u64::try_from(self.bound.as_nanos()).unwrap_or(u64::MAX);
        let added = (u128::from(draw) * (u128::from(bound) + 1)) >> 64;
        // The product's upper half is at most the bound.
        let added = u64::try_from(added).unwrap_or(bound);
        wait.saturating_add(Duration::from_nanos(added))
    }
}

/// A stream of numbers for [`Jitter::add`], shared by all clones of a layer.
///
/// The numbers spread clients out; they are no secret. A counter that is hashed needs no lock and no thread-local state.
#[derive(Debug)]
pub(crate) struct Draws {
    seed: u64,
    /// How many numbers were drawn. The count is the whole state: nothing else is read through it, so its accesses are `Relaxed`.
    count: AtomicU64,
}

impl Draws {
    /// Returns a stream that differs from process to process.
    pub(crate) fn new() -> Self {
        Self::seeded(RandomState::new().hash_one(0_u8))
    }

    /// Returns the stream of that seed, for tests that need the same numbers again.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            seed,
            count: AtomicU64::new(0),
        }
    }

    /// Returns the next number.
    pub(crate) fn next(&self) -> u64 {
        // SplitMix64: a counter in steps of the golden ratio, then two rounds of multiply and fold.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut mixed = self
            .seed
            .wrapping_add(count.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_to_at_least_one_second() {
        let cases = [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_micros(1_000_100), 2),
            (Duration::from_millis(10_900), 11),
            (Duration::from_millis(59_999), 60),
            (Duration::from_secs(3_600), 3_600),
            (Duration::MAX, MAX_RETRY_AFTER),
        ];
        for (wait, seconds) in cases {
            assert_eq!(retry_after_seconds(wait, u64::MAX), seconds, "{wait:?}");
        }
    }

    #[test]
    fn retry_after_keeps_to_the_cap_and_above_zero() {
        assert_eq!(retry_after_seconds(Duration::from_secs(61), 60), 60);
        assert_eq!(retry_after_seconds(Duration::from_secs(60), 60), 60);
        assert_eq!(retry_after_seconds(Duration::from_secs(61), 0), 1);
    }

    #[test]
    fn jitter_only_adds_and_keeps_to_its_bound() {
        let wait = Duration::from_millis(1_500);
        let bounds = [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(1),
            Duration::from_secs(30),
            Duration::from_secs(u64::MAX / 2),
            Duration::MAX,
        ];
        for bound in bounds {
            let jitter = Jitter::up_to(bound);
            assert_eq!(jitter.add(wait, 0), wait, "least of {bound:?}");
            let most = jitter.add(wait, u64::MAX);
            assert!(wait <= most, "{most:?} with {bound:?}");
            assert!(
                most <= wait.saturating_add(bound),
                "{most:?} with {bound:?}"
            );
        }
        assert_eq!(
            Jitter::up_to(Duration::from_secs(30)).add(wait, u64::MAX),
            Duration::from_millis(31_500)
        );
        assert_eq!(
            Jitter::up_to(Duration::from_secs(30)).add(Duration::ZERO, u64::MAX / 2),
            Duration::from_secs(15)
        );
    }

    #[test]
    fn jitter_spreads_a_crowd_over_every_second_of_its_bound() {
        let draws = Draws::seeded(7);
        let jitter = Jitter::up_to(Duration::from_secs(9));
        let mut crowd = [0_u32; 10];
        for _ in 0..9_000 {
            let wait = jitter.add(Duration::from_secs(1), draws.next());
            let seconds = retry_after_seconds(wait, u64::MAX);
            crowd[usize::try_from(seconds).unwrap() - 1] += 1;
        }
        // Whole seconds are rounded up, so the first second is that of the few that got nothing added.
        assert!(crowd[0] < 10, "{crowd:?}");
        assert!(
            crowd[1..].iter().all(|share| (850..1_150).contains(share)),
            "{crowd:?}"
        );
    }

    #[test]
    fn draws_of_two_seeds_differ_and_of_one_seed_repeat() {
        let take = |draws: &Draws| [draws.next(), draws.next(), draws.next()];
        assert_eq!(take(&Draws::seeded(1)), take(&Draws::seeded(1)));
        assert_ne!(take(&Draws::seeded(1)), take(&Draws::seeded(2)));
        assert_ne!(take(&Draws::new()), take(&Draws::new()));
        // The published first outputs of the generator for seed 0.
        assert_eq!(
            take(&Draws::seeded(0)),
            [
                0xE220_A839_7B1D_CDAF,
                0x6E78_9E6A_A1B9_65F4,
                0x06C4_5D18_8009_454F
            ]
        );
    }
}
