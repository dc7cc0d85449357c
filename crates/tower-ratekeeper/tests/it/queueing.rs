//! Rules that delay: what clients, handlers, observers and the inner service see of it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ratekeeper::core::{
    Acquire, Answer, Claim, Claims, Clock, LimitErrorKind, Observer, Receipt, StoreError,
    TokioClock, WaitEnd,
};
use tower_ratekeeper::key::Global;
use tower_ratekeeper::queue::{Pacer, Queue, ThrottleError, ThrottleLayer, Waiters};
use tower_ratekeeper::{
    Limit, LimitError, Memory, Quota, RateLimitInfo, RateLimitLayer, Rule, RuleErrorKind, RuleMode,
    RuleSet, Settle, Store,
};

use crate::support::{Fine, field, key_of, request};

const TENTH: Duration = Duration::from_millis(100);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Ten a second for each `x-key`, one by one.
fn even(queue: Queue) -> Rule {
    Rule::leaky_bucket("even", Quota::per_second(10))
        .by_fn(key_of)
        .queue(queue)
}

fn layer(rules: impl IntoIterator<Item = Rule>) -> RateLimitLayer {
    let builder = RateLimitLayer::builder().clock(Clock::new(TokioClock::new()));
    builder.rules(rules).expose_decision().build().unwrap()
}

/// A reply: the number of the request, its status, when it came, and two of its fields.
type Reply = (usize, u16, Duration, Option<String>, Option<String>);

/// Sends so many requests of a key, all at once and in order.
fn flood<St: Store>(layer: &RateLimitLayer<St>, key: u64, count: usize) -> JoinSet<Reply> {
    let start = Instant::now();
    let mut replies = JoinSet::new();
    for number in 0..count {
        let response = layer.layer(Fine).call(request(key));
        replies.spawn(async move {
            let response = response.await.unwrap();
            (
                number,
                response.status().as_u16(),
                start.elapsed(),
                field(&response, "server-timing"),
                field(&response, "retry-after"),
            )
        });
    }
    replies
}

async fn settled(layer: &RateLimitLayer<impl Store>, waiting: usize) {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(layer.handle().waiting(), waiting);
}

#[tokio::test(start_paused = true)]
async fn requests_leave_in_order_at_the_rate_and_the_reply_tells_how_long_it_took() {
    let layer = layer([even(Queue::new(3))]);
    let mut replies = flood(&layer, 1, 6);
    let mut seen = Vec::new();
    while let Some(reply) = replies.join_next().await {
        seen.push(reply.unwrap());
    }
    let timing = |millis: u64| Some(format!("ratelimit;dur={millis}"));
    // The two refused hear at once that they would have waited behind the three.
    seen.sort();
    assert_eq!(
        seen,
        [
            (0, 200, millis(0), None, None),
            (1, 200, millis(100), timing(100), None),
            (2, 200, millis(200), timing(200), None),
            (3, 200, millis(300), timing(300), None),
            (4, 429, millis(0), None, Some("1".to_owned())),
            (5, 429, millis(0), None, Some("1".to_owned())),
        ]
    );
    assert_eq!(layer.handle().waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_the_wait_of_the_position_and_true() {
    let rule = Rule::leaky_bucket("slow", Quota::per_minute(12))
        .by_fn(key_of)
        .queue(Queue::new(3).max_wait(Duration::from_secs(60)));
    let layer = layer([rule]);
    let waiting = flood(&layer, 1, 4);
    let refused = layer.layer(Fine).call(request(1)).await.unwrap();
    // Three wait, five seconds each.
    assert_eq!(field(&refused, "retry-after").as_deref(), Some("20"));
    assert_eq!(
        field(&refused, "ratelimit").as_deref(),
        Some("\"slow\";r=0;t=20")
    );
    assert_eq!(waiting.join_all().await.len(), 4);
    sleep(millis(4_999)).await;
    let early = layer.layer(Fine).call(request(1)).await.unwrap();
    let waited = field(&early, "server-timing");
    assert_eq!(
        waited.as_deref(),
        Some("ratelimit;dur=1"),
        "20 s, and no less"
    );
}

#[tokio::test(start_paused = true)]
async fn the_handler_and_the_observer_learn_of_the_wait() {
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);
    impl Observer for Told {
        fn queued(&self, limit: &Limit, ahead: usize) {
            let told = format!("{} behind {ahead}", limit.name());
            self.0.lock().unwrap().push(told);
        }
        fn waited(&self, _: &Limit, time: Duration, end: WaitEnd) {
            self.0
                .lock()
                .unwrap()
                .push(format!("{end:?} after {time:?}"));
        }
    }
    let told = Arc::new(Told::default());
    let layer = RateLimitLayer::builder()
        .clock(Clock::new(TokioClock::new()))
        .rule(even(Queue::new(3)))
        .observer(Arc::clone(&told))
        .expose_decision()
        .build()
        .unwrap();
    let inner = service_fn(async |request: Request<()>| {
        let info = request.extensions().get::<RateLimitInfo>().unwrap();
        let waited = info.waited().map(|waited| (waited.ahead(), waited.time()));
        Ok::<_, Infallible>(Response::new(format!("{waited:?}")))
    });
    let send = || layer.layer(inner).call(request(1));
    let (first, second, third) = (send(), send(), send());
    assert_eq!(
        crate::support::text_of(first.await.unwrap().into_body()).await,
        "None"
    );
    let second = crate::support::text_of(second.await.unwrap().into_body()).await;
    assert_eq!(second, "Some((0, 100ms))");
    drop(third);
    let told = told.0.lock().unwrap().clone();
    let expected = [
        "even behind 0",
        "even behind 1",
        "Admitted after 100ms",
        "Left after 100ms",
    ];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_holds_no_permit_of_the_inner_service() {
    let layer = layer([even(Queue::new(10))]);
    let mut service = layer.layer(ConcurrencyLimit::new(Fine, 1));
    let mut replies = JoinSet::new();
    for _ in 0..5 {
        replies.spawn(service.ready().await.unwrap().call(request(1)));
    }
    settled(&layer, 4).await;
    // Requests of another key go through while four wait, the one permit being free.
    let response = tokio::time::timeout(Duration::ZERO, service.ready());
    let response = response.await.unwrap().unwrap().call(request(2)).await;
    assert_eq!(response.unwrap().status(), StatusCode::OK);
    while let Some(reply) = replies.join_next().await {
        assert_eq!(reply.unwrap().unwrap().status(), StatusCode::OK);
    }
}

#[test]
fn at_most_one_rule_of_a_set_delays_and_a_window_has_no_first_stage() {
    let other = Rule::token_bucket("other", Quota::per_second(1)).wait_up_to(TENTH);
    let error = RuleSet::new([even(Queue::new(1)), other]).unwrap_err();
    assert_eq!(*error.kind(), RuleErrorKind::QueueTwice("even".to_owned()));
    assert_eq!(
        error.to_string(),
        "rules \"even\" and \"other\" both have a queue: at most one rule of a set delays"
    );
    let window = Rule::fixed_window("w", Quota::per_second(5)).queue(Queue::new(1).at_once(2));
    let error = RuleSet::new([window]).unwrap_err();
    let RuleErrorKind::Limit(error) = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(error.kind(), LimitErrorKind::NoBurst);
    // Nothing could ever pass that costs more than passes at once.
    let error = RuleSet::new([even(Queue::new(1)).cost(2)]).unwrap_err();
    let expected = RuleErrorKind::CostAboveCapacity {
        cost: 2,
        capacity: 1,
    };
    assert_eq!(*error.kind(), expected);
    assert!(RuleSet::new([even(Queue::new(1).at_once(2)).cost(2)]).is_ok());
}

/// One a minute for each `x-key`, beside a queue that all share.
fn daily() -> Rule {
    Rule::fixed_window("daily", Quota::per_minute(2)).by_fn(key_of)
}

fn shared() -> Rule {
    Rule::leaky_bucket("shared", Quota::per_second(10))
        .by(Global)
        .queue(Queue::new(5))
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_by_another_rule_takes_no_place_and_is_told_the_wait_of_that() {
    let layer = layer([daily(), shared()]);
    let spent = flood(&layer, 1, 2).join_all().await;
    assert_eq!(spent.len(), 2);
    // Nobody waits, and the other rule refuses.
    let refused = flood(&layer, 1, 1).join_all().await;
    assert_eq!(refused[0].1, 429);
    // Others wait, and the other rule refuses: at once, and in nobody's place.
    let waiting = flood(&layer, 2, 2);
    settled(&layer, 2).await;
    let refused = flood(&layer, 1, 1).join_all().await;
    assert_eq!((refused[0].1, refused[0].2), (429, Duration::ZERO));
    assert!(
        refused[0]
            .4
            .as_deref()
            .is_some_and(|wait| wait.parse::<u64>().unwrap() >= 59)
    );
    settled(&layer, 2).await;
    assert!(waiting.join_all().await.iter().all(|reply| reply.1 == 200));
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_by_another_rule_at_its_turn_charges_nothing_and_lets_the_next_go() {
    let layer = layer([daily(), shared()]);
    let first = flood(&layer, 9, 1).join_all().await;
    assert_eq!(first[0].1, 200);
    // Three of one key, which may send two, and one of another behind them.
    let mut replies = flood(&layer, 1, 3);
    let behind = flood(&layer, 2, 1);
    let mut seen = Vec::new();
    while let Some(reply) = replies.join_next().await {
        let (number, status, at, ..) = reply.unwrap();
        seen.push((number, status, at));
    }
    // The third is refused when it becomes first, since nothing is charged before; it is told then.
    assert_eq!(
        seen,
        [
            (0, 200, millis(100)),
            (1, 200, millis(200)),
            (2, 429, millis(200))
        ]
    );
    let behind = behind.join_all().await;
    assert_eq!(
        (behind[0].1, behind[0].2),
        (200, millis(300)),
        "no turn was lost"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shadowed_queue_delays_nobody() {
    let layer = layer([even(Queue::new(5)).shadowed()]);
    let replies = flood(&layer, 1, 10).join_all().await;
    assert!(
        replies
            .iter()
            .all(|reply| reply.1 == 200 && reply.2.is_zero())
    );
    // Enforced, it delays those who come from then on.
    assert!(layer.handle().set_mode("even", RuleMode::Enforced));
    let replies = flood(&layer, 1, 1).join_all().await;
    assert_eq!((replies[0].1, replies[0].2), (200, TENTH));
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_gives_its_place_back() {
    let rule = Rule::leaky_bucket("even", Quota::per_second(10)).by_fn(key_of);
    let layer = layer([rule.queue(Queue::new(1))]);
    // Hold the unit, wait A, cancel A, wait B.
    assert_eq!(flood(&layer, 1, 1).join_all().await[0].1, 200);
    let a = flood(&layer, 1, 1);
    settled(&layer, 1).await;
    assert_eq!(flood(&layer, 1, 1).join_all().await[0].1, 429, "no place");
    drop(a);
    settled(&layer, 0).await;
    let b = flood(&layer, 1, 1).join_all().await;
    assert_eq!((b[0].1, b[0].2), (200, TENTH));
}

/// Is ready when it is told to.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>, Arc<AtomicUsize>);

impl Service<Request<()>> for Gate {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let mut gate = self.0.lock().unwrap();
        if gate.0 {
            return Poll::Ready(Ok(()));
        }
        gate.1.push(cx.waker().clone());
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.1.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_between_its_turn_and_the_call_is_given_back_what_it_was_charged() {
    let rule = Rule::leaky_bucket("even", Quota::per_second(10)).by_fn(key_of);
    let layer = layer([rule.queue(Queue::new(5).at_once(2))]);
    let limit = layer_limit(&layer);
    let remaining = || layer.store().peek(&limit, &1_u64.into(), 1).remaining();
    assert_eq!(flood(&layer, 1, 2).join_all().await.len(), 2);
    let gate = Gate::default();
    let waiting = tokio::spawn(layer.layer(gate.clone()).call(request(1)));
    sleep(millis(150)).await;
    assert_eq!(
        (layer.handle().waiting(), remaining()),
        (0, 0),
        "it had its turn"
    );
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(
        remaining(),
        1,
        "half a unit was back, and half of it had drained"
    );
    assert_eq!(gate.1.load(Ordering::Relaxed), 0);
}

fn layer_limit(layer: &RateLimitLayer) -> Limit {
    let quota = Quota::per_second(10).with_burst(2);
    let limit = Limit::leaky_bucket("even", quota).unwrap();
    layer.store().supports(&limit).unwrap();
    limit
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_let_go_or_refused_when_a_service_ends() {
    for (waiters, status) in [(Waiters::Release, 200), (Waiters::Refuse, 429)] {
        let layer = layer([even(Queue::new(10)), daily().counter("minute")]);
        let replies = flood(&layer, 1, 1).join_all().await;
        assert_eq!(replies[0].1, 200);
        let mut replies = flood(&layer, 1, 3);
        settled(&layer, 3).await;
        layer.handle().set_waiters(waiters);
        let mut seen = Vec::new();
        while let Some(reply) = replies.join_next().await {
            let reply = reply.unwrap();
            assert_eq!(reply.2, Duration::ZERO);
            seen.push((reply.1, reply.4));
        }
        // The other rule lets one more go.
        let released = seen.iter().filter(|reply| reply.0 == 200).count();
        assert_eq!(released, usize::from(status == 200));
        if waiters == Waiters::Refuse {
            assert!(seen.iter().all(|reply| reply.1.as_deref() == Some("1")));
        }
        assert_eq!(layer.handle().waiting(), 0);
    }
}

/// A memory that answers after a while, as one behind a network does, and names no moments.
#[derive(Clone)]
struct Slow(Memory, Duration);

impl Store for Slow {
    type Future = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send>>;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
        let (memory, delay, peek) = (self.0.clone(), self.1, claims.is_peek());
        let own = claims
            .as_slice()
            .iter()
            .map(|claim| (claim.limit.clone(), claim.key, claim.cost, claim.mode));
        let own: Vec<_> = own.collect();
        Acquire::Later(Box::pin(async move {
            sleep(delay).await;
            let claims: Vec<_> = own
                .iter()
                .map(|(limit, key, cost, mode)| Claim {
                    limit,
                    key: *key,
                    cost: *cost,
                    mode: *mode,
                    settles: true,
                })
                .collect();
            let claims = Claims::new(&claims).unwrap();
            let claims = if peek { claims.peek() } else { claims };
            match memory.acquire(&claims) {
                Acquire::Now(answer) => answer,
                Acquire::Later(_) => unreachable!("a memory knows at once"),
            }
        }))
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        self.0.settle(receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        self.0.supports(limit)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_later_keeps_order_and_never_exceeds_the_rate() {
    let memory = Memory::builder()
        .clock(Clock::new(TokioClock::new()))
        .build();
    let rule = even(Queue::new(50));
    let layer = RateLimitLayer::builder()
        .store(Slow(memory, millis(3)))
        .rule(rule)
        .build()
        .unwrap();
    let mut replies = flood(&layer, 1, 20);
    // Some of them go away, the first while the store is being asked for it.
    sleep(millis(4)).await;
    settled(&layer, 19).await;
    let mut leaving = flood(&layer, 1, 3);
    sleep(millis(101)).await;
    leaving.abort_all();
    while leaving.join_next().await.is_some() {}
    let mut last = (0, Duration::ZERO);
    let mut count = 0;
    while let Some(reply) = replies.join_next().await {
        let (number, status, at, ..) = reply.unwrap();
        assert_eq!(status, 200);
        if count > 0 {
            assert!(number > last.0, "in order");
            let gap = at - last.1;
            // Two questions lie between two turns.
            assert!(gap >= millis(99) && gap <= millis(112), "{gap:?}");
        }
        last = (number, at);
        count += 1;
    }
    assert_eq!(count, 20);
    assert_eq!(layer.handle().waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_fails_those_who_wait_one_by_one() {
    #[derive(Clone)]
    struct Fails(Memory, Arc<AtomicUsize>);
    impl Store for Fails {
        type Future = std::future::Pending<Result<Answer, StoreError>>;
        fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
            if self.1.load(Ordering::Relaxed) > 0 {
                let kind = tower_ratekeeper::core::StoreErrorKind::Unavailable;
                return Acquire::Now(Err(StoreError::new(kind)));
            }
            self.0.acquire(claims)
        }
        fn settle(&self, receipt: Receipt, how: Settle) {
            self.0.settle(receipt, how);
        }
        fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
            self.0.supports(limit)
        }
        fn now(&self) -> Option<tower_ratekeeper::core::Nanos> {
            self.0.now()
        }
    }
    let memory = Memory::builder()
        .clock(Clock::new(TokioClock::new()))
        .build();
    let store = Fails(memory, Arc::default());
    let layer = RateLimitLayer::builder()
        .store(store.clone())
        .rule(even(Queue::new(50)));
    let layer = layer.build().unwrap();
    let mut replies = flood(&layer, 1, 4);
    assert_eq!(replies.join_next().await.unwrap().unwrap().1, 200);
    store.1.store(1, Ordering::Relaxed);
    for reply in replies.join_all().await {
        assert_eq!((reply.1, reply.2), (503, TENTH), "found out by the first");
    }
    assert_eq!(layer.handle().waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_paces_what_is_not_http_and_refuses_what_cannot_wait() {
    let limit = Limit::leaky_bucket("jobs", Quota::per_second(10)).unwrap();
    let pacer = Pacer::new(limit, Queue::new(2).at_once(4)).unwrap();
    let throttle = ThrottleLayer::new(pacer, |job: &(u64, u64)| job.0).cost(|job| job.1);
    let inner = service_fn(
        async |job: (u64, u64)| {
            if job.1 == 3 { Err("three") } else { Ok(job.1) }
        },
    );
    let start = Instant::now();
    let send = |job: (u64, u64)| {
        let reply = throttle.layer(inner).oneshot(job);
        async move { (reply.await, start.elapsed()) }
    };
    let all = tokio::join!(
        send((1, 4)),
        send((1, 2)),
        send((1, 3)),
        send((1, 1)),
        send((2, 1)),
        send((1, 0)),
        send((1, 9))
    );
    assert!(matches!(all.0, (Ok(4), at) if at.is_zero()));
    assert!(matches!(all.1, (Ok(2), at) if at == millis(200)));
    assert!(matches!(all.2, (Err(ThrottleError::Inner("three")), at) if at == millis(500)));
    let (Err(full), at) = all.3 else {
        panic!("two wait already")
    };
    assert!(at.is_zero());
    assert_eq!(full.to_string(), "the turn would come in 600 ms, too late");
    assert!(matches!(all.4, (Ok(1), at) if at.is_zero()), "another key");
    assert!(
        matches!(all.5, (Ok(0), at) if at.is_zero()),
        "nothing waits that costs nothing"
    );
    let (Err(never), _) = all.6 else {
        panic!("more than the capacity")
    };
    assert_eq!(
        never.to_string(),
        "the cost is above the capacity of the limit"
    );
}

#[tokio::test(start_paused = true)]
async fn a_throttled_request_that_goes_away_before_the_call_is_given_back_its_charge() {
    let limit = Limit::leaky_bucket("jobs", Quota::per_second(10)).unwrap();
    let pacer = Pacer::new(limit, Queue::new(5)).unwrap();
    let gate = Gate::default();
    let throttle = ThrottleLayer::new(pacer.clone(), |_: &Request<()>| 1_u64);
    let held = tokio::spawn(throttle.layer(gate.clone()).oneshot(request(1)));
    settle_tasks().await;
    held.abort();
    let _ = held.await;
    // The unit is there again at once.
    assert!(pacer.turn(1).await.unwrap().waited().is_none());

    // One that waits while the service is not ready is called when both let it.
    let waits = tokio::spawn(throttle.layer(gate.clone()).oneshot(request(1)));
    advance(TENTH).await;
    settle_tasks().await;
    assert!(!waits.is_finished());
    let wakers = {
        let mut gate = gate.0.lock().unwrap();
        gate.0 = true;
        std::mem::take(&mut gate.1)
    };
    wakers.into_iter().for_each(Waker::wake);
    waits.await.unwrap().unwrap();
    assert_eq!(gate.1.load(Ordering::Relaxed), 1);
}

async fn settle_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
