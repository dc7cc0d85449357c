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
            let (mut sent, mut refused) = (0, 0);
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
    sleep((WARM_UP + MEASURED).saturating_sub(start.elapsed())).await;
    let after = resident();
    assert!(layer.handle().waiting() >= PLACES - 10, "always full");
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
    let p99 = waits[waits.len() * 99 / 100];
    // Whoever takes the last place has all the others before it.
    let theory = Duration::from_secs(PLACES as u64) / u32::try_from(RATE).unwrap();
    println!(
        "{sent} sent, {refused} refused, {} out in {MEASURED:?} at {RATE}/s; waits: p50 {:?}, p99 {p99:?}, longest {:?}, \
         in theory {theory:?}; {before:?} KiB before, {after:?} after",
        out.len(),
        waits[waits.len() / 2],
        waits[waits.len() - 1],
    );
    let load = u64::try_from(sent).unwrap() / (WARM_UP + MEASURED).as_secs();
    assert!(load >= 9 * RATE, "only {load} a second were sent");
    assert!(
        (out.len() as u64).abs_diff(exact) * 50 <= exact,
        "{} left",
        out.len()
    );
    assert!(p99 <= theory + Duration::from_millis(100), "{p99:?}");
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after <= before + 6_144, "{before} KiB grew to {after}");
    }
}
