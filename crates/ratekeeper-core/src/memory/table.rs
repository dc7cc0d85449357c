//! The table of one counter: keys as 64-bit tags, states as two words, a fixed amount of memory.
//!
//! A tag picks a **line** of 64 bytes that holds two entries. Where more keys meet in a line,
//! overflow lines from a pool are chained to it. A state that has become fresh equals no state, so
//! its entry is free to be used again in place: nothing collects, scans or keeps time.
//!
//! ```text
//! word 0      head: lock bit | 31 bits of sequence | 32 bits of the next overflow line, plus one
//! word 1      the versions of the two entries' numbers, 32 bits each
//! words 2-4   first entry: tag (0 = empty), two words of state
//! words 5-7   second entry
//! ```
//!
//! # Concurrency
//!
//! The lock bit in the head of a chain's first line guards the whole chain, its overflow lines
//! included. Releasing it counts the sequence up. So a chain can be read without the lock, and what
//! was read is right if the head is the same afterwards: a [`View`]. Refusing needs no more than
//! that. Admitting turns the view into a [`Chain`], by taking the lock if the head is still the
//! same; thus nothing is read twice, and the lock is held for a few stores. A view could be deceived
//! only by a thread that stops between two of its steps for exactly a multiple of 2^31 changes of
//! its line, which take at least 20 seconds.
//!
//! The lock is taken with Acquire and released with Release, so other accesses under it are
//! Relaxed; the fences that views need are told where they stand. Whoever locks several chains does
//! so in ascending order of their lines. The pool's mutex is taken while chains are locked, never
//! the other way round.
//!
//! # Bounds
//!
//! With M the most keys, there are M / 2 first lines. Once M entries are in use, every insertion
//! that takes an unused entry also sweeps [`SWEEP`] chains in turn and frees what has become
//! fresh. An entry in use has been live within the last full turn, of M / 2 / `SWEEP` insertions; so
//! as long as no more than M keys are live, no more than M + M / 8 entries are in use, and the
//! pool is large enough for these as tags spread them. Only beyond that a live key is evicted,
//! after another sweep has found nothing. So after more keys have been live than that, the first
//! insertions make room again; of those M / 8 a few may still cost a live key.
//!
//! An insertion looks at the entries of one chain and of at most [`SWEEP`] + 1 swept ones, and a
//! chain has at most 2 · [`MAX_CHAIN`] entries; all else looks at one chain.

use std::ops::Deref;

use crate::algorithm::{Fixed, Moment, Words};
use crate::intern;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, spin_loop, yield_now, zeroed_words};

/// The words of a line.
const LINE: usize = 8;

type Line = [AtomicU64; LINE];
const HEAD: usize = 0;
const VERSIONS: usize = 1;

/// A tag and two words of state.
type Entry = [AtomicU64; 3];

const TAG: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;

/// Returns the two entries of a line.
#[inline]
fn entries(words: &Line) -> [&Entry; 2] {
    let [_, _, first @ .., _, _, _] = words;
    let [_, _, _, _, _, second @ ..] = words;
    [first, second]
}

const LOCKED: u64 = 1;
const SEQUENCE: u64 = 1 << 1;
const LINK_SHIFT: u32 = 32;

/// Chains swept by an insertion into a full table.
pub(super) const SWEEP: usize = 4;

/// Lines in a chain at most, so that no operation touches more than twice as many entries. With
/// keyed tags, chains this long do not come up by chance: their probability is below 10^-20.
const MAX_CHAIN: usize = 16;

/// See the module's documentation.
pub(super) struct Table {
    words: Box<[AtomicU64]>,
    /// Index of the first word of line 0: lines are aligned to their size.
    origin: usize,
    /// Lines that tags pick; those behind them are the pool.
    lines: usize,
    pool: Mutex<Pool>,
    /// Entries with a tag. A statistic that triggers sweeping and eviction: Relaxed.
    used: AtomicU64,
    /// Where the next sweep begins. Relaxed: any value is as good.
    hand: AtomicU64,
    max_keys: u64,
}

/// Unused overflow lines: those never used, in order, and a list of those given back.
struct Pool {
    unused: usize,
    end: usize,
    /// Index of the first line given back, plus one; its head's link names the next.
    freed: u64,
}

/// The place of an entry.
#[derive(Clone, Copy)]
pub(super) struct Slot<'t> {
    line: usize,
    entry: &'t Entry,
    versions: &'t AtomicU64,
    /// Where in the word of versions this entry's is.
    shift: u32,
}

impl<'t> Slot<'t> {
    /// Returns the two places of a line.
    #[inline]
    fn of_line(line: usize, words: &'t Line) -> [Self; 2] {
        let [first, second] = entries(words);
        let slot = |entry, shift| Self {
            line,
            entry,
            versions: &words[VERSIONS],
            shift,
        };
        [slot(first, 0), slot(second, 32)]
    }

    // Relaxed, here and below: under the chain's lock, or to be checked afterwards.

    #[inline]
    fn tag(self) -> u64 {
        self.entry[TAG].load(Ordering::Relaxed)
    }

    /// Returns the version of the numbers that the entry is counted by.
    #[inline]
    pub(super) fn version(self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "one of the two halves")]
        let version = (self.versions.load(Ordering::Relaxed) >> self.shift) as u32;
        version
    }

    #[inline]
    pub(super) fn words(self) -> Words {
        [FIRST, SECOND].map(|index| self.entry[index].load(Ordering::Relaxed))
    }
}

/// What an insertion did besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// It reused an entry that had become fresh.
    Reused,
    /// It took an unused entry.
    Taken,
    /// It replaced a live key.
    Evicted,
}

impl Table {
    /// Creates a table for this many live keys. Memory is taken from the system as keys arrive.
    pub(super) fn new(max_keys: usize) -> Self {
        let max_keys = max_keys.max(1);
        let lines = max_keys.div_ceil(2);
        let most_used = max_keys + lines.div_ceil(SWEEP) + 1;
        let pool = most_used.div_ceil(2);
        let words = zeroed_words((lines + pool + 1) * LINE);
        // Boxes of words are aligned to 8 bytes; lines shall not lie across two of the cache's.
        let misplaced = words.as_ptr().addr() / size_of::<AtomicU64>() % LINE;
        Self {
            words,
            origin: (LINE - misplaced) % LINE,
            lines,
            pool: Mutex::new(Pool {
                unused: lines,
                end: lines + pool,
                freed: 0,
            }),
            used: AtomicU64::new(0),
            hand: AtomicU64::new(0),
            max_keys: max_keys as u64,
        }
    }

    /// Returns the entries in use; those of keys that have become fresh are among them until they
    /// are used again.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the line that a tag picks.
    #[inline]
    pub(super) fn line_of(&self, tag: u64) -> usize {
        // The high half of the product spreads tags evenly over any number of lines.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the number of lines"
        )]
        let line = ((u128::from(tag) * self.lines as u128) >> 64) as usize;
        line
    }

    #[inline]
    fn line(&self, line: usize) -> &Line {
        &self.words[self.origin..].as_chunks().0[line]
    }

    /// Looks at the chain of a line, once nobody holds its lock.
    #[inline]
    pub(super) fn view(&self, line: usize) -> View<'_> {
        match self.try_view(line) {
            Some(view) => view,
            None => self.wait_for_view(line),
        }
    }

    #[cold]
    fn wait_for_view(&self, line: usize) -> View<'_> {
        let mut turns = 0u32;
        loop {
            // A holder is some 10 ns from its release, unless the scheduler took it away.
            turns += 1;
            if turns.is_multiple_of(64) {
                yield_now();
            } else {
                spin_loop();
            }
            if let Some(view) = self.try_view(line) {
                return view;
            }
        }
    }

    #[inline]
    fn try_view(&self, line: usize) -> Option<View<'_>> {
        // Acquire pairs with the Release in `Chain::drop`: what was written under the lock is seen.
        let first = self.line(line);
        let head = first[HEAD].load(Ordering::Acquire);
        (head & LOCKED == 0).then_some(View {
            table: self,
            line,
            first,
            head,
        })
    }

    /// Locks the chain of a line.
    #[inline]
    pub(super) fn lock(&self, line: usize) -> Chain<'_> {
        loop {
            if let Some(chain) = self.view(line).lock() {
                return chain;
            }
            // Another was faster; that one is not waited for here but in `view`.
            spin_loop();
        }
    }

    /// Returns whether an insertion that took an unused entry has to sweep.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.used() >= self.max_keys
    }

    /// Frees entries that have become fresh, in a few chains, once the table is full. It waits for
    /// no lock, so it may be called with chains locked, and passes over those.
    #[cold]
    pub(super) fn sweep(&self, own: (&Fixed, u32), moment: Moment, chains: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "any position is as good")]
        let start = self.hand.fetch_add(chains as u64, Ordering::Relaxed) as usize;
        for step in 0..chains {
            // A chain that is locked is being used, and will be swept another time.
            let view = self.try_view(start.wrapping_add(step) % self.lines);
            if let Some(mut chain) = view.and_then(View::lock) {
                chain.free_fresh(own, moment);
            }
        }
    }

    /// Returns whether fewer entries are in use than there can be while no more keys are live than
    /// the table holds.
    fn has_room(&self) -> bool {
        self.used() < self.max_keys + self.lines.div_ceil(SWEEP) as u64
    }

    fn take_line(&self) -> Option<usize> {
        let mut pool = lock_pool(&self.pool);
        if pool.freed != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "an index of a line")]
            let line = (pool.freed - 1) as usize;
            // Relaxed: the pool's mutex orders these.
            let head = &self.line(line)[HEAD];
            pool.freed = head.load(Ordering::Relaxed) >> LINK_SHIFT;
            head.store(0, Ordering::Relaxed);
            // Release pairs with the Acquire fence in `View::is_current`: whoever reads what is
            // written into the line from here on sees that its old chain has let it go.
            fence(Ordering::Release);
            return Some(line);
        }
        (pool.unused < pool.end).then(|| {
            pool.unused += 1;
            pool.unused - 1
        })
    }

    /// Gives back an overflow line whose entries are empty.
    fn free_line(&self, line: usize) {
        let mut pool = lock_pool(&self.pool);
        self.line(line)[HEAD].store(pool.freed << LINK_SHIFT, Ordering::Relaxed);
        pool.freed = line as u64 + 1;
    }
}

/// Returns the numbers of a version, without a look-up where they are the caller's own.
#[inline]
fn numbers_of(version: u32, (own, own_version): (&Fixed, u32)) -> Option<&Fixed> {
    if version == own_version {
        Some(own)
    } else {
        intern::fixed(version)
    }
}

fn lock_pool(pool: &Mutex<Pool>) -> crate::sync::MutexGuard<'_, Pool> {
    // Nothing panics while the pool is locked, so a poisoned one is as good as any.
    pool.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A chain of lines that is read without its lock, as it was when the view was made. Others may be
/// changing it meanwhile, so what was read is right only if the view [is still
/// current](View::is_current) afterwards or can [be locked](View::lock).
#[derive(Clone, Copy)]
pub(super) struct View<'t> {
    table: &'t Table,
    line: usize,
    first: &'t Line,
    /// The head of the first line, without the lock bit.
    head: u64,
}

impl<'t> View<'t> {
    /// Returns whether nobody has changed the chain since.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        // Acquire pairs with the Release fence in `lock`: if any word was read that another has
        // written since, the head shows that one's lock or a later sequence.
        fence(Ordering::Acquire);
        self.first[HEAD].load(Ordering::Relaxed) == self.head
    }

    /// Locks the chain, unless somebody has changed or locked it since.
    #[inline]
    pub(super) fn lock(self) -> Option<Chain<'t>> {
        // As in `is_current`: nothing that was read is from after the head that is compared here.
        fence(Ordering::Acquire);
        let locked = self.first[HEAD].compare_exchange(
            self.head,
            self.head | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Release pairs with the Acquire fences of those who read without the lock: whoever sees
        // a word written under it also sees that it was taken.
        fence(Ordering::Release);
        // Made only now: a chain unlocks when it is dropped.
        locked.is_ok().then(|| Chain(self))
    }

    #[inline]
    fn next_line(&self, line: usize) -> Option<usize> {
        let head = if line == self.line {
            self.head
        } else {
            // Relaxed: under the chain's lock, or to be checked afterwards.
            self.table.line(line)[HEAD].load(Ordering::Relaxed)
        };
        let link = (head >> LINK_SHIFT) as usize;
        link.checked_sub(1)
    }

    /// Calls `visit` with the chain's slots and their tags until it returns something.
    #[inline]
    fn find_slot<R>(&self, mut visit: impl FnMut(Slot<'t>, u64) -> Option<R>) -> Option<R> {
        let mut line = self.line;
        let mut words = self.first;
        // Bounded for those without the lock, who may be led into a line that is not the chain's.
        for _ in 0..MAX_CHAIN {
            for slot in Slot::of_line(line, words) {
                if let Some(result) = visit(slot, slot.tag()) {
                    return Some(result);
                }
            }
            line = self.next_line(line)?;
            words = self.table.line(line);
        }
        None
    }

    /// Returns the entry of a tag.
    #[inline]
    pub(super) fn find(&self, tag: u64) -> Option<Slot<'t>> {
        let [first, second] = Slot::of_line(self.line, self.first);
        if first.tag() == tag {
            Some(first)
        } else if second.tag() == tag {
            Some(second)
        } else if self.next_line(self.line).is_some() {
            self.find_in_overflow(tag)
        } else {
            None
        }
    }

    #[cold]
    fn find_in_overflow(&self, tag: u64) -> Option<Slot<'t>> {
        self.find_slot(|slot, there| (there == tag).then_some(slot))
    }
}

/// A locked chain of lines; unlocked when dropped.
pub(super) struct Chain<'t>(View<'t>);

impl<'t> Deref for Chain<'t> {
    type Target = View<'t>;

    #[inline]
    fn deref(&self) -> &View<'t> {
        &self.0
    }
}

impl Drop for Chain<'_> {
    #[inline]
    fn drop(&mut self) {
        let link = self.head & !u64::from(u32::MAX);
        let sequence = self.head.wrapping_add(SEQUENCE) & u64::from(u32::MAX);
        // Release pairs with the Acquire in `Table::try_view`.
        self.first[HEAD].store(link | sequence, Ordering::Release);
    }
}

impl<'t> Chain<'t> {
    fn set_next_line(&mut self, line: usize, next: Option<usize>) {
        let link = next.map_or(0, |next| next as u64 + 1) << LINK_SHIFT;
        if line == self.line {
            self.0.head = self.head & u64::from(u32::MAX) | link;
        } else {
            // Relaxed, as all stores here: published by the release of the chain's lock.
            self.table.line(line)[HEAD].store(link, Ordering::Relaxed);
        }
    }

    /// Writes the state of an entry that is counted by the same numbers as before.
    #[inline]
    #[expect(clippy::unused_self, reason = "the lock is held while a chain exists")]
    pub(super) fn update(&mut self, slot: Slot<'_>, words: Words) {
        slot.entry[FIRST].store(words[0], Ordering::Relaxed);
        slot.entry[SECOND].store(words[1], Ordering::Relaxed);
    }

    /// Writes the state of an entry and by which numbers it is counted.
    pub(super) fn write(&mut self, slot: Slot<'_>, version: u32, words: Words) {
        let versions = slot.versions.load(Ordering::Relaxed);
        let other = versions & !(u64::from(u32::MAX) << slot.shift);
        let versions = other | u64::from(version) << slot.shift;
        slot.versions.store(versions, Ordering::Relaxed);
        self.update(slot, words);
    }

    /// Empties an entry.
    pub(super) fn remove(&mut self, slot: Slot<'_>) {
        slot.entry[TAG].store(0, Ordering::Relaxed);
        self.table.used.fetch_sub(1, Ordering::Relaxed);
    }

    /// Writes the state of a tag that the chain does not hold.
    pub(super) fn insert(
        &mut self,
        tag: u64,
        numbers: (&Fixed, u32),
        words: Words,
        moment: Moment,
    ) -> Inserted {
        let version = numbers.1;
        let (slot, inserted) = self.vacate(numbers, moment);
        slot.entry[TAG].store(tag, Ordering::Relaxed);
        self.write(slot, version, words);
        if inserted == Inserted::Taken {
            self.table.used.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    /// Finds a place for a new entry: one whose key has become fresh, an empty one, a new line, or
    /// that of the key whose loss matters least.
    fn vacate(&mut self, own: (&Fixed, u32), moment: Moment) -> (Slot<'t>, Inserted) {
        let mut empty = None;
        let mut fresh = None;
        let mut lines = 1;
        let mut last = self.line;
        // The candidate with the lowest rank: not exhausted before exhausted, then nearest to fresh.
        let mut victim: Option<((bool, u64), Slot<'t>)> = None;
        self.find_slot(|slot, tag| {
            if slot.line != last {
                (last, lines) = (slot.line, lines + 1);
            }
            if tag == 0 {
                empty = empty.or(Some(slot));
                return None;
            }
            let words = slot.words();
            let fixed = numbers_of(slot.version(), own)?;
            if fixed.is_fresh(words, moment) {
                fresh = fresh.or(Some(slot));
                return None::<()>;
            }
            let rank = (fixed.is_exhausted(words, moment), fixed.fresh_at(words));
            if victim.is_none_or(|(lowest, _)| rank < lowest) {
                victim = Some((rank, slot));
            }
            None
        });
        if let Some(slot) = fresh {
            return (slot, Inserted::Reused);
        }
        if !self.table.has_room() {
            // More keys have been live than the table holds. Some may be so no longer, elsewhere.
            self.table.sweep(own, moment, 1);
        }
        let has_room = self.table.has_room();
        // A key that is being refused is not the price for keeping to the bound to the last entry.
        let is_precious = victim.is_none_or(|((is_exhausted, _), _)| is_exhausted);
        if let Some(slot) = empty
            && (has_room || is_precious)
        {
            return (slot, Inserted::Taken);
        }
        if (has_room || victim.is_none())
            && lines < MAX_CHAIN
            && let Some(line) = self.table.take_line()
        {
            self.set_next_line(last, Some(line));
            let [slot, _] = Slot::of_line(line, self.table.line(line));
            return (slot, Inserted::Taken);
        }
        // Where no entry can be told from a fresh one, any will do.
        let [first, _] = Slot::of_line(self.line, self.first);
        (victim.map_or(first, |(_, slot)| slot), Inserted::Evicted)
    }

    /// Empties the entries that have become fresh and gives back the overflow lines left empty.
    fn free_fresh(&mut self, own: (&Fixed, u32), moment: Moment) {
        let mut before = self.line;
        let mut next = Some(self.line);
        while let Some(line) = next {
            next = self.next_line(line);
            let mut kept = false;
            for slot in Slot::of_line(line, self.table.line(line)) {
                if slot.tag() == 0 {
                    continue;
                }
                let fresh = numbers_of(slot.version(), own)
                    .is_none_or(|fixed| fixed.is_fresh(slot.words(), moment));
                if fresh {
                    self.remove(slot);
                } else {
                    kept = true;
                }
            }
            if line != self.line && !kept {
                self.set_next_line(before, next);
                self.table.free_line(line);
            } else {
                before = line;
            }
        }
    }
}

#[cfg(test)]
mod tests;
