//! Pacing in front of any Tower service, whatever its requests are.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use ratekeeper_core::{Key, Memory, Receipt, Settle, Store};
use tower_layer::Layer;
use tower_service::Service;

use super::{Pace, Pacer, PacerError};

type KeyOf<R> = Arc<dyn Fn(&R) -> Key + Send + Sync>;
type CostOf<R> = Arc<dyn Fn(&R) -> u64 + Send + Sync>;

/// Puts a [`Pacer`] in front of a service: jobs, messages, calls to another's API.
///
/// # Examples
///
/// ```
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
/// use tower_ratekeeper::queue::{Pacer, Queue, ThrottleLayer};
/// use tower_ratekeeper::{Limit, Quota};
///
/// struct Job { customer: u64, pages: u64 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = Limit::leaky_bucket("pages", Quota::per_second(200))?;
/// let pacer = Pacer::new(limit, Queue::new(50).at_once(100))?;
/// let service = ServiceBuilder::new()
///     .layer(ThrottleLayer::new(pacer, |job: &Job| job.customer).cost(|job| job.pages))
///     .service(service_fn(async |job: Job| Ok::<u64, std::io::Error>(job.pages)));
///
/// assert_eq!(service.oneshot(Job { customer: 7, pages: 20 }).await?, 20);
/// # Ok(())
/// # }
/// ```
pub struct ThrottleLayer<Req, St = Memory> {
    shared: Arc<Shared<Req, St>>,
}

struct Shared<Req, St> {
    pacer: Pacer<St>,
    key: KeyOf<Req>,
    cost: Option<CostOf<Req>>,
}

impl<Req, St> ThrottleLayer<Req, St> {
    /// Creates a layer in which a request waits for a turn of its key.
    #[must_use]
    pub fn new<F, K>(pacer: Pacer<St>, key: F) -> Self
    where
        F: Fn(&Req) -> K + Send + Sync + 'static,
        K: Into<Key>,
    {
        Self {
            shared: Arc::new(Shared {
                pacer,
                key: Arc::new(move |request| key(request).into()),
                cost: None,
            }),
        }
    }

    /// Sets what a request costs, in units; one unless set. Zero does not wait.
    #[must_use]
    pub fn cost<F>(self, cost: F) -> Self
    where
        F: Fn(&Req) -> u64 + Send + Sync + 'static,
    {
        Self {
            shared: Arc::new(Shared {
                pacer: self.shared.pacer.clone(),
                key: Arc::clone(&self.shared.key),
                cost: Some(Arc::new(cost)),
            }),
        }
    }

    /// Returns the pacer, to watch it and to end its waits.
    #[must_use]
    pub fn pacer(&self) -> &Pacer<St> {
        &self.shared.pacer
    }
}

impl<S, Req, St> Layer<S> for ThrottleLayer<Req, St> {
    type Service = Throttle<S, Req, St>;

    fn layer(&self, inner: S) -> Self::Service {
        Throttle {
            inner,
            shared: Arc::clone(&self.shared),
        }
    }
}

/// A service whose requests wait for their turn; made by [`ThrottleLayer`].
///
/// It is always ready: a request waits first, and then readies and calls a clone of the inner
/// service, so that waiting holds nothing of the inner service's. What may not wait fails with
/// [`ThrottleError::Pacer`]. A charge is given back when the request goes away before the inner
/// service was called.
pub struct Throttle<S, Req, St = Memory> {
    inner: S,
    shared: Arc<Shared<Req, St>>,
}

impl<S, Req, St> Service<Req> for Throttle<S, Req, St>
where
    S: Service<Req> + Clone,
    St: Store,
{
    type Response = S::Response;
    type Error = ThrottleError<S::Error>;
    type Future = ThrottleFuture<S, Req, St>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let Shared { pacer, key, cost } = &*self.shared;
        let cost = cost.as_ref().map_or(1, |cost| cost(&request));
        ThrottleFuture {
            state: State::Waiting {
                pace: pacer.turn_n(key(&request), cost),
            },
            held: Some(Held {
                request,
                service: self.inner.clone(),
            }),
            pacer: pacer.clone(),
        }
    }
}

struct Held<S, Req> {
    request: Req,
    service: S,
}

/// Gives a charge back unless it is taken out first.
struct Charge<St: Store> {
    pacer: Pacer<St>,
    receipt: Option<Receipt>,
}

impl<St: Store> Drop for Charge<St> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            self.pacer.settle(receipt, Settle::Refund);
        }
    }
}

pin_project! {
    /// The response of a [`Throttle`]. Dropped while it waits, it gives its place back.
    #[must_use = "futures do nothing unless polled"]
    pub struct ThrottleFuture<S, Req, St>
    where
        S: Service<Req>,
        St: Store,
    {
        #[pin]
        state: State<S::Future, St>,
        held: Option<Held<S, Req>>,
        pacer: Pacer<St>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, St: Store> {
        Waiting { pace: Pace<St> },
        Readying { charge: Charge<St> },
        Calling { #[pin] future: F },
    }
}

impl<S, Req, St> Future for ThrottleFuture<S, Req, St>
where
    S: Service<Req>,
    St: Store,
{
    type Output = Result<S::Response, ThrottleError<S::Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { pace } => {
                    let grant = ready!(Pin::new(pace).poll(cx)).map_err(ThrottleError::Pacer)?;
                    State::Readying {
                        charge: Charge {
                            pacer: this.pacer.clone(),
                            receipt: grant.into_receipt(),
                        },
                    }
                }
                StateProjection::Readying { charge } => {
                    let Some(held) = this.held else {
                        return Poll::Pending;
                    };
                    ready!(held.service.poll_ready(cx)).map_err(ThrottleError::Inner)?;
                    // From here on the charge stands.
                    charge.receipt = None;
                    let Some(Held {
                        request,
                        mut service,
                    }) = this.held.take()
                    else {
                        return Poll::Pending;
                    };
                    State::Calling {
                        future: service.call(request),
                    }
                }
                StateProjection::Calling { future } => {
                    return future.poll(cx).map_err(ThrottleError::Inner);
                }
            };
            this.state.set(next);
        }
    }
}

/// Why a [`Throttle`] gave no response.
#[derive(Debug)]
#[non_exhaustive]
pub enum ThrottleError<E> {
    /// There was no turn.
    Pacer(PacerError),
    /// The inner service failed.
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for ThrottleError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pacer(error) => error.fmt(f),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for ThrottleError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Pacer(error) => error.source(),
            Self::Inner(error) => error.source(),
        }
    }
}

impl<Req, St> Clone for ThrottleLayer<Req, St> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: Clone, Req, St> Clone for Throttle<S, Req, St> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<Req, St> fmt::Debug for ThrottleLayer<Req, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer")
            .field("pacer", &self.shared.pacer)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, Req, St> fmt::Debug for Throttle<S, Req, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("inner", &self.inner)
            .field("pacer", &self.shared.pacer)
            .finish_non_exhaustive()
    }
}

impl<S, Req, St> fmt::Debug for ThrottleFuture<S, Req, St>
where
    S: Service<Req>,
    St: Store,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThrottleFuture(..)")
    }
}
