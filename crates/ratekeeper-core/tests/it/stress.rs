//! Everything at once: new keys, expiring ones, evictions, settlements and changing limits, by
//! several threads while the clock moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ratekeeper_core::{Acquire, Claim, Claims, Limit, ManualClock, Memory, Settle, Store};

use crate::flood::Evictions;

const THREADS: u64 = 4;
const REQUESTS: u64 = 20_000;
const TICKS: u64 = 2_000;
const TICK: Duration = Duration::from_millis(1);

/// Keys that are never evicted, few enough to be contended.
const USERS: usize = 8;

/// Keys of the flooded limit, many more than it holds.
const STRANGERS: u64 = 2_000;

fn limit(name: &str, quota: &str) -> Limit {
    Limit::token_bucket(name, quota.parse().unwrap()).unwrap()
}

/// Units that were admitted for good: charged and not given back.
#[derive(Default)]
struct Spent([AtomicU64; USERS], AtomicU64);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn no_interleaving_admits_more_than_the_limits_allow() {
    let clock = ManualClock::new();
    let evictions = Evictions::default();
    let memory = Memory::builder()
        .clock(clock.clone())
        .observer(evictions.clone())
        .max_keys_of("strangers", 100)
        .build();
    // Two plans of one counter, between which the users go back and forth.
    let plans = [
        limit("small", "20/s burst 10")
            .with_counter("plan")
            .unwrap(),
        limit("large", "70/s burst 40")
            .with_counter("plan")
            .unwrap(),
    ];
    let strangers = limit("strangers", "7/s burst 3");
    let spent = Spent::default();

    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (memory, plans, strangers, spent) = (&memory, &plans, &strangers, &spent);
            let clock = &clock;
            scope.spawn(move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (thread + 1));
                for number in 0..REQUESTS {
                    // By whoever is at it, so that time passes evenly however threads are run.
                    if number % (THREADS * REQUESTS / TICKS) == 0 {
                        clock.advance(TICK);
                    }
                    request(memory, plans, strangers, spent, &mut random);
                }
            });
        }
    });

    let seconds = TICK.as_secs_f64() * f64::from(u32::try_from(TICKS).unwrap());
    for (user, units) in spent.0.iter().enumerate() {
        let units = units.load(Ordering::Relaxed);
        let most = 40.0 + 70.0 * seconds;
        assert!(units as f64 <= most, "user {user}: {units} of {most}");
        assert!(units > 40, "user {user}: {units}");
    }
    // Whoever is evicted begins again with a full bucket of three.
    let fresh = 3.0 * (STRANGERS + evictions.count()) as f64;
    let most = fresh + 7.0 * seconds * STRANGERS as f64;
    let units = spent.1.load(Ordering::Relaxed);
    assert!(units as f64 <= most, "strangers: {units} of {most}");
    assert!(evictions.count() > 0);
    assert!(memory.entries(&strangers) <= 100 + 50);
}

/// Asks for a user, a stranger or both, and settles one in three charges.
fn request(
    memory: &Memory,
    plans: &[Limit; 2],
    strangers: &Limit,
    spent: &Spent,
    random: &mut Random,
) {
    let user = random.below(USERS as u64);
    let stranger = 1_000 + random.below(STRANGERS);
    let settles = random.below(3) == 0;
    let plan = &plans[usize::from(random.below(2) == 0)];
    let mut both = [Claim::new(plan, user), Claim::new(strangers, stranger)];
    both.iter_mut().for_each(|claim| claim.settles = settles);
    let claims = match random.below(3) {
        0 => &both[..1],
        1 => &both[1..],
        _ => &both[..],
    };
    let Acquire::Now(Ok(answer)) = memory.acquire(&Claims::new(claims).unwrap()) else {
        panic!("memory answers at once")
    };
    if !answer.decision.is_allowed() {
        assert!(answer.receipts.is_empty());
        return;
    }
    let refunds = settles && random.below(2) == 0;
    for receipt in answer.receipts {
        let how = if refunds {
            Settle::Refund
        } else {
            Settle::Commit
        };
        memory.settle(receipt, how);
    }
    if !refunds {
        for claim in claims {
            let counter = if claim.limit.counter() == "plan" {
                &spent.0[usize::try_from(user).unwrap()]
            } else {
                &spent.1
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
