//! Rules as text; what [`super::text`] reads.

use std::fmt::{self, Display, Formatter, Write};
use std::time::Duration;

use ratekeeper_core::Algorithm;
use ratekeeper_core::Quota;
use ratekeeper_core::algorithm::UtcOffset;

use super::text::{GENERATION, UNMATCHED};
use super::{RuleSet, Rules, Unmatched};
use crate::retry::Jitter;
use crate::rule::{Base, CostOf, OnAbort, Rule, RuleMode};

/// Stands for what was made in code and has no name.
pub(super) const CUSTOM: &str = "custom";

/// The key of a rule that names none.
const USUAL_KEY: &str = "peer";

/// Prints the rule as one line of text, its clauses in one order.
///
/// Reading the line gives an equal rule, unless code is part of it, which prints as `custom`: a
/// closure as the key or the cost, one that names the plan or settles.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{Quota, Rule};
///
/// let exports = Rule::sliding_log("exports", Quota::per_hour(100)).on(["GET"], ["/export/*"]).cost(20);
/// assert_eq!(exports.to_string(), "exports: sliding-log 100/h on GET /export/* cost 20");
///
/// let by_code = Rule::sliding_log("exports", Quota::per_hour(100)).by_fn(|parts| parts.uri.to_string());
/// assert_eq!(by_code.to_string(), "exports: sliding-log 100/h by custom");
/// ```
impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        rule(self, self.mode, f)
    }
}

/// Prints the rules as text, one a line.
impl Display for Rules {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for rule in self {
            writeln!(f, "{rule}")?;
        }
        about_all(self.unmatched(), self.generation(), f)
    }
}

/// Prints the rules as text, one a line, in the modes that they have now.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{RateLimitLayer, RuleMode, RuleSet};
///
/// let rules: RuleSet = "per-ip: token-bucket 60/min by ip shadow".parse()?;
/// let handle = RateLimitLayer::builder().rule_set(rules).build()?.handle();
/// assert!(handle.set_mode("per-ip", RuleMode::Enforced));
/// assert_eq!(handle.rules().to_string(), "per-ip: token-bucket 60/min by ip\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Display for RuleSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (source, switch) in self.sources().iter().zip(&*self.switches) {
            rule(source, switch.get(), f)?;
            f.write_char('\n')?;
        }
        about_all(self.unmatched, self.generation, f)
    }
}

/// Prints the lines that are about the whole set.
fn about_all(unmatched: Unmatched, generation: u32, f: &mut Formatter<'_>) -> fmt::Result {
    match unmatched {
        Unmatched::Impossible => {}
        Unmatched::Allow => writeln!(f, "{UNMATCHED}: allow")?,
    }
    match generation {
        0 => Ok(()),
        _ => writeln!(f, "{GENERATION}: {generation}"),
    }
}

fn rule(rule: &Rule, mode: RuleMode, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}", Quoted(&rule.name))?;
    base(rule.base, f)?;
    for (plan, quota) in &rule.plans.named {
        write!(f, " plan {} ", Quoted(plan))?;
        match quota {
            Some(quota) => write!(f, "{quota}")?,
            None => f.write_str("unlimited")?,
        }
    }
    if rule.plans.by.is_some() {
        write!(f, " plan-by {CUSTOM}")?;
    }
    match rule.key.name() {
        key if key == USUAL_KEY => {}
        // No extractor of ours has such a name.
        key if key.contains(char::is_control) => write!(f, " by {CUSTOM}")?,
        key => write!(f, " by {key}")?,
    }
    match &rule.place {
        Ok(place) if place.methods().is_empty() && place.patterns().is_empty() => {}
        Ok(place) => write!(f, " on {place}")?,
        Err(error) => write!(f, " on {}", error.text().escape_debug())?,
    }
    if matches!(rule.base, Base::Limit(..)) {
        counting(rule, f)?;
    }
    if let Some(queue) = &rule.queue {
        super::text::print_queue(queue, f)?;
    }
    settlement(rule, f)?;
    match mode {
        RuleMode::Enforced => {}
        RuleMode::Shadowed => f.write_str(" shadow")?,
        RuleMode::Off => f.write_str(" off")?,
        RuleMode::EnforcedFor(share) => write!(f, " enforce {share}")?,
    }
    if let Some(status) = rule.status {
        write!(f, " status {}", status.as_str())?;
    }
    rule.jitter.map_or(Ok(()), |jitter| jittered(jitter, f))
}

fn base(base: Base, f: &mut Formatter<'_>) -> fmt::Result {
    match base {
        Base::Limit(algorithm, quota) => {
            write!(f, ": {} {quota}", algorithm.name())?;
            match algorithm {
                Algorithm::CalendarWindow(offset) if offset != UtcOffset::UTC => {
                    write!(f, " at {offset}")
                }
                _ => Ok(()),
            }
        }
        Base::DenyAll => f.write_str(": deny"),
        Base::Unlimited => f.write_str(": unlimited"),
    }
}

/// Prints what means something only where units are counted.
fn counting(rule: &Rule, f: &mut Formatter<'_>) -> fmt::Result {
    match &rule.cost {
        CostOf::Fixed(1) => {}
        CostOf::Fixed(units) => write!(f, " cost {units}")?,
        CostOf::Deferred => f.write_str(" cost later")?,
        CostOf::By { .. } => write!(f, " cost {CUSTOM}")?,
    }
    if let Some(units) = rule.max_cost {
        write!(f, " max-cost {units}")?;
    }
    if let Some(units) = rule.max_debt {
        write!(f, " max-debt {units}")?;
    }
    if let Some(counter) = &rule.counter {
        write!(f, " counter {}", Quoted(counter))?;
    }
    Ok(())
}

fn settlement(rule: &Rule, f: &mut Formatter<'_>) -> fmt::Result {
    if rule.settlement.uses_handle() {
        f.write_str(" settle handle")?;
    }
    if rule.settlement.uses_code() {
        write!(f, " settle {CUSTOM}")?;
    }
    if rule.settlement.on_abort == OnAbort::Refund {
        f.write_str(" abort refund")?;
    }
    match rule.settlement.refund_cap {
        Some(cap) => write!(f, " refund-errors {cap}"),
        None => Ok(()),
    }
}

fn jittered(jitter: Jitter, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(" jitter ")?;
    duration(jitter.bound(), f)
}

/// Prints a duration as the period of a quota is printed, with a number in front; zero is none.
pub(super) fn duration(duration: Duration, f: &mut Formatter<'_>) -> fmt::Result {
    let Ok(quota) = Quota::try_new(1, duration.min(Quota::MAX_PERIOD)) else {
        return f.write_str("none");
    };
    let text = quota.to_string();
    let period = text.strip_prefix("1/").unwrap_or(&text);
    let one = if period.starts_with(|first: char| first.is_ascii_digit()) {
        ""
    } else {
        "1"
    };
    write!(f, "{one}{period}")
}

/// A name, between quotation marks where it would not be read as one word.
pub(super) struct Quoted<'n>(pub(super) &'n str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        let plain =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b':' | b'#');
        // The lines that begin with these words are about the whole set.
        let is_reserved = matches!(*name, UNMATCHED | GENERATION);
        if !name.is_empty() && name.bytes().all(plain) && !is_reserved {
            return f.write_str(name);
        }
        f.write_char('"')?;
        for c in name.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                ' '..='~' => f.write_char(c)?,
                _ => write!(f, "{}", c.escape_unicode())?,
            }
        }
        f.write_char('"')
    }
}

/// Returns whether code has a part in the rule, so that its text cannot be read.
#[cfg(feature = "serde")]
pub(super) fn has_code(rule: &Rule) -> bool {
    let key = rule.key.name();
    let mut words = key.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','));
    words.any(|word| word == CUSTOM)
        || matches!(rule.cost, CostOf::By { .. })
        || rule.plans.by.is_some()
        || rule.settlement.uses_code()
}
