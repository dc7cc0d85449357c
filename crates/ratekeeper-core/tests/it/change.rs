//! Limits that change while keys are counted.

use std::time::Duration;

use ratekeeper_core::algorithm::UtcOffset;
use ratekeeper_core::{Acquire, Claim, Claims, Key, Limit, ManualClock, Memory, Quota, Store};

#[test]
fn a_calendar_that_has_passed_leaves_nothing_to_another_algorithm() {
    let time = ManualClock::new();
    let memory = Memory::builder().clock(time.clone()).build();
    let key = Key::from("key");
    let daily = Limit::calendar_window("c", Quota::per_day(5), UtcOffset::UTC).unwrap();
    let bucket = Limit::token_bucket("c", Quota::per_day(5)).unwrap();
    assert_eq!(memory.check(&daily, &key, 5).remaining(), 0);
    // Within the day what was used stays used.
    assert!(!memory.check(&bucket, &key, 1).is_allowed());

    memory.reset(&bucket, &key);
    assert_eq!(memory.check(&daily, &key, 5).remaining(), 0);
    time.advance(Duration::from_secs(86_400));
    assert_eq!(memory.check(&bucket, &key, 1).remaining(), 4);

    memory.reset(&bucket, &key);
    assert_eq!(memory.check(&daily, &key, 5).remaining(), 0);
    time.advance(Duration::from_secs(86_400));
    let other = Limit::token_bucket("other", Quota::per_day(5)).unwrap();
    let third = Limit::sliding_log("third", Quota::per_day(5)).unwrap();
    let claims = [
        Claim::new(&bucket, key),
        Claim::new(&other, key),
        Claim::new(&third, key),
    ];
    let Acquire::Now(Ok(answer)) = memory.acquire(&Claims::new(&claims).unwrap()) else {
        panic!("memory knows at once");
    };
    assert_eq!(answer.decision.outcomes()[0].remaining(), 4);
}
