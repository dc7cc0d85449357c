//! `check/…`: one decision on a key that is known.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use ratekeeper_core::{Claim, Claims, Key, Limiter, Store};

use crate::measure::{Contest, Random, Row, Settings, each, each_of_threads, fence, used};
use crate::peers::{
    Governor, PLENTY, PLENTY_FOR_ONE, governor, governor_std, governor_tight, limit, memory, on,
    ours, ours_quanta, ours_tight, sharded,
};

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;

/// Calls of one round: some hundred microseconds, so that few rounds are interrupted.
const CALLS: u64 = 4_000;

/// The same on a few keys: most calls find them as the calls before have left them, and not as the
/// other contestants have.
const CALLS_OF_FEW: u64 = 20_000;

pub fn rows(settings: Settings) -> Vec<Row> {
    let mut rows = vec![clock(settings)];
    rows.extend(few_keys(settings));
    rows.push(hot(settings));
    rows.extend(hot_by_two_threads(settings));
    rows.push(two_rules(settings));
    rows.push(addresses(settings));
    rows.extend(many_keys(settings, MANY, "1m"));
    rows.push(strings(settings));
    if !settings.quick {
        rows.extend(many_keys(settings, 10 * MANY, "10m"));
    }
    rows
}

/// What the clocks alone cost.
fn clock(settings: Settings) -> Row {
    let std = ratekeeper_core::Clock::system();
    let quanta = quanta::Clock::new();
    Contest::new("clock")
        .entry("ours", || each(CALLS, |_| used(std.now())))
        .entry("quanta", || each(CALLS, |_| used(quanta.now())))
        .run(settings.rounds(601))
}

fn fill(keys: u64, mut add: impl FnMut(u64)) {
    (0..keys).for_each(&mut add);
}

fn few_keys(settings: Settings) -> Vec<Row> {
    let (ours_allow, ours_quanta) = (ours(PLENTY, 1 << 18), ours_quanta(PLENTY, 1 << 18));
    let (ours_refuse, governor_refuse) = (ours_tight(1 << 18), governor_tight::<u64>());
    let (governor, governor_std) = (governor::<u64>(PLENTY), governor_std::<u64>(PLENTY));
    let (sharded, plenty) = (sharded(), limit("bench", PLENTY));
    fill(FEW, |key| {
        used(ours_allow.check(key));
        used(ours_quanta.check(key));
        used(sharded.check(&plenty, &Key::from(key), 1));
        used(ours_refuse.check(key));
        used(governor.check_key(&key));
        used(governor_std.check_key(&key));
        used(governor_refuse.check_key(&key));
    });
    let allow = Contest::new("check/1k/allow")
        .entry("ours", || {
            each(CALLS_OF_FEW, |i| used(ours_allow.check(i % FEW)))
        })
        .entry("governor", || {
            each(CALLS_OF_FEW, |i| used(governor.check_key(&(i % FEW))))
        })
        .entry("ours_quanta", || {
            each(CALLS_OF_FEW, |i| used(ours_quanta.check(i % FEW)))
        })
        .entry("governor_std", || {
            each(CALLS_OF_FEW, |i| used(governor_std.check_key(&(i % FEW))))
        })
        .entry("sharded_table", || {
            each(CALLS_OF_FEW, |i| {
                used(sharded.check(&plenty, &Key::from(i % FEW), 1))
            })
        })
        .run(settings.rounds(301));
    let refuse = Contest::new("check/1k/refuse")
        .entry("ours", || {
            each(CALLS_OF_FEW, |i| used(ours_refuse.check(i % FEW)))
        })
        .entry("ours_allow", || {
            each(CALLS_OF_FEW, |i| used(ours_allow.check(i % FEW)))
        })
        .entry("governor", || {
            each(CALLS_OF_FEW, |i| {
                used(governor_refuse.check_key(&(i % FEW)))
            })
        })
        .run(settings.rounds(301));
    vec![allow, refuse]
}

fn hot(settings: Settings) -> Row {
    let (ours, governor) = (
        ours(PLENTY_FOR_ONE, 1 << 18),
        governor::<u64>(PLENTY_FOR_ONE),
    );
    Contest::new("check/hot/allow")
        .entry("ours", || each(CALLS_OF_FEW, |_| used(ours.check(7u64))))
        .entry("governor", || {
            each(CALLS_OF_FEW, |_| used(governor.check_key(&7)))
        })
        .run(settings.rounds(201))
}

fn hot_by_two_threads(settings: Settings) -> Vec<Row> {
    let calls = 10 * CALLS;
    let (free, tight) = (ours(PLENTY_FOR_ONE, 1 << 18), ours_tight(1 << 18));
    let (governor, governor_tight) = (governor::<u64>(PLENTY_FOR_ONE), governor_tight::<u64>());
    used(tight.check(7u64));
    used(governor_tight.check_key(&7));
    let (sharded, plenty) = (sharded(), limit("bench", PLENTY_FOR_ONE));
    let allow = Contest::new("check/hot/2threads/allow")
        .entry("ours", || {
            each_of_threads(2, calls, |_, _| used(free.check(7u64)))
        })
        .entry("governor", || {
            each_of_threads(2, calls, |_, _| used(governor.check_key(&7)))
        })
        .entry("sharded_table", || {
            each_of_threads(2, calls, |_, _| {
                used(sharded.check(&plenty, &Key::from(7u64), 1));
            })
        })
        .run(settings.rounds(101));
    let refuse = Contest::new("check/hot/2threads/refuse")
        .entry("ours", || {
            each_of_threads(2, calls, |_, _| used(tight.check(7u64)))
        })
        .entry("governor", || {
            each_of_threads(2, calls, |_, _| used(governor_tight.check_key(&7)))
        })
        .run(settings.rounds(101));
    vec![allow, refuse]
}

/// Both through the store's own door, so that the second rule alone makes the difference.
fn two_rules(settings: Settings) -> Row {
    let memory = memory(1 << 18);
    let (first, second) = (limit("first", PLENTY), limit("second", PLENTY));
    let limiter = on(&memory, first.clone());
    Contest::new("check/2rules")
        .entry("ours", || {
            each(CALLS_OF_FEW, |i| {
                let key = i % FEW;
                let claims = [Claim::new(&first, key), Claim::new(&second, key)];
                used(memory.acquire(&Claims::new(&claims).expect("two claims")));
            })
        })
        .entry("ours_one_rule", || {
            each(CALLS_OF_FEW, |i| {
                let claims = [Claim::new(&first, i % FEW)];
                used(memory.acquire(&Claims::new(&claims).expect("one claim")));
            })
        })
        .entry("ours_limiter", || {
            each(CALLS_OF_FEW, |i| used(limiter.check(i % FEW)))
        })
        .run(settings.rounds(301))
}

fn address(index: u64) -> IpAddr {
    #[allow(clippy::cast_possible_truncation, reason = "a thousand of them")]
    Ipv4Addr::from(0x0a00_0000 + index as u32).into()
}

fn addresses(settings: Settings) -> Row {
    let (ours, governor) = (ours(PLENTY, 1 << 18), governor::<IpAddr>(PLENTY));
    Contest::new("check/1k/address/allow")
        .entry("ours", || {
            each(CALLS_OF_FEW, |i| used(ours.check(address(i % FEW))))
        })
        .entry("governor", || {
            each(CALLS_OF_FEW, |i| {
                used(governor.check_key(&address(i % FEW)))
            })
        })
        .run(settings.rounds(201))
}

fn many_keys(settings: Settings, keys: u64, size: &str) -> Vec<Row> {
    let (ours, governor) = (ours(PLENTY, keys as usize), governor::<u64>(PLENTY));
    let ours_quanta = ours_quanta(PLENTY, keys as usize);
    let (sharded, plenty) = (sharded(), limit("bench", PLENTY));
    fill(keys, |key| {
        used(ours.check(key));
        used(ours_quanta.check(key));
        used(governor.check_key(&key));
        used(sharded.check(&plenty, &Key::from(key), 1));
    });
    let mut seventh = Random::new(1);
    let [mut first, mut second, mut third] = [1, 1, 1].map(Random::new);
    let [mut fourth, mut fifth, mut sixth] = [2, 2, 2].map(Random::new);
    let allow = Contest::new(format!("check/{size}/allow"))
        .entry("ours", || {
            each(CALLS, |_| used(ours.check(first.below(keys))))
        })
        .entry("governor", || {
            each(CALLS, |_| used(governor.check_key(&second.below(keys))))
        })
        .entry("ours_quanta", || {
            each(CALLS, |_| used(ours_quanta.check(third.below(keys))))
        })
        .entry("sharded_table", || {
            each(CALLS, |_| {
                used(sharded.check(&plenty, &Key::from(seventh.below(keys)), 1));
            })
        })
        .run(settings.rounds(601));
    let isolated = Contest::new(format!("check/{size}/allow/isolated"))
        .entry("ours", || {
            each(CALLS, |_| {
                used(ours.check(fourth.below(keys)));
                fence();
            })
        })
        .entry("governor", || {
            each(CALLS, |_| {
                used(governor.check_key(&fifth.below(keys)));
                fence();
            })
        })
        .entry("ours_quanta", || {
            each(CALLS, |_| {
                used(ours_quanta.check(sixth.below(keys)));
                fence();
            })
        })
        .run(settings.rounds(601));
    vec![
        allow,
        isolated,
        two_threads(settings, keys, size, &ours, &governor),
        zipf(settings, keys, size, &ours, &governor),
    ]
}

fn two_threads(
    settings: Settings,
    keys: u64,
    size: &str,
    ours: &Limiter,
    governor: &Governor<u64>,
) -> Row {
    // A multiplicative walk over the keys, different for each thread and without state of its own.
    let key = |thread: u64, index: u64| {
        let mixed = (index + thread * 7_919 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) * keys) >> 32
    };
    Contest::new(format!("check/{size}/allow/2threads"))
        .entry("ours", || {
            each_of_threads(2, 5 * CALLS, |t, i| used(ours.check(key(t, i))))
        })
        .entry("governor", || {
            each_of_threads(2, 5 * CALLS, |t, i| used(governor.check_key(&key(t, i))))
        })
        .run(settings.rounds(101))
}

/// Keys as unevenly busy as those of practice: the exponent is one, the most frequent come first.
fn zipf(
    settings: Settings,
    keys: u64,
    size: &str,
    ours: &Limiter,
    governor: &Governor<u64>,
) -> Row {
    let mut random = Random::new(3);
    // The inverse of the distribution's integral: rank = keys^u for u in 0..1.
    let drawn: Vec<u64> = (0..CALLS)
        .map(|_| {
            let u = random.below(1 << 31) as f64 / f64::from(1u32 << 31);
            (keys as f64).powf(u) as u64 % keys
        })
        .collect();
    let key = |index: u64| drawn[index as usize];
    Contest::new(format!("check/{size}/zipf"))
        .entry("ours", || each(CALLS, |i| used(ours.check(key(i)))))
        .entry("governor", || {
            each(CALLS, |i| used(governor.check_key(&key(i))))
        })
        .run(settings.rounds(601))
}

/// Keys of 36 bytes, as a token or a UUID has. They come as a request's do, fresh in the cache, while
/// the store's entries do not. Governor's middlewares make a `String` of the header for every
/// request; ours copies the bytes into the key.
fn strings(settings: Settings) -> Row {
    let (ours, governor) = (ours(PLENTY, MANY as usize), governor::<String>(PLENTY));
    let mut text = String::new();
    for key in 0..MANY {
        write_text(&mut text, key);
        used(ours.check(&text));
        used(governor.check_key(&text));
    }
    let [mut first, mut second, mut third] = [4, 5, 6].map(Requests::new);
    Contest::new("check/1m/string36/allow")
        .entry("ours", || {
            let texts = first.draw();
            each(CALLS, |i| used(ours.check(texts[i as usize].as_str())))
        })
        .entry("governor", || {
            let texts = second.draw();
            each(CALLS, |i| {
                used(governor.check_key(&texts[i as usize].clone()));
            })
        })
        .entry("governor_borrowed", || {
            let texts = third.draw();
            each(CALLS, |i| used(governor.check_key(&texts[i as usize])))
        })
        .run(settings.rounds(601))
}

fn write_text(text: &mut String, key: u64) {
    let high = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    text.clear();
    write!(text, "{key:08x}-0000-4000-8000-{high:012x}").expect("a string takes everything");
    assert_eq!(text.len(), 36);
}

/// The texts that one round's requests carry.
struct Requests {
    random: Random,
    texts: Vec<String>,
}

impl Requests {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            texts: vec![String::new(); CALLS as usize],
        }
    }

    fn draw(&mut self) -> &[String] {
        for text in &mut self.texts {
            write_text(text, self.random.below(MANY));
        }
        &self.texts
    }
}
