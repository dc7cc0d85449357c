//! Reads logs and decides every request with the algorithms that servers run.
//!
//! Each log is put in order on its own ([`order`](crate::order)), then the logs are merged by time,
//! so several servers' logs, or a log and its rotated predecessors in any order, are one history.
//!
//! Most logs know only the second of a request, and a client's requests of one second can have come
//! at once or apart. So each request is decided twice, against two stores: at the logged time, all
//! of a second at once, and with each client's requests of one second spread evenly over it. The
//! truth mostly lies between.

mod decider;
mod engine;
mod findings;
mod names;
mod source;
mod tally;

use std::fmt;
use std::io;
use std::sync::mpsc;
use std::thread;

use ratekeeper_core::{LimitError, MAX_CLAIMS, StoreError};

use self::decider::{Batch, Decider};
pub use self::findings::{
    Bin, Distribution, FileRead, Findings, Key as KeyFinding, Level, Others, Range, RuleFinding,
};
use self::names::Names;
use self::source::{Held, Request, Shared, Source};
use crate::order::{Second, in_order};
use crate::parse::{Fault, Fields, Format};
use crate::read::LogLines;
use crate::rules::{KeyPart, KeyParts, Rule, RuleError, check};
use crate::time::SECOND;

/// How many requests are handed over to be decided at a time.
const BATCH: usize = 4_096;

/// How a replay is done.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The rules, at least one.
    pub rules: Vec<Rule>,
    /// The form of the lines; found out for each log when not given.
    pub format: Option<Format>,
    /// The names of fields in JSON lines.
    pub fields: Fields,
    /// How late a line may be and still be put in its place, in nanoseconds.
    pub skew: i64,
    /// How many lines are held back at most to put them in order, in all logs together.
    pub held: usize,
    /// How many clients, and keys of each rule, are told apart.
    pub keys: usize,
    /// How many of the most limited keys are listed.
    pub top: usize,
}

impl Settings {
    /// Creates the usual settings: 60 s of skew, 4 million lines held back, a million keys, 10 listed.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self {
            rules,
            format: None,
            fields: Fields::default(),
            skew: 60 * SECOND,
            held: 4_000_000,
            keys: 1_000_000,
            top: 10,
        }
    }
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The log.
    pub file: String,
    /// The line's number, from one.
    pub line: u64,
    /// What is wrong with it.
    pub fault: Fault,
    /// Its beginning, as it stands: escape it for where it is shown.
    pub text: Vec<u8>,
}

/// The first line that came too late to be put in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The log.
    pub file: String,
    /// The line's number, from one.
    pub line: u64,
    /// How late it is, in nanoseconds.
    pub by: u64,
    /// The line that had gone further in time.
    pub after: u64,
}

/// Why a replay failed.
#[derive(Debug)]
pub struct ReplayError(Failure);

#[derive(Debug)]
enum Failure {
    Rules(RuleError),
    Limit(LimitError),
    /// So many rules apply to one request.
    TooMany(usize),
    Read(String, io::Error),
    Store(StoreError),
}

impl From<RuleError> for ReplayError {
    fn from(error: RuleError) -> Self {
        Self(Failure::Rules(error))
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::TooMany(count) => {
                write!(
                    f,
                    "{count} rules apply to one request, at most {MAX_CLAIMS} can"
                )
            }
            Failure::Rules(_) | Failure::Limit(_) => f.write_str("the rules cannot be replayed"),
            Failure::Read(file, _) => write!(f, "cannot read {file:?}"),
            Failure::Store(_) => f.write_str("a decision failed"),
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Failure::Rules(error) => Some(error),
            Failure::Limit(error) => Some(error),
            Failure::TooMany(_) => None,
            Failure::Read(_, error) => Some(error),
            Failure::Store(error) => Some(error),
        }
    }
}

/// Replays logs, each with the name that it is reported by.
///
/// `tick` is called now and then, for a progress display.
///
/// # Errors
///
/// Fails when the rules cannot stand together or a log cannot be read to its end. Lines that make no
/// sense are no failure: they are counted.
pub fn replay(
    logs: Vec<(String, LogLines)>,
    settings: &Settings,
    mut tick: impl FnMut(),
) -> Result<Findings, ReplayError> {
    check(&settings.rules)?;
    let (kinds, kind_of_rule) = kinds(&settings.rules);
    let names = kinds
        .into_iter()
        .map(|kind| Names::new(kind, settings.keys))
        .collect::<Vec<_>>();
    let mut shared = Shared {
        settings,
        held: Held::new(names.len()),
        names,
        unreadable: 0,
        samples: Vec::new(),
        late: 0,
        first_late: None,
    };
    let room = (settings.held / logs.len().max(1)).max(1_000);
    let mut sources: Vec<_> = logs
        .into_iter()
        .map(|(name, lines)| Source::new(name, lines, settings, room))
        .collect();
    let mut decider = Decider::new(settings, kind_of_rule.clone(), shared.names.len())?;
    // One thread reads and orders, the other decides; a few batches wait between them.
    let (sender, receiver) = mpsc::sync_channel(4);
    let (read, decided) = thread::scope(|scope| {
        let deciding = scope.spawn(move || {
            receiver
                .into_iter()
                .try_for_each(|batch| decider.batch(&batch))
                .map(|()| decider)
        });
        let read = merge(&mut sources, &mut shared, &sender, &mut tick);
        drop(sender);
        (read, deciding.join())
    });
    // A panic there is passed on: it is a fault here, not in the log.
    let decider = decided.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    read?;
    let evicted = decider.evicted();
    Ok(findings::collect(
        &shared,
        &decider.tally,
        &kind_of_rule,
        &sources,
        evicted,
    ))
}

/// Sends all requests in the order of their time, until there are no more or nobody takes them.
fn merge(
    sources: &mut [Source],
    shared: &mut Shared<'_>,
    sender: &mpsc::SyncSender<Batch>,
    tick: &mut impl FnMut(),
) -> Result<(), ReplayError> {
    let mut heads = Vec::with_capacity(sources.len());
    for source in sources.iter_mut() {
        heads.push(next(source, shared)?);
    }
    let mut batch = Batch::default();
    while let Some(second) = heads.iter().flatten().map(|head| head.second).min() {
        let begin = batch.requests.len();
        for (head, source) in heads.iter_mut().zip(sources.iter_mut()) {
            if head.as_ref().is_some_and(|head| head.second == second)
                && let Some(taken) = head.take()
            {
                batch.requests.extend(taken.requests);
                *head = next(source, shared)?;
            }
        }
        let requests = &mut batch.requests[begin..];
        in_order(requests);
        for (_, request) in requests {
            batch.keys.extend_from_slice(shared.held.keys(request.slot));
            shared.held.release(request.slot);
        }
        batch.seconds.push((second, batch.requests.len()));
        if batch.requests.len() >= BATCH {
            tick();
            if sender.send(std::mem::take(&mut batch)).is_err() {
                return Ok(());
            }
        }
    }
    // Whoever should take it may have failed, and says so itself.
    let _ = sender.send(batch);
    Ok(())
}

fn next(
    source: &mut Source,
    shared: &mut Shared<'_>,
) -> Result<Option<Second<Request>>, ReplayError> {
    source
        .next_second(shared)
        .map_err(|error| ReplayError(Failure::Read(source.name.clone(), error)))
}

/// Returns the kinds of key, the client's first, and which of them each rule counts for.
fn kinds(rules: &[Rule]) -> (Vec<KeyParts>, Vec<usize>) {
    let mut kinds = vec![KeyParts(vec![vec![KeyPart::IP]])];
    let of_rule = rules.iter().map(|rule| {
        kinds
            .iter()
            .position(|kind| *kind == rule.key)
            .unwrap_or_else(|| {
                kinds.push(rule.key.clone());
                kinds.len() - 1
            })
    });
    let of_rule = of_rule.collect();
    (kinds, of_rule)
}
