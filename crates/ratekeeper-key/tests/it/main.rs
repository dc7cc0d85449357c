//! What the extractors promise, through the public interface only.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod address_table;
mod allocations;
mod any_input;
mod client_ip;
mod exempt;
mod extractors;
mod identities;
mod networks;
mod properties;
mod registry;
mod support;
