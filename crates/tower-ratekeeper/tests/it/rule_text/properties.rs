//! What holds for any text of rules. The fuzz target includes this file and calls the function.

use tower_ratekeeper::Rules;

/// No text panics; what can be read is printed in one form, which reads the same; and an error
/// tells a place within the text.
pub(crate) fn rule_text(text: &str) {
    match text.parse::<Rules>() {
        Ok(rules) => {
            let printed = rules.to_string();
            let again: Rules = printed.parse().expect("what was printed can be read");
            assert_eq!(again.to_string(), printed);
            assert_eq!(again.iter().len(), rules.iter().len());
        }
        Err(error) => {
            let line = text.lines().nth(error.line() - 1).unwrap_or_default();
            assert!(error.column() <= line.chars().count() + 1, "{error}");
            assert!(!error.to_string().contains(char::is_control));
        }
    }
}
