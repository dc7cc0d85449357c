//! Who waits for what, in which order.
//!
//! # Concurrency
//!
//! A line lives in one of a few shards, each under a mutex that is held only to change or read the
//! line: never while a store is asked, a waker is called or anyone waits. A waiter takes its place,
//! looks whether it is first and leaves, each in one such step. To be woken is no more than a
//! nudge to look: it grants nothing, so nothing is lost when whoever was woken goes away instead;
//! leaving, by whatever way, wakes the next.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::fmt;
use std::hash::BuildHasher;
use std::task::Waker;
use std::time::Duration;

use ratekeeper_core::{Algorithm, Claim, Key, Limit, Nanos};
use tokio::time::Instant;

use super::Waiters;
use crate::sync::{AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering};

/// What a line waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LineId {
    counter: u32,
    key: Key,
}

impl LineId {
    pub(crate) fn of(claim: &Claim<'_>) -> Self {
        Self {
            counter: claim.limit.counter_number(),
            key: claim.key,
        }
    }
}

/// All lines of a layer or pacer. Empty ones are not kept.
pub(crate) struct Lines {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// The waiters of all lines. Changed under a shard's lock; read without one, to pass by while
    /// nobody waits. Relaxed: it is a hint, and whoever comes after a waiter sees it.
    waiting: AtomicUsize,
    /// A [`Waiters`]. Relaxed: waiters read it under their shard's lock, and whoever changes it takes
    /// each lock afterwards.
    waiters: AtomicU8,
}

type Shard = HashMap<LineId, Line, RandomState>;

/// The waiters of one key. Invariant: never empty.
#[derive(Default)]
struct Line {
    waiters: BTreeMap<u64, Waiter>,
    /// The number of the next arrival.
    next: u64,
    /// What the waiters will be charged together.
    units: u64,
    /// The moment as of which a new first waiter may ask: when the one before it had its turn.
    turn: Option<Nanos>,
    /// When the first waiter has its turn, once it knows.
    due: Option<Instant>,
}

struct Waiter {
    units: u64,
    waker: Option<Waker>,
}

/// The waiters that a newcomer finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) waiters: usize,
    /// What they will be charged together, and the first of them alone.
    units: u64,
    first: u64,
    /// When the first has its turn, once it knows.
    due: Option<Instant>,
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Others are before it; it will be woken.
    Behind,
    /// It is first, and may ask as of this moment, or of the present one.
    First(Option<Nanos>),
    /// Waiting has been ended.
    Ended(Waiters),
}

impl Ahead {
    /// Returns how long a newcomer that needs so many units waits at least.
    ///
    /// Of a bucket it is how long it waits, nothing else happening: when the first has its turn, its
    /// bucket is full, and from then on each unit takes its time.
    pub(crate) fn wait(&self, limit: &Limit, needed: u64, now: Instant) -> Duration {
        let quota = limit.quota();
        let period = quota.period().as_nanos();
        let until_first = self
            .due
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
        let behind = self.units.saturating_sub(self.first).saturating_add(needed);
        let nanos = match limit.algorithm() {
            Algorithm::LeakyBucket | Algorithm::TokenBucket => {
                (u128::from(behind) * period).div_ceil(u128::from(quota.units()))
            }
            algorithm => {
                // A window admits its units at its start, and a counter at an edge twice as many.
                let once = match algorithm {
                    Algorithm::SlidingCounter => u128::from(limit.capacity()) * 2,
                    _ => u128::from(limit.capacity()),
                };
                let units = u128::from(self.first) + u128::from(behind);
                units.saturating_sub(1) / once.max(1) * period
            }
        };
        until_first.saturating_add(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }
}

impl Lines {
    const SHARDS: usize = if cfg!(ratekeeper_loom) { 1 } else { 16 };

    pub(crate) fn new() -> Self {
        let shard = || Mutex::new(Shard::default());
        Self {
            shards: (0..Self::SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            waiting: AtomicUsize::new(0),
            waiters: AtomicU8::new(0),
        }
    }

    fn shard(&self, id: &LineId) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(id);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower bits are as good as any"
        )]
        let index = hash as usize % self.shards.len();
        lock(&self.shards[index])
    }

    /// Returns how many wait, in all lines.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether anyone waits in this line.
    #[inline]
    pub(crate) fn someone_waits(&self, id: &LineId) -> bool {
        self.waiting() > 0 && self.shard(id).contains_key(id)
    }

    /// Takes a place at the end of a line, if `admit` has nothing against it; it is shown the
    /// waiters that are there, if any. Returns the number of the arrival.
    pub(crate) fn join<T, E>(
        &self,
        id: LineId,
        units: u64,
        admit: impl FnOnce(Option<Ahead>) -> Result<T, E>,
    ) -> Result<(u64, T), E> {
        let mut shard = self.shard(&id);
        let ahead = shard.get(&id).map(|line| Ahead {
            waiters: line.waiters.len(),
            units: line.units,
            first: line.waiters.values().next().map_or(0, |first| first.units),
            due: line.due,
        });
        let admitted = admit(ahead)?;
        let line = shard.entry(id).or_default();
        let arrival = line.next;
        line.next += 1;
        line.units = line.units.saturating_add(units);
        line.waiters.insert(arrival, Waiter { units, waker: None });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok((arrival, admitted))
    }

    /// Tells where a waiter stands, and has it woken when that changes.
    pub(crate) fn stand(&self, id: &LineId, arrival: u64, waker: &Waker) -> Standing {
        let mut shard = self.shard(id);
        let ended = self.waiters();
        let Some(line) = shard.get_mut(id) else {
            return Standing::Behind;
        };
        let is_first = line.waiters.keys().next() == Some(&arrival);
        let turn = line.turn;
        let replaced = line
            .waiters
            .get_mut(&arrival)
            .filter(|waiter| {
                !waiter
                    .waker
                    .as_ref()
                    .is_some_and(|own| own.will_wake(waker))
            })
            .and_then(|waiter| waiter.waker.replace(waker.clone()));
        drop(shard);
        // Outside the lock, like every waker: the last of a task drops what the task holds.
        drop(replaced);
        match ended {
            Waiters::Hold if is_first => Standing::First(turn),
            Waiters::Hold => Standing::Behind,
            ended => Standing::Ended(ended),
        }
    }

    /// Notes when the first waiter has its turn, for those who come.
    pub(crate) fn promise(&self, id: &LineId, due: Instant) {
        if let Some(line) = self.shard(id).get_mut(id) {
            line.due = Some(due);
        }
    }

    /// Gives a place back. If it was the first, the next is woken and may ask as of `turn`.
    pub(crate) fn leave(&self, id: &LineId, arrival: u64, turn: Option<Nanos>) {
        let mut shard = self.shard(id);
        let Entry::Occupied(mut entry) = shard.entry(*id) else {
            return;
        };
        let line = entry.get_mut();
        let was_first = line.waiters.keys().next() == Some(&arrival);
        let Some(left) = line.waiters.remove(&arrival) else {
            return;
        };
        line.units = line.units.saturating_sub(left.units);
        let mut next = None;
        if line.waiters.is_empty() {
            entry.remove();
            // What a flood has left behind is not kept.
            if shard.is_empty() {
                shard.shrink_to(SMALL);
            }
        } else if was_first {
            line.turn = turn.or(line.turn);
            line.due = None;
            next = line
                .waiters
                .values_mut()
                .next()
                .and_then(|next| next.waker.take());
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        drop(shard);
        // Outside the lock: a waker may run anything.
        if let Some(next) = next {
            next.wake();
        }
    }

    pub(crate) fn waiters(&self) -> Waiters {
        match self.waiters.load(Ordering::Relaxed) {
            0 => Waiters::Hold,
            1 => Waiters::Release,
            _ => Waiters::Refuse,
        }
    }

    /// Sets what becomes of all waiters, and has them look.
    pub(crate) fn set_waiters(&self, waiters: Waiters) {
        let number = match waiters {
            Waiters::Hold => 0,
            Waiters::Release => 1,
            Waiters::Refuse => 2,
        };
        self.waiters.store(number, Ordering::Relaxed);
        for shard in &self.shards {
            // In the order of the lines, so that those released leave in it as far as that goes.
            let wakers: Vec<Waker> = lock(shard)
                .values_mut()
                .flat_map(|line| line.waiters.values_mut())
                .filter_map(|waiter| waiter.waker.take())
                .collect();
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// The lines that an empty shard keeps room for.
const SMALL: usize = 64;

/// A panic of another holder leaves nothing half done: every step is one change of a collection.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
