//! The body of a response that has passed the layer: the inner one, or a refusal's bytes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Told how a body ends; dropped before that, the body was given up.
pub(crate) trait BodyEnd: Send + Sync {
    /// The trailers have passed.
    fn trailers(&mut self, trailers: &HeaderMap);

    /// The body has ended, or has nothing more but trailers, which may still come. Told once or
    /// more often.
    fn end(&self);
}

/// Watches a body for its end.
///
/// Not every reader polls until there is nothing more: one that is told the length stops there, and
/// one that is told that the body has ended never begins.
pub(crate) struct Watch<E: ?Sized> {
    /// The bytes still to come, where that is known.
    left: Option<u64>,
    end: E,
}

impl<E: BodyEnd> Watch<E> {
    /// Watches a body of this length.
    pub(crate) fn new(length: Option<u64>, end: E) -> Self {
        let watch = Self { left: length, end };
        watch.look();
        watch
    }
}

impl<E: BodyEnd + ?Sized> Watch<E> {
    fn read(&mut self, bytes: u64) {
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        self.look();
    }

    fn look(&self) {
        if self.left == Some(0) {
            self.end.end();
        }
    }
}

pin_project! {
    /// A response body of [`RateLimit`](crate::RateLimit): that of the inner service, or a refusal's.
    ///
    /// Frames, trailers, `is_end_stream` and `size_hint` are those of the body inside.
    pub struct RateLimitBody<B> {
        #[pin]
        kind: Kind<B>,
        watch: Option<Box<Watch<dyn BodyEnd>>>,
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
    pub(crate) fn inner(body: B, watch: Option<Box<Watch<dyn BodyEnd>>>) -> Self {
        Self {
            kind: Kind::Inner { body },
            watch,
        }
    }

    pub(crate) fn refusal(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self {
            kind: Kind::Refusal { bytes },
            watch: None,
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
        let mut body = match this.kind.project() {
            KindProjection::Inner { body } => body,
            KindProjection::Refusal { bytes } => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes.into()))));
            }
        };
        let Some(watch) = this.watch else {
            return body.poll_frame(cx);
        };
        watch.left = watch.left.or_else(|| body.size_hint().exact());
        let polled = body.as_mut().poll_frame(cx);
        match &polled {
            Poll::Ready(None) => {
                watch.end.end();
                *this.watch = None;
            }
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    // Nothing follows trailers, and nobody has to poll for it.
                    watch.end.trailers(trailers);
                    watch.end.end();
                    *this.watch = None;
                } else if let Some(data) = frame.data_ref() {
                    watch.read(data.remaining() as u64);
                    if body.is_end_stream() {
                        watch.end.end();
                    }
                }
            }
            Poll::Ready(Some(Err(_))) => *this.watch = None,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match (&self.kind, &self.watch) {
            (Kind::Inner { body }, None) => body.is_end_stream(),
            (Kind::Inner { body }, Some(watch)) => {
                let ended = body.is_end_stream();
                if ended {
                    // Whoever is told so does not poll for it.
                    watch.end.end();
                }
                ended
            }
            (Kind::Refusal { bytes }, _) => bytes.is_none(),
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
