//! What the examples beside this package share; see `README.md` for the list of them.

#[cfg(feature = "grpc")]
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::str_to_string,
    clippy::use_self,
    reason = "it is generated"
)]
pub mod hello;

#[cfg(feature = "redis")]
mod redis_server;

use std::error::Error;
use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use tokio::net::TcpListener;
use tower::ServiceExt;
use tower_ratekeeper::key::{PeerAddr, SocketPeer};

#[cfg(feature = "redis")]
pub use redis_server::RedisServer;

/// Returns a setting from the environment, or what it is without.
#[must_use]
pub fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Returns whether the example is to assert what it shows, and end.
#[must_use]
pub fn is_check() -> bool {
    std::env::args().any(|argument| argument == "--check")
}

/// Prints where the server listens, as the first line of its output.
#[expect(clippy::print_stdout, reason = "this is what the examples print")]
pub fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}

/// Serves an app on `ADDR` until the process ends.
///
/// # Errors
///
/// When the address cannot be listened on.
pub async fn serve(app: Router) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(setting("ADDR", "127.0.0.1:3000")).await?;
    announce(listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// The address of the socket's peer, for handlers.
#[derive(Clone, Copy, Debug)]
pub struct Address(pub IpAddr);

impl<S: Sync> FromRequestParts<S> for Address {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let peer = SocketPeer::of(&parts.extensions).and_then(SocketPeer::address);
        peer.map(Self).ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// A response as a check looks at it.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body, read to its end.
    pub body: String,
}

/// Sends a GET to an app without a socket, from `peer`, and leaves the body to be read.
///
/// # Errors
///
/// When the path is none.
pub async fn open(app: &Router, peer: [u8; 4], path: &str) -> Result<Response, Box<dyn Error>> {
    let mut request = Request::get(path).body(Body::empty())?;
    request.extensions_mut().insert(PeerAddr((peer, 4711).into()));
    Ok(app.clone().oneshot(request).await?)
}

/// Sends a request to an app without a socket, from `peer`.
///
/// # Errors
///
/// When the body breaks off.
pub async fn ask(
    app: &Router,
    peer: [u8; 4],
    request: Request<Body>,
) -> Result<Reply, Box<dyn Error>> {
    let mut request = request;
    request.extensions_mut().insert(PeerAddr((peer, 4711).into()));
    let (parts, body) = app.clone().oneshot(request).await?.into_parts();
    let body = to_bytes(body, usize::MAX).await?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Reply { status: parts.status, headers: parts.headers, body })
}

/// Posts a form, as [`ask`] does.
///
/// # Errors
///
/// As [`ask`].
pub async fn post(
    app: &Router,
    peer: [u8; 4],
    path: &str,
    form: &str,
) -> Result<Reply, Box<dyn Error>> {
    let kind = "application/x-www-form-urlencoded";
    let request = Request::post(path).header("content-type", kind);
    ask(app, peer, request.body(Body::from(form.to_owned()))?).await
}

/// Sends a GET with header fields, as [`ask`] does.
///
/// # Errors
///
/// As [`ask`], and when a field cannot be sent.
pub async fn get(
    app: &Router,
    peer: [u8; 4],
    path: &str,
    fields: &[(&str, &str)],
) -> Result<Reply, Box<dyn Error>> {
    let request = fields
        .iter()
        .fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    ask(app, peer, request.body(Body::empty())?).await
}
