//! Deciding a single claim.

use crate::algorithm::{Fixed, Log, Moment, SlidingLog};
use crate::decision::{Outcome, Wait};
use crate::key::Key;
use crate::limit::{Limit, Numbers};

use super::Inner;
use super::logs::{Logs, Shard};
use super::state::{State, write};
use super::table::{Inserted, Table};

/// How often a decision is made without the lock, before it is made under it.
const ATTEMPTS: usize = 4;

/// A claim on a counter with a table.
#[derive(Clone, Copy)]
struct Question<'a> {
    limit: &'a Limit,
    fixed: &'a Fixed,
    version: u32,
    table: &'a Table,
    tag: u64,
    cost: u64,
    /// Whether an admitted cost is to be charged.
    charges: bool,
}

impl Inner {
    /// Decides a single claim.
    pub(super) fn check(&self, limit: &Limit, key: &Key, cost: u64, peek: bool) -> Outcome {
        let tag = self.secret.tag(key);
        match limit.numbers() {
            Numbers::Fixed { fixed, version } => self.check_table(&Question {
                limit,
                fixed,
                version: *version,
                table: self.table(limit),
                tag,
                cost,
                charges: cost > 0 && !peek,
            }),
            Numbers::Log(numbers) => self.check_log(limit, numbers, tag, cost, peek),
        }
    }

    /// Decides on what the line shows without its lock, and takes that only to charge.
    #[inline]
    fn check_table(&self, question: &Question<'_>) -> Outcome {
        let Question {
            fixed, table, tag, ..
        } = *question;
        let line = table.line_of(tag);
        for _ in 0..ATTEMPTS {
            let view = table.view(line);
            // The clock is read after the line's head. If nobody has changed the line since, nobody
            // has judged it by a later moment either.
            let moment = self.moment(matches!(fixed, Fixed::Calendar(_)));
            let found = view.find(tag);
            let (slot, words) = match found {
                None => (None, [0, 0]),
                Some(found) if found.version == question.version => (Some(found.slot), found.words),
                Some(_) => break,
            };
            let verdict = fixed.decide(words, moment, question.cost);
            if !verdict.outcome.is_allowed() || !question.charges {
                if !view.is_current() {
                    continue;
                }
                return question.uncharged(State::Known(words), verdict.outcome, moment);
            }
            if let Some(mut chain) = view.lock() {
                if let Some(slot) = slot {
                    chain.update(slot, verdict.words);
                } else {
                    let numbers = (fixed, question.version);
                    let inserted = chain.insert(tag, numbers, verdict.words, moment);
                    drop(chain);
                    self.after_insert(question.limit, table, numbers, inserted, moment);
                }
                return verdict.outcome;
            }
        }
        self.check_locked(question, line)
    }

    /// Decides under the line's lock: where others are always faster, or a key is to be converted.
    #[cold]
    fn check_locked(&self, question: &Question<'_>, line: usize) -> Outcome {
        let Question {
            fixed, table, tag, ..
        } = *question;
        let numbers = (fixed, question.version);
        let mut chain = table.lock(line);
        // The clock is read under the lock, so that a line's moments never go back.
        let moment = self.moment(matches!(fixed, Fixed::Calendar(_)));
        let found = chain.find(tag);
        let slot = found.map(|found| found.slot);
        let state = State::adopt(&mut chain, found, numbers, moment);
        let verdict = state.decide(fixed, moment, question.cost);
        if !verdict.outcome.is_allowed() || !question.charges {
            return question.uncharged(state, verdict.outcome, moment);
        }
        let inserted = write(&mut chain, slot, tag, numbers, verdict.words, moment);
        drop(chain);
        if let Some(inserted) = inserted {
            self.after_insert(question.limit, table, numbers, inserted, moment);
        }
        verdict.outcome
    }

    #[inline]
    pub(super) fn after_insert(
        &self,
        limit: &Limit,
        table: &Table,
        numbers: (&Fixed, u32),
        inserted: Inserted,
        moment: Moment,
    ) {
        match inserted {
            Inserted::Taken if table.is_full() => {
                // Whether a key has become fresh may depend on the calendar.
                let unix = crate::clock::nanos(self.clock.unix_now());
                table.sweep(numbers, Moment { unix, ..moment });
            }
            Inserted::Evicted => self.observer.evicted(limit),
            Inserted::Taken | Inserted::Reused => {}
        }
    }

    #[inline(never)]
    fn check_log(
        &self,
        limit: &Limit,
        numbers: &SlidingLog,
        tag: u64,
        cost: u64,
        peek: bool,
    ) -> Outcome {
        let logs = self.logs(limit);
        let mut shard = logs.lock(Logs::shard_of(tag));
        let moment = self.moment(false);
        let outcome = log_outcome(logs, &mut shard, tag, numbers, moment, cost, 0);
        if !outcome.is_allowed() || cost == 0 || peek {
            return outcome;
        }
        self.push(limit, logs, &mut shard, tag, numbers, moment, cost);
        log_outcome(logs, &mut shard, tag, numbers, moment, 0, 0)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one claim on a locked shard"
    )]
    pub(super) fn push(
        &self,
        limit: &Limit,
        logs: &Logs,
        shard: &mut Shard,
        tag: u64,
        numbers: &SlidingLog,
        moment: Moment,
        cost: u64,
    ) {
        let evicted = logs.change(shard, tag, numbers, moment, |log| {
            numbers.push(log, moment, cost);
        });
        (0..evicted).for_each(|_| self.observer.evicted(limit));
    }
}

impl Question<'_> {
    /// Returns the outcome of a request that is not charged: the standing is that before it.
    #[inline]
    fn uncharged(&self, before: State<'_>, outcome: Outcome, moment: Moment) -> Outcome {
        if outcome.is_allowed() {
            Outcome::with_wait(before.standing(self.fixed, moment), 0)
        } else {
            outcome
        }
    }
}

/// Returns what a log says of a request. Units that earlier claims of the request will charge,
/// `pending`, come on top.
pub(super) fn log_outcome(
    logs: &Logs,
    shard: &mut Shard,
    tag: u64,
    numbers: &SlidingLog,
    moment: Moment,
    cost: u64,
    pending: u64,
) -> Outcome {
    let empty = Log::default();
    let log = shard.find(tag, numbers, moment, logs).unwrap_or(&empty);
    let wait = match (cost, cost.saturating_add(pending)) {
        (0, _) => Wait::None,
        (cost, _) if cost > numbers.capacity() => Wait::Never,
        (_, together) => numbers.wait(log, moment, together),
    };
    Outcome::new(numbers.standing(log, moment), wait)
}
