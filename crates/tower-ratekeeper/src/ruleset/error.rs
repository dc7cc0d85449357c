//! Why rules were not built, and what deserves another look.

use std::error::Error;
use std::fmt;

use ratekeeper_core::{LimitError, MAX_CLAIMS};

use super::RuleSet;
use crate::rule::PatternError;

/// Rules were not built; names the rule and the value that was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleError {
    rule: String,
    kind: RuleErrorKind,
}

/// What is wrong with rules.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuleErrorKind {
    /// A limit, or that of a plan, could not be built, or the store cannot keep it.
    Limit(LimitError),
    /// A method or a path pattern is malformed.
    Place(PatternError),
    /// Two plans of a rule have this name, or it is empty.
    Plan(String),
    /// A plan of a window or a log has another period than the rule: a client that goes back and
    /// forth between them would find the longer window empty.
    PlanPeriod(String),
    /// The fixed cost of a request is above what the limit, that of a plan, or `max_cost` ever
    /// admits.
    CostAboveCapacity {
        /// The cost of a request.
        cost: u64,
        /// The most that is ever admitted.
        capacity: u64,
    },
    /// Two rules have one name.
    NameTwice,
    /// Two rules count under one name.
    CounterTwice(String),
    /// Two rules have a queue: this one, and the one that is named here.
    QueueTwice(String),
    /// More than eight rules apply to every request, or there are more than 256.
    TooMany,
    /// Every rule is narrowed to some place, so that other requests would pass unlimited.
    NoCatchAll,
    /// Header fields of two formats that exclude each other were asked for.
    Fields,
    /// The name cannot stand in a header field.
    Name,
    /// No rule has this name.
    Unknown,
}

impl RuleError {
    pub(crate) fn new(rule: &str, kind: RuleErrorKind) -> Self {
        Self {
            rule: rule.to_owned(),
            kind,
        }
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> &RuleErrorKind {
        &self.kind
    }

    /// Returns the name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        match &self.kind {
            RuleErrorKind::Limit(error) => write!(f, "{error}"),
            RuleErrorKind::Place(error) => write!(f, "rule {rule:?}: {error}"),
            RuleErrorKind::PlanPeriod(plan) => write!(
                f,
                "rule {rule:?}: plan {plan:?} has another period than the rule, which only buckets can"
            ),
            RuleErrorKind::Plan(plan) => write!(f, "rule {rule:?} has two plans named {plan:?}, or one without a name"),
            RuleErrorKind::CostAboveCapacity { cost, capacity } => {
                write!(f, "rule {rule:?}: a request costs {cost} units, but at most {capacity} are ever admitted")
            }
            RuleErrorKind::NameTwice => write!(f, "two rules are named {rule:?}"),
            RuleErrorKind::QueueTwice(other) => write!(
                f,
                "rules {other:?} and {rule:?} both have a queue: at most one rule of a set delays"
            ),
            RuleErrorKind::CounterTwice(counter) => write!(f, "two rules count under the name {counter:?}"),
            RuleErrorKind::TooMany => {
                write!(f, "too many rules: at most {MAX_CLAIMS} apply to one request, at most {} make a set", RuleSet::MAX_RULES)
            }
            RuleErrorKind::NoCatchAll => f.write_str(
                "every rule is narrowed to some place: add a rule for all other requests, or allow them with `Unmatched::Allow`",
            ),
            RuleErrorKind::Fields => f.write_str("two of the header field formats exclude each other"),
            RuleErrorKind::Unknown => write!(f, "no rule is named {rule:?}"),
            RuleErrorKind::Name => write!(f, "rule {rule:?} cannot be named in a header field"),
        }
    }
}

impl Error for RuleError {}

impl From<LimitError> for RuleError {
    fn from(error: LimitError) -> Self {
        Self::new("", RuleErrorKind::Limit(error))
    }
}

/// What is allowed, but deserves another look.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleWarning {
    rule: String,
    kind: RuleWarningKind,
}

/// What a warning is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuleWarningKind {
    /// Every rule that applies where this one does counts by what a client can choose.
    ClientChosen,
    /// The rule has plans, but nothing says which of them a request has.
    PlansUnused,
    /// The cost of a request is known later, but nothing settles it, so that nobody is charged.
    NothingSettles,
    /// The rule's key extractor has a warning of its own.
    Key(ratekeeper_key::Warning),
    /// The set has more rules than may apply to one request; requests that meet more enforced ones
    /// are refused, and shadowed ones beyond are left out.
    ManyRules,
}

impl RuleWarning {
    pub(super) fn new(rule: impl Into<String>, kind: RuleWarningKind) -> Self {
        Self {
            rule: rule.into(),
            kind,
        }
    }

    /// Returns the name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns what the warning is about.
    #[must_use]
    pub fn kind(&self) -> &RuleWarningKind {
        &self.kind
    }
}

impl fmt::Display for RuleWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        match &self.kind {
            RuleWarningKind::ClientChosen => write!(
                f,
                "where rule {rule:?} applies, every rule counts by what a client can choose: add one by address"
            ),
            RuleWarningKind::PlansUnused => write!(
                f,
                "rule {rule:?} has plans, but nothing says which of them a request has: call `quota_by`"
            ),
            RuleWarningKind::NothingSettles => write!(
                f,
                "rule {rule:?} leaves the cost to a settlement, but nothing settles it: call one of the `settle_by` functions"
            ),
            RuleWarningKind::Key(warning) => write!(f, "rule {rule:?}: {warning}"),
            RuleWarningKind::ManyRules => {
                write!(
                    f,
                    "a request that more than {MAX_CLAIMS} rules apply to, of which {rule:?} may be one, is refused"
                )
            }
        }
    }
}
