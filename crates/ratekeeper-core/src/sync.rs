//! Atomics from one place, so that a model checker can stand in for them.

#[cfg(ratekeeper_loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(ratekeeper_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(ratekeeper_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(ratekeeper_loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(ratekeeper_loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(ratekeeper_loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(ratekeeper_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(ratekeeper_loom))]
pub(crate) use std::thread::yield_now;

/// Returns zeroed words. Large requests get memory that the system hands out page by page as the
/// words are first written.
#[cfg(not(ratekeeper_loom))]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    bytemuck::allocation::zeroed_slice_box(count)
}

#[cfg(ratekeeper_loom)]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// Leaves a line that others change as well to them for a while: some four microseconds after the
/// first attempt that failed, some eight after each of the next.
///
/// A line costs more to fetch from another core than to decide on. So two threads that take turns
/// at every decision are slower together than one alone, and those that take turns at dozens are not.
#[cfg(not(ratekeeper_loom))]
pub(crate) fn back_off(attempt: u32) {
    for _ in 0..64 << attempt.min(1) {
        spin_loop();
    }
}

#[cfg(ratekeeper_loom)]
pub(crate) fn back_off(_: u32) {
    spin_loop();
}
