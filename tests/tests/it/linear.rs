//! Threads that ask for several limits at once, and give some of it back: whatever the interleaving, one after the other in some
//! order would have been decided the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Barrier;
use std::thread;

use proptest::{collection::vec, prelude::*, sample::select};
use ratekeeper_core::{
    Acquire, Algorithm, Claim, Claims, Key, Limit, ManualClock, Memory, Quota, Receipt, Settle,
    Store,
};

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
    Algorithm::SlidingCounter,
];

/// So many units of a limit, by its place in the list, for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    limit: usize,
    key: u64,
    units: u64,
}

/// What a thread does next.
#[derive(Clone, Debug)]
enum Act {
    /// Claims all of this or nothing.
    Ask(Vec<Asked>),
    /// Gives back all of its latest request that was admitted and not given back.
    GiveBack,
}

/// What came of it.
#[derive(Clone, Debug)]
enum Done {
    Admitted(Vec<Asked>),
    Refused(Vec<Asked>),
    GivenBack(Asked),
}

fn work(memory: &Memory, limits: &[Limit], acts: Vec<Act>) -> Vec<Done> {
    let mut held: Vec<Vec<(Asked, Receipt)>> = Vec::new();
    let mut done = Vec::new();
    for act in acts {
        match act {
            Act::Ask(asked) => {
                let claims: Vec<_> = asked
                    .iter()
                    .map(|asked| {
                        let claim = Claim::new(&limits[asked.limit], Key::from(asked.key));
                        claim.with_cost(asked.units).settled_later()
                    })
                    .collect();
                let acquired = memory.acquire(&Claims::new(&claims).unwrap());
                let Acquire::Now(Ok(answer)) = acquired else {
                    panic!("a memory knows at once")
                };
                if answer.decision.is_allowed() {
                    held.push(asked.iter().copied().zip(answer.receipts).collect());
                    done.push(Done::Admitted(asked));
                } else {
                    done.push(Done::Refused(asked));
                }
            }
            Act::GiveBack => {
                // One at a time: settling is no transaction.
                for (asked, receipt) in held.pop().into_iter().flatten() {
                    memory.settle(receipt, Settle::Refund);
                    done.push(Done::GivenBack(asked));
                }
            }
        }
    }
    done
}

/// Whether some order of all that was done, each thread's own kept, comes to the same.
fn is_serial(limits: &[Limit], threads: &[Vec<Done>]) -> bool {
    let steps: usize = threads.iter().map(Vec::len).sum();
    let mut reached = BTreeSet::from([vec![0; threads.len()]]);
    for _ in 0..steps {
        let mut next = BTreeSet::new();
        for progress in &reached {
            // The clock stands, so what is in use follows from how far everybody has come.
            let mut used = HashMap::<(usize, u64), u64>::new();
            for (thread, progress) in threads.iter().zip(progress) {
                for done in &thread[..*progress] {
                    match done {
                        Done::Admitted(all) => {
                            for asked in all {
                                *used.entry((asked.limit, asked.key)).or_default() += asked.units;
                            }
                        }
                        Done::GivenBack(asked) => {
                            *used.entry((asked.limit, asked.key)).or_default() -= asked.units;
                        }
                        Done::Refused(_) => {}
                    }
                }
            }
            let fits = |all: &[Asked]| {
                all.iter().all(|asked| {
                    let used = used.get(&(asked.limit, asked.key)).copied();
                    used.unwrap_or(0) + asked.units <= limits[asked.limit].capacity()
                })
            };
            for (thread, all) in threads.iter().enumerate() {
                let possible = match all.get(progress[thread]) {
                    Some(Done::Admitted(asked)) => fits(asked),
                    Some(Done::Refused(asked)) => !fits(asked),
                    Some(Done::GivenBack(_)) => true,
                    None => false,
                };
                if possible {
                    let mut progress = progress.clone();
                    progress[thread] += 1;
                    next.insert(progress);
                }
            }
        }
        reached = next;
    }
    !reached.is_empty()
}

fn acts(limits: usize) -> impl Strategy<Value = Vec<Act>> {
    let asked = (0..limits, 0..2_u64, 1..=5_u64);
    let asked = asked.prop_map(|(limit, key, units)| Asked { limit, key, units });
    let asked = vec(asked, 1..=4).prop_map(|mut asked| {
        // One claim on each count: two on one are another property's business.
        asked.sort_unstable();
        asked.dedup_by_key(|asked| (asked.limit, asked.key));
        Act::Ask(asked)
    });
    vec(prop_oneof![3 => asked, 1 => Just(Act::GiveBack)], 1..8)
}

fn runs(threads: usize) -> impl Strategy<Value = (Vec<Limit>, Vec<Vec<Act>>)> {
    let limit = (select(ALGORITHMS.to_vec()), 1..=9_u64);
    vec(limit, 1..=4).prop_flat_map(move |limits| {
        let limits: Vec<_> = limits
            .into_iter()
            .enumerate()
            .map(|(index, (algorithm, units))| {
                let name = format!("linear-{index}");
                Limit::new(&name, algorithm, Quota::per_minute(units)).unwrap()
            })
            .collect();
        let acts = vec(acts(limits.len()), threads);
        (Just(limits), acts)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_with_refunds_is_some_serial_order((limits, threads) in runs(3)) {
        let memory = Memory::builder().clock(ManualClock::new()).max_keys(16).build();
        let start = Barrier::new(threads.len());
        let done: Vec<Vec<Done>> = thread::scope(|scope| {
            let (memory, limits, start) = (&memory, &limits, &start);
            let threads: Vec<_> = threads
                .into_iter()
                .map(|acts| scope.spawn(move || {
                    start.wait();
                    work(memory, limits, acts)
                }))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        prop_assert!(is_serial(&limits, &done), "{:?}", done);
    }
}
