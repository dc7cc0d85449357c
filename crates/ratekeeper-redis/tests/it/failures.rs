//! A server that is slow, stopped, killed or never there.
//!
//! These tests run on real time: it is the deadlines of sockets and processes that they are about.

use std::future::poll_fn;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use ratekeeper_core::{
    Acquire, Claim, Claims, Limit, OnFailure, Quota, Settle, Store, StoreError, WithFallback,
};
use ratekeeper_redis::{KeyNames, Redis};
use tokio::time::{sleep, timeout};

use crate::support::{RUNTIME, SECRET, Server, ask, free_port, new_namespace};

const DEADLINE: Duration = Duration::from_millis(50);

fn limit(units: u64) -> Limit {
    Limit::fixed_window("window", Quota::per_day(units)).unwrap()
}

async fn check(store: &impl Store, limit: &Limit) -> Result<bool, StoreError> {
    let claim = Claim::new(limit, "key");
    let answer = ask(store, &Claims::one(&claim)).await?;
    Ok(answer.decision.is_allowed())
}

async fn used(store: &impl Store, limit: &Limit) -> Result<u64, StoreError> {
    let claim = Claim::new(limit, "key");
    let answer = ask(store, &Claims::one(&claim).peek()).await?;
    Ok(limit.capacity() - answer.decision.outcomes()[0].remaining())
}

/// Waits until a peek says so.
async fn until_used(store: &impl Store, limit: &Limit, expected: u64) {
    let reached = async {
        while !used(store, limit).await.is_ok_and(|used| used == expected) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(Duration::from_secs(10), reached).await.is_err() {
        let used = used(store, limit).await;
        panic!("{expected} units should be in use, but {used:?} are");
    }
}

/// What became of a load.
#[derive(Debug, Default)]
struct Load {
    asked: AtomicU64,
    admitted: AtomicU64,
    failed: AtomicU64,
    slowest: AtomicU64,
}

/// Asks from 32 tasks until told to stop.
async fn load<St: Store + Clone>(
    store: &St,
    limit: &Limit,
    trouble: impl Future<Output = ()>,
) -> Load {
    let (load, stop) = (Arc::new(Load::default()), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let (store, limit) = (store.clone(), limit.clone());
            let (load, stop) = (Arc::clone(&load), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    load.asked.fetch_add(1, Ordering::Relaxed);
                    match check(&store, &limit).await {
                        Ok(admitted) => load.admitted.fetch_add(admitted.into(), Ordering::Relaxed),
                        Err(_) => load.failed.fetch_add(1, Ordering::Relaxed),
                    };
                    let millis = u64::try_from(start.elapsed().as_millis()).unwrap();
                    load.slowest.fetch_max(millis, Ordering::Relaxed);
                    // A refusal at once, over and over, would leave the others no time.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    trouble.await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        // None hangs.
        timeout(Duration::from_secs(10), task)
            .await
            .unwrap()
            .unwrap();
    }
    Arc::into_inner(load).unwrap()
}

#[test]
fn a_flushed_script_cache_is_not_noticed() {
    let Some(server) = Server::start() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        let limit = limit(1 << 40);
        let load = load(&redis, &limit, async {
            for _ in 0..20 {
                sleep(Duration::from_millis(10)).await;
                server.ask(&["SCRIPT", "FLUSH"]);
            }
        })
        .await;
        assert_eq!(load.failed.load(Ordering::Relaxed), 0);
        let asked = load.asked.load(Ordering::Relaxed);
        assert!(asked > 20, "{load:?}");
        assert_eq!(used(&redis, &limit).await.unwrap(), asked);
    });
}

#[test]
fn killed_connections_charge_nothing_twice_and_lose_no_request() {
    let Some(server) = Server::start() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        redis.verify().await.unwrap();
        let store = WithFallback::builder(redis.clone())
            .deadline(Duration::from_secs(5))
            .breaker(u32::MAX, Duration::ZERO)
            .build();
        let limit = limit(1 << 40);
        let load = load(&store, &limit, async {
            for _ in 0..20 {
                sleep(Duration::from_millis(10)).await;
                server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
        })
        .await;
        let asked = load.asked.load(Ordering::Relaxed);
        assert_eq!(load.admitted.load(Ordering::Relaxed), asked, "{load:?}");
        let locally = used(store.local(), &limit).await.unwrap();
        // The last connection may have been killed while nobody used it.
        let mut on_server = used(&redis, &limit).await;
        while on_server.is_err() {
            sleep(Duration::from_millis(5)).await;
            on_server = used(&redis, &limit).await;
        }
        let on_server = on_server.unwrap();
        assert!(locally > 0, "a connection was killed under load");
        // Every request was decided by one of them; those whose answer was lost maybe by both.
        assert!(
            on_server <= asked && on_server + locally >= asked,
            "{on_server} {locally} {asked}"
        );
    });
}

#[test]
fn a_restart_grants_a_key_no_more_than_one_capacity() {
    let Some(server) = Server::start() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        redis.verify().await.unwrap();
        let store = WithFallback::builder(redis)
            .deadline(DEADLINE)
            .breaker(5, Duration::from_millis(50))
            .on_failure(OnFailure::Refuse)
            .build();
        let limit = limit(500);
        let load = load(&store, &limit, async {
            sleep(Duration::from_millis(200)).await;
            server.stop();
            sleep(Duration::from_millis(200)).await;
            server.start_again();
            // It comes back by itself.
            until_used(&store, &limit, 500).await;
        })
        .await;
        let admitted = load.admitted.load(Ordering::Relaxed);
        assert!((501..=1_000).contains(&admitted), "{load:?}");
        assert!(load.failed.load(Ordering::Relaxed) > 0, "{load:?}");
    });
}

#[test]
fn a_stopped_server_hangs_nobody_and_a_late_answer_charges_once() {
    let Some(server) = Server::start() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        let store = |on_failure| {
            WithFallback::builder(redis.clone())
                .deadline(DEADLINE)
                .on_failure(on_failure)
                .build()
        };
        let goes_on = [limit(10), limit(20).with_counter("allowed").unwrap()];
        let refused = limit(30).with_counter("refused").unwrap();
        let left = limit(40).with_counter("left").unwrap();
        redis.verify().await.unwrap();
        server.signal("STOP");
        // Decided without the server: the request goes on, or does not.
        assert!(check(&store(OnFailure::Local), &goes_on[0]).await.unwrap());
        assert!(check(&store(OnFailure::Allow), &goes_on[1]).await.unwrap());
        assert!(check(&store(OnFailure::Refuse), &refused).await.is_err());
        // Left by its caller while it waits.
        let claim = Claim::new(&left, "key");
        let Acquire::Later(mut answer) = redis.acquire(&Claims::one(&claim)) else {
            panic!("the server is asked")
        };
        assert!(timeout(DEADLINE, &mut answer).await.is_err());
        drop(answer);
        sleep(4 * DEADLINE).await;
        server.signal("CONT");
        for limit in &goes_on {
            until_used(&redis, limit, 1).await;
        }
        // Charged late, and given back since nobody waits; what was charged for good stays.
        until_used(&redis, &refused, 0).await;
        until_used(&redis, &left, 0).await;
        redis.flush().await;
        for limit in &goes_on {
            assert_eq!(used(&redis, limit).await.unwrap(), 1);
        }
    });
}

#[test]
fn a_server_stopped_under_load_hangs_nobody() {
    let Some(server) = Server::start() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        redis.verify().await.unwrap();
        let store = WithFallback::builder(redis.clone())
            .deadline(DEADLINE)
            .breaker(5, Duration::from_millis(50))
            .build();
        let limit = limit(1 << 40);
        let load = load(&store, &limit, async {
            sleep(Duration::from_millis(100)).await;
            server.signal("STOP");
            // Longer than it takes to give a silent connection up.
            sleep(Duration::from_millis(1_500)).await;
            server.signal("CONT");
            let before = used(store.local(), &limit).await.unwrap();
            let back = async {
                // Asked again once a probe has found it well.
                while used(&redis, &limit).await.is_err() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(10), back).await.unwrap();
            assert!(before > 0);
        })
        .await;
        assert_eq!(load.failed.load(Ordering::Relaxed), 0);
        let asked = load.asked.load(Ordering::Relaxed);
        assert_eq!(load.admitted.load(Ordering::Relaxed), asked);
        assert!(used(&redis, &limit).await.unwrap() <= asked);
        assert!(load.slowest.load(Ordering::Relaxed) < 1_000, "{load:?}");
    });
}

#[test]
fn a_call_dropped_before_it_is_sent_sends_nothing() {
    let Some(server) = Server::shared() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        let limit = limit(10);
        let claim = Claim::new(&limit, "key");
        drop(redis.acquire(&Claims::one(&claim)));
        assert_eq!(used(&redis, &limit).await.unwrap(), 0);
    });
}

#[test]
fn a_call_dropped_after_it_is_sent_is_given_back() {
    let Some(server) = Server::shared() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().build().unwrap();
        redis.verify().await.unwrap();
        let limit = limit(10);
        for _ in 0..50 {
            let claim = Claim::new(&limit, "key").with_cost(7);
            let Acquire::Later(answer) = redis.acquire(&Claims::one(&claim)) else {
                panic!("the server is asked")
            };
            let mut answer = Box::pin(answer);
            let polled = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context)));
            if let Poll::Ready(answered) = polled.await {
                // A server that is this quick leaves nothing to drop.
                for receipt in answered.unwrap().receipts {
                    redis.settle(receipt, Settle::Refund);
                }
            }
            drop(answer);
            until_used(&redis, &limit, 0).await;
        }
    });
}

#[test]
fn more_calls_than_may_be_under_way_fail_at_once() {
    let Some(server) = Server::start() else {
        return;
    };
    RUNTIME.block_on(async {
        let redis = server.builder().max_in_flight(2).build().unwrap();
        let limit = limit(10);
        let claim = Claim::new(&limit, "key");
        let claims = Claims::one(&claim);
        let waiting = (redis.acquire(&claims), redis.acquire(&claims));
        assert!(matches!(redis.acquire(&claims), Acquire::Now(Err(_))));
        drop(waiting);
        assert!(matches!(redis.acquire(&claims), Acquire::Later(_)));
    });
}

/// A port that takes connections and never says a word.
fn blackhole() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn a_port_that_swallows_everything_costs_the_deadline_and_then_nothing() {
    for on_failure in [OnFailure::Local, OnFailure::Refuse, OnFailure::Allow] {
        // On a machine that runs other tests as well a wake-up may come late; once in ten it does not.
        let timely = (0..10).any(|_| {
            let (slowest, fastest, slowest_open) = RUNTIME.block_on(times(on_failure));
            assert!(fastest >= DEADLINE, "{fastest:?}");
            slowest <= DEADLINE + Duration::from_millis(10)
                && slowest_open < Duration::from_millis(1)
        });
        assert!(timely, "{on_failure:?}");
    }
}

/// The slowest and the fastest answer before the breaker opens, and the slowest after.
async fn times(on_failure: OnFailure) -> (Duration, Duration, Duration) {
    let (_listener, port) = blackhole();
    let names = KeyNames::secret(SECRET).unwrap();
    let url = format!("redis://127.0.0.1:{port}/");
    let redis = Redis::builder(&url, "blackhole", names).build().unwrap();
    let store = WithFallback::builder(redis).on_failure(on_failure).build();
    let limit = limit(1_000);
    let once = async || {
        let start = Instant::now();
        let answer = check(&store, &limit).await;
        assert_eq!(answer.is_ok(), on_failure != OnFailure::Refuse);
        start.elapsed()
    };
    let (mut slowest, mut fastest, mut open) = (Duration::ZERO, Duration::MAX, Duration::ZERO);
    for _ in 0..5 {
        let elapsed = once().await;
        (slowest, fastest) = (slowest.max(elapsed), fastest.min(elapsed));
    }
    for _ in 0..200 {
        open = open.max(once().await);
    }
    (slowest, fastest, open)
}

#[test]
fn a_server_that_comes_up_late_is_used_without_a_restart() {
    let port = free_port();
    let limit = limit(10);
    let (redis, store) = {
        let _entered = RUNTIME.enter();
        let names = KeyNames::secret(SECRET).unwrap();
        let url = format!("redis://127.0.0.1:{port}/");
        let redis = Redis::builder(&url, &new_namespace(), names)
            .build()
            .unwrap();
        let store = WithFallback::builder(redis.clone())
            .breaker(2, Duration::from_millis(20))
            .build();
        (redis, store)
    };
    RUNTIME.block_on(async {
        for _ in 0..4 {
            assert!(check(&store, &limit).await.unwrap());
        }
    });
    let Some(_server) = Server::start_on(port) else {
        return;
    };
    RUNTIME.block_on(async {
        // What the node admitted alone stays there.
        until_used(&store, &limit, 0).await;
        assert!(check(&store, &limit).await.unwrap());
        assert_eq!(used(&redis, &limit).await.unwrap(), 1);
        assert_eq!(used(store.local(), &limit).await.unwrap(), 4);
    });
}
