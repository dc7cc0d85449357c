//! Requests that mean harm: odd bytes, great lengths, and floods of keys.

use std::collections::HashSet;

use http::{HeaderValue, Request, StatusCode};
use tower_ratekeeper::key::{Header, KeyExtractor, Keyed};
use tower_ratekeeper::{Limit, ManualClock, Memory, Quota, RateLimitLayer, Rule};

use crate::support::{MINUTE, admitted, bucket, layer, remaining, request, send, status, text_of};

fn with_token(token: &[u8]) -> Request<()> {
    let token = HeaderValue::from_bytes(token).unwrap();
    Request::builder()
        .header("x-token", token)
        .body(())
        .unwrap()
}

fn by_token() -> Rule {
    Rule::token_bucket("per-token", Quota::per_minute(3)).by(Header::from_static("x-token"))
}

#[tokio::test]
async fn every_value_of_a_header_is_a_key_of_its_own_or_refused() {
    let (layer, _) = layer([by_token()]);
    let mut tokens: Vec<Vec<u8>> = (0..=255_u8)
        .filter(|byte| HeaderValue::from_bytes(&[*byte]).is_ok())
        .map(|byte| vec![b'a', byte, b'z'])
        .collect();
    // Great lengths that differ in the last byte only.
    for end in *b"xyz" {
        let mut long = vec![b'a'; 65_535];
        long.push(end);
        tokens.push(long);
    }
    let mut keys = HashSet::new();
    for token in &tokens {
        let (parts, ()) = with_token(token).into_parts();
        match Header::from_static("x-token").extract(&parts) {
            Keyed::Key(key) => assert!(keys.insert(key), "{token:?}"),
            Keyed::Failed(_) => {
                let refused = send(&layer, with_token(token)).await;
                assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
                continue;
            }
            Keyed::Exempt => panic!("{token:?} is exempt"),
        }
        for expected in [200, 200, 200, 429] {
            assert_eq!(
                status(&layer, with_token(token)).await,
                expected,
                "{token:?}"
            );
        }
    }
    assert!(keys.len() > 90, "{}", keys.len());
}

#[tokio::test]
async fn what_a_client_sent_never_comes_back_in_a_refusal() {
    let (layer, _) = layer([by_token()]);
    let token = b"<script>alert(1)</script>";
    let mut refused = None;
    for _ in 0..4 {
        refused = Some(send(&layer, with_token(token)).await);
    }
    let refused = refused.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!format!("{:?}", refused.headers()).contains("script"));
    assert!(!text_of(refused.into_body()).await.contains("script"));
}

/// A flood of made-up keys takes no more memory than was allowed, touches no other rule, and does not free the key that is being
/// refused.
async fn flood(keys: u64, max_keys: usize) {
    let clock = ManualClock::new();
    let memory = Memory::builder()
        .clock(clock.clone())
        .max_keys(max_keys)
        .build();
    let steady = Rule::token_bucket("steady", Quota::per_minute(1_000_000)).by_fn(|_| 1);
    let layer = RateLimitLayer::builder()
        .store(memory)
        .rules([steady, bucket("per-key")])
        .build()
        .unwrap();
    let limit = Limit::token_bucket("per-key", Quota::per_minute(10)).unwrap();
    assert_eq!(admitted(&layer, 0, 20).await, 10);
    let mut most = 0;
    for key in 1..=keys {
        assert_eq!(status(&layer, request(key)).await, StatusCode::OK);
        most = most.max(layer.store().entries(&limit));
    }
    let bound = 2 * max_keys as u64;
    assert!(most <= bound, "{most} entries, at most {bound} are allowed");
    assert_eq!(
        status(&layer, request(0)).await,
        StatusCode::TOO_MANY_REQUESTS
    );
    let steady = Limit::token_bucket("steady", Quota::per_minute(1_000_000)).unwrap();
    assert_eq!(remaining(&layer, &steady, 1), 1_000_000 - 10 - keys);
    clock.advance(MINUTE);
    assert_eq!(admitted(&layer, 0, 20).await, 10);
}

#[tokio::test]
async fn a_flood_of_keys_stays_within_its_memory() {
    flood(5_000, 500).await;
}

#[tokio::test]
#[ignore = "slow: a hundred thousand requests"]
async fn a_flood_of_a_hundred_thousand_keys_stays_within_its_memory() {
    flood(100_000, 10_000).await;
}
