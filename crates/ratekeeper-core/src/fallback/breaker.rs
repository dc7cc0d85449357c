//! Stops asking a store that does not answer, and notices when it does again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Counts failures in a row: at so many of them it opens, and from then on lets nothing through but
/// a probe at a time, the next one a pause after the last has failed.
#[derive(Debug)]
pub(super) struct Breaker {
    state: Mutex<State>,
    failures: u32,
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// A probe is under way.
    Probing,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Ask the store.
    Ask,
    /// Do not ask it.
    Fall,
    /// Do not ask it, and try it out beside.
    FallAndProbe,
}

impl Breaker {
    pub(super) fn new(failures: u32, pause: Duration) -> Self {
        Self {
            state: Mutex::new(State::Closed { failures: 0 }),
            failures: failures.max(1),
            pause,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pass(&self) -> Pass {
        let mut state = self.lock();
        match *state {
            State::Closed { .. } => Pass::Ask,
            State::Open { until } if Instant::now() >= until => {
                *state = State::Probing;
                Pass::FallAndProbe
            }
            State::Open { .. } | State::Probing => Pass::Fall,
        }
    }

    /// Notes an answer to a request; one that comes after the breaker has opened is no news.
    pub(super) fn succeeded(&self) {
        if let State::Closed { failures } = &mut *self.lock() {
            *failures = 0;
        }
    }

    /// Notes that a request got no answer; returns whether that opened the breaker.
    pub(super) fn failed(&self) -> bool {
        let mut state = self.lock();
        let State::Closed { failures } = &mut *state else {
            return false;
        };
        *failures += 1;
        if *failures < self.failures {
            return false;
        }
        *state = State::Open {
            until: Instant::now() + self.pause,
        };
        true
    }

    /// Notes how a probe ended; returns whether that closed the breaker.
    pub(super) fn probed(&self, answered: bool) -> bool {
        *self.lock() = if answered {
            State::Closed { failures: 0 }
        } else {
            State::Open {
                until: Instant::now() + self.pause,
            }
        };
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_in_a_row_and_lets_one_probe_through_after_each_pause() {
        let breaker = Breaker::new(3, Duration::from_secs(1));
        assert!(!breaker.failed() && !breaker.failed());
        breaker.succeeded();
        assert!(!breaker.failed() && !breaker.failed());
        assert_eq!(breaker.pass(), Pass::Ask);
        assert!(breaker.failed());
        assert_eq!(breaker.pass(), Pass::Fall);
        // Answers that were under way when it opened change nothing.
        assert!(!breaker.failed());
        breaker.succeeded();

        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(breaker.pass(), Pass::Fall);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(breaker.pass(), Pass::FallAndProbe);
        assert_eq!(breaker.pass(), Pass::Fall);
        assert!(!breaker.probed(false));
        assert_eq!(breaker.pass(), Pass::Fall);

        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(breaker.pass(), Pass::FallAndProbe);
        assert!(breaker.probed(true));
        assert_eq!(breaker.pass(), Pass::Ask);
    }
}
