//! Why a text is no rules, and where.

use std::error::Error;
use std::fmt;

use ratekeeper_core::{LimitError, QuotaError};
use ratekeeper_key::{ExtractorError, ExtractorErrorKind};

use super::super::RuleError;
use super::super::print::CUSTOM;
use crate::rule::PatternError;

/// The longest piece of a text that an error shows, in characters.
const SHOWN: usize = 40;

/// A text is no rules; tells the line, the column, what was found and what was expected.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{RuleSet, RuleTextErrorKind};
///
/// let error = "\nper-ip: token-bucket 60/min by ip cost twice".parse::<RuleSet>().unwrap_err();
/// assert_eq!(error.kind(), &RuleTextErrorKind::Unexpected);
/// assert_eq!(
///     error.to_string(),
///     "line 2, column 40: expected a number of units, or `later`, found \"twice\"",
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RuleTextError {
    line: usize,
    column: usize,
    fault: Fault,
}

/// What is wrong with a text of rules.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuleTextErrorKind {
    /// Something else was expected here.
    Unexpected,
    /// What stands once in a rule, or in a set, stands here again.
    Twice,
    /// The clause says nothing about a rule of this kind.
    NotApplicable,
    /// `custom`, as what was made in code is printed, cannot be read.
    Custom,
    /// A number does not fit 64 bits.
    NumberTooLarge,
    /// The line is longer than 8 KiB.
    TooLong,
    /// A quota is malformed.
    Quota(QuotaError),
    /// A limit, or that of a plan, cannot be counted as told.
    Limit(LimitError),
    /// A key is malformed. The position in it is that of the error of the text.
    Extractor(ExtractorError),
    /// A method or a path pattern is malformed.
    Place(PatternError),
    /// The rule contradicts itself or another one.
    Rule(RuleError),
}

impl RuleTextError {
    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> &RuleTextErrorKind {
        &self.fault.0.kind
    }

    /// Returns the line, counted from one.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column in the line, in characters counted from one.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for RuleTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            fault,
        } = self;
        write!(f, "line {line}, column {column}: {fault}")
    }
}

impl Error for RuleTextError {}

/// What is wrong with a line, and where in it. Boxed, as errors are large and rare.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Fault(Box<Details>);

#[derive(Clone, Debug, PartialEq)]
struct Details {
    /// In bytes.
    at: usize,
    kind: RuleTextErrorKind,
    found: String,
    /// Only for what is unexpected or not applicable.
    expected: &'static str,
}

impl Fault {
    pub(super) fn new(at: usize, kind: RuleTextErrorKind, found: &str) -> Self {
        Self(Box::new(Details {
            at,
            kind,
            found: found.chars().take(SHOWN).collect(),
            expected: "",
        }))
    }

    fn with_expected(mut self, expected: &'static str) -> Self {
        self.0.expected = expected;
        self
    }

    pub(super) fn expected(at: usize, expected: &'static str, found: &str) -> Self {
        let kind = if found == CUSTOM {
            RuleTextErrorKind::Custom
        } else {
            RuleTextErrorKind::Unexpected
        };
        Self::new(at, kind, found).with_expected(expected)
    }

    pub(super) fn twice(at: usize, found: &str) -> Self {
        Self::new(at, RuleTextErrorKind::Twice, found)
    }

    /// Says that a clause needs a rule of another kind.
    pub(super) fn not_applicable(at: usize, clause: &str, needed: &'static str) -> Self {
        Self::new(at, RuleTextErrorKind::NotApplicable, clause).with_expected(needed)
    }

    pub(super) fn too_long() -> Self {
        Self::new(0, RuleTextErrorKind::TooLong, "")
    }

    pub(super) fn quota(at: usize, text: &str, error: QuotaError) -> Self {
        use ratekeeper_core::QuotaErrorKind::ZeroBurst;
        let burst = text.rfind(' ').map_or(0, |space| space + 1);
        let at = at + if error.kind() == ZeroBurst { burst } else { 0 };
        Self::new(at, RuleTextErrorKind::Quota(error), "")
    }

    pub(super) fn limit(at: usize, error: LimitError) -> Self {
        Self::new(at, RuleTextErrorKind::Limit(error), "")
    }

    pub(super) fn extractor(text: &str, error: ExtractorError) -> Self {
        let at = error.position();
        let found = text.get(at..).unwrap_or_default();
        let ends = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',');
        let word = match found.find(ends) {
            Some(0) => found.chars().next().map_or(0, char::len_utf8),
            Some(end) => end,
            None => found.len(),
        };
        let found = &found[..word];
        let kind = if found == CUSTOM {
            RuleTextErrorKind::Custom
        } else {
            RuleTextErrorKind::Extractor(error)
        };
        Self::new(at, kind, found)
    }

    pub(in super::super) fn place(at: usize, error: PatternError) -> Self {
        Self::new(at, RuleTextErrorKind::Place(error), "")
    }

    pub(super) fn rule(at: usize, error: RuleError) -> Self {
        Self::new(at, RuleTextErrorKind::Rule(error), "")
    }

    /// Returns the fault of a part as that of the line, in which the part starts here.
    pub(super) fn moved(mut self, start: usize) -> Self {
        self.0.at += start;
        self
    }

    /// Returns the error of the line of this number.
    pub(super) fn on(self, line: usize, text: &str) -> RuleTextError {
        let before = text.char_indices().take_while(|(at, _)| *at < self.0.at);
        RuleTextError {
            line,
            column: before.count() + 1,
            fault: self,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details {
            kind,
            found,
            expected,
            ..
        } = &*self.0;
        match kind {
            RuleTextErrorKind::Unexpected if found.is_empty() => {
                write!(f, "expected {expected}, found the end")
            }
            RuleTextErrorKind::Unexpected => write!(f, "expected {expected}, found {found:?}"),
            RuleTextErrorKind::Twice => write!(f, "{found:?} says again what was said before"),
            RuleTextErrorKind::NotApplicable => write!(f, "{found:?} needs {expected}"),
            RuleTextErrorKind::Custom => {
                f.write_str("\"custom\" stands for code, which no text can bring")
            }
            RuleTextErrorKind::NumberTooLarge => write!(f, "{found:?} does not fit 64 bits"),
            RuleTextErrorKind::TooLong => f.write_str("the line is longer than 8192 bytes"),
            RuleTextErrorKind::Quota(error) => error.fmt(f),
            RuleTextErrorKind::Limit(error) => error.fmt(f),
            RuleTextErrorKind::Extractor(error) => key(error.kind(), found, f),
            RuleTextErrorKind::Place(error) => error.fmt(f),
            RuleTextErrorKind::Rule(error) => error.fmt(f),
        }
    }
}

/// Says what is wrong with a key. The error's own text counts bytes from the start of the key.
fn key(kind: ExtractorErrorKind, found: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let expected = match kind {
        ExtractorErrorKind::Unavailable => "a key that was compiled in (`route` needs `axum`)",
        ExtractorErrorKind::BadArgument => "a key with the argument that it takes",
        ExtractorErrorKind::BadPolicy => "an error status, `shared` or `exempt`",
        ExtractorErrorKind::TooManyParts => "a key of at most four parts",
        ExtractorErrorKind::TooDeep => "fewer parentheses",
        _ => "a key such as `ip`, `header:x-api-key` or `(ip, method)`",
    };
    match found {
        "" => write!(f, "expected {expected}, found the end"),
        found => write!(f, "expected {expected}, found {found:?}"),
    }
}
