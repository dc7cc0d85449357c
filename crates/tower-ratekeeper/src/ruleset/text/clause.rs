//! The clauses of a rule, and the rule that they make.

use std::time::Duration;

use http::StatusCode;
use ratekeeper_core::{Algorithm, Limit, LimitError, LimitErrorKind, Quota};
use ratekeeper_key::Registry;

use super::error::Fault;
use super::line::Line;
use super::queue;
use crate::retry::Jitter;
use crate::rule::{Base, CostOf, OnAbort, Place, Rule, RuleMode, Share, method};
use crate::ruleset::print::CUSTOM;
use crate::ruleset::{RuleError, RuleErrorKind};

/// The words that begin a clause, sorted.
const CLAUSES: [&str; 19] = [
    "abort",
    "at",
    "by",
    "cost",
    "counter",
    "enforce",
    "jitter",
    "max-cost",
    "max-debt",
    "off",
    "on",
    "plan",
    "plan-by",
    "queue",
    "refund-errors",
    "settle",
    "shadow",
    "status",
    "wait-up-to",
];

const ALGORITHMS: &str = "`token-bucket`, `leaky-bucket`, `fixed-window`, `calendar-window`, \
    `sliding-log`, `sliding-counter`, `deny` or `unlimited`";

/// The clauses that mean something only where units are counted.
const COUNTING: [&str; 6] = [
    "cost",
    "counter",
    "max-cost",
    "max-debt",
    "queue",
    "wait-up-to",
];

/// Returns whether the word begins a clause.
pub(super) fn is_clause(word: &str) -> bool {
    CLAUSES.binary_search(&word).is_ok()
}

/// A rule in the making, with where its parts stand.
pub(in super::super) struct Draft<'r> {
    registry: &'r Registry,
    rule: Rule,
    name_at: usize,
    base_at: usize,
    /// The clauses but plans, each once, with their positions.
    given: Vec<(&'static str, usize)>,
    /// The positions of the plans.
    plans: Vec<usize>,
}

impl<'r> Draft<'r> {
    /// Reads the algorithm and the quota of a rule of this name.
    pub(in super::super) fn begin(
        name: &str,
        line: &mut Line<'_>,
        registry: &'r Registry,
    ) -> Result<Self, Fault> {
        let algorithm = match line.word() {
            "deny" => Ok(Base::DenyAll),
            "unlimited" => Ok(Base::Unlimited),
            word => Err(word.parse().map_err(|_| line.unexpected_last(ALGORITHMS))?),
        };
        let base_at = line.position();
        let base = match algorithm {
            Ok(base) => base,
            Err(algorithm) => Base::Limit(algorithm, line.quota()?),
        };
        Ok(Self {
            registry,
            rule: Rule::of(name, base),
            name_at: 0,
            base_at,
            given: Vec::new(),
            plans: Vec::new(),
        })
    }

    /// Returns the draft of a rule whose name stands here.
    pub(super) fn named_at(self, name_at: usize) -> Self {
        Self { name_at, ..self }
    }

    /// Reads a clause.
    pub(super) fn clause(&mut self, line: &mut Line<'_>) -> Result<(), Fault> {
        let Ok(index) = CLAUSES.binary_search(&line.peek()) else {
            return Err(
                line.unexpected("`by`, `on`, `plan`, `cost`, `shadow` or another clause of a rule")
            );
        };
        let at = line.position();
        line.word();
        self.value(CLAUSES[index], at, line)
    }

    /// Reads what follows the word that begins a clause.
    pub(in super::super) fn value(
        &mut self,
        clause: &'static str,
        at: usize,
        line: &mut Line<'_>,
    ) -> Result<(), Fault> {
        if clause == "plan" {
            self.plans.push(at);
        } else {
            // A rule has one mode and one queue.
            let once = match clause {
                "off" | "shadow" => "enforce",
                "wait-up-to" => "queue",
                clause => clause,
            };
            if self.given.iter().any(|(other, _)| *other == once) {
                return Err(Fault::twice(at, clause));
            }
            self.given.push((once, at));
        }
        if COUNTING.contains(&clause) && !matches!(self.rule.base, Base::Limit(..)) {
            return Err(Fault::not_applicable(at, clause, "a rule with a quota"));
        }
        let rule = &mut self.rule;
        match clause {
            "abort" => {
                rule.settlement.on_abort = match line.word() {
                    "refund" => OnAbort::Refund,
                    "charge" => OnAbort::Charge,
                    _ => return Err(line.unexpected_last("`refund` or `charge`")),
                }
            }
            "at" => match &mut rule.base {
                Base::Limit(Algorithm::CalendarWindow(offset), _) => {
                    let found = line.word().parse();
                    let expected = "an offset such as `+02:00`";
                    *offset = found.map_err(|_| line.unexpected_last(expected))?;
                }
                _ => return Err(Fault::not_applicable(at, clause, "a `calendar-window`")),
            },
            "by" => {
                let registry = self.registry;
                rule.key = line.with_rest(|rest| {
                    registry
                        .parse_prefix(rest)
                        .map_err(|error| Fault::extractor(rest, error))
                })?;
            }
            "cost" if line.takes("later") => rule.cost = CostOf::Deferred,
            "cost" => {
                rule.cost = CostOf::Fixed(line.number("a number of units, or `later`")?);
            }
            "counter" => {
                let counter = line.name("the name of a counter")?;
                rule.counter = Some(counter.into_owned());
            }
            "jitter" => rule.jitter = Some(Jitter::up_to(duration(line)?)),
            "max-cost" => rule.max_cost = Some(line.number("a number of units")?),
            "max-debt" => rule.max_debt = Some(line.number("a number of units")?),
            "on" => self.place(line)?,
            "plan" => {
                let plan = line.name("the name of a plan")?;
                let unlimited = line.takes("unlimited");
                let quota = if unlimited { None } else { Some(line.quota()?) };
                rule.plans.add(&plan, quota);
            }
            "plan-by" => return Err(Fault::expected(at, "", CUSTOM)),
            "queue" | "wait-up-to" => rule.queue = Some(queue::read(clause, at, line)?),
            "refund-errors" => rule.settlement.refund_cap = Some(line.quota()?),
            "settle" => match line.word() {
                "handle" => rule.settlement.set_by_handle(),
                _ => return Err(line.unexpected_last("`handle`")),
            },
            "status" => {
                let status = StatusCode::from_bytes(line.word().as_bytes()).ok();
                let is_error =
                    |status: &StatusCode| status.is_client_error() || status.is_server_error();
                let status = status.filter(is_error);
                let expected = "a status from 400 to 599";
                rule.status = Some(status.ok_or_else(|| line.unexpected_last(expected))?);
            }
            "off" => rule.mode = RuleMode::Off,
            "shadow" => rule.mode = RuleMode::Shadowed,
            _ => rule.mode = enforced(line)?,
        }
        Ok(())
    }

    /// Reads a mode, and no other clause.
    #[cfg(feature = "serde")]
    pub(in super::super) fn mode(&mut self, line: &mut Line<'_>) -> Result<(), Fault> {
        match line.peek() {
            "shadow" | "off" | "enforce" => self.clause(line),
            _ => Err(line.unexpected("`shadow`, `off`, `enforce` or `enforce` with a share")),
        }
    }

    /// Reads methods, unless a slash comes first, and patterns.
    fn place(&mut self, line: &mut Line<'_>) -> Result<(), Fault> {
        let mut methods = Vec::new();
        let mut patterns = Vec::new();
        // Spaces beside a comma do no harm; without a comma, the next word is no method.
        let mut more = !line.peek().starts_with('/') && !is_clause(line.peek());
        while more && !line.is_empty() {
            let (mut at, word) = (line.position(), line.word());
            for name in word.split(',') {
                if !name.is_empty() {
                    methods.push(method(name).map_err(|error| Fault::place(at, error))?);
                }
                at += name.len() + 1;
            }
            more = word.ends_with(',') || line.peek().starts_with(',');
        }
        while line.peek().starts_with('/') {
            let at = line.position();
            let pattern = line.word().parse();
            patterns.push(pattern.map_err(|error| Fault::place(at, error))?);
        }
        if methods.is_empty() && patterns.is_empty() {
            return Err(line.unexpected("methods such as `GET,POST`, or a path such as `/api/*`"));
        }
        self.rule.place = Ok(Place::new(methods, patterns));
        Ok(())
    }

    /// Checks what the parts say of each other.
    pub(in super::super) fn finish(self) -> Result<Rule, Fault> {
        let rule = &self.rule;
        let fail = |at, kind| Err(Fault::rule(at, RuleError::new(&rule.name, kind)));
        let limit = match rule.base {
            Base::Limit(_, quota) => Some(self.limit(quota, self.base_at)?),
            // A name is checked with a limit.
            Base::DenyAll | Base::Unlimited => {
                let named = Limit::token_bucket(&rule.name, Quota::per_second(1));
                named.map_err(|error| Fault::limit(self.name_at, error))?;
                None
            }
        };
        let plans = &rule.plans.named;
        for (index, (at, (plan, quota))) in self.plans.iter().zip(plans).enumerate() {
            if plan.is_empty() || plans[..index].iter().any(|(other, _)| other == plan) {
                return fail(*at, RuleErrorKind::Plan(plan.clone()));
            }
            if let Some(quota) = quota {
                self.limit(*quota, *at)?;
            }
        }
        let cost = limit.map_or(Ok(()), |limit| rule.check_cost(limit.capacity()));
        match cost {
            Ok(()) => Ok(self.rule),
            Err(kind) => fail(self.position_of(&["cost", "max-cost"]), kind),
        }
    }

    /// Prepares a limit, to see whether it can be.
    fn limit(&self, quota: Quota, at: usize) -> Result<Limit, Fault> {
        let rule = &self.rule;
        let Base::Limit(algorithm, _) = rule.base else {
            return Err(Fault::limit(at, LimitError::no_algorithm(&rule.name)));
        };
        let is_name = |error: &LimitError| error.kind() == LimitErrorKind::Name;
        if let Err(error) = Limit::new(&rule.name, algorithm, quota) {
            let at = if is_name(&error) { self.name_at } else { at };
            return Err(Fault::limit(at, error));
        }
        rule.limit(quota).map_err(|error| {
            let clause = if is_name(&error) {
                "counter"
            } else {
                "max-debt"
            };
            Fault::limit(self.position_of(&[clause]), error)
        })
    }

    /// Returns where the first of these clauses stands that was given.
    fn position_of(&self, clauses: &[&str]) -> usize {
        let position = |clause: &&str| self.given.iter().find(|(given, _)| given == clause);
        let given = clauses.iter().find_map(position);
        given.map_or(self.name_at, |(_, at)| *at)
    }
}

fn enforced(line: &mut Line<'_>) -> Result<RuleMode, Fault> {
    if line.is_empty() || is_clause(line.peek()) {
        return Ok(RuleMode::Enforced);
    }
    let share = share(line.word()).map(RuleMode::EnforcedFor);
    share.ok_or_else(|| line.unexpected_last("a share from `0%` to `100%`, or another clause"))
}

/// Reads percent with at most one decimal.
fn share(text: &str) -> Option<Share> {
    let percent = text.strip_suffix('%')?;
    let (whole, tenth) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(tenth) || tenth.len() > 1 {
        return None;
    }
    let (whole, tenth) = (whole.parse::<u16>().ok()?, tenth.parse::<u16>().ok()?);
    Share::per_mille(whole.checked_mul(10)?.checked_add(tenth)?)
}

/// Reads a duration as the period of a quota is read; none is zero.
pub(super) fn duration(line: &mut Line<'_>) -> Result<Duration, Fault> {
    let word = line.word();
    if word == "none" {
        return Ok(Duration::ZERO);
    }
    let quota = format!("1/{word}").parse::<Quota>();
    let expected = "a duration such as `5s`, or `none`";
    quota
        .map(|quota| quota.period())
        .map_err(|_| line.unexpected_last(expected))
}
