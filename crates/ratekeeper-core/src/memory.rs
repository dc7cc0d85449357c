//! Counters in this process's memory.

mod acquire;
mod check;
mod counter;
mod logs;
#[cfg(all(test, ratekeeper_loom))]
mod loom;
mod settle;
mod state;
mod table;
mod tag;
mod together;

use std::fmt;
use std::future::Pending;
use std::sync::Arc;

use crate::algorithm::{Fixed, Moment};
use crate::claim::{Claim, Claims, Cost, Mode};
use crate::clock::{Clock, Nanos};
use crate::decision::{Decision, Outcome};
use crate::directory::Directory;
use crate::key::Key;
use crate::limit::{Limit, LimitError, Numbers};
use crate::observer::{NoObserver, Observer};
use crate::receipt::{Receipt, Settle};
use crate::store::{Acquire, Answer, Store, StoreError};

use counter::Counter;
use tag::Secret;

/// Counters in memory: exact, bounded, shared by the clones of one handle.
///
/// Every limit has its own table, so a flood of keys on one cannot push out another's. A table
/// holds [`max_keys`](MemoryBuilder::max_keys) live keys without losing any. Beyond that, a new
/// key takes the place of the one nearest to fresh among the few that share its line of the table,
/// and of one that is being refused only if all of them are; the observer is told. A key that has
/// become fresh takes no room: it is the same as one never seen.
///
/// In a full table a key takes 44 bytes, whatever its length, and after many more keys than it holds
/// up to 68: at the default of 262,144 keys a table grows to 11 MiB, at most 17, as keys arrive and
/// not before. A sliding log takes 16 bytes more for every admitted request that still counts, up to
/// [`max_log_entries`](MemoryBuilder::max_log_entries), with spare room of up to three times that.
///
/// Keys are told apart by a 64-bit tag, computed from them with `SipHash` under a secret of the
/// process: n live keys of one limit share one by chance with a probability of n²/2^65, and nobody
/// outside can aim at it. There is no thread, no task and no timer; a check of a known key
/// allocates nothing (a log's memory doubles now and then as it grows).
///
/// # Examples
///
/// ```
/// use ratekeeper_core::{Acquire, Claim, Claims, Limit, Memory, Quota, Store};
///
/// let second = Limit::token_bucket("second", Quota::per_second(10))?;
/// let hour = Limit::sliding_log("hour", Quota::per_hour(1_000))?;
/// let memory = Memory::new();
///
/// // Both are charged, or neither.
/// let claims = [Claim::new(&second, "alice"), Claim::new(&hour, "alice").with_cost(3)];
/// let Acquire::Now(Ok(answer)) = memory.acquire(&Claims::new(&claims)?) else { unreachable!() };
/// assert!(answer.decision.is_allowed());
/// assert_eq!(answer.decision.outcomes()[1].remaining(), 997);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    clock: Clock,
    observer: Arc<dyn Observer>,
    secret: Secret,
    max_keys: usize,
    max_log_entries: usize,
    max_keys_of: Vec<(Arc<str>, usize)>,
    counters: Directory<Counter>,
}

impl Memory {
    /// The live keys a limit holds unless told otherwise.
    pub const DEFAULT_MAX_KEYS: usize = 1 << 18;

    /// The most live keys that a limit can be told to hold: room for 2^28 takes 18 GiB of addresses,
    /// of which the system hands out what is used.
    pub const MOST_KEYS: usize = 1 << 28;

    /// The entries that a sliding log's keys hold together unless told otherwise: 16 MiB.
    pub const DEFAULT_MAX_LOG_ENTRIES: usize = 1 << 20;

    /// Creates a store with the defaults and the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts a store with other settings.
    pub fn builder() -> MemoryBuilder {
        MemoryBuilder {
            clock: Clock::system(),
            observer: Arc::new(NoObserver),
            max_keys: Self::DEFAULT_MAX_KEYS,
            max_log_entries: Self::DEFAULT_MAX_LOG_ENTRIES,
            max_keys_of: Vec::new(),
        }
    }

    /// Returns the clock that the store decides by.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Decides one claim; what [`Store::acquire`] does, without the ceremony.
    #[must_use]
    pub fn check(&self, limit: &Limit, key: &Key, cost: u64) -> Outcome {
        self.0.check(limit, key, cost, false)
    }

    /// Tells how a request of this cost would fare, and charges nothing.
    #[must_use]
    pub fn peek(&self, limit: &Limit, key: &Key, cost: u64) -> Outcome {
        self.0.check(limit, key, cost, true)
    }

    /// Makes a key fresh.
    pub fn reset(&self, limit: &Limit, key: &Key) {
        let tag = self.0.secret.tag(key);
        let counter = self.0.counter(limit);
        if let Some(table) = counter.existing_table() {
            let mut chain = table.lock(table.line_of(tag));
            if let Some(slot) = chain.find(tag) {
                chain.remove(slot);
            }
        }
        if let Some(logs) = counter.existing_logs() {
            let mut shard = logs.lock(logs::Logs::shard_of(tag));
            logs.remove(&mut shard, tag);
        }
    }

    /// Returns the entries in use for this limit. Keys that have become fresh are among them until
    /// their entries are used again.
    #[must_use]
    pub fn entries(&self, limit: &Limit) -> u64 {
        let counter = self.0.counter(limit);
        counter.existing_table().map_or(0, table::Table::used)
            + counter.existing_logs().map_or(0, logs::Logs::used)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("max_keys", &self.0.max_keys)
            .field("clock", &self.0.clock)
            .finish_non_exhaustive()
    }
}

impl Inner {
    #[inline]
    fn counter(&self, limit: &Limit) -> &Counter {
        self.counters.get(limit.counter_number())
    }

    #[inline]
    fn table(&self, limit: &Limit) -> &table::Table {
        self.counter(limit)
            .table(|| table::Table::new(self.max_keys(limit)))
    }

    fn logs(&self, limit: &Limit) -> &logs::Logs {
        self.counter(limit)
            .logs(|| logs::Logs::new(self.max_keys(limit), self.max_log_entries))
    }

    fn max_keys(&self, limit: &Limit) -> usize {
        let own = self
            .max_keys_of
            .iter()
            .find(|(counter, _)| &**counter == limit.counter());
        own.map_or(self.max_keys, |(_, max_keys)| *max_keys)
    }

    /// Returns the present moment for numbers and an entry, with calendar time only where one of
    /// them looks at it: an entry that was counted by other numbers may.
    #[inline]
    fn moment(&self, (fixed, version): (&Fixed, u32), slot: Option<table::Slot<'_>>) -> Moment {
        let foreign = slot.is_some_and(|slot| slot.version() != version);
        if foreign || matches!(fixed, Fixed::Calendar(_)) {
            self.calendar_moment()
        } else {
            Moment::from(self.clock.now())
        }
    }

    #[cold]
    fn calendar_moment(&self) -> Moment {
        Moment {
            now: self.clock.now(),
            unix: crate::clock::nanos(self.clock.unix_now()),
        }
    }
}

impl Store for Memory {
    // Never made: the answer is always known at once.
    type Future = Pending<Result<Answer, StoreError>>;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
        let mut answer = Answer {
            decision: Decision::UNLIMITED,
            receipts: Vec::new(),
        };
        let inner = &*self.0;
        let plain = !claims.is_peek() && claims.moment().is_none();
        let decided = match claims.as_slice() {
            [] => true,
            [
                Claim {
                    limit,
                    key,
                    cost: Cost::Units(units),
                    mode,
                    settles: false,
                },
            ] if plain => {
                let outcome = inner.check(limit, key, *units, false);
                let shadowed = *mode == Mode::Shadowed;
                answer.decision.push(outcome, shadowed);
                true
            }
            [first, second] if plain => inner.try_together(first, second, &mut answer).is_some(),
            _ => false,
        };
        if !decided {
            inner.acquire(claims, &mut answer);
        }
        Acquire::Now(Ok(answer))
    }

    #[inline]
    fn check(&self, claim: &Claim<'_>) -> Option<Outcome> {
        match claim.cost {
            Cost::Units(units) if !claim.settles => {
                Some(self.0.check(claim.limit, &claim.key, units, false))
            }
            Cost::Units(_) | Cost::Deferred => None,
        }
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        self.0.settle(&receipt, how);
    }

    fn now(&self) -> Option<Nanos> {
        Some(self.0.clock.now())
    }

    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        match limit.numbers() {
            Numbers::Log(log) if log.capacity() > self.0.max_log_entries as u64 => {
                Err(LimitError::log_too_large(limit, self.0.max_log_entries))
            }
            _ => Ok(()),
        }
    }
}

/// Settings of a [`Memory`]; made by [`Memory::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct MemoryBuilder {
    clock: Clock,
    observer: Arc<dyn Observer>,
    max_keys: usize,
    max_log_entries: usize,
    max_keys_of: Vec<(Arc<str>, usize)>,
}

impl MemoryBuilder {
    /// Sets the clock.
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        Self {
            clock: clock.into(),
            ..self
        }
    }

    /// Sets whom to tell of evictions and clipped debts.
    pub fn observer(self, observer: impl Observer) -> Self {
        Self {
            observer: Arc::new(observer),
            ..self
        }
    }

    /// Sets the live keys that each limit holds without losing any, from one to
    /// [`Memory::MOST_KEYS`]; what is beyond is taken for the nearer end.
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self {
            max_keys: max_keys.clamp(1, Memory::MOST_KEYS),
            ..self
        }
    }

    /// Sets the live keys that the limits of one counter hold.
    pub fn max_keys_of(mut self, counter: &str, max_keys: usize) -> Self {
        self.max_keys_of
            .push((counter.into(), max_keys.clamp(1, Memory::MOST_KEYS)));
        self
    }

    /// Sets the entries of 16 bytes that the keys of a sliding log hold together.
    pub fn max_log_entries(self, entries: usize) -> Self {
        Self {
            max_log_entries: entries.max(1),
            ..self
        }
    }

    /// Creates the store.
    #[must_use]
    pub fn build(self) -> Memory {
        let Self {
            clock,
            observer,
            max_keys,
            max_log_entries,
            max_keys_of,
        } = self;
        let secret = Secret::new();
        Memory(Arc::new(Inner {
            clock,
            observer,
            secret,
            max_keys,
            max_log_entries,
            max_keys_of,
            counters: Directory::new(),
        }))
    }
}

impl fmt::Debug for MemoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBuilder")
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}
