//! What becomes of charges when a real server has sent a response, or could not.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use ratekeeper_tests::Server;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tower_ratekeeper::key::Global;
use tower_ratekeeper::{Key, Limit, ManualClock, OnAbort, Quota, RateLimitLayer, Rule};

/// Tells when it is gone.
#[derive(Clone, Debug)]
struct Gone(UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _nobody_listens = self.0.send(());
    }
}

/// A body that tells when it is gone.
#[derive(Debug)]
struct Watched {
    body: Body,
    _gone: Gone,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Plays chunks; nothing of it is known in advance.
struct Chunks(std::vec::IntoIter<&'static str>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(
            self.0
                .next()
                .map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes())))),
        )
    }
}

fn chunks() -> Body {
    Body::new(Chunks(vec!["one ", "two ", "three"].into_iter()))
}

/// One chunk, and then never anything more.
struct Endless(Option<Bytes>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None => Poll::Pending,
        }
    }
}

struct Setup {
    server: Server,
    layer: RateLimitLayer,
    gone: UnboundedReceiver<()>,
}

/// A rule that gives back what was not had in full, in front of answers of every kind.
async fn setup() -> Setup {
    let rule = Rule::token_bucket("per-client", Quota::per_minute(10)).by(Global);
    let rule = rule.cost(3).on_abort(OnAbort::Refund);
    let builder = RateLimitLayer::builder()
        .rule(rule)
        .clock(ManualClock::new());
    let layer = builder.build().unwrap();
    let (sender, gone) = unbounded_channel();
    let watched = move |body: Body| {
        let gone = Gone(sender.clone());
        Response::new(Body::new(Watched { body, _gone: gone }))
    };
    let answer = |path: &'static str, body: fn() -> Body| {
        let watched = watched.clone();
        Router::new().route(path, get(move || async move { watched(body()) }))
    };
    let sized = {
        let watched = watched.clone();
        get(move || async move {
            let mut response = watched(chunks());
            response.headers_mut().insert("content-length", 13.into());
            response
        })
    };
    let none = {
        let watched = watched.clone();
        get(move || async move {
            let mut response = watched(Body::from("never sent"));
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        })
    };
    let app = answer("/full", || Body::from("one two three"))
        .merge(answer("/empty", Body::empty))
        .merge(answer("/chunks", chunks))
        .merge(answer("/endless", || {
            Body::new(Endless(Some(Bytes::from_static(b"one "))))
        }))
        .route("/sized", sized)
        .route("/none", none)
        .layer(layer.clone());
    Setup {
        server: Server::axum(app).await,
        layer,
        gone,
    }
}

fn remaining(layer: &RateLimitLayer) -> u64 {
    let limit = Limit::token_bucket("per-client", Quota::per_minute(10)).unwrap();

    layer.store().peek(&limit, &Key::GLOBAL, 1).remaining()
}

#[tokio::test]
async fn a_response_that_was_sent_in_full_stays_charged() {
    for (method, path, body) in [
        ("GET", "/full", "one two three"),
        ("GET", "/empty", ""),
        ("GET", "/chunks", "one two three"),
        ("GET", "/sized", "one two three"),
        ("GET", "/none", ""),
        ("HEAD", "/full", ""),
        ("HEAD", "/chunks", ""),
    ] {
        let mut setup = setup().await;
        let reply = setup.server.connect().await.send(method, path).await;
        assert_eq!(reply.body, body, "{method} {path}");
        setup.gone.recv().await.unwrap();
        assert_eq!(remaining(&setup.layer), 7, "{method} {path}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_midway_is_charged_as_the_rule_says() {
    let mut setup = setup().await;
    let mut client = setup.server.connect().await;
    let mut response = client.open("GET", "/endless").await;
    let first = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "one ");
    assert_eq!(remaining(&setup.layer), 7);
    drop((response, client));
    setup.gone.recv().await.unwrap();
    assert_eq!(remaining(&setup.layer), 10);
}

#[tokio::test]
async fn a_client_that_does_not_wait_for_the_answer_is_charged_as_the_rule_says() {
    let rule = |choice| {
        Rule::token_bucket("per-client", Quota::per_minute(10))
            .by(Global)
            .cost(3)
            .on_abort(choice)
    };
    for (choice, left) in [(OnAbort::Charge, 7), (OnAbort::Refund, 10)] {
        let builder = RateLimitLayer::builder()
            .rule(rule(choice))
            .clock(ManualClock::new());
        let layer = builder.build().unwrap();
        let (sender, mut gone) = unbounded_channel();
        let (started, mut begun) = unbounded_channel();
        let app = get(move || {
            let gone = Gone(sender.clone());
            let _nobody_listens = started.send(());
            async move {
                std::future::pending::<()>().await;
                drop(gone);
            }
        });
        let app = Router::new().route("/", app).layer(layer.clone());
        let server = Server::axum(app).await;
        let mut client = server.connect().await;
        tokio::select! {
            _ = client.open("GET", "/") => panic!("there is no answer"),
            _ = begun.recv() => {}
        }
        drop(client);
        gone.recv().await.unwrap();
        assert_eq!(remaining(&layer), left, "{choice:?}");
    }
}
