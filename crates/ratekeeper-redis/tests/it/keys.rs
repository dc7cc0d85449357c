//! What is on the server: names, lifetimes, what heals, and what a store refuses to share.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{
    Algorithm, AnyStore, Claim, Claims, Limit, Quota, Settle, SharedLimiter, Store, StoreErrorKind,
};
use ratekeeper_redis::{BuildErrorKind, KeyNames, Redis};

use crate::support::{ALGORITHMS, RUNTIME, SECRET, Server, ask, new_namespace};

fn limit(algorithm: Algorithm, quota: &str) -> Limit {
    Limit::new(algorithm.name(), algorithm, quota.parse().unwrap()).unwrap()
}

/// A store in a namespace of its own, and the server it is on.
fn store() -> Option<(Arc<Server>, String, Redis)> {
    let server = Server::shared()?;
    let namespace = new_namespace();
    let _entered = RUNTIME.enter();
    let redis = server.builder_in(&namespace).build().unwrap();
    Some((server, namespace, redis))
}

fn keys(server: &Server, namespace: &str) -> Vec<String> {
    server.list(&["KEYS", &format!("{namespace}:*")])
}

fn keys_of(server: &Server, namespace: &str, limit: &Limit) -> Vec<String> {
    server.list(&["KEYS", &format!("{namespace}:rk1:{{{}}}*", limit.name())])
}

#[test]
fn no_key_lacks_a_lifetime_after_any_mix_of_operations() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    RUNTIME.block_on(async {
        for round in 0..3 {
            for algorithm in ALGORITHMS {
                let one = limit(algorithm, "10/min");
                let two = limit(algorithm, ["20/h", "5/min", "7/day"][round]);
                let other = limit(ALGORITHMS[(round + 2) % 6], "10/min")
                    .with_counter(algorithm.name())
                    .unwrap();
                for limit in [&one, &two, &other, &one] {
                    for (key, cost) in [("a", 1), ("b", 3), ("a", 11), ("c", 0), ("b", 4)] {
                        let claim = Claim::new(limit, key).with_cost(cost).settled_later();
                        let _ = ask(&redis, &Claims::one(&claim).peek()).await.unwrap();
                        let answer = ask(&redis, &Claims::one(&claim)).await.unwrap();
                        for receipt in answer.receipts {
                            let how = [Settle::Commit, Settle::Refund, Settle::Actual(6)];
                            redis.settle(receipt, how[(round + key.len()) % 3]);
                        }
                    }
                }
            }
            redis.flush().await;
        }
    });
    let keys = keys(&server, &namespace);
    assert!(keys.len() > 12, "{keys:?}");
    for key in keys {
        assert!(server.number(&["PTTL", &key]) > 0, "{key} stays for ever");
    }
}

#[test]
fn a_key_lives_until_it_is_fresh_and_little_longer() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    let cases = [
        // Thirty seconds of the burst are spent.
        ("token-bucket", "1/s burst 100", 30, 30_000),
        ("fixed-window", "100/min", 1, 60_000),
        ("sliding-log", "100/min", 1, 60_000),
        ("sliding-counter", "100/min", 1, 120_000),
        ("leaky-bucket", "1/10s burst 1", 1, 10_000),
    ];
    for (name, quota, cost, millis) in cases {
        let limit = limit(name.parse().unwrap(), quota);
        let claim = Claim::new(&limit, "key").with_cost(cost);
        let answer = RUNTIME.block_on(ask(&redis, &Claims::one(&claim))).unwrap();
        assert!(answer.decision.is_allowed());
        let [key] = &keys_of(&server, &namespace, &limit)[..] else {
            panic!("one key of {name}")
        };
        let lifetime = server.number(&["PTTL", key]);
        // Two seconds for a machine that is busy: the key has lived for some of them already.
        assert!(
            (millis - 2_000..=millis + 1_000).contains(&lifetime),
            "{name}: {lifetime} ms"
        );
    }
}

#[test]
fn a_key_that_lost_its_lifetime_gets_it_back_when_it_is_next_looked_at() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, "5/min");
        let all = Claim::new(&limit, "key").with_cost(5);
        let _ = RUNTIME.block_on(ask(&redis, &Claims::one(&all))).unwrap();
        let [key] = &keys_of(&server, &namespace, &limit)[..] else {
            panic!("one key of {algorithm}")
        };
        assert_eq!(server.number(&["PERSIST", key]), 1);
        assert_eq!(server.number(&["PTTL", key]), -1);
        let refused = RUNTIME.block_on(ask(&redis, &Claims::one(&all))).unwrap();
        assert!(!refused.decision.is_allowed(), "{algorithm}");
        assert!(server.number(&["PTTL", key]) > 0, "{algorithm}");
    }
}

#[test]
fn what_is_not_ours_under_our_name_heals_or_is_told() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, "10/min");
        let claim = Claim::new(&limit, "key");
        let check = || RUNTIME.block_on(ask(&redis, &Claims::one(&claim)));
        let _ = check().unwrap();
        let [key] = &keys_of(&server, &namespace, &limit)[..] else {
            panic!("one key of {algorithm}")
        };
        let log = algorithm == Algorithm::SlidingLog;
        server.ask(&["DEL", key]);
        if log {
            server.ask(&["RPUSH", key, "100"]);
        } else {
            server.ask(&["SET", key, "100"]);
        }
        assert_eq!(server.number(&["PTTL", key]), -1);
        let outcome = check().unwrap().decision.outcomes()[0];
        assert_eq!(
            (outcome.is_allowed(), outcome.remaining()),
            (true, 9),
            "{algorithm}"
        );
        assert!(server.number(&["PTTL", key]) > 0, "{algorithm}");

        server.ask(&["DEL", key]);
        server.ask(&["HSET", key, "field", "value"]);
        let error = check().unwrap_err();
        assert_eq!(
            error.kind(),
            StoreErrorKind::Fault,
            "{algorithm}: {error:?}"
        );
    }
}

#[test]
fn a_refusal_a_peek_and_a_cost_of_nothing_create_no_key() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, "10/min");
        let claim = Claim::new(&limit, "key");
        RUNTIME.block_on(async {
            for cost in [0, 11, u64::MAX] {
                let claim = claim.with_cost(cost);
                let _ = ask(&redis, &Claims::one(&claim)).await.unwrap();
            }
            let _ = ask(&redis, &Claims::one(&claim).peek()).await.unwrap();
        });
        assert!(
            keys_of(&server, &namespace, &limit).is_empty(),
            "{algorithm}"
        );
    }
}

#[test]
fn a_reset_removes_all_of_a_key() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, "10/min");
        let limiter = SharedLimiter::new(AnyStore::from(redis.clone()), limit.clone()).unwrap();
        RUNTIME.block_on(async {
            assert_eq!(limiter.check_n("key", 7).await.unwrap().remaining(), 3);
            limiter.reset("key").await.unwrap();
            assert_eq!(
                limiter.peek("key").await.unwrap().remaining(),
                10,
                "{algorithm}"
            );
        });
        assert!(keys_of(&server, &namespace, &limit).is_empty());
    }
}

#[test]
fn neither_keys_nor_secrets_are_seen_on_the_server() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    let limit = limit(Algorithm::TokenBucket, "10/min");
    let claim = Claim::new(&limit, "alice@example.com");
    let _ = RUNTIME.block_on(ask(&redis, &Claims::one(&claim))).unwrap();
    let all = keys(&server, &namespace);
    assert!(!all.is_empty());
    for key in &all {
        assert!(!key.contains("alice"), "{key}");
        let value = server.ask(&["GET", key]);
        assert!(
            !value.contains("alice") && !value.contains(SECRET),
            "{value}"
        );
    }
    assert!(!format!("{redis:?}").contains(SECRET));
}

#[test]
fn a_node_with_another_secret_is_told_so() {
    let Some((server, namespace, redis)) = store() else {
        return;
    };
    RUNTIME.block_on(async {
        redis.verify().await.unwrap();
        for names in [
            KeyNames::secret("another secret of 16 bytes").unwrap(),
            KeyNames::plain_text_for_all_to_read(),
        ] {
            let other = Redis::builder(&server.url(), &namespace, names)
                .build()
                .unwrap();
            let error = other.verify().await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Fault);
            let why = std::error::Error::source(&error).unwrap().to_string();
            assert!(why.contains("another secret"), "{why}");
            // It does not count apart either.
            let limit = limit(Algorithm::TokenBucket, "10/min");
            let claim = Claim::new(&limit, "key");
            assert!(ask(&other, &Claims::one(&claim)).await.is_err());
        }
        let same = server.builder_in(&namespace).build().unwrap();
        same.verify().await.unwrap();
    });
}

#[test]
fn a_store_is_refused_when_it_is_built_wrong() {
    let secret = || KeyNames::secret(SECRET).unwrap();
    let kind = |url: &str, namespace: &str| {
        let built = Redis::builder(url, namespace, secret()).build();
        built.map(drop).unwrap_err().kind()
    };
    let url = "redis://127.0.0.1/";
    let _entered = RUNTIME.enter();
    assert_eq!(kind(url, ""), BuildErrorKind::Namespace);
    assert_eq!(kind(url, "a{b}"), BuildErrorKind::Namespace);
    assert_eq!(kind(url, "a b"), BuildErrorKind::Namespace);
    assert_eq!(kind("http://127.0.0.1/", "a"), BuildErrorKind::Url);
    let error = Redis::builder("redis:/:password@", "a", secret()).build();
    assert!(!format!("{:?}", error.unwrap_err()).contains("password"));
}

#[test]
fn a_store_needs_a_runtime() {
    let built =
        Redis::builder("redis://127.0.0.1/", "a", KeyNames::secret(SECRET).unwrap()).build();
    assert_eq!(
        built.map(drop).unwrap_err().kind(),
        BuildErrorKind::NoRuntime
    );
}

#[test]
fn a_log_of_twenty_thousand_entries_is_exact() {
    let Some((_server, _, redis)) = store() else {
        return;
    };
    let limit = Limit::sliding_log("long", Quota::per_hour(20_000)).unwrap();
    RUNTIME.block_on(async {
        let claim = Claim::new(&limit, "key");
        for _ in 0..200 {
            let asked: Vec<_> = (0..100)
                .map(|_| {
                    let redis = redis.clone();
                    let limit = limit.clone();
                    tokio::spawn(async move {
                        let claim = Claim::new(&limit, "key");
                        ask(&redis, &Claims::one(&claim)).await.unwrap()
                    })
                })
                .collect();
            for answer in asked {
                assert!(answer.await.unwrap().decision.is_allowed());
            }
        }
        let refused = ask(&redis, &Claims::one(&claim)).await.unwrap();
        let outcome = refused.decision.outcomes()[0];
        assert!(!outcome.is_allowed());
        assert!(outcome.reset() <= Duration::from_secs(3_600));
    });
}
