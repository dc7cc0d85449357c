//! The rules of a layer, checked together.

mod print;
mod rules;
#[cfg(feature = "serde")]
mod serde;
mod text;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use ratekeeper_core::{Cost, Key, Limit, LimitError, MAX_CLAIMS, Policy, Quota};
use ratekeeper_key::{Global, KeyError, KeyExtractor, KeyShare, Keyed, SelfCheck, is_preflight};

pub use self::rules::Rules;
pub use self::text::{RuleTextError, RuleTextErrorKind};
use crate::retry::Jitter;
use crate::rule::{CostOf, PatternError, Place, Plans, Rule, Settlement, Switch};

/// Rules that have been checked together; cheap to clone.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{Quota, Rule, RuleSet};
///
/// let twice = [
///     Rule::token_bucket("api", Quota::per_second(10)),
///     Rule::token_bucket("api", Quota::per_hour(1_000)),
/// ];
/// let error = RuleSet::new(twice).unwrap_err();
/// assert_eq!(error.to_string(), "two rules are named \"api\"");
/// ```
#[derive(Clone)]
pub struct RuleSet {
    checked: Arc<Checked>,
    /// The modes of the rules as they are now.
    switches: Arc<[Switch]>,
    unmatched: Unmatched,
}

struct Checked {
    rules: Vec<CheckedRule>,
    /// Whether one of them is for CORS preflights, which the others then leave alone.
    preflights: bool,
    /// What the rules were checked from, for those who print or change them.
    sources: Vec<Rule>,
    warnings: Vec<RuleWarning>,
}

/// What becomes of a request that no rule applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unmatched {
    /// There is none: a layer is not built from rules that all are narrowed to some place.
    #[default]
    Impossible,
    /// It passes unlimited.
    Allow,
}

/// A rule ready for requests.
pub(crate) struct CheckedRule {
    pub(crate) name: String,
    /// The rule's own policy, then those of its plans.
    pub(crate) policies: Vec<(String, Policy)>,
    plans: Plans,
    pub(crate) place: Place,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) cost: CostOf,
    pub(crate) max_cost: Option<u64>,
    pub(crate) settlement: Settlement,
    /// How many refunds for server errors a key has.
    pub(crate) refunds: Option<Limit>,
    pub(crate) status: StatusCode,
    pub(crate) jitter: Jitter,
    /// Finds out whether everybody counts for one key; not where that is meant.
    key_share: Option<KeyShare>,
}

/// What a rule asks for one request.
pub(crate) enum Asked<'a> {
    /// Nothing: the key is exempt, or the plan is unlimited.
    Nothing,
    /// A claim on the limit of this plan.
    Claim {
        plan: usize,
        limit: &'a Limit,
        key: Key,
        cost: Cost,
    },
    /// The plan admits nothing.
    Denied { plan: usize, key: Key },
    /// The request has no key.
    NoKey(KeyError),
    /// The request costs more than any may.
    TooCostly(Key),
}

impl CheckedRule {
    fn new(rule: Rule) -> Result<Self, RuleError> {
        let fail = |kind| RuleError::new(&rule.name, kind);
        let policies = rule.policies().map_err(fail)?;
        if !is_name(&rule.name) {
            return Err(fail(RuleErrorKind::Name));
        }
        for (_, policy) in &policies {
            if let Policy::Limit(limit) = policy {
                rule.check_cost(limit.capacity()).map_err(fail)?;
            }
        }
        let Rule {
            name,
            plans,
            place,
            key,
            cost,
            max_cost,
            settlement,
            status,
            jitter,
            mode: _,
            base: _,
            counter: _,
            max_debt: _,
        } = rule;
        let fail = |kind| RuleError::new(&name, kind);
        let place = place.map_err(|error| fail(RuleErrorKind::Place(error)))?;
        let refunds = settlement
            .refund_cap
            .map(|cap| refund_limit(&name, cap))
            .transpose();
        let refunds = refunds.map_err(|error| fail(RuleErrorKind::Limit(error)))?;
        let jitter = jitter.unwrap_or_else(|| default_jitter(&policies));
        let key_share = (key.name() != Global.name()).then(KeyShare::new);
        Ok(Self {
            name,
            policies,
            plans,
            place,
            key,
            cost,
            max_cost,
            settlement,
            refunds,
            status: status.unwrap_or(StatusCode::TOO_MANY_REQUESTS),
            jitter,
            key_share,
        })
    }

    /// Returns whether the rule is for this request; `preflight` says that it is a CORS preflight
    /// in a set that has a rule for these.
    #[inline]
    pub(crate) fn applies_to(&self, parts: &Parts, preflight: bool) -> bool {
        if preflight {
            self.place.is_for_preflights() && self.place.has_path_of(parts)
        } else {
            self.place.contains(parts)
        }
    }

    /// Notes whom a request counts for.
    #[inline]
    pub(crate) fn note_key(&self, key: &Key) {
        if let Some(share) = &self.key_share {
            share.note(key, SelfCheck::global());
        }
    }

    /// Finds out what the rule asks for a request at its place.
    #[inline]
    pub(crate) fn ask(&self, parts: &Parts) -> Asked<'_> {
        let key = match self.key.extract(parts) {
            Keyed::Key(key) => key,
            Keyed::Exempt => return Asked::Nothing,
            Keyed::Failed(error) => return Asked::NoKey(error),
        };
        let plan = self.plan_of(parts);
        let limit = match &self.policies[plan].1 {
            Policy::Limit(limit) => limit,
            Policy::DenyAll => return Asked::Denied { plan, key },
            _ => return Asked::Nothing,
        };
        let cost = self.cost.of(parts);
        if self.max_cost.is_some_and(|most| cost.charged() > most) {
            return Asked::TooCostly(key);
        }
        Asked::Claim {
            plan,
            limit,
            key,
            cost,
        }
    }

    fn plan_of(&self, parts: &Parts) -> usize {
        let Some(name) = self.plans.by.as_ref().and_then(|by| by.name(parts)) else {
            return 0;
        };
        // The first stands for the rule's own quota and has no name.
        let named = self
            .policies
            .iter()
            .skip(1)
            .position(|(plan, _)| plan == name);
        named.map_or(0, |position| position + 1)
    }
}

fn refund_limit(rule: &str, cap: Quota) -> Result<Limit, LimitError> {
    let quota = Quota::try_new(cap.units(), cap.period()).unwrap_or(cap);
    Limit::fixed_window(rule, quota)
}

/// What limits are named alike; rules without one are to be as printable.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn default_jitter(policies: &[(String, Policy)]) -> Jitter {
    match policies.first() {
        Some((_, Policy::Limit(limit))) if !limit.algorithm().has_burst() => {
            Jitter::of_window(limit.quota().period())
        }
        _ => Jitter::none(),
    }
}

impl RuleSet {
    /// The most rules in a set.
    pub const MAX_RULES: usize = 256;

    /// Checks rules together.
    ///
    /// # Errors
    ///
    /// See [`RuleErrorKind`]: a rule's own mistakes, two rules of one name or one counter, more
    /// than eight rules that apply to every request, or more than 256 in all.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        let sources: Vec<Rule> = rules.into_iter().collect();
        let rules = sources
            .iter()
            .cloned()
            .map(CheckedRule::new)
            .collect::<Result<Vec<_>, _>>()?;
        let everywhere = rules
            .iter()
            .filter(|rule| rule.place.is_everywhere())
            .count();
        if everywhere > MAX_CLAIMS || rules.len() > Self::MAX_RULES {
            let rule = rules
                .last()
                .map(|rule| rule.name.clone())
                .unwrap_or_default();
            return Err(RuleError {
                rule,
                kind: RuleErrorKind::TooMany,
            });
        }
        for (index, rule) in rules.iter().enumerate() {
            let fail = |kind| {
                Err(RuleError {
                    rule: rule.name.clone(),
                    kind,
                })
            };
            if rules[..index].iter().any(|other| other.name == rule.name) {
                return fail(RuleErrorKind::NameTwice);
            }
            let counter = |rule: &CheckedRule| match &rule.policies[..] {
                [(_, Policy::Limit(limit)), ..] => Some(limit.counter().to_owned()),
                _ => None,
            };
            if let Some(counter) = counter(rule).filter(|own| {
                rules[..index]
                    .iter()
                    .any(|other| counter(other).as_ref() == Some(own))
            }) {
                return fail(RuleErrorKind::CounterTwice(counter));
            }
        }
        let warnings = warnings(&rules);
        let switches = sources.iter().map(|rule| Switch::new(rule.mode));
        let switches: Arc<[Switch]> = switches.collect();
        let preflights = rules.iter().any(|rule| rule.place.is_for_preflights());
        let checked = Arc::new(Checked {
            rules,
            preflights,
            sources,
            warnings,
        });
        Ok(Self {
            checked,
            switches,
            unmatched: Unmatched::Impossible,
        })
    }

    /// Returns the set with switches of its own: what is switched while it is in force changes
    /// neither the set that it was made from nor another layer of that.
    pub(crate) fn put_in_force(self) -> Self {
        let modes = self.switches.iter().map(Switch::get);
        Self {
            switches: modes.map(Switch::new).collect(),
            ..self
        }
    }

    /// Returns the switch of the rule at this place in the list.
    #[inline]
    pub(crate) fn switch(&self, index: usize) -> &Switch {
        &self.switches[index]
    }

    /// Returns the switch of the rule of this name.
    pub(crate) fn switch_of(&self, rule: &str) -> Option<&Switch> {
        let index = self.rules().iter().position(|own| own.name == rule);
        index.map(|index| self.switch(index))
    }

    /// Returns the set with this answer to requests that no rule applies to.
    #[must_use]
    pub fn with_unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched, ..self }
    }

    /// Returns what a person should look at once more.
    #[must_use]
    pub fn warnings(&self) -> &[RuleWarning] {
        &self.checked.warnings
    }

    /// Returns the names of the rules in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.checked.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Returns whether every request meets a rule, or passing unlimited was asked for.
    pub(crate) fn covers_everything(&self) -> bool {
        self.unmatched == Unmatched::Allow
            || self
                .checked
                .rules
                .iter()
                .any(|rule| rule.place.is_everywhere())
            || self.checked.rules.is_empty()
    }

    /// Returns the rules in the modes that they have now, to be changed and checked again.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::{RateLimitLayer, Rule, RuleMode, Quota};
    ///
    /// let layer = RateLimitLayer::new([Rule::token_bucket("api", Quota::per_second(10))])?;
    /// let handle = layer.handle();
    /// let dearer = handle.rules().to_rules().edit("api", |rule| rule.cost(2))?;
    /// handle.replace(dearer.check()?)?;
    /// assert_eq!(handle.rules().to_string(), "api: token-bucket 10/s cost 2\n");
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    #[must_use]
    pub fn to_rules(&self) -> Rules {
        let rules = self.sources().iter().cloned().zip(&*self.switches);
        rules
            .map(|(rule, switch)| rule.mode(switch.get()))
            .collect::<Rules>()
            .with_unmatched(self.unmatched)
    }

    /// Returns whether a request is a CORS preflight that a rule of the set is for.
    #[inline]
    pub(crate) fn separates(&self, parts: &Parts) -> bool {
        self.checked.preflights && is_preflight(parts)
    }

    pub(crate) fn rules(&self) -> &[CheckedRule] {
        &self.checked.rules
    }

    fn sources(&self) -> &[Rule] {
        &self.checked.sources
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

fn warnings(rules: &[CheckedRule]) -> Vec<RuleWarning> {
    let mut warnings = Vec::new();
    for rule in rules {
        let others = rules.iter().filter(|other| other.place.covers(&rule.place));
        if others.clone().all(|other| other.key.client_chosen()) {
            warnings.push(RuleWarning {
                rule: rule.name.clone(),
                kind: RuleWarningKind::ClientChosen,
            });
        }
        if rule.policies.len() > 1 && rule.plans.by.is_none() {
            warnings.push(RuleWarning {
                rule: rule.name.clone(),
                kind: RuleWarningKind::PlansUnused,
            });
        }
        let settled = rule.settlement.uses_handle() || rule.settlement.uses_code();
        if matches!(rule.cost, CostOf::Deferred) && !settled {
            warnings.push(RuleWarning {
                rule: rule.name.clone(),
                kind: RuleWarningKind::NothingSettles,
            });
        }
        for warning in rule.key.warnings() {
            warnings.push(RuleWarning {
                rule: rule.name.clone(),
                kind: RuleWarningKind::Key(warning),
            });
        }
    }
    if rules.len() > MAX_CLAIMS {
        let rule = rules[MAX_CLAIMS].name.clone();
        warnings.push(RuleWarning {
            rule,
            kind: RuleWarningKind::ManyRules,
        });
    }
    warnings
}

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
    /// The set has more rules than may apply to one request; requests that meet more are refused.
    ManyRules,
}

impl RuleWarning {
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
