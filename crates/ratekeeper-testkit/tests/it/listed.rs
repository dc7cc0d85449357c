//! The macro makes a test of every property there is.

#[test]
fn every_property_is_in_the_macro() {
    let list = include_str!("../../src/conformance/mod.rs");
    let modules = [
        (
            "decisions",
            include_str!("../../src/conformance/decisions.rs"),
        ),
        (
            "reported",
            include_str!("../../src/conformance/reported.rs"),
        ),
        (
            "settlements",
            include_str!("../../src/conformance/settlements.rs"),
        ),
        ("several", include_str!("../../src/conformance/several.rs")),
        ("threads", include_str!("../../src/conformance/threads.rs")),
        ("time", include_str!("../../src/conformance/time.rs")),
    ];
    let mut properties = 0;
    for (module, source) in modules {
        for line in source.lines() {
            let Some((name, _)) = line
                .strip_prefix("pub fn ")
                .and_then(|rest| rest.split_once('<'))
            else {
                continue;
            };
            assert!(
                list.contains(&format!(" {module}::{name}\n")),
                "{module}::{name} is missing from the macro"
            );
            properties += 1;
        }
    }
    assert!(
        properties >= 50,
        "only {properties} properties were found in the sources"
    );
}
