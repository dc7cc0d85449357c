//! The other candidate for the store in memory: hash tables behind mutexes, sharded by the key.
//!
//! It keeps the same contract as `Memory`, but for the bounds on memory: its tables grow with the
//! keys and are never emptied. It is here to be measured.

use std::collections::HashMap;
use std::future::Ready;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard, RwLock};
use ratekeeper_core::algorithm::{Fixed, Log, Moment, SlidingLog, Words};
use ratekeeper_core::{
    Acquire, Answer, Claim, Claims, Clock, Decision, Key, Limit, LimitError, Mode, Numbers,
    Outcome, Receipt, Settle, Standing, Store, StoreError, Wait,
};

const SHARDS: usize = 64;

/// A state of fixed size; 32 bytes.
#[derive(Clone, Copy)]
struct Slot {
    tag: u64,
    counter: u32,
    /// Stands for the numbers that the words are counted by.
    version: u32,
    words: Words,
}

#[derive(Clone)]
struct LogSlot {
    numbers: SlidingLog,
    log: Log,
}

#[derive(Default)]
struct Shard {
    slots: HashTable<Slot>,
    logs: HashMap<(u32, u64), LogSlot>,
}

/// See the crate's documentation.
pub struct Sharded {
    clock: Clock,
    secret: RandomState,
    shards: Box<[Mutex<Shard>]>,
    numbers: RwLock<HashMap<u32, Fixed>>,
}

/// What a claim replaced, to be put back when another refuses.
enum Before {
    Slot(Option<Slot>),
    Log(Option<LogSlot>),
}

impl Sharded {
    pub fn new(clock: impl Into<Clock>) -> Self {
        Self {
            clock: clock.into(),
            secret: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            numbers: RwLock::default(),
        }
    }

    /// Spends units of a key's, if the limit admits it.
    pub fn check(&self, limit: &Limit, key: &Key, cost: u64) -> Outcome {
        let tag = self.tag(key);
        let mut shard = self.shards[shard_of(tag)].lock();
        let moment = self.moment(limit);
        let wait = self.apply(&mut shard, limit, tag, cost, cost, moment);
        Outcome::new(self.standing(&mut shard, limit, tag, moment), wait)
    }

    fn tag(&self, key: &Key) -> u64 {
        let mut hasher = self.secret.build_hasher();
        hasher.write(key.as_bytes());
        hasher.finish()
    }

    fn moment(&self, limit: &Limit) -> Moment {
        let unix = match limit.numbers() {
            Numbers::Fixed {
                fixed: Fixed::Calendar(_),
                ..
            } => nanos(self.clock.unix_now()),
            _ => 0,
        };
        Moment {
            now: self.clock.now(),
            unix,
        }
    }

    /// Converts a slot that was counted by other numbers, or before the calendar was set back.
    fn convert(&self, slot: &mut Slot, fixed: &Fixed, version: u32, moment: Moment) {
        if slot.version != version {
            let from = self.numbers.read().get(&slot.version).copied();
            slot.words = from.map_or([0, 0], |from| fixed.adopt(&from, slot.words, moment));
            slot.version = version;
            self.register(version, fixed);
        }
        if let Some(words) = fixed.rebase(slot.words, moment) {
            slot.words = words;
        }
    }

    fn register(&self, version: u32, fixed: &Fixed) {
        if !self.numbers.read().contains_key(&version) {
            self.numbers.write().insert(version, *fixed);
        }
    }

    /// Charges units to a key if `needed` fit, and returns how long to wait otherwise.
    fn apply(
        &self,
        shard: &mut Shard,
        limit: &Limit,
        tag: u64,
        needed: u64,
        charged: u64,
        moment: Moment,
    ) -> Wait {
        let counter = limit.counter_number();
        match limit.numbers() {
            Numbers::Fixed { fixed, version, .. } => {
                let found = shard
                    .slots
                    .find_mut(tag, |slot| slot.tag == tag && slot.counter == counter);
                let Some(slot) = found else {
                    let Some(words) = fixed.admit([0, 0], moment, needed) else {
                        return fixed.wait([0, 0], moment, needed);
                    };
                    if charged > 0 {
                        self.register(*version, fixed);
                        let slot = Slot {
                            tag,
                            counter,
                            version: *version,
                            words,
                        };
                        shard.slots.insert_unique(tag, slot, |slot| slot.tag);
                    }
                    return Wait::None;
                };
                self.convert(slot, fixed, *version, moment);
                let Some(words) = fixed.admit(slot.words, moment, needed) else {
                    return fixed.wait(slot.words, moment, needed);
                };
                if charged > 0 {
                    slot.words = words;
                }
                Wait::None
            }
            Numbers::Log(numbers) => {
                let slot = log_slot(shard, counter, tag, numbers, moment);
                let wait = numbers.wait(&slot.log, moment, needed);
                if needed == 0 {
                    return Wait::None;
                }
                if wait == Wait::None {
                    numbers.push(&mut slot.log, moment, charged);
                }
                wait
            }
            _ => Wait::Unknown,
        }
    }

    fn standing(&self, shard: &mut Shard, limit: &Limit, tag: u64, moment: Moment) -> Standing {
        let counter = limit.counter_number();
        match limit.numbers() {
            Numbers::Fixed { fixed, version, .. } => {
                let found = shard
                    .slots
                    .find_mut(tag, |slot| slot.tag == tag && slot.counter == counter);
                let Some(slot) = found else {
                    return fixed.standing([0, 0], moment);
                };
                self.convert(slot, fixed, *version, moment);
                fixed.standing(slot.words, moment)
            }
            Numbers::Log(numbers) => {
                let slot = log_slot(shard, counter, tag, numbers, moment);
                numbers.standing(&slot.log, moment)
            }
            _ => Standing::default(),
        }
    }

    fn decide(&self, claims: &Claims<'_>) -> Answer {
        let request = claims.as_slice();
        let tags: Vec<u64> = request.iter().map(|claim| self.tag(&claim.key)).collect();
        let mut order: Vec<usize> = tags.iter().map(|tag| shard_of(*tag)).collect();
        order.sort_unstable();
        order.dedup();
        let mut shards: Vec<(usize, MutexGuard<'_, Shard>)> = order
            .into_iter()
            .map(|shard| (shard, self.shards[shard].lock()))
            .collect();
        let now = self.clock.now();
        let unix = nanos(self.clock.unix_now());
        let moment_of = |claim: &Claim<'_>| {
            let past = claims.moment().filter(|_| {
                matches!(
                    claim.limit.numbers(),
                    Numbers::Fixed {
                        fixed: Fixed::Bucket(_),
                        ..
                    }
                )
            });
            Moment {
                now: past.map_or(now, |past| past.min(now)),
                unix,
            }
        };

        let mut waits = Vec::new();
        let mut undo = Vec::new();
        let mut refused = false;
        for (claim, tag) in request.iter().zip(&tags) {
            let shard = locked(&mut shards, *tag);
            undo.push(before(shard, claim.limit, *tag));
            let (needed, charged) = (claim.cost.needed(), claim.cost.charged());
            let wait = self.apply(shard, claim.limit, *tag, needed, charged, moment_of(claim));
            refused |= claim.mode == Mode::Enforced && wait != Wait::None;
            waits.push(wait);
        }
        let charges = !refused && !claims.is_peek();
        if !charges {
            for ((claim, tag), before) in request.iter().zip(&tags).zip(undo).rev() {
                restore(locked(&mut shards, *tag), claim.limit, *tag, before);
            }
        }
        let mut answer = Answer {
            decision: Decision::UNLIMITED,
            receipts: Vec::new(),
        };
        for ((claim, tag), wait) in request.iter().zip(&tags).zip(waits) {
            let shard = locked(&mut shards, *tag);
            let moment = moment_of(claim);
            let standing = self.standing(shard, claim.limit, *tag, moment);
            let shadowed = claim.mode == Mode::Shadowed;
            answer.decision.push(Outcome::new(standing, wait), shadowed);
            if charges && claim.settles && wait == Wait::None {
                answer.receipts.push(Receipt {
                    limit: claim.limit.clone(),
                    key: claim.key,
                    units: claim.cost.charged(),
                    stamp: stamp(shard, claim.limit, *tag, moment),
                });
            }
        }
        answer
    }
}

impl Store for Sharded {
    type Future = Ready<Result<Answer, StoreError>>;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
        Acquire::Now(Ok(self.decide(claims)))
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        let units = receipt.units;
        let (refund, charge) = match how {
            Settle::Commit => return,
            Settle::Refund => (units, 0),
            Settle::Actual(actual) => (units.saturating_sub(actual), actual.saturating_sub(units)),
        };
        let limit = &receipt.limit;
        let (counter, tag) = (limit.counter_number(), self.tag(&receipt.key));
        let mut shard = self.shards[shard_of(tag)].lock();
        let moment = self.moment(limit);
        match limit.numbers() {
            Numbers::Fixed { fixed, version, .. } => {
                let mut slot = slot_of(&shard, counter, tag).unwrap_or(Slot {
                    tag,
                    counter,
                    version: *version,
                    words: [0, 0],
                });
                self.convert(&mut slot, fixed, *version, moment);
                slot.words = fixed.refund(slot.words, moment, refund, receipt.stamp);
                slot.words = fixed
                    .charge(slot.words, moment, charge, limit.max_debt())
                    .words;
                self.register(*version, fixed);
                put(&mut shard, counter, tag, Some(slot));
            }
            Numbers::Log(numbers) => {
                let slot = log_slot(&mut shard, counter, tag, numbers, moment);
                numbers.refund(&mut slot.log, refund, receipt.stamp);
                numbers.charge(&mut slot.log, moment, charge, limit.max_debt());
            }
            _ => {}
        }
    }

    fn supports(&self, _: &Limit) -> Result<(), LimitError> {
        Ok(())
    }
}

fn shard_of(tag: u64) -> usize {
    // Not the highest bits, nor the low ones: the table uses both.
    (tag >> 40) as usize % SHARDS
}

fn locked<'s>(shards: &'s mut [(usize, MutexGuard<'_, Shard>)], tag: u64) -> &'s mut Shard {
    let found = shards.iter_mut().find(|(shard, _)| *shard == shard_of(tag));
    &mut found.expect("every claim's shard is locked").1
}

fn slot_of(shard: &Shard, counter: u32, tag: u64) -> Option<Slot> {
    shard
        .slots
        .find(tag, |slot| slot.tag == tag && slot.counter == counter)
        .copied()
}

fn put(shard: &mut Shard, counter: u32, tag: u64, slot: Option<Slot>) {
    let is_it = |slot: &Slot| slot.tag == tag && slot.counter == counter;
    if let Ok(found) = shard.slots.find_entry(tag, is_it) {
        found.remove();
    }
    if let Some(slot) = slot {
        shard.slots.insert_unique(tag, slot, |slot| slot.tag);
    }
}

fn log_slot<'s>(
    shard: &'s mut Shard,
    counter: u32,
    tag: u64,
    numbers: &SlidingLog,
    moment: Moment,
) -> &'s mut LogSlot {
    let slot = shard.logs.entry((counter, tag)).or_insert_with(|| LogSlot {
        numbers: *numbers,
        log: Log::default(),
    });
    slot.numbers.expire(&mut slot.log, moment);
    slot.numbers = *numbers;
    numbers.expire(&mut slot.log, moment);
    slot
}

fn before(shard: &Shard, limit: &Limit, tag: u64) -> Before {
    let counter = limit.counter_number();
    match limit.numbers() {
        Numbers::Log(_) => Before::Log(shard.logs.get(&(counter, tag)).cloned()),
        _ => Before::Slot(slot_of(shard, counter, tag)),
    }
}

fn restore(shard: &mut Shard, limit: &Limit, tag: u64, before: Before) {
    let counter = limit.counter_number();
    match before {
        Before::Slot(slot) => put(shard, counter, tag, slot),
        Before::Log(Some(slot)) => {
            shard.logs.insert((counter, tag), slot);
        }
        Before::Log(None) => {
            shard.logs.remove(&(counter, tag));
        }
    }
}

fn stamp(shard: &Shard, limit: &Limit, tag: u64, moment: Moment) -> u64 {
    match (limit.numbers(), slot_of(shard, limit.counter_number(), tag)) {
        (Numbers::Fixed { fixed, .. }, slot) => {
            fixed.stamp(slot.map_or([0, 0], |slot| slot.words), moment)
        }
        _ => moment.now.get(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
