//! A gRPC service that answers with what it was sent, written as tonic generates them.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};
use tower::Service;

/// The path of the one method.
pub const ECHO: &str = "/ratekeeper.test.Echo/Say";

/// The service.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "ratekeeper.test.Echo";
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async { Ok(tonic::server::Grpc::new(Raw).unary(Self, request).await) })
    }
}

/// Messages as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}

/// Calls the service at an address, on a channel of its own.
///
/// # Errors
///
/// What the server answers in terms of gRPC.
pub async fn say(address: SocketAddr, text: &'static str) -> Result<Response<Bytes>, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let message = Request::new(Bytes::from_static(text.as_bytes()));
    client.unary(message, ECHO.parse().unwrap(), Raw).await
}
