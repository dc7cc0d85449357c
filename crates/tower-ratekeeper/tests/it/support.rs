//! Requests, services and stores that the tests share.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use tower::{Layer, Service, ServiceExt};
use tower_ratekeeper::core::{
    Acquire, Answer, Claim, Claims, Cost, Mode, Receipt, StoreError, StoreErrorKind,
};
use tower_ratekeeper::{
    Key, Limit, LimitError, ManualClock, Memory, Quota, RateLimitBody, RateLimitLayer, Rule,
    Settle, Store,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The number in `x-key`.
pub(crate) fn key_of(parts: &Parts) -> Option<u64> {
    parts.headers.get("x-key")?.to_str().ok()?.parse().ok()
}

/// A token bucket of ten a minute, by the number in `x-key`.
pub(crate) fn bucket(name: &str) -> Rule {
    Rule::token_bucket(name, Quota::per_minute(10)).by_fn(key_of)
}

/// A layer of these rules on a clock that is moved by hand.
pub(crate) fn layer(rules: impl IntoIterator<Item = Rule>) -> (RateLimitLayer, ManualClock) {
    let clock = ManualClock::new();
    // A store for few keys is quickly made.
    let store = Memory::builder().clock(clock.clone()).max_keys(1_024);
    let builder = RateLimitLayer::builder().store(store.build()).rules(rules);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

pub(crate) fn request_to(method: &str, path: &str, key: u64) -> Request<()> {
    let request = Request::builder().method(method).uri(path);
    request.header("x-key", key).body(()).unwrap()
}

pub(crate) fn request(key: u64) -> Request<()> {
    request_to("GET", "/", key)
}

/// Answers everything with 200 and a body of two bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fine;

impl Service<Request<()>> for Fine {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::from("ok"))))
    }
}

/// Sends a request through a layer in front of a service that is fine, and returns the head of the response.
pub(crate) async fn send<St: Store>(
    layer: &RateLimitLayer<St>,
    request: Request<()>,
) -> Response<RateLimitBody<Full<Bytes>>> {
    let sent = layer.layer(Fine).oneshot(request).await;
    sent.unwrap_or_else(|never| match never {})
}

pub(crate) async fn status<St: Store>(
    layer: &RateLimitLayer<St>,
    request: Request<()>,
) -> StatusCode {
    send(layer, request).await.status()
}

/// How many of so many requests of a key are admitted.
pub(crate) async fn admitted<St: Store>(
    layer: &RateLimitLayer<St>,
    key: u64,
    tries: usize,
) -> usize {
    let mut admitted = 0;
    for _ in 0..tries {
        admitted += usize::from(status(layer, request(key)).await == StatusCode::OK);
    }
    admitted
}

/// The one value of a field, as text.
pub(crate) fn field<B>(response: &Response<B>, name: &str) -> Option<String> {
    let mut values = response.headers().get_all(name).iter();
    let value = values.next()?;
    assert!(values.next().is_none(), "{name} stands there twice");
    Some(value.to_str().unwrap().to_owned())
}

pub(crate) async fn text_of<B>(body: B) -> String
where
    B: Body,
    B::Error: fmt::Debug,
{
    let bytes = body.collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What remains of a limit for a key, without spending any.
pub(crate) fn remaining(layer: &RateLimitLayer, limit: &Limit, key: u64) -> u64 {
    layer.store().peek(limit, &key.into(), 1).remaining()
}

/// A body that plays frames and may know when it has ended.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    frames: VecDeque<Result<Frame<Bytes>, Broken>>,
    /// Whether it tells that it has ended before it is polled for it.
    knows_its_end: bool,
}

/// The error of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Frames {
    pub(crate) fn new(frames: impl IntoIterator<Item = Result<Frame<Bytes>, Broken>>) -> Self {
        let frames = frames.into_iter().collect();
        Self {
            frames,
            knows_its_end: false,
        }
    }

    pub(crate) fn knowing_its_end(self) -> Self {
        Self {
            knows_its_end: true,
            ..self
        }
    }
}

pub(crate) fn data(text: &'static str) -> Result<Frame<Bytes>, Broken> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Poll::Ready(self.frames.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.frames.is_empty()
    }
}

/// Reads a body to its end as a server of HTTP/1 does: one that knows that it has ended is not polled once more, and neither is
/// one whose response has a length, once that much was read.
pub(crate) async fn read_as_http1<B>(response: Response<B>)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: fmt::Debug,
{
    let (parts, mut body) = response.into_parts();
    if body.is_end_stream() {
        return;
    }
    let named = parts.headers.get("content-length");
    let named = named.map(|length| length.to_str().unwrap().parse().unwrap());
    let mut left = named.or_else(|| body.size_hint().exact());
    while left != Some(0) {
        let Some(frame) = body.frame().await else {
            return;
        };
        if let Ok(data) = frame.unwrap().into_data() {
            left = left.map(|left| left - data.len() as u64);
        }
        if body.is_end_stream() {
            return;
        }
    }
}

/// Counts in a [`Memory`], writes down every settlement, and answers at once or when it is told to.
#[derive(Clone, Debug)]
pub(crate) struct TestStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: Memory,
    later: bool,
    questions: Mutex<VecDeque<Arc<Question>>>,
    settled: Mutex<Vec<(String, u64, Settle)>>,
}

#[derive(Debug)]
struct Question {
    claims: Vec<(Limit, Key, Cost, Mode)>,
    state: Mutex<QuestionState>,
}

#[derive(Debug, Default)]
struct QuestionState {
    answer: Option<Result<Answer, StoreError>>,
    waker: Option<Waker>,
    given_up: bool,
}

impl TestStore {
    /// Answers at once.
    pub(crate) fn now(clock: &ManualClock) -> Self {
        Self::new(clock, false)
    }

    /// Answers when it is told to.
    pub(crate) fn later(clock: &ManualClock) -> Self {
        Self::new(clock, true)
    }

    fn new(clock: &ManualClock, later: bool) -> Self {
        let memory = Memory::builder().clock(clock.clone()).build();
        Self(Arc::new(Inner {
            memory,
            later,
            questions: Mutex::default(),
            settled: Mutex::default(),
        }))
    }

    pub(crate) fn layer(&self, rules: impl IntoIterator<Item = Rule>) -> RateLimitLayer<Self> {
        let builder = RateLimitLayer::builder().store(self.clone()).rules(rules);
        builder.build().unwrap()
    }

    /// Decides the oldest question that still waits.
    pub(crate) fn answer(&self) {
        let question = self.next().expect("a question waits");
        let claims: Vec<Claim<'_>> = question
            .claims
            .iter()
            .map(|(limit, key, cost, mode)| Claim {
                limit,
                key: *key,
                cost: *cost,
                mode: *mode,
                // Whoever answers later gives a receipt for every charge.
                settles: true,
            })
            .collect();
        let acquired = self.0.memory.acquire(&Claims::new(&claims).unwrap());
        let Acquire::Now(answer) = acquired else {
            unreachable!("a memory knows at once")
        };
        question.resolve(answer);
    }

    /// Fails the oldest question that still waits.
    pub(crate) fn fail(&self, kind: StoreErrorKind) {
        let question = self.next().expect("a question waits");
        question.resolve(Err(StoreError::new(kind)));
    }

    fn next(&self) -> Option<Arc<Question>> {
        let mut questions = self.0.questions.lock().unwrap();
        questions.retain(|question| !question.state.lock().unwrap().given_up);
        questions.pop_front()
    }

    /// How many questions wait for an answer that somebody still wants.
    pub(crate) fn waiting(&self) -> usize {
        let questions = self.0.questions.lock().unwrap();
        let wanted = |question: &&Arc<Question>| !question.state.lock().unwrap().given_up;
        questions.iter().filter(wanted).count()
    }

    /// The settlements so far: rule, units charged, how it ended.
    pub(crate) fn settled(&self) -> Vec<(String, u64, Settle)> {
        self.0.settled.lock().unwrap().clone()
    }

    /// How the charges ended, in order.
    pub(crate) fn endings(&self) -> Vec<Settle> {
        self.settled().into_iter().map(|(_, _, how)| how).collect()
    }

    pub(crate) fn remaining(&self, limit: &Limit, key: u64) -> u64 {
        self.0.memory.peek(limit, &key.into(), 1).remaining()
    }
}

impl Question {
    fn resolve(&self, answer: Result<Answer, StoreError>) {
        let mut state = self.state.lock().unwrap();
        state.answer = Some(answer);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl Store for TestStore {
    type Future = Answering;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Answering> {
        if !self.0.later {
            let acquired = self.0.memory.acquire(claims);
            let Acquire::Now(answer) = acquired else {
                unreachable!("a memory knows at once")
            };
            return Acquire::Now(answer);
        }
        let claims = claims.as_slice().iter();
        let claims = claims.map(|claim| (claim.limit.clone(), claim.key, claim.cost, claim.mode));
        let question = Arc::new(Question {
            claims: claims.collect(),
            state: Mutex::default(),
        });
        let mut questions = self.0.questions.lock().unwrap();
        questions.push_back(Arc::clone(&question));
        Acquire::Later(Answering {
            question,
            store: self.clone(),
        })
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        let rule = receipt.limit.name().to_owned();
        let mut settled = self.0.settled.lock().unwrap();
        settled.push((rule, receipt.units, how));
        self.0.memory.settle(receipt, how);
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        self.0.memory.supports(limit)
    }
}

/// An answer that comes later. Given up when it has been decided, it gives back what it charged.
#[derive(Debug)]
pub(crate) struct Answering {
    question: Arc<Question>,
    store: TestStore,
}

impl Future for Answering {
    type Output = Result<Answer, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.question.state.lock().unwrap();
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.question.state.lock().unwrap();
        state.given_up = true;
        if let Some(Ok(answer)) = state.answer.take() {
            for receipt in answer.receipts {
                self.store.settle(receipt, Settle::Refund);
            }
        }
    }
}

/// Polls a future once.
pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What a future that never waits comes to.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match poll_once(std::pin::pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// An empty body that any service can have.
pub(crate) fn empty() -> Empty<Bytes> {
    Empty::new()
}

/// A body of this text.
pub(crate) fn full(text: &'static str) -> Full<Bytes> {
    Full::from(text)
}
