//! The suite on the store that counts in memory, on a store of oracles, and on stores that are wrong on purpose.

mod listed;
mod memory;
mod obvious;
