//! What users of other limiters reported, each with the outcome that is right.

use ratekeeper_core::{Algorithm, Claim};

use super::{
    Harness,
    subject::{SECOND, Subject, algorithms, kept, limit},
};
use crate::oracle::Wait;

/// Costs of 8, 5, 1, 1, 1 under ten a minute: the refused 5 takes nothing from the ones after it.
pub fn denied_requests_are_not_charged<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let asked = [
            (8, true, 2),
            (5, false, 2),
            (1, true, 1),
            (1, true, 0),
            (1, false, 0),
        ];
        for (cost, admitted, remaining) in asked {
            let found = subject.check(&limit, "key", cost);
            assert_eq!(
                (found.admitted, found.remaining),
                (admitted, remaining),
                "{algorithm} {cost}"
            );
        }
    }
}

/// A bucket of ten with one unit every 10 s: a refused 5 leaves it one unit, and ten seconds later there is one again.
pub fn a_refused_cost_makes_no_debt<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in kept(new, &[Algorithm::LeakyBucket, Algorithm::TokenBucket]) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "1/10s burst 10");
        assert_eq!(subject.check(&limit, "key", 9).remaining, 1, "{algorithm}");
        assert_eq!(
            subject.check(&limit, "key", 5).wait,
            Wait::For(40 * SECOND),
            "{algorithm}"
        );
        assert_eq!(
            subject.check(&limit, "key", 1).wait,
            Wait::None,
            "{algorithm}"
        );
        assert_eq!(
            subject.check(&limit, "key", 1).wait,
            Wait::For(10 * SECOND),
            "{algorithm}"
        );
        subject.advance(10 * SECOND);
        assert!(subject.admits(&limit, "key", 1), "{algorithm}");
    }
}

/// A cost of 50 under a limit of 5 is refused and blocks nobody: five requests of 1 follow.
pub fn a_refused_cost_above_the_limit_blocks_nobody<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "5/min");
        assert_eq!(
            subject.check(&limit, "key", 50).wait,
            Wait::Never,
            "{algorithm}"
        );
        for admitted in [true, true, true, true, true, false] {
            assert_eq!(subject.admits(&limit, "key", 1), admitted, "{algorithm}");
        }
    }
}

/// Ten tries under 10 a second and 1 a second together: one is admitted, and the wider limit has nine left.
pub fn one_refusing_limit_leaves_the_others_as_they_were<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in kept(
        new,
        &[
            Algorithm::TokenBucket,
            Algorithm::FixedWindow,
            Algorithm::SlidingLog,
            Algorithm::SlidingCounter,
        ],
    ) {
        let wide = limit(&format!("{algorithm} wide"), algorithm, "10/s");
        let narrow = limit(&format!("{algorithm} narrow"), algorithm, "1/s");
        let admitted = (0..10)
            .filter(|_| {
                subject
                    .decide(&[Claim::new(&wide, "key"), Claim::new(&narrow, "key")])
                    .is_allowed()
            })
            .count();
        assert_eq!(
            (admitted, subject.remaining(&wide, "key")),
            (1, 9),
            "{algorithm}"
        );
    }
}

/// Five tries at once under 1 a minute and 5 an hour: one is admitted, and four are left of the hour.
pub fn an_hourly_limit_is_not_spent_by_a_minutely_refusal<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let minutely = limit(&format!("{algorithm} minutely"), algorithm, "1/min");
        let hourly = limit(&format!("{algorithm} hourly"), algorithm, "5/h");
        let admitted = (0..5)
            .filter(|_| {
                subject
                    .decide(&[Claim::new(&minutely, "key"), Claim::new(&hourly, "key")])
                    .is_allowed()
            })
            .count();
        assert_eq!(
            (admitted, subject.remaining(&hourly, "key")),
            (1, 4),
            "{algorithm}"
        );
    }
}

/// Two in 30 days, ten tries 20 ms apart: two. (A timer of 2^31 ms would have let all ten through.)
pub fn a_month_long_window_holds<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "2/30d");
        let mut admitted = 0;
        for _ in 0..10 {
            admitted += u32::from(subject.admits(&limit, "key", 1));
            subject.advance(SECOND / 50);
        }
        assert_eq!(admitted, 2, "{algorithm}");
    }
}

/// One a second with a burst of 100, all spent: three seconds later there are three, not 100. (The state was kept for less time
/// than the bucket takes to fill.)
pub fn a_burst_longer_than_the_period_is_remembered<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in kept(new, &[Algorithm::LeakyBucket, Algorithm::TokenBucket]) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "1/s burst 100");
        assert!(subject.admits(&limit, "key", 100), "{algorithm}");
        subject.advance(3 * SECOND);
        let admitted = (0..10).filter(|_| subject.admits(&limit, "key", 1)).count();
        assert_eq!(admitted, 3, "{algorithm}");
    }
}

/// One in ten seconds, asked every 1.1 s for 99 s: ten of 91 are admitted.
pub fn one_in_ten_seconds_is_not_ten_times_that<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in kept(
        new,
        &[
            Algorithm::LeakyBucket,
            Algorithm::TokenBucket,
            Algorithm::FixedWindow,
            Algorithm::SlidingLog,
        ],
    ) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "1/10s");
        let mut admitted = 0;
        for _ in 0..91 {
            admitted += u32::from(subject.admits(&limit, "key", 1));
            subject.advance(SECOND / 10 * 11);
        }
        assert_eq!(admitted, 10, "{algorithm}");
    }
}

/// A cost of 8,001 under a log of 10,000 is admitted, weighs 8,001 and goes as one.
pub fn a_log_takes_a_cost_of_thousands<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(mut subject) = Subject::new(new) else {
        return;
    };
    let limit = limit("log", Algorithm::SlidingLog, "10000/min");
    assert_eq!(subject.check(&limit, "key", 8_001).remaining, 1_999);
    subject.advance(SECOND);
    assert_eq!(
        subject.check(&limit, "key", 2_000).wait,
        Wait::For(59 * SECOND)
    );
    assert!(subject.admits(&limit, "key", 1_999));
    subject.advance(59 * SECOND);
    assert_eq!(subject.remaining(&limit, "key"), 8_001);
}

/// A window stands one millisecond before its end, and is over at its end and a millisecond later.
pub fn a_window_ends_at_its_end<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in kept(new, &[Algorithm::FixedWindow, Algorithm::SlidingLog]) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "2/min");
        assert!(subject.admits(&limit, "key", 2), "{algorithm}");
        let millisecond = SECOND / 1_000;
        subject.advance(60 * SECOND - millisecond);
        assert!(!subject.admits(&limit, "key", 1), "{algorithm}");
        subject.advance(millisecond);
        assert!(subject.admits(&limit, "key", 1), "{algorithm}");
        subject.advance(millisecond);
        assert!(subject.admits(&limit, "key", 1), "{algorithm}");
    }
}
