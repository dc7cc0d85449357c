//! JSON for programs. The fields named first in each object are stable; the order is as written.

use std::io::{self, Write};

use serde::Serialize;

use crate::escape;
use crate::explain::{Backend, Explanation};
use crate::replay::{Findings, Others};
use crate::time::{SECOND, Utc};

#[derive(Serialize)]
struct Report<'a> {
    total: u64,
    refused: u64,
    late: u64,
    unreadable: u64,
    clients: u64,
    clients_refused: u64,
    rules: Vec<Rule<'a>>,
    top: Vec<Key<'a>>,
    refused_spread: u64,
    clients_refused_spread: u64,
    decided: u64,
    sub_second_stamps: u64,
    first: Option<String>,
    last: Option<String>,
    other_clients: OtherKeys,
    keys_forgotten: u64,
    interval_seconds: i64,
    intervals: Vec<Interval>,
    unreadable_lines: Vec<Line<'a>>,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct Rule<'a> {
    name: &'a str,
    refused: u64,
    refused_spread: u64,
    rule: &'a str,
    requests: u64,
    without_key: u64,
    keys: u64,
    keys_refused: u64,
    keys_refused_spread: u64,
    longest_wait_seconds: Option<f64>,
    others: OtherKeys,
}

#[derive(Serialize)]
struct Key<'a> {
    key: &'a str,
    refused: u64,
    refused_spread: u64,
    rule: &'a str,
    requests: u64,
    longest_wait_seconds: Option<f64>,
    first_refusal: String,
    last_refusal: String,
}

#[derive(Serialize)]
struct OtherKeys {
    requests: u64,
    refused: u64,
    refused_spread: u64,
}

impl From<Others> for OtherKeys {
    fn from(others: Others) -> Self {
        Self {
            requests: others.requests,
            refused: others.refused.at_once,
            refused_spread: others.refused.spread,
        }
    }
}

#[derive(Serialize)]
struct Interval {
    start: String,
    offered: u64,
    refused: u64,
    refused_spread: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    line: u64,
    reason: String,
    text: String,
}

#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    format: Option<&'static str>,
    lines: u64,
}

pub(crate) fn findings(found: &Findings, out: &mut impl Write) -> io::Result<()> {
    let decided = found.decided > 0;
    let rules = found.rules.iter().map(|rule| Rule {
        name: &rule.name,
        refused: rule.refused.at_once,
        refused_spread: rule.refused.spread,
        rule: &rule.text,
        requests: rule.applied,
        without_key: rule.unkeyed,
        keys: rule.keys,
        keys_refused: rule.keys_refused.at_once,
        keys_refused_spread: rule.keys_refused.spread,
        longest_wait_seconds: wait(rule.longest_wait),
        others: rule.others.into(),
    });
    let top = found.top.iter().map(|key| Key {
        key: &key.key,
        refused: key.refused.at_once,
        refused_spread: key.refused.spread,
        rule: &found.rules[key.rule].name,
        requests: key.requests,
        longest_wait_seconds: wait(key.longest_wait),
        first_refusal: Utc(key.first).to_string(),
        last_refusal: Utc(key.last).to_string(),
    });
    let intervals = found
        .bins
        .iter()
        .filter(|bin| bin.offered > 0)
        .map(|bin| Interval {
            start: Utc(bin.start.saturating_mul(SECOND)).to_string(),
            offered: bin.offered,
            refused: bin.refused.at_once,
            refused_spread: bin.refused.spread,
        });
    let lines = found.samples.iter().map(|sample| Line {
        file: &sample.file,
        line: sample.line,
        reason: sample.fault.to_string(),
        text: escape::utf8(&sample.text),
    });
    let files = found.files.iter().map(|file| File {
        name: &file.name,
        format: file.format.map(|format| format.name()),
        lines: file.lines,
    });
    let report = Report {
        total: found.total,
        refused: found.refused.at_once,
        late: found.late,
        unreadable: found.unreadable,
        clients: found.clients,
        clients_refused: found.clients_refused.at_once,
        rules: rules.collect(),
        top: top.collect(),
        refused_spread: found.refused.spread,
        clients_refused_spread: found.clients_refused.spread,
        decided: found.decided,
        sub_second_stamps: found.exact,
        first: decided.then(|| Utc(found.first).to_string()),
        last: decided.then(|| Utc(found.last).to_string()),
        other_clients: found.other_clients.into(),
        keys_forgotten: found.evicted,
        interval_seconds: found.width,
        intervals: intervals.collect(),
        unreadable_lines: lines.collect(),
        files: files.collect(),
    };
    write(&report, out)
}

/// Returns seconds; nothing when there was no wait, or when none would do.
#[expect(
    clippy::cast_precision_loss,
    reason = "seconds with a fraction are a float in JSON"
)]
fn wait(nanos: u64) -> Option<f64> {
    (nanos != 0 && nanos != u64::MAX).then(|| nanos as f64 / 1e9)
}

#[derive(Serialize)]
struct Explained {
    algorithm: &'static str,
    quota: String,
    at_once: u64,
    first_minute: u128,
    worst_period: u128,
    worst_hundredth: u128,
    full_after_seconds: f64,
    wait_seconds: f64,
    memory_bytes: u64,
    redis_bytes: u64,
    fields: Vec<[String; 2]>,
    refusal_fields: Vec<[String; 2]>,
    backend: Option<Load>,
}

#[derive(Serialize)]
struct Load {
    keys: u64,
    capacity: String,
    at_once: u128,
    rate: f64,
    served: f64,
    sustained_keys: u64,
    queue_growth: f64,
    worked_off_seconds: Option<f64>,
}

pub(crate) fn explained(
    explained: &[(&Explanation, Option<Backend>)],
    out: &mut impl Write,
) -> io::Result<()> {
    let one = |(one, backend): &(&Explanation, Option<Backend>)| {
        let [first, refusal] = one.fields.each_ref().map(|fields| {
            fields
                .iter()
                .map(|(name, value)| [(*name).to_owned(), value.clone()])
                .collect()
        });
        Explained {
            algorithm: one.algorithm.name(),
            quota: one.quota.to_string(),
            at_once: one.at_once,
            first_minute: one.first_minute,
            worst_period: one.worst_period,
            worst_hundredth: one.worst_hundredth,
            full_after_seconds: one.to_full.as_secs_f64(),
            wait_seconds: one.wait.as_secs_f64(),
            memory_bytes: one.memory,
            redis_bytes: one.redis,
            fields: first,
            refusal_fields: refusal,
            backend: backend.as_ref().map(|backend| Load {
                keys: backend.keys,
                capacity: backend.capacity.to_string(),
                at_once: backend.at_once,
                rate: backend.rate,
                served: backend.served,
                sustained_keys: backend.sustained_keys,
                queue_growth: backend.queue_growth,
                worked_off_seconds: backend.worked_off,
            }),
        }
    };
    match explained {
        [single] => write(&one(single), out),
        several => write(&several.iter().map(one).collect::<Vec<_>>(), out),
    }
}

/// Writes JSON whose strings hold no character that a terminal would act on.
fn write(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    writeln!(out, "{}", escape::json(&text))
}
