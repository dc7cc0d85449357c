//! What the crate promises, asked from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod answers;
mod costs;
mod diagnosis;
mod fields;
mod grpc;
mod hostile;
#[cfg(feature = "queue")]
mod interleavings;
mod later;
mod modes;
#[cfg(feature = "queue")]
mod pacer;
mod properties;
#[cfg(feature = "queue")]
mod queueing;
mod readiness;
mod replies;
mod rule_text;
mod rules;
mod settlement;
mod shape;
mod straight;
mod support;
mod who_is_asking;
