//! Rules that are not checked together yet, as a configuration file gives them.

use std::vec;

use super::{RuleError, RuleErrorKind, RuleSet, Unmatched};
use crate::rule::Rule;

/// Rules read from text, to be completed in code and then [checked](Self::check).
///
/// Numbers, keys and places are data that an operator changes; which plan a user has, and what a
/// response cost, is code. Code finds a rule by its name. The text form is described in
/// [`rules`](crate::rules).
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{RateLimitLayer, Rules};
///
/// /// What an authentication layer left in the extensions.
/// #[derive(Clone)]
/// struct Account { plan: String }
///
/// let text = "
///     per-ip:   token-bucket 600/min by ip
///     per-user: token-bucket 60/min plan pro 600/min by header:x-user
/// ";
/// let rules: Rules = text.parse()?;
/// let rules = rules
///     .edit("per-user", |rule| {
///         rule.quota_by(|parts| parts.extensions.get::<Account>().map(|account| account.plan.as_str()))
///     })?
///     .check()?;
/// let layer = RateLimitLayer::builder().rule_set(rules).build()?;
///
/// let rules: Rules = text.parse()?;
/// let error = rules.edit("per-usr", |rule| rule).unwrap_err();
/// assert_eq!(error.to_string(), "no rule is named \"per-usr\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    unmatched: Unmatched,
    generation: u32,
}

impl Rules {
    /// Returns the rules with what `edit` makes of the one of this name.
    ///
    /// # Errors
    ///
    /// [`RuleErrorKind::Unknown`] when no rule has the name.
    pub fn edit(mut self, name: &str, edit: impl FnOnce(Rule) -> Rule) -> Result<Self, RuleError> {
        let own = self.rules.iter_mut().find(|rule| rule.name() == name);
        let rule = own.ok_or_else(|| RuleError::new(name, RuleErrorKind::Unknown))?;
        *rule = edit(rule.clone());
        Ok(self)
    }

    /// Returns the rules with this answer to requests that none applies to.
    #[must_use]
    pub fn with_unmatched(self, unmatched: Unmatched) -> Self {
        Self { unmatched, ..self }
    }

    /// Returns what becomes of requests that no rule applies to.
    #[must_use]
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// Returns the rules with this generation of their numbers; see [`RuleSet::with_generation`].
    #[must_use]
    pub fn with_generation(self, generation: u32) -> Self {
        Self { generation, ..self }
    }

    /// Returns the generation of the numbers.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Adds a rule.
    pub fn push(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Returns the rules in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.rules.iter()
    }

    /// Returns whether there is more than rules: what is said about all of them.
    pub(super) fn is_about_all(&self) -> bool {
        self.unmatched != Unmatched::Impossible || self.generation != 0
    }

    /// Checks the rules together.
    ///
    /// # Errors
    ///
    /// As [`RuleSet::new`].
    pub fn check(self) -> Result<RuleSet, RuleError> {
        let set = RuleSet::new(self.rules)?;
        Ok(set
            .with_unmatched(self.unmatched)
            .with_generation(self.generation))
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            unmatched: Unmatched::default(),
            generation: 0,
        }
    }
}

/// Gives the rules alone. An `unmatched: allow` or a `generation` among them is lost: use
/// [`check`](Rules::check) where they count.
impl IntoIterator for Rules {
    type Item = Rule;
    type IntoIter = vec::IntoIter<Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.rules.into_iter()
    }
}

impl<'a> IntoIterator for &'a Rules {
    type Item = &'a Rule;
    type IntoIter = std::slice::Iter<'a, Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
