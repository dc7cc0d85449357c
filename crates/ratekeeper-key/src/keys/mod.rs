//! Keys from everything but the address.

mod extension;
mod global;
mod header;
mod method;
#[cfg(feature = "axum")]
mod route;
mod text;

pub use extension::{Extension, by_extension};
pub use global::Global;
pub use header::Header;
pub use method::Method;
#[cfg(feature = "axum")]
pub use route::MatchedRoute;
pub use text::{Normalized, TextExtractor};
