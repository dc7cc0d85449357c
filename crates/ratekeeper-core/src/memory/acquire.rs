//! Deciding several claims together: lock what they touch, decide, and only then write.

use crate::algorithm::{Fixed, Moment, SlidingLog, Verdict, Words};
use crate::claim::{Claim, Claims, MAX_CLAIMS, Mode};
use crate::clock::Nanos;
use crate::decision::Outcome;
use crate::limit::Numbers;
use crate::receipt::Receipt;
use crate::store::Answer;
use crate::sync::MutexGuard;

use super::Inner;
use super::check::{log_outcome, push};
use super::logs::{Logs, Shard};
use super::state::{read, write};
use super::table::{Chain, Inserted, Slot, Table};

impl Inner {
    /// Decides all claims of a request, all or none.
    #[inline(never)]
    pub(super) fn acquire(&self, claims: &Claims<'_>, answer: &mut Answer) {
        // Few limits do without the room for eight.
        match claims.as_slice().len() {
            0..=2 => self.acquire_up_to::<2>(claims, answer),
            _ => self.acquire_up_to::<MAX_CLAIMS>(claims, answer),
        }
    }

    fn acquire_up_to<const N: usize>(&self, claims: &Claims<'_>, answer: &mut Answer) {
        let request = claims.as_slice();
        let mut targets: [Option<Target<'_>>; N] = [const { None }; N];
        for (index, claim) in request.iter().enumerate() {
            targets[index] = Some(self.target(request, index, claim, &targets));
        }
        let mut locks = Locks::take(&targets);
        // The clock is read under the locks, so that a line's moments never go back. Any entry may
        // have been counted by a calendar before its limit was changed.
        let moment = self.calendar_moment();
        let moment_of = |target: &Target<'_>| target.moment(moment, claims.moment());

        let mut decided: [Option<Decided<'_>>; N] = [const { None }; N];
        let mut refused = false;
        for (index, target) in targets.iter().flatten().enumerate() {
            let claim = &request[index];
            // The claims before this one on the same key, as far as they are admitted.
            let earlier = targets.iter().flatten().zip(decided.iter().flatten());
            let earlier = earlier
                .filter(|(other, decision)| other.is_same_key(target) && decision.is_admitted());
            let moment = moment_of(target);
            let decision = locks.decide(index, claim, target, earlier, moment);
            refused |= claim.mode == Mode::Enforced && !decision.is_admitted();
            decided[index] = Some(decision);
        }

        let charges = !refused && !claims.is_peek();
        let mut made_room = [None; N];
        let decided = || {
            targets
                .iter()
                .flatten()
                .zip(decided.iter().flatten())
                .enumerate()
        };
        for (index, (target, decision)) in decided().filter(|_| charges) {
            let claim = &request[index];
            let moment = moment_of(target);
            if !decision.is_admitted() {
                continue;
            }
            if decision.units > 0 {
                made_room[index] = locks.charge(index, target, decision, moment);
            }
            if claim.settles {
                answer.receipts.push(Receipt {
                    limit: claim.limit.clone(),
                    key: claim.key,
                    units: decision.units,
                    stamp: target.stamp(decision, moment),
                });
            }
        }
        for (index, (target, decision)) in decided() {
            let moment = moment_of(target);
            let charged = charges && decision.units > 0;
            let outcome = locks.outcome(index, target, decision, moment, charged);
            let shadowed = request[index].mode == Mode::Shadowed;
            answer.decision.push(outcome, shadowed);
        }
        drop(locks);
        for (index, target) in targets.iter().flatten().enumerate() {
            let limit = request[index].limit;
            match (target.place, made_room[index]) {
                (Place::Line { table, numbers, .. }, Some(MadeRoom::InTable(inserted))) => {
                    self.after_insert(limit, table, numbers, inserted, moment);
                }
                (_, Some(MadeRoom::InLogs(evicted))) => self.tell_evicted(limit, evicted),
                _ => {}
            }
        }
    }

    fn target<'a>(
        &'a self,
        request: &[Claim<'_>],
        index: usize,
        claim: &Claim<'a>,
        before: &[Option<Target<'_>>],
    ) -> Target<'a> {
        // Most requests have one key for all their limits.
        let same = index
            .checked_sub(1)
            .filter(|last| request[*last].key == claim.key);
        let tag = match same.and_then(|last| before[last].as_ref()) {
            Some(target) => target.tag,
            None => self.secret.tag(&claim.key),
        };
        let place = match claim.limit.numbers() {
            Numbers::Fixed { fixed, version } => {
                let table = self.table(claim.limit);
                Place::Line {
                    table,
                    line: table.line_of(tag),
                    numbers: (fixed, *version),
                }
            }
            Numbers::Log(numbers) => {
                let logs = self.logs(claim.limit);
                Place::Shard {
                    logs,
                    shard: Logs::shard_of(tag),
                    numbers,
                }
            }
        };
        Target {
            tag,
            counter: claim.limit.counter_number(),
            place,
        }
    }
}

/// What had to be done to make room for a charge; told once no lock is held.
#[derive(Clone, Copy)]
enum MadeRoom {
    InTable(Inserted),
    /// The logs of so many live keys had to go.
    InLogs(u64),
}

/// Where a claim's counter is.
struct Target<'a> {
    tag: u64,
    counter: u32,
    place: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Line {
        table: &'a Table,
        line: usize,
        /// The algorithm and the version of its numbers.
        numbers: (&'a Fixed, u32),
    },
    Shard {
        logs: &'a Logs,
        shard: usize,
        numbers: &'a SlidingLog,
    },
}

impl<'a> Target<'a> {
    /// The order in which locks are taken; claims with the same rank share one.
    fn rank(&self) -> (u32, bool, usize) {
        match self.place {
            Place::Line { line, .. } => (self.counter, false, line),
            Place::Shard { shard, .. } => (self.counter, true, shard),
        }
    }

    /// Returns the moment that the claim is decided at. Only a bucket is the same whether a unit
    /// came then or now; what is remembered of a window or in a log is when it came.
    fn moment(&self, now: Moment, as_of: Option<Nanos>) -> Moment {
        match (self.place, as_of) {
            (
                Place::Line {
                    numbers: (Fixed::Bucket(_), _),
                    ..
                },
                Some(as_of),
            ) => Moment {
                now: as_of.min(now.now),
                ..now
            },
            _ => now,
        }
    }

    /// Returns the state that this claim leaves as another claim's numbers see it.
    fn state_for(&self, to: (&Fixed, u32), decision: &Decided<'a>, moment: Moment) -> Words {
        let Place::Line { numbers, .. } = self.place else {
            return [0, 0];
        };
        let words = if decision.units > 0 {
            decision.verdict.words
        } else {
            // A claim that charges nothing leaves the key as it was.
            decision.before
        };
        if numbers.1 == to.1 {
            words
        } else {
            to.0.adopt(numbers.0, words, moment)
        }
    }

    fn is_same_key(&self, other: &Self) -> bool {
        self.tag == other.tag && self.rank() == other.rank()
    }

    /// Returns when or into which window a claim is charged.
    fn stamp(&self, decision: &Decided<'_>, moment: Moment) -> u64 {
        match self.place {
            Place::Line {
                numbers: (fixed, _),
                ..
            } => fixed.stamp(decision.verdict.words, moment),
            Place::Shard { .. } => moment.now.get(),
        }
    }
}

/// What a claim came to before anything is written.
struct Decided<'a> {
    verdict: Verdict,
    before: Words,
    slot: Option<Slot<'a>>,
    /// Units that are charged if nothing refuses.
    units: u64,
}

impl Decided<'_> {
    fn is_admitted(&self) -> bool {
        self.verdict.outcome.is_allowed()
    }
}

/// The locks of a request, taken in order, each once.
struct Locks<'a, const N: usize> {
    chains: [Option<Chain<'a>>; N],
    shards: [Option<MutexGuard<'a, Shard>>; N],
    /// For each claim the index of its lock.
    lock_of: [usize; N],
    /// Whether claims share a lock.
    shared: bool,
}

impl<'a, const N: usize> Locks<'a, N> {
    fn take(targets: &[Option<Target<'a>>; N]) -> Self {
        let mut order: [usize; N] = std::array::from_fn(|index| index);
        let count = targets.iter().flatten().count();
        order[..count].sort_unstable_by_key(|index| targets[*index].as_ref().map(Target::rank));
        let mut locks = Self {
            chains: [const { None }; N],
            shards: [const { None }; N],
            lock_of: [0; N],
            shared: false,
        };
        let mut last = None;
        for index in order[..count].iter().copied() {
            let Some(target) = &targets[index] else {
                continue;
            };
            match last {
                Some((rank, lock)) if rank == target.rank() => {
                    locks.lock_of[index] = lock;
                    locks.shared = true;
                }
                _ => {
                    match target.place {
                        Place::Line { table, line, .. } => {
                            locks.chains[index] = Some(table.lock(line));
                        }
                        Place::Shard { logs, shard, .. } => {
                            locks.shards[index] = Some(logs.lock(shard));
                        }
                    }
                    locks.lock_of[index] = index;
                    last = Some((target.rank(), index));
                }
            }
        }
        locks
    }

    #[expect(clippy::expect_used, reason = "`take` locked a chain for every line")]
    fn chain(&mut self, claim: usize) -> &mut Chain<'a> {
        let chain = self.chains[self.lock_of[claim]].as_mut();
        chain.expect("a line is locked")
    }

    #[expect(clippy::expect_used, reason = "`take` locked every shard")]
    fn shard(&mut self, claim: usize) -> &mut Shard {
        let shard = self.shards[self.lock_of[claim]].as_mut();
        shard.expect("a shard is locked")
    }

    fn decide<'x>(
        &mut self,
        index: usize,
        claim: &Claim<'_>,
        target: &Target<'a>,
        earlier: impl Iterator<Item = (&'x Target<'a>, &'x Decided<'a>)>,
        moment: Moment,
    ) -> Decided<'a>
    where
        'a: 'x,
    {
        let (needed, units) = (claim.cost.needed(), claim.cost.charged());
        match target.place {
            Place::Line { numbers, .. } => {
                let chain = self.chain(index);
                let slot = chain.find(target.tag);
                let before = match earlier.last() {
                    Some((other, decision)) => other.state_for(numbers, decision, moment),
                    None => read(chain, slot, numbers, moment),
                };
                Decided {
                    verdict: numbers.0.decide(numbers.1, before, moment, needed),
                    before,
                    slot,
                    units,
                }
            }
            Place::Shard { logs, numbers, .. } => {
                let pending = earlier.map(|(_, decision)| decision.units).sum();
                let shard = self.shard(index);
                let outcome =
                    log_outcome(logs, shard, target.tag, numbers, moment, needed, pending);
                Decided {
                    verdict: Verdict {
                        outcome,
                        words: [0, 0],
                    },
                    before: [0, 0],
                    slot: None,
                    units,
                }
            }
        }
    }

    /// Writes what an admitted claim spends.
    fn charge(
        &mut self,
        index: usize,
        target: &Target<'_>,
        decision: &Decided<'_>,
        moment: Moment,
    ) -> Option<MadeRoom> {
        match target.place {
            Place::Line { numbers, .. } => {
                let shared = self.shared;
                let chain = self.chain(index);
                // Where claims meet in a line, an earlier one may have moved or made the entry.
                let slot = if shared {
                    chain.find(target.tag)
                } else {
                    decision.slot
                };
                let words = decision.verdict.words;
                write(chain, slot, target.tag, numbers, words, moment).map(MadeRoom::InTable)
            }
            Place::Shard { logs, numbers, .. } => {
                let (tag, units) = (target.tag, decision.units);
                let evicted = push(logs, self.shard(index), tag, numbers, moment, units);
                Some(MadeRoom::InLogs(evicted))
            }
        }
    }

    /// Returns a claim's outcome, with the standing of its key after the decision on all of them.
    fn outcome(
        &mut self,
        index: usize,
        target: &Target<'_>,
        decision: &Decided<'_>,
        moment: Moment,
        charged: bool,
    ) -> Outcome {
        let outcome = decision.verdict.outcome;
        let standing = match target.place {
            // The verdict's standing is that after the charge, or of a refusal that before it.
            Place::Line { .. } if !self.shared && (charged || !outcome.is_allowed()) => {
                return outcome;
            }
            Place::Line { numbers, .. } => {
                let slot = self.chain(index).find(target.tag);
                match slot.filter(|slot| charged && slot.version() == numbers.1) {
                    Some(slot) => numbers.0.standing(slot.words(), moment),
                    None => numbers.0.standing(decision.before, moment),
                }
            }
            Place::Shard { logs, numbers, .. } => {
                let shard = self.shard(index);
                log_outcome(logs, shard, target.tag, numbers, moment, 0, 0).standing()
            }
        };
        outcome.with_standing(standing)
    }
}
