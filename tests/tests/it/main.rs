//! The whole, asked from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod axum;
mod endings;
mod grpc;
mod histories;
mod hyper;
mod linear;
mod shaping;
