//! Many more keys than a store holds: what has to last does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{Limit, Limiter, ManualClock, Memory, Observer, Quota};

#[derive(Clone, Default)]
pub(crate) struct Evictions(Arc<AtomicU64>);

impl Evictions {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Observer for Evictions {
    fn evicted(&self, _: &Limit) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const MAX_KEYS: u64 = 1_000;

fn store() -> (Memory, ManualClock, Evictions) {
    let clock = ManualClock::new();
    let evictions = Evictions::default();
    let memory = Memory::builder()
        .clock(clock.clone())
        .observer(evictions.clone())
        .max_keys(usize::try_from(MAX_KEYS).unwrap())
        .build();
    (memory, clock, evictions)
}

fn limiter(memory: &Memory, name: &str, quota: &str) -> Limiter {
    let limit = Limit::token_bucket(name, quota.parse().unwrap()).unwrap();
    Limiter::on(memory, limit).unwrap()
}

#[test]
fn a_flood_of_keys_neither_grows_the_store_nor_frees_a_refused_key_nor_reaches_another_limit() {
    let (memory, _, evictions) = store();
    let flooded = limiter(&memory, "flooded", "2/day");
    let other = limiter(&memory, "other", "2/day");
    assert!(flooded.check_n("exhausted", 2).is_allowed());
    for key in 0..MAX_KEYS {
        assert!(other.check(key).is_allowed());
    }
    for key in 0..10 * MAX_KEYS {
        assert!(flooded.check(key).is_allowed(), "key {key}");
        assert!(!flooded.check("exhausted").is_allowed(), "key {key}");
        // Full, what the sweep may be late by, and keys whose line had nobody to evict.
        assert!(memory.entries(flooded.limit()) <= MAX_KEYS + MAX_KEYS / 4);
    }
    assert!(evictions.count() >= 8 * MAX_KEYS);
    for key in 0..MAX_KEYS {
        assert_eq!(other.peek(key).remaining(), 1, "key {key}");
    }
}

#[test]
fn a_flood_that_has_passed_leaves_room_for_as_many_live_keys_as_before() {
    let (memory, clock, evictions) = store();
    let limiter = limiter(&memory, "flooded", "2/s");
    for key in 0..10 * MAX_KEYS {
        assert!(limiter.check(key).is_allowed());
    }
    let during = evictions.count();
    assert!(during > 0);
    clock.advance(Duration::from_secs(2));
    for key in 0..MAX_KEYS {
        assert!(limiter.check_n(1_000_000 + key, 2).is_allowed());
    }
    // The first of them find the store as the flood has left it.
    let lost = evictions.count() - during;
    assert!(lost <= MAX_KEYS / 50, "{lost}");
    let refused = (0..MAX_KEYS).filter(|key| !limiter.check(1_000_000 + key).is_allowed());
    assert!(refused.count() as u64 >= MAX_KEYS - 2 * lost);
}

#[test]
fn honest_keys_among_many_abusers_are_never_refused() {
    // Each abuser is refused nearly always; those who ask once are never mistaken for one.
    let (memory, clock, _) = store();
    let quota = Quota::per_minute(1);
    let limit = Limit::token_bucket("pages", quota).unwrap();
    let limiter = Limiter::on(&memory, limit).unwrap();
    for round in 0..20u64 {
        for abuser in 0..2 * MAX_KEYS {
            let _ = limiter.check(abuser);
        }
        let honest = 1_000_000 + round;
        assert!(limiter.check(honest).is_allowed(), "round {round}");
        clock.advance(Duration::from_millis(100));
    }
}
