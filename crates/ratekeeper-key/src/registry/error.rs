//! Why a text is no extractor.

use std::fmt;

/// The longest piece of a text that an error shows.
const SHOWN: usize = 40;

/// A text is no extractor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractorError {
    kind: ExtractorErrorKind,
    position: usize,
    found: String,
}

/// What is wrong with an extractor's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtractorErrorKind {
    /// A name, a parenthesis or a policy was expected here.
    Unexpected,
    /// No extractor has this name.
    UnknownName,
    /// The extractor needs a feature that was not compiled in.
    Unavailable,
    /// The argument is missing, malformed, or not wanted.
    BadArgument,
    /// What follows `else` is neither an error status nor `shared` nor `exempt`.
    BadPolicy,
    /// A tuple has more than four parts.
    TooManyParts,
    /// Parentheses are nested too deeply.
    TooDeep,
    /// An extractor cannot be registered by this name.
    BadName,
}

impl ExtractorError {
    pub(super) fn new(kind: ExtractorErrorKind, position: usize, found: &str) -> Self {
        Self {
            kind,
            position,
            found: found.chars().take(SHOWN).collect(),
        }
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> ExtractorErrorKind {
        self.kind
    }

    /// Returns where, in bytes from the start of the text.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for ExtractorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.kind {
            ExtractorErrorKind::Unexpected if self.found.is_empty() => {
                return write!(
                    f,
                    "invalid key at byte {}: it ends too early",
                    self.position
                );
            }
            ExtractorErrorKind::Unexpected => "unexpected",
            ExtractorErrorKind::UnknownName => "unknown extractor",
            ExtractorErrorKind::Unavailable => "without the feature `axum` there is no",
            ExtractorErrorKind::BadArgument => "missing, malformed or unwanted argument in",
            ExtractorErrorKind::BadPolicy => {
                "neither an error status nor `shared` nor `exempt`, but"
            }
            ExtractorErrorKind::TooManyParts => "a tuple has at most four parts, before",
            ExtractorErrorKind::TooDeep => "parentheses nested too deeply, at",
            ExtractorErrorKind::BadName => "not free, or not in lower-case letters:",
        };
        let found = self.found.escape_debug();
        write!(
            f,
            "invalid key at byte {}: {problem} \"{found}\"",
            self.position
        )
    }
}

impl std::error::Error for ExtractorError {}
