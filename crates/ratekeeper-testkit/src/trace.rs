//! Random histories of one key, for proptest.
//!
//! Gaps crowd where limiters go wrong: no time at all, one clock step, one step around each boundary, and years. Costs likewise: 0,
//! 1, the capacity, one more, and the largest number there is. All times are whole clock steps ([`Terms::tick`]).

use proptest::{collection::vec, prelude::*, sample::Index};

use crate::oracle::Terms;

/// One thing that happens to a key, some time after the one before.
#[derive(Clone, Debug)]
pub struct Step {
    /// Nanoseconds since the step before.
    pub gap: u64,
    /// What happens.
    pub op: Op,
}

/// What can happen to a key.
#[derive(Clone, Debug)]
pub enum Op {
    /// A request of this cost.
    Check(u64),
    /// A question that must not charge.
    Peek(u64),
    /// The end of a charge that has not ended yet, if there is one.
    Settle {
        /// Which of them.
        which: Index,
        /// What it really cost.
        actual: u64,
    },
}

/// One hundred years, in nanoseconds: a long idle time that leaves room in 64 bits for a few more.
const CENTURY: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Returns limits small enough that every cost and every time can be tried: units 1 to 5, periods 1 to 12 clock steps.
pub fn small_terms(tick: u64) -> impl Strategy<Value = Terms> {
    (1..=5_u64, 1..=12_u64, 1..=6_u64).prop_map(move |(units, steps, burst)| {
        Terms::new(units, steps * tick).burst(burst).tick(tick)
    })
}

/// Returns limits as people configure them, and some odd ones: up to 5,000 units per period, 1 ms to a year.
pub fn terms(tick: u64) -> impl Strategy<Value = Terms> {
    let second = 1_000_000_000_u64;
    let period = prop_oneof![
        4 => prop::sample::select(vec![1, 10, 60, 3_600, 86_400, 30 * 86_400, 365 * 86_400]).prop_map(move |s| s * second),
        1 => 1_000_000..=100 * second,
    ];
    let units = prop_oneof![3 => 1..=20_u64, 1 => 21..=5_000_u64];
    (
        units,
        period,
        prop_oneof![Just(1), 2..=10_u64, 11..=5_000_u64],
    )
        .prop_map(move |(units, period, burst)| {
            Terms::new(units, period / tick * tick)
                .burst(burst)
                .tick(tick)
        })
}

/// Returns times between two steps: whole clock steps, crowded around the boundaries of `terms`.
pub fn gaps(terms: Terms) -> impl Strategy<Value = u64> {
    let Terms {
        units,
        period,
        burst,
        tick,
    } = terms;
    let one = period / units;
    let around = prop_oneof![
        Just(one),
        Just(period),
        Just(period.saturating_mul(2)),
        Just(one.saturating_mul(burst)),
        0..=period,
    ];
    prop_oneof![
        4 => Just(0),
        2 => Just(tick),
        6 => (0..=one.saturating_mul(2)).prop_map(move |gap| gap / tick * tick),
        6 => (around, 0..=2_u64).prop_map(move |(gap, step)| {
            ((gap / tick).saturating_add(step).saturating_sub(1)).saturating_mul(tick)
        }),
        1 => Just(CENTURY / tick * tick),
    ]
}

/// Returns costs: mostly small, sometimes the whole capacity, one more than it, or the largest number.
pub fn costs(capacity: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => Just(1),
        6 => 1..=capacity,
        1 => Just(0),
        1 => Just(capacity),
        1 => Just(capacity.saturating_add(1)),
        1 => Just(u64::MAX),
    ]
}

/// Returns up to `steps` requests of a key whose capacity is `capacity`.
pub fn checks(terms: Terms, capacity: u64, steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (gaps(terms), costs(capacity)).prop_map(|(gap, cost)| Step {
        gap,
        op: Op::Check(cost),
    });
    vec(step, 1..=steps)
}

/// Returns up to `steps` requests, peeks and settlements of a key whose capacity is `capacity`.
///
/// Half of the settlements are refunds in full, the rest cost less or, up to twice the capacity, more than was charged.
pub fn histories(terms: Terms, capacity: u64, steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let actual = prop_oneof![
        3 => Just(0),
        2 => 0..=capacity.saturating_mul(2),
        1 => prop::sample::select(vec![capacity, u64::MAX]),
    ];
    let op = prop_oneof![
        6 => costs(capacity).prop_map(Op::Check),
        1 => costs(capacity).prop_map(Op::Peek),
        3 => (any::<Index>(), actual).prop_map(|(which, actual)| Op::Settle { which, actual }),
    ];
    vec(
        (gaps(terms), op).prop_map(|(gap, op)| Step { gap, op }),
        1..=steps,
    )
}
