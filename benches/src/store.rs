//! `insert/…`, `memory/…` and `flood/…`: keys that the store has never seen.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use ratekeeper_core::Key;

use crate::allocations;
use crate::measure::{Contest, Row, Settings, each, used};
use crate::peers::{PLENTY, governor, limit, memory, on, ours, sharded};

/// New keys of one round: less than a store holds unless told otherwise.
const NEW: u64 = 200_000;

pub fn rows(settings: Settings) -> Vec<Row> {
    let mut rows = vec![insert(settings)];
    rows.extend(memory_rows());
    rows.push(flood(settings));
    rows
}

fn address(index: u64) -> IpAddr {
    Ipv4Addr::from(0x0a00_0000 + index as u32).into()
}

/// A store from nothing to its first keys, growth included.
fn insert(settings: Settings) -> Row {
    Contest::new("insert/new")
        .entry("ours", || {
            let ours = ours(PLENTY, 1 << 18);
            each(NEW, |key| used(ours.check(key)))
        })
        .entry("governor", || {
            let governor = governor::<u64>(PLENTY);
            each(NEW, |key| used(governor.check_key(&key)))
        })
        .entry("sharded_table", || {
            let (sharded, plenty) = (sharded(), limit("bench", PLENTY));
            each(NEW, |key| {
                used(sharded.check(&plenty, &Key::from(key), 1));
            })
        })
        .run(settings.rounds(31))
}

/// Bytes that the system counts as resident, over the keys that are live. Each store is measured in
/// a process of its own, so that none uses what another has given back.
fn memory_rows() -> Vec<Row> {
    let keys = 1_000_000.0;
    let measured = |what: &str| {
        let program = std::env::current_exe().expect("this program has a path");
        let output = Command::new(program).args(["memory-of", what]).output();
        let text = String::from_utf8(output.expect("this program runs").stdout);
        let text = text.unwrap_or_default();
        let bytes = text
            .split_whitespace()
            .map(|bytes| bytes.parse().unwrap_or(f64::NAN));
        bytes.map(|bytes: f64| bytes / keys).collect::<Vec<f64>>()
    };
    let (ours, governor) = (measured("ours"), measured("governor"));
    let once = Row::new("memory/address/1m", "bytes/key")
        .with("ours", ours[0])
        .with("governor", governor[0]);
    let flooded = Row::new("memory/address/1m/after-10m-keys", "bytes/max_key")
        .with("ours", ours[1])
        .with("governor", governor[1]);
    vec![once, flooded]
}

/// Prints the bytes that a million keys take, and those after ten million.
pub fn print_memory(of: &str) {
    let before = allocations::resident();
    let million = 1_000_000;
    let after = |check: &dyn Fn(IpAddr)| {
        (0..million).for_each(|key| check(address(key)));
        let first = allocations::resident() - before;
        (million..10 * million).for_each(|key| check(address(key)));
        println!("{first} {}", allocations::resident() - before);
    };
    if of == "ours" {
        let limiter = ours(1, 1_000_000);
        after(&|address| used(limiter.check(address)));
    } else {
        let limiter = governor::<IpAddr>(1);
        after(&|address| used(limiter.check_key(&address)));
    }
}

/// Nanoseconds that this thread has been running, interruptions excluded.
fn thread_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is that of a local variable of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ten times as many keys as the store holds, while one key is exhausted and another limit has
/// keys of its own. Every operation is timed by itself, in the time of the thread.
fn flood(settings: Settings) -> Row {
    let max_keys: u64 = if settings.quick { 1 << 16 } else { 1 << 18 };
    let memory = memory(max_keys as usize);
    // None of the keys becomes fresh while the flood lasts.
    let slow = |name| {
        let quota = ratekeeper_core::Quota::per_day(2);
        ratekeeper_core::Limit::token_bucket(name, quota).expect("a valid limit")
    };
    let flooded = on(&memory, slow("flooded"));
    let other = on(&memory, slow("other"));
    let governor = governor::<u64>(1);
    let exhausted = Key::from("exhausted");
    used(flooded.check_n(exhausted, 2));
    (0..1_000u64).for_each(|key| used(other.check(key)));

    // What reading the time takes is part of every figure; the least of some is taken off.
    let clock = (0..1_000).map(|_| {
        let start = thread_time();
        thread_time() - start
    });
    let clock = clock.min().unwrap_or_default();
    let (mut refused, mut asked) = (0, 0);
    let mut allocated = 0;
    let mut times = Vec::with_capacity(10 * max_keys as usize);
    let mut governor_times = Vec::with_capacity(10 * max_keys as usize);
    for key in 0..10 * max_keys {
        let before = thread_time();
        let allocations = allocations::during(|| used(flooded.check(key)));
        times.push((thread_time() - before).saturating_sub(clock));
        // The table itself is made by the first checks.
        allocated += allocations;
        if key % 64 == 0 {
            asked += 1;
            refused += u64::from(!flooded.check(exhausted).is_allowed());
        }
        let before = thread_time();
        used(governor.check_key(&key));
        governor_times.push((thread_time() - before).saturating_sub(clock));
    }
    let survivors = (0..1_000u64)
        .filter(|key| other.peek(*key).remaining() == 1)
        .count();
    let mut quantile = |share: f64| {
        let at = |times: &mut Vec<u64>| {
            times.sort_unstable();
            times[((times.len() - 1) as f64 * share) as usize] as f64
        };
        (at(&mut times), at(&mut governor_times))
    };
    let (p9999, (median, worst)) = (quantile(0.9999), (quantile(0.5), quantile(1.0)));
    Row::new("flood/10x", "ns, p99.99 of thread time")
        .with("ours", p9999.0)
        .with("governor", p9999.1)
        .with("ours_median", median.0)
        .with("governor_median", median.1)
        .with("ours_allocations", allocated as f64)
        .with(
            "ours_exhausted_key_refused_percent",
            100.0 * refused as f64 / asked as f64,
        )
        .with(
            "ours_other_limits_keys_kept_percent",
            survivors as f64 / 10.0,
        )
        .with_worst("ours", worst.0)
        .with_worst("governor", worst.1)
}
