//! Two hundred clients in a closed loop: each sends its next request when the last was answered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tower_ratekeeper::{Algorithm, Quota, Rule};

use super::{SECOND, builder, everybody, request, retry_after, send};

const CLIENTS: u32 = 200;
const RATE: u64 = 20;
/// From a request to the next, at least.
const ROUND_TRIP: Duration = Duration::from_millis(50);
const SPAN: Duration = Duration::from_secs(20);

/// What became of the requests of a crowd.
#[derive(Debug)]
struct Outcome {
    admitted: u64,
    refused: u64,
}

/// Lets clients ask for that long. Refused, they come back at once, or when they were told to.
async fn ask_all_the_time(rule: Rule, obedient: bool) -> Outcome {
    let (builder, time) = builder([everybody(rule)]);
    let layer = builder.build().unwrap();
    let mut outcome = Outcome {
        admitted: 0,
        refused: 0,
    };
    // When each client sends its next request; they did not all begin at the same moment.
    let mut due: BinaryHeap<_> = (0..CLIENTS)
        .map(|client| Reverse(ROUND_TRIP * client / CLIENTS))
        .collect();
    let mut now = Duration::ZERO;
    while let Some(Reverse(next)) = due.pop().filter(|Reverse(next)| *next < SPAN) {
        time.advance(next - now);
        now = next;
        let response = send(&layer, request()).await;
        let wait = if response.status().is_success() {
            outcome.admitted += 1;
            ROUND_TRIP
        } else {
            outcome.refused += 1;
            let told = retry_after(response.headers()).unwrap();
            if obedient {
                Duration::from_secs(told)
            } else {
                ROUND_TRIP
            }
        };
        due.push(Reverse(now + wait));
    }
    outcome
}

#[tokio::test]
#[ignore = "slow: six times twenty seconds of two hundred clients"]
async fn obedient_clients_get_as_much_with_a_tenth_of_the_refusals() {
    let window = Quota::new(10 * RATE, 10 * SECOND);
    let bucket = Quota::per_second(RATE);
    for (algorithm, quota) in [
        (Algorithm::TokenBucket, bucket),
        (Algorithm::FixedWindow, window),
        (Algorithm::SlidingCounter, window),
    ] {
        let rule = || Rule::with("everybody", algorithm, quota);
        let eager = ask_all_the_time(rule(), false).await;
        let obedient = ask_all_the_time(rule(), true).await;
        // What a full bucket gives in advance comes on top.
        let most = RATE * SPAN.as_secs() + bucket.burst();
        for outcome in [&eager, &obedient] {
            assert!(outcome.admitted <= most, "{outcome:?} by {algorithm:?}");
            assert!(
                outcome.admitted * 10 >= most * 9,
                "{outcome:?} by {algorithm:?}"
            );
        }
        assert!(
            obedient.refused * 10 <= eager.refused,
            "{obedient:?} and {eager:?} by {algorithm:?}"
        );
    }
}
