//! A store under test, spoken to in the words of the oracles.

use std::time::Duration;

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner},
};
use ratekeeper_core::{
    Acquire, Algorithm, Answer, Claim, Claims, Decision, Key, Limit, Outcome, Quota, Receipt,
    Settle, Store, Wait as Waits, algorithm::UtcOffset,
};

use super::Harness;
use crate::oracle::{
    FixedWindow, LeakyBucket, Oracle, SlidingCounter, SlidingLog, Terms, TokenBucket, Verdict,
    Wait, Windows, calendar,
};

pub(super) const SECOND: u64 = 1_000_000_000;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::LeakyBucket,
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::CalendarWindow(UtcOffset::UTC),
    Algorithm::SlidingLog,
    Algorithm::SlidingCounter,
];

/// A store and the time that has passed since it was made, in nanoseconds.
#[derive(Debug)]
pub(super) struct Subject<H> {
    pub(super) harness: H,
    pub(super) now: u64,
}

impl<H: Harness> Subject<H> {
    /// Returns a fresh store; `None`, saying so, where there is none to be had.
    pub(super) fn new(new: &dyn Fn() -> Option<H>) -> Option<Self> {
        let harness = new();
        if harness.is_none() {
            skipped("no store is to be had here");
        }
        Some(Self {
            harness: harness?,
            now: 0,
        })
    }

    pub(super) fn tick() -> u64 {
        nanos(H::TICK)
    }

    pub(super) fn advance(&mut self, by: u64) {
        self.harness.advance(Duration::from_nanos(by));
        self.now += by;
    }

    /// Advances to the first clock step not before `seconds` after the beginning.
    pub(super) fn advance_to(&mut self, time: u64) {
        let time = time.next_multiple_of(Self::tick());
        self.advance(time - self.now);
    }

    pub(super) fn acquire(&self, claims: &Claims<'_>) -> Answer {
        self.harness
            .block_on(async {
                match self.harness.store().acquire(claims) {
                    Acquire::Now(answer) => answer,
                    Acquire::Later(future) => future.await,
                }
            })
            .expect("the store under test answers")
    }

    pub(super) fn decide(&self, claims: &[Claim<'_>]) -> Decision {
        self.acquire(&Claims::new(claims).expect("a few claims"))
            .decision
    }

    /// Decides one claim and returns what the store says of it.
    pub(super) fn check(&self, limit: &Limit, key: impl Into<Key>, cost: u64) -> Verdict {
        verdict(
            &self
                .decide(&[Claim::new(limit, key).with_cost(cost)])
                .outcomes()[0],
        )
    }

    pub(super) fn admits(&self, limit: &Limit, key: impl Into<Key>, cost: u64) -> bool {
        self.check(limit, key, cost).admitted
    }

    pub(super) fn peek(&self, limit: &Limit, key: impl Into<Key>, cost: u64) -> Verdict {
        let claim = Claim::new(limit, key).with_cost(cost);
        verdict(
            &self
                .acquire(&Claims::one(&claim).peek())
                .decision
                .outcomes()[0],
        )
    }

    pub(super) fn remaining(&self, limit: &Limit, key: impl Into<Key>) -> u64 {
        self.peek(limit, key, 1).remaining
    }

    /// Charges one claim that is settled later; `None` when it is refused.
    pub(super) fn charge(&self, claim: Claim<'_>) -> Option<Receipt> {
        let claim = claim.settled_later();
        let answer = self.acquire(&Claims::one(&claim));
        let mut receipts = answer.receipts;
        assert_eq!(
            receipts.len(),
            usize::from(answer.decision.is_allowed()),
            "one receipt for what was charged"
        );
        receipts.pop()
    }

    pub(super) fn settle(&self, receipt: Receipt, how: Settle) {
        self.harness.store().settle(receipt, how);
        self.harness.settled();
    }

    /// The oracle of a limit for a key that this store has not seen.
    pub(super) fn oracle(&self, limit: &Limit) -> Box<dyn Oracle + Send> {
        let unix_at_zero = self.harness.unix_now() - Duration::from_nanos(self.now);
        oracle_for(limit, H::TICK, unix_at_zero)
    }
}

/// Returns the oracle that decides as this limit should, for a key never seen, on a clock with this step.
///
/// `unix_at_zero` is the calendar time, since the Unix epoch, of the oracle's time 0; only calendar windows look at it.
///
/// # Panics
///
/// Panics for an algorithm that this version has no oracle for.
#[must_use]
pub fn oracle_for(limit: &Limit, tick: Duration, unix_at_zero: Duration) -> Box<dyn Oracle + Send> {
    let terms = Terms::new(limit.quota().units(), nanos(limit.quota().period()))
        .burst(limit.quota().burst())
        .tick(nanos(tick));
    match limit.algorithm() {
        Algorithm::LeakyBucket => Box::new(LeakyBucket::new(terms)),
        Algorithm::TokenBucket => Box::new(TokenBucket::new(terms)),
        Algorithm::FixedWindow => Box::new(FixedWindow::new(terms, Windows::FromFirstRequest)),
        Algorithm::CalendarWindow(offset) => {
            let unit = match limit.quota().period().as_secs() / 60 {
                1 => calendar::Unit::Minute,
                60 => calendar::Unit::Hour,
                1_440 => calendar::Unit::Day,
                10_080 => calendar::Unit::Week,
                43_200 => calendar::Unit::Month,
                _ => calendar::Unit::Year,
            };
            let windows = Windows::Calendar {
                unit,
                offset: offset.seconds(),
                unix_at_zero: nanos(unix_at_zero),
            };
            Box::new(FixedWindow::new(terms, windows))
        }
        Algorithm::SlidingLog => Box::new(SlidingLog::new(terms)),
        Algorithm::SlidingCounter => Box::new(SlidingCounter::new(terms)),
        other => panic!("there is no oracle for {other}"),
    }
}

/// The algorithms of `wanted` that the store keeps; says which it does not.
pub(super) fn kept<H: Harness>(
    new: &dyn Fn() -> Option<H>,
    wanted: &[Algorithm],
) -> Vec<Algorithm> {
    let Some(subject) = Subject::new(new) else {
        return Vec::new();
    };
    let supported = |algorithm: &Algorithm| {
        let supported = subject
            .harness
            .store()
            .supports(&limit("limit", *algorithm, "10/min"));
        supported
            .inspect_err(|error| skipped(&error.to_string()))
            .is_ok()
    };
    wanted.iter().copied().filter(supported).collect()
}

/// All algorithms that the store keeps.
pub(super) fn algorithms<H: Harness>(new: &dyn Fn() -> Option<H>) -> Vec<Algorithm> {
    kept(new, &ALGORITHMS)
}

/// The numbers of a limit, as an oracle takes them.
pub(super) fn terms<H: Harness>(limit: &Limit) -> Terms {
    let quota = limit.quota();
    Terms::new(quota.units(), nanos(quota.period()))
        .burst(quota.burst())
        .tick(nanos(H::TICK))
}

/// The limit that counts by these numbers, if the algorithm can do so exactly.
pub(super) fn limit_of(algorithm: Algorithm, terms: Terms) -> Option<Limit> {
    let quota = Quota::new(terms.units, Duration::from_nanos(terms.period));
    let quota = if algorithm.has_burst() {
        quota.with_burst(terms.burst)
    } else {
        quota
    };
    Limit::new("limit", algorithm, quota).ok()
}

/// A limit from a quota's text.
pub(super) fn limit(name: &str, algorithm: Algorithm, quota: &str) -> Limit {
    let quota = quota.parse().expect("a quota of the suite");
    Limit::new(name, algorithm, quota).expect("a limit of the suite")
}

pub(super) fn verdict(outcome: &Outcome) -> Verdict {
    Verdict {
        admitted: outcome.is_allowed(),
        remaining: outcome.remaining(),
        next: nanos(outcome.next()),
        reset: nanos(outcome.reset()),
        wait: match outcome.wait() {
            Waits::None => Wait::None,
            Waits::For(wait) => Wait::For(nanos(wait)),
            Waits::Never => Wait::Never,
            Waits::Unknown => panic!("a counting limit knows how long to wait"),
        },
    }
}

/// Tries a property on random values, the same ones in every run, and panics with the smallest that fails.
pub(super) fn for_all<H: Harness, S: Strategy>(
    strategy: &S,
    property: impl Fn(S::Value) -> TestCaseResult,
) {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = H::CASES;
    }
    config.max_shrink_iters = config.cases.saturating_mul(16);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    match TestRunner::new_with_rng(config, rng).run(strategy, property) {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => {
            panic!("{reason}\nsmallest failing input: {value:#?}")
        }
        Err(TestError::Abort(reason)) => panic!("the property was not tried: {reason}"),
    }
}

/// Says on the error stream that a test tried nothing.
#[expect(
    clippy::print_stderr,
    reason = "a skipped test must say so, and has only this way to"
)]
pub(super) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("the times of the suite fit 64 bits")
}
