//! Servers on real sockets and the clients that ask them, for the tests of this package.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on fails the test"
)]

pub mod grpc;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;

use axum::Router;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tower::{Service, ServiceExt};
use tower_ratekeeper::key::PeerAddr;

/// A server on a port of its own, gone when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Runs a server on a port that is free.
    pub async fn start<F: Future<Output = ()> + Send + 'static>(
        serve: impl FnOnce(TcpListener) -> F,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(serve(listener));
        Self { address, task }
    }

    /// Serves an axum application, which learns the addresses of its peers.
    pub async fn axum(app: Router) -> Self {
        Self::start(|listener| async move {
            let app = app.into_make_service_with_connect_info::<SocketAddr>();
            axum::serve(listener, app).await.unwrap();
        })
        .await
    }

    /// Serves any service by hyper alone, with its peers' addresses in the extensions.
    pub async fn hyper<S, B>(service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        Self::start(|listener| async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let service = service.clone().map_request(move |mut request: Request<_>| {
                    request.extensions_mut().insert(PeerAddr(peer));
                    request
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
                // An error is the client's going away.
                tokio::spawn(async { connection.await.unwrap_or_default() });
            }
        })
        .await
    }

    /// Returns the address that it listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Asks for a path on a connection of its own.
    pub async fn get(&self, path: &str) -> Reply {
        self.connect().await.send("GET", path).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection to a server, which is closed when it is dropped.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Empty<Bytes>>,
    task: JoinHandle<()>,
}

impl Client {
    /// Opens a connection to a server.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let task = tokio::spawn(async { connection.await.unwrap_or_default() });
        Self { sender, task }
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, method: &str, path: &str) -> Reply {
        let (head, body) = self.open(method, path).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Sends a request and leaves the body of the response to the caller.
    pub async fn open(&mut self, method: &str, path: &str) -> Response<Incoming> {
        self.sender.ready().await.unwrap();
        let request = Request::builder().method(method).uri(path);
        let request = request.header("host", "localhost").body(Empty::new());
        self.sender.send_request(request.unwrap()).await.unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

impl Reply {
    /// Returns a header field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.body)
    }
}
