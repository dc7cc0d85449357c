//! A queue behind a real socket, in real time, asked for ten times what it lets out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use http::StatusCode;
use ratekeeper_tests::Server;
use tokio::time::{Instant, sleep};
use tower_ratekeeper::key::Global;
use tower_ratekeeper::queue::Queue;
use tower_ratekeeper::{Quota, RateLimitInfo, RateLimitLayer, Rule};

const RATE: u64 = 200;
const PLACES: usize = 100;
const CLIENTS: usize = 200;
/// Until the queue is full and everything has its size.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);

/// When requests reached the service, and how long they had waited.
type Seen = Arc<Mutex<Vec<(Duration, Duration)>>>;

/// The memory of this process that is in use, in KiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test]
#[ignore = "slow: twelve seconds of real time"]
async fn the_outflow_is_the_rate_for_ten_seconds_of_ten_times_the_load() {
    for _ in 0..5 {
        match measure().await {
            // A process that is halted moves requests across the edges of the ten seconds, or has
            // nobody in the queue whose turn it was: such a run says nothing of the queue.
            (halt, Err(_)) if halt > Duration::from_millis(50) => {}
            (_, result) => return result.unwrap(),
        }
    }
    skipped();
}

#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn skipped() {
    println!("skipped: this machine halts the process too often for a test in real time");
}

/// Tells for how long the process was halted at most, until it is aborted.
async fn watch(longest: Arc<Mutex<Duration>>) {
    let tick = Duration::from_millis(5);
    loop {
        let before = Instant::now();
        sleep(tick).await;
        let mut longest = longest.lock().unwrap();
        *longest = (*longest).max(before.elapsed().saturating_sub(tick));
    }
}

/// Floods a server, and tells for how long it was halted, and what was wrong with what left it.
async fn measure() -> (Duration, Result<(), String>) {
    let rule = Rule::leaky_bucket("out", Quota::per_second(RATE)).by(Global);
    let layer = RateLimitLayer::builder()
        .rule(rule.queue(Queue::new(PLACES).max_wait(Duration::from_secs(1))))
        .expose_decision()
        .build()
        .unwrap();
    let start = Instant::now();
    // Room from the beginning, so that the test itself does not grow.
    let seen: Seen = Arc::new(Mutex::new(Vec::with_capacity(1 << 13)));
    let handler = {
        let seen = Arc::clone(&seen);
        async move |Extension(info): Extension<RateLimitInfo>| {
            let waited = info.waited().map_or(Duration::ZERO, |waited| waited.time());
            seen.lock().unwrap().push((start.elapsed(), waited));
            "out\n"
        }
    };
    let app = Router::new().route("/", get(handler)).layer(layer.clone());
    let server = Server::axum(app).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move {
            let (mut sent, mut refused) = (0_u64, 0_u64);
            while start.elapsed() < WARM_UP + MEASURED {
                sent += 1;
                let reply = client.send("GET", "/").await;
                if reply.status == StatusCode::TOO_MANY_REQUESTS {
                    refused += 1;
                    // Half of the clients wait, so the others make up the load.
                    sleep(Duration::from_millis(45)).await;
                }
            }
            (sent, refused)
        }));
    }
    sleep(WARM_UP.saturating_sub(start.elapsed())).await;
    let before = resident();
    let longest = Arc::default();
    let watching = tokio::spawn(watch(Arc::clone(&longest)));
    sleep((WARM_UP + MEASURED).saturating_sub(start.elapsed())).await;
    let after = resident();
    watching.abort();
    let halt = *longest.lock().unwrap();
    let (mut sent, mut refused) = (0, 0);
    for client in clients {
        let (own, own_refused) = client.await.unwrap();
        sent += own;
        refused += own_refused;
    }

    let seen = seen.lock().unwrap();
    let measured = |at: &Duration| (WARM_UP..WARM_UP + MEASURED).contains(at);
    let out: Vec<_> = seen.iter().filter(|(at, _)| measured(at)).collect();
    let exact = RATE * MEASURED.as_secs();
    let mut waits: Vec<_> = out.iter().map(|(_, waited)| *waited).collect();
    waits.sort_unstable();
    let (p50, p99) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    // Whoever takes the last place has all the others before it.
    let theory = Duration::from_secs(PLACES as u64) / u32::try_from(RATE).unwrap();
    #[expect(
        clippy::print_stdout,
        reason = "what was measured is of interest, whatever it is"
    )]
    {
        println!(
            "{sent} sent, {refused} refused, {} out in {MEASURED:?} at {RATE}/s; waits: p50 {p50:?}, p99 {p99:?}, longest {:?}, \
         in theory {theory:?}; halted for {halt:?}; {before:?} KiB before, {after:?} after",
            out.len(),
            waits[waits.len() - 1],
        );
    }
    let load = sent / (WARM_UP + MEASURED).as_secs();
    let grown = before
        .zip(after)
        .map_or(0, |(before, after)| after.saturating_sub(before));
    let checks = [
        (load >= 9 * RATE, format!("only {load} a second were sent")),
        (
            (out.len() as u64).abs_diff(exact) * 50 <= exact,
            format!("{} left", out.len()),
        ),
        // The longest waits are those of moments at which the machine had other things to do.
        (
            p50 <= theory + Duration::from_millis(25),
            format!("{p50:?} is not {theory:?}"),
        ),
        (grown <= 6_144, format!("the memory grew by {grown} KiB")),
    ];
    let failed = checks.into_iter().find(|(holds, _)| !holds);
    (halt, failed.map_or(Ok(()), |(_, what)| Err(what)))
}
