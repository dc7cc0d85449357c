//! From the rules of a server to those of a replay.
//!
//! The server's reader has checked the text and prints it back with its clauses in one order; what
//! is printed is all that it lets others see of a rule, and all that is needed.

use ratekeeper_core::algorithm::UtcOffset;
use ratekeeper_core::{Algorithm, Limit};
use tower_ratekeeper::Rules;
use tower_ratekeeper::key::{KeyError, Registry, by_fn};

use super::{KeyParts, On, Rule, RuleError};

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    let registry = registry().map_err(|error| RuleError::new(error.to_string()))?;
    let rules =
        Rules::parse_with(text, &registry).map_err(|error| RuleError::new(error.to_string()))?;
    let read = rules.iter().filter_map(|rule| {
        let text = rule.to_string();
        let read = one(rule.name(), &text).map_err(|reason| RuleError {
            rule: text.clone(),
            reason,
        });
        read.map(|rule| rule.map(|rule| Rule { text, ..rule }))
            .transpose()
    });
    read.collect()
}

/// The built-in keys and those that only logs have. Nothing is ever extracted with them.
fn registry() -> Result<Registry, tower_ratekeeper::key::ExtractorError> {
    let unknown = || by_fn(|_| KeyError::missing("log"));
    Registry::new()
        .with("user", unknown())?
        .with("path", unknown())
}

/// Reads what follows the name of a printed rule; nothing when the rule refuses nothing.
fn one(name: &str, text: &str) -> Result<Option<Rule>, String> {
    let mut words = after_name(text).split(' ').peekable();
    let algorithm = match words.next().unwrap_or_default() {
        "deny" => {
            return Err(
                "deny refuses all that it applies to, whatever a log says: leave it out".to_owned(),
            );
        }
        "unlimited" => return Ok(None),
        algorithm => algorithm,
    };
    let mut algorithm: Algorithm = algorithm.parse().map_err(|error| format!("{error}"))?;
    let mut quota = words.next().unwrap_or_default().to_owned();
    let mut counter = None;
    let (mut key, mut on, mut cost, mut shadowed) = ("peer".to_owned(), On::default(), 1, false);
    while let Some(clause) = words.next() {
        // All words up to the next clause belong to this one.
        let mut value = Vec::new();
        while let Some(word) = words.next_if(|word| !CLAUSES.contains(word)) {
            value.push(word);
        }
        let value = value.join(" ");
        match clause {
            "burst" => quota = format!("{quota} burst {value}"),
            "at" => algorithm = Algorithm::CalendarWindow(offset(&value)?),
            "by" => key = value,
            "on" => on = place(&value)?,
            "cost" if value == "later" => {
                return Err("a log does not tell what a request cost in the end".to_owned());
            }
            "cost" => {
                cost = value
                    .parse()
                    .map_err(|_| format!("invalid cost {value:?}"))?;
            }
            "counter" => counter = Some(value.trim_matches('"').to_owned()),
            "plan" => {
                return Err(
                    "a log does not tell who is in which plan: name the quota of one".to_owned(),
                );
            }
            "settle" | "refund-errors" => {
                return Err(format!(
                    "a log does not tell what {clause:?} would give back: leave it out"
                ));
            }
            "queue" | "wait-up-to" => {
                return Err(format!(
                    "a replay refuses and does not delay: leave {clause:?} out"
                ));
            }
            "shadow" => shadowed = true,
            "off" => return Ok(None),
            // A share of keys is enforced: which keys is the server's secret, so all are.
            _ => {}
        }
    }
    let quota = quota.parse().map_err(|error| format!("{error}"))?;
    let mut limit = Limit::new(name, algorithm, quota).map_err(|error| error.to_string())?;
    if let Some(counter) = counter {
        limit = limit
            .with_counter(&counter)
            .map_err(|error| error.to_string())?;
    }
    let key = KeyParts::read(&key)?;
    Ok(Some(Rule {
        limit,
        key,
        on,
        cost,
        shadowed,
        text: String::new(),
    }))
}

/// The words that begin a clause of a printed rule.
const CLAUSES: [&str; 20] = [
    "burst",
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

/// Returns what follows the name, which may be quoted, and its colon.
fn after_name(text: &str) -> &str {
    let mut escaped = false;
    let mut quoted = false;
    let colon = text.find(|letter: char| {
        match letter {
            '"' if !escaped => quoted = !quoted,
            ':' if !quoted => return true,
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        false
    });
    colon.map_or("", |colon| text[colon + 1..].trim_start())
}

fn offset(text: &str) -> Result<UtcOffset, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn place(text: &str) -> Result<On, String> {
    let mut on = On::default();
    for word in text.split(' ') {
        if word.starts_with('/') {
            on.patterns
                .push(word.parse().map_err(|error| format!("{error}"))?);
        } else {
            on.methods = word.split(',').map(str::to_owned).collect();
        }
    }
    Ok(on)
}
