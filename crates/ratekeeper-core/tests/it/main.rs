//! What a user of the crate can rely on, seen from outside.
#![allow(
    clippy::unwrap_used,
    reason = "what is set up here cannot fail, and a test may panic"
)]

mod allocations;
mod change;
mod flood;
mod logs;
mod stress;
