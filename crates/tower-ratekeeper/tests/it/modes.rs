//! Rules that refuse, only watch, or do nothing; and a layer that is changed while it runs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use http::{Request, StatusCode};
use tower::{Layer, Service, ServiceExt};
use tower_ratekeeper::core::Mode;
use tower_ratekeeper::key::KeyError;
use tower_ratekeeper::{
    Limit, Observer, Outcome, Quota, RateLimit, RateLimitLayer, Rule, RuleMode, RuleSet, Share,
};

use crate::support::{
    Fine, admitted, at_once, bucket, field, key_of, layer, remaining, request, send, status,
    text_of,
};

fn limit(name: &str) -> Limit {
    Limit::token_bucket(name, Quota::per_minute(10)).unwrap()
}

fn share(percent: u16) -> RuleMode {
    RuleMode::EnforcedFor(Share::percent(percent).unwrap())
}

/// Writes down what it is told: rule, mode, and whether the limit admits.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, Mode, bool)>>>);

impl Observer for Seen {
    fn decided(&self, limit: &Limit, mode: Mode, outcome: &Outcome) {
        let seen = (limit.name().to_owned(), mode, outcome.is_allowed());
        self.0.lock().unwrap().push(seen);
    }
}

#[tokio::test]
async fn a_shadowed_rule_counts_and_is_observed_and_no_client_sees_it() {
    let seen = Seen::default();
    let layer = RateLimitLayer::builder()
        .rules([bucket("dark").cost(4).shadowed(), bucket("light").cost(2)])
        .observer(seen.clone())
        .build()
        .unwrap();
    let mut replies = Vec::new();
    for _ in 0..6 {
        replies.push(send(&layer, request(1)).await);
    }
    for (index, reply) in replies.into_iter().enumerate() {
        let expected = if index < 5 { 200 } else { 429 };
        assert_eq!(reply.status(), expected);
        let head = format!("{:?}", reply.headers());
        assert!(head.contains("light") && !head.contains("dark"), "{head}");
        let body = text_of(reply.into_body()).await;
        assert!(!body.contains("dark"), "{body}");
    }
    assert_eq!(remaining(&layer, &limit("dark"), 1), 2);
    let dark: Vec<_> = seen
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|seen| seen.0 == "dark")
        .cloned()
        .collect();
    assert!(dark.iter().all(|(_, mode, _)| *mode == Mode::Shadowed));
    let opinions: Vec<bool> = dark.iter().map(|(.., admits)| *admits).collect();
    assert_eq!(opinions, [true, true, false, false, false, false]);
}

/// Refusals that never come to a decision of limits are refusals all the same.
#[tokio::test]
async fn nothing_about_a_shadowed_rule_refuses() {
    let silent: [Rule; 4] = [
        bucket("no-key").by_fn(|_| KeyError::missing("user")),
        bucket("costly").cost_by(|_| 100).max_cost(5),
        bucket("never").cost_by(|_| 100),
        Rule::deny_all("denied").by_fn(key_of),
    ];
    for rule in silent {
        let name = rule.name().to_owned();
        for (mode, passes) in [
            (RuleMode::Enforced, false),
            (RuleMode::Shadowed, true),
            (RuleMode::Off, true),
            (share(0), true),
            (share(100), false),
        ] {
            let (layer, _) = layer([rule.clone().mode(mode), bucket("light")]);
            let reply = send(&layer, request(1)).await;
            assert_eq!(reply.status() == 200, passes, "{name} {mode:?}");
            if passes {
                assert_eq!(
                    field(&reply, "ratelimit").as_deref(),
                    Some(r#""light";r=9;t=54"#)
                );
            }
        }
    }
}

#[tokio::test]
async fn a_rule_that_is_off_counts_nothing() {
    let (layer, _) = layer([bucket("per-key").mode(RuleMode::Off)]);
    assert_eq!(admitted(&layer, 1, 20).await, 20);
    assert_eq!(layer.store().entries(&limit("per-key")), 0);
    let reply = send(&layer, request(1)).await;
    assert_eq!(field(&reply, "ratelimit"), None);
}

/// The keys for which a layer refuses.
fn enforced(layer: &RateLimitLayer, keys: u64) -> BTreeSet<u64> {
    let refused = |key: &u64| at_once(status(layer, request(*key))) != StatusCode::OK;
    (0..keys).filter(refused).collect()
}

#[test]
fn a_share_is_the_same_keys_on_every_node_with_one_secret() {
    // Admits nothing, so that one request tells.
    let closed = |mode| bucket("canary").cost_by(|_| 11).mode(mode);
    let on = |secret: &str, mode| {
        let builder = RateLimitLayer::builder()
            .rule(closed(mode))
            .share_secret(secret);
        builder.build().unwrap()
    };
    const KEYS: u64 = 2_000;
    let (one, other) = (on("fleet", share(20)), on("fleet", share(20)));
    let picked = enforced(&one, KEYS);
    assert_eq!(picked, enforced(&other, KEYS));
    // 400 are expected, with a deviation of 18.
    assert!(
        (300..500).contains(&picked.len()),
        "{} of {KEYS}",
        picked.len()
    );
    // A rollout goes on with those it began with.
    assert!(other.handle().set_mode("canary", share(50)));
    let more = enforced(&other, KEYS);
    assert!(
        picked.is_subset(&more) && more.len() > 800,
        "{} of {KEYS}",
        more.len()
    );
    assert_ne!(picked, enforced(&on("other", share(20)), KEYS));
    assert!(enforced(&on("fleet", share(0)), KEYS).is_empty());
    assert_eq!(enforced(&on("fleet", share(100)), KEYS).len() as u64, KEYS);
}

#[tokio::test]
async fn whoever_is_not_in_the_share_sees_nothing_of_the_rule() {
    let (layer, _) = layer([bucket("canary").cost(5).mode(share(30))]);
    for key in 0..50 {
        let reply = send(&layer, request(key)).await;
        let told = field(&reply, "ratelimit").is_some();
        // Counted either way.
        assert_eq!(remaining(&layer, &limit("canary"), key), 5);
        for _ in 0..2 {
            let reply = send(&layer, request(key)).await;
            assert_eq!(field(&reply, "ratelimit").is_some(), told);
        }
        let last = status(&layer, request(key)).await;
        assert_eq!(last == StatusCode::TOO_MANY_REQUESTS, told);
    }
}

#[tokio::test]
async fn modes_change_while_the_layer_runs_and_the_count_goes_on() {
    let (layer, _) = layer([
        bucket("per-key").shadowed(),
        bucket("other").mode(RuleMode::Off),
    ]);
    let handle = layer.handle();
    assert_eq!(handle.mode("per-key"), Some(RuleMode::Shadowed));
    assert_eq!(admitted(&layer, 1, 15).await, 15);
    assert!(handle.set_mode("per-key", RuleMode::Enforced));
    assert_eq!(admitted(&layer.clone(), 1, 5).await, 0);
    assert_eq!(admitted(&layer, 2, 15).await, 10);
    assert!(handle.clone().set_mode("per-key", RuleMode::Off));
    assert_eq!(admitted(&layer, 1, 5).await, 5);
    assert!(!handle.set_mode("per-kex", RuleMode::Off));
    assert_eq!(handle.mode("per-kex"), None);
}

#[tokio::test]
async fn the_kill_switch_lets_everything_pass_uncounted() {
    let (layer, _) = layer([bucket("per-key"), Rule::deny_all("closed").by_fn(key_of)]);
    let handle = layer.handle();
    assert!(handle.is_enabled());
    handle.set_enabled(false);
    let reply = send(&layer, Request::new(())).await;
    assert_eq!(
        (reply.status(), field(&reply, "ratelimit")),
        (StatusCode::OK, None)
    );
    assert_eq!(admitted(&layer, 1, 20).await, 20);
    assert_eq!(layer.store().entries(&limit("per-key")), 0);
    handle.set_enabled(true);
    assert_eq!(admitted(&layer, 1, 20).await, 0);
    let builder = RateLimitLayer::builder().rule(bucket("per-key")).disabled();
    let layer = builder.build().unwrap();
    assert_eq!(admitted(&layer, 1, 20).await, 20);
    layer.handle().set_enabled(true);
    assert_eq!(admitted(&layer, 1, 20).await, 10);
}

fn of_units(units: u64) -> RuleSet {
    let rule = Rule::token_bucket("per-key", Quota::per_minute(units)).by_fn(key_of);
    RuleSet::new([rule]).unwrap()
}

#[tokio::test]
async fn replaced_rules_know_what_was_used() {
    let builder = RateLimitLayer::builder().rule_set(of_units(10));
    let layer = builder.build().unwrap();
    let handle = layer.handle();
    assert_eq!(admitted(&layer, 1, 20).await, 10);
    handle.replace(of_units(15)).unwrap();
    assert_eq!(admitted(&layer, 1, 20).await, 5);
    handle.replace(of_units(3)).unwrap();
    assert_eq!(admitted(&layer, 1, 20).await, 0);
    assert_eq!(admitted(&layer, 2, 20).await, 3);
    handle.replace(of_units(15)).unwrap();
    assert_eq!(admitted(&layer, 1, 20).await, 0);
    assert_eq!(admitted(&layer, 2, 20).await, 12);
    assert_eq!(handle.rules().names().collect::<Vec<_>>(), ["per-key"]);
}

#[tokio::test]
async fn services_follow_a_change_whenever_they_were_made() {
    let builder = RateLimitLayer::builder().rule_set(of_units(10));
    let layer = builder.build().unwrap();
    let handle = layer.handle();
    let mut used = layer.layer(Fine);
    let told = async |service: &mut RateLimit<Fine>, key| {
        let response = service.ready().await.unwrap().call(request(key)).await;
        field(&response.unwrap(), "ratelimit-policy").unwrap()
    };
    assert_eq!(told(&mut used, 1).await, r#""per-key";q=10;w=60"#);
    let mut cloned_before = used.clone();
    handle.replace(of_units(15)).unwrap();
    let mut cloned_after = used.clone();
    let mut made_after = layer.layer(Fine);
    for units in [15, 3] {
        let expected = format!(r#""per-key";q={units};w=60"#);
        for service in [
            &mut used,
            &mut cloned_before,
            &mut cloned_after,
            &mut made_after,
        ] {
            assert_eq!(told(service, 2).await, expected);
        }
        handle.replace(of_units(3)).unwrap();
    }
}

#[tokio::test]
async fn rules_that_cannot_be_put_in_force_leave_the_old_ones() {
    let (layer, _) = layer([bucket("per-key")]);
    let log = Rule::sliding_log("per-key", Quota::per_day(1 << 31)).by_fn(key_of);
    let error = layer
        .handle()
        .replace(RuleSet::new([log]).unwrap())
        .unwrap_err();
    assert_eq!(error.rule(), "per-key");
    assert_eq!(admitted(&layer, 1, 20).await, 10);
}

#[tokio::test]
async fn a_set_is_put_in_force_with_the_modes_it_was_built_with() {
    let set = of_units(10);
    let build = || {
        RateLimitLayer::builder()
            .rule_set(set.clone())
            .build()
            .unwrap()
    };
    let (one, other) = (build(), build());
    assert!(one.handle().set_mode("per-key", RuleMode::Off));
    assert_eq!(admitted(&one, 1, 20).await, 20);
    // Two layers of one set are two layers.
    assert_eq!(other.handle().mode("per-key"), Some(RuleMode::Enforced));
    assert_eq!(admitted(&other, 1, 20).await, 10);
    one.handle().replace(set.clone()).unwrap();
    assert_eq!(one.handle().mode("per-key"), Some(RuleMode::Enforced));
    assert_eq!(admitted(&one, 1, 20).await, 10);
}

/// Whatever is changed meanwhile, as long as the limit holds all the time no unit of it is lost or given twice.
#[test]
fn changes_under_load_lose_no_count() {
    const CAPACITY: u64 = 3_000;
    const THREADS: u64 = 3;
    let rule = || {
        Rule::token_bucket(
            "steady",
            Quota::new(CAPACITY, 365 * 24 * 60 * crate::support::MINUTE),
        )
        .by_fn(key_of)
    };
    let with = |extra: Option<Rule>| RuleSet::new([rule()].into_iter().chain(extra)).unwrap();
    let (layer, _) = layer([rule()]);
    let (handle, done) = (layer.handle(), AtomicBool::new(false));
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..2 * CAPACITY / THREADS {
                    if at_once(status(&layer, request(1))) == StatusCode::OK {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for extra in [
                    Some(bucket("extra").shadowed()),
                    None,
                    Some(Rule::unlimited("open").by_fn(key_of)),
                ] {
                    handle.replace(with(extra)).unwrap();
                    assert!(handle.set_mode("steady", share(100)));
                    assert!(handle.set_mode("steady", RuleMode::Enforced));
                }
            }
        });
    });
    assert_eq!(admitted.into_inner(), CAPACITY);
}
