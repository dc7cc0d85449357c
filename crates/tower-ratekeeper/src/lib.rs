//! tower-ratekeeper

pub mod fields;
pub mod grpc;
mod problem;
mod retry;

pub use self::{problem::BodyFormat, retry::Jitter};
