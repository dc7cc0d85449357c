//! Long random histories with refunds and actual costs, against the world in which only the final costs were ever charged.
//!
//! What a request finally cost counts from when it was admitted; what came on top, from when it became known, and no more of it
//! than the limit's debt had room for. Nothing is shared with the store but the text of the contract: levels are whole numbers
//! of units times nanoseconds, and windows are sums over everything that was ever charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use proptest::{collection::vec, prelude::*, sample::select};
use ratekeeper_core::algorithm::UtcOffset;
use ratekeeper_core::{
    Acquire, Algorithm, Claim, Claims, Key, Limit, ManualClock, Memory, Observer, Quota, Receipt,
    Settle, Store,
};

const MINUTE: u64 = 60_000_000_000;

/// One thing that happens, some time after the one before.
#[derive(Clone, Debug)]
struct Step {
    gap: u64,
    event: Event,
}

#[derive(Clone, Debug)]
enum Event {
    /// A request of this cost, settled later.
    Request(u64),
    /// The end of an open charge.
    Settle(prop::sample::Index, Settle),
}

/// What one charge came to.
#[derive(Clone, Copy, Debug)]
struct Charged {
    at: u64,
    units: u64,
}

/// Writes down how much was clipped last.
#[derive(Clone, Default)]
struct Clipped(Arc<AtomicU64>);

impl Observer for Clipped {
    fn clipped(&self, _: &Limit, units: u64) {
        self.0.store(units, Ordering::Relaxed);
    }
}

struct World {
    memory: Memory,
    clock: ManualClock,
    clipped: Clipped,
    key: u64,
}

impl World {
    fn new(histories: usize) -> Self {
        let (clock, clipped) = (ManualClock::new(), Clipped::default());
        let memory = Memory::builder()
            .clock(clock.clone())
            .observer(clipped.clone());
        // Every history has a key of its own, and none is to be forgotten early.
        let memory = memory.max_keys(4 * histories).build();
        Self {
            memory,
            clock,
            clipped,
            key: 0,
        }
    }

    fn request(&self, limit: &Limit, key: Key, cost: u64) -> Option<Receipt> {
        let claim = Claim::new(limit, key).with_cost(cost).settled_later();
        let acquired = self.memory.acquire(&Claims::one(&claim));
        let Acquire::Now(Ok(mut answer)) = acquired else {
            panic!("a memory knows at once")
        };
        answer.receipts.pop()
    }

    fn now(&self) -> u64 {
        self.clock.now().get()
    }
}

fn period(limit: &Limit) -> u64 {
    u64::try_from(limit.quota().period().as_nanos()).unwrap()
}

/// The units that would remain of a bucket, had only these been charged.
fn bucket(limit: &Limit, charges: &[Charged], now: u64) -> u64 {
    let (units, period) = (u128::from(limit.quota().units()), u128::from(period(limit)));
    let mut level = 0;
    let mut last = 0;
    for charge in charges {
        level = u128::saturating_sub(level, u128::from(charge.at - last) * units);
        level += u128::from(charge.units) * period;
        last = charge.at;
    }
    level = level.saturating_sub(u128::from(now - last) * units);
    let free = (u128::from(limit.capacity()) * period).saturating_sub(level);
    u64::try_from(free / period).unwrap()
}

/// The units charged within the interval W that ends now, which is open at its beginning.
fn within(charges: &[Charged], window: u64, now: u64) -> u64 {
    let recent = charges.iter().filter(|charge| charge.at + window > now);
    recent.map(|charge| charge.units).sum()
}

/// The most that would remain, had only these been charged; the capacity where the question has no plain answer, because the
/// windows depend on what came to nothing.
fn ideal(limit: &Limit, charges: &[Charged], now: u64) -> u64 {
    let left = |used: u64| limit.capacity().saturating_sub(used);
    match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket(limit, charges, now),
        Algorithm::SlidingLog => left(within(charges, period(limit), now)),
        Algorithm::CalendarWindow(_) => {
            let same = |charge: &&Charged| charge.at / MINUTE == now / MINUTE;
            left(charges.iter().filter(same).map(|charge| charge.units).sum())
        }
        _ => limit.capacity(),
    }
}

/// The most units, by their final cost, that any interval of one period may hold.
fn most_in_a_period(limit: &Limit) -> u64 {
    let whole = limit.capacity() + limit.max_debt();
    match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => whole + limit.quota().units(),
        Algorithm::SlidingLog => whole,
        _ => 2 * whole,
    }
}

/// Whether a bucket holds all that it may, its debt included.
fn is_at_the_brim(world: &World, limit: &Limit, key: Key) -> bool {
    let reset = world.memory.peek(limit, &key, 1).reset().as_nanos();
    let whole = u128::from(limit.capacity() + limit.max_debt());
    let full = reset * u128::from(limit.quota().units()) >= whole * u128::from(period(limit));
    limit.algorithm().has_burst() && full
}

fn check(world: &mut World, limit: &Limit, steps: &[Step]) -> TestCaseResult {
    // A fresh key at a whole minute, so that histories do not depend on each other.
    world.key += 1;
    let key = Key::from(world.key);
    world
        .clock
        .advance(Duration::from_nanos(10 * MINUTE - world.now() % MINUTE));
    let mut charges: Vec<Charged> = Vec::new();
    let mut open: Vec<(usize, Receipt)> = Vec::new();
    for step in steps {
        world.clock.advance(Duration::from_nanos(step.gap));
        let now = world.now();
        match &step.event {
            Event::Request(cost) => {
                let before = ideal(limit, &charges, now);
                if let Some(receipt) = world.request(limit, key, *cost) {
                    prop_assert!(
                        *cost <= before,
                        "{} units were admitted, {} remained",
                        cost,
                        before
                    );
                    open.push((charges.len(), receipt));
                    charges.push(Charged {
                        at: now,
                        units: *cost,
                    });
                }
            }
            Event::Settle(which, how) if !open.is_empty() => {
                let (index, receipt) = open.swap_remove(which.index(open.len()));
                let units = receipt.units;
                let actual = match how {
                    Settle::Commit => units,
                    Settle::Refund => 0,
                    Settle::Actual(actual) => *actual,
                };
                world.clipped.0.store(0, Ordering::Relaxed);
                world.memory.settle(receipt, *how);
                charges[index].units = units.min(actual);
                let clipped = world.clipped.0.load(Ordering::Relaxed);
                let extra = actual.saturating_sub(units);
                prop_assert!(clipped <= extra);
                // A bucket that was filled to the brim of its debt took less than a whole unit of the last.
                let partly = u64::from(extra > 0 && is_at_the_brim(world, limit, key));
                let units = (extra - clipped).saturating_sub(partly);
                charges.push(Charged { at: now, units });
            }
            Event::Settle(..) => {}
        }
        let left = world.memory.peek(limit, &key, 1);
        let most = ideal(limit, &charges, now);
        prop_assert!(
            left.remaining() <= most,
            "{} units remain, at most {} should",
            left.remaining(),
            most
        );
        let (held, bound) = (
            within(&charges, period(limit), now),
            most_in_a_period(limit),
        );
        prop_assert!(
            held <= bound,
            "{} units in one period, at most {} may be",
            held,
            bound
        );
    }
    // In the end all that was charged drains away: debt is bounded.
    let reset = world.memory.peek(limit, &key, 1).reset().as_nanos();
    let whole = u128::from(limit.capacity() + limit.max_debt());
    let units = u128::from(limit.quota().units());
    let longest = 2 * u128::from(period(limit)) + whole * u128::from(period(limit)) / units;
    prop_assert!(reset <= longest, "{} ns to be fresh", reset);
    Ok(())
}

fn limits(algorithm: Algorithm) -> Vec<Limit> {
    let mut limits = Vec::new();
    let periods: &[u64] = match algorithm {
        Algorithm::CalendarWindow(_) => &[MINUTE],
        _ => &[7, 1_000_000_000, MINUTE],
    };
    for period in periods {
        for units in [1, 3, 10] {
            let quota = Quota::new(units, Duration::from_nanos(*period));
            let bursts = if algorithm.has_burst() {
                vec![1, 4, 12]
            } else {
                vec![units]
            };
            for burst in bursts {
                let quota = if algorithm.has_burst() {
                    quota.with_burst(burst)
                } else {
                    quota
                };
                let limit = Limit::new("histories", algorithm, quota).unwrap();
                for debt in [0, 2, 15] {
                    limits.push(limit.clone().with_max_debt(debt).unwrap());
                }
            }
        }
    }
    limits
}

fn histories(limit: &Limit) -> impl Strategy<Value = Vec<Step>> + use<> {
    let (period, capacity) = (period(limit), limit.capacity());
    let one = period / limit.quota().units();
    let gap = prop_oneof![
        5 => Just(0),
        2 => Just(1),
        3 => 0..=one,
        3 => select(vec![one, one + 1, period - 1, period, period + 1, 2 * period]),
        1 => 0..=3 * period,
    ];
    let actual = prop_oneof![
        4 => 0..=capacity,
        3 => 0..=2 * capacity,
        1 => Just(u64::MAX),
    ];
    let how = prop_oneof![
        1 => Just(Settle::Commit),
        3 => Just(Settle::Refund),
        5 => actual.prop_map(Settle::Actual),
    ];
    let event = prop_oneof![
        4 => (1..=capacity).prop_map(Event::Request),
        2 => Just(Event::Request(1)),
        5 => (any::<prop::sample::Index>(), how).prop_map(|(which, how)| Event::Settle(which, how)),
    ];
    vec(
        (gap, event).prop_map(|(gap, event)| Step { gap, event }),
        1..30,
    )
}

fn never_more_than_the_final_costs(algorithm: Algorithm, histories: u32) {
    let limits = limits(algorithm);
    let history = select(limits).prop_flat_map(|limit| (self::histories(&limit), Just(limit)));
    let world = std::cell::RefCell::new(World::new(histories as usize));
    let config = Config {
        cases: histories,
        failure_persistence: None,
        ..Config::default()
    };
    let run = TestRunner::new(config).run(&history, |(steps, limit)| {
        check(&mut world.borrow_mut(), &limit, &steps)
    });
    if let Err(error) = run {
        panic!("{algorithm}: {error}");
    }
}

macro_rules! algorithms {
    ($($short:ident $long:ident: $algorithm:expr;)*) => {
        $(
            #[test]
            fn $short() {
                never_more_than_the_final_costs($algorithm, 400);
            }

            #[test]
            #[ignore = "slow: twenty thousand histories"]
            fn $long() {
                never_more_than_the_final_costs($algorithm, 20_000);
            }
        )*
    };
}

algorithms! {
    a_token_bucket_admits_no_more_than_its_final_costs_allow twenty_thousand_histories_of_a_token_bucket: Algorithm::TokenBucket;
    a_leaky_bucket_admits_no_more_than_its_final_costs_allow twenty_thousand_histories_of_a_leaky_bucket: Algorithm::LeakyBucket;
    a_fixed_window_admits_no_more_than_its_final_costs_allow twenty_thousand_histories_of_a_fixed_window: Algorithm::FixedWindow;
    a_calendar_window_admits_no_more_than_its_final_costs_allow twenty_thousand_histories_of_a_calendar_window: Algorithm::CalendarWindow(UtcOffset::UTC);
    a_sliding_log_admits_no_more_than_its_final_costs_allow twenty_thousand_histories_of_a_sliding_log: Algorithm::SlidingLog;
    a_sliding_counter_admits_no_more_than_its_final_costs_allow twenty_thousand_histories_of_a_sliding_counter: Algorithm::SlidingCounter;
}
