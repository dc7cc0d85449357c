//! What a charge finally comes to: refunds, actual costs, debt; and quotas that change under a key.

use proptest::prelude::*;
use ratekeeper_core::{Algorithm, Claim, Cost, Limit, Receipt, Settle};

use super::{
    Harness,
    subject::{SECOND, Subject, algorithms, for_all, kept, limit, limit_of, terms},
};
use crate::{
    oracle::{Terms, Wait},
    trace::{self, Op, Step},
};

const MINUTE: u64 = 60 * SECOND;

/// No step of the traces is as long as this, which is a bit more than a year, so that a trace stays within the time of a store.
const SPAN: u64 = 32_000_000 * SECOND;

fn charged<H: Harness>(subject: &Subject<H>, limit: &Limit, units: u64) -> Receipt {
    subject
        .charge(Claim::new(limit, "key").with_cost(units))
        .expect("the units fit")
}

/// A committed charge stands, and so does one whose receipt is dropped.
pub fn a_commit_leaves_the_charge<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let receipt = charged(&subject, &limit, 4);
        assert_eq!(receipt.units, 4, "{algorithm}");
        subject.settle(receipt, Settle::Commit);
        drop(charged(&subject, &limit, 3));
        assert_eq!(subject.remaining(&limit, "key"), 3, "{algorithm}");
    }
}

/// A refund at once gives everything back; one of a bucket, later, only what has not drained in the meantime.
pub fn a_refund_gives_back_what_still_weighs<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let receipt = charged(&subject, &limit, 6);
        subject.settle(receipt, Settle::Refund);
        let fresh = subject.peek(&limit, "key", 1);
        assert_eq!((fresh.remaining, fresh.reset), (10, 0), "{algorithm}");

        let receipt = charged(&subject, &limit, 6);
        subject.advance(12 * SECOND);
        // Two units of a bucket have drained; whoever else was admitted since keeps what they took.
        let drained = if algorithm.has_burst() { 2 } else { 0 };
        assert!(subject.admits(&limit, "key", 3), "{algorithm}");
        assert_eq!(subject.remaining(&limit, "key"), 1 + drained, "{algorithm}");
        subject.settle(receipt, Settle::Refund);
        assert_eq!(subject.remaining(&limit, "key"), 7, "{algorithm}");

        // Of a later charge three of four units turn out not to be needed.
        let receipt = charged(&subject, &limit, 4);
        subject.settle(receipt, Settle::Actual(1));
        assert_eq!(subject.remaining(&limit, "key"), 6, "{algorithm}");
    }
}

/// A refund that comes when its window has passed, or its log entry has gone, gives nothing to the window that stands then.
pub fn a_refund_does_not_reach_another_window<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let receipt = charged(&subject, &limit, 8);
        subject.advance(2 * MINUTE);
        assert!(subject.admits(&limit, "key", 5), "{algorithm}");
        let before = subject.peek(&limit, "key", 6);
        subject.settle(receipt, Settle::Refund);
        assert_eq!(subject.peek(&limit, "key", 6), before, "{algorithm}");
    }
}

/// However charges are refunded, a key is at most as good as new.
pub fn a_refund_never_makes_a_key_more_than_fresh<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "10/min");
        for gap in [0, 1, SECOND, 6 * SECOND, 59 * SECOND, MINUTE, 2 * MINUTE] {
            let receipts: Vec<Receipt> = (0..2).map(|_| charged(&subject, &limit, 5)).collect();
            subject.advance_to(subject.now + gap);
            for receipt in receipts {
                subject.settle(receipt, Settle::Refund);
            }
            let admitted = (0..20).filter(|_| subject.admits(&limit, "key", 1)).count();
            assert!(
                admitted <= 10,
                "{algorithm}: {admitted} of 10 after {gap} ns"
            );
            subject.advance(2 * MINUTE);
        }
    }
}

/// A deferred cost is charged in full when it is known; the request that made it known was admitted long before.
pub fn a_deferred_cost_is_charged_when_it_is_settled<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let receipt = subject
            .charge(Claim::new(&limit, "key").with_cost(Cost::Deferred))
            .expect("one unit fits");
        subject.advance(SECOND);
        subject.settle(receipt, Settle::Actual(7));
        assert_eq!(subject.remaining(&limit, "key"), 3, "{algorithm}");
        let reset = subject.peek(&limit, "key", 1).reset;
        subject.advance(reset);
        assert_eq!(subject.remaining(&limit, "key"), 10, "{algorithm}");
    }
}

/// An actual cost above the capacity makes a debt of at most `max_debt`: remaining is 0, the wait covers the debt and no more.
pub fn debt_is_bounded_and_waited_out<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        for (max_debt, actual) in [
            (0, 15),
            (5, 12),
            (5, 15),
            (5, 1_000),
            (5, u64::MAX),
            (10, 20),
        ] {
            let Some(mut subject) = Subject::new(new) else {
                return;
            };
            let limit = limit(algorithm.name(), algorithm, "10/min")
                .with_max_debt(max_debt)
                .expect("a small debt");
            let mut oracle = subject.oracle(&limit);
            subject.advance(SECOND);
            let receipts = [1, 2].map(|units| {
                let at = subject.now;
                assert!(oracle.check(at, units).admitted);
                (
                    crate::oracle::Charge { at, units },
                    charged(&subject, &limit, units),
                )
            });
            // The second charge finds the debt of the first.
            for (charge, receipt) in receipts {
                subject.advance(SECOND);
                oracle.settle(subject.now, charge, actual, max_debt);
                subject.settle(receipt, Settle::Actual(actual));
                let found = subject.peek(&limit, "key", 1);
                assert_eq!(
                    found,
                    oracle.peek(subject.now, 1),
                    "{algorithm}, debt {max_debt}, actual {actual}"
                );
                assert_eq!(found.remaining, 0);
            }
            let Wait::For(wait) = subject.peek(&limit, "key", 1).wait else {
                panic!("{algorithm} is in debt")
            };
            subject.advance(wait - Subject::<H>::tick());
            assert!(
                !subject.admits(&limit, "key", 1),
                "{algorithm}, debt {max_debt}, actual {actual}"
            );
            subject.advance(Subject::<H>::tick());
            assert!(
                subject.admits(&limit, "key", 1),
                "{algorithm}, debt {max_debt}, actual {actual}"
            );
        }
    }
}

/// After any history of refunds and actual costs a bucket or a log has no more room than one that was charged only the final
/// costs: each when it was admitted, and what came on top when it became known.
pub fn settled_histories_never_yield_more_than_their_final_costs<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    for algorithm in kept(
        new,
        &[
            Algorithm::LeakyBucket,
            Algorithm::TokenBucket,
            Algorithm::SlidingLog,
        ],
    ) {
        let strategy = limits_of::<H>(algorithm).prop_flat_map(|limit| {
            let steps = trace::histories(terms::<H>(&limit), limit.capacity(), 30);
            (Just(limit), steps)
        });
        for_all::<H, _>(&strategy, |(limit, steps)| {
            let Some(mut subject) = Subject::new(new) else {
                return Ok(());
            };
            // What was charged in the end, as (time, units), in order of time.
            let mut finally: Vec<(u64, u64)> = Vec::new();
            let mut open: Vec<(usize, Receipt)> = Vec::new();
            for Step { gap, op } in steps {
                subject.advance(gap % SPAN);
                match op {
                    Op::Check(cost) => {
                        if let Some(receipt) = (cost > 0)
                            .then(|| subject.charge(Claim::new(&limit, "key").with_cost(cost)))
                            .flatten()
                        {
                            open.push((finally.len(), receipt));
                            finally.push((subject.now, cost));
                        }
                    }
                    Op::Peek(_) => {}
                    Op::Settle { which, actual } => {
                        if !open.is_empty() {
                            let (index, receipt) = open.swap_remove(which.index(open.len()));
                            // Debt is another test's business.
                            let actual = actual.min(receipt.units);
                            subject.settle(receipt, Settle::Actual(actual));
                            finally[index].1 = actual;
                        }
                    }
                }
                let mut ideal = subject.oracle(&limit);
                finally
                    .iter()
                    .filter(|(_, units)| *units > 0)
                    .for_each(|(at, units)| ideal.charge(*at, *units));
                let (found, most) = (
                    subject.remaining(&limit, "key"),
                    ideal.remaining(subject.now),
                );
                prop_assert!(
                    found <= most,
                    "{} units remain at {}, at most {} should",
                    found,
                    subject.now,
                    most
                );
            }
            Ok(())
        });
    }
}

/// A quota that changes under a key keeps the units in use and the start of a window, and decides by the new numbers from then on.
pub fn a_changed_quota_keeps_the_used_units<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        // The units of a calendar are each a limit of their own; and whether the older of a counter's two windows has passed is
        // a question that only its own length answers.
        let same_period = matches!(
            algorithm,
            Algorithm::CalendarWindow(_) | Algorithm::SlidingCounter
        );
        let strategy = (limits_of::<H>(algorithm), limits_of::<H>(algorithm))
            .prop_filter_map("no exact limit", move |(before, after)| {
                let (before_terms, mut after_terms) = (terms::<H>(&before), terms::<H>(&after));
                if same_period {
                    after_terms.period = before_terms.period;
                }
                Some((before, limit_of(algorithm, after_terms)?))
            })
            .prop_flat_map(|(before, after)| {
                let steps = |limit: &Limit| trace::checks(terms::<H>(limit), limit.capacity(), 10);
                (steps(&before), steps(&after), Just(before), Just(after))
            });
        for_all::<H, _>(&strategy, |(first, second, before, after)| {
            let Some(mut subject) = Subject::new(new) else {
                return Ok(());
            };
            let mut oracle = subject.oracle(&before);
            for Step { gap, op } in first {
                subject.advance(gap % SPAN);
                if let Op::Check(cost) = op {
                    prop_assert_eq!(
                        subject.check(&before, "key", cost),
                        oracle.check(subject.now, cost),
                        "{}",
                        &before
                    );
                }
            }
            // How a bucket drains while it holds more than the new one takes is the next property's business.
            let used = before.capacity() - oracle.remaining(subject.now);
            if algorithm.has_burst() && used > after.capacity() {
                return Ok(());
            }
            oracle.change(subject.now, terms::<H>(&after));
            prop_assert_eq!(
                subject.peek(&after, "key", 1),
                oracle.peek(subject.now, 1),
                "{} to {}",
                &before,
                &after
            );
            for Step { gap, op } in second {
                subject.advance(gap % SPAN);
                if let Op::Check(cost) = op {
                    prop_assert_eq!(
                        subject.check(&after, "key", cost),
                        oracle.check(subject.now, cost),
                        "{}",
                        &after
                    );
                }
            }
            Ok(())
        });
    }
}

/// Units in use beyond a shrunk capacity are still in use: the key is spent, the promised wait is exact, and going back to the
/// larger quota brings no more than staying there would have.
pub fn a_shrunk_quota_gives_nothing_away<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        for small in ["10/h", "10/h burst 3"] {
            if small.contains("burst") && !algorithm.has_burst() {
                continue;
            }
            let Some(mut subject) = Subject::new(new) else {
                return;
            };
            let (large, small) = (
                limit("limit", algorithm, "40/h"),
                limit("limit", algorithm, small),
            );
            assert!(subject.admits(&large, "key", 40), "{algorithm}");
            let spent = subject.check(&small, "key", 1);
            assert_eq!((spent.admitted, spent.remaining), (false, 0), "{algorithm}");
            assert_eq!(subject.remaining(&large, "key"), 0, "{algorithm}");
            let Wait::For(wait) = subject.peek(&small, "key", 1).wait else {
                panic!("{algorithm} is spent")
            };
            subject.advance(wait - Subject::<H>::tick());
            assert!(
                !subject.admits(&small, "key", 1),
                "{algorithm} one step early"
            );
            subject.advance(Subject::<H>::tick());
            assert!(
                subject.admits(&small, "key", 1),
                "{algorithm} at the promised step"
            );
        }
    }
}

/// A key that changes between two quotas of one period as often as it is asked takes at one moment what the larger one allows.
pub fn changing_to_and_fro_yields_no_more_than_the_larger_quota<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    for algorithm in algorithms(new) {
        let flips = proptest::collection::vec((any::<bool>(), 1..=12_u64), 1..=40);
        for_all::<H, _>(&flips, |flips| {
            let Some(subject) = Subject::new(new) else {
                return Ok(());
            };
            let (small, large) = (
                limit("limit", algorithm, "5/h"),
                limit("limit", algorithm, "12/h"),
            );
            let mut admitted = 0;
            for (is_large, cost) in flips {
                let limit = if is_large { &large } else { &small };
                if subject.admits(limit, "key", cost) {
                    admitted += cost;
                }
                prop_assert!(admitted <= 12, "{}: {} of 12 units", algorithm, admitted);
            }
            Ok(())
        });
    }
}

/// A bucket that changes between two plans at any moments never holds less than under the larger burst and the faster rate.
pub fn a_bucket_between_two_plans_keeps_the_bound_of_the_larger<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    for algorithm in kept(new, &[Algorithm::LeakyBucket, Algorithm::TokenBucket]) {
        let step = (any::<bool>(), 0..=3 * SECOND, 1..=12_u64);
        for_all::<H, _>(&proptest::collection::vec(step, 1..=60), |steps| {
            let Some(mut subject) = Subject::new(new) else {
                return Ok(());
            };
            let plans =
                ["2/s burst 3", "5/2s burst 12"].map(|quota| limit("limit", algorithm, quota));
            let mut bound = subject.oracle(&plans[1]);
            for (second, gap, cost) in steps {
                subject.advance_to(subject.now + gap);
                if subject.admits(&plans[usize::from(second)], "key", cost) {
                    prop_assert!(
                        bound.check(subject.now, cost).admitted,
                        "{} at {}",
                        cost,
                        subject.now
                    );
                }
            }
            Ok(())
        });
    }
}

/// Limits with random numbers, as far as the algorithm counts them exactly.
fn limits_of<H: Harness>(algorithm: Algorithm) -> BoxedStrategy<Limit> {
    let tick = Subject::<H>::tick();
    let terms = if matches!(algorithm, Algorithm::CalendarWindow(_)) {
        (1..=20_u64)
            .prop_map(move |units| Terms::new(units, MINUTE).tick(tick))
            .boxed()
    } else {
        prop_oneof![trace::small_terms(tick), trace::terms(tick)].boxed()
    };
    terms
        .prop_filter_map("no exact limit", move |terms| limit_of(algorithm, terms))
        .boxed()
}

/// A key that is spent under a small quota has the difference at once under a larger one.
pub fn a_grown_quota_admits_at_once<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let (small, large) = (
            limit(algorithm.name(), algorithm, "10/h"),
            limit(algorithm.name(), algorithm, "25/h"),
        );
        assert!(subject.admits(&small, "key", 10), "{algorithm}");
        assert!(!subject.admits(&small, "key", 1), "{algorithm}");
        assert_eq!(subject.remaining(&large, "key"), 15, "{algorithm}");
        assert!(subject.admits(&large, "key", 15), "{algorithm}");
        // Back again: all of the small quota is in use, and none of it comes free by the change.
        assert!(!subject.admits(&small, "key", 1), "{algorithm}");
    }
}
