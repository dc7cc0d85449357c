//! What one counter of a store holds.

use std::sync::OnceLock;

use super::logs::Logs;
use super::table::Table;

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

    #[inline]
    pub(super) fn existing_table(&self) -> Option<&Table> {
        self.table.get()
    }

    pub(super) fn existing_logs(&self) -> Option<&Logs> {
        self.logs.get()
    }
}
