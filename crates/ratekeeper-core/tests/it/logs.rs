//! What sliding logs take in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{Limit, Limiter, ManualClock, Memory, Observer, Quota};

/// Counts evictions, and asks the store about them while it is told.
#[derive(Clone, Default)]
struct Evictions {
    count: Arc<AtomicU64>,
    memory: Arc<std::sync::OnceLock<Memory>>,
}

impl Observer for Evictions {
    fn evicted(&self, limit: &Limit) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(memory) = self.memory.get() {
            assert!(memory.entries(limit) > 0);
        }
    }
}

fn limiter(
    max_entries: usize,
    units: u64,
    observer: &Evictions,
) -> Result<(Limiter, ManualClock), ratekeeper_core::LimitError> {
    let time = ManualClock::new();
    let memory = Memory::builder()
        .clock(time.clone())
        .observer(observer.clone())
        .max_log_entries(max_entries)
        .build();
    let _ = observer.memory.set(memory.clone());
    let limit = Limit::sliding_log("log", Quota::per_hour(units))?;
    Ok((Limiter::on(&memory, limit)?, time))
}

#[test]
fn logs_of_a_few_keys_in_as_many_shards_stay_within_the_bound()
-> Result<(), ratekeeper_core::LimitError> {
    let observer = Evictions::default();
    let (limiter, time) = limiter(1_000, 1_000, &observer)?;
    for _ in 0..500 {
        for key in 0..40u64 {
            time.advance(Duration::from_millis(1));
            assert!(limiter.check(key).is_allowed());
        }
    }
    // 20,000 entries were written; each beyond the bound has cost a log.
    let kept: u64 = (0..40u64)
        .map(|key| 1_000 - limiter.peek(key).remaining())
        .sum();
    assert!(kept <= 1_000, "{kept} entries");
    assert!(observer.count.load(Ordering::Relaxed) > 0);
    Ok(())
}

#[test]
fn logs_that_have_expired_go_before_one_that_counts() -> Result<(), ratekeeper_core::LimitError> {
    let observer = Evictions::default();
    let (limiter, time) = limiter(500, 10, &observer)?;
    // Fifty keys spend all they have, and are never seen again.
    for key in 0..50u64 {
        for _ in 0..10 {
            time.advance(Duration::from_millis(1));
            assert!(limiter.check(key).is_allowed());
        }
    }
    time.advance(Duration::from_secs(3_600));
    for _ in 0..10 {
        time.advance(Duration::from_millis(1));
        assert!(limiter.check("strict").is_allowed());
    }
    assert!(!limiter.check("strict").is_allowed());
    // A newcomer a moment takes room, which is that of the dead.
    for key in 1_000..1_040u64 {
        time.advance(Duration::from_millis(1));
        assert!(limiter.check(key).is_allowed());
    }
    assert!(!limiter.check("strict").is_allowed());
    assert_eq!(observer.count.load(Ordering::Relaxed), 0);
    Ok(())
}
