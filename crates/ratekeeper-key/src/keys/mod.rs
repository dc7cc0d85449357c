//! Keys from everything but the address.

mod bearer;
mod cookie;
mod extension;
mod global;
mod grpc;
mod header;
mod host;
mod method;
pub(crate) mod percent;
mod query;
#[cfg(feature = "axum")]
mod route;
mod text;

pub use bearer::BearerToken;
pub use cookie::Cookie;
pub use extension::{Extension, by_extension};
pub use global::Global;
pub use grpc::{GrpcMethod, GrpcService};
pub use header::Header;
pub use host::Host;
pub use method::Method;
pub use query::Query;
#[cfg(feature = "axum")]
pub use route::MatchedRoute;
pub use text::{Normalized, TextExtractor};

/// The key that all values outside a known set share. Parentheses occur in no host, method or
/// gRPC name.
const OTHER: &str = "(other)";
