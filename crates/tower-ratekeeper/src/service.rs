//! The service: decide, then answer or pass on.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use ratekeeper_core::{Memory, Store};
use tower_service::Service;

use crate::body::RateLimitBody;
use crate::decide::Verdict;
use crate::future::ResponseFuture;
use crate::shared::{Seen, Shared};

/// A service with rate limits in front; made by [`RateLimitLayer`](crate::RateLimitLayer).
///
/// A refusal is a response: the error type is the inner service's own. Nothing is charged in
/// `poll_ready`. A decision that is known at once calls the inner service that was polled ready; one
/// that has to wait, for a store or for its turn, first waits, and then readies and calls a clone, so that waiting
/// holds nothing of the inner service's.
pub struct RateLimit<S, St = Memory> {
    inner: S,
    /// Rules, store and settings; a clone of the service shares them, and so the budget.
    shared: Arc<Shared<St>>,
    rules: Seen,
}

impl<S, St> RateLimit<S, St> {
    pub(crate) fn new(inner: S, shared: Arc<Shared<St>>) -> Self {
        let rules = Seen::new(&shared);
        Self {
            inner,
            shared,
            rules,
        }
    }

    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service to change it.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service without the limits.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, St, ReqB, ResB> Service<Request<ReqB>> for RateLimit<S, St>
where
    S: Service<Request<ReqB>, Response = Response<ResB>> + Clone,
    St: Store,
{
    type Response = Response<RateLimitBody<ResB>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, St, ReqB>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let active = self.rules.now(&self.shared);
        match self.shared.decide(active, &mut parts) {
            Verdict::Pass => {
                let request = Request::from_parts(parts, body);
                ResponseFuture::inner(self.inner.call(request), None)
            }
            Verdict::Allow(mut after) => {
                after.called(&parts);
                let request = Request::from_parts(parts, body);
                ResponseFuture::inner(self.inner.call(request), Some(after))
            }
            Verdict::Refuse(response) => ResponseFuture::refused(response),
            Verdict::Wait(pending, question) => {
                // What the ready service has reserved must be free while the request waits: the
                // clone that is called in the end may need the very same permit.
                self.inner = self.inner.clone();
                let inner = self.inner.clone();
                let shared = Arc::clone(&self.shared);
                ResponseFuture::wait(inner, shared, parts, body, pending, question)
            }
        }
    }
}

impl<S: Clone, St> Clone for RateLimit<S, St> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: Arc::clone(&self.shared),
            rules: self.rules.clone(),
        }
    }
}

impl<S: fmt::Debug, St> fmt::Debug for RateLimit<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
