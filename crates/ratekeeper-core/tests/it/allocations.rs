//! A check of a known key asks for no memory.

use ratekeeper_core::{Acquire, Claim, Claims, Key, Limit, Limiter, Memory, Quota, Store};

fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

fn limits() -> [Limit; 4] {
    let quota = Quota::per_hour(100);
    [
        Limit::token_bucket("bucket", quota),
        Limit::fixed_window("window", quota),
        Limit::sliding_counter("counter", quota),
        Limit::calendar_window(
            "calendar",
            quota,
            ratekeeper_core::algorithm::UtcOffset::UTC,
        ),
    ]
    .map(Result::unwrap)
}

#[test]
fn a_check_of_a_known_key_allocates_nothing_whatever_the_answer() {
    let memory = Memory::new();
    for limit in limits() {
        let limiter = Limiter::on(&memory, limit).unwrap();
        assert!(limiter.check("alice").is_allowed());
        let count = allocations(|| {
            for _ in 0..150 {
                let outcome = limiter.check("alice");
                assert!(outcome.remaining() <= 99);
            }
        });
        assert_eq!(count, 0, "{}", limiter.limit());
        assert!(!limiter.check("alice").is_allowed());
    }
}

#[test]
fn a_new_key_allocates_nothing_once_the_table_is_there() {
    let [limit, ..] = limits();
    let limiter = Limiter::on(&Memory::builder().max_keys(1_000).build(), limit).unwrap();
    assert!(limiter.check(0u64).is_allowed());
    let count = allocations(|| {
        for key in 1..20_000u64 {
            assert!(limiter.check(key).is_allowed());
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn several_claims_on_known_keys_allocate_nothing() {
    let memory = Memory::new();
    let limits = limits();
    let ask = |count: usize| {
        let claims: Vec<_> = limits
            .iter()
            .map(|limit| Claim::new(limit, "alice"))
            .collect();
        let claims = Claims::new(&claims[..count]).unwrap();
        allocations(|| {
            let Acquire::Now(Ok(answer)) = memory.acquire(&claims) else {
                panic!("memory answers at once")
            };
            assert!(answer.decision.is_allowed());
        })
    };
    ask(4);
    assert_eq!([1, 2, 3, 4].map(ask), [0; 4]);
}

#[test]
fn building_a_key_allocates_nothing_however_long_it_is() {
    let long = "x".repeat(10_000);
    let count = allocations(|| {
        assert_ne!(Key::from("short"), Key::from(&long));
        assert_ne!(
            Key::from(7u64),
            Key::builder().text(&long).number(7).finish()
        );
    });
    assert_eq!(count, 0);
}
