//! What the layer answers, to the byte: fields, waits, bodies and gRPC statuses.

mod bodies;
mod calls;
mod crowd;
mod fields;
#[cfg(feature = "tonic")]
mod tonic;
mod waits;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ratekeeper::{
    ManualClock, Quota, RateLimitBody, RateLimitLayer, RateLimitLayerBuilder, Rule, Store,
};

const SECOND: Duration = Duration::from_secs(1);

/// A builder on a clock that is moved by hand and stands at the beginning of a second.
fn builder(rules: impl IntoIterator<Item = Rule>) -> (RateLimitLayerBuilder, ManualClock) {
    let time = ManualClock::new();
    time.set_unix(Duration::from_secs(1_700_000_000));
    let builder = RateLimitLayer::builder().rules(rules).clock(time.clone());
    (builder, time)
}

/// A rule for everybody together.
fn everybody(rule: Rule) -> Rule {
    rule.by_fn(|_| 0_u64)
}

/// A fixed window of a hundred a minute without jitter, whose numbers are those of the standards.
fn hundred() -> Rule {
    let window = Rule::fixed_window("default", Quota::per_minute(100));
    everybody(window).jitter(tower_ratekeeper::Jitter::none())
}

/// A token bucket of one request a minute.
fn one_a_minute(name: &str) -> Rule {
    everybody(Rule::token_bucket(name, Quota::per_minute(1)))
}

fn request() -> Request<()> {
    Request::new(())
}

/// A service that answers everything with a clone of this response.
fn answering(
    response: Response<&'static str>,
) -> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone
{
    service_fn(move |_| {
        let response = response.clone().map(Full::from);
        async { Ok(response) }
    })
}

/// Sends a request through the layer, in front of a service with that response.
async fn send_to<St: Store>(
    layer: &RateLimitLayer<St>,
    response: Response<&'static str>,
    request: Request<()>,
) -> Response<RateLimitBody<Full<Bytes>>> {
    let sent = layer.layer(answering(response)).oneshot(request).await;
    sent.unwrap_or_else(|never| match never {})
}

/// Sends a request through the layer, in front of a service that answers with "ok".
async fn send<St: Store>(
    layer: &RateLimitLayer<St>,
    request: Request<()>,
) -> Response<RateLimitBody<Full<Bytes>>> {
    send_to(layer, Response::new("ok"), request).await
}

/// Uses up what a layer gives to everybody, and returns how many requests that took.
async fn exhaust<St: Store>(layer: &RateLimitLayer<St>) -> usize {
    let mut admitted = 0;
    while send(layer, request()).await.status().is_success() {
        admitted += 1;
    }
    admitted
}

/// The one value of a field.
fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    assert!(values.next().is_none(), "{name} stands there twice");
    Some(value.to_str().unwrap())
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    value(headers, "retry-after").map(|seconds| seconds.parse().unwrap())
}

/// The fields about limits, as lines.
fn limit_fields(headers: &HeaderMap) -> Vec<String> {
    let about_limits = headers
        .iter()
        .filter(|(name, _)| name.as_str().contains("ratelimit"));
    let mut lines: Vec<String> = about_limits
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
    lines
}

async fn text<B>(response: Response<B>) -> String
where
    B: Body<Error = Infallible>,
{
    let Ok(body) = response.into_body().collect().await;
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}
