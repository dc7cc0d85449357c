//! Deciding a single claim.

use crate::algorithm::{Fixed, Log, Moment, SlidingLog, Verdict, Words};
use crate::decision::{Outcome, Wait};
use crate::key::Key;
use crate::limit::{Limit, Numbers};
use crate::sync::back_off;

use super::Inner;
use super::logs::{Logs, Shard};
use super::state::read;
use super::table::{Chain, Inserted, SWEEP, Slot, Table};

/// How often a decision is made again without the lock, before it is made under it.
const ATTEMPTS: u32 = 8;

impl Inner {
    /// Decides a single claim.
    #[inline]
    pub(super) fn check(&self, limit: &Limit, key: &Key, cost: u64, peek: bool) -> Outcome {
        let tag = self.secret.tag(key);
        match limit.numbers() {
            Numbers::Fixed { fixed, version } => {
                let (numbers, charges) = ((fixed, *version), cost > 0 && !peek);
                match fixed {
                    // The same, with the way of a bucket through it as straight as can be.
                    Fixed::Bucket(bucket) => {
                        let decide = |words, moment| bucket.decide(*version, words, moment, cost);
                        self.check_table(limit, numbers, false, tag, cost, charges, decide)
                    }
                    _ => {
                        let calendar = matches!(fixed, Fixed::Calendar(_));
                        let decide = |words, moment| fixed.decide(*version, words, moment, cost);
                        self.check_table(limit, numbers, calendar, tag, cost, charges, decide)
                    }
                }
            }
            Numbers::Log(numbers) => self.check_log(limit, numbers, tag, cost, peek),
        }
    }

    /// Decides on what the line shows without its lock, and takes that only to charge.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a claim, known apart so that a bucket's way is straight"
    )]
    #[inline(always)]
    fn check_table(
        &self,
        limit: &Limit,
        numbers: (&Fixed, u32),
        calendar: bool,
        tag: u64,
        cost: u64,
        charges: bool,
        decide: impl Fn(Words, Moment) -> Verdict,
    ) -> Outcome {
        let (fixed, version) = numbers;
        let table = self.table(limit);
        let view = table.view(table.line_of(tag));
        // The clock is read after the line's head. If nobody has changed the line since, nobody has
        // judged it by a later moment either.
        let moment = if calendar {
            self.calendar_moment()
        } else {
            Moment::from(self.clock.now())
        };
        let slot = view.find(tag);
        let stands = |slot: Slot<'_>| {
            slot.version() == version && !(calendar && fixed.rebase(slot.words(), moment).is_some())
        };
        let words = match slot {
            Some(slot) if stands(slot) => slot.words(),
            // To be converted.
            Some(_) => return self.check_locked(limit, numbers, tag, cost, charges),
            None => [0, 0],
        };
        let verdict = decide(words, moment);
        if verdict.outcome.is_allowed() {
            if !charges {
                return self.check_locked(limit, numbers, tag, cost, charges);
            }
            if let Some(mut chain) = view.lock() {
                if let Some(slot) = slot {
                    chain.update(slot, verdict.words);
                } else {
                    self.insert(limit, table, chain, numbers, tag, verdict.words, moment);
                }
                return verdict.outcome;
            }
        } else if view.is_current() {
            return verdict.outcome;
        }
        // Another was faster.
        let again = !calendar && charges;
        again
            .then(|| check_again(table, version, tag, moment, decide))
            .flatten()
            .unwrap_or_else(|| self.check_locked(limit, numbers, tag, cost, charges))
    }

    /// Decides under the line's lock.
    #[cold]
    fn check_locked(
        &self,
        limit: &Limit,
        numbers: (&Fixed, u32),
        tag: u64,
        cost: u64,
        charges: bool,
    ) -> Outcome {
        let fixed = numbers.0;
        let table = self.table(limit);
        let mut chain = table.lock(table.line_of(tag));
        let slot = chain.find(tag);
        // The clock is read under the lock, so that a line's moments never go back.
        let moment = self.moment(numbers, slot);
        let before = read(&mut chain, slot, numbers, moment);
        let Verdict { outcome, words } = fixed.decide(numbers.1, before, moment, cost);
        match slot {
            _ if !outcome.is_allowed() => return outcome,
            // The standing is that before the request, which spends nothing.
            _ if !charges => return outcome.with_standing(fixed.standing(before, moment)),
            Some(slot) => chain.write(slot, numbers.1, words),
            None => self.insert(limit, table, chain, numbers, tag, words, moment),
        }
        outcome
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a new entry and where it belongs"
    )]
    #[inline(never)]
    fn insert(
        &self,
        limit: &Limit,
        table: &Table,
        mut chain: Chain<'_>,
        numbers: (&Fixed, u32),
        tag: u64,
        words: Words,
        moment: Moment,
    ) {
        let inserted = chain.insert(tag, numbers, words, moment);
        drop(chain);
        self.after_insert(limit, table, numbers, inserted, moment);
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
                table.sweep(numbers, Moment { unix, ..moment }, SWEEP);
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
        let moment = Moment::from(self.clock.now());
        let outcome = log_outcome(logs, &mut shard, tag, numbers, moment, cost, 0);
        if !outcome.is_allowed() || cost == 0 || peek {
            return outcome;
        }
        let evicted = push(logs, &mut shard, tag, numbers, moment, cost);
        let outcome = log_outcome(logs, &mut shard, tag, numbers, moment, 0, 0);
        drop(shard);
        self.tell_evicted(limit, evicted);
        outcome
    }

    /// Tells the observer of evicted keys. Called with no lock held: it may ask the store.
    pub(super) fn tell_evicted(&self, limit: &Limit, evicted: u64) {
        (0..evicted).for_each(|_| self.observer.evicted(limit));
    }
}

/// Adds a charge to a log. Returns the logs of live keys that had to go to make room.
pub(super) fn push(
    logs: &Logs,
    shard: &mut Shard,
    tag: u64,
    numbers: &SlidingLog,
    moment: Moment,
    cost: u64,
) -> u64 {
    logs.change(shard, tag, numbers, moment, |log| {
        numbers.push(log, moment, cost);
    })
}

/// Decides once more, as of the moment that was read, on an entry that others keep changing.
///
/// They may have judged it by a later moment. As of an earlier one no less is in use, so nothing is
/// admitted that would not be now. Only an entry that is gone may have become fresh in between;
/// `None` then, or where others are faster again and again.
#[cold]
#[inline(never)]
fn check_again(
    table: &Table,
    version: u32,
    tag: u64,
    moment: Moment,
    decide: impl Fn(Words, Moment) -> Verdict,
) -> Option<Outcome> {
    for attempt in 0..ATTEMPTS {
        back_off(attempt);
        let view = table.view(table.line_of(tag));
        let slot = view.find(tag).filter(|slot| slot.version() == version)?;
        let verdict = decide(slot.words(), moment);
        if !verdict.outcome.is_allowed() {
            if view.is_current() {
                return Some(verdict.outcome);
            }
        } else if let Some(mut chain) = view.lock() {
            chain.update(slot, verdict.words);
            return Some(verdict.outcome);
        }
    }
    None
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
