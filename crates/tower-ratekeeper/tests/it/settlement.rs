//! How charges end: each exactly once, whatever becomes of the request.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, combinators::WithTrailers};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ratekeeper::{
    Limit, ManualClock, OnAbort, Quota, RateLimitBody, RateLimitLayer, Rule, Settle, SettleAs,
    SettleHandle,
};

use crate::support::{
    Broken, Frames, MINUTE, SECOND, TestStore, at_once, bucket, data, empty, field, full,
    poll_once, read_as_http1, request, request_to,
};

/// A rule that tells every ending apart: what was not had in full is given back.
fn telling() -> Rule {
    bucket("per-key").cost(3).on_abort(OnAbort::Refund)
}

fn setup(rule: Rule) -> (TestStore, RateLimitLayer<TestStore>) {
    let store = TestStore::now(&ManualClock::new());
    let layer = store.layer([rule]);
    (store, layer)
}

/// Sends a request to a service that answers at once with this.
async fn answered<B>(
    layer: &RateLimitLayer<TestStore>,
    request: Request<()>,
    answer: impl Fn() -> Response<B>,
) -> Response<RateLimitBody<B>> {
    let service = service_fn(|_: Request<()>| {
        let answer = answer();
        async move { Ok::<_, Infallible>(answer) }
    });
    let response = at_once(layer.layer(service).oneshot(request));
    response.unwrap_or_else(|never| match never {})
}

fn with_status<B>(status: StatusCode, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn trailers(tokens: &'static str) -> Result<Frame<Bytes>, Broken> {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-tokens", HeaderValue::from_static(tokens));
    Ok(Frame::trailers(trailers))
}

fn tokens(headers: &HeaderMap) -> Option<Settle> {
    let tokens = headers.get("x-tokens")?.to_str().ok()?.parse().ok()?;
    Some(Settle::Actual(tokens))
}

#[tokio::test]
async fn the_status_decides() {
    let by_status = bucket("logins").settle_by(|response| {
        Some(if response.status == StatusCode::UNAUTHORIZED {
            Settle::Commit
        } else {
            Settle::Refund
        })
    });
    let (store, layer) = setup(by_status);
    let logins = Limit::token_bucket("logins", Quota::per_minute(10)).unwrap();
    for status in [StatusCode::OK, StatusCode::UNAUTHORIZED] {
        let response = answered(&layer, request(1), || with_status(status, full("x"))).await;
        // Before the body, of which nothing is known.
        assert_eq!(store.endings().len(), 1 + usize::from(status != 200));
        drop(response);
    }
    assert_eq!(store.endings(), [Settle::Refund, Settle::Commit]);
    assert_eq!(store.remaining(&logins, 1), 9);
}

#[tokio::test]
async fn the_heads_fields_and_extensions_decide() {
    let by_field = bucket("tokens").settle_by(|response| tokens(response.headers));
    let (store, layer) = setup(by_field);
    answered(&layer, request(1), || {
        let mut response = Response::new(full("x"));
        response.headers_mut().insert("x-tokens", 4.into());
        response
    })
    .await;
    // Nothing decides on this one, so it stands.
    answered(&layer, request(1), || Response::new(full("x"))).await;
    assert_eq!(store.endings(), [Settle::Actual(4), Settle::Commit]);

    let (store, layer) = setup(bucket("tokens").settle_by_handle());
    answered(&layer, request(1), || {
        let mut response = Response::new(full("x"));
        response.extensions_mut().insert(SettleAs(Settle::Refund));
        response
    })
    .await;
    assert_eq!(store.endings(), [Settle::Refund]);
}

#[tokio::test]
async fn the_handles_last_word_before_the_end_counts() {
    let store = TestStore::now(&ManualClock::new());
    let layer = store.layer([
        bucket("tokens").settle_by_handle(),
        bucket("calls").settle_by_handle(),
        bucket("plain"),
    ]);
    let service = service_fn(|request: Request<()>| async move {
        let handle = request.extensions().get::<SettleHandle>().unwrap().clone();
        handle.settle(Settle::Refund);
        handle.settle_rule("tokens", Settle::Actual(7));
        let mut response = Response::new(full("x"));
        response.extensions_mut().insert(handle);
        Ok::<_, Infallible>(response)
    });
    let response = layer.layer(service).oneshot(request(1)).await.unwrap();
    assert_eq!(store.settled(), []);
    let handle = response.extensions().get::<SettleHandle>().unwrap();
    handle.settle_rule("tokens", Settle::Actual(8));
    read_as_http1(response).await;
    let settled = store.settled();
    assert_eq!(
        settled,
        [
            ("tokens".to_owned(), 1, Settle::Actual(8)),
            ("calls".to_owned(), 1, Settle::Refund)
        ]
    );
}

#[tokio::test]
async fn a_request_that_no_rule_settles_by_handle_has_none() {
    let (_, layer) = setup(telling());
    let service = service_fn(|request: Request<()>| async move {
        assert!(request.extensions().get::<SettleHandle>().is_none());
        Ok::<_, Infallible>(Response::new(empty()))
    });
    layer.layer(service).oneshot(request(1)).await.unwrap();
}

#[tokio::test]
async fn one_handle_speaks_for_all_layers_around_a_handler() {
    let clock = ManualClock::new();
    let (outside, inside) = (TestStore::now(&clock), TestStore::now(&clock));
    let service = service_fn(|request: Request<()>| async move {
        let handle = request.extensions().get::<SettleHandle>().unwrap();
        handle.settle(Settle::Actual(5));
        handle.settle_rule("inside", Settle::Actual(6));
        Ok::<_, Infallible>(Response::new(empty()))
    });
    let service = inside
        .layer([bucket("inside").settle_by_handle()])
        .layer(service);
    let service = outside
        .layer([bucket("outside").settle_by_handle()])
        .layer(service);
    drop(service.oneshot(request(1)).await.unwrap());
    assert_eq!(inside.endings(), [Settle::Actual(6)]);
    assert_eq!(outside.endings(), [Settle::Actual(5)]);
}

#[tokio::test]
async fn trailers_decide_and_a_body_without_them_stands() {
    let (store, layer) = setup(telling().settle_by_trailers(tokens));
    let with_trailers = || Response::new(Frames::new([data("x"), trailers("5")]));
    let mut body = answered(&layer, request(1), with_trailers)
        .await
        .into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(store.endings(), []);
    body.frame().await.unwrap().unwrap();
    assert_eq!(store.endings(), [Settle::Actual(5)]);
    drop(body);
    let without = || Response::new(Frames::new([data("x")]));
    answered(&layer, request(2), without)
        .await
        .collect()
        .await
        .unwrap();
    let silent = || Response::new(Frames::new([data("x"), trailers("many")]));
    answered(&layer, request(3), silent)
        .await
        .collect()
        .await
        .unwrap();
    assert_eq!(
        store.endings(),
        [Settle::Actual(5), Settle::Commit, Settle::Commit]
    );
}

/// Trailers follow also where the data has a known length.
#[tokio::test]
async fn trailers_after_a_known_length_decide() {
    let (store, layer) = setup(telling().settle_by_trailers(tokens));
    type Late = Pin<Box<dyn Future<Output = Option<Result<HeaderMap, Infallible>>> + Send + Sync>>;
    let answer = || -> Response<WithTrailers<Full<Bytes>, Late>> {
        let late = Box::pin(async {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-tokens", 5.into());
            Some(Ok(trailers))
        });
        Response::new(full("x").with_trailers(late))
    };
    let response = answered(&layer, request(1), answer).await;
    response.collect().await.unwrap();
    assert_eq!(store.endings(), [Settle::Actual(5)]);
}

#[tokio::test]
async fn a_body_read_to_its_end_is_not_one_that_was_given_up() {
    let bodies: [fn() -> Response<Frames>; 5] = [
        // Empty, and known to be.
        || Response::new(Frames::new([]).knowing_its_end()),
        // The last data is the end.
        || Response::new(Frames::new([data("ab"), data("c")]).knowing_its_end()),
        // The end has to be polled for.
        || Response::new(Frames::new([data("ab"), data("c")])),
        // The server stops reading at the length.
        || with_length(Frames::new([data("ab"), data("c")]), "3"),
        || with_length(Frames::new([]), "0"),
    ];
    for (case, body) in bodies.into_iter().enumerate() {
        let (store, layer) = setup(telling());
        read_as_http1(answered(&layer, request(1), body).await).await;
        assert_eq!(store.endings(), [Settle::Commit], "case {case}");
    }
}

fn with_length<B>(body: B, length: &'static str) -> Response<B> {
    let mut response = Response::new(body);
    let length = HeaderValue::from_static(length);
    response.headers_mut().insert("content-length", length);
    response
}

#[tokio::test]
async fn responses_whose_body_nobody_reads_end_with_their_head() {
    let head = request_to("HEAD", "/", 1);
    for (request, status) in [
        (head, StatusCode::OK),
        (request(1), StatusCode::NO_CONTENT),
        (request(1), StatusCode::NOT_MODIFIED),
        (request(1), StatusCode::SWITCHING_PROTOCOLS),
    ] {
        let (store, layer) = setup(telling());
        let answer = || with_status(status, Frames::new([data("x")]));
        let response = answered(&layer, request, answer).await;
        assert_eq!(store.endings(), [Settle::Commit], "{status}");
        drop(response);
        assert_eq!(store.endings().len(), 1, "{status}");
    }
}

/// A client that could take back its charge by going away would not be limited.
#[tokio::test]
async fn what_is_given_up_is_charged_unless_the_rule_says_otherwise() {
    for (choice, expected) in [
        (OnAbort::Charge, Settle::Commit),
        (OnAbort::Refund, Settle::Refund),
    ] {
        let rule = || {
            bucket("per-key")
                .settle_by_trailers(tokens)
                .on_abort(choice)
        };
        let given_up: [fn(&RateLimitLayer<TestStore>); 7] = [
            dropped_before_it_was_polled,
            dropped_while_the_service_works,
            the_service_fails,
            panics_in_the_call,
            panics_in_the_future,
            body_dropped_midway,
            body_breaks,
        ];
        for (case, ending) in given_up.into_iter().enumerate() {
            let (store, layer) = setup(rule());
            ending(&layer);
            assert_eq!(store.endings(), [expected], "case {case} with {choice:?}");
        }
    }
}

fn dropped_before_it_was_polled(layer: &RateLimitLayer<TestStore>) {
    let service =
        service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(empty())) });
    drop(layer.layer(service).call(request(1)));
}

fn dropped_while_the_service_works(layer: &RateLimitLayer<TestStore>) {
    let service = service_fn(|_: Request<()>| pending::<Result<Response<Frames>, Infallible>>());
    let mut response = Box::pin(layer.layer(service).oneshot(request(1)));
    assert!(poll_once(response.as_mut()).is_pending());
}

fn the_service_fails(layer: &RateLimitLayer<TestStore>) {
    let service = service_fn(|_: Request<()>| async { Err::<Response<Frames>, _>(Broken) });
    let failed = at_once(layer.layer(service).oneshot(request(1)));
    assert_eq!(failed.unwrap_err(), Broken);
}

fn panics_in_the_call(layer: &RateLimitLayer<TestStore>) {
    let service = service_fn(|_: Request<()>| {
        if true {
            std::panic::resume_unwind(Box::new("in the call"));
        }
        pending::<Result<Response<Frames>, Infallible>>()
    });
    let mut service = layer.layer(service);
    let call = AssertUnwindSafe(|| drop(service.call(request(1))));
    assert!(catch_unwind(call).is_err());
}

fn panics_in_the_future(layer: &RateLimitLayer<TestStore>) {
    let service = service_fn(|_: Request<()>| async {
        if true {
            std::panic::resume_unwind(Box::new("in the future"));
        }
        Ok::<_, Infallible>(Response::new(empty()))
    });
    let sent = layer.layer(service).oneshot(request(1));
    let call = AssertUnwindSafe(|| drop(at_once(sent)));
    assert!(catch_unwind(call).is_err());
}

fn body_dropped_midway(layer: &RateLimitLayer<TestStore>) {
    let answer = || Response::new(Frames::new([data("a"), data("b"), trailers("0")]));
    let mut body = at_once(answered(layer, request(1), answer)).into_body();
    at_once(body.frame()).unwrap().unwrap();
}

fn body_breaks(layer: &RateLimitLayer<TestStore>) {
    let answer = || Response::new(Frames::new([data("a"), Err(Broken), trailers("0")]));
    let mut body = at_once(answered(layer, request(1), answer)).into_body();
    at_once(body.frame()).unwrap().unwrap();
    assert_eq!(at_once(body.frame()).unwrap().unwrap_err(), Broken);
}

#[tokio::test]
async fn a_panic_in_the_rule_itself_settles_once() {
    let (store, layer) =
        setup(bucket("per-key").settle_by(|_| std::panic::resume_unwind(Box::new("in the rule"))));
    let answer = || Response::new(full("x"));
    let call = AssertUnwindSafe(|| drop(at_once(answered(&layer, request(1), answer))));
    assert!(catch_unwind(call).is_err());
    assert_eq!(store.endings(), [Settle::Commit]);
}

#[tokio::test]
async fn server_errors_are_given_back_so_many_times_for_each_key() {
    let clock = ManualClock::new();
    let store = TestStore::now(&clock);
    let builder = RateLimitLayer::builder().clock(clock.clone());
    let rule = bucket("per-key").refund_server_errors(Quota::per_minute(2));
    let layer = builder.store(store.clone()).rule(rule).build().unwrap();
    let fails = |key| {
        let (layer, store) = (layer.clone(), store.clone());
        async move {
            let status = StatusCode::BAD_GATEWAY;
            answered(&layer, request(key), || with_status(status, empty())).await;
            store.endings().pop().unwrap()
        }
    };
    let (back, stands) = (Settle::Refund, Settle::Commit);
    for expected in [back, back, stands, stands] {
        assert_eq!(fails(1).await, expected);
    }
    assert_eq!(fails(2).await, back);
    // The cap is kept when the rules are replaced, and counts by the layer's clock.
    let rule = bucket("per-key").refund_server_errors(Quota::per_minute(2));
    let rules = tower_ratekeeper::RuleSet::new([rule]).unwrap();
    layer.handle().replace(rules).unwrap();
    assert_eq!(fails(1).await, stands);
    clock.advance(MINUTE);
    for expected in [back, back, stands] {
        assert_eq!(fails(1).await, expected);
    }
    // Errors of the client's own making are its own.
    let bad = || with_status(StatusCode::BAD_REQUEST, empty());
    answered(&layer, request(2), bad).await;
    assert_eq!(store.endings().pop(), Some(stands));
}

#[tokio::test]
async fn what_the_handler_says_goes_before_the_refund_of_a_server_error() {
    let rule = bucket("tokens").settle_by_handle();
    let (store, layer) = setup(rule.refund_server_errors(Quota::per_minute(2)));
    let service = service_fn(|request: Request<()>| async move {
        let handle = request.extensions().get::<SettleHandle>().unwrap();
        handle.settle(Settle::Actual(4));
        Ok::<_, Infallible>(with_status(StatusCode::INTERNAL_SERVER_ERROR, empty()))
    });
    drop(layer.layer(service).oneshot(request(1)).await.unwrap());
    assert_eq!(store.endings(), [Settle::Actual(4)]);
}

#[tokio::test]
async fn a_cost_that_is_known_later_is_charged_then_up_to_the_debt() {
    for (actual, max_debt, left, retry_after) in [
        (4, 10, 6, None),
        (10, 10, 0, Some("6")),
        // Ten units above the capacity: 66 seconds until one unit fits.
        (20, 10, 0, Some("66")),
        (1_000, 10, 0, Some("66")),
        (1_000, 0, 0, Some("6")),
        (1_000, 30, 0, Some("186")),
    ] {
        let clock = ManualClock::new();
        let store = TestStore::now(&clock);
        let limit = Limit::token_bucket("tokens", Quota::per_minute(10)).unwrap();
        let limit = limit.with_max_debt(max_debt).unwrap();
        let rule = Rule::new(limit.clone()).by_fn(crate::support::key_of);
        let layer = store.layer([rule.cost_later().settle_by_handle()]);
        let service = service_fn(move |request: Request<()>| async move {
            let handle = request.extensions().get::<SettleHandle>().unwrap();
            handle.settle(Settle::Actual(actual));
            Ok::<_, Infallible>(Response::new(empty()))
        });
        let service = layer.layer(service);
        let first = service.clone().oneshot(request(1)).await.unwrap();
        // What is said of it before it is settled.
        let policy = field(&first, "ratelimit");
        assert_eq!(policy.as_deref(), Some(r#""tokens";r=10;t=60"#));
        drop(first);
        assert_eq!(store.remaining(&limit, 1), left, "{actual} of {max_debt}");
        let second = service.clone().oneshot(request(1)).await.unwrap();
        assert_eq!(field(&second, "retry-after").as_deref(), retry_after);
        if let Some(wait) = retry_after {
            assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
            clock.advance(wait.parse::<u32>().unwrap() * SECOND);
            let third = service.oneshot(request(1)).await.unwrap();
            assert_eq!(third.status(), StatusCode::OK, "{actual} of {max_debt}");
        }
    }
}

#[tokio::test]
async fn charges_of_a_refused_request_are_none() {
    let store = TestStore::now(&ManualClock::new());
    let layer = store.layer([telling(), bucket("other").cost(6).settle_by_handle()]);
    let ok = || Response::new(empty());
    answered(&layer, request(1), ok).await;
    assert_eq!(store.endings().len(), 2);
    let refused = answered(&layer, request(1), ok).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(refused);
    assert_eq!(store.endings().len(), 2);
}

#[test]
fn the_body_tells_what_the_inner_body_tells() {
    let (_, layer) = setup(telling().on_abort(OnAbort::Charge));
    let answer = || Response::new(full("four"));
    let body = at_once(answered(&layer, request(1), answer)).into_body();
    assert_eq!(body.size_hint().exact(), Some(4));
    assert!(!body.is_end_stream());
    let body = at_once(answered(&layer, request(1), || Response::new(empty()))).into_body();
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    drop(at_once(answered(&layer, request(1), || {
        Response::new(empty())
    })));
    let refused = at_once(answered(&layer, request(1), || Response::new(empty())));
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let length: u64 = field(&refused, "content-length").unwrap().parse().unwrap();
    let body = refused.into_body();
    assert_eq!(body.size_hint().exact(), Some(length));
    let read = at_once(body.collect()).unwrap().to_bytes();
    assert_eq!(read.len() as u64, length);
    assert!(RateLimitBody::<Full<Bytes>>::default().is_end_stream());
}
