//! One claim at a time: equal to the oracle, and what a refusal, a peek and the edges of the numbers must not do.

use proptest::{prelude::*, sample::select};
use ratekeeper_core::{Algorithm, Limit, Quota, Receipt, Settle, Store, algorithm::UtcOffset};

use super::{
    Harness,
    subject::{SECOND, Subject, algorithms, for_all, limit, limit_of, skipped},
};
use crate::{
    oracle::{Charge, Terms, Verdict, Wait},
    trace::{self, Op, Step},
};

/// The most that the traces advance a store in all: 60 years.
const SPAN: u64 = 60 * 365 * 86_400 * SECOND;

/// A leaky bucket decides as its oracle does, through requests, peeks and settlements.
pub fn leaky_bucket_equals_its_oracle<H: Harness>(new: &dyn Fn() -> Option<H>) {
    equals_its_oracle(new, &any_terms::<H>(), Algorithm::LeakyBucket);
}

/// A token bucket decides as its oracle does, through requests, peeks and settlements.
pub fn token_bucket_equals_its_oracle<H: Harness>(new: &dyn Fn() -> Option<H>) {
    equals_its_oracle(new, &any_terms::<H>(), Algorithm::TokenBucket);
}

/// A fixed window decides as its oracle does, through requests, peeks and settlements.
pub fn fixed_window_equals_its_oracle<H: Harness>(new: &dyn Fn() -> Option<H>) {
    equals_its_oracle(new, &any_terms::<H>(), Algorithm::FixedWindow);
}

/// A window of the calendar decides as its oracle does, for each unit and several offsets.
pub fn calendar_window_equals_its_oracle<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let tick = Subject::<H>::tick();
    for minutes in [0, 60, -330, 345] {
        let offset = UtcOffset::from_minutes(minutes).expect("an offset that people live with");
        let unit = select(vec![
            60,
            3_600,
            86_400,
            7 * 86_400,
            30 * 86_400,
            365 * 86_400,
        ]);
        let terms = (unit, 1..=6_u64)
            .prop_map(move |(unit, units)| Terms::new(units, unit * SECOND).tick(tick));
        equals_its_oracle(new, &terms.boxed(), Algorithm::CalendarWindow(offset));
    }
}

/// A sliding log decides as its oracle does, through requests, peeks and settlements.
pub fn sliding_log_equals_its_oracle<H: Harness>(new: &dyn Fn() -> Option<H>) {
    equals_its_oracle(new, &any_terms::<H>(), Algorithm::SlidingLog);
}

/// A sliding counter decides as its oracle does, through requests, peeks and settlements.
pub fn sliding_counter_equals_its_oracle<H: Harness>(new: &dyn Fn() -> Option<H>) {
    equals_its_oracle(new, &any_terms::<H>(), Algorithm::SlidingCounter);
}

/// A request is refused one clock step before the promised wait has passed and admitted at it; `remaining` does not grow before
/// `next` and has grown at it; a key is used one step before its reset and equals a new one at it.
pub fn promised_times_are_exact<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let strategy = histories(&any_terms_of::<H>(algorithm), algorithm);
        for_all::<H, _>(
            &(strategy, any::<u64>()),
            |((terms, limit, steps), cost)| {
                let Some(mut subject) = Subject::new(new) else {
                    return Ok(());
                };
                run(&mut subject, &limit, &steps, |_, _, _| Ok(()))?;
                let cost = cost % limit.capacity() + 1;
                let before = subject.peek(&limit, "key", cost);
                let wait = match before.wait {
                    Wait::For(wait) => wait,
                    Wait::None => 0,
                    Wait::Never => {
                        return Err(TestCaseError::fail("the cost is within the capacity"));
                    }
                };
                let mut moments: Vec<u64> = [wait, before.next, before.reset]
                    .iter()
                    .filter(|promised| **promised > 0)
                    .flat_map(|promised| [promised - terms.tick, *promised])
                    .collect();
                moments.sort_unstable();
                let start = subject.now;
                for moment in moments {
                    subject.advance_to(start + moment);
                    let later = subject.peek(&limit, "key", cost);
                    let case = format!("{moment} ns after {before:?}: {later:?}");
                    prop_assert_eq!(later.admitted, moment >= wait, "{}", &case);
                    prop_assert_eq!(
                        later.remaining > before.remaining,
                        before.next > 0 && moment >= before.next,
                        "{}",
                        &case
                    );
                    let fresh = subject.peek(&limit, "never seen", cost);
                    prop_assert_eq!(later == fresh, moment >= before.reset, "{}", &case);
                }
                Ok(())
            },
        );
    }
}

/// A refused request leaves the key as it was, whatever it cost, and a key never charged stays unseen.
pub fn a_refusal_changes_nothing<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(mut subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        assert!(subject.admits(&limit, "key", 8));
        subject.advance(SECOND);
        let before = subject.peek(&limit, "key", 5);
        for cost in [3, 5, 10, 11, u64::MAX] {
            assert!(!subject.admits(&limit, "key", cost), "{algorithm} {cost}");
            assert_eq!(
                subject.peek(&limit, "key", 5),
                before,
                "{algorithm} after a refused {cost}"
            );
        }
        assert!(!subject.admits(&limit, "new", 11));
        // A window that a refusal had begun would end before this one.
        subject.advance(SECOND);
        assert!(subject.admits(&limit, "new", 1));
        assert!(subject.admits(&limit, "newer", 1));
        assert_eq!(
            subject.peek(&limit, "new", 1),
            subject.peek(&limit, "newer", 1),
            "{algorithm}"
        );
    }
}

/// A cost above the capacity is refused with [`Wait::Never`](ratekeeper_core::Wait::Never), and the whole capacity is still there.
pub fn a_cost_above_the_capacity_is_never_admitted_and_changes_nothing<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        for cost in [11, 12, 1 << 32, 1 << 53, u64::MAX - 1, u64::MAX] {
            let refused = subject.check(&limit, "key", cost);
            assert_eq!(
                (refused.admitted, refused.wait),
                (false, Wait::Never),
                "{algorithm} {cost}"
            );
            assert_eq!(
                (refused.remaining, refused.next, refused.reset),
                (10, 0, 0),
                "{algorithm} {cost}"
            );
        }
        assert!(subject.admits(&limit, "key", 10), "{algorithm}");
        assert_eq!(
            subject.check(&limit, "key", 11).wait,
            Wait::Never,
            "{algorithm}"
        );
    }
}

/// A peek tells what a request would be told and charges nothing.
pub fn a_peek_charges_nothing<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        for _ in 0..3 {
            let fresh = subject.peek(&limit, "key", 10);
            assert_eq!(
                (fresh.admitted, fresh.remaining, fresh.reset),
                (true, 10, 0),
                "{algorithm}"
            );
        }
        assert!(subject.admits(&limit, "key", 7), "{algorithm}");
        for _ in 0..3 {
            let peeked = subject.peek(&limit, "key", 4);
            assert_eq!(
                (peeked.admitted, peeked.remaining),
                (false, 3),
                "{algorithm}"
            );
        }
        assert!(subject.admits(&limit, "key", 3), "{algorithm}");
    }
}

/// A request that costs nothing is admitted even by a key in debt, and changes nothing.
pub fn a_cost_of_zero_is_admitted_and_changes_nothing<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(mut subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let fresh = subject.peek(&limit, "other", 0);
        assert_eq!(subject.check(&limit, "key", 0), fresh, "{algorithm}");
        // Had it begun a window, that would now end earlier than a new one.
        subject.advance(SECOND);
        assert!(subject.admits(&limit, "key", 4) && subject.admits(&limit, "other", 4));
        assert_eq!(
            subject.peek(&limit, "key", 4),
            subject.peek(&limit, "other", 4),
            "{algorithm}"
        );
        assert!(subject.admits(&limit, "key", 6), "{algorithm}");
        let spent = subject.check(&limit, "key", 0);
        assert_eq!(
            (spent.admitted, spent.remaining, spent.wait),
            (true, 0, Wait::None),
            "{algorithm}"
        );
    }
}

/// The largest limits that can be built count exactly at both ends of their numbers.
pub fn the_largest_numbers_are_counted<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        for exponent in [32, 40, 53, 60, 64] {
            let largest = u64::MAX >> (64 - exponent);
            let built = Limit::new("large", algorithm, Quota::per_minute(largest));
            let Some(mut subject) = Subject::new(new) else {
                return;
            };
            let Ok(limit) =
                built.and_then(|limit| subject.harness.store().supports(&limit).map(|()| limit))
            else {
                continue;
            };
            let mut oracle = subject.oracle(&limit);
            for cost in [1, largest, largest - 1, 1, 0, u64::MAX] {
                let expected = oracle.check(subject.now, cost);
                assert_eq!(
                    subject.check(&limit, "key", cost),
                    expected,
                    "{limit} {cost}"
                );
            }
            let minute = 60 * SECOND;
            for time in [1, 7 * SECOND, minute - 1, minute, minute + 1, 3 * minute] {
                subject.advance_to(time);
                let expected = oracle.check(subject.now, largest / 3);
                assert_eq!(
                    subject.check(&limit, "key", largest / 3),
                    expected,
                    "{limit} at {time}"
                );
            }
        }
    }
}

/// A key that is spent takes nothing from another, however alike they are.
pub fn keys_do_not_share_a_count<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "3/min");
        let long = "x".repeat(300);
        let keys = [
            "",
            "a",
            "a ",
            "A",
            "a\0",
            "a/b",
            "a:b",
            "a' OR 1=1 --",
            "{a}",
            "ä",
            long.as_str(),
            &long[1..],
        ];
        for key in keys {
            assert!(
                subject.admits(&limit, key, 3),
                "{algorithm}: {} bytes",
                key.len()
            );
        }
        for key in keys {
            assert!(
                !subject.admits(&limit, key, 1),
                "{algorithm}: {} bytes",
                key.len()
            );
        }
    }
}

/// Limits of different counters do not share a count under one key, and limits that name one counter do.
pub fn counters_are_shared_by_name_alone<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let one = limit(&format!("{algorithm} one"), algorithm, "10/min");
        let two = limit(&format!("{algorithm} two"), algorithm, "10/min");
        let shared = two
            .clone()
            .with_counter(one.counter())
            .expect("a name of the suite");
        assert!(subject.admits(&one, "key", 7), "{algorithm}");
        assert_eq!(subject.remaining(&two, "key"), 10, "{algorithm}");
        assert_eq!(subject.remaining(&shared, "key"), 3, "{algorithm}");
        assert!(subject.admits(&shared, "key", 2), "{algorithm}");
        assert_eq!(subject.remaining(&one, "key"), 1, "{algorithm}");
    }
}

fn any_terms<H: Harness>() -> BoxedStrategy<Terms> {
    let tick = Subject::<H>::tick();
    prop_oneof![trace::small_terms(tick), trace::terms(tick)].boxed()
}

fn any_terms_of<H: Harness>(algorithm: Algorithm) -> BoxedStrategy<Terms> {
    match algorithm {
        Algorithm::CalendarWindow(_) => {
            let tick = Subject::<H>::tick();
            (1..=9_u64)
                .prop_map(move |units| Terms::new(units, 60 * SECOND).tick(tick))
                .boxed()
        }
        _ => any_terms::<H>(),
    }
}

/// Limits with a history for each.
fn histories(
    terms: &BoxedStrategy<Terms>,
    algorithm: Algorithm,
) -> BoxedStrategy<(Terms, Limit, Vec<Step>)> {
    terms
        .clone()
        .prop_filter_map("no exact limit", move |terms| {
            Some((terms, limit_of(algorithm, terms)?))
        })
        .prop_flat_map(|(terms, limit)| {
            let steps = trace::histories(terms, limit.capacity(), 40);
            (Just(terms), Just(limit), steps)
        })
        .boxed()
}

fn equals_its_oracle<H: Harness>(
    new: &dyn Fn() -> Option<H>,
    terms: &BoxedStrategy<Terms>,
    algorithm: Algorithm,
) {
    let start = 0..=1_000_000_000_u64;
    for_all::<H, _>(
        &(start, histories(terms, algorithm)),
        |(start, (_, limit, steps))| {
            let Some(mut subject) = Subject::new(new) else {
                return Ok(());
            };
            if let Err(error) = subject.harness.store().supports(&limit) {
                skipped(&error.to_string());
                return Ok(());
            }
            if matches!(algorithm, Algorithm::CalendarWindow(_)) {
                subject
                    .harness
                    .set_unix(std::time::Duration::from_secs(start));
            }
            run(&mut subject, &limit, &steps, |step, expected, found| {
                prop_assert_eq!(found, expected, "{:?}", step);
                Ok(())
            })
        },
    );
}

/// Plays a history to the store and to the oracle, and shows both answers to `compare`, also after each step.
pub(super) fn run<H: Harness>(
    subject: &mut Subject<H>,
    limit: &Limit,
    steps: &[Step],
    compare: impl Fn(&Step, Verdict, Verdict) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut oracle = subject.oracle(limit);
    let mut open: Vec<(Charge, Receipt)> = Vec::new();
    for step in steps {
        if step.gap > SPAN - subject.now {
            break;
        }
        subject.advance(step.gap);
        let now = subject.now;
        match &step.op {
            Op::Check(cost) => {
                let expected = oracle.check(now, *cost);
                let claim = ratekeeper_core::Claim::new(limit, "key")
                    .with_cost(*cost)
                    .settled_later();
                let answer = subject.acquire(&ratekeeper_core::Claims::one(&claim));
                compare(
                    step,
                    expected,
                    super::subject::verdict(&answer.decision.outcomes()[0]),
                )?;
                let units = *cost;
                open.extend(
                    answer
                        .receipts
                        .into_iter()
                        .map(|receipt| (Charge { at: now, units }, receipt)),
                );
            }
            Op::Peek(cost) => compare(
                step,
                oracle.peek(now, *cost),
                subject.peek(limit, "key", *cost),
            )?,
            Op::Settle { which, actual } => {
                if !open.is_empty() {
                    let (charge, receipt) = open.swap_remove(which.index(open.len()));
                    oracle.settle(now, charge, *actual, limit.max_debt());
                    subject.settle(
                        receipt,
                        match *actual {
                            0 => Settle::Refund,
                            same if same == charge.units => Settle::Commit,
                            actual => Settle::Actual(actual),
                        },
                    );
                }
            }
        }
        compare(step, oracle.peek(now, 1), subject.peek(limit, "key", 1))?;
    }
    Ok(())
}
