//! Many callers at once: exactly the capacity is admitted, whatever the interleaving.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use ratekeeper_core::{Claim, Limit, Settle, Store};

use super::{
    Harness,
    subject::{Subject, algorithms, limit},
};

const THREADS: usize = 8;

/// Runs `work` on several threads that start together, and returns the sum of what they return.
fn together(work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let (start, sum) = (Barrier::new(THREADS), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, sum, work) = (&start, &sum, &work);
            scope.spawn(move || {
                start.wait();
                // Relaxed: the end of the scope publishes it.
                sum.fetch_add(work(thread), Ordering::Relaxed);
            });
        }
    });
    sum.into_inner()
}

/// Eight threads ask for costs of 1 to 3 on one key while the clock stands: the capacity is admitted to the unit.
pub fn threads_on_one_key_admit_exactly_the_capacity<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "1000/h");
        let admitted = together(|thread| {
            let cost = |round: u64| (round + thread as u64) % 3 + 1;
            let spent: u64 = (0..150)
                .map(cost)
                .filter(|cost| subject.admits(&limit, "key", *cost))
                .sum();
            // Smaller costs fit where larger ones no longer do.
            spent + (0..10).filter(|_| subject.admits(&limit, "key", 1)).count() as u64
        });
        assert_eq!(admitted, 1_000, "{algorithm}");
        assert!(!subject.admits(&limit, "key", 1), "{algorithm}");
    }
}

/// Eight threads ask on the same 50 keys, each in another order: every key admits exactly its capacity.
pub fn threads_on_many_keys_admit_exactly_the_capacity_of_each<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "20/h");
        let admitted = together(|thread| {
            let keys = (0..50 * 4).map(|step| (step * 7 + thread as u64 * 13) % 50);
            keys.filter(|key| subject.admits(&limit, *key, 1)).count() as u64
        });
        assert_eq!(admitted, 50 * 20, "{algorithm}");
        for key in 0..50_u64 {
            assert_eq!(subject.remaining(&limit, key), 0, "{algorithm} {key}");
        }
    }
}

/// Eight threads whose requests overlap in their limits, claimed in different orders: nothing deadlocks, what is admitted is what
/// the tightest limit allows, and every limit was charged exactly for what was admitted.
pub fn threads_with_several_claims_admit_exactly_what_all_limits_allow<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    let limits: Vec<Limit> = algorithms(new)
        .iter()
        .map(|algorithm| limit(algorithm.name(), *algorithm, "1000/h"))
        .collect();
    let tightest = limit("tightest", limits[0].algorithm(), "300/h");
    let admitted = together(|thread| {
        let mut claims: Vec<Claim<'_>> = limits
            .iter()
            .map(|limit| Claim::new(limit, "key").with_cost(2))
            .collect();
        claims.push(Claim::new(&tightest, "key"));
        claims.rotate_left(thread % 7);
        (0..60)
            .filter(|_| subject.decide(&claims).is_allowed())
            .count() as u64
    });
    assert_eq!(admitted, 300);
    assert_eq!(subject.remaining(&tightest, "key"), 0);
    for limit in &limits {
        assert_eq!(subject.remaining(limit, "key"), 1_000 - 2 * 300, "{limit}");
    }
}

/// Threads that give back everything they were charged leave every key fresh, and never see more than the capacity.
pub fn threads_that_refund_what_they_charged_leave_nothing_charged<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "6/h");
        let held = AtomicU64::new(0);
        together(|_| {
            for _ in 0..100 {
                if let Some(receipt) = subject.charge(Claim::new(&limit, "key").with_cost(2)) {
                    // Relaxed: the counter is all that is looked at; it is lowered before the units are given back.
                    let now_held = held.fetch_add(2, Ordering::Relaxed) + 2;
                    assert!(now_held <= 6, "{algorithm}: {now_held} of 6 units are held");
                    held.fetch_sub(2, Ordering::Relaxed);
                    subject.harness.store().settle(receipt, Settle::Refund);
                }
            }
            0
        });
        subject.harness.settled();
        let left = subject.peek(&limit, "key", 1);
        assert_eq!((left.remaining, left.reset), (6, 0), "{algorithm}");
    }
}
