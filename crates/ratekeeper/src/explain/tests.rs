use std::time::Duration;

use proptest::prelude::*;
use ratekeeper_core::algorithm::{Log, Moment, Words};
use ratekeeper_core::{Algorithm, Limit, Numbers, Quota};

use super::{Explanation, most, most_anywhere};

const ALGORITHMS: [&str; 6] = [
    "token-bucket",
    "leaky-bucket",
    "fixed-window",
    "calendar-window",
    "sliding-log",
    "sliding-counter",
];

/// One key under the library's arithmetic.
enum Probe<'a> {
    Fixed(&'a Numbers, Words),
    Log(&'a Numbers, Log),
}

impl<'a> Probe<'a> {
    fn new(numbers: &'a Numbers) -> Self {
        match numbers {
            Numbers::Log(_) => Self::Log(numbers, Log::default()),
            _ => Self::Fixed(numbers, [0, 0]),
        }
    }

    fn admit(&mut self, moment: Moment) -> bool {
        match self {
            Self::Fixed(Numbers::Fixed { fixed, .. }, words) => {
                match fixed.admit(*words, moment, 1) {
                    Some(after) => {
                        *words = after;
                        true
                    }
                    None => false,
                }
            }
            Self::Log(Numbers::Log(numbers), log) => {
                numbers.expire(log, moment);
                let admits = numbers.admits(log, 1);
                if admits {
                    numbers.push(log, moment, 1);
                }
                admits
            }
            _ => panic!("unknown numbers"),
        }
    }
}

/// A minute of ticks of a second, so that calendar windows have a unit.
fn moment(tick: u64) -> Moment {
    let at = Moment::at(tick * 1_000_000_000);
    Moment {
        unix: at.now.get(),
        ..at
    }
}

/// Returns the most that any schedule of three volleys, each of up to all that fits, gets admitted
/// in any interval of `length` ticks, or in one that begins with the first request.
fn search(limit: &Limit, ticks: &[u64], length: u64) -> (u64, u64) {
    let sizes = 0..=limit.capacity();
    let (mut anywhere, mut from_first) = (0, 0);
    for (i, first) in ticks.iter().enumerate() {
        for (j, second) in ticks.iter().enumerate().skip(i) {
            for third in &ticks[j..] {
                for a in sizes.clone().skip(1) {
                    for b in sizes.clone() {
                        let mut probe = Probe::new(limit.numbers());
                        let mut admitted = Vec::new();
                        for (tick, size) in [(first, a), (second, b), (third, 2 * limit.capacity())]
                        {
                            admitted.extend(
                                (0..size)
                                    .filter(|_| probe.admit(moment(*tick)))
                                    .map(|_| *tick),
                            );
                        }
                        let within = |start: u64| {
                            admitted
                                .iter()
                                .filter(|tick| (start..start + length).contains(tick))
                                .count() as u64
                        };
                        anywhere = anywhere.max(
                            admitted
                                .iter()
                                .map(|start| within(*start))
                                .max()
                                .unwrap_or(0),
                        );
                        from_first = from_first.max(within(*first));
                    }
                }
            }
        }
    }
    (anywhere, from_first)
}

#[test]
fn no_schedule_of_volleys_exceeds_the_stated_worst_case_and_one_reaches_it() {
    // Around the edges of the first three minutes, where the worst cases lie.
    let ticks = [0, 1, 30, 58, 59, 60, 61, 90, 118, 119, 120, 121];
    for name in ALGORITHMS {
        for units in 1..=4 {
            let algorithm: Algorithm = name.parse().unwrap();
            let quota = Quota::per_minute(units);
            let limit = Limit::new("default", algorithm, quota).unwrap();
            let (anywhere, from_first) = search(&limit, &ticks, 60);
            let stated = most_anywhere(algorithm, quota, quota.period());
            let slack = match algorithm {
                // One unit less in whole intervals: the last would come as the interval ends.
                // A bucket refills in steps, so a volley in the middle does not get all of them.
                Algorithm::TokenBucket | Algorithm::LeakyBucket => units,
                Algorithm::SlidingCounter if units > 1 => 1,
                _ => 0,
            };
            assert!(
                u128::from(anywhere) <= stated,
                "{name} {units}: {anywhere} above {stated}"
            );
            assert!(
                u128::from(anywhere + slack) >= stated,
                "{name} {units}: {anywhere} far below {stated}"
            );
            let stated = most(algorithm, quota, Duration::from_secs(60));
            assert!(
                u128::from(from_first) <= stated,
                "{name} {units}: {from_first} above {stated}"
            );
        }
    }
}

#[test]
fn a_greedy_client_gets_what_is_stated_for_the_first_minute() {
    for (name, text, expected) in [
        ("token-bucket", "10/s burst 20", 620),
        ("leaky-bucket", "1/s", 61),
        ("fixed-window", "10/7s", 90),
        ("fixed-window", "100/h", 100),
        ("calendar-window", "100/h", 200),
        ("calendar-window", "5/min", 10),
        ("sliding-log", "10/7s", 90),
        ("sliding-counter", "10/7s", 90),
    ] {
        let algorithm: Algorithm = name.parse().unwrap();
        let quota: Quota = text.parse().unwrap();
        assert_eq!(
            most(algorithm, quota, Duration::from_secs(60)),
            expected,
            "{name} {text}"
        );
        let limit = Limit::new("default", algorithm, quota).unwrap();
        let mut probe = Probe::new(limit.numbers());
        // A calendar at its kindest: its edge comes within the minute.
        let start = if name == "calendar-window" {
            3_590_000
        } else {
            0
        };
        let admitted = (0..60_000u64)
            .flat_map(|milli| [milli; 101])
            .filter(|milli| {
                let at = Moment::at((start + milli) * 1_000_000);
                probe.admit(Moment {
                    unix: at.now.get(),
                    ..at
                })
            });
        let admitted = admitted.count() as u128;
        // Buckets and counters refill in steps, and a counter's old window fades only to its end.
        assert!(
            admitted <= expected && admitted * 10 >= expected * 8,
            "{name} {text}: {admitted} of {expected}"
        );
    }
}

#[test]
fn comparing_takes_the_burst_only_where_there_is_one() {
    let explained = Explanation::compare("10/s burst 20".parse().unwrap());
    let shown: Vec<_> = explained
        .iter()
        .map(|one| (one.algorithm.name(), one.at_once, one.worst_period))
        .collect();
    assert_eq!(
        shown,
        [
            ("token-bucket", 20, 30),
            ("leaky-bucket", 20, 30),
            ("fixed-window", 10, 19),
            ("sliding-log", 10, 10),
            ("sliding-counter", 10, 19),
        ]
    );
    assert_eq!(Explanation::compare("60/min".parse().unwrap()).len(), 6);
}

#[test]
fn a_refused_client_sees_when_to_come_back() {
    let explained =
        Explanation::new(Algorithm::TokenBucket, "2/5s burst 2".parse().unwrap()).unwrap();
    assert_eq!(explained.wait, Duration::from_millis(2_500));
    assert_eq!(
        explained.fields[0][0],
        ("RateLimit-Policy", "\"default\";q=2;w=5".to_owned())
    );
    assert_eq!(
        explained.fields[0][1],
        ("RateLimit", "\"default\";r=1;t=3".to_owned())
    );
    assert_eq!(
        explained.fields[1][1],
        ("RateLimit", "\"default\";r=0;t=3".to_owned())
    );
    assert_eq!(explained.fields[1][2], ("Retry-After", "3".to_owned()));
}

proptest! {
    #[test]
    fn every_quota_that_a_limit_takes_is_explained(units in 1u64..1 << 40, nanos in 1u64..1 << 60, burst in 1u64..1 << 40) {
        let quota = Quota::try_new(units, Duration::from_nanos(nanos)).unwrap();
        for name in ALGORITHMS {
            let algorithm: Algorithm = name.parse().unwrap();
            let quota = if algorithm.has_burst() { quota.with_burst(burst) } else { quota };
            if let Ok(explained) = Explanation::new(algorithm, quota) {
                prop_assert!(explained.worst_period >= u128::from(explained.at_once));
                prop_assert!(explained.wait <= explained.to_full);
            }
        }
    }
}
