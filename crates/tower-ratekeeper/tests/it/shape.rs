//! What the types promise: they can be named, shared and cloned, and ask for nothing that they do not need.

use std::convert::Infallible;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ratekeeper::{
    Memory, RateLimit, RateLimitBody, RateLimitHandle, RateLimitInfo, RateLimitLayer,
    RateLimitLayerBuilder, ResponseFuture, Rule, RuleSet, SettleHandle,
};

use crate::support::{Fine, TestStore, admitted, at_once, bucket, layer, request, status};

/// What a user's own types may hold, with every type written out.
#[derive(Clone)]
struct AppState {
    limit: RateLimitLayer,
}

struct Named {
    service: RateLimit<Fine>,
    future: Option<ResponseFuture<Fine, Memory, ()>>,
}

fn is_shared<T: Send + Sync>() {}
fn is_handed_around<T: Clone + Send + Sync + fmt::Debug + 'static>() {}

#[test]
fn the_types_are_what_servers_ask_for() {
    is_handed_around::<RateLimitLayer>();
    is_handed_around::<RateLimitLayer<TestStore>>();
    is_handed_around::<RateLimit<Fine>>();
    is_handed_around::<RateLimit<Fine, TestStore>>();
    is_handed_around::<RateLimitHandle<Memory>>();
    is_handed_around::<RateLimitInfo>();
    is_handed_around::<Rule>();
    is_handed_around::<RuleSet>();
    is_handed_around::<SettleHandle>();
    is_shared::<ResponseFuture<Fine, Memory, ()>>();
    is_shared::<ResponseFuture<Fine, TestStore, ()>>();
    is_shared::<RateLimitBody<Full<Bytes>>>();
    is_shared::<RateLimitLayerBuilder>();
}

#[tokio::test]
async fn two_clones_share_one_budget() {
    let (limit, _) = layer([bucket("per-key")]);
    let state = AppState {
        limit: limit.clone(),
    };
    assert_eq!(admitted(&state.limit, 1, 6).await, 6);
    let service = limit.layer(Fine);
    let clone = service.clone();
    assert_eq!(admitted(&limit, 1, 2).await, 2);
    for (service, expected) in [
        (service, StatusCode::OK),
        (clone.clone(), StatusCode::OK),
        (clone, StatusCode::TOO_MANY_REQUESTS),
    ] {
        let response = service.oneshot(request(1)).await.unwrap();
        assert_eq!(response.status(), expected);
    }
    assert_eq!(
        status(&state.clone().limit, request(1)).await,
        StatusCode::TOO_MANY_REQUESTS
    );
}

#[test]
fn every_type_can_be_named() {
    let (limit, _) = layer([bucket("per-key")]);
    let mut named = Named {
        service: limit.layer(Fine),
        future: None,
    };
    named.future = Some(named.service.call(request(1)));
    let future = named.future.take().unwrap();
    assert_eq!(at_once(future).unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn bodies_and_errors_of_one_thread_pass() {
    #[derive(Clone, Debug)]
    struct Local(Rc<str>);
    let (limit, _) = layer([bucket("per-key").settle_by_handle()]);
    let echo = |request: Request<Rc<str>>| async move {
        let body = Local(request.into_body());
        if body.0.is_empty() {
            Err(body)
        } else {
            Ok(Response::new(body))
        }
    };
    let service = limit.layer(service_fn(echo));
    let sent = |body: &str| request(1).map(|()| Rc::from(body));
    let response = service.clone().oneshot(sent("abc")).await.unwrap();
    assert!(format!("{:?}", response.body()).contains("abc"));
    let error: Local = service.oneshot(sent("")).await.unwrap_err();
    assert!(error.0.is_empty());
}

#[tokio::test]
async fn an_infallible_service_stays_infallible() {
    fn infallible<S: Service<Request<()>, Error = Infallible>>(service: S) -> S {
        service
    }
    let (limit, _) = layer([bucket("per-key").cost(10)]);
    let service = infallible(limit.layer(Fine));
    for expected in ["ok", "quota-exceeded"] {
        let response = service.clone().oneshot(request(1)).await;
        let response = response.unwrap_or_else(|never| match never {});
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(std::str::from_utf8(&body).unwrap().contains(expected));
    }
}

#[test]
fn debug_output_names_rules_and_no_keys() {
    let (limit, _) = layer([bucket("per-key")]);
    drop(at_once(limit.layer(Fine).oneshot(request(4_711))));
    let service = limit.layer(Fine);
    for text in [
        format!("{limit:?}"),
        format!("{service:?}"),
        format!("{:?}", limit.handle()),
        format!("{:?}", limit.layer(Fine).call(request(4_711))),
        format!("{:?}", limit.store()),
    ] {
        assert!(!text.contains("4711"), "{text}");
    }
    assert_eq!(
        format!("{limit:?}"),
        r#"RateLimitLayer { rules: ["per-key"], .. }"#
    );
    assert_eq!(format!("{service:?}"), "RateLimit { inner: Fine, .. }");
}
