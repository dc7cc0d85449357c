//! Small numbers for what configuration names: counters and the numbers of limits.
//!
//! A store finds a counter's table, and tells whether an entry was written under the same numbers,
//! by comparing integers instead of strings and structs. Both lists hold only what configuration
//! has named, never what a request brought, so they grow with the configuration and not with
//! traffic.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use crate::algorithm::Fixed;
use crate::directory::Directory;

static COUNTERS: LazyLock<RwLock<HashMap<Arc<str>, u32>>> = LazyLock::new(RwLock::default);

static VERSIONS: LazyLock<RwLock<HashMap<Fixed, u32>>> = LazyLock::new(RwLock::default);

/// The numbers by version: read by requests, so without a lock.
static FIXED: Directory<OnceLock<Fixed>> = Directory::new();

/// Returns the number of the counter of this name, the same for the life of the process.
pub(crate) fn counter(name: &str) -> (Arc<str>, u32) {
    let mut counters = COUNTERS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, number)) = counters.get_key_value(name) {
        return (Arc::clone(name), *number);
    }
    let number = u32::try_from(counters.len()).unwrap_or(u32::MAX);
    let name: Arc<str> = name.into();
    counters.insert(Arc::clone(&name), number);
    (name, number)
}

/// Returns the number that stands for a limit's numbers, the same for equal ones.
pub(crate) fn version(fixed: Fixed) -> u32 {
    let mut versions = VERSIONS.write().unwrap_or_else(PoisonError::into_inner);
    let next = u32::try_from(versions.len()).unwrap_or(u32::MAX);
    *versions.entry(fixed).or_insert_with(|| {
        FIXED.get(next).get_or_init(|| fixed);
        next
    })
}

/// Returns the numbers that a number from [`version`] stands for.
pub(crate) fn fixed(version: u32) -> Option<&'static Fixed> {
    FIXED.existing(version)?.get()
}
