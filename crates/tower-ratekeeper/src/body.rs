//! The body of a response that has passed the layer: the inner one, or a refusal's bytes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Told how a body ends; dropped before that, the body was given up.
pub(crate) trait BodyEnd: Send + Sync {
    /// The trailers have passed.
    fn trailers(&mut self, trailers: &HeaderMap);

    /// The body has ended.
    fn end(&mut self);
}

pin_project! {
    /// A response body of [`RateLimit`](crate::RateLimit): that of the inner service, or a refusal's.
    ///
    /// Frames, trailers, `is_end_stream` and `size_hint` are those of the body inside.
    pub struct RateLimitBody<B> {
        #[pin]
        kind: Kind<B>,
        guard: Option<Box<dyn BodyEnd>>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Refusal { bytes: Option<Bytes> },
    }
}

impl<B> RateLimitBody<B> {
    pub(crate) fn inner(body: B, guard: Option<Box<dyn BodyEnd>>) -> Self {
        Self {
            kind: Kind::Inner { body },
            guard,
        }
    }

    pub(crate) fn refusal(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self {
            kind: Kind::Refusal { bytes },
            guard: None,
        }
    }
}

/// An empty body, as services need that answer without one.
impl<B> Default for RateLimitBody<B> {
    fn default() -> Self {
        Self::refusal(Bytes::new())
    }
}

impl<B: fmt::Debug> fmt::Debug for RateLimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Inner { body } => f.debug_tuple("RateLimitBody").field(body).finish(),
            Kind::Refusal { bytes } => f.debug_tuple("RateLimitBody").field(bytes).finish(),
        }
    }
}

impl<B> Body for RateLimitBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = match this.kind.project() {
            KindProjection::Inner { body } => body.poll_frame(cx),
            KindProjection::Refusal { bytes } => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes.into()))));
            }
        };
        if let Some(guard) = this.guard {
            match &polled {
                Poll::Ready(None) => {
                    guard.end();
                    *this.guard = None;
                }
                Poll::Ready(Some(Ok(frame))) => {
                    if let Some(trailers) = frame.trailers_ref() {
                        guard.trailers(trailers);
                        // Nothing follows trailers, and nobody has to poll for it.
                        guard.end();
                        *this.guard = None;
                    }
                }
                Poll::Ready(Some(Err(_))) => *this.guard = None,
                Poll::Pending => {}
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Refusal { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Refusal { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
        }
    }
}
