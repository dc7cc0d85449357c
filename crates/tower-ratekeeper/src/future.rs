//! The future of a response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use ratekeeper_core::Store;
use tower_service::Service;

use crate::after::After;
use crate::body::{BodyEnd, RateLimitBody, Watch};
use crate::decide::Question;
use crate::pending::Pending;
use crate::rule::ResponseHead;
use crate::shared::Shared;

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit) service.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, St, ReqB>
    where
        S: Service<Request<ReqB>>,
        St: Store,
    {
        #[pin]
        state: State<S::Future, St, Waiting<S, St, ReqB>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, St: Store, W> {
        Refused { response: Option<Response<Bytes>> },
        Inner { #[pin] future: F, after: Option<After<St>> },
        // Boxed: it is large, and only who waits for a store or a turn comes here.
        Waiting { waiting: Pin<Box<W>> },
    }
}

pin_project! {
    /// A request that waits for its decision, and then for the inner service to be ready.
    struct Waiting<S, St, ReqB>
    where
        St: Store,
    {
        service: S,
        shared: Arc<Shared<St>>,
        request: Option<(Parts, ReqB)>,
        question: Option<Question>,
        #[pin]
        pending: Pending<St::Future>,
        // Set by the decision. Dropped before the call, it gives back what was charged.
        after: Option<After<St>>,
        decided: bool,
    }
}

impl<S, St, ReqB, ResB> ResponseFuture<S, St, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<ResB>>,
    St: Store,
{
    pub(crate) fn refused(response: Response<Bytes>) -> Self {
        Self {
            state: State::Refused {
                response: Some(response),
            },
        }
    }

    /// The response of the inner service, which has been called.
    #[inline]
    pub(crate) fn inner(future: S::Future, after: Option<After<St>>) -> Self {
        Self {
            state: State::Inner { future, after },
        }
    }

    pub(crate) fn wait(
        service: S,
        shared: Arc<Shared<St>>,
        parts: Parts,
        body: ReqB,
        pending: Pending<St::Future>,
        question: Question,
    ) -> Self {
        let waiting = Waiting {
            service,
            shared,
            request: Some((parts, body)),
            question: Some(question),
            pending,
            after: None,
            decided: false,
        };
        Self {
            state: State::Waiting {
                waiting: Box::pin(waiting),
            },
        }
    }
}

impl<S, St, ReqB, ResB> Future for ResponseFuture<S, St, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<ResB>>,
    St: Store,
{
    type Output = Result<Response<RateLimitBody<ResB>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            let next = match this.state.as_mut().project() {
                StateProjection::Refused { response } => {
                    let Some(response) = response.take() else {
                        return Poll::Ready(Ok(polled_again()));
                    };
                    let (head, body) = response.into_parts();
                    let body = RateLimitBody::refusal(body);
                    return Poll::Ready(Ok(Response::from_parts(head, body)));
                }
                StateProjection::Inner { future, after } => {
                    let Some(after) = after else {
                        let response = ready!(future.poll(cx))?;
                        return Poll::Ready(Ok(with_watch(response, None)));
                    };
                    let mut response = ready!(future.poll(cx))?;
                    let watch = finish(&mut response, after);
                    return Poll::Ready(Ok(with_watch(response, watch)));
                }
                StateProjection::Waiting { waiting } => {
                    match ready!(waiting.as_mut().poll_call(cx)) {
                        Ok(state) => state,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            };
            this.state.set(next);
        }
    }
}

/// What comes after waiting.
type Next<S, St, ReqB> = State<<S as Service<Request<ReqB>>>::Future, St, Waiting<S, St, ReqB>>;

impl<S, St, ReqB, ResB> Waiting<S, St, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<ResB>>,
    St: Store,
{
    /// Waits for the decision, then for the service, and returns what comes after.
    fn poll_call(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Next<S, St, ReqB>, S::Error>> {
        let this = self.project();
        if !*this.decided {
            let arrived = ready!(this.pending.poll(cx, &this.shared.store));
            *this.decided = true;
            if let (Some((parts, _)), Some(question)) =
                (this.request.as_mut(), this.question.take())
            {
                match this
                    .shared
                    .conclude(arrived, &question.active, question.picks, parts)
                {
                    Ok(after) => *this.after = after,
                    Err(response) => {
                        return Poll::Ready(Ok(State::Refused {
                            response: Some(response),
                        }));
                    }
                }
            }
        }
        ready!(this.service.poll_ready(cx))?;
        match this.request.take() {
            Some((parts, body)) => {
                let mut after = this.after.take();
                if let Some(after) = &mut after {
                    after.called(&parts);
                }
                let future = this.service.call(Request::from_parts(parts, body));
                Poll::Ready(Ok(State::Inner { future, after }))
            }
            // Polled after it was ready: nothing is left to be answered.
            None => Poll::Ready(Ok(State::Refused { response: None })),
        }
    }
}

/// Polled after it was ready, a refusal must not turn into a success.
#[cold]
fn polled_again<B>() -> Response<RateLimitBody<B>> {
    let mut response = Response::new(RateLimitBody::default());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Puts what belongs to the response onto it, and returns who is to watch its body.
fn finish<B, St: Store>(
    response: &mut Response<B>,
    after: &mut After<St>,
) -> Option<Box<Watch<dyn BodyEnd>>> {
    after.write_fields(response);
    let After::Several(several) = after else {
        return None;
    };
    let charges = several.charges.take()?;
    let head = ResponseHead {
        status: response.status(),
        headers: response.headers(),
        extensions: response.extensions(),
    };
    // Bodies of these are never polled, so their responses end with the head.
    let status = response.status();
    let bodiless = several.bodiless
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = content_length(response.headers());
    let charges = charges.responded(&head, !bodiless)?;
    Some(Box::new(Watch::new(length, charges)))
}

#[inline]
fn with_watch<B>(
    response: Response<B>,
    watch: Option<Box<Watch<dyn BodyEnd>>>,
) -> Response<RateLimitBody<B>> {
    let (head, body) = response.into_parts();
    Response::from_parts(head, RateLimitBody::inner(body, watch))
}

/// Returns the length that the response names for its body.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl<S, St, ReqB> fmt::Debug for ResponseFuture<S, St, ReqB>
where
    S: Service<Request<ReqB>>,
    St: Store,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture(..)")
    }
}
