use std::future::pending;
use std::sync::Mutex;

use super::*;
use crate::quota::Quota;
use crate::{Async, AsyncStore, Clock, ManualClock};

/// A store that can be taken away: it hangs, fails, or answers.
#[derive(Default)]
struct Remote {
    memory: Memory,
    health: Mutex<Health>,
    asked: AtomicUsize,
    dropped: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Default)]
enum Health {
    #[default]
    Fine,
    Hangs,
    Fails,
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl AsyncStore for Remote {
    async fn acquire(&self, claims: OwnedClaims) -> Result<Answer, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let health = *self.health.lock().unwrap();
        match health {
            Health::Hangs => {
                let _dropped = Dropped(Arc::clone(&self.dropped));
                pending().await
            }
            Health::Fails => Err(StoreError::new(StoreErrorKind::Unavailable)),
            Health::Fine => match claims.with(|claims| Store::acquire(&self.memory, claims)) {
                Acquire::Now(answer) => answer,
                Acquire::Later(answer) => answer.await,
            },
        }
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        Store::settle(&self.memory, receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        Store::supports(&self.memory, limit)
    }
}

#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, note: &str) {
        self.0.lock().unwrap().push(note.to_owned());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Notes {
    fn store_lost(&self, error: &StoreError) {
        self.note(&format!("lost: {error}"));
    }

    fn store_back(&self) {
        self.note("back");
    }

    fn diagnosed(&self, code: &'static str, _: &'static str) {
        self.note(code);
    }
}

type Subject = WithFallback<Async<Remote>>;

fn subject(
    set: impl FnOnce(FallbackBuilder<Async<Remote>>) -> FallbackBuilder<Async<Remote>>,
) -> (Subject, Notes) {
    let notes = Notes::default();
    let builder = WithFallback::builder(Async::new(Remote::default())).observer(notes.clone());
    (set(builder).build(), notes)
}

fn set(store: &Subject, health: Health) {
    *store.first().get().health.lock().unwrap() = health;
}

fn asked(store: &Subject) -> usize {
    store.first().get().asked.load(Ordering::Relaxed)
}

fn limit(name: &str) -> Limit {
    Limit::fixed_window(name, Quota::per_hour(8)).unwrap()
}

async fn ask(store: &impl Store, claims: &[Claim<'_>]) -> Result<Answer, StoreError> {
    match store.acquire(&Claims::new(claims).unwrap()) {
        Acquire::Now(answer) => answer,
        Acquire::Later(answer) => answer.await,
    }
}

async fn remaining(store: &impl Store, limit: &Limit) -> u64 {
    let claim = Claim::new(limit, "key");
    let answer = match store.acquire(&Claims::one(&claim).peek()) {
        Acquire::Now(answer) => answer,
        Acquire::Later(answer) => answer.await,
    };
    answer.unwrap().decision.outcomes()[0].remaining()
}

/// Lets spawned tasks run.
async fn settle_down() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_answers_its_answer_counts() {
    let (store, notes) = subject(|builder| builder.nodes(4));
    let limit = limit("x");
    let answer = ask(&store, &[Claim::new(&limit, "key").with_cost(3)])
        .await
        .unwrap();
    assert_eq!(answer.decision.outcomes()[0].remaining(), 5);
    // A refusal is an answer, not a failure: nobody else is asked.
    let answer = ask(&store, &[Claim::new(&limit, "key").with_cost(6)])
        .await
        .unwrap();
    assert!(!answer.decision.is_allowed());
    assert_eq!(remaining(store.local(), &limit).await, 8);
    assert!(notes.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_the_deadline_and_the_node_decides_on_its_share() {
    let (store, _) = subject(|builder| builder.nodes(4));
    let limit = limit("x");
    set(&store, Health::Hangs);
    let start = tokio::time::Instant::now();
    let claim = Claim::new(&limit, "key");
    let answer = ask(&store, &[claim]).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    assert_eq!(answer.decision.outcomes()[0].remaining(), 1);
    assert!(ask(&store, &[claim]).await.unwrap().decision.is_allowed());
    let refused = ask(&store, &[claim]).await.unwrap();
    assert!(!refused.decision.is_allowed());
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_once_is_told_once_and_closes_by_itself() {
    let (store, notes) = subject(|builder| builder);
    let limit = limit("x");
    set(&store, Health::Hangs);
    let peek = async || {
        let start = tokio::time::Instant::now();
        remaining(&store, &limit).await;
        start.elapsed()
    };
    for _ in 0..5 {
        assert_eq!(peek().await, Duration::from_millis(50));
    }
    assert_eq!(
        notes.take(),
        ["lost: the store did not answer within the deadline"]
    );
    let before = asked(&store);
    for _ in 0..100 {
        assert_eq!(peek().await, Duration::ZERO);
    }
    assert_eq!(asked(&store), before);

    // The first probe fails, the second finds the store well; no request waits for either.
    for health in [Health::Fails, Health::Fine] {
        set(&store, health);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(peek().await, Duration::ZERO);
        settle_down().await;
    }
    assert_eq!(notes.take(), ["back"]);
    let claim = Claim::new(&limit, "key").with_cost(2);
    let answer = ask(&store, &[claim]).await.unwrap();
    assert_eq!(answer.decision.outcomes()[0].remaining(), 6);
    assert_eq!(remaining(store.local(), &limit).await, 8);
}

#[tokio::test(start_paused = true)]
async fn each_limit_fails_its_own_way() {
    let (store, _) = subject(|builder| {
        builder
            .on_failure_of("refuses", OnFailure::Refuse)
            .on_failure_of("allows", OnFailure::Allow)
    });
    let (refuses, allows, local) = (limit("refuses"), limit("allows"), limit("local"));
    set(&store, Health::Fails);
    let claims = [
        Claim::new(&allows, "key").with_cost(100),
        Claim::new(&local, "key").with_cost(3).settled_later(),
        Claim::new(&refuses, "key").shadowed(),
    ];
    // In the order of the claims, whoever answered for them; a shadowed limit refuses nothing.
    let mut answer = ask(&store, &claims).await.unwrap();
    let outcomes = answer.decision.outcomes();
    assert_eq!(
        outcomes.iter().map(Outcome::remaining).collect::<Vec<_>>(),
        [8, 5, 8]
    );
    assert!(answer.decision.is_allowed() && answer.decision.is_shadowed(2));
    assert_eq!(answer.receipts.len(), 1);
    let receipt = answer.receipts.pop().unwrap();
    assert_eq!(receipt.limit, local);
    store.settle(receipt, Settle::Refund);
    assert_eq!(remaining(store.local(), &local).await, 8);

    let error = ask(
        &store,
        &[Claim::new(&local, "key"), Claim::new(&refuses, "key")],
    )
    .await;
    assert_eq!(error.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert_eq!(remaining(store.local(), &local).await, 8);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_allows_is_told_of_when_the_layer_is_built() {
    let (store, notes) = subject(|builder| builder.on_failure_of("x", OnFailure::Allow));
    store.supports(&limit("y")).unwrap();
    assert!(notes.take().is_empty());
    store.supports(&limit("x")).unwrap();
    assert_eq!(notes.take(), ["allows-on-failure"]);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_bound_fall_back_at_once() {
    let (store, notes) = subject(|builder| builder.max_in_flight(2).breaker(100, Duration::ZERO));
    let limit = limit("x");
    set(&store, Health::Hangs);
    let claim = Claim::new(&limit, "key");
    let waiting: Vec<_> = (0..2)
        .map(|_| store.acquire(&Claims::one(&claim)))
        .collect();
    assert!(matches!(
        store.acquire(&Claims::one(&claim)),
        Acquire::Now(Ok(_))
    ));
    drop(waiting);
    assert!(matches!(
        store.acquire(&Claims::one(&claim)),
        Acquire::Later(_)
    ));
    assert!(notes.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_late_call_is_dropped_unless_its_request_goes_on() {
    let (store, _) = subject(|builder| builder.on_failure_of("refuses", OnFailure::Refuse));
    let (refuses, local) = (limit("refuses"), limit("local"));
    let dropped = || store.first().get().dropped.load(Ordering::Relaxed);
    set(&store, Health::Hangs);
    assert!(ask(&store, &[Claim::new(&refuses, "key")]).await.is_err());
    assert_eq!(dropped(), 1);
    // Its charge, if there is one, is the request's.
    assert!(ask(&store, &[Claim::new(&local, "key")]).await.is_ok());
    settle_down().await;
    assert_eq!(dropped(), 1);
    // Dropped by the caller while it waits.
    let claim = Claim::new(&local, "key");
    let Acquire::Later(mut answer) = store.acquire(&Claims::one(&claim)) else {
        panic!("the store is asked")
    };
    assert!(
        timeout(Duration::from_millis(1), &mut answer)
            .await
            .is_err()
    );
    drop(answer);
    assert_eq!(dropped(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_node_charged_late_can_be_given_back() {
    let (store, _) = subject(|builder| builder.nodes(2));
    let limit = limit("x");
    set(&store, Health::Hangs);
    let mut answer = ask(&store, &[Claim::new(&limit, "key")]).await.unwrap();
    assert_eq!(answer.receipts.len(), 1);
    store.settle(answer.receipts.pop().unwrap(), Settle::Refund);
    let share = store.0.shares.of(&limit).unwrap();
    assert_eq!(remaining(store.local(), &share).await, 4);
    set(&store, Health::Fine);
    assert_eq!(remaining(store.first(), &limit).await, 8);
}

#[test]
fn without_a_runtime_the_node_decides() {
    let (store, _) = subject(|builder| builder);
    let limit = limit("x");
    let claim = Claim::new(&limit, "key");
    let Acquire::Now(Ok(answer)) = store.acquire(&Claims::one(&claim)) else {
        panic!("memory answers at once")
    };
    assert!(answer.decision.is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_local_store_may_have_a_clock_of_its_own() {
    let time = ManualClock::new();
    let local = Memory::builder().clock(Clock::from(time.clone())).build();
    let store = WithFallback::builder(Async::new(Remote::default()))
        .local(local)
        .build();
    *store.first().get().health.lock().unwrap() = Health::Fails;
    let limit = limit("x");
    let claim = [Claim::new(&limit, "key").with_cost(8)];
    assert!(ask(&store, &claim).await.unwrap().decision.is_allowed());
    assert!(!ask(&store, &claim).await.unwrap().decision.is_allowed());
    time.advance(Duration::from_secs(3_600));
    assert!(ask(&store, &claim).await.unwrap().decision.is_allowed());
}
