//! Every interleaving of two or three threads on one line of a table, as the store takes it.
//!
//! The store is small, so that all keys meet in one line; its clock stands still. `scripts/loom` runs
//! these.

use std::sync::Arc;
use std::time::Duration;

use loom::model::Builder;
use loom::thread;

use crate::claim::{Claim, Claims};
use crate::clock::ManualClock;
use crate::key::Key;
use crate::limit::Limit;
use crate::memory::Memory;
use crate::quota::Quota;
use crate::receipt::Settle;
use crate::store::{Acquire, Answer, Store};

/// Checks a model with at most this many switches from one thread to another that was not due.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn store() -> (Memory, ManualClock) {
    let clock = ManualClock::new();
    let memory = Memory::builder().clock(clock.clone()).max_keys(2).build();
    (memory, clock)
}

/// Returns a limit whose table is there already: it is made under a lock that the models do not see.
fn window(memory: &Memory, name: &str, units: u64) -> Limit {
    let limit = Limit::fixed_window(name, Quota::per_second(units)).unwrap();
    assert!(memory.peek(&limit, &Key::GLOBAL, 1).is_allowed());
    limit
}

fn is_allowed(memory: &Memory, limit: &Limit, key: u64) -> bool {
    memory.check(limit, &Key::from(key), 1).is_allowed()
}

fn acquire(memory: &Memory, claims: &[Claim<'_>]) -> Answer {
    let Acquire::Now(Ok(answer)) = memory.acquire(&Claims::new(claims).unwrap()) else {
        panic!("memory answers at once")
    };
    answer
}

/// Runs the same in several threads, this one among them, and counts how often it returns true.
fn count(threads: u64, work: impl Fn(u64) -> bool + Send + Sync + 'static) -> usize {
    let work = Arc::new(work);
    let others: Vec<_> = (1..threads)
        .map(|thread| {
            let work = Arc::clone(&work);
            thread::spawn(move || work(thread))
        })
        .collect();
    let own = work(0);
    let others = others.into_iter().map(|other| other.join().unwrap());
    others.chain([own]).filter(|admitted| *admitted).count()
}

#[test]
fn two_threads_share_the_last_unit_of_a_new_key() {
    check(3, || {
        let (memory, _) = store();
        let limit = window(&memory, "loom", 1);
        assert_eq!(count(2, move |_| is_allowed(&memory, &limit, 7)), 1);
    });
}

#[test]
fn three_threads_share_two_units_of_a_known_key() {
    check(1, || {
        let (memory, _) = store();
        let limit = window(&memory, "loom", 3);
        assert!(is_allowed(&memory, &limit, 7));
        assert_eq!(count(3, move |_| is_allowed(&memory, &limit, 7)), 2);
    });
}

#[test]
fn no_charge_is_lost() {
    check(3, || {
        let (memory, _) = store();
        let limit = window(&memory, "loom", 10);
        assert!(is_allowed(&memory, &limit, 7));
        let (shared, same) = (memory.clone(), limit.clone());
        assert_eq!(count(2, move |_| is_allowed(&shared, &same, 7)), 2);
        assert_eq!(memory.peek(&limit, &Key::from(7), 1).remaining(), 7);
    });
}

#[test]
fn two_new_keys_of_one_line_are_both_kept() {
    check(3, || {
        let (memory, _) = store();
        let limit = window(&memory, "loom", 1);
        let (shared, same) = (memory.clone(), limit.clone());
        assert_eq!(count(2, move |key| is_allowed(&shared, &same, key)), 2);
        assert_eq!(memory.entries(&limit), 2);
        assert!(!is_allowed(&memory, &limit, 0));
        assert!(!is_allowed(&memory, &limit, 1));
    });
}

#[test]
fn a_chain_grows_under_the_eyes_of_a_reader() {
    check(2, || {
        let (memory, _) = store();
        let limit = window(&memory, "loom", 1);
        assert!(is_allowed(&memory, &limit, 0));
        assert!(is_allowed(&memory, &limit, 1));
        // A third key needs an overflow line; the second is refused all the while.
        let (shared, same) = (memory.clone(), limit.clone());
        let admitted = count(2, move |thread| is_allowed(&shared, &same, thread + 1));
        assert_eq!(admitted, 1);
        assert!(!is_allowed(&memory, &limit, 2));
    });
}

#[test]
fn a_refusal_is_never_read_from_two_states() {
    check(3, || {
        let (memory, clock) = store();
        let limit = window(&memory, "loom", 2);
        assert!(memory.check(&limit, &Key::from(7), 2).is_allowed());
        clock.advance(Duration::from_secs(5));
        // The old window's count with the new window's start would refuse.
        assert_eq!(count(2, move |_| is_allowed(&memory, &limit, 7)), 2);
    });
}

#[test]
fn two_limits_in_either_order_admit_one_of_two_requests_and_charge_both() {
    check(2, || {
        let (memory, _) = store();
        let limits = [
            window(&memory, "loom-first", 1),
            window(&memory, "loom-second", 1),
        ];
        let (shared, same) = (memory.clone(), limits.clone());
        let admitted = count(2, move |thread| {
            let [first, second] = &same;
            let claims = [Claim::new(first, 7u64), Claim::new(second, 7u64)];
            let claims = if thread == 0 {
                claims
            } else {
                [claims[1], claims[0]]
            };
            acquire(&shared, &claims).decision.is_allowed()
        });
        assert_eq!(admitted, 1);
        for limit in &limits {
            assert_eq!(memory.peek(limit, &Key::from(7), 1).remaining(), 0);
        }
    });
}

#[test]
fn a_refund_meets_a_charge_and_neither_is_lost() {
    check(2, || {
        let (memory, _) = store();
        let limit = window(&memory, "loom", 3);
        let mut answer = acquire(&memory, &[Claim::new(&limit, 7u64).settled_later()]);
        let receipt = answer.receipts.pop().unwrap();
        let (shared, same) = (memory.clone(), limit.clone());
        let other = thread::spawn(move || is_allowed(&shared, &same, 7));
        memory.settle(receipt, Settle::Refund);
        assert!(other.join().unwrap());
        assert_eq!(memory.peek(&limit, &Key::from(7), 1).remaining(), 2);
    });
}
