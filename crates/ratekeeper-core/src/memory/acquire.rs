//! Deciding the claims of a request: lock what they touch, decide, and only then write.

use crate::algorithm::{Fixed, Moment, SlidingLog, Words};
use crate::claim::{Claim, Claims, MAX_CLAIMS, Mode};
use crate::decision::{Outcome, Standing, Wait};
use crate::key::Key;
use crate::limit::{Limit, Numbers};
use crate::receipt::{Receipt, Settle};
use crate::store::Answer;
use crate::sync::MutexGuard;

use super::Inner;
use super::logs::{Logs, Shard};
use super::table::{Chain, Found, Inserted, Slot, Table};

/// The state of a key as the claim's numbers see it.
#[derive(Clone, Copy)]
enum State {
    Known(Words),
    /// More is in use, counted by `from`, than these numbers hold; it drains there first.
    Held {
        from: Fixed,
        words: Words,
    },
}

/// Decides on a fixed state: the words to write, or how long to wait.
#[inline]
fn decide(fixed: &Fixed, state: State, moment: Moment, cost: u64) -> Result<Words, Wait> {
    match state {
        State::Known(words) => fixed
            .admit(words, moment, cost)
            .ok_or_else(|| fixed.wait(words, moment, cost)),
        State::Held { words, .. } if cost == 0 => Ok(words),
        State::Held { .. } if cost > fixed.capacity() => Err(Wait::Never),
        State::Held { from, words } => {
            Err(from.wait_for_used(words, moment, fixed.capacity() - cost))
        }
    }
}

#[inline]
fn standing(fixed: &Fixed, state: State, moment: Moment) -> Standing {
    match state {
        State::Known(words) => fixed.standing(words, moment),
        State::Held { from, words } => {
            let next = match from.wait_for_used(words, moment, fixed.capacity() - 1) {
                Wait::For(wait) => crate::clock::nanos(wait),
                Wait::None | Wait::Unknown | Wait::Never => 0,
            };
            Standing {
                remaining: 0,
                next,
                reset: from.standing(words, moment).reset,
            }
        }
    }
}

/// Reads the state of a found entry under the claim's numbers, and writes it back where it was
/// counted under others: a key is converted when it is next touched.
#[inline]
fn adopt(
    chain: &mut Chain<'_>,
    found: Option<Found>,
    fixed: &Fixed,
    version: u32,
    moment: Moment,
) -> State {
    let Some(found) = found else {
        return State::Known([0, 0]);
    };
    if found.version == version {
        return State::Known(found.words);
    }
    let Some(from) = crate::intern::fixed(found.version) else {
        return State::Known([0, 0]);
    };
    match fixed.adopt(&from, found.words, moment) {
        Some(words) => {
            chain.write(found.slot, version, words);
            State::Known(words)
        }
        None => State::Held {
            from,
            words: found.words,
        },
    }
}

impl Inner {
    fn is_calendar(numbers: &Numbers) -> bool {
        matches!(
            numbers,
            Numbers::Fixed {
                fixed: Fixed::Calendar(_),
                ..
            }
        )
    }

    /// Decides a single claim.
    #[inline]
    pub(super) fn check(&self, limit: &Limit, key: &Key, cost: u64, peek: bool) -> Outcome {
        let tag = self.tag(key);
        match limit.numbers() {
            Numbers::Fixed { fixed, version } => {
                let table = self.table(limit);
                let mut chain = table.lock(table.line_of(tag));
                // The clock is read under the lock, so that a key's moments never go back.
                let moment = self.moment(matches!(fixed, Fixed::Calendar(_)));
                let found = chain.find(tag);
                let slot = found.map(|found| found.slot);
                let state = adopt(&mut chain, found, fixed, *version, moment);
                match decide(fixed, state, moment, cost) {
                    Ok(words) if cost > 0 && !peek => {
                        let inserted = write(&mut chain, slot, tag, *version, words, moment);
                        drop(chain);
                        self.after_insert(limit, table, inserted, moment);
                        Outcome::new(fixed.standing(words, moment), Wait::None)
                    }
                    Ok(_) => Outcome::new(standing(fixed, state, moment), Wait::None),
                    Err(wait) => Outcome::new(standing(fixed, state, moment), wait),
                }
            }
            Numbers::Log(numbers) => {
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
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one claim on a locked shard"
    )]
    fn push(
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

    #[inline]
    fn after_insert(
        &self,
        limit: &Limit,
        table: &Table,
        inserted: Option<Inserted>,
        moment: Moment,
    ) {
        match inserted {
            None | Some(Inserted::Reused) => {}
            Some(Inserted::Taken) => self.sweep(table, moment),
            Some(Inserted::Evicted) => self.observer.evicted(limit),
        }
    }

    #[cold]
    fn sweep(&self, table: &Table, moment: Moment) {
        // Whether a key has become fresh may depend on the calendar.
        let unix = crate::clock::nanos(self.clock.unix_now());
        table.sweep(Moment { unix, ..moment });
    }

    /// Decides all claims of a request, all or none.
    pub(super) fn acquire(&self, claims: &Claims<'_>, answer: &mut Answer) {
        let claims_of_request = claims.as_slice();
        let mut targets: [Option<Target<'_>>; MAX_CLAIMS] = [const { None }; MAX_CLAIMS];
        for (target, claim) in targets.iter_mut().zip(claims_of_request) {
            *target = Some(self.target(claim));
        }
        let mut locks = Locks::take(&targets);
        let calendar = claims_of_request
            .iter()
            .any(|claim| Self::is_calendar(claim.limit.numbers()));
        // The clock is read under the locks, so that a key's moments never go back.
        let moment = self.moment(calendar);

        let mut decided: [Option<Decided>; MAX_CLAIMS] = [None; MAX_CLAIMS];
        let mut refused = false;
        for (index, claim) in claims_of_request.iter().enumerate() {
            let decision = locks.decide(index, claim, &targets, &decided, moment);
            refused |= claim.mode == Mode::Enforced && decision.wait != Wait::None;
            decided[index] = Some(decision);
        }

        let charges = !refused && !claims.is_peek();
        if charges {
            for (index, claim) in claims_of_request.iter().enumerate() {
                if let (Some(target), Some(decision)) = (&targets[index], &decided[index])
                    && decision.wait == Wait::None
                {
                    self.charge(&mut locks, index, claim, target, decision, moment, answer);
                }
            }
        }
        for (index, claim) in claims_of_request.iter().enumerate() {
            if let (Some(target), Some(decision)) = (&targets[index], &decided[index]) {
                let standing = locks.standing(index, target, decision, moment, charges);
                answer.decision.push(
                    Outcome::new(standing, decision.wait),
                    claim.mode == Mode::Shadowed,
                );
            }
        }
        drop(locks);
        if charges {
            for (target, claim) in targets.iter().flatten().zip(claims_of_request) {
                if let Place::Line { table, .. } = target.place
                    && claim.cost.charged() > 0
                {
                    self.sweep(table, moment);
                }
            }
        }
    }

    fn target<'a>(&'a self, claim: &Claim<'a>) -> Target<'a> {
        let tag = self.tag(&claim.key);
        let place = match claim.limit.numbers() {
            Numbers::Fixed { fixed, version } => {
                let table = self.table(claim.limit);
                Place::Line {
                    table,
                    line: table.line_of(tag),
                    fixed,
                    version: *version,
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

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one claim under the request's locks"
    )]
    fn charge(
        &self,
        locks: &mut Locks<'_>,
        index: usize,
        claim: &Claim<'_>,
        target: &Target<'_>,
        decision: &Decided,
        moment: Moment,
        answer: &mut Answer,
    ) {
        let units = claim.cost.charged();
        let mut stamp = moment.now.get();
        match (&target.place, locks.guard(index)) {
            (Place::Line { fixed, version, .. }, Guard::Chain(chain)) => {
                if units > 0 {
                    // Looked up again: an earlier claim may have moved or made the entry.
                    let slot = chain.find(target.tag).map(|found| found.slot);
                    let inserted = write(chain, slot, target.tag, *version, decision.words, moment);
                    if inserted == Some(Inserted::Evicted) {
                        self.observer.evicted(claim.limit);
                    }
                }
                stamp = fixed.stamp(decision.words, moment);
            }
            (Place::Shard { logs, numbers, .. }, Guard::Shard(shard)) => {
                if units > 0 {
                    self.push(claim.limit, logs, shard, target.tag, numbers, moment, units);
                }
            }
            _ => return,
        }
        if claim.settles {
            answer.receipts.push(Receipt {
                limit: claim.limit.clone(),
                key: claim.key,
                units,
                stamp,
            });
        }
    }

    /// Ends a charge.
    pub(super) fn settle(&self, receipt: &Receipt, how: Settle) {
        let Receipt {
            limit,
            key,
            units,
            stamp,
        } = receipt;
        let (refund, charge) = match how {
            Settle::Commit => return,
            Settle::Refund => (*units, 0),
            Settle::Actual(actual) => (units.saturating_sub(actual), actual.saturating_sub(*units)),
        };
        let tag = self.tag(key);
        let mut clipped = 0;
        match limit.numbers() {
            Numbers::Fixed { fixed, version } => {
                let table = self.table(limit);
                let mut chain = table.lock(table.line_of(tag));
                let moment = self.moment(matches!(fixed, Fixed::Calendar(_)));
                let found = chain.find(tag);
                let slot = found.map(|found| found.slot);
                // What is held under other numbers is settled under those.
                let (fixed, version, words) =
                    match adopt(&mut chain, found, fixed, *version, moment) {
                        State::Known(words) => (*fixed, *version, words),
                        State::Held { from, words } => {
                            (from, found.map_or(*version, |found| found.version), words)
                        }
                    };
                if refund > 0
                    && let Some(slot) = slot
                {
                    chain.write(slot, version, fixed.refund(words, moment, refund, *stamp));
                }
                if charge > 0 {
                    let charged = fixed.charge(words, moment, charge, limit.max_debt());
                    clipped = charged.clipped;
                    let inserted = write(&mut chain, slot, tag, version, charged.words, moment);
                    drop(chain);
                    self.after_insert(limit, table, inserted, moment);
                }
            }
            Numbers::Log(numbers) => {
                let logs = self.logs(limit);
                let mut shard = logs.lock(Logs::shard_of(tag));
                let moment = self.moment(false);
                let evicted = logs.change(&mut shard, tag, numbers, moment, |log| {
                    numbers.refund(log, refund, *stamp);
                    clipped = numbers.charge(log, moment, charge, limit.max_debt());
                });
                (0..evicted).for_each(|_| self.observer.evicted(limit));
            }
        }
        if clipped > 0 {
            self.observer.clipped(limit, clipped);
        }
    }
}

/// Writes a state into its entry, or a new one.
#[inline]
fn write(
    chain: &mut Chain<'_>,
    slot: Option<Slot>,
    tag: u64,
    version: u32,
    words: Words,
    moment: Moment,
) -> Option<Inserted> {
    match slot {
        Some(slot) => {
            chain.write(slot, version, words);
            None
        }
        None => Some(chain.insert(tag, version, words, moment)),
    }
}

fn log_outcome(
    logs: &Logs,
    shard: &mut Shard,
    tag: u64,
    numbers: &SlidingLog,
    moment: Moment,
    cost: u64,
    pending: u64,
) -> Outcome {
    let empty = crate::algorithm::Log::default();
    let log = shard.find(tag, numbers, moment, logs).unwrap_or(&empty);
    // Units that earlier claims of the request will charge come on top.
    let wait = match (cost, cost.saturating_add(pending)) {
        (0, _) => Wait::None,
        (cost, _) if cost > numbers.capacity() => Wait::Never,
        (_, together) => numbers.wait(log, moment, together),
    };
    Outcome::new(numbers.standing(log, moment), wait)
}

/// Where a claim's counter is.
struct Target<'a> {
    tag: u64,
    counter: u32,
    place: Place<'a>,
}

enum Place<'a> {
    Line {
        table: &'a Table,
        line: usize,
        fixed: &'a Fixed,
        version: u32,
    },
    Shard {
        logs: &'a Logs,
        shard: usize,
        numbers: &'a SlidingLog,
    },
}

impl Target<'_> {
    /// The order in which locks are taken; claims with the same rank share one.
    fn rank(&self) -> (u32, bool, usize) {
        match self.place {
            Place::Line { line, .. } => (self.counter, false, line),
            Place::Shard { shard, .. } => (self.counter, true, shard),
        }
    }

    /// Returns words that this claim leaves as another claim's numbers see them.
    fn state_for(&self, to: &Fixed, words: Words, moment: Moment) -> State {
        match self.place {
            Place::Line { fixed, .. } if fixed != to => match to.adopt(fixed, words, moment) {
                Some(words) => State::Known(words),
                None => State::Held {
                    from: *fixed,
                    words,
                },
            },
            Place::Line { .. } | Place::Shard { .. } => State::Known(words),
        }
    }

    fn is_same_key(&self, other: &Self) -> bool {
        self.tag == other.tag && self.rank() == other.rank()
    }
}

/// What a claim came to before anything is written.
#[derive(Clone, Copy)]
struct Decided {
    wait: Wait,
    /// The state after the charge, of a fixed algorithm that admits.
    words: Words,
    before: State,
    /// What a log's claim adds.
    units: u64,
}

enum Guard<'a> {
    Chain(Chain<'a>),
    Shard(MutexGuard<'a, Shard>),
}

/// The locks of a request, taken in order, each once.
struct Locks<'a> {
    guards: [Option<Guard<'a>>; MAX_CLAIMS],
    /// For each claim the index of its guard.
    guard_of: [usize; MAX_CLAIMS],
}

impl<'a> Locks<'a> {
    fn take(targets: &[Option<Target<'a>>; MAX_CLAIMS]) -> Self {
        let mut order: [usize; MAX_CLAIMS] = std::array::from_fn(|index| index);
        let count = targets.iter().flatten().count();
        order[..count].sort_unstable_by_key(|index| targets[*index].as_ref().map(Target::rank));
        let mut locks = Self {
            guards: [const { None }; MAX_CLAIMS],
            guard_of: [0; MAX_CLAIMS],
        };
        let mut last = None;
        for index in order[..count].iter().copied() {
            let Some(target) = &targets[index] else {
                continue;
            };
            match last {
                Some((rank, guard)) if rank == target.rank() => locks.guard_of[index] = guard,
                _ => {
                    locks.guards[index] = Some(match target.place {
                        Place::Line { table, line, .. } => Guard::Chain(table.lock(line)),
                        Place::Shard { logs, shard, .. } => Guard::Shard(logs.lock(shard)),
                    });
                    locks.guard_of[index] = index;
                    last = Some((target.rank(), index));
                }
            }
        }
        locks
    }

    #[expect(clippy::expect_used, reason = "`take` made a guard for every claim")]
    fn guard(&mut self, claim: usize) -> &mut Guard<'a> {
        self.guards[self.guard_of[claim]]
            .as_mut()
            .expect("every claim has a guard")
    }

    fn decide(
        &mut self,
        index: usize,
        claim: &Claim<'_>,
        targets: &[Option<Target<'a>>],
        decided: &[Option<Decided>],
        moment: Moment,
    ) -> Decided {
        let nothing = Decided {
            wait: Wait::None,
            words: [0, 0],
            before: State::Known([0, 0]),
            units: 0,
        };
        let Some(target) = &targets[index] else {
            return nothing;
        };
        let earlier = || {
            let earlier = targets[..index]
                .iter()
                .flatten()
                .zip(decided.iter().flatten());
            earlier.filter(|(other, decision)| {
                other.is_same_key(target) && decision.wait == Wait::None
            })
        };
        let needed = claim.cost.needed();
        match (&target.place, self.guard(index)) {
            (Place::Line { fixed, version, .. }, Guard::Chain(chain)) => {
                let before = match earlier().last() {
                    // The key as the request's earlier claim on it will leave it.
                    Some((other, decision)) => other.state_for(fixed, decision.words, moment),
                    None => adopt(chain, chain.find(target.tag), fixed, *version, moment),
                };
                let (words, wait) = match decide(fixed, before, moment, needed) {
                    Ok(words) if claim.cost.charged() > 0 => (words, Wait::None),
                    Ok(_) => (
                        if let State::Known(words) = before {
                            words
                        } else {
                            [0, 0]
                        },
                        Wait::None,
                    ),
                    Err(wait) => ([0, 0], wait),
                };
                Decided {
                    wait,
                    words,
                    before,
                    units: 0,
                }
            }
            (Place::Shard { logs, numbers, .. }, Guard::Shard(shard)) => {
                let pending = earlier().map(|(_, decision)| decision.units).sum();
                let outcome =
                    log_outcome(logs, shard, target.tag, numbers, moment, needed, pending);
                Decided {
                    wait: outcome.wait(),
                    units: claim.cost.charged(),
                    ..nothing
                }
            }
            _ => nothing,
        }
    }

    /// Returns how a claim's key stands after the decision.
    fn standing(
        &mut self,
        index: usize,
        target: &Target<'_>,
        decision: &Decided,
        moment: Moment,
        charged: bool,
    ) -> Standing {
        match (&target.place, self.guard(index)) {
            (Place::Line { fixed, version, .. }, Guard::Chain(chain)) => {
                let state = match chain.find(target.tag) {
                    Some(found) if charged && found.version == *version => {
                        State::Known(found.words)
                    }
                    _ => decision.before,
                };
                standing(fixed, state, moment)
            }
            (Place::Shard { logs, numbers, .. }, Guard::Shard(shard)) => {
                let outcome = log_outcome(logs, shard, target.tag, numbers, moment, 0, 0);
                Standing {
                    remaining: outcome.remaining,
                    next: outcome.next,
                    reset: outcome.reset,
                }
            }
            _ => Standing {
                remaining: 0,
                next: 0,
                reset: 0,
            },
        }
    }
}
