//! Lines of `X-Forwarded-For`.
#![no_main]

#[path = "../../crates/ratekeeper-key/tests/it/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &[u8]| properties::x_forwarded_for(input));
