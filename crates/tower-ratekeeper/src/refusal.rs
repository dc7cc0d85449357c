//! Refusals, and the responses that tell clients of them.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use ratekeeper_core::{Decision, Store, Wait};
use ratekeeper_key::{KeyError, KeyErrorKind};

use crate::active::{Active, Pick};
use crate::fields::has_directive;
use crate::grpc::{GrpcKind, Status};
use crate::layer::Grpc;
use crate::number::number;
use crate::problem::Problem;
use crate::report::Report;
use crate::retry::{Jitter, retry_after_seconds};
use crate::shared::Shared;

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Why a request was refused, and what the client is told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// Why.
    pub reason: Reason,
    /// The status that the response will have unless a [`Responder`] chooses another.
    pub status: StatusCode,
    /// How long until the same request would be admitted.
    pub wait: Wait,
    /// The seconds of `Retry-After`; `None` where no wait helps or nobody can tell.
    pub retry_after: Option<u64>,
    /// The names of the rules that refuse, in their order.
    pub rules: &'a [&'a str],
    /// The decision of all limits, where it came to one.
    pub decision: Option<&'a Decision>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A limit is exceeded, or a plan admits nothing.
    Limited,
    /// The request does not say who is asking.
    NoKey(KeyError),
    /// The request costs more than any single one may.
    TooCostly,
    /// The store could not decide, and the limit is to hold nevertheless.
    StoreFailed,
    /// More rules apply to the request than one request can have.
    TooManyRules,
}

/// Makes the response to a refused request.
///
/// The fields that the response sets stay as they are; `Retry-After`, the rate limit fields and
/// `Cache-Control: no-store` are added where it does not; to another `Cache-Control`, on a line of
/// its own. gRPC calls do not come here where gRPC is switched on.
pub trait Responder: Send + Sync + 'static {
    /// Returns the response.
    fn respond(&self, refusal: &Refusal<'_>, parts: &Parts) -> Response<Bytes>;
}

/// A closure as a [`Responder`]; made by
/// [`respond_with`](crate::RateLimitLayerBuilder::respond_with).
#[derive(Clone)]
pub struct RespondWith<F>(pub(crate) F);

impl<F> fmt::Debug for RespondWith<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RespondWith(..)")
    }
}

impl<F, B> Responder for RespondWith<F>
where
    F: Fn(&Refusal<'_>, &Parts) -> Response<B> + Send + Sync + 'static,
    B: Into<Bytes>,
{
    fn respond(&self, refusal: &Refusal<'_>, parts: &Parts) -> Response<Bytes> {
        (self.0)(refusal, parts).map(Into::into)
    }
}

impl fmt::Debug for dyn Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dyn Responder")
    }
}

impl Reason {
    fn problem<'a>(&self, rules: &'a [&'a str]) -> Problem<'a> {
        match self {
            Self::Limited => Problem::QuotaExceeded { policies: rules },
            Self::NoKey(error) => match error.kind() {
                KeyErrorKind::Missing => Problem::KeyMissing,
                KeyErrorKind::Malformed => Problem::KeyMalformed,
                KeyErrorKind::Forbidden => Problem::KeyForbidden,
                _ => Problem::AddressUnknown,
            },
            Self::TooCostly => Problem::CostTooLarge,
            Self::StoreFailed | Self::TooManyRules => Problem::StoreUnavailable,
        }
    }
}

impl<St: Store> Shared<St> {
    /// Answers a request that the decision of its limits refuses.
    pub(crate) fn refuse_limited(
        &self,
        active: &Active,
        report: &Report<'_>,
        parts: &Parts,
    ) -> Response<Bytes> {
        let mut names = [""; ratekeeper_core::MAX_CLAIMS];
        let mut count = 0;
        let mut first: Option<Pick> = None;
        let mut jitter = Jitter::none();
        for (_, outcome, pick) in report.enforced() {
            if outcome.is_allowed() {
                continue;
            }
            let rule = active.rule(pick);
            names[count] = &rule.name;
            count += 1;
            first = first.or(Some(pick));
            if rule.jitter.bound() > jitter.bound() {
                jitter = rule.jitter;
            }
        }
        let status = first.map_or(StatusCode::TOO_MANY_REQUESTS, |pick| {
            active.rule(pick).status
        });
        // Only a responder looks at it.
        let decision = self.settings.responder.as_ref().map(|_| report.decision());
        let mut refusal = Refusal {
            reason: Reason::Limited,
            status,
            wait: report.wait(),
            retry_after: None,
            rules: &names[..count],
            decision: decision.as_ref(),
        };
        if let Wait::For(wait) = &mut refusal.wait
            && !jitter.bound().is_zero()
        {
            *wait = jitter.add(*wait, self.draws.next());
        }
        refusal.retry_after = self.retry_after(&refusal.wait);
        let only = first.filter(|_| count == 1);
        self.respond(&refusal, Some((active, report)), only, parts)
    }

    /// Answers a request that never came to a decision of limits.
    pub(crate) fn refuse(&self, reason: Reason, rule: &str, parts: &Parts) -> Response<Bytes> {
        let (status, wait) = match &reason {
            Reason::NoKey(error) => (error.status(), Wait::Never),
            Reason::StoreFailed => (
                StatusCode::SERVICE_UNAVAILABLE,
                Wait::For(Duration::from_secs(1)),
            ),
            Reason::TooManyRules => (StatusCode::INTERNAL_SERVER_ERROR, Wait::Never),
            Reason::TooCostly => (StatusCode::PAYLOAD_TOO_LARGE, Wait::Never),
            Reason::Limited => (StatusCode::TOO_MANY_REQUESTS, Wait::Never),
        };
        let names = [rule];
        // What no rule is to blame for names none.
        let names = if rule.is_empty() { &[] } else { &names[..] };
        let refusal = Refusal {
            reason,
            status,
            wait,
            retry_after: self.retry_after(&wait),
            rules: names,
            decision: None,
        };
        self.respond(&refusal, None, None, parts)
    }

    fn retry_after(&self, wait: &Wait) -> Option<u64> {
        match wait {
            Wait::For(wait) => Some(retry_after_seconds(*wait, self.settings.retry_after_cap)),
            Wait::None | Wait::Unknown | Wait::Never => None,
        }
    }

    #[inline]
    fn respond(
        &self,
        refusal: &Refusal<'_>,
        fields: Option<(&Active, &Report<'_>)>,
        only: Option<Pick>,
        parts: &Parts,
    ) -> Response<Bytes> {
        let problem = refusal.reason.problem(refusal.rules);
        let call = self.settings.grpc.as_ref().and_then(|grpc| {
            let kind = GrpcKind::of(&parts.method, &parts.headers)?;
            Some((grpc, kind))
        });
        match (call, &self.settings.responder) {
            (None, None) => {
                // That of a refusal by one rule alone is prepared.
                let body = match (fields, only) {
                    (Some((active, _)), Some(rule)) => active.refusal_body(rule),
                    _ => problem.body(self.settings.body, refusal.status),
                };
                self.plain_response(refusal, fields, body)
            }
            (Some((grpc, kind)), _) => {
                let status = self.grpc_status(grpc, problem, refusal);
                let mut response = status.into_response(kind).map(|()| Bytes::new());
                if let Some((active, report)) = fields {
                    active.write_fields(report, refusal.retry_after, response.headers_mut());
                }
                add_the_rest(response.headers_mut(), refusal, 0);
                response
            }
            (None, Some(responder)) => {
                let mut response = responder.respond(refusal, parts);
                if let Some((active, report)) = fields {
                    let mut own = HeaderMap::new();
                    active.write_fields(report, refusal.retry_after, &mut own);
                    add_missing(response.headers_mut(), own);
                }
                let length = response.body().len();
                add_the_rest(response.headers_mut(), refusal, length);
                response
            }
        }
    }

    /// Answers without anybody's help: nothing is there before it is put there.
    #[inline]
    fn plain_response(
        &self,
        refusal: &Refusal<'_>,
        fields: Option<(&Active, &Report<'_>)>,
        body: Bytes,
    ) -> Response<Bytes> {
        // Room for all that there may be.
        let mut headers = HeaderMap::with_capacity(6);
        if let Some(content_type) = self.settings.body.content_type() {
            headers.insert(CONTENT_TYPE, content_type);
        }
        if let Some((active, report)) = fields {
            active.write_fields(report, refusal.retry_after, &mut headers);
        }
        // As `add_the_rest` does.
        if let Some(seconds) = refusal.retry_after {
            headers.insert(RETRY_AFTER, number(seconds));
        }
        headers.insert(CACHE_CONTROL, NO_STORE);
        if !body.is_empty() {
            headers.insert(CONTENT_LENGTH, number(body.len() as u64));
        }
        let mut response = Response::new(body);
        *response.status_mut() = refusal.status;
        *response.headers_mut() = headers;
        response
    }

    fn grpc_status<'a>(
        &self,
        grpc: &'a Grpc,
        problem: Problem<'_>,
        refusal: &Refusal<'a>,
    ) -> Status<'a> {
        let limited = refusal.reason == Reason::Limited;
        let code = if limited { grpc.code } else { problem.code() };
        let mut status = Status::new(code, problem.detail()).domain(&grpc.domain);
        if limited {
            status = status.policies(refusal.rules);
        }
        match refusal.wait {
            Wait::For(wait) => {
                let cap = self.settings.retry_after_cap.max(1);
                status.retry_after(wait.min(Duration::from_secs(cap)))
            }
            Wait::Never if limited => status.never_retry(),
            Wait::None | Wait::Unknown | Wait::Never => status,
        }
    }
}

/// Adds what every refusal carries: when to come back, that it is not to be stored, and how long
/// its body is.
fn add_the_rest(headers: &mut HeaderMap, refusal: &Refusal<'_>, length: usize) {
    if let Some(seconds) = refusal.retry_after {
        add(headers, RETRY_AFTER, number(seconds));
    }
    // Beside what a responder says of caches: a stored refusal would outlast the limit.
    if !has_directive(headers, "no-store") {
        let _full = headers.try_append(CACHE_CONTROL, NO_STORE);
    }
    // Known now, so that HEAD is answered with the same fields as GET.
    if length > 0 {
        add(headers, CONTENT_LENGTH, number(length as u64));
    }
}

/// Adds the fields, of one value each, that are not there yet.
fn add_missing(headers: &mut HeaderMap, fields: HeaderMap) {
    for (name, value) in fields {
        if let Some(name) = name {
            add(headers, name, value);
        }
    }
}

/// Adds a field that is not there yet. A response that has no room for another goes out without it.
fn add(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    if !headers.contains_key(&name) {
        let _full = headers.try_insert(name, value);
    }
}
