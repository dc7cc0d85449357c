//! An answer that is on its way.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ratekeeper_core::{Answer, Settle, StoreError, StoreErrorKind};
use tokio::time::{Sleep, timeout};

use crate::store::Inner;

/// How long an answer is waited for that nobody else waits for any more.
const LATE: Duration = Duration::from_secs(30);

type Answering = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send>>;

/// The future of an answer from the server.
///
/// Dropping it before it is ready leaves nothing charged: should the server have decided, or do so
/// later, the charge is given back. One that ended in a timeout counts as charged.
#[must_use = "futures do nothing unless polled"]
pub struct Call {
    answering: Option<Answering>,
    /// Ends the wait; made when there is one.
    patience: Option<Pin<Box<Sleep>>>,
    sent: Arc<AtomicBool>,
    inner: Arc<Inner>,
}

impl Call {
    pub(crate) fn new(inner: Arc<Inner>, sent: Arc<AtomicBool>, answering: Answering) -> Self {
        Self {
            answering: Some(answering),
            patience: None,
            sent,
            inner,
        }
    }
}

impl Future for Call {
    type Output = Result<Answer, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answering) = &mut self.answering else {
            return Poll::Ready(Err(StoreError::new(StoreErrorKind::Fault)));
        };
        if let Poll::Ready(answer) = answering.as_mut().poll(context) {
            self.answering = None;
            return Poll::Ready(answer);
        }
        if self.patience.is_none() {
            // The caller may be on another runtime, or none.
            let _entered = self.inner.link.runtime().enter();
            let sleep = tokio::time::sleep(self.inner.patience);
            self.patience = Some(Box::pin(sleep));
        }
        let patience = self
            .patience
            .as_mut()
            .map(|patience| patience.as_mut().poll(context));
        if patience.is_some_and(|patience| patience.is_ready()) {
            self.answering = None;
            return Poll::Ready(Err(StoreError::new(StoreErrorKind::Timeout)));
        }
        Poll::Pending
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Relaxed: set by polling the future, which this thread has since been handed.
        if let Some(answering) = self.answering.take()
            && self.sent.load(Ordering::Relaxed)
        {
            let inner = Arc::clone(&self.inner);
            self.inner.link.runtime().spawn(async move {
                if let Ok(Ok(answer)) = timeout(LATE, answering).await {
                    for receipt in answer.receipts {
                        inner.settle(&receipt, Settle::Refund);
                    }
                }
            });
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
