//! Waiting for turns: order, rate, bounds, and nothing lost when someone goes away.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep, timeout};
use tower_ratekeeper::core::{
    Claim, Claims, Clock, Limit, Memory, Observer, Store, TokioClock, WaitEnd,
};
use tower_ratekeeper::queue::{Grant, Pacer, PacerError, Queue, Waiters};
use tower_ratekeeper::{Quota, Wait};

const TENTH: Duration = Duration::from_millis(100);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn leaky(units: u64) -> Limit {
    Limit::leaky_bucket("even", Quota::per_second(units)).unwrap()
}

fn ten_a_second(queue: Queue) -> Pacer {
    Pacer::new(leaky(10), queue).unwrap()
}

fn wait_of(result: Result<Grant, PacerError>) -> Wait {
    match result {
        Err(PacerError::TooLong(too_long)) => too_long.wait(),
        other => panic!("{other:?}"),
    }
}

/// The moments, from the start, at which requests got their turn.
async fn leave(mut turns: JoinSet<(usize, bool, Duration)>) -> Vec<(usize, Duration)> {
    let mut left = Vec::new();
    while let Some(turn) = turns.join_next().await {
        let (number, admitted, at) = turn.unwrap();
        if admitted {
            left.push((number, at));
        }
    }
    left
}

fn send(
    turns: &mut JoinSet<(usize, bool, Duration)>,
    pacer: &Pacer,
    key: u64,
    number: usize,
    start: Instant,
) {
    let turn = pacer.turn(key);
    turns.spawn(async move {
        let admitted = turn.await.is_ok();
        (number, admitted, start.elapsed())
    });
}

#[tokio::test(start_paused = true)]
async fn ten_a_second_for_three_seconds_leave_in_gaps_of_exactly_100_ms() {
    let pacer = ten_a_second(Queue::new(1_000).max_wait(Duration::from_secs(3)));
    let start = Instant::now();
    let mut turns = JoinSet::new();
    for number in 0..100 {
        send(&mut turns, &pacer, 1, number, start);
    }
    let left = leave(turns).await;
    // The first goes at once, and thirty more within the three seconds.
    let moments = (0..=30).map(|turn| TENTH * turn);
    assert_eq!(left, moments.enumerate().collect::<Vec<_>>());
    assert_eq!(pacer.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_no_whole_number_of_milliseconds_does_not_drift() {
    let pacer = Pacer::new(leaky(3), Queue::new(1_000).max_wait(Duration::MAX)).unwrap();
    let start = Instant::now();
    let mut turns = JoinSet::new();
    for number in 0..=300 {
        send(&mut turns, &pacer, 1, number, start);
    }
    for (number, at) in leave(turns).await {
        // Timers tick in milliseconds; the promised moments do not add that up.
        let exact = Duration::from_secs(number as u64) / 3;
        assert!(
            at >= exact && at < exact + millis(2),
            "{number} left at {at:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_three_leave_at_once_the_next_evenly_and_the_rest_is_refused() {
    let pacer = ten_a_second(Queue::new(5).at_once(3));
    let start = Instant::now();
    let mut turns = JoinSet::new();
    for number in 0..20 {
        send(&mut turns, &pacer, 1, number, start);
    }
    let left = leave(turns).await;
    let at = [0, 0, 0, 100, 200, 300, 400, 500].map(millis);
    assert_eq!(left, at.into_iter().enumerate().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn any_limit_can_be_waited_for() {
    let limits = [
        (Limit::token_bucket("t", Quota::per_second(10)), 100),
        (Limit::fixed_window("w", Quota::per_second(10)), 1_000),
        (Limit::sliding_log("l", Quota::per_second(10)), 1_000),
        (Limit::sliding_counter("c", Quota::per_second(10)), 1_000),
    ];
    for (limit, eleventh) in limits {
        let limit = limit.unwrap();
        let pacer = Pacer::new(limit.clone(), Queue::new(100)).unwrap();
        let start = Instant::now();
        for number in 0..11 {
            let grant = pacer.turn("k").await.unwrap();
            assert_eq!(grant.waited().is_some(), number == 10, "{limit}");
        }
        let late = start.elapsed().checked_sub(millis(eleventh)).unwrap();
        // A counter gives way a little after the edge: when the weight of the last window lets it.
        assert!(late <= millis(101), "{limit}: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_known_to_be_too_long_is_refused_at_once_with_how_long_it_would_be() {
    let pacer = ten_a_second(Queue::new(100).max_wait(millis(300)));
    let start = Instant::now();
    pacer.turn(1).await.unwrap();
    let mut turns = JoinSet::new();
    for number in 1..=3 {
        send(&mut turns, &pacer, 1, number, start);
    }
    tokio::task::yield_now().await;
    assert_eq!(pacer.waiting(), 3);
    assert_eq!(wait_of(pacer.turn(1).await), Wait::For(millis(400)));
    advance(millis(50)).await;
    assert_eq!(wait_of(pacer.turn(1).await), Wait::For(millis(350)));
    assert_eq!(start.elapsed(), millis(50), "nobody waited to be refused");
    assert_eq!(leave(turns).await.len(), 3);
    // Nothing else happened, so the wait was true.
    sleep(millis(99)).await;
    assert_ne!(wait_of(pacer.turn_n(1, 2).await), Wait::None);
    sleep(millis(1)).await;
    assert!(pacer.turn(1).await.unwrap().waited().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_with_the_wait_of_the_position_costs_counted() {
    let pacer = ten_a_second(Queue::new(2).at_once(5));
    pacer.turn_n(1, 5).await.unwrap();
    let start = Instant::now();
    let mut waiting = JoinSet::new();
    for cost in [3, 4] {
        let turn = pacer.turn_n(1, cost);
        waiting.spawn(async move {
            turn.await.unwrap();
            (cost, start.elapsed())
        });
    }
    tokio::task::yield_now().await;
    // Three units for the first, four for the second, two for this one.
    assert_eq!(wait_of(pacer.turn_n(1, 2).await), Wait::For(millis(900)));
    assert_eq!(wait_of(pacer.turn_n(1, 6).await), Wait::Never);
    let mut left = Vec::new();
    while let Some(turn) = waiting.join_next().await {
        left.push(turn.unwrap());
    }
    assert_eq!(left, [(3, millis(300)), (4, millis(700))]);
}

#[tokio::test(start_paused = true)]
async fn a_longest_wait_of_zero_tries_once() {
    for queue in [Queue::new(10).max_wait(Duration::ZERO), Queue::new(0)] {
        let pacer = ten_a_second(queue);
        assert!(pacer.turn(1).await.is_ok());
        assert_eq!(wait_of(pacer.turn(1).await), Wait::For(TENTH));
        sleep(TENTH).await;
        assert!(pacer.turn(1).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake_those_who_wait() {
    let pacer = ten_a_second(Queue::new(10).at_once(2));
    pacer.turn_n(1, 2).await.unwrap();
    let start = Instant::now();
    let large = pacer.turn_n(1, 2);
    let large = tokio::spawn(async move {
        large.await.unwrap();
        start.elapsed()
    });
    sleep(millis(150)).await;
    // One unit is there now, and would do for this one.
    let small = pacer.turn(1).await.unwrap();
    assert_eq!(small.waited().map(|waited| waited.ahead()), Some(1));
    assert_eq!(
        small.waited().map(|waited| waited.time()),
        Some(millis(150))
    );
    assert_eq!(large.await.unwrap(), millis(200));
    assert_eq!(start.elapsed(), millis(300));
}

#[tokio::test(start_paused = true)]
async fn a_place_given_up_goes_to_the_next_and_what_costs_nothing_never_waits() {
    let pacer = ten_a_second(Queue::new(1));
    pacer.turn(1).await.unwrap();
    let first = tokio::spawn(pacer.turn(1));
    tokio::task::yield_now().await;
    assert!(matches!(wait_of(pacer.turn(1).await), Wait::For(_)));
    assert!(pacer.turn_n(1, 0).await.unwrap().waited().is_none());
    first.abort();
    let _ = first.await;
    assert_eq!(pacer.waiting(), 0);
    // The place is free again, and the unit that the first did not take is not lost.
    let start = Instant::now();
    assert!(pacer.turn(1).await.is_ok());
    assert_eq!(start.elapsed(), TENTH);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_of_whom_300_leave_keep_order_and_rate_and_leave_nothing_behind() {
    for seed in 0..5_u64 {
        let memory = Memory::builder()
            .clock(Clock::new(TokioClock::new()))
            .build();
        let seen = Arc::new(Seen::default());
        let queue = Queue::new(2_000).max_wait(Duration::MAX);
        let pacer = Pacer::on(memory, leaky(100), queue)
            .unwrap()
            .with_observer(Arc::clone(&seen));
        let start = Instant::now();
        let left = Arc::new(Mutex::new(Vec::new()));
        pacer.turn(1).await.unwrap();
        let mut random = fastrand(seed);
        let mut tasks = Vec::new();
        for number in 0..1_000_u64 {
            let (turn, left) = (pacer.turn(1), Arc::clone(&left));
            tasks.push(tokio::spawn(async move {
                turn.await.unwrap();
                left.lock().unwrap().push((number, start.elapsed()));
            }));
        }
        while pacer.waiting() < 1_000 {
            tokio::task::yield_now().await;
        }
        let mut cancelled = 0;
        while cancelled < 300 {
            // At random moments, mostly between turns and sometimes right at one.
            advance(millis(random() % 13)).await;
            let victim = &tasks[usize::try_from(random() % 1_000).unwrap()];
            let was_waiting = !victim.is_finished();
            victim.abort();
            // Those whose time has come leave one after the other.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            cancelled += usize::from(was_waiting);
        }
        for task in tasks {
            let _ = task.await;
        }
        let left = left.lock().unwrap().clone();
        assert!(
            left.is_sorted_by_key(|(number, _)| *number),
            "in order of arrival"
        );
        for (index, (_, at)) in left.iter().enumerate() {
            let due = millis(10) * u32::try_from(index + 1).unwrap();
            // Jumping the clock by up to 12 ms makes timers late by as much, and never adds up.
            assert!(
                *at >= due && *at <= due + millis(13),
                "{index} left at {at:?}, seed {seed}"
            );
        }
        assert_eq!(pacer.waiting(), 0);
        assert_eq!(seen.queued.load(Ordering::Relaxed), 1_000);
        assert_eq!(seen.admitted.load(Ordering::Relaxed), left.len());
        assert_eq!(seen.left.load(Ordering::Relaxed), 1_000 - left.len());
        // Nobody who left was charged: the next waits for the one before it and for no one else.
        let last = left.last().unwrap().1;
        pacer.turn(1).await.unwrap();
        assert!(start.elapsed() <= last + millis(11));
    }
}

/// Counts what an observer is told.
#[derive(Default)]
struct Seen {
    queued: AtomicUsize,
    admitted: AtomicUsize,
    refused: AtomicUsize,
    left: AtomicUsize,
    waited: Mutex<Duration>,
}

impl Observer for Seen {
    fn queued(&self, limit: &Limit, _ahead: usize) {
        assert_eq!(limit.name(), "even");
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    fn waited(&self, _limit: &Limit, time: Duration, end: WaitEnd) {
        let count = match end {
            WaitEnd::Admitted => &self.admitted,
            WaitEnd::Refused => &self.refused,
            _ => &self.left,
        };
        count.fetch_add(1, Ordering::Relaxed);
        *self.waited.lock().unwrap() += time;
    }
}

fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_on_one_key_does_not_delay_a_thousand_others() {
    let pacer = ten_a_second(Queue::new(100).max_wait(Duration::from_secs(10)));
    let start = Instant::now();
    let flooding = pacer.clone();
    let flood = tokio::spawn(async move {
        let mut waiting = JoinSet::new();
        for _ in 0..300 {
            waiting.spawn(flooding.turn(u64::MAX));
            sleep(millis(10)).await;
        }
        while waiting.join_next().await.is_some() {}
    });
    for key in 0..1_000_u64 {
        sleep(millis(3)).await;
        let before = Instant::now();
        assert!(pacer.turn(key).await.unwrap().waited().is_none());
        assert_eq!(before.elapsed(), Duration::ZERO, "key {key}");
    }
    assert!(pacer.waiting() > 90, "the flood is waiting all the while");
    flood.await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(12));
    assert_eq!(pacer.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_timer_costs_no_capacity() {
    let pacer = ten_a_second(Queue::new(100));
    let start = Instant::now();
    let mut turns = JoinSet::new();
    for number in 0..20 {
        send(&mut turns, &pacer, 1, number, start);
    }
    tokio::task::yield_now().await;
    // The whole process stands still for a while.
    advance(millis(950)).await;
    let left: Vec<_> = leave(turns).await.into_iter().map(|(_, at)| at).collect();
    assert_eq!(left[..2], [millis(0), millis(950)]);
    assert_eq!(left[9], millis(950), "nine were due");
    assert_eq!(left[10..13], [1_000, 1_100, 1_200].map(millis));
}

#[tokio::test(start_paused = true)]
async fn who_was_promised_a_turn_in_time_has_it_even_late() {
    let pacer = ten_a_second(Queue::new(100).max_wait(millis(300)));
    let start = Instant::now();
    let mut turns = JoinSet::new();
    for number in 0..4 {
        send(&mut turns, &pacer, 1, number, start);
    }
    tokio::task::yield_now().await;
    advance(millis(800)).await;
    assert_eq!(leave(turns).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_halt_of_minutes_does_not_let_everyone_out_together() {
    let pacer = ten_a_second(Queue::new(1_000).max_wait(Duration::MAX));
    let start = Instant::now();
    let mut turns = JoinSet::new();
    for number in 0..500 {
        send(&mut turns, &pacer, 1, number, start);
    }
    tokio::task::yield_now().await;
    advance(Duration::from_secs(30)).await;
    let left = leave(turns).await;
    let together = left
        .iter()
        .filter(|(_, at)| *at == Duration::from_secs(30))
        .count();
    assert!(
        (10..=12).contains(&together),
        "{together} left after the halt"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_release_or_refusal_and_can_begin_again() {
    let seen = Arc::new(Seen::default());
    let pacer = ten_a_second(Queue::new(100)).with_observer(Arc::clone(&seen));
    let start = Instant::now();
    let spawn = |count: usize| {
        let mut turns = JoinSet::new();
        (0..count).for_each(|number| send(&mut turns, &pacer, 1, number, start));
        turns
    };
    let turns = spawn(6);
    tokio::task::yield_now().await;
    pacer.set_waiters(Waiters::Release);
    assert_eq!(leave(turns).await.len(), 6);
    assert!(pacer.turn(1).await.is_ok(), "who comes is let go as well");
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(seen.admitted.load(Ordering::Relaxed), 5);

    pacer.set_waiters(Waiters::Hold);
    let turns = spawn(6);
    tokio::task::yield_now().await;
    assert_eq!(pacer.waiting(), 6);
    pacer.set_waiters(Waiters::Refuse);
    assert_eq!(leave(turns).await.len(), 0);
    assert_eq!(wait_of(pacer.turn(1).await), Wait::For(TENTH));
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(seen.refused.load(Ordering::Relaxed), 6);
    assert_eq!(pacer.waiting(), 0);

    sleep(TENTH).await;
    assert!(
        pacer.turn(1).await.is_ok(),
        "who need not wait is not refused"
    );
    pacer.set_waiters(Waiters::Hold);
    assert!(pacer.turn(1).await.unwrap().waited().is_some());
}

#[tokio::test(start_paused = true)]
async fn others_who_spend_the_same_units_make_waiters_wait_longer_in_order() {
    let memory = Memory::builder()
        .clock(Clock::new(TokioClock::new()))
        .build();
    let limit = leaky(10);
    let pacer = Pacer::on(memory.clone(), limit, Queue::new(10)).unwrap();
    pacer.turn(1).await.unwrap();
    let start = Instant::now();
    let mut turns = JoinSet::new();
    (0..3).for_each(|number| send(&mut turns, &pacer, 1, number, start));
    tokio::task::yield_now().await;
    // Somebody without patience happens to ask the store at the right moment.
    advance(TENTH).await;
    let stolen = Claim::new(pacer.limit(), 1);
    let _ = memory.acquire(&Claims::one(&stolen));
    let left = leave(turns).await;
    assert_eq!(left.last().unwrap().0, 2);
    assert!(left.last().unwrap().1 >= millis(300));
    assert!(left.last().unwrap().1 <= millis(401), "{left:?}");
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_once_for_its_place_and_once_for_its_moment() {
    let pacer = ten_a_second(Queue::new(100));
    let mut turns: Vec<_> = (0..20)
        .map(|_| {
            (
                Box::pin(pacer.turn(1)),
                Arc::new(Count(AtomicUsize::new(0))),
                0,
            )
        })
        .collect();
    let mut polls = 0;
    let mut left = 0;
    for (turn, count, _) in &mut turns {
        let waker = Waker::from(Arc::clone(count));
        left += usize::from(
            turn.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready(),
        );
    }
    while left < 20 {
        sleep(millis(1)).await;
        for (turn, count, seen) in &mut turns {
            let woken = count.0.load(Ordering::Relaxed);
            if woken > *seen {
                *seen = woken;
                polls += 1;
                let waker = Waker::from(Arc::clone(count));
                left += usize::from(
                    turn.as_mut()
                        .poll(&mut Context::from_waker(&waker))
                        .is_ready(),
                );
            }
        }
    }
    // No polling: the first once, each other once on becoming first and once when its time has come.
    assert_eq!(polls, 1 + 2 * 18);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_one_key_does_not_delay_another_key_or_a_timeout_of_its_own() {
    let pacer = Pacer::new(leaky(1), Queue::new(10)).unwrap();
    pacer.turn("a").await.unwrap();
    let mut waiting = pin!(pacer.turn("a"));
    assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
    let start = Instant::now();
    assert!(pacer.turn("b").await.is_ok());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(timeout(millis(1_001), waiting).await.unwrap().is_ok());
}

#[test]
fn neither_error_nor_debug_shows_a_key() {
    let pacer = ten_a_second(Queue::new(0));
    let waker = Waker::noop();
    let poll = || {
        let mut turn = pin!(pacer.turn("secret"));
        assert!(!format!("{turn:?} {pacer:?}").contains("secret"));
        turn.as_mut().poll(&mut Context::from_waker(waker))
    };
    assert!(matches!(poll(), Poll::Ready(Ok(_))));
    let Poll::Ready(Err(error)) = poll() else {
        panic!("refused")
    };
    assert!(
        error.to_string().starts_with("the turn would come in "),
        "{error}"
    );
}
