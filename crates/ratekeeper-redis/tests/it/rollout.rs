//! A fleet whose nodes get new numbers one after the other.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{Algorithm, Claim, Claims, Limit, Outcome, Settle, Store, Wait};
use ratekeeper_redis::Redis;

use crate::support::{ALGORITHMS, RUNTIME, Server, ask, new_namespace};

/// The first microsecond of a day, and so of every window of a calendar up to one.
const START: u64 = 1_700_006_400_000_000;

fn limit(algorithm: Algorithm, quota: &str, generation: u32) -> Limit {
    let limit = Limit::new("x", algorithm, quota.parse().unwrap()).unwrap();
    limit.with_generation(generation)
}

/// A node, with a hand on the time that its script is told.
struct Node {
    server: Arc<Server>,
    namespace: String,
    micros: Arc<std::sync::atomic::AtomicU64>,
    redis: Redis,
}

impl Node {
    fn new() -> Option<Self> {
        let server = Server::shared()?;
        let (namespace, micros) = (new_namespace(), Arc::new(START.into()));
        let _entered = RUNTIME.enter();
        let builder = server
            .builder_in(&namespace)
            .test_clock(Arc::clone(&micros));
        let redis = builder.build().unwrap();
        Some(Self {
            server,
            namespace,
            micros,
            redis,
        })
    }

    fn spend(&self, limit: &Limit, cost: u64) -> Outcome {
        let claim = Claim::new(limit, "key").with_cost(cost);
        let answer = RUNTIME.block_on(ask(&self.redis, &Claims::one(&claim)));
        answer.unwrap().decision.outcomes()[0]
    }

    fn peek(&self, limit: &Limit) -> Outcome {
        let claim = Claim::new(limit, "key");
        let answer = RUNTIME.block_on(ask(&self.redis, &Claims::one(&claim).peek()));
        answer.unwrap().decision.outcomes()[0]
    }

    fn settle(&self, limit: &Limit, cost: u64, how: Settle) {
        let claim = Claim::new(limit, "key").with_cost(cost).settled_later();
        let answer = RUNTIME.block_on(ask(&self.redis, &Claims::one(&claim)));
        for receipt in answer.unwrap().receipts {
            self.redis.settle(receipt, how);
        }
        RUNTIME.block_on(self.redis.flush());
    }

    fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap();
        self.micros
            .fetch_add(micros, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns what the server has of the only key.
    fn stored(&self) -> String {
        let keys = self
            .server
            .list(&["KEYS", &format!("{}:rk1:{{x}}*", self.namespace)]);
        let [key] = &keys[..] else {
            panic!("one key: {keys:?}")
        };
        let words = match key.ends_with(":l") {
            true => ["LINDEX", key, "0"].to_vec(),
            false => ["GET", key].to_vec(),
        };
        self.server.list(&words)[0].clone()
    }
}

#[test]
fn the_new_numbers_decide_for_old_nodes_from_the_first_touch_by_a_new_one() {
    for algorithm in ALGORITHMS {
        for (old, new) in [(100, 10), (10, 100)] {
            let Some(node) = Node::new() else {
                return;
            };
            let old_limit = limit(algorithm, &format!("{old}/day"), 3);
            let new_limit = limit(algorithm, &format!("{new}/day"), 4);
            let what = format!("{algorithm} from {old} to {new}");
            assert_eq!(node.spend(&old_limit, 4).remaining(), old - 4, "{what}");
            // The touch need not charge.
            assert_eq!(node.peek(&new_limit).remaining(), new - 4, "{what}");
            let mut admitted = 4;
            for round in 0.. {
                let limit = [&old_limit, &new_limit][round % 2];
                let outcome = node.spend(limit, 1);
                if !outcome.is_allowed() {
                    assert_eq!(admitted, new, "{what}");
                    break;
                }
                admitted += 1;
                assert_eq!(outcome.remaining(), new - admitted, "{what}");
            }
            // What is told to both is the same, by the numbers that decide.
            let (to_old, to_new) = (node.spend(&old_limit, 1), node.spend(&new_limit, 1));
            assert_eq!(to_old, to_new, "{what}");
            assert_eq!(to_old.remaining(), 0, "{what}");
            assert!(matches!(to_old.wait(), Wait::For(_)), "{what}");
        }
    }
}

#[test]
fn a_cost_is_measured_by_the_numbers_that_decide() {
    for algorithm in ALGORITHMS {
        let Some(node) = Node::new() else {
            return;
        };
        let (old, new) = (
            limit(algorithm, "10/day", 0),
            limit(algorithm, "100/day", 1),
        );
        assert_eq!(node.spend(&old, 11).wait(), Wait::Never, "{algorithm}");
        assert!(node.spend(&new, 1).is_allowed());
        // More than the old node's own numbers would ever admit.
        let outcome = node.spend(&old, 50);
        assert!(outcome.is_allowed(), "{algorithm}");
        assert_eq!(node.peek(&new).remaining(), 49, "{algorithm}");
        assert_eq!(node.spend(&old, 101).wait(), Wait::Never, "{algorithm}");
        assert_eq!(
            node.spend(&old, u64::MAX).wait(),
            Wait::Never,
            "{algorithm}"
        );
    }
}

#[test]
fn another_algorithm_of_a_newer_generation_decides_too() {
    let fixed = ALGORITHMS
        .iter()
        .filter(|algorithm| **algorithm != Algorithm::SlidingLog);
    for (old, new) in fixed
        .clone()
        .flat_map(|old| fixed.clone().map(move |new| (old, new)))
    {
        let Some(node) = Node::new() else {
            return;
        };
        let (old_limit, new_limit) = (limit(*old, "100/day", 0), limit(*new, "10/day", 1));
        assert!(node.spend(&old_limit, 4).is_allowed());
        assert!(node.spend(&new_limit, 1).is_allowed());
        let outcome = node.spend(&old_limit, 5);
        assert_eq!((outcome.is_allowed(), outcome.remaining()), (true, 0));
        assert_eq!(
            node.spend(&old_limit, 1),
            node.spend(&new_limit, 1),
            "{old} to {new}"
        );
    }
}

#[test]
fn several_limits_of_a_request_may_each_be_decided_by_newer_numbers() {
    let Some(node) = Node::new() else {
        return;
    };
    let quota = |quota: &str, name: &str, generation| {
        let limit = Limit::token_bucket(name, quota.parse().unwrap()).unwrap();
        limit.with_generation(generation)
    };
    let (old_a, new_a) = (quota("100/day", "a", 0), quota("10/day", "a", 1));
    let (old_b, new_b) = (quota("20/day", "b", 0), quota("30/day", "b", 1));
    let other = quota("50/day", "other", 0);
    let ask_all = |limits: [&Limit; 3]| {
        let claims = limits.map(|limit| Claim::new(limit, "key"));
        let claims = Claims::new(&claims).unwrap();
        let answer = RUNTIME.block_on(ask(&node.redis, &claims)).unwrap();
        let remaining = |outcome: &Outcome| outcome.remaining();
        let outcomes = answer.decision.outcomes();
        outcomes.iter().map(remaining).collect::<Vec<_>>()
    };
    assert_eq!(ask_all([&old_a, &other, &old_b]), [99, 49, 19]);
    assert_eq!(ask_all([&new_a, &other, &new_b]), [8, 48, 28]);
    assert_eq!(ask_all([&old_a, &other, &old_b]), [7, 47, 27]);
    assert_eq!(ask_all([&other, &old_b, &new_a]), [46, 26, 6]);
}

#[test]
fn settling_by_an_old_node_neither_brings_old_numbers_back_nor_more_debt() {
    for algorithm in ALGORITHMS {
        let Some(node) = Node::new() else {
            return;
        };
        let (old, new) = (
            limit(algorithm, "100/day", 0),
            limit(algorithm, "10/day", 1),
        );
        assert!(node.spend(&new, 2).is_allowed());
        node.settle(&old, 3, Settle::Refund);
        assert_eq!(node.peek(&new).remaining(), 8, "{algorithm}");
        node.settle(&old, 1, Settle::Actual(4));
        assert_eq!(node.peek(&new).remaining(), 4, "{algorithm}");
        // At most one capacity of the new numbers is owed, whatever the old ones allow.
        node.settle(&old, 1, Settle::Actual(90));
        assert!(!node.spend(&old, 1).is_allowed(), "{algorithm}");
        assert_eq!(node.spend(&old, 1), node.spend(&new, 1), "{algorithm}");
        let most = Duration::from_secs(86_400) * 2;
        assert!(node.peek(&new).reset() <= most, "{algorithm}");
        let stored = node.stored();
        let is_new = stored.starts_with("g1 ") || stored.ends_with(" 86400000000 1 10");
        assert!(is_new, "{algorithm}: {stored}");
    }
}

#[test]
fn the_generation_is_forgotten_with_a_fresh_key_and_followed_after_the_rollout() {
    for algorithm in ALGORITHMS {
        let Some(node) = Node::new() else {
            return;
        };
        let (old, new) = (
            limit(algorithm, "100/day", 0),
            limit(algorithm, "10/day", 1),
        );
        assert!(node.spend(&new, 1).is_allowed());
        node.advance(Duration::from_secs(3 * 86_400));
        assert_eq!(node.spend(&old, 6).remaining(), 94, "{algorithm}");
        // A key of the old numbers follows when a new node sees it.
        assert_eq!(node.spend(&new, 1).remaining(), 3, "{algorithm}");
        // So does one of equal numbers, and the next generation, whatever it is.
        let same = limit(algorithm, "10/day", 2);
        assert_eq!(node.spend(&same, 1).remaining(), 2, "{algorithm}");
        assert_eq!(node.spend(&new, 1).remaining(), 1, "{algorithm}");
        let last = limit(algorithm, "20/day", u32::MAX);
        assert_eq!(node.spend(&last, 1).remaining(), 10, "{algorithm}");
        assert_eq!(node.spend(&same, 1).remaining(), 9, "{algorithm}");
        // Numbers of one generation each decide for themselves.
        let twin = limit(algorithm, "30/day", u32::MAX);
        assert_eq!(node.spend(&twin, 1).remaining(), 18, "{algorithm}");
    }
}

#[test]
fn what_is_stored_names_no_generation_but_those_above_0() {
    for algorithm in ALGORITHMS {
        for (generation, cost) in [(0, 1), (7, 1), (7, 2)] {
            let Some(node) = Node::new() else {
                return;
            };
            let limit = limit(algorithm, "10/day", generation);
            for _ in 0..2 {
                assert!(node.spend(&limit, cost).is_allowed());
            }
            let stored = node.stored();
            let is_log = algorithm == Algorithm::SlidingLog;
            match (is_log, generation) {
                (true, 0) => assert_eq!(stored.split(' ').count(), 4, "{stored}"),
                (true, _) => assert!(stored.ends_with(" 86400000000 7 10"), "{stored}"),
                (false, 0) => assert!(stored.starts_with(['b', 'w', 'c', 's']), "{stored}"),
                (false, _) => assert!(stored.starts_with("g7 "), "{stored}"),
            }
            assert_eq!(node.peek(&limit).remaining(), 10 - 2 * cost);
        }
    }
}
