//! Oracles, random traces and a conformance suite for rate-limit stores.

pub mod conformance;
pub mod oracle;
pub mod trace;
