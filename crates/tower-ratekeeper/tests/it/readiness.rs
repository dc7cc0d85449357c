//! The contract of `Service`: who is polled ready, who is called, and what is held meanwhile.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt};
use tower_ratekeeper::{Limit, ManualClock, Quota};
use tower_test::mock;

use crate::support::{Fine, TestStore, at_once, bucket, layer, poll_once, remaining, request};

/// Panics when it is called without having been polled ready; a clone has to be polled itself.
#[derive(Debug, Default)]
struct Strict {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self {
            ready: false,
            calls: Arc::clone(&self.calls),
        }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.ready, "called without having been polled ready");
        self.ready = false;
        self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Full::from("ok"))))
    }
}

#[tokio::test]
async fn a_decision_known_at_once_calls_the_service_that_was_polled_ready() {
    let (limit, _) = layer([bucket("per-key")]);
    let inner = Strict::default();
    let calls = Arc::clone(&inner.calls);
    let mut service = limit.layer(inner);
    for _ in 0..3 {
        let response = service.ready().await.unwrap().call(request(1)).await;
        assert_eq!(response.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_decision_that_comes_later_readies_and_calls_a_clone() {
    let store = TestStore::later(&ManualClock::new());
    let inner = Strict::default();
    let calls = Arc::clone(&inner.calls);
    let mut service = store.layer([bucket("per-key")]).layer(inner);
    for _ in 0..3 {
        let mut response = Box::pin(service.ready().await.unwrap().call(request(1)));
        assert!(poll_once(response.as_mut()).is_pending());
        store.answer();
        assert_eq!(response.await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_store_holds_none_of_the_inner_permits() {
    let store = TestStore::later(&ManualClock::new());
    let inner = ConcurrencyLimit::new(Fine, 1);
    let mut other = inner.clone();
    let mut service = store.layer([bucket("per-key")]).layer(inner);
    let response = service.ready().await.unwrap().call(request(1));
    // The service lives on, as in a worker that serves one request after the other.
    tokio::time::timeout(Duration::from_secs(1), other.ready())
        .await
        .expect("the permit is free while the store is asked")
        .unwrap();
    drop(other);
    store.answer();
    let response = tokio::time::timeout(Duration::from_secs(1), response).await;
    let response = response.expect("the clone gets the permit").unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn readiness_and_its_errors_are_the_inner_services() {
    let (limit, _) = layer([bucket("per-key")]);
    let (mut service, mut inner) =
        mock::spawn_layer::<Request<()>, Response<Full<Bytes>>, _>(limit);
    inner.allow(0);
    assert!(service.poll_ready().is_pending());
    inner.allow(1);
    assert!(service.poll_ready().is_ready());
    let mut response = Box::pin(service.call(request(1)));
    let (_, respond) = inner.next_request().await.unwrap();
    respond.send_response(Response::new(Full::from("ok")));
    assert!(poll_once(response.as_mut()).is_ready());

    inner.send_error("the service is broken");
    let Poll::Ready(Err(error)) = service.poll_ready() else {
        panic!("the inner service failed")
    };
    assert_eq!(error.to_string(), "the service is broken");
}

#[tokio::test]
async fn a_refused_request_never_reaches_the_service() {
    let (limit, _) = layer([bucket("per-key").cost(6)]);
    let (mut service, mut inner) =
        mock::spawn_layer::<Request<()>, Response<Full<Bytes>>, _>(limit);
    inner.allow(10);
    assert!(service.poll_ready().is_ready());
    let mut admitted = Box::pin(service.call(request(1)));
    assert!(poll_once(admitted.as_mut()).is_pending());
    assert!(service.poll_ready().is_ready());
    let refused = at_once(service.call(request(1))).unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(service.poll_ready().is_ready());
    let mut other = Box::pin(service.call(request(2)));
    assert!(poll_once(other.as_mut()).is_pending());

    // The first and the third arrived, in this order, and nothing else.
    for key in ["1", "2"] {
        let (seen, _respond) = inner.next_request().await.unwrap();
        assert_eq!(seen.headers()["x-key"], key);
    }
    drop(service);
    assert!(inner.next_request().await.is_none());
}

#[tokio::test]
async fn nothing_is_charged_before_the_call() {
    let (limit, _) = layer([bucket("per-key")]);
    let counted = Limit::token_bucket("per-key", Quota::per_minute(10)).unwrap();
    let mut service = limit.layer(Fine);
    for _ in 0..100 {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = service.poll_ready(&mut cx);
        assert!(ready.is_ready());
    }
    assert_eq!(limit.store().entries(&counted), 0);
    drop(service.call(request(1)));
    assert_eq!(remaining(&limit, &counted, 1), 9);
}

#[tokio::test]
async fn the_request_arrives_as_it_was_sent() {
    let (limit, _) = layer([bucket("per-key")]);
    let (mut service, mut inner) =
        mock::spawn_layer::<Request<&str>, Response<Full<Bytes>>, _>(limit);
    inner.allow(1);
    assert!(service.poll_ready().is_ready());
    let sent = || {
        let request = Request::put("/a//b/?c=d").header("x-key", "3");
        request.header("x-key", "4").body("the body").unwrap()
    };
    let _response = service.call(sent());
    let (seen, _) = inner.next_request().await.unwrap();
    assert_eq!(format!("{seen:?}"), format!("{:?}", sent()));
}
