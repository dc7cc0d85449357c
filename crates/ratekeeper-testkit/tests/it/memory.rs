//! `Memory` keeps everything that a store has to keep.

use std::time::Duration;

use ratekeeper_core::{ManualClock, Memory};
use ratekeeper_testkit::conformance::Harness;

struct InMemory {
    clock: ManualClock,
    store: Memory,
}

impl InMemory {
    fn new() -> Option<Self> {
        let clock = ManualClock::new();
        // Small, since every random trace takes a new one.
        let store = Memory::builder()
            .clock(clock.clone())
            .max_keys(1_024)
            .build();
        Some(Self { clock, store })
    }
}

impl Harness for InMemory {
    type Store = Memory;

    fn store(&self) -> &Memory {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn unix_now(&self) -> Duration {
        self.clock.unix_now()
    }

    fn set_unix(&self, now: Duration) {
        self.clock.set_unix(now);
    }
}

ratekeeper_testkit::conformance!(InMemory::new);
