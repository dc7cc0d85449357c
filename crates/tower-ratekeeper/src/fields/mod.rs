//! Header fields that tell a client what it has left.
//!
//! A layer writes these fields by itself. Use this module to choose their [`FieldFormat`], to expose them to browsers, or to write
//! them from code that asks a limiter without the layer: a [`PolicySet`] holds the prepared texts of the policies, and a
//! [`Standing`] is what one response says of one of them.
//!
//! # Browsers
//!
//! A script of another origin reads none of these fields unless the response exposes them, [`EXPOSED_FIELDS`] names them all.
//! The layer that answers for cross-origin requests belongs outside the limiter, or the script never sees the refusal.

mod format;
mod policy;
mod scope;
mod set;
pub(crate) mod text;
mod write;

use http::HeaderName;

pub(crate) use self::scope::has_directive;
pub use self::{
    format::{FieldFormat, FieldFormatError, FieldFormats, Reset},
    policy::{FieldNameError, Policy, Standing, Unit},
    scope::{FieldScope, OnCacheable, OnRedirect},
    set::PolicySet,
};

/// `RateLimit`: what is left, in [`FieldFormat::Draft11`] and [`FieldFormat::Draft07`].
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// `RateLimit-Policy`: the policies, in every revision of the draft.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// `RateLimit-Limit`: the quota, in [`FieldFormat::Draft06`].
pub const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");

/// `RateLimit-Remaining`: what is left, in [`FieldFormat::Draft06`].
pub const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");

/// `RateLimit-Reset`: seconds from now, in [`FieldFormat::Draft06`].
pub const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// `X-RateLimit-Limit`: the quota, in [`FieldFormat::XRateLimit`].
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// `X-RateLimit-Remaining`: what is left, in [`FieldFormat::XRateLimit`].
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// `X-RateLimit-Reset`: a time in seconds, in [`FieldFormat::XRateLimit`]; [`Reset`] says which.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Every field that a response may carry because of a limit, for `Access-Control-Expose-Headers`.
///
/// Without it a script of another origin reads none of them, not even `Retry-After`. [`EXPOSED_FIELDS_TEXT`] is the same as one
/// header value, and [`grpc::EXPOSED_FIELDS`](crate::grpc::EXPOSED_FIELDS) adds what gRPC clients in browsers read.
pub const EXPOSED_FIELDS: [HeaderName; 9] = [
    http::header::RETRY_AFTER,
    RATELIMIT,
    RATELIMIT_POLICY,
    RATELIMIT_LIMIT,
    RATELIMIT_REMAINING,
    RATELIMIT_RESET,
    X_RATELIMIT_LIMIT,
    X_RATELIMIT_REMAINING,
    X_RATELIMIT_RESET,
];

/// [`EXPOSED_FIELDS`] as one value of `Access-Control-Expose-Headers`.
pub const EXPOSED_FIELDS_TEXT: &str = "retry-after, ratelimit, ratelimit-policy, ratelimit-limit, \
     ratelimit-remaining, ratelimit-reset, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset";
