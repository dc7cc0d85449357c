//! Lists of parts of a key.
#![no_main]

#[path = "../../crates/ratekeeper-key/tests/it/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &[u8]| properties::key_bytes(input));
