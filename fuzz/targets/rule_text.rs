//! The text form of rules.
#![no_main]

#[path = "../../crates/tower-ratekeeper/tests/it/rule_text/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &str| properties::rule_text(input));
