//! The script and the Rust decide alike.
//!
//! The same random histories, all moments whole microseconds, go through this store and through
//! memory: several keys, limits that share a counter, quotas that change, peeks, settlements and
//! requests of several claims. Memory counts in nanoseconds, so its durations are rounded up to
//! microseconds before they are compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ratekeeper_core::algorithm::UtcOffset;
use ratekeeper_core::{
    Acquire, Algorithm, Answer, Claim, Claims, Cost, Limit, ManualClock, Memory, Outcome, Quota,
    Receipt, Settle, Store, Wait,
};
use ratekeeper_redis::Redis;

use crate::support::{self, RUNTIME, Server};

const START: Duration = Duration::from_secs(1_700_000_000);

/// A claim: limit, key, cost, whether it is shadowed. A cost of `None` is deferred.
type Asking = (usize, u64, Option<u64>, bool);

#[derive(Clone, Debug)]
struct Ask {
    claims: Vec<Asking>,
    peek: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Ask(Ask),
    Settle(prop::sample::Index, Option<u64>),
}

type Steps = Vec<(u64, Op)>;

/// Both stores at one time.
struct Pair {
    clock: ManualClock,
    micros: Arc<AtomicU64>,
    memory: Memory,
    redis: Redis,
    receipts: Vec<(Receipt, Receipt)>,
}

impl Pair {
    fn new(server: &Server) -> Self {
        let clock = ManualClock::new();
        clock.advance(START);
        let micros = u64::try_from(START.as_micros()).unwrap();
        let micros = Arc::new(AtomicU64::new(micros));
        let _entered = RUNTIME.enter();
        Self {
            memory: Memory::builder().clock(clock.clone()).build(),
            redis: server
                .builder()
                .test_clock(Arc::clone(&micros))
                .build()
                .unwrap(),
            clock,
            micros,
            receipts: Vec::new(),
        }
    }

    fn advance(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Asks both and returns how they answered.
    fn ask(&mut self, limits: &[Limit], ask: &Ask) -> (Vec<Told>, Vec<Told>) {
        let claims: Vec<Claim<'_>> = ask
            .claims
            .iter()
            .map(|(limit, key, cost, shadowed)| {
                let cost = cost.map_or(Cost::Deferred, Cost::Units);
                let claim = Claim::new(&limits[*limit], *key)
                    .with_cost(cost)
                    .settled_later();
                if *shadowed { claim.shadowed() } else { claim }
            })
            .collect();
        let claims = Claims::new(&claims).unwrap();
        let claims = if ask.peek { claims.peek() } else { claims };
        let Acquire::Now(memory) = self.memory.acquire(&claims) else {
            unreachable!("memory answers at once")
        };
        let memory = memory.unwrap();
        let redis = RUNTIME
            .block_on(support::ask(&self.redis, &claims))
            .unwrap();
        let told = |answer: &Answer| answer.decision.outcomes().iter().map(Told::new).collect();
        let both = (told(&memory), told(&redis));
        if both.0 == both.1 {
            assert_eq!(memory.receipts.len(), redis.receipts.len());
            let receipts = memory.receipts.into_iter().zip(redis.receipts);
            self.receipts.extend(receipts);
        }
        both
    }

    fn settle(&mut self, which: &prop::sample::Index, actual: Option<u64>) {
        if self.receipts.is_empty() {
            return;
        }
        let (memory, redis) = self.receipts.swap_remove(which.index(self.receipts.len()));
        if actual.unwrap_or(0) == memory.units {
            // Memory brings the key under the receipt's numbers even though nothing is to be done.
            return;
        }
        let how = actual.map_or(Settle::Refund, Settle::Actual);
        self.memory.settle(memory, how);
        self.redis.settle(redis, how);
        RUNTIME.block_on(self.redis.flush());
    }
}

/// An outcome in units and microseconds.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    allowed: bool,
    remaining: u64,
    next: u128,
    reset: u128,
    wait: Option<u128>,
}

impl Told {
    fn new(outcome: &Outcome) -> Self {
        let micros = |duration: Duration| duration.as_nanos().div_ceil(1000);
        Self {
            allowed: outcome.is_allowed(),
            remaining: outcome.remaining(),
            next: micros(outcome.next()),
            reset: micros(outcome.reset()),
            wait: match outcome.wait() {
                Wait::None => Some(0),
                Wait::For(wait) => Some(micros(wait)),
                Wait::Never | Wait::Unknown => None,
            },
        }
    }
}

fn agree(strategy: impl Strategy<Value = (Vec<Limit>, Steps)>) {
    let Some(server) = Server::shared() else {
        return;
    };
    let mut config = Config {
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, rng).run(&strategy, |(limits, steps)| {
        let mut pair = Pair::new(&server);
        for (gap, op) in &steps {
            pair.advance(*gap);
            match op {
                Op::Ask(ask) => {
                    let (memory, redis) = pair.ask(&limits, ask);
                    prop_assert_eq!(memory, redis, "{:?}", ask);
                }
                Op::Settle(which, actual) => pair.settle(which, *actual),
            }
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn calendars() -> impl Strategy<Value = Algorithm> {
    let offsets = [0, -330].map(|minutes| UtcOffset::from_minutes(minutes).unwrap());
    prop::sample::select(offsets.map(Algorithm::CalendarWindow).to_vec())
}

fn others() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(vec![
        Algorithm::LeakyBucket,
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
    ])
}

fn limit_of((algorithm, units, period, burst): (Algorithm, u64, u64, u64)) -> Limit {
    let calendar = matches!(algorithm, Algorithm::CalendarWindow(_));
    let period = if calendar { 60_000_000 } else { period };
    let quota = Quota::new(units, Duration::from_micros(period));
    let quota = if algorithm.has_burst() {
        quota.with_burst(burst)
    } else {
        quota
    };
    Limit::new("limit", algorithm, quota).unwrap()
}

fn limit(counter: &'static str) -> impl Strategy<Value = Limit> {
    let algorithm = prop_oneof![2 => calendars(), 5 => others()];
    let units = prop_oneof![4 => 1..=9_u64, 1 => 10..=5_000_u64, 1 => 1_u64 << 20..1 << 25];
    let period = prop::sample::select(PERIODS.to_vec());
    (algorithm, units, period, 1..=12_u64).prop_map(move |(algorithm, units, period, burst)| {
        let log = algorithm == Algorithm::SlidingLog;
        let units = if log { units.min(5_000) } else { units };
        let limit = limit_of((algorithm, units, period, burst));
        limit.with_counter(counter).unwrap()
    })
}

fn gaps() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0_u64),
        2 => 1..=3_u64,
        3 => 1..=20_000_000_u64,
        1 => 50_000_000..=70_000_000_u64,
        1 => 1..=10_000_000_000_u64,
    ]
}

fn costs() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        6 => Just(Some(1)),
        4 => (1..=12_u64).prop_map(Some),
        1 => Just(Some(0)),
        1 => Just(Some(u64::MAX)),
        1 => Just(None),
    ]
}

fn steps(limits: usize, keys: u64, most: usize) -> impl Strategy<Value = Steps> {
    let claim = (0..limits, 0..keys, costs(), prop::bool::weighted(0.15));
    let ask = (
        prop::collection::vec(claim, 1..=most),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(claims, peek)| {
            // What a claim tells of a key that another of its request spends from is not agreed
            // upon where one of them spends nothing or is shadowed.
            let plain =
                |(_, _, cost, shadowed): &Asking| !shadowed && cost.is_some_and(|cost| cost > 0);
            let mut kept: Vec<Asking> = Vec::new();
            for claim in claims {
                let mut same = kept
                    .iter()
                    .filter(|other| (other.0, other.1) == (claim.0, claim.1));
                if same.all(|other| plain(other) && plain(&claim)) {
                    kept.push(claim);
                }
            }
            Op::Ask(Ask { claims: kept, peek })
        });
    let actual = prop::option::of(prop_oneof![0..=20_u64, Just(u64::MAX)]);
    let settle = (any::<prop::sample::Index>(), actual)
        .prop_map(|(which, actual)| Op::Settle(which, actual));
    prop::collection::vec((gaps(), prop_oneof![5 => ask, 2 => settle]), 1..=40)
}

const PERIODS: [u64; 8] = [
    1,
    7,
    1_000,
    1_000_000,
    9_999_999,
    60_000_000,
    3_600_000_000,
    31_536_000_000_000,
];

#[test]
fn one_limit_decides_alike() {
    agree(limit("one").prop_flat_map(|limit| {
        let steps = steps(1, 2, 1);
        (Just(vec![limit]), steps)
    }));
}

#[test]
fn several_claims_decide_alike() {
    let limits = (limit("one"), limit("two"), limit("three"));
    agree(limits.prop_flat_map(|(one, two, three)| (Just(vec![one, two, three]), steps(3, 2, 5))));
}

/// The limits of one counter take turns. All numbers are powers of two, so that what another rate
/// makes of a part of a unit is a whole number of microseconds: what is not, is rounded up, and the
/// steps that it is rounded to differ.
fn changes(algorithm: impl Strategy<Value = Algorithm>) {
    const GRID: u64 = 1 << 17;
    let units = prop::sample::select(vec![1, 2, 4, 8]);
    let periods = prop::sample::select(vec![1 << 20, 1 << 22, 1 << 24]);
    let limit = (algorithm, units, periods, 1..=12_u64).prop_map(limit_of);
    agree(prop::collection::vec(limit, 2..=4).prop_flat_map(|limits| {
        let count = limits.len();
        let steps = steps(count, 2, 1).prop_map(|mut steps| {
            for (gap, _) in &mut steps {
                *gap = *gap / GRID * GRID;
            }
            steps
        });
        (Just(limits), steps)
    }));
}

#[test]
fn a_limit_that_changes_decides_alike() {
    changes(others());
}

#[test]
fn a_calendar_limit_that_changes_decides_alike() {
    changes(calendars());
}
