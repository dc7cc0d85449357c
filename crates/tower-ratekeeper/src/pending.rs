//! What a request waits for that is not decided at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use ratekeeper_core::{Answer, Store, StoreError};

use crate::queue::{Arrived, Turn};

pin_project! {
    #[project = PendingProjection]
    pub(crate) enum Pending<F> {
        /// A store's answer.
        Answer { #[pin] future: F },
        /// Its turn in a queue.
        Turn { turn: Box<Turn<F>> },
    }
}

impl<F> Pending<F>
where
    F: Future<Output = Result<Answer, StoreError>> + Send + 'static,
{
    pub(crate) fn poll<St: Store<Future = F>>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        store: &St,
    ) -> Poll<Arrived> {
        match self.project() {
            PendingProjection::Answer { future } => future.poll(cx).map(Arrived::at_once),
            PendingProjection::Turn { turn } => turn.poll(cx, store),
        }
    }
}

impl Arrived {
    /// The answer to a request that did not wait for its turn.
    pub(crate) fn at_once(answer: Result<Answer, StoreError>) -> Self {
        Self {
            answer,
            waited: None,
        }
    }
}
