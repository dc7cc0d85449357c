//! What time does to a key: standing still, passing for years, stepping back, and never losing a fraction.

use std::time::Duration;

use ratekeeper_core::{Algorithm, Limit, algorithm::UtcOffset};

use super::{
    Harness,
    subject::{SECOND, Subject, algorithms, kept, limit},
};
use crate::oracle::Wait;

const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 86_400 * SECOND;
const CALENDAR: Algorithm = Algorithm::CalendarWindow(UtcOffset::UTC);

/// 2023-11-15 12:00 UTC, a Wednesday: the beginning of a minute and an hour, and of nothing longer.
const NOON: Duration = Duration::from_secs(1_700_049_600);

/// While the clock stands still a key admits its capacity, however often it is asked.
pub fn a_clock_that_stands_still_admits_the_capacity_and_no_more<H: Harness>(
    new: &dyn Fn() -> Option<H>,
) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "100/min");
        assert_eq!(spend(&subject, &limit, 1_000), 100, "{algorithm}");
    }
}

fn spend<H: Harness>(subject: &Subject<H>, limit: &Limit, tries: usize) -> usize {
    (0..tries)
        .filter(|_| subject.admits(limit, "key", 1))
        .count()
}

/// After a minute, a year or thirty of idling a spent key is fresh, and admits no more than a new one.
pub fn an_idle_key_is_fresh_and_never_more_than_fresh<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for idle in [2 * MINUTE, 365 * DAY, 30 * 365 * DAY] {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        for algorithm in algorithms(new) {
            let limit = limit(algorithm.name(), algorithm, "10/min");
            assert_eq!(spend(&subject, &limit, 20), 10, "{algorithm}");
        }
        subject.advance(idle);
        for algorithm in algorithms(new) {
            let limit = limit(algorithm.name(), algorithm, "10/min");
            assert_eq!(
                subject.peek(&limit, "key", 11),
                subject.peek(&limit, "new", 11),
                "{algorithm} after {idle} ns"
            );
            assert_eq!(
                spend(&subject, &limit, 20),
                10,
                "{algorithm} after {idle} ns"
            );
        }
    }
}

/// A limit of one a year refuses until the promised step, which lies a year away.
pub fn a_year_is_waited_out_to_the_step<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "1/365d");
        // Not a year's first day, which the calendar's year would otherwise share with the others.
        subject.advance(40 * DAY);
        assert!(subject.admits(&limit, "key", 1), "{algorithm}");
        for _ in 0..2 {
            let Wait::For(wait) = subject.check(&limit, "key", 1).wait else {
                panic!("{algorithm} is spent")
            };
            subject.advance(wait - Subject::<H>::tick());
            assert!(
                !subject.admits(&limit, "key", 1),
                "{algorithm} one step early"
            );
            subject.advance(Subject::<H>::tick());
            assert!(
                subject.admits(&limit, "key", 1),
                "{algorithm} at the promised step"
            );
        }
    }
}

/// Three a second, spent at odd moments for a million seconds, come to 3,000,000 and the burst, exactly.
pub fn three_a_second_do_not_drift_in_a_million_seconds<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in kept(new, &[Algorithm::LeakyBucket, Algorithm::TokenBucket]) {
        let Some(mut subject) = Subject::new(new) else {
            return;
        };
        let limit = limit(algorithm.name(), algorithm, "3/s burst 300");
        let end = 1_000_000 * SECOND;
        let mut admitted = 0;
        // The bucket is never full again: no step is longer than the 100 s that fill it.
        for step in [97, 13, 61, 2, 98, 35, 83].into_iter().cycle() {
            let remaining = subject.remaining(&limit, "key");
            assert!(
                remaining == 0 || subject.admits(&limit, "key", remaining),
                "{algorithm}"
            );
            admitted += remaining;
            if subject.now == end {
                break;
            }
            // Odd in every digit, so that the bucket is met in every fraction of a unit.
            let next = subject.now + step * SECOND + step * 7_777_777;
            subject.advance_to(next.min(end));
        }
        assert_eq!(admitted, 3_000_000 + 300, "{algorithm}");
    }
}

/// At saturation 1000 a second are 10,000 in ten seconds: nothing is lost at short intervals, and the waits lead to each unit.
pub fn a_thousand_a_second_are_all_admitted<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(mut subject) = Subject::new(new) else {
        return;
    };
    let limit = limit("saturated", Algorithm::TokenBucket, "1000/s burst 5");
    let mut admitted = 0;
    while subject.now < 10 * SECOND {
        match subject.check(&limit, "key", 1).wait {
            Wait::None => admitted += 1,
            Wait::For(wait) => subject.advance(wait),
            Wait::Never => panic!("a unit is never above the capacity"),
        }
    }
    // The unit of the last moment belongs to the next ten seconds.
    assert_eq!(admitted, 5 + 10_000 - 1);
}

/// The calendar is set back and forward by a second, a day and a year: a spent key stays spent for as long as its limit says,
/// and is fresh again after two windows from then on.
pub fn a_step_of_the_calendar_neither_frees_nor_freezes<H: Harness>(new: &dyn Fn() -> Option<H>) {
    for algorithm in algorithms(new) {
        for back in [SECOND / 2, SECOND, 2 * SECOND, DAY, 365 * DAY] {
            let Some(mut subject) = Subject::new(new) else {
                return;
            };
            subject.harness.set_unix(NOON);
            let limit = limit(algorithm.name(), algorithm, "5/h");
            assert_eq!(spend(&subject, &limit, 10), 5, "{algorithm}");
            subject.harness.set_unix(NOON - Duration::from_nanos(back));
            let spent = subject.check(&limit, "key", 1);
            assert!(!spent.admitted, "{algorithm}: {back} ns back freed the key");
            let Wait::For(wait) = spent.wait else {
                panic!("{algorithm} is spent")
            };
            // Two windows are the most that anything of a key is remembered, be it by the counter.
            let most = 2 * 3_600 * SECOND;
            assert!(
                wait <= most,
                "{algorithm}: {back} ns back froze the key for {wait} ns"
            );
            subject.advance(most + SECOND);
            assert_eq!(
                subject.remaining(&limit, "key"),
                5,
                "{algorithm}: {back} ns back"
            );
        }
    }
}

/// The most that a key can take in any interval of the window's length, and of a hundredth of it, is what the documentation says.
///
/// Each limit is asked for everything, as often as possible, at moments chosen against it; N is 100 per minute.
pub fn the_most_in_any_interval_is_as_documented<H: Harness>(new: &dyn Fn() -> Option<H>) {
    // A burst and what comes back meanwhile; one window's end and the next one's beginning; never above N; and just under 2 N,
    // for the counter takes the previous window's units for evenly spread.
    let documented = [
        (Algorithm::LeakyBucket, 199, 100),
        (Algorithm::TokenBucket, 199, 100),
        (Algorithm::FixedWindow, 199, 199),
        (CALENDAR, 200, 200),
        (Algorithm::SlidingLog, 100, 100),
        (Algorithm::SlidingCounter, 198, 100),
    ];
    let algorithms = algorithms(new);
    for (algorithm, in_a_window, in_a_hundredth) in documented {
        if !algorithms.contains(&algorithm) {
            continue;
        }
        let mut most = (0, 0);
        for aim in [0, MINUTE / 2, MINUTE - 1, MINUTE - MINUTE / 200] {
            let Some(mut subject) = Subject::new(new) else {
                return;
            };
            subject.harness.set_unix(NOON);
            let limit = limit(algorithm.name(), algorithm, "100/min");
            let mut taken: Vec<(u64, u64)> = Vec::new();
            let mut take = |subject: &Subject<H>, units: u64| {
                if units > 0 && subject.admits(&limit, "key", units) {
                    taken.push((subject.now, units));
                }
            };
            // One unit begins the window, where the calendar does not; the rest waits for the aim, and from then on everything is
            // taken, 200 times a window and at its very edges.
            if aim > 0 && algorithm != CALENDAR {
                take(&subject, 1);
            }
            let tick = Subject::<H>::tick();
            let aim = aim / tick * tick;
            subject.advance_to(aim);
            let step = MINUTE / 200;
            while subject.now < aim + 2 * MINUTE {
                let remaining = subject.remaining(&limit, "key");
                take(&subject, remaining);
                let edge = (subject.now + 1).next_multiple_of(MINUTE);
                let next = (subject.now + step).min(if edge - tick > subject.now {
                    edge - tick
                } else {
                    edge
                });
                subject.advance_to(next);
            }
            let within = |length: u64| {
                let sums = taken.iter().map(|(from, _)| {
                    taken
                        .iter()
                        .filter(|(at, _)| at >= from && *at < from + length)
                        .map(|(_, units)| units)
                        .sum::<u64>()
                });
                sums.max().unwrap_or(0)
            };
            most = (most.0.max(within(MINUTE)), most.1.max(within(MINUTE / 100)));
        }
        assert_eq!(
            most,
            (in_a_window, in_a_hundredth),
            "{algorithm}: most in a window and in a hundredth of it"
        );
    }
}
