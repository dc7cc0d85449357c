//! Answers that gRPC clients understand.
//!
//! A gRPC client takes a problem document with status 429 for a broken message and reports INTERNAL. Where gRPC is switched on,
//! calls are told apart from other requests and refused in their own language, with a status in the headers and no body. The
//! crate needs no gRPC library for that.

mod code;
mod details;
mod kind;
mod status;

use http::HeaderName;

pub use self::{code::Code, kind::GrpcKind, status::Status};

/// `grpc-status`: the number of the [`Code`].
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// `grpc-message`: the text of the status, percent-encoded.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// `grpc-status-details-bin`: the status with its details as a protobuf message in base64.
pub const GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// `grpc-retry-pushback-ms`: how many milliseconds to wait before the call is tried again.
pub const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// What a gRPC client in a browser reads of a refused call, for `Access-Control-Expose-Headers`.
///
/// [`fields::EXPOSED_FIELDS`](crate::fields::EXPOSED_FIELDS) are the fields of all other responses.
pub const EXPOSED_FIELDS: [HeaderName; 4] = [
    GRPC_STATUS,
    GRPC_MESSAGE,
    GRPC_STATUS_DETAILS,
    GRPC_RETRY_PUSHBACK,
];

/// [`EXPOSED_FIELDS`] as one value of `Access-Control-Expose-Headers`.
pub const EXPOSED_FIELDS_TEXT: &str =
    "grpc-status, grpc-message, grpc-status-details-bin, grpc-retry-pushback-ms";
