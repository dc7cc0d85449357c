//! What holds for any rules, requests and threads.

use std::collections::{BTreeSet, HashMap};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use http::request::Parts;
use http::{Request, StatusCode};
use proptest::{collection::vec, prelude::*, sample::select};
use tower_ratekeeper::key::Keyed;
use tower_ratekeeper::{Algorithm, Key, Limit, Outcome, Quota, RateLimitLayer, Rule};

use crate::support::{at_once, layer, status};

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
    Algorithm::SlidingCounter,
];

/// A rule, what it counts by, and whether it has a say.
#[derive(Clone, Copy, Debug)]
struct Sketch {
    algorithm: Algorithm,
    units: u64,
    /// By the first or the second number of a request, or all requests together.
    by: usize,
    shadowed: bool,
}

/// Two numbers to count by, and for each rule what the request costs under it; nothing where the rule does not apply.
#[derive(Clone, Debug)]
struct Sent {
    numbers: [u64; 2],
    costs: Vec<Option<u64>>,
}

impl Sent {
    fn key(&self, rule: &Sketch) -> Key {
        Key::from(self.numbers.get(rule.by).copied().unwrap_or(u64::MAX))
    }

    /// The request in whose extensions this stands.
    fn request(&self) -> Request<()> {
        let mut request = Request::new(());
        request.extensions_mut().insert(self.clone());
        request
    }
}

fn limits(sketches: &[Sketch]) -> Vec<Limit> {
    let limits = sketches.iter().enumerate().map(|(index, sketch)| {
        let quota = Quota::per_minute(sketch.units);
        Limit::new(&format!("rule-{index}"), sketch.algorithm, quota).unwrap()
    });
    limits.collect()
}

fn layer_of(sketches: &[Sketch]) -> (RateLimitLayer, tower_ratekeeper::ManualClock) {
    let limits = limits(sketches).into_iter().zip(sketches.to_vec());
    layer(limits.enumerate().map(|(index, (limit, sketch))| {
        let sent = |parts: &Parts| parts.extensions.get::<Sent>().cloned().unwrap();
        let rule = Rule::new(limit).by_fn(move |parts| {
            let sent = sent(parts);
            match sent.costs[index] {
                Some(_) => Keyed::from(sent.key(&sketch)),
                None => Keyed::Exempt,
            }
        });
        let rule = rule.cost_by(move |parts| sent(parts).costs[index].unwrap_or_default());
        if sketch.shadowed {
            rule.shadowed()
        } else {
            rule
        }
    }))
}

fn sketches(
    shadowed: impl Strategy<Value = bool>,
    most: u64,
) -> impl Strategy<Value = Vec<Sketch>> {
    let sketch = (select(ALGORITHMS.to_vec()), 1..=most, 0..3_usize, shadowed);
    let sketch = sketch.prop_map(|(algorithm, units, by, shadowed)| Sketch {
        algorithm,
        units,
        by,
        shadowed,
    });
    vec(sketch, 1..=6)
}

fn sent(rules: usize, most: u64) -> impl Strategy<Value = Sent> {
    let costs = vec(prop::option::weighted(0.8, 0..=most), rules);
    ([0..3_u64, 0..2_u64], costs).prop_map(|(numbers, costs)| Sent { numbers, costs })
}

fn passes(layer: &RateLimitLayer, sent: &Sent) -> bool {
    at_once(status(layer, sent.request())) == StatusCode::OK
}

/// All that can be known of the limits of a request.
fn standing(layer: &RateLimitLayer, limits: &[Limit], sketches: &[Sketch]) -> Vec<Outcome> {
    let mut standing = Vec::new();
    for (limit, sketch) in limits.iter().zip(sketches) {
        for number in (0..3).chain([u64::MAX]) {
            let key = Sent {
                numbers: [number; 2],
                costs: Vec::new(),
            }
            .key(sketch);
            standing.push(layer.store().peek(limit, &key, 1));
        }
    }
    standing
}

proptest! {
    /// Several rules of any kind: a refused request leaves every limit as it was, and no entry.
    #[test]
    fn a_refusal_changes_nothing(
        (sketches, requests) in sketches(prop::bool::weighted(0.2), 6).prop_flat_map(|sketches| {
            let requests = vec((select(vec![0, 0, 0, 1, 1_000, 6_000, 59_999, 60_000]), sent(sketches.len(), 8)), 1..40);
            (Just(sketches), requests)
        }),
    ) {
        let (layer, clock) = layer_of(&sketches);
        let limits = limits(&sketches);
        let entries = || -> Vec<u64> { limits.iter().map(|limit| layer.store().entries(limit)).collect() };
        for (millis, sent) in requests {
            clock.advance(Duration::from_millis(millis));
            let before = (standing(&layer, &limits, &sketches), entries());
            let passed = passes(&layer, &sent);
            let after = (standing(&layer, &limits, &sketches), entries());
            if !passed {
                prop_assert_eq!(&before, &after);
            }
            // And it was refused for a reason.
            let fits = limits.iter().zip(&sketches).zip(&sent.costs).all(|((limit, sketch), cost)| {
                let index = limits.iter().position(|own| own == limit).unwrap() * 4;
                let number = sent.numbers.get(sketch.by).copied().map_or(3, |number| usize::try_from(number).unwrap());
                sketch.shadowed || cost.is_none_or(|cost| cost <= before.0[index + number].remaining())
            });
            prop_assert_eq!(passed, fits);
        }
    }
}

/// Whether one after the other, in some order that keeps each thread's own, the requests are decided as they were.
fn is_serial(limits: &[Limit], sketches: &[Sketch], threads: &[Vec<(Sent, bool)>]) -> bool {
    let mut reached = BTreeSet::from([vec![0; threads.len()]]);
    let steps: usize = threads.iter().map(Vec::len).sum();
    for _ in 0..steps {
        let mut next = BTreeSet::new();
        for done in &reached {
            // The clock stands, so what is in use follows from who has come how far.
            let mut used = HashMap::<(usize, Key), u64>::new();
            for (thread, done) in threads.iter().zip(done) {
                for (sent, _) in thread[..*done].iter().filter(|(_, passed)| *passed) {
                    for (index, cost) in sent.costs.iter().enumerate() {
                        *used.entry((index, sent.key(&sketches[index]))).or_default() +=
                            cost.unwrap_or(0);
                    }
                }
            }
            for (thread, requests) in threads.iter().enumerate() {
                let Some((sent, passed)) = requests.get(done[thread]) else {
                    continue;
                };
                let fits = sent.costs.iter().enumerate().all(|(index, cost)| {
                    let used = used
                        .get(&(index, sent.key(&sketches[index])))
                        .copied()
                        .unwrap_or(0);
                    cost.is_none_or(|cost| cost == 0 || used + cost <= limits[index].capacity())
                });
                if fits == *passed {
                    let mut done = done.clone();
                    done[thread] += 1;
                    next.insert(done);
                }
            }
        }
        reached = next;
    }
    !reached.is_empty()
}

proptest! {
    /// Threads over rules that overlap: what is decided could have been decided one request after the other.
    #[test]
    fn any_interleaving_is_some_serial_order(
        (sketches, threads) in sketches(Just(false), 12).prop_flat_map(|sketches| {
            let threads = vec(vec(sent(sketches.len(), 5), 1..8), 3);
            (Just(sketches), threads)
        }),
    ) {
        let (layer, _) = layer_of(&sketches);
        let start = Barrier::new(threads.len());
        let decided: Vec<Vec<(Sent, bool)>> = thread::scope(|scope| {
            let threads = threads.into_iter().map(|requests| {
                let (layer, start) = (&layer, &start);
                scope.spawn(move || {
                    start.wait();
                    requests.into_iter().map(|sent| { let passed = passes(layer, &sent); (sent, passed) }).collect()
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        prop_assert!(is_serial(&limits(&sketches), &sketches, &decided), "{:?}", decided);
    }
}
