//! The text form of extractors.
#![no_main]

#[path = "../../crates/ratekeeper-key/tests/it/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &str| properties::extractor_text(input));
