//! The shared store against a server of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a helper of a test that cannot go on fails the test; skips and counts are printed"
)]

mod agreement;
mod conformance;
mod failures;
mod fleet;
mod keys;
mod rollout;
mod support;
