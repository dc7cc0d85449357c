//! Header fields and queries that hold an identity.
#![no_main]

#[path = "../../crates/ratekeeper-key/tests/it/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &[u8]| properties::texts(input));
