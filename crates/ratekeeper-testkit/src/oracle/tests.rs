//! The oracles against the sentences that define them, by trying every cost and every time.

use proptest::prelude::*;

use super::{
    Charge, FixedWindow, LeakyBucket, Oracle, SlidingCounter, SlidingLog, Terms, TokenBucket,
    Verdict, Wait, Windows, calendar,
};
use crate::trace::{self, Op, Step};

const SECOND: u64 = 1_000_000_000;

/// The charges of a history that have not been settled, and the time.
#[derive(Default)]
struct Past {
    now: u64,
    open: Vec<Charge>,
}

impl Past {
    fn apply(&mut self, oracle: &mut impl Oracle, step: &Step) -> Option<Verdict> {
        self.now = self.now.checked_add(step.gap)?;
        match &step.op {
            Op::Check(cost) => {
                let verdict = oracle.check(self.now, *cost);
                if verdict.admitted {
                    self.open.push(Charge {
                        at: self.now,
                        units: *cost,
                    });
                }
                Some(verdict)
            }
            Op::Peek(cost) => Some(oracle.peek(self.now, *cost)),
            Op::Settle { which, actual } => {
                if !self.open.is_empty() {
                    let charge = self.open.swap_remove(which.index(self.open.len()));
                    oracle.settle(self.now, charge, *actual, oracle.capacity());
                }
                None
            }
        }
    }
}

/// Whether nothing that is asked of the key from `now` on tells it from a new one.
fn equals_fresh(
    oracle: &(impl Oracle + Clone),
    fresh: &(impl Oracle + Clone),
    terms: Terms,
    now: u64,
) -> bool {
    if oracle.remaining(now) != fresh.remaining(now) {
        return false;
    }
    // Nothing left is not yet fresh: a remainder below one unit, or a window that began earlier, shows after the next charge.
    let (mut used, mut unused) = (oracle.clone(), fresh.clone());
    used.charge(now, 1);
    unused.charge(now, 1);
    let mut later = (now..=now + 2 * terms.period).step_by(usize::try_from(terms.tick).unwrap());
    later.all(|later| used.remaining(later) == unused.remaining(later))
}

/// Holds a verdict of `oracle` at `now` against the four sentences.
fn holds_to_its_words(
    oracle: &(impl Oracle + Clone),
    fresh: &(impl Oracle + Clone),
    terms: Terms,
    now: u64,
) {
    let capacity = oracle.capacity();
    let horizon = 4 * terms.period * (1 + terms.burst);
    let steps = || (0..).map(|n| n * terms.tick).take_while(|d| *d <= horizon);
    let first = |wanted: &dyn Fn(u64) -> bool| {
        steps()
            .find(|d| wanted(now + d))
            .expect("within the horizon")
    };
    let remaining = (0..=capacity + 1)
        .rev()
        .find(|c| oracle.admits(now, *c))
        .unwrap_or(0);
    let reset = first(&|time| equals_fresh(oracle, fresh, terms, time));
    let next = if reset == 0 {
        0
    } else {
        first(&|time| oracle.remaining(time) > remaining)
    };
    for cost in 0..=capacity + 1 {
        let admitted = cost == 0 || oracle.admits(now, cost);
        let wait = if admitted {
            Wait::None
        } else if cost > capacity {
            Wait::Never
        } else {
            Wait::For(first(&|time| oracle.admits(time, cost)))
        };
        let expected = Verdict {
            admitted,
            remaining,
            next,
            reset,
            wait,
        };
        assert_eq!(
            oracle.peek(now, cost),
            expected,
            "cost {cost} at {now}: {oracle:?}"
        );
    }
}

fn holds_throughout<O: Oracle + Clone>(new: impl Fn(Terms) -> O, terms: Terms, steps: &[Step]) {
    let fresh = new(terms);
    let mut oracle = fresh.clone();
    let mut past = Past::default();
    for step in steps {
        // The long idle of the strategies is needless here, and a horizon has to fit behind it.
        let step = Step {
            gap: step.gap.min(1_000 * terms.tick),
            op: step.op.clone(),
        };
        let before = format!("{oracle:?}");
        let verdict = past.apply(&mut oracle, &step);
        if verdict.is_some_and(|verdict| !verdict.admitted)
            || matches!(step.op, Op::Peek(_) | Op::Check(0))
        {
            assert_eq!(
                format!("{oracle:?}"),
                before,
                "only an admitted charge changes anything"
            );
        }
        if let (Op::Check(_), Some(verdict)) = (&step.op, verdict) {
            let after = oracle.peek(past.now, 0);
            assert_eq!(
                (verdict.remaining, verdict.next, verdict.reset),
                (after.remaining, after.next, after.reset)
            );
        }
        holds_to_its_words(&oracle, &fresh, terms, past.now);
    }
}

fn small_history() -> impl Strategy<Value = (Terms, Vec<Step>)> {
    prop_oneof![Just(1), Just(3)]
        .prop_flat_map(trace::small_terms)
        .prop_flat_map(|terms| {
            (
                Just(terms),
                trace::histories(terms, terms.burst.max(terms.units), 8),
            )
        })
}

fn fixed_window(terms: Terms) -> FixedWindow {
    FixedWindow::new(terms, Windows::FromFirstRequest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn leaky_bucket_keeps_the_four_sentences((terms, steps) in small_history()) {
        holds_throughout(LeakyBucket::new, terms, &steps);
    }

    #[test]
    fn token_bucket_keeps_the_four_sentences((terms, steps) in small_history()) {
        holds_throughout(TokenBucket::new, terms, &steps);
    }

    #[test]
    fn fixed_window_keeps_the_four_sentences((terms, steps) in small_history()) {
        holds_throughout(fixed_window, terms, &steps);
    }

    #[test]
    fn sliding_log_keeps_the_four_sentences((terms, steps) in small_history()) {
        holds_throughout(SlidingLog::new, terms, &steps);
    }

    #[test]
    fn sliding_counter_keeps_the_four_sentences((terms, steps) in small_history()) {
        holds_throughout(SlidingCounter::new, terms, &steps);
    }

    #[test]
    fn both_buckets_are_one_algorithm(
        (terms, steps) in trace::terms(1).prop_flat_map(|t| (Just(t), trace::histories(t, t.burst, 30))),
        other in trace::terms(1),
    ) {
        let (mut leaky, mut token) = (LeakyBucket::new(terms), TokenBucket::new(terms));
        let (mut past, mut same) = (Past::default(), Past::default());
        for (index, step) in steps.iter().enumerate() {
            prop_assert_eq!(past.apply(&mut leaky, step), same.apply(&mut token, step));
            prop_assert_eq!(leaky.peek(past.now, 1), token.peek(past.now, 1));
            if index == steps.len() / 2 {
                leaky.change(past.now, other);
                token.change(past.now, other);
            }
        }
    }

    #[test]
    fn a_change_of_terms_keeps_what_was_used(
        (terms, steps) in trace::terms(1).prop_flat_map(|t| (Just(t), trace::checks(t, t.units, 30))),
        other in trace::terms(1),
    ) {
        fn used<O: Oracle>(mut oracle: O, terms: Terms, other: Terms, steps: &[Step]) {
            let mut past = Past::default();
            for step in steps {
                past.apply(&mut oracle, step);
            }
            let before = oracle.capacity() - oracle.remaining(past.now);
            oracle.change(past.now, other);
            let after = oracle.capacity() - oracle.remaining(past.now);
            assert!(after <= before, "{before} used units became {after}");
            if other.period >= terms.period {
                assert!(after >= before.min(oracle.capacity()), "{before} used units became {after}");
            }
        }
        used(LeakyBucket::new(terms), terms, other, &steps);
        used(TokenBucket::new(terms), terms, other, &steps);
        used(fixed_window(terms), terms, other, &steps);
        used(SlidingLog::new(terms), terms, other, &steps);
    }
}

#[test]
fn whole_small_domains_keep_the_four_sentences() {
    let costs = [1, 3];
    let gaps = [0, 1, 4];
    let all: Vec<(u64, u64)> = gaps
        .iter()
        .flat_map(|gap| costs.map(|cost| (*gap, cost)))
        .collect();
    for terms in [Terms::new(3, 4).burst(2), Terms::new(2, 3).burst(3)] {
        for first in &all {
            for second in &all {
                for third in &all {
                    let steps = [first, second, third].map(|(gap, cost)| Step {
                        gap: *gap,
                        op: Op::Check(*cost),
                    });
                    holds_throughout(LeakyBucket::new, terms, &steps);
                    holds_throughout(TokenBucket::new, terms, &steps);
                    holds_throughout(fixed_window, terms, &steps);
                    holds_throughout(SlidingLog::new, terms, &steps);
                    holds_throughout(SlidingCounter::new, terms, &steps);
                }
            }
        }
    }
}

#[test]
fn level_nineteen_and_a_half_of_twenty_refuses_a_unit() {
    // One unit every second, and 39 half seconds of it filled.
    let mut bucket = LeakyBucket::new(Terms::new(1, SECOND).burst(20));
    assert!(bucket.check(0, 20).admitted);
    let verdict = bucket.check(SECOND / 2, 1);
    assert!(!verdict.admitted);
    assert_eq!(verdict.wait, Wait::For(SECOND / 2));
    assert_eq!(verdict.remaining, 0);
}

#[test]
fn three_per_second_lose_no_fraction() {
    let mut bucket = TokenBucket::new(Terms::new(3, SECOND).burst(2));
    assert!(bucket.check(0, 2).admitted);
    // A third of a second is 333,333,333 ⅓ ns, and clocks have whole ones.
    assert_eq!(bucket.check(333_333_333, 1).wait, Wait::For(1));
    assert!(bucket.check(333_333_334, 1).admitted);
    // The ⅔ ns that this request came late are not lost on the next.
    assert_eq!(
        bucket.check(333_333_334, 1).wait,
        Wait::For(666_666_667 - 333_333_334)
    );
}

#[test]
fn eighteen_seconds_into_a_minute_the_previous_one_counts_seventy_percent() {
    let minute = 60 * SECOND;
    let mut counter = SlidingCounter::new(Terms::new(100, minute));
    assert!(counter.check(0, 80).admitted);
    assert!(counter.check(minute + 18 * SECOND, 30).admitted);
    // 0.7 · 80 + 30 = 86.
    assert_eq!(counter.peek(minute + 18 * SECOND, 1).remaining, 14);
}

#[test]
fn a_log_entry_is_gone_exactly_one_period_later() {
    let mut log = SlidingLog::new(Terms::new(1, SECOND));
    assert!(log.check(7, 1).admitted);
    assert_eq!(log.check(7 + SECOND - 1, 1).wait, Wait::For(1));
    assert!(log.check(7 + SECOND, 1).admitted);
}

#[test]
fn a_window_edge_lets_twice_the_limit_through_and_a_log_does_not() {
    let terms = Terms::new(10, SECOND);
    let (mut window, mut log) = (fixed_window(terms), SlidingLog::new(terms));
    let spent =
        |oracle: &mut dyn Oracle, now| (0..30).filter(|_| oracle.check(now, 1).admitted).count();
    assert!(window.check(0, 1).admitted && log.check(0, 1).admitted);
    assert_eq!(
        spent(&mut window, SECOND - 1) + spent(&mut window, SECOND),
        9 + 10
    );
    assert_eq!(spent(&mut log, SECOND - 1) + spent(&mut log, SECOND), 9 + 1);
}

#[test]
fn a_calendar_window_ends_with_the_calendar() {
    // Time 0 is 2026-11-30 23:30 UTC.
    let windows = Windows::Calendar {
        unit: calendar::Unit::Month,
        offset: 0,
        unix_at_zero: 1_796_081_400 * SECOND,
    };
    let mut window = FixedWindow::new(Terms::new(2, SECOND), windows);
    assert!(window.check(SECOND, 2).admitted);
    let half_hour = 30 * 60 * SECOND;
    assert_eq!(window.check(half_hour - 1, 1).wait, Wait::For(1));
    let verdict = window.check(half_hour, 1);
    assert_eq!(
        (verdict.remaining, verdict.reset),
        (1, 31 * 86_400 * SECOND)
    );
}

#[test]
fn a_refund_returns_what_has_not_drained_and_no_more() {
    let mut bucket = LeakyBucket::new(Terms::new(1, SECOND).burst(10));
    bucket.check(0, 6);
    bucket.check(4 * SECOND, 8);
    // Of the 6 units of time 0 four have drained; 2 + 8 are in the bucket, and 2 come back.
    assert_eq!(bucket.remaining(4 * SECOND), 0);
    bucket.settle(4 * SECOND, Charge { at: 0, units: 6 }, 0, 0);
    assert_eq!(bucket.remaining(4 * SECOND), 2);
}

#[test]
fn a_refund_reaches_only_the_window_that_was_charged() {
    let charge = Charge { at: 0, units: 3 };
    let mut window = fixed_window(Terms::new(3, 10));
    window.check(0, 3);
    window.check(10, 2);
    window.settle(10, charge, 0, 0);
    assert_eq!(window.remaining(10), 1);

    let mut counter = SlidingCounter::new(Terms::new(4, 10));
    counter.check(0, 3);
    counter.check(11, 1);
    counter.settle(11, charge, 1, 0);
    // One unit of the previous window, nine tenths of it in sight, and one of the current.
    assert_eq!(counter.remaining(11), 2);
    counter.settle(21, Charge { at: 0, units: 1 }, 0, 0);
    assert_eq!(counter.remaining(21), 3);

    let mut log = SlidingLog::new(Terms::new(4, 10));
    log.check(0, 3);
    log.check(1, 1);
    log.settle(2, charge, 1, 0);
    assert_eq!(log.remaining(2), 2);
    log.settle(11, Charge { at: 1, units: 1 }, 0, 0);
    assert_eq!(log.remaining(11), 4);
}

#[test]
fn an_actual_cost_makes_debt_up_to_its_bound() {
    let terms = Terms::new(10, 10 * SECOND);
    let oracles: [&mut dyn Oracle; 5] = [
        &mut LeakyBucket::new(terms),
        &mut TokenBucket::new(terms),
        &mut fixed_window(terms),
        &mut SlidingLog::new(terms),
        &mut SlidingCounter::new(terms),
    ];
    for oracle in oracles {
        assert!(oracle.check(0, 1).admitted);
        // 15 of the 24 further units fit before the key is five above its capacity: it holds 1 of 10.
        assert_eq!(
            oracle.settle(0, Charge { at: 0, units: 1 }, 25, 5),
            10,
            "{oracle:?}"
        );
        let verdict = oracle.peek(0, 1);
        assert_eq!(
            (verdict.admitted, verdict.remaining),
            (false, 0),
            "{oracle:?}"
        );
        assert_eq!(verdict.wait, Wait::For(verdict.next), "{oracle:?}");
    }
}

#[test]
fn the_largest_numbers_are_answered() {
    let terms = Terms::new(u64::MAX, u64::MAX);
    let oracles: [&mut dyn Oracle; 5] = [
        &mut LeakyBucket::new(terms),
        &mut TokenBucket::new(terms),
        &mut fixed_window(terms),
        &mut SlidingLog::new(terms),
        &mut SlidingCounter::new(terms),
    ];
    for oracle in oracles {
        assert!(oracle.check(1, u64::MAX).admitted, "{oracle:?}");
        assert!(!oracle.check(1, u64::MAX).admitted, "{oracle:?}");
        assert_eq!(
            oracle.settle(
                1,
                Charge {
                    at: 1,
                    units: u64::MAX
                },
                0,
                u64::MAX
            ),
            0
        );
        assert_eq!(oracle.peek(u64::MAX, 1).remaining, u64::MAX, "{oracle:?}");
    }
    let mut slow = LeakyBucket::new(Terms::new(1, u64::MAX).burst(u64::MAX));
    assert_eq!(
        slow.check(0, u64::MAX).reset,
        u64::MAX,
        "a time beyond 64 bits is the largest there is"
    );
}
