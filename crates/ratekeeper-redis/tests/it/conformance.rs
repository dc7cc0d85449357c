//! The conformance suite, with the script's time taken from the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_redis::Redis;
use ratekeeper_testkit::conformance::Harness;

use crate::support::{RUNTIME, Server};

/// A namespace of its own on the shared server, and the time that its script is told.
struct OnServer {
    _server: Arc<Server>,
    micros: Arc<AtomicU64>,
    store: Redis,
}

impl OnServer {
    fn new() -> Option<Self> {
        let server = Server::shared()?;
        // 2023-11-14: a store of this kind never sees the epoch.
        let micros = Arc::new(AtomicU64::new(1_700_000_000_000_000));
        let _entered = RUNTIME.enter();
        let builder = server.builder().test_clock(Arc::clone(&micros));
        Some(Self {
            store: builder.build().unwrap(),
            micros,
            _server: server,
        })
    }
}

impl Harness for OnServer {
    type Store = Redis;

    const TICK: Duration = Duration::from_micros(1);
    const CASES: u32 = 24;

    fn store(&self) -> &Redis {
        &self.store
    }

    fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap();
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn unix_now(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn set_unix(&self, now: Duration) {
        let micros = u64::try_from(now.as_micros()).unwrap();
        self.micros.store(micros, Ordering::Relaxed);
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        RUNTIME.block_on(future)
    }

    fn settled(&self) {
        RUNTIME.block_on(self.store.flush());
    }
}

ratekeeper_testkit::conformance!(OnServer::new);
