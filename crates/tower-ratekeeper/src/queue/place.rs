//! A place in a line, and who may take one.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{
    Claim, Cost, Decision, Key, Limit, Nanos, Observer, Outcome, Standing, Wait, WaitEnd,
};
use tokio::time::Instant;

use super::lines::{LineId, Lines};
use super::{Queue, Waited, Waiters};

/// A place in a line, given back when dropped.
pub(super) struct Place {
    pub(super) lines: Arc<Lines>,
    observer: Option<Arc<dyn Observer>>,
    pub(super) limit: Limit,
    pub(super) id: LineId,
    pub(super) arrival: u64,
    pub(super) ahead: usize,
    pub(super) entered: Instant,
    /// How long it would be by what was known on entering.
    pub(super) expected: Duration,
    /// What the store said last.
    pub(super) seen: Decision,
    /// The moment as of which the next may ask: when this one had its turn.
    pub(super) turn: Option<Nanos>,
    pub(super) end: WaitEnd,
}

/// What came of trying to take a place.
pub(super) enum Taken {
    Place(Place),
    Refused(Decision),
    /// Nobody waits any more.
    Released,
}

impl Place {
    /// Takes a place at the end of a line, if the decision leaves it to the limit that delays and
    /// the wait is not known to be too long.
    pub(super) fn take(
        lines: &Arc<Lines>,
        observer: Option<&Arc<dyn Observer>>,
        (limit, key, cost): (&Limit, Key, Cost),
        decision: &Decision,
        delaying: usize,
        queue: &Queue,
    ) -> Taken {
        let Advice::Wait(own) = Advice::of(decision, delaying) else {
            return Taken::Refused(*decision);
        };
        let waiters = lines.waiters();
        if waiters == Waiters::Release {
            return Taken::Released;
        }
        let id = LineId::of(&Claim::new(limit, key));
        let entered = Instant::now();
        let joined = lines.join(id, cost.charged(), |line| {
            let expected = line.map_or(own, |line| {
                own.max(line.wait(limit, cost.needed(), entered))
            });
            let ahead = line.map_or(0, |line| line.waiters);
            // What became free in the meantime is asked for whatever the bounds.
            let is_free = line.is_none() && own.is_zero();
            let waits =
                waiters == Waiters::Hold && ahead < queue.capacity && expected <= queue.max_wait;
            if is_free || waits {
                Ok((ahead, expected))
            } else {
                Err(expected)
            }
        });
        let (arrival, (ahead, expected)) = match joined {
            Ok(joined) => joined,
            Err(expected) => return Taken::Refused(refused(decision, delaying, expected)),
        };
        if let Some(observer) = observer {
            observer.queued(limit, ahead);
        }
        Taken::Place(Self {
            lines: Arc::clone(lines),
            observer: observer.cloned(),
            limit: limit.clone(),
            id,
            arrival,
            ahead,
            entered,
            expected,
            seen: *decision,
            turn: None,
            end: WaitEnd::Left,
        })
    }

    pub(super) fn waited(&self) -> Waited {
        Waited {
            ahead: self.ahead,
            time: self.entered.elapsed(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lines.leave(&self.id, self.arrival, self.turn);
        if let Some(observer) = &self.observer {
            observer.waited(&self.limit, self.entered.elapsed(), self.end);
        }
    }
}

/// What a decision says to a request that may wait.
pub(super) enum Advice {
    /// It is over, this way or that.
    Final,
    /// Only the limit that delays refuses: this long, or not at all while others wait.
    Wait(Duration),
}

impl Advice {
    pub(super) fn of(decision: &Decision, delaying: usize) -> Self {
        let mut wait = Duration::ZERO;
        for (index, outcome) in decision.outcomes().iter().enumerate() {
            if decision.is_shadowed(index) {
                continue;
            }
            match outcome.wait() {
                Wait::None => {}
                Wait::For(own) if index == delaying => wait = own,
                Wait::For(_) | Wait::Unknown | Wait::Never => return Self::Final,
            }
        }
        Self::Wait(wait)
    }
}

/// Returns the decision as it is for a request that will not be admitted for this long, whatever
/// the limit says, since others are before it.
pub(super) fn refused(decision: &Decision, delaying: usize, wait: Duration) -> Decision {
    let wait = wait.max(Duration::from_nanos(1));
    let mut refused = Decision::UNLIMITED;
    for (index, outcome) in decision.outcomes().iter().enumerate() {
        let outcome = if index == delaying {
            let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            let standing = Standing {
                remaining: 0,
                next: nanos,
                reset: nanos.max(u64::try_from(outcome.reset().as_nanos()).unwrap_or(u64::MAX)),
            };
            Outcome::new(standing, Wait::For(wait))
        } else {
            *outcome
        };
        refused.push(outcome, decision.is_shadowed(index));
    }
    refused
}
