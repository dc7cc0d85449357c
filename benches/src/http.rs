//! `layer/…`: what a layer adds to a request, without a server around it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use ratekeeper_core::{Clock, QuantaClock, Quota};
use tower::{Layer, Service, service_fn};
use tower_ratekeeper::{RateLimitLayer, Rule};

use crate::allocations;
use crate::measure::{Contest, Row, Settings, nanos, used};
use crate::peers::PLENTY;

/// Requests of one round; made before the clock starts.
const REQUESTS: usize = 500;

/// Clients that take turns.
const CLIENTS: u32 = 1_000;

pub fn rows(settings: Settings) -> Vec<Row> {
    vec![bare(settings), fields(settings), refuse(settings)]
}

/// The service behind the layers: it answers at once and allocates nothing.
pub fn inner(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    ready(Ok(Response::new(Body::empty())))
}

pub fn request(index: u32) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let address = Ipv4Addr::from(0x0a00_0000 + index % CLIENTS);
    let peer = SocketAddr::from((address, 40_000));
    request.extensions_mut().insert(ConnectInfo(peer));
    // The same for the peers that look for it elsewhere.
    request
        .extensions_mut()
        .insert(axum07::extract::ConnectInfo(peer));
    request.extensions_mut().insert(peer);
    request
}

/// Waits for a future that needs no runtime.
fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// Returns a round of requests to this service, in nanoseconds for each.
fn round<S, B>(mut service: S) -> impl FnMut() -> f64
where
    S: Service<Request<Body>, Response = Response<B>>,
{
    move || {
        let requests: Vec<_> = (0..REQUESTS as u32).map(request).collect();
        let start = Instant::now();
        for request in requests {
            used(finish(service.call(request)).is_ok());
        }
        nanos(start.elapsed()) / REQUESTS as f64
    }
}

/// Returns what one request to a service that knows its client allocates.
fn allocations<S, B>(mut service: S) -> f64
where
    S: Service<Request<Body>, Response = Response<B>>,
{
    for _ in 0..3 {
        used(finish(service.call(request(1))).is_ok());
    }
    let request = request(1);
    allocations::during(|| used(finish(service.call(request)).is_ok())) as f64
}

fn quota(tight: bool) -> Quota {
    if tight {
        Quota::per_hour(1)
    } else {
        Quota::per_second(PLENTY.into())
    }
}

pub fn ours(tight: bool, fields: bool) -> RateLimitLayer {
    ours_on(Clock::system(), tight, fields)
}

fn ours_on(clock: impl Into<Clock>, tight: bool, fields: bool) -> RateLimitLayer {
    let builder = RateLimitLayer::builder()
        .clock(clock)
        .rule(Rule::token_bucket("bench", quota(tight)));
    let builder = if fields {
        builder
    } else {
        builder.fields_when_allowed(None)
    };
    builder.build().expect("a valid rule")
}

macro_rules! tower_governor {
    ($tight:expr $(, $headers:ident)?) => {{
        let mut builder = tower_governor::governor::GovernorConfigBuilder::default();
        let (period, burst) = crate::http::period($tight);
        builder.period(period).burst_size(burst);
        let config = builder$(.$headers())?.finish().expect("a valid configuration");
        tower_governor::GovernorLayer::new(config)
    }};
}
pub(crate) use tower_governor;

/// Returns the time in which one unit comes back, and the burst.
pub fn period(tight: bool) -> (Duration, u32) {
    if tight {
        (Duration::from_secs(3_600), 1)
    } else {
        (Duration::from_nanos(1_428), PLENTY)
    }
}

pub fn axum_governor(tight: bool) -> axum_governor::GovernorLayer<std::net::IpAddr> {
    let quota = if tight {
        axum_governor::Quota::requests_per_hour(NonZeroU32::MIN)
    } else {
        axum_governor::Quota::requests_per_second(NonZeroU32::new(PLENTY).expect("not zero"))
    };
    let config = axum_governor::GovernorConfigBuilder::default()
        .with_extractor(axum_governor::extractor::PeerIp::default())
        .expect_connect_info()
        .quota_default(quota)
        .gc_disable()
        .finish();
    axum_governor::GovernorLayer::new(config.expect("a valid configuration"))
}

fn axum_gcra(tight: bool) -> axum_gcra::RateLimitLayer<axum_gcra::real_ip::RealIp> {
    let (period, burst) = period(tight);
    let burst = u64::from(burst).try_into().expect("not zero");
    axum_gcra::RateLimitLayer::builder()
        .with_default_quota(axum_gcra::gcra::Quota::new(period, burst))
        .with_global_fallback(true)
        .build()
}

macro_rules! tower_rate_limiter {
    ($tight:expr) => {{
        let (limit, window) = if $tight {
            (1, 3_600)
        } else {
            (u64::from(u32::MAX), 1)
        };
        let store = tower_rate_limiter::MemoryStore::new();
        let window = Duration::from_secs(window);
        let policy = tower_rate_limiter::FixedWindow::new(store, limit, window);
        tower_rate_limiter::RateLimitLayer::builder(tower_rate_limiter::IpKeyExtractor::new())
            .policy_name("bench")
            .with_policy(policy.expect("a valid policy"))
            .build()
            .expect("a valid layer")
    }};
}

/// Allowed requests, nothing written to their responses.
fn bare(settings: Settings) -> Row {
    let host = || service_fn(inner);
    let row = Contest::new("layer/allow/bare")
        .entry("ours", round(ours(false, false).layer(host())))
        .entry(
            "tower_governor",
            round(tower_governor!(false).layer(host())),
        )
        .entry("axum_gcra", round(axum_gcra(false).layer(host())))
        .entry(
            "ours_quanta",
            round(ours_on(QuantaClock::new(), false, false).layer(host())),
        )
        .entry("bare", round(host()))
        .run(settings.rounds(601));
    above_bare(row)
        .with(
            "ours_allocations",
            allocations(ours(false, false).layer(host())),
        )
        .with(
            "tower_governor_allocations",
            allocations(tower_governor!(false).layer(host())),
        )
        .with(
            "axum_gcra_allocations",
            allocations(axum_gcra(false).layer(host())),
        )
        .with("bare_allocations", allocations(host()))
}

/// Allowed requests whose responses carry the limit and what remains.
fn fields(settings: Settings) -> Row {
    let host = || service_fn(inner);
    let row = Contest::new("layer/allow/fields")
        .entry("ours", round(ours(false, true).layer(host())))
        .entry(
            "tower_governor",
            round(tower_governor!(false, use_headers).layer(host())),
        )
        .entry("axum_governor", round(axum_governor(false).layer(host())))
        .entry(
            "tower_rate_limiter",
            round(tower_rate_limiter!(false).layer(host())),
        )
        .entry(
            "ours_quanta",
            round(ours_on(QuantaClock::new(), false, true).layer(host())),
        )
        .entry("bare", round(host()))
        .run(settings.rounds(601));
    above_bare(row)
        .with(
            "ours_allocations",
            allocations(ours(false, true).layer(host())),
        )
        .with(
            "tower_governor_allocations",
            allocations(tower_governor!(false, use_headers).layer(host())),
        )
        .with(
            "axum_governor_allocations",
            allocations(axum_governor(false).layer(host())),
        )
        .with(
            "tower_rate_limiter_allocations",
            allocations(tower_rate_limiter!(false).layer(host())),
        )
        .with("bare_allocations", allocations(host()))
}

/// Requests of clients that have none left, each layer's own body and fields.
fn refuse(settings: Settings) -> Row {
    let host = || service_fn(inner);
    let row = Contest::new("layer/refuse")
        .entry("ours", round(ours(true, true).layer(host())))
        .entry("tower_governor", round(tower_governor!(true).layer(host())))
        .entry("axum_governor", round(axum_governor(true).layer(host())))
        .entry("axum_gcra", round(axum_gcra(true).layer(host())))
        .entry(
            "tower_rate_limiter",
            round(tower_rate_limiter!(true).layer(host())),
        )
        .entry(
            "ours_quanta",
            round(ours_on(QuantaClock::new(), true, true).layer(host())),
        )
        .entry("bare", round(host()))
        .run(settings.rounds(101));
    above_bare(row)
        .with(
            "ours_allocations",
            allocations(ours(true, true).layer(host())),
        )
        .with(
            "tower_governor_allocations",
            allocations(tower_governor!(true).layer(host())),
        )
        .with(
            "axum_governor_allocations",
            allocations(axum_governor(true).layer(host())),
        )
}

/// Adds what each contestant takes more than the bare service.
fn above_bare(mut row: Row) -> Row {
    let bare = row.get("bare");
    let above: Vec<_> = row
        .values
        .iter()
        .filter(|(name, _)| name != "bare")
        .map(|(name, value)| (format!("{name}_above_bare"), value - bare))
        .collect();
    row.values.extend(above);
    row
}
