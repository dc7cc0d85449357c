//! The rules of a layer, checked together.

mod checked;
mod error;
mod print;
mod rules;
#[cfg(feature = "serde")]
mod serde;
mod text;

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use ratekeeper_core::{MAX_CLAIMS, Policy};
use ratekeeper_key::{KeyExtractor, is_preflight};

pub(crate) use self::checked::{Asked, CheckedRule, Preflight};
pub use self::error::{RuleError, RuleErrorKind, RuleWarning, RuleWarningKind};
pub use self::rules::Rules;
pub use self::text::{RuleTextError, RuleTextErrorKind};
use crate::rule::{CostOf, Rule, RuleMode, Switch};

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
    generation: u32,
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
            return Err(RuleError::new(&rule, RuleErrorKind::TooMany));
        }
        for (index, rule) in rules.iter().enumerate() {
            let fail = |kind| Err(RuleError::new(&rule.name.clone(), kind));
            if rules[..index].iter().any(|other| other.name == rule.name) {
                return fail(RuleErrorKind::NameTwice);
            }
            if rule.queue.is_some()
                && let Some(other) = rules[..index].iter().find(|other| other.queue.is_some())
            {
                return fail(RuleErrorKind::QueueTwice(other.name.clone()));
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
            generation: 0,
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

    /// Returns the mode of the rule at this place in the list, unless it is off or not for this
    /// request.
    #[inline]
    pub(crate) fn mode_at(
        &self,
        index: usize,
        preflight: Preflight,
        parts: &Parts,
    ) -> Option<RuleMode> {
        let mode = self.switches[index].get();
        let applies = mode != RuleMode::Off && self.rules()[index].applies_to(parts, preflight);
        applies.then_some(mode)
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

    /// Returns the set with all its limits in this generation, 0 unless set.
    ///
    /// It is for changes of numbers that reach the nodes of a fleet one after the other: a shared
    /// store decides by the numbers of the newest generation that a key has seen. Raise it with
    /// every change of the numbers. See [`rules`](crate::rules#generations).
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::RuleSet;
    ///
    /// let rules: RuleSet = "api: token-bucket 10/s by ip\ngeneration: 7".parse()?;
    /// assert_eq!(rules.generation(), 7);
    /// let next = rules.with_generation(8);
    /// assert_eq!(next.to_string(), "api: token-bucket 10/s by ip\ngeneration: 8\n");
    /// # Ok::<(), tower_ratekeeper::RuleTextError>(())
    /// ```
    #[must_use]
    pub fn with_generation(self, generation: u32) -> Self {
        if generation == self.generation {
            return self;
        }
        let Checked {
            rules,
            preflights,
            sources,
            warnings,
        } = &*self.checked;
        let rules = rules.iter().map(|rule| rule.with_generation(generation));
        let checked = Arc::new(Checked {
            rules: rules.collect(),
            preflights: *preflights,
            sources: sources.clone(),
            warnings: warnings.clone(),
        });
        Self {
            checked,
            generation,
            ..self
        }
    }

    /// Returns the generation of the limits.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
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
            .with_generation(self.generation)
    }

    /// Tells what this request is to the rules for CORS preflights.
    #[inline]
    pub(crate) fn preflight(&self, parts: &Parts) -> Preflight {
        if !self.checked.preflights || !is_preflight(parts) {
            return Preflight::No;
        }
        let rules = self.rules().iter().zip(&*self.switches);
        let limits = |(rule, switch): (&CheckedRule, &Switch)| {
            switch.get().is_enforced_for_all() && rule.is_for_preflight(parts)
        };
        if rules.into_iter().any(limits) {
            Preflight::Apart
        } else {
            Preflight::Beside
        }
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
            warnings.push(RuleWarning::new(
                rule.name.clone(),
                RuleWarningKind::ClientChosen,
            ));
        }
        if rule.policies.len() > 1 && rule.plans.by.is_none() {
            warnings.push(RuleWarning::new(
                rule.name.clone(),
                RuleWarningKind::PlansUnused,
            ));
        }
        let settled = rule.settlement.uses_handle() || rule.settlement.uses_code();
        if matches!(rule.cost, CostOf::Deferred) && !settled {
            warnings.push(RuleWarning::new(
                rule.name.clone(),
                RuleWarningKind::NothingSettles,
            ));
        }
        for warning in rule.key.warnings() {
            warnings.push(RuleWarning::new(
                rule.name.clone(),
                RuleWarningKind::Key(warning),
            ));
        }
    }
    if rules.len() > MAX_CLAIMS {
        let rule = rules[MAX_CLAIMS].name.clone();
        warnings.push(RuleWarning::new(rule, RuleWarningKind::ManyRules));
    }
    warnings
}
