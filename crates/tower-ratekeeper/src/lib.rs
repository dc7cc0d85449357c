//! Per-key rate limits in front of axum, tonic, hyper and any Tower service.
//!
//! ```
//! use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
//! use tower_ratekeeper::key::{Header, Peer};
//!
//! let limits = RateLimitLayer::new([
//!     // Ten a second for each client address, and up to twenty at once.
//!     Rule::token_bucket("per-client", Quota::per_second(10).with_burst(20)).by(Peer),
//!     // A thousand exports a day for each API key, each counted as twenty.
//!     Rule::sliding_counter("exports", Quota::per_day(20_000))
//!         .by(Header::from_static("x-api-key"))
//!         .on(["GET"], ["/export/*"])
//!         .cost(20),
//! ])?;
//! // axum: Router::new().route(…).layer(limits)
//! // Tower: ServiceBuilder::new().layer(limits).service(…)
//! # Ok::<(), tower_ratekeeper::RuleError>(())
//! ```

mod active;
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
mod problem;
mod refusal;
mod retry;
mod rule;
mod ruleset;
mod service;
mod shared;

/// Everything of the core, for those who write stores or ask limits directly.
pub use ratekeeper_core as core;
#[doc(inline)]
pub use ratekeeper_core::{
    Algorithm, Clock, Decision, Key, Limit, LimitError, Limiter, ManualClock, Memory, Observer,
    Outcome, Policy, Quota, QuotaError, Settle, Store, Wait,
};
/// Keys from requests: who is asking.
pub use ratekeeper_key as key;

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
    RuleError, RuleErrorKind, RuleSet, RuleWarning, RuleWarningKind, Unmatched,
};
pub use self::service::RateLimit;
