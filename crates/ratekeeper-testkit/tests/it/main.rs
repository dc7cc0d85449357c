//! The suite on a store of oracles, and on stores that are wrong on purpose.

mod listed;
mod obvious;
