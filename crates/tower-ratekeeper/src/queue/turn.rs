//! One request on its way to its turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ratekeeper_core::{
    Acquire, Answer, Claim, Claims, Cost, Decision, Key, Limit, MAX_CLAIMS, Mode, Nanos, Observer,
    Store, StoreError, WaitEnd,
};
use tokio::time::{Instant, Sleep, sleep_until};

use super::lines::{LineId, Lines, Standing};
use super::place::{Advice, Place, Taken, refused};
use super::{Queue, Waited, Waiters};

/// How late a waiter may come to its turn and still have it as of the promised moment. Beyond it,
/// as after a halt of the whole machine, those who wait are not all to leave at once.
const MAX_LATENESS: Duration = Duration::from_secs(1);

/// A timer's tick. What a wait comes to beyond its bound by no more than this is not refused.
const TICK: Duration = Duration::from_millis(1);

/// What a store finally said, and how long that was waited for.
pub(crate) struct Arrived {
    pub(crate) answer: Result<Answer, StoreError>,
    /// `None` where the request never stood in a line.
    pub(crate) waited: Option<Waited>,
}

/// What is known at once of a request that asks for admission, or that it waits.
pub(crate) type Arrival<F> = Result<Arrived, Box<Turn<F>>>;

/// What a request asks, and which of its claims delays it.
struct Request {
    claims: Vec<(Limit, Key, Cost, Mode)>,
    delaying: usize,
    queue: Queue,
}

/// A request on its way to its turn. Dropped, it gives its place back.
///
/// It does not hold the store: whoever polls it does.
pub(crate) struct Turn<F> {
    // The question under way is dropped before the place is given back.
    step: Step<F>,
    place: Option<Place>,
    request: Request,
    lines: Arc<Lines>,
    observer: Option<Arc<dyn Observer>>,
}

enum Step<F> {
    /// Nobody waits, and the store is asked for admission.
    Trying(Pin<Box<F>>),
    /// Others wait, and the store is asked how the request stands.
    Peeking(Pin<Box<F>>),
    /// In a line, and not known to be first.
    Standing,
    /// First, with a promised moment.
    Promised(Promise, Option<Pin<Box<Sleep>>>),
    /// First, and the store is asked as of this moment.
    Asking(Option<Nanos>, Pin<Box<F>>),
    /// Let go, and the store is asked without the claim that delays.
    Released(Pin<Box<F>>),
    Done,
}

/// A moment by the store's clock, where it has one here, and by the timer's.
#[derive(Clone, Copy)]
struct Promise {
    as_of: Option<Nanos>,
    at: Instant,
}

impl Request {
    fn new(claims: &Claims<'_>, delaying: usize, queue: Queue) -> Self {
        let claims = claims.as_slice().iter();
        let claims = claims.map(|claim| (claim.limit.clone(), claim.key, claim.cost, claim.mode));
        Self {
            claims: claims.collect(),
            delaying,
            queue,
        }
    }

    /// Asks the store. Whoever waited may go away between the answer and its use, so a receipt is
    /// wanted for every charge.
    fn ask<St: Store>(
        &self,
        store: &St,
        as_of: Option<Nanos>,
        delays: bool,
    ) -> Acquire<St::Future> {
        let mut claims: [Option<Claim<'_>>; MAX_CLAIMS] = [const { None }; MAX_CLAIMS];
        let own = self.claims.iter().enumerate();
        for (slot, (index, (limit, key, cost, mode))) in claims.iter_mut().zip(own) {
            let released = !delays && index == self.delaying;
            *slot = Some(Claim {
                limit,
                key: *key,
                cost: *cost,
                mode: if released { Mode::Shadowed } else { *mode },
                settles: true,
            });
        }
        let nothing = Answer {
            decision: Decision::UNLIMITED,
            receipts: Vec::new(),
        };
        let Some(first) = claims[0] else {
            return Acquire::Now(Ok(nothing));
        };
        let count = self.claims.len().min(MAX_CLAIMS);
        let claims = claims.map(|claim| claim.unwrap_or(first));
        match Claims::new(&claims[..count]) {
            Ok(claims) => {
                let claims = as_of.map_or(claims, |as_of| claims.as_of(as_of));
                store.acquire(&claims)
            }
            Err(_) => Acquire::Now(Ok(nothing)),
        }
    }
}

fn refusal(decision: Decision) -> Result<Answer, StoreError> {
    Ok(Answer {
        decision,
        receipts: Vec::new(),
    })
}

/// Asks for admission of a request, one of whose claims delays it.
///
/// The claim that delays is enforced and costs something; the caller sees to it.
pub(crate) fn ask<St: Store>(
    lines: &Arc<Lines>,
    observer: Option<&Arc<dyn Observer>>,
    store: &St,
    claims: &Claims<'_>,
    delaying: usize,
    queue: &Queue,
) -> Arrival<St::Future> {
    let Some(claim) = claims.as_slice().get(delaying) else {
        return match store.acquire(claims) {
            Acquire::Now(answer) => Ok(Arrived::at_once(answer)),
            Acquire::Later(future) => {
                let step = Step::Released(Box::pin(future));
                Err(Turn::new(lines, observer, claims, delaying, queue, step))
            }
        };
    };
    // Whoever comes while others wait stands behind them, even if a unit is there just now.
    let peeks = lines.someone_waits(&LineId::of(claim));
    let asked = if peeks {
        store.acquire(&claims.peek())
    } else {
        store.acquire(claims)
    };
    let turn = |step| Turn::new(lines, observer, claims, delaying, queue, step);
    match asked {
        Acquire::Now(Ok(answer)) if peeks || !answer.decision.is_allowed() => {
            let place = Place::take(
                lines,
                observer,
                (claim.limit, claim.key, claim.cost),
                &answer.decision,
                delaying,
                queue,
            );
            // What will not wait costs no allocation.
            match place {
                Taken::Refused(decision) => Ok(Arrived::at_once(refusal(decision))),
                taken => {
                    let mut turn = turn(Step::Standing);
                    match turn.take(taken, store) {
                        Some(arrived) => Ok(arrived),
                        None => Err(turn),
                    }
                }
            }
        }
        Acquire::Now(answer) => Ok(Arrived::at_once(answer)),
        Acquire::Later(future) if peeks => Err(turn(Step::Peeking(Box::pin(future)))),
        Acquire::Later(future) => Err(turn(Step::Trying(Box::pin(future)))),
    }
}

impl<F> Turn<F>
where
    F: Future<Output = Result<Answer, StoreError>> + Send + 'static,
{
    fn new(
        lines: &Arc<Lines>,
        observer: Option<&Arc<dyn Observer>>,
        claims: &Claims<'_>,
        delaying: usize,
        queue: &Queue,
        step: Step<F>,
    ) -> Box<Self> {
        Box::new(Self {
            step,
            place: None,
            request: Request::new(claims, delaying, *queue),
            lines: Arc::clone(lines),
            observer: observer.cloned(),
        })
    }

    /// Takes a place in the line after a decision that is not the last word.
    fn line_up<St: Store<Future = F>>(
        &mut self,
        decision: &Decision,
        store: &St,
    ) -> Option<Arrived> {
        let request = &self.request;
        let (limit, key, cost, _) = request.claims.get(request.delaying)?;
        let taken = Place::take(
            &self.lines,
            self.observer.as_ref(),
            (limit, *key, *cost),
            decision,
            request.delaying,
            &request.queue,
        );
        self.take(taken, store)
    }

    /// Goes on from the attempt to take a place. Returns what came of it where that is known.
    fn take<St: Store<Future = F>>(&mut self, taken: Taken, store: &St) -> Option<Arrived> {
        match taken {
            Taken::Refused(decision) => Some(self.leave(refusal(decision), WaitEnd::Refused)),
            Taken::Released => self.release(store),
            Taken::Place(place) => {
                self.step = Step::Standing;
                let is_first = place.ahead == 0;
                self.place = Some(place);
                // The first learns its moment at once, for those who come next.
                if is_first {
                    self.ask(store.now(), store)
                } else {
                    None
                }
            }
        }
    }

    /// Asks the store, as the first of the line.
    fn ask<St: Store<Future = F>>(&mut self, as_of: Option<Nanos>, store: &St) -> Option<Arrived> {
        match self.request.ask(store, as_of, true) {
            Acquire::Now(answer) => self.answered(answer, as_of, store),
            Acquire::Later(future) => {
                self.step = Step::Asking(as_of, Box::pin(future));
                None
            }
        }
    }

    /// Goes on from the answer that the first of the line got.
    fn answered<St: Store<Future = F>>(
        &mut self,
        answer: Result<Answer, StoreError>,
        as_of: Option<Nanos>,
        store: &St,
    ) -> Option<Arrived> {
        let delaying = self.request.delaying;
        let place = self.place.as_mut()?;
        place.turn = as_of.or(place.turn);
        let decision = match &answer {
            Ok(answer) if !answer.decision.is_allowed() => answer.decision,
            Ok(_) => return Some(self.leave(answer, WaitEnd::Admitted)),
            Err(_) => return Some(self.leave(answer, WaitEnd::Refused)),
        };
        let Advice::Wait(wait) = Advice::of(&decision, delaying) else {
            return Some(self.leave(answer, WaitEnd::Refused));
        };
        place.seen = decision;
        // The store's clock first: its moment is then never passed before the timer's.
        let store_now = store.now();
        let now = Instant::now();
        let (as_of, left, late) = match (as_of, store_now) {
            (Some(as_of), Some(store_now)) => {
                // Windows are decided at the present moment whatever was asked.
                let from = if place.limit.algorithm().has_burst() {
                    as_of
                } else {
                    store_now
                };
                let promised = Nanos::new(from.get().saturating_add(nanos(wait)));
                let left = promised.get().saturating_sub(store_now.get());
                let late = store_now.get().saturating_sub(promised.get());
                (
                    Some(promised),
                    Duration::from_nanos(left),
                    Duration::from_nanos(late),
                )
            }
            _ => (None, wait, Duration::ZERO),
        };
        // A moment that has passed counts as what it is: who was promised it in time is not refused
        // because nobody looked.
        let at = now.checked_add(left).and_then(|at| at.checked_sub(late));
        let last = place.entered.checked_add(self.request.queue.max_wait);
        let last = last.and_then(|last| last.checked_add(TICK));
        match at {
            Some(at) if last.is_none_or(|last| at <= last) => {
                place.turn = as_of;
                place.lines.promise(&place.id, at);
                self.step = Step::Promised(Promise { as_of, at }, None);
                None
            }
            _ => {
                let decision = refused(&decision, delaying, left);
                Some(self.leave(refusal(decision), WaitEnd::Refused))
            }
        }
    }

    /// Goes on without the claim that delays.
    fn release<St: Store<Future = F>>(&mut self, store: &St) -> Option<Arrived> {
        match self.request.ask(store, None, false) {
            Acquire::Now(answer) => Some(self.leave_with(answer)),
            Acquire::Later(future) => {
                self.step = Step::Released(Box::pin(future));
                None
            }
        }
    }

    fn leave_with(&mut self, answer: Result<Answer, StoreError>) -> Arrived {
        let allowed = matches!(&answer, Ok(answer) if answer.decision.is_allowed());
        let end = if allowed {
            WaitEnd::Admitted
        } else {
            WaitEnd::Refused
        };
        self.leave(answer, end)
    }

    /// Gives the place back, with the answer.
    fn leave(&mut self, answer: Result<Answer, StoreError>, end: WaitEnd) -> Arrived {
        self.step = Step::Done;
        let waited = self.place.take().map(|mut place| {
            place.end = end;
            place.waited()
        });
        Arrived { answer, waited }
    }

    /// Waits for the turn. The store is always the same.
    pub(crate) fn poll<St: Store<Future = F>>(
        &mut self,
        cx: &mut Context<'_>,
        store: &St,
    ) -> Poll<Arrived> {
        loop {
            let arrived = match &mut self.step {
                Step::Trying(future) | Step::Peeking(future) => {
                    let answer = ready!(future.as_mut().poll(cx));
                    let peeked = matches!(self.step, Step::Peeking(_));
                    match answer {
                        Ok(answer) if peeked || !answer.decision.is_allowed() => {
                            self.line_up(&answer.decision, store)
                        }
                        answer => Some(self.leave_with(answer)),
                    }
                }
                Step::Asking(as_of, future) => {
                    let as_of = *as_of;
                    let answer = ready!(future.as_mut().poll(cx));
                    self.answered(answer, as_of, store)
                }
                Step::Released(future) => {
                    let answer = ready!(future.as_mut().poll(cx));
                    Some(self.leave_with(answer))
                }
                Step::Standing | Step::Promised(..) => ready!(self.poll_place(cx, store)),
                // Polled after it was ready.
                Step::Done => return Poll::Pending,
            };
            if let Some(arrived) = arrived {
                return Poll::Ready(arrived);
            }
        }
    }

    /// Waits in the line until there is something to be done, and does it.
    fn poll_place<St: Store<Future = F>>(
        &mut self,
        cx: &mut Context<'_>,
        store: &St,
    ) -> Poll<Option<Arrived>> {
        let Some(place) = self.place.as_mut() else {
            return Poll::Pending;
        };
        let standing = place.lines.stand(&place.id, place.arrival, cx.waker());
        let turn = match (standing, &mut self.step) {
            (Standing::Ended(Waiters::Release), _) => return Poll::Ready(self.release(store)),
            (Standing::Ended(_), _) => {
                let left = place.expected.saturating_sub(place.entered.elapsed());
                let decision = refused(&place.seen, self.request.delaying, left);
                return Poll::Ready(Some(self.leave(refusal(decision), WaitEnd::Refused)));
            }
            (_, Step::Promised(promise, timer)) => {
                let at = promise.at;
                let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
                ready!(timer.as_mut().poll(cx));
                promise.as_of
            }
            (Standing::First(turn), _) => turn,
            (Standing::Behind, _) => return Poll::Pending,
        };
        let as_of = store.now().map(|now| {
            let earliest = now.get().saturating_sub(nanos(MAX_LATENESS));
            turn.map_or(now, |turn| Nanos::new(turn.get().max(earliest)).min(now))
        });
        Poll::Ready(self.ask(as_of, store))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
