//! A store that answers later.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use http::{Request, Response, StatusCode};
use tower::{Layer, Service, ServiceExt};
use tower_ratekeeper::core::StoreErrorKind;
use tower_ratekeeper::{Limit, ManualClock, OnAbort, Quota, Rule, Settle};
use tower_test::mock;

use crate::support::{
    Broken, Fine, TestStore, at_once, bucket, field, poll_once, request, text_of,
};

type Handle = mock::Handle<Request<()>, Response<http_body_util::Full<bytes::Bytes>>>;

fn limit(name: &str) -> Limit {
    Limit::token_bucket(name, Quota::per_minute(10)).unwrap()
}

/// A mock whose clones share one handle.
fn inner() -> (
    mock::Mock<Request<()>, Response<http_body_util::Full<bytes::Bytes>>>,
    Handle,
) {
    mock::pair()
}

#[tokio::test]
async fn the_request_goes_on_when_the_answer_comes() {
    let store = TestStore::later(&ManualClock::new());
    let service = store.layer([bucket("per-key").cost(4)]).layer(Fine);
    let mut response = Box::pin(service.oneshot(request(1)));
    assert!(poll_once(response.as_mut()).is_pending());
    assert_eq!(store.waiting(), 1);
    // Polled again for another reason: nothing new is asked.
    assert!(poll_once(response.as_mut()).is_pending());
    assert_eq!(store.waiting(), 1);
    store.answer();
    let response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let standing = field(&response, "ratelimit");
    assert_eq!(standing.as_deref(), Some(r#""per-key";r=6;t=36"#));
    // The rule settles nothing: the receipt that came along is of no more use.
    drop(response);
    assert_eq!(store.endings(), []);
    assert_eq!(store.remaining(&limit("per-key"), 1), 6);
}

#[tokio::test]
async fn the_task_is_woken_by_the_answer() {
    let store = TestStore::later(&ManualClock::new());
    let service = store.layer([bucket("per-key")]).layer(Fine);
    let task = tokio::spawn(service.oneshot(request(1)));
    while store.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    store.answer();
    assert_eq!(task.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_refusal_never_reaches_the_service() {
    let store = TestStore::later(&ManualClock::new());
    let (inner, mut handle) = inner();
    handle.allow(1);
    let service = store.layer([bucket("per-key").cost(6)]).layer(inner);
    let mut first = Box::pin(service.clone().oneshot(request(1)));
    assert!(poll_once(first.as_mut()).is_pending());
    store.answer();
    assert!(poll_once(first.as_mut()).is_pending());
    let (_, _respond) = handle.next_request().await.unwrap();
    handle.allow(1);

    let mut second = Box::pin(service.oneshot(request(1)));
    assert!(poll_once(second.as_mut()).is_pending());
    store.answer();
    let refused = second.await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&refused, "retry-after").as_deref(), Some("12"));
    drop(first);
    assert!(handle.next_request().await.is_none());
    assert_eq!(store.remaining(&limit("per-key"), 1), 4);
}

#[tokio::test]
async fn dropped_while_it_waits_it_is_charged_nothing() {
    let store = TestStore::later(&ManualClock::new());
    let service = store.layer([bucket("per-key").cost(4)]).layer(Fine);
    let response = service.clone().oneshot(request(1));
    let mut polled = Box::pin(response);
    assert!(poll_once(polled.as_mut()).is_pending());
    drop(polled);
    assert_eq!(store.waiting(), 0);
    assert_eq!(store.endings(), []);

    // Decided, but nobody came for the answer: the store takes it back itself.
    let mut polled = Box::pin(service.oneshot(request(1)));
    assert!(poll_once(polled.as_mut()).is_pending());
    store.answer();
    assert_eq!(store.remaining(&limit("per-key"), 1), 6);
    drop(polled);
    assert_eq!(store.endings(), [Settle::Refund]);
    assert_eq!(store.remaining(&limit("per-key"), 1), 10);
}

#[tokio::test]
async fn dropped_before_the_service_was_ready_everything_is_given_back() {
    let store = TestStore::later(&ManualClock::new());
    let (inner, mut handle) = inner();
    handle.allow(0);
    let mut service = store
        .layer([
            bucket("plain").cost(4),
            bucket("settling").cost(3).settle_by_handle(),
            bucket("shadowed").cost(2).shadowed(),
        ])
        .layer(inner);
    let mut response = Box::pin(service.call(request(1)));
    assert!(poll_once(response.as_mut()).is_pending());
    store.answer();
    assert!(poll_once(response.as_mut()).is_pending());
    assert_eq!(store.remaining(&limit("plain"), 1), 6);
    drop(response);
    assert_eq!(store.endings(), [Settle::Refund; 3]);
    for name in ["plain", "settling", "shadowed"] {
        assert_eq!(store.remaining(&limit(name), 1), 10, "{name}");
    }
    handle.allow(1);
    drop(service);
    assert!(handle.next_request().await.is_none());
}

#[tokio::test]
async fn dropped_after_the_call_it_stays_charged() {
    for (choice, endings, left) in [
        // The receipt is of no more use: the charge stands as it is.
        (OnAbort::Charge, vec![], 6),
        (OnAbort::Refund, vec![Settle::Refund], 10),
    ] {
        let store = TestStore::later(&ManualClock::new());
        let (inner, mut handle) = inner();
        handle.allow(1);
        let rule = bucket("per-key").cost(4).on_abort(choice);
        let mut service = store.layer([rule]).layer(inner);
        let mut response = Box::pin(service.call(request(1)));
        assert!(poll_once(response.as_mut()).is_pending());
        store.answer();
        assert!(poll_once(response.as_mut()).is_pending());
        let (_, _respond) = handle.next_request().await.unwrap();
        drop(response);
        assert_eq!(store.endings(), endings);
        assert_eq!(store.remaining(&limit("per-key"), 1), left);
    }
}

#[tokio::test]
async fn a_service_that_fails_to_be_ready_gives_everything_back() {
    /// Fails whenever it is polled, except that the first one is never asked.
    #[derive(Clone)]
    struct Failing;
    impl Service<Request<()>> for Failing {
        type Response = Response<String>;
        type Error = Broken;
        type Future = std::future::Pending<Result<Response<String>, Broken>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
            Poll::Ready(Err(Broken))
        }
        fn call(&mut self, _: Request<()>) -> Self::Future {
            unreachable!("it was never ready")
        }
    }
    let store = TestStore::later(&ManualClock::new());
    let mut service = store.layer([bucket("per-key").cost(4)]).layer(Failing);
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Err(Broken)));
    let mut response = Box::pin(service.call(request(1)));
    assert!(poll_once(response.as_mut()).is_pending());
    store.answer();
    let Poll::Ready(Err(Broken)) = poll_once(response.as_mut()) else {
        panic!("the service cannot be ready")
    };
    drop(response);
    assert_eq!(store.endings(), [Settle::Refund]);
}

#[tokio::test]
async fn a_store_that_fails_is_answered_with_503() {
    for kind in [
        StoreErrorKind::Unavailable,
        StoreErrorKind::Timeout,
        StoreErrorKind::Overloaded,
        StoreErrorKind::Fault,
    ] {
        let store = TestStore::later(&ManualClock::new());
        let (inner, mut handle) = inner();
        handle.allow(1);
        let mut service = store.layer([bucket("per-key")]).layer(inner);
        let mut response = Box::pin(service.call(request(1)));
        assert!(poll_once(response.as_mut()).is_pending());
        store.fail(kind);
        let response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(field(&response, "retry-after").as_deref(), Some("1"));
        assert_eq!(
            field(&response, "cache-control").as_deref(),
            Some("no-store")
        );
        assert_eq!(field(&response, "ratelimit"), None);
        let body = text_of(response.into_body()).await;
        for word in ["per-key", "store", "deadline"] {
            assert!(!body.contains(word), "{word} in {body}");
        }
        drop(service);
        assert!(handle.next_request().await.is_none());
        assert_eq!(store.endings(), []);
    }
}

#[tokio::test]
async fn a_responder_is_told_that_no_rule_refused_when_the_store_failed() {
    let store = TestStore::later(&ManualClock::new());
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let rules = Arc::clone(&seen);
    let layer = tower_ratekeeper::RateLimitLayer::builder()
        .store(store.clone())
        .rule(bucket("per-key"))
        .respond_with(move |refusal, _| {
            rules.store(refusal.rules.len(), Ordering::Relaxed);
            Response::new("away")
        })
        .build()
        .unwrap();
    let mut response = Box::pin(layer.layer(Fine).oneshot(request(1)));
    assert!(poll_once(response.as_mut()).is_pending());
    store.fail(StoreErrorKind::Timeout);
    response.await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn many_wait_at_once_and_each_gets_its_own_answer() {
    let store = TestStore::later(&ManualClock::new());
    let service = store.layer([bucket("per-key").cost(6)]).layer(Fine);
    let mut waiting: Vec<_> = [1, 2, 1, 3]
        .map(|key| Box::pin(service.clone().oneshot(request(key))))
        .into();
    for response in &mut waiting {
        assert!(poll_once(response.as_mut()).is_pending());
    }
    drop(waiting.remove(3));
    assert_eq!(store.waiting(), 3);
    (0..3).for_each(|_| store.answer());
    let statuses: Vec<_> = waiting
        .into_iter()
        .map(|response| at_once(response).unwrap().status().as_u16())
        .collect();
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn the_rules_in_force_when_it_came_hold_for_a_request() {
    let store = TestStore::later(&ManualClock::new());
    let layer = store.layer([bucket("first").cost(6)]);
    let mut response = Box::pin(layer.layer(Fine).oneshot(request(1)));
    assert!(poll_once(response.as_mut()).is_pending());
    let other: [Rule; 1] = [bucket("second")];
    let rules = tower_ratekeeper::RuleSet::new(other).unwrap();
    layer.handle().replace(rules).unwrap();
    store.answer();
    let response: Result<_, Infallible> = response.await;
    let standing = field(&response.unwrap(), "ratelimit");
    assert_eq!(standing.as_deref(), Some(r#""first";r=4;t=24"#));
}
