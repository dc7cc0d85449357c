//! What tables promise.

use super::*;
use crate::algorithm::Fixed;
use crate::limit::{Limit, Numbers};
use crate::quota::Quota;

/// Tags spread over the lines as a hash would spread them.
fn tag(key: u64) -> u64 {
    key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key << 7 | 1
}

fn numbers() -> (Fixed, u32) {
    let limit = Limit::fixed_window("table", Quota::per_second(1)).unwrap();
    let Numbers::Fixed { fixed, version } = *limit.numbers() else {
        panic!("a log")
    };
    (fixed, version)
}

fn insert(table: &Table, key: u64, now: u64) -> Inserted {
    let (fixed, version) = numbers();
    let moment = Moment::at(now);
    let words = fixed.admit([0, 0], moment, 1).unwrap();
    let mut chain = table.lock(table.line_of(tag(key)));
    assert!(chain.find(tag(key)).is_none());
    let inserted = chain.insert(tag(key), (&fixed, version), words, moment);
    drop(chain);
    if inserted == Inserted::Taken && table.is_full() {
        table.sweep((&fixed, version), moment, SWEEP);
    }
    inserted
}

fn holds(table: &Table, key: u64) -> bool {
    table.lock(table.line_of(tag(key))).find(tag(key)).is_some()
}

#[test]
fn nothing_is_lost_up_to_the_most_keys() {
    for max_keys in [1, 2, 3, 10, 100, 1_000, 10_000] {
        let table = Table::new(max_keys);
        for key in 0..max_keys as u64 {
            assert_ne!(insert(&table, key, 5), Inserted::Evicted);
        }
        assert!((0..max_keys as u64).all(|key| holds(&table, key)));
        assert_eq!(table.used(), max_keys as u64);
    }
}

#[test]
fn all_keys_of_one_line_are_kept_while_the_chain_lasts() {
    let table = Table::new(100);
    let (fixed, version) = numbers();
    for key in 1..=2 * MAX_CHAIN as u64 {
        let mut chain = table.lock(0);
        assert_eq!(
            chain.insert(key, (&fixed, version), [5, 1], Moment::at(5)),
            Inserted::Taken
        );
    }
    let mut chain = table.lock(0);
    assert_eq!(
        chain.insert(1_000, (&fixed, version), [5, 1], Moment::at(5)),
        Inserted::Evicted
    );
}

#[test]
fn live_keys_are_never_lost_however_many_have_come_and_gone() {
    // Every key lives for a second; a thousand are live at any time, a hundred thousand pass.
    let table = Table::new(1_000);
    for key in 0..100_000 {
        assert_ne!(
            insert(&table, key, key * 1_000_000),
            Inserted::Evicted,
            "key {key}"
        );
    }
    assert!(table.used() <= 1_126, "{}", table.used());
    assert!((99_001..100_000).all(|key| holds(&table, key)));
}

#[test]
fn beyond_the_most_keys_memory_stays_and_the_excess_is_evicted() {
    let table = Table::new(1_000);
    let evicted = (0..20_000)
        .filter(|key| insert(&table, *key, 5) == Inserted::Evicted)
        .count();
    assert!(table.used() <= 1_000 + 126 + 500, "{}", table.used());
    assert_eq!(evicted as u64 + table.used(), 20_000);
}

#[test]
fn lines_are_aligned_to_their_size() {
    let table = Table::new(1_000);
    assert_eq!(std::ptr::from_ref(table.line(3)).addr() % 64, 0);
}
