//! Extractors for axum handlers.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::{RateLimitInfo, SettleHandle};

/// The decision on the request. Take an `Option` of it where the layer may not be there.
///
/// # Examples
///
/// ```
/// use axum::{Router, routing::get};
/// use tower_ratekeeper::{Quota, RateLimitInfo, RateLimitLayer, Rule};
///
/// async fn remaining(info: RateLimitInfo) -> String {
///     let left = info.outcome("per-client").map_or(0, |outcome| outcome.remaining());
///     format!("{left} more")
/// }
///
/// let limit = RateLimitLayer::builder()
///     .rule(Rule::token_bucket("per-client", Quota::per_second(10)))
///     .expose_decision()
///     .build()?;
/// let app: Router = Router::new().route("/", get(remaining)).layer(limit);
/// # Ok::<(), tower_ratekeeper::RuleError>(())
/// ```
impl<S: Sync> FromRequestParts<S> for RateLimitInfo {
    type Rejection = NotExposed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotExposed> {
        parts.extensions.get().cloned().ok_or(NotExposed(
            "no decision: build the layer with `expose_decision`",
        ))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for RateLimitInfo {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// The handle that says what the request finally cost. Take an `Option` of it where no rule that
/// settles by handle may apply.
impl<S: Sync> FromRequestParts<S> for SettleHandle {
    type Rejection = NotExposed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotExposed> {
        parts.extensions.get().cloned().ok_or(NotExposed(
            "no handle: a rule has to settle by one, with `settle_by_handle`",
        ))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for SettleHandle {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// The layer left nothing of this kind in the request: a mistake in the server, answered with 500
/// and no internals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotExposed(&'static str);

impl fmt::Display for NotExposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for NotExposed {}

impl IntoResponse for NotExposed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
