//! The other candidate keeps what every store has to keep.

use std::time::Duration;

use candidates::Sharded;
use ratekeeper_core::ManualClock;
use ratekeeper_testkit::conformance::Harness;

struct InShards {
    clock: ManualClock,
    store: Sharded,
}

impl InShards {
    fn new() -> Option<Self> {
        let clock = ManualClock::new();
        let store = Sharded::new(clock.clone());
        Some(Self { clock, store })
    }
}

impl Harness for InShards {
    type Store = Sharded;

    fn store(&self) -> &Sharded {
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

ratekeeper_testkit::conformance!(InShards::new);
