//! The rules of a replay, in the text form that servers are configured with.
//!
//! The text is read by [`tower_ratekeeper::Rules`], so that what a server takes is what a replay
//! takes, and then looked at for what a log can tell: the keys `ip`, `user`, `host`, `method` and
//! `path`, and combinations of them.

mod key;
mod read;

use std::fmt;
use std::str::FromStr;

use ratekeeper_core::Limit;
use tower_ratekeeper::Pattern;

pub use self::key::{KeyPart, KeyParts};

/// The most rules of one replay.
pub const MAX_RULES: usize = 32;

/// A limit, whom it counts for, and the requests that it applies to.
///
/// # Examples
///
/// ```
/// use ratekeeper::rules::Rule;
///
/// let rule: Rule = "per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*".parse()?;
/// assert!(rule.on.applies(b"HEAD", b"/api/users"));
/// assert!(!rule.on.applies(b"DELETE", b"/api/users"));
///
/// let error = "per-key: token-bucket 60/min by header:x-api-key".parse::<Rule>().unwrap_err();
/// assert!(error.to_string().contains("a log does not tell the key \"header:x-api-key\""));
/// # Ok::<(), ratekeeper::rules::RuleError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// The name, the algorithm and the quota.
    pub limit: Limit,
    /// What is taken of a request as its key.
    pub key: KeyParts,
    /// The requests that the rule applies to.
    pub on: On,
    /// The units that a request costs.
    pub cost: u64,
    /// The rule counts, but refuses nothing.
    pub shadowed: bool,
    text: String,
}

/// The methods and paths that a rule applies to; empty lists apply to all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct On {
    /// Methods, in capitals.
    pub methods: Vec<String>,
    /// Path patterns.
    pub patterns: Vec<Pattern>,
}

impl On {
    /// Returns whether a request is among those that the rule applies to; `HEAD` counts as `GET`.
    #[must_use]
    pub fn applies(&self, method: &[u8], path: &[u8]) -> bool {
        let counted = if method == b"HEAD" { b"GET" } else { method };
        let same = |known: &String| known.as_bytes() == counted || known.as_bytes() == method;
        if !self.methods.is_empty() && !self.methods.iter().any(same) {
            return false;
        }
        if self.patterns.is_empty() {
            return true;
        }
        let path = String::from_utf8_lossy(path);
        self.patterns.iter().any(|pattern| pattern.matches(&path))
    }
}

/// Prints the text form.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads a single rule that limits something.
impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let named = |error: RuleError| RuleError {
            rule: text.trim().to_owned(),
            ..error
        };
        let mut rules = parse(text).map_err(named)?;
        match (rules.pop(), rules.pop()) {
            (Some(rule), None) => Ok(rule),
            _ => Err(named(RuleError::new(
                "expected one rule that limits something",
            ))),
        }
    }
}

/// Reads a set of rules: one on a line, `#` begins a comment. Rules that refuse nothing, as
/// `unlimited` ones and those that are `off`, are left out.
///
/// # Errors
///
/// Fails when a server would not take the rules either, or when one of them needs to know what a
/// log does not tell.
pub fn parse(text: &str) -> Result<Vec<Rule>, RuleError> {
    read::rules(text)
}

/// Checks that rules can stand together.
///
/// # Errors
///
/// Fails when a name is used twice, or there are none or more than [`MAX_RULES`].
pub fn check(rules: &[Rule]) -> Result<(), RuleError> {
    if rules.is_empty() || rules.len() > MAX_RULES {
        return Err(RuleError::new(format!(
            "a replay takes 1 to {MAX_RULES} rules, not {}",
            rules.len()
        )));
    }
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index]
            .iter()
            .any(|other| other.limit.name() == rule.limit.name())
        {
            return Err(RuleError {
                rule: rule.to_string(),
                ..RuleError::new("another rule has this name")
            });
        }
    }
    Ok(())
}

/// Why rules were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Empty when it is about all of them.
    rule: String,
    reason: String,
}

impl RuleError {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            rule: String::new(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule.as_str() {
            "" => write!(f, "invalid rules: {}", self.reason),
            rule => write!(f, "invalid rule {rule:?}: {}", self.reason),
        }
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests;
