//! The same limits by ours and by governor.

use std::num::NonZeroU32;

use governor::clock::{Clock as GovernorClock, DefaultClock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota as GovernorQuota, RateLimiter};
use ratekeeper_core::{Clock, Limit, Limiter, Memory, QuantaClock, Quota};

pub type Governor<K, C = DefaultClock> =
    RateLimiter<K, DashMapStateStore<K>, C, NoOpMiddleware<<C as GovernorClock>::Instant>>;

/// Units per second of limits that never refuse in a contest. No divisor of a second, so that a
/// fraction of a nanosecond is carried, as most limits of practice do.
pub const PLENTY: u32 = 700_000;

/// The same for a single key that is asked all the time.
pub const PLENTY_FOR_ONE: u32 = 700_000_000;

pub fn governor<K: std::hash::Hash + Eq + Clone>(per_second: u32) -> Governor<K> {
    RateLimiter::dashmap(GovernorQuota::per_second(
        NonZeroU32::new(per_second).expect("not zero"),
    ))
}

/// Returns a limiter on the clock that ours uses unless told otherwise.
pub fn governor_std<K: std::hash::Hash + Eq + Clone>(
    per_second: u32,
) -> Governor<K, MonotonicClock> {
    let quota = GovernorQuota::per_second(NonZeroU32::new(per_second).expect("not zero"));
    RateLimiter::new(quota, DashMapStateStore::default(), MonotonicClock)
}

/// Returns a limiter that admits one request of a key, and then none for an hour.
pub fn governor_tight<K: std::hash::Hash + Eq + Clone>() -> Governor<K> {
    RateLimiter::dashmap(GovernorQuota::per_hour(NonZeroU32::MIN))
}

pub fn limit(name: &str, per_second: u32) -> Limit {
    Limit::token_bucket(name, Quota::per_second(per_second.into())).expect("a valid limit")
}

pub fn memory(max_keys: usize) -> Memory {
    Memory::builder().max_keys(max_keys).build()
}

pub fn ours(per_second: u32, max_keys: usize) -> Limiter {
    on(&memory(max_keys), limit("bench", per_second))
}

pub fn ours_tight(max_keys: usize) -> Limiter {
    let limit = Limit::token_bucket("bench", Quota::per_hour(1)).expect("a valid limit");
    on(&memory(max_keys), limit)
}

pub fn on(memory: &Memory, limit: Limit) -> Limiter {
    Limiter::on(memory, limit).expect("a limit that memory keeps")
}

/// Ours on the kind of clock that is governor's default.
pub fn ours_quanta(per_second: u32, max_keys: usize) -> Limiter {
    let memory = Memory::builder()
        .clock(QuantaClock::new())
        .max_keys(max_keys)
        .build();
    on(&memory, limit("bench", per_second))
}

/// The other candidate for our store, on the clock that ours uses.
pub fn sharded() -> candidates::Sharded {
    candidates::Sharded::new(Clock::system())
}
