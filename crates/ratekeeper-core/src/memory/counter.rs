//! The counters of a store, found by number.

use std::sync::OnceLock;

use super::logs::Logs;
use super::table::Table;

/// Counters in one block of the directory's first level; each further block is twice as long.
const FIRST: u32 = 16;

/// A directory that grows without moving or locking what is in it: block k holds 16·2^k counters.
pub(super) struct Counters {
    blocks: [OnceLock<Box<[Counter]>>; 28],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; 28],
        }
    }
}

impl Counters {
    /// Returns the counter of this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Counter {
        // Numbers from 16·(2^k − 1) on are in block k.
        let position = number.saturating_add(FIRST);
        let block = position.ilog2() - FIRST.ilog2();
        let length = FIRST << block;
        let counters = self.blocks[block as usize]
            .get_or_init(|| (0..length).map(|_| Counter::default()).collect());
        &counters[(position - length) as usize]
    }
}

/// What one counter holds, made when it is first used. It has both only after a change between the
/// sliding log and another algorithm, which starts the keys afresh.
#[derive(Default)]
pub(super) struct Counter {
    table: OnceLock<Table>,
    logs: OnceLock<Logs>,
}

impl Counter {
    #[inline]
    pub(super) fn table(&self, create: impl FnOnce() -> Table) -> &Table {
        self.table.get_or_init(create)
    }

    pub(super) fn logs(&self, create: impl FnOnce() -> Logs) -> &Logs {
        self.logs.get_or_init(create)
    }

    pub(super) fn existing_table(&self) -> Option<&Table> {
        self.table.get()
    }

    pub(super) fn existing_logs(&self) -> Option<&Logs> {
        self.logs.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_counter_of_its_own() {
        let counters = Counters::default();
        let mut places: Vec<_> = (0..2_000)
            .map(|number| std::ptr::from_ref(counters.get(number)))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 2_000);
    }
}
