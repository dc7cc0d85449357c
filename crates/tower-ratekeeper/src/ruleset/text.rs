//! Rules read from text:
//!
//! ```text
//! text    = *( [ rule / set ] [ "#" comment ] newline )
//! set     = "unmatched" ":" "allow" / "generation" ":" number
//! rule    = name ":" ( algorithm quota / "deny" / "unlimited" ) *clause
//! clause  = word value
//! ```
//!
//! Each line is read once, from left to right; nothing is read twice, so that the time grows with
//! the length of the text.

mod clause;
mod error;
mod line;
mod queue;

use std::collections::HashSet;
use std::str::FromStr;

use ratekeeper_key::Registry;

pub(super) use self::clause::Draft;
pub(super) use self::error::Fault;
pub use self::error::{RuleTextError, RuleTextErrorKind};
pub(super) use self::line::Line;
pub(super) use self::queue::print as print_queue;
use super::{RuleError, RuleErrorKind, RuleSet, Rules, Unmatched};
use crate::rule::Rule;

/// Begins the line that says what becomes of requests that no rule applies to.
pub(super) const UNMATCHED: &str = "unmatched";

/// Begins the line that says which generation the numbers are.
pub(super) const GENERATION: &str = "generation";

/// The longest line, in bytes: a bound on how deeply a key can be made of others.
const LONGEST: usize = 8 * 1024;

impl Rules {
    /// Reads rules whose keys may be extractors of one's own, or addresses behind proxies.
    ///
    /// # Errors
    ///
    /// See [`RuleTextErrorKind`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::Rules;
    /// use tower_ratekeeper::key::{Registry, by_extension};
    ///
    /// #[derive(Clone)]
    /// struct Tenant(u64);
    ///
    /// let registry = Registry::new().with("tenant", by_extension(|tenant: &Tenant| tenant.0))?;
    /// let rules = Rules::parse_with("exports: sliding-log 100/h by (tenant, method)", &registry)?;
    /// assert_eq!(rules.to_string(), "exports: sliding-log 100/h by (tenant, method)\n");
    ///
    /// let error = "exports: sliding-log 100/h by tenant".parse::<Rules>().unwrap_err();
    /// assert_eq!((error.line(), error.column()), (1, 31));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, RuleTextError> {
        read(text, registry).map(|(rules, _)| rules)
    }
}

/// Reads rules by the built-in extractors; see [`Rules::parse_with`] for others.
impl FromStr for Rules {
    type Err = RuleTextError;

    fn from_str(text: &str) -> Result<Self, RuleTextError> {
        Self::parse_with(text, &Registry::new())
    }
}

impl RuleSet {
    /// Reads and checks rules whose keys may be extractors of one's own; see
    /// [`Rules::parse_with`].
    ///
    /// # Errors
    ///
    /// See [`RuleTextErrorKind`].
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, RuleTextError> {
        let (rules, lines) = read(text, registry)?;
        let names: Vec<_> = rules.iter().map(|rule| rule.name().to_owned()).collect();
        rules.check().map_err(|error| {
            let index = names.iter().rposition(|name| name == error.rule());
            let line = index.and_then(|index| lines.get(index)).copied();
            let (number, text) = line.unwrap_or((1, ""));
            Fault::rule(Line::new(text).position(), error).on(number, text)
        })
    }
}

/// Reads rules in their text form, described in [`rules`](crate::rules), and checks them together.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{RateLimitLayer, RuleSet};
///
/// let rules: RuleSet = "
///     ## Everybody, and dearly for those who export.
///     per-ip:  token-bucket 60/min burst 20 by ip
///     exports: sliding-log 100/h by header:x-api-key on GET /export/* cost 20 shadow
/// ".parse()?;
/// let layer = RateLimitLayer::builder().rule_set(rules).build()?;
///
/// let error = "per-ip: token-bucket 60/min bye ip".parse::<RuleSet>().unwrap_err();
/// assert_eq!((error.line(), error.column()), (1, 22));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl FromStr for RuleSet {
    type Err = RuleTextError;

    fn from_str(text: &str) -> Result<Self, RuleTextError> {
        Self::parse_with(text, &Registry::new())
    }
}

/// Reads a single rule by one of the built-in extractors.
impl FromStr for Rule {
    type Err = RuleTextError;

    fn from_str(text: &str) -> Result<Self, RuleTextError> {
        let (rules, lines) = read(text, &Registry::new())?;
        let (number, second) = lines.get(1).copied().unwrap_or((1, ""));
        let refused = || Fault::expected(0, "a single rule", second.trim()).on(number, second);
        if lines.len() > 1 || rules.is_about_all() {
            return Err(refused());
        }
        rules.into_iter().next().ok_or_else(refused)
    }
}

/// The line of each rule and its number.
type Lines<'t> = Vec<(usize, &'t str)>;

/// Returns the rules with their lines.
fn read<'t>(text: &'t str, registry: &Registry) -> Result<(Rules, Lines<'t>), RuleTextError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rules = Rules::default();
    let mut lines = Vec::new();
    let mut names = HashSet::new();
    let mut has_generation = false;
    for (number, text) in (1..).zip(text.lines()) {
        let refused = |fault: Fault| fault.on(number, text);
        if text.len() > LONGEST {
            return Err(refused(Fault::too_long()));
        }
        let line = Line::new(text);
        if line.is_empty() {
            continue;
        }
        let start = line.position();
        match said(line, registry).map_err(refused)? {
            Said::Unmatched if rules.unmatched() == Unmatched::Allow => {
                return Err(refused(Fault::twice(start, UNMATCHED)));
            }
            Said::Unmatched => rules = rules.with_unmatched(Unmatched::Allow),
            Said::Generation(_) if has_generation => {
                return Err(refused(Fault::twice(start, GENERATION)));
            }
            Said::Generation(generation) => {
                has_generation = true;
                rules = rules.with_generation(generation);
            }
            Said::Rule(rule) => {
                let fail = |kind| refused(Fault::rule(start, RuleError::new(rule.name(), kind)));
                if !names.insert(rule.name().to_owned()) {
                    return Err(fail(RuleErrorKind::NameTwice));
                }
                if names.len() > RuleSet::MAX_RULES {
                    return Err(fail(RuleErrorKind::TooMany));
                }
                rules.push(*rule);
                lines.push((number, text));
            }
        }
    }
    Ok((rules, lines))
}

/// What a line says.
enum Said {
    Rule(Box<Rule>),
    /// Requests pass that no rule applies to.
    Unmatched,
    Generation(u32),
}

/// Reads a rule, or what is about the whole set.
fn said(mut line: Line<'_>, registry: &Registry) -> Result<Said, Fault> {
    let quoted = line.is_quoted();
    let name_at = line.position();
    let name = line.name("a rule such as `per-ip: token-bucket 60/min by ip`")?;
    if !line.colon() {
        return Err(line.unexpected("`:` after the name of a rule"));
    }
    let about_all = match &*name {
        UNMATCHED if !quoted => match line.word() {
            "allow" => Some(Said::Unmatched),
            _ => return Err(line.unexpected_last("`allow`")),
        },
        GENERATION if !quoted => Some(Said::Generation(line.generation()?)),
        _ => None,
    };
    if let Some(said) = about_all {
        return match line.is_empty() {
            true => Ok(said),
            false => Err(line.unexpected("the end of the line")),
        };
    }
    let mut draft = Draft::begin(&name, &mut line, registry)?.named_at(name_at);
    while !line.is_empty() {
        draft.clause(&mut line)?;
    }
    draft.finish().map(|rule| Said::Rule(Box::new(rule)))
}
