//! What a replay found, ready to be shown.

use super::names::Names;
use super::source::{Shared, Source};
use super::tally::{ClientRow, Row, RuleTally, Tally};
use super::{Late, Sample};
use crate::escape;
use crate::parse::Format;
use crate::series::Series;

/// The same count under both readings of a log's seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// All requests of a second at once.
    pub at_once: u64,
    /// Each client's requests of a second spread evenly over it.
    pub spread: u64,
}

/// What a replay found. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Findings {
    /// Readable requests: those decided and those late.
    pub total: u64,
    /// Requests that were decided.
    pub decided: u64,
    /// Requests that a rule refused.
    pub refused: Range,
    /// Requests that came too late to be put in order; they were not decided.
    pub late: u64,
    /// The first of them.
    pub first_late: Option<Late>,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// Some of them.
    pub samples: Vec<Sample>,
    /// Clients told apart.
    pub clients: u64,
    /// Of these, clients of whom a request was refused.
    pub clients_refused: Range,
    /// Requests of clients beyond the bound on keys, and how many were refused.
    pub other_clients: Others,
    /// Decided requests whose logged time is more exact than a second.
    pub exact: u64,
    /// The first and the last decided request; the same where there is none.
    pub first: i64,
    /// See `first`.
    pub last: i64,
    /// The rules, in their order.
    pub rules: Vec<RuleFinding>,
    /// The most refused keys of all rules, the most refused first.
    pub top: Vec<Key>,
    /// Seconds of one interval in `bins`.
    pub width: i64,
    /// The log's intervals, without gaps.
    pub bins: Vec<Bin>,
    /// How full the limits of the most refused keys were.
    pub levels: Vec<Level>,
    /// The logs.
    pub files: Vec<FileRead>,
    /// Live keys that the store forgot because there were too many.
    pub evicted: u64,
}

/// Requests that are not told apart by key, since there were too many keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Their requests.
    pub requests: u64,
    /// Those refused.
    pub refused: Range,
}

/// What one rule did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleFinding {
    /// Its name.
    pub name: String,
    /// Its text form.
    pub text: String,
    /// Requests that it applied to.
    pub applied: u64,
    /// Requests that it would have applied to but for their key, which the log lacks.
    pub unkeyed: u64,
    /// Requests that it refused.
    pub refused: Range,
    /// Its keys told apart.
    pub keys: u64,
    /// Keys of which a request was refused.
    pub keys_refused: Range,
    /// Requests of keys beyond the bound.
    pub others: Others,
    /// The longest wait that a refusal told, in nanoseconds; `u64::MAX` when none would do.
    pub longest_wait: u64,
    /// The first and the last refusal; equal where there is at most one.
    pub first: i64,
    /// See `first`.
    pub last: i64,
    /// How many keys had their busiest period at how many units: requests, unless they cost more.
    pub peaks: Distribution,
}

/// A distribution over classes that double: 1, 2, 3 to 4, 5 to 8 and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Keys in each class.
    pub classes: Vec<u64>,
}

impl Distribution {
    /// Returns the smallest and the largest value of a class.
    #[must_use]
    pub fn class(index: usize) -> (u64, u64) {
        match index {
            0 => (1, 1),
            _ => ((1 << (index - 1)) + 1, 1 << index),
        }
    }

    fn add(&mut self, value: u32) {
        let class = match value {
            0 => return,
            _ => (u32::BITS - (value - 1).leading_zeros()) as usize,
        };
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
    }
}

/// What one rule did to one key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Key {
    /// The rule's index.
    pub rule: usize,
    /// The key, in valid UTF-8; control characters are as they came: escape it for where it is shown.
    pub key: String,
    /// Its requests.
    pub requests: u64,
    /// Those refused by this rule.
    pub refused: Range,
    /// The longest wait, in nanoseconds; `u64::MAX` when none would do.
    pub longest_wait: u64,
    /// The first and the last refusal.
    pub first: i64,
    /// See `first`.
    pub last: i64,
}

/// One interval of the log.
#[derive(Clone, Debug)]
pub struct Bin {
    /// Its first second since the Unix epoch.
    pub start: i64,
    /// Requests decided.
    pub offered: u64,
    /// Of these, requests refused.
    pub refused: Range,
    /// Refused by each rule, all at once.
    pub by_rule: Vec<u64>,
}

/// How full one key's limit was.
#[derive(Clone, Debug)]
pub struct Level {
    /// The rule's index.
    pub rule: usize,
    /// The key, as in [`Key`].
    pub key: String,
    /// What the limit holds.
    pub capacity: u64,
    /// The highest level in each interval; nothing where the key made no request or was not yet
    /// among the most limited.
    pub levels: Vec<Option<u64>>,
}

/// One log that was read.
#[derive(Clone, Debug)]
pub struct FileRead {
    /// Its name.
    pub name: String,
    /// The form of its lines; nothing when none was readable.
    pub format: Option<Format>,
    /// Its lines.
    pub lines: u64,
    /// Too many lines lay within the skew, so that some were put in order within less.
    pub squeezed: bool,
}

pub(super) fn collect(
    shared: &Shared<'_>,
    tally: &Tally,
    kind_of_rule: &[usize],
    sources: &[Source],
    evicted: u64,
) -> Findings {
    let settings = shared.settings;
    let names = |rule: usize| &shared.names[kind_of_rule[rule]];
    let rules = settings
        .rules
        .iter()
        .zip(&tally.rules)
        .map(|(rule, tally)| RuleFinding {
            name: rule.limit.name().to_owned(),
            text: rule.to_string(),
            ..rule_finding(tally)
        });
    let refused = |pick: fn(&ClientRow) -> u64| {
        tally.clients.iter().filter(|row| pick(row) > 0).count() as u64
    };
    let bins = (0..tally.grid.count).map(|index| Bin {
        start: tally.grid.start(index),
        offered: tally.offered.get(index),
        refused: Range {
            at_once: tally.refused_over_time.get(index),
            spread: tally.spread_over_time.get(index),
        },
        by_rule: tally
            .rules
            .iter()
            .map(|rule| rule.over_time.get(index))
            .collect(),
    });
    Findings {
        total: tally.decided + shared.late,
        decided: tally.decided,
        refused: Range {
            at_once: tally.refused,
            spread: tally.spread,
        },
        late: shared.late,
        first_late: shared.first_late.clone(),
        unreadable: shared.unreadable,
        samples: shared.samples.clone(),
        clients: shared.names[0].len() as u64,
        clients_refused: Range {
            at_once: refused(|row| row.refused),
            spread: refused(|row| row.spread),
        },
        other_clients: Others {
            requests: tally.other_clients.requests,
            refused: Range {
                at_once: tally.other_clients.refused,
                spread: tally.other_clients.spread,
            },
        },
        exact: tally.exact,
        first: tally.first,
        last: tally.last,
        rules: rules.collect(),
        top: top(&tally.rules, names, settings.top),
        width: tally.grid.width,
        bins: bins.collect(),
        levels: levels(tally, names, |rule| settings.rules[rule].limit.capacity()),
        files: sources.iter().map(file_read).collect(),
        evicted,
    }
}

fn file_read(source: &Source) -> FileRead {
    FileRead {
        name: source.name.clone(),
        format: source.format(),
        lines: source.line,
        squeezed: source.squeezed(),
    }
}

fn rule_finding(tally: &RuleTally) -> RuleFinding {
    let refused =
        |pick: fn(&Row) -> u64| tally.rows.iter().filter(|row| pick(row) > 0).count() as u64;
    let mut peaks = Distribution::default();
    tally.rows.iter().for_each(|row| peaks.add(row.peak));
    RuleFinding {
        name: String::new(),
        text: String::new(),
        applied: tally.all.requests,
        unkeyed: tally.unkeyed,
        refused: range(&tally.all),
        keys: tally.rows.iter().filter(|row| row.requests > 0).count() as u64,
        keys_refused: Range {
            at_once: refused(|row| row.refused),
            spread: refused(|row| row.spread),
        },
        others: Others {
            requests: tally.others.requests,
            refused: range(&tally.others),
        },
        longest_wait: tally.all.longest_wait,
        first: tally.all.first,
        last: tally.all.last,
        peaks,
    }
}

fn range(row: &Row) -> Range {
    Range {
        at_once: row.refused,
        spread: row.spread,
    }
}

/// Returns the most refused keys; equal ones in the order of rules and of their texts.
fn top<'a>(rules: &[RuleTally], names: impl Fn(usize) -> &'a Names, most: usize) -> Vec<Key> {
    let refused = rules.iter().enumerate().flat_map(|(rule, tally)| {
        let rows = tally
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.refused > 0);
        rows.map(move |(index, row)| (rule, index, row))
    });
    let mut refused: Vec<_> = refused.collect();
    let text = |rule: usize, index: usize| names(rule).text(u32::try_from(index).unwrap_or(0));
    let rank = |(rule, index, row): &(usize, usize, &Row)| {
        (std::cmp::Reverse(row.refused), *rule, text(*rule, *index))
    };
    if refused.len() > most {
        refused.select_nth_unstable_by(most, |one, other| rank(one).cmp(&rank(other)));
        refused.truncate(most);
    }
    refused.sort_unstable_by(|one, other| rank(one).cmp(&rank(other)));
    let key = |(rule, index, row): (usize, usize, &Row)| Key {
        rule,
        key: escape::utf8(text(rule, index)),
        requests: row.requests,
        refused: range(row),
        longest_wait: row.longest_wait,
        first: row.first,
        last: row.last,
    };
    refused.into_iter().map(key).collect()
}

fn levels<'a>(
    tally: &Tally,
    names: impl Fn(usize) -> &'a Names,
    capacity: impl Fn(usize) -> u64,
) -> Vec<Level> {
    let mut traces: Vec<_> = tally.traces.iter().collect();
    traces.sort_by_key(|trace| {
        std::cmp::Reverse(tally.rules[trace.rule].rows[trace.row as usize].refused)
    });
    let series = |series: &Series| {
        (0..tally.grid.count)
            .map(|index| series.get(index).checked_sub(1))
            .collect()
    };
    let level = |trace: &&super::tally::Trace| Level {
        rule: trace.rule,
        key: escape::utf8(names(trace.rule).text(trace.row)),
        capacity: capacity(trace.rule),
        levels: series(&trace.levels),
    };
    traces.iter().take(4).map(level).collect()
}
