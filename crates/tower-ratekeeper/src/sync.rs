//! Atomics and locks from one place, so that a model checker can stand in for them.

#[cfg(ratekeeper_loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
#[cfg(ratekeeper_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(ratekeeper_loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
#[cfg(not(ratekeeper_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
