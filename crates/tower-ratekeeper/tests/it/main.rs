//! What the crate promises, asked from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod fields;
mod grpc;
mod rule_text;
mod later;
mod readiness;
mod settlement;
mod shape;
mod support;
