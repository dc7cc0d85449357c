//! Per-key rate limits for axum, tonic, hyper and any Tower service.
//!
//! ```
//! use tower_ratekeeper::key::{Header, Peer};
//! use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
//!
//! let limits = RateLimitLayer::new([
//!     // Ten a second for each client address, and up to twenty at once.
//!     Rule::token_bucket("per-client", Quota::per_second(10).with_burst(20)).by(Peer),
//!     // A thousand exports a day for each API key, each counted as twenty units.
//!     Rule::sliding_counter("exports", Quota::per_day(20_000))
//!         .by(Header::from_static("x-api-key"))
//!         .on(["GET"], ["/export/*"])
//!         .cost(20),
//! ])?;
//! // axum: Router::new().route(…).layer(limits)
//! // Tower: ServiceBuilder::new().layer(limits).service(…)
//! # Ok::<(), tower_ratekeeper::RuleError>(())
//! ```
//!
//! # What it guarantees
//!
//! - No interleaving of requests admits more than the limits allow; several limits of a request are
//!   charged together, or none is.
//! - A refusal is a response, and says when to come back; the error type of the inner service is
//!   untouched, and so are its bodies.
//! - Every charge ends once: also when a future or a body is dropped, or the service panics.
//! - On a known key a request allocates nothing, apart from the header fields of its response.
//! - A request without an identity is refused; it never shares one bucket with all others.
//!
//! # What it does not do
//!
//! It does not authenticate, it does not look into bodies, and it adds no task and no thread.
//!
//! # Where the address comes from
//!
//! [`key::Peer`], the default, needs the socket's address in the extensions of a request. axum puts
//! it there with `into_make_service_with_connect_info::<SocketAddr>()` (feature `axum`), tonic by
//! itself (feature `tonic`), and a plain hyper server by inserting a [`key::PeerAddr`]. Without it
//! requests are answered with 500, and a line in the log names the remedy. Behind a proxy the peer
//! is the proxy: see [`key::ClientIp`], and the guide in [`key`].
//!
//! # Order of layers
//!
//! CORS goes outside the limits, or a browser cannot read a refusal; what finds out who the user is
//! goes outside as well, where a rule counts by user. Timeouts and buffers go inside. [`replies`] tells
//! more of that, of what clients read, and of streams.
//!
//! # Features
//!
//! None is on by default; without them the crate needs neither axum, tonic nor tokio.
//!
//! | feature | adds |
//! |---|---|
//! | `axum` | peers from `ConnectInfo`, matched routes, extractors for handlers |
//! | `tonic` | peers from tonic's connection information, limited services for its routes |
//! | `quanta` | [`core::QuantaClock`](crate::core), for [`RateLimitLayerBuilder::clock`]: half the time of the system's to read |
//! | `queue` | rules that delay instead of refusing, and pacing without HTTP; in the module of that name |
//! | `serde` | rules in configuration files: TOML, YAML, JSON; see [`rules`] |
//! | `redis` | the store that a fleet shares, and what to do while it is away |
//! | `tracing` | diagnoses as events; without it they go to standard error |
//!
//! The minimum supported Rust version is 1.88.

mod active;
mod after;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod charges;
mod decide;
mod diagnose;
mod extension;
pub mod fields;
mod future;
pub mod grpc;
mod handle;
mod layer;
mod number;
mod partition;
mod pending;
mod problem;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(not(feature = "queue"))]
#[path = "queue_off.rs"]
mod queue;
mod refusal;
#[doc = include_str!("replies.md")]
pub mod replies {}
mod report;
mod retry;
mod rule;
#[doc = include_str!("rules.md")]
pub mod rules {}
mod ruleset;
mod service;
mod shared;
#[cfg(feature = "queue")]
mod sync;
#[cfg(feature = "tonic")]
mod tonic;

/// Everything of the core, for those who write stores or ask limits directly.
pub use ratekeeper_core as core;
#[doc(inline)]
pub use ratekeeper_core::{
    Algorithm, Clock, Decision, Key, Limit, LimitError, Limiter, ManualClock, Memory, Observer,
    Outcome, Policy, Quota, QuotaError, Settle, Store, Wait,
};
/// Keys from requests: who is asking.
pub use ratekeeper_key as key;
/// Limits that a fleet shares through Redis or Valkey; wrap the store in
/// [`WithFallback`](crate::core::WithFallback).
#[cfg(feature = "redis")]
pub use ratekeeper_redis as redis;

#[cfg(feature = "axum")]
pub use self::axum::NotExposed;
pub use self::body::RateLimitBody;
pub use self::extension::RateLimitInfo;
pub use self::future::ResponseFuture;
pub use self::handle::RateLimitHandle;
pub use self::layer::{Grpc, RateLimitLayer, RateLimitLayerBuilder};
pub use self::problem::BodyFormat;
pub use self::refusal::{Reason, Refusal, RespondWith, Responder};
pub use self::retry::Jitter;
pub use self::rule::{
    OnAbort, Pattern, PatternError, Place, ResponseHead, Rule, RuleMode, SettleAs, SettleHandle,
    Share,
};
pub use self::ruleset::{
    RuleError, RuleErrorKind, RuleSet, RuleTextError, RuleTextErrorKind, RuleWarning,
    RuleWarningKind, Rules, Unmatched,
};
pub use self::service::RateLimit;

/// The README's snippets are compiled.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
