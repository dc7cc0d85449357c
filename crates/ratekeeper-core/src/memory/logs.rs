//! The logs of one counter: a bounded number of keys and, over all of them, of entries.
//!
//! Logs differ in length, so they live in ordinary maps behind mutexes, sharded by the key's tag.
//! An expired log is dropped when its key is next seen, or by the sweep that every new key makes
//! over a few of its shard's slots.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::algorithm::{Log, Moment, SlidingLog};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

const SHARDS: usize = 64;

/// Slots looked at by a new key: to drop expired logs, and to choose which to evict.
const CANDIDATES: usize = 8;

/// See the module's documentation.
pub(super) struct Logs {
    shards: Box<[Mutex<Shard>]>,
    /// Entries in all logs. Relaxed: a bound, kept to within one entry a thread.
    entries: AtomicU64,
    max_entries: u64,
    max_keys_per_shard: usize,
}

/// The logs whose tags fall to one mutex. A slot map: `slots` can be walked in constant steps.
#[derive(Default)]
pub(super) struct Shard {
    index: HashMap<u64, usize, BuildHasherDefault<TagHasher>>,
    slots: Vec<Keyed>,
    hand: usize,
}

struct Keyed {
    tag: u64,
    log: Log,
    /// The numbers that the log was last used with.
    numbers: SlidingLog,
}

/// Tags are hashes already.
#[derive(Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, tag: u64) {
        self.0 = tag;
    }
}

impl Logs {
    pub(super) fn new(max_keys: usize, max_entries: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            entries: AtomicU64::new(0),
            max_entries: max_entries as u64,
            // Shards are not filled evenly; a quarter more leaves room for the fullest of them.
            max_keys_per_shard: (max_keys + max_keys / 4).div_ceil(SHARDS) + 64,
        }
    }

    pub(super) fn shard_of(tag: u64) -> usize {
        // The high bits, as the index of the map uses the low ones.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the number of shards"
        )]
        let shard = (tag >> (64 - SHARDS.ilog2())) as usize;
        shard
    }

    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        // Nothing panics while a shard is locked, so a poisoned one is as good as any.
        self.shards[shard]
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the keys that have a log; expired ones are among them until they are seen.
    pub(super) fn used(&self) -> u64 {
        (0..SHARDS)
            .map(|shard| self.lock(shard).slots.len() as u64)
            .sum()
    }

    /// Changes a log, which is created if need be, and dropped if it ends empty. Returns the logs
    /// of live keys that had to go to make room.
    pub(super) fn change(
        &self,
        shard: &mut Shard,
        tag: u64,
        numbers: &SlidingLog,
        moment: Moment,
        change: impl FnOnce(&mut Log),
    ) -> u64 {
        let mut evicted = 0;
        let slot = if let Some(slot) = shard.index.get(&tag) {
            *slot
        } else {
            evicted += self.make_room_for_key(shard, moment);
            shard.slots.push(Keyed {
                tag,
                log: Log::default(),
                numbers: *numbers,
            });
            shard.index.insert(tag, shard.slots.len() - 1);
            shard.slots.len() - 1
        };
        let keyed = &mut shard.slots[slot];
        let before = keyed.log.len() as u64;
        keyed.prepare(numbers, moment);
        change(&mut keyed.log);
        let after = keyed.log.len() as u64;
        // Wrapping: the difference may be negative.
        let entries = self
            .entries
            .fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        if after == 0 {
            self.drop_slot(shard, slot);
        } else if after > before
            && entries.wrapping_add(after.wrapping_sub(before)) > self.max_entries
        {
            evicted += self.make_room_for_entries(shard, moment, tag);
        }
        evicted
    }

    /// Drops a log of this shard, or if it holds no other, of one of the next that is free.
    fn make_room_for_entries(&self, shard: &mut Shard, moment: Moment, spare: u64) -> u64 {
        if let Some(live) = self.evict(shard, moment, Some(spare)) {
            return live;
        }
        let own = Self::shard_of(spare);
        for step in 1..SHARDS {
            // Waiting for a lock while holding one could be for ever.
            if let Ok(mut other) = self.shards[(own + step) % SHARDS].try_lock()
                && let Some(live) = self.evict(&mut other, moment, None)
            {
                return live;
            }
        }
        0
    }

    /// Returns whether a key has a log in this shard.
    pub(super) fn contains(shard: &Shard, tag: u64) -> bool {
        shard.index.contains_key(&tag)
    }

    fn make_room_for_key(&self, shard: &mut Shard, moment: Moment) -> u64 {
        for _ in 0..CANDIDATES.min(shard.slots.len()) {
            shard.hand = (shard.hand + 1) % shard.slots.len();
            let hand = shard.hand;
            if shard.slots[hand].fresh_at() <= moment.now.get() {
                self.drop_slot(shard, hand);
                if shard.slots.is_empty() {
                    break;
                }
            }
        }
        if shard.slots.len() < self.max_keys_per_shard {
            0
        } else {
            self.evict(shard, moment, None).unwrap_or(0)
        }
    }

    /// Drops the log whose loss matters least of a few: one that has expired, or else that of a key
    /// that is not exhausted, and of these the one nearest to fresh. Returns how many live ones that
    /// were, or `None` if there is no log to drop.
    fn evict(&self, shard: &mut Shard, moment: Moment, spare: Option<u64>) -> Option<u64> {
        let count = shard.slots.len();
        let start = shard.hand;
        shard.hand = (start + CANDIDATES) % count.max(1);
        let candidates = (0..CANDIDATES.min(count)).map(|step| (start + step) % count);
        let victim = candidates
            .filter(|slot| spare != Some(shard.slots[*slot].tag))
            .min_by_key(|slot| shard.slots[*slot].rank(moment))?;
        let live = shard.slots[victim].is_live(moment);
        self.drop_slot(shard, victim);
        Some(u64::from(live))
    }

    fn drop_slot(&self, shard: &mut Shard, slot: usize) {
        let dropped = shard.slots.swap_remove(slot);
        shard.index.remove(&dropped.tag);
        if let Some(moved) = shard.slots.get(slot) {
            shard.index.insert(moved.tag, slot);
        }
        self.entries
            .fetch_sub(dropped.log.len() as u64, Ordering::Relaxed);
    }

    /// Forgets a key.
    pub(super) fn remove(&self, shard: &mut Shard, tag: u64) {
        if let Some(slot) = shard.index.get(&tag).copied() {
            self.drop_slot(shard, slot);
        }
    }
}

impl Shard {
    /// Returns the log of a tag, expired under these numbers. Nothing that an observer
    /// could tell is changed.
    pub(super) fn find(
        &mut self,
        tag: u64,
        numbers: &SlidingLog,
        moment: Moment,
        entries: &Logs,
    ) -> Option<&Log> {
        let slot = *self.index.get(&tag)?;
        let keyed = &mut self.slots[slot];
        let before = keyed.log.len() as u64;
        keyed.prepare(numbers, moment);
        // Wrapping: the difference is negative or zero.
        let change = (keyed.log.len() as u64).wrapping_sub(before);
        entries.entries.fetch_add(change, Ordering::Relaxed);
        Some(&keyed.log)
    }
}

impl Keyed {
    fn prepare(&mut self, numbers: &SlidingLog, moment: Moment) {
        self.numbers.expire(&mut self.log, moment);
        if self.numbers != *numbers {
            self.numbers = *numbers;
            numbers.expire(&mut self.log, moment);
        }
    }

    fn fresh_at(&self) -> u64 {
        self.numbers.fresh_at(&self.log)
    }

    fn is_live(&self, moment: Moment) -> bool {
        self.fresh_at() > moment.now.get()
    }

    fn rank(&self, moment: Moment) -> (bool, bool, u64) {
        // As it was last seen: what has expired since would only make it admit more.
        let is_exhausted = !self.numbers.admits(&self.log, 1);
        (self.is_live(moment), is_exhausted, self.fresh_at())
    }
}
