//! Requests that wait for their turn instead of being refused: reports leave one by one at `QUOTA`,
//! three may wait for each client, and the rest is refused with the wait it would have had.
//!
//! Queue what has to be done anyway and comes in bursts, in front of something that breaks under
//! bursts. Refuse who can come again: a queue never cures overload that lasts.
//!
//! ```text
//! cargo run --example shaping
//! for i in $(seq 6); do curl -si localhost:3000/report | grep -iE '^HTTP|server-timing|retry' & done
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use ratekeeper_examples as example;
use tower_ratekeeper::queue::{Queue, Waiters};
use tower_ratekeeper::{Quota, RateLimitLayer, Rule};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let quota: Quota = example::setting("QUOTA", "5/s").parse()?;
    let queue = Queue::new(3).max_wait(Duration::from_secs(5));
    let layer = RateLimitLayer::new([Rule::leaky_bucket("reports", quota).queue(queue)])?;
    let handle = layer.handle();
    let app = Router::new().route("/report", get(async || "a report\n")).layer(layer);
    if !example::is_check() {
        return example::serve(app).await;
    }

    let start = Instant::now();
    let send = |client: u8| {
        let app = app.clone();
        tokio::spawn(async move {
            let reply = example::get(&app, [192, 0, 2, client], "/report", &[]).await;
            let reply = reply.map_err(|error| error.to_string())?;
            Ok::<_, String>((reply.status.as_u16(), start.elapsed(), reply.headers))
        })
    };
    let sent: Vec<_> = (0..6).map(|_| send(1)).collect();
    let (mut left, mut waited, mut refused) = (Vec::new(), 0, 0);
    for reply in sent {
        let (status, at, headers) = reply.await??;
        if status == 200 {
            waited += usize::from(headers.contains_key("server-timing"));
            left.push(at);
        } else {
            assert!(headers.contains_key("retry-after"));
            refused += 1;
        }
    }
    left.sort();
    let counts = (left.len(), waited, refused);
    assert_eq!(counts, (4, 3, 2), "one at once, three in turn");
    let turn = quota.period() / u32::try_from(quota.units())?;
    for (number, at) in (0..).zip(&left) {
        assert!(*at >= turn * number, "{left:?}");
    }

    // Before a service ends: nobody is kept waiting.
    let last: Vec<_> = (0..3).map(|_| send(2)).collect();
    while handle.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    handle.set_waiters(Waiters::Release);
    for reply in last {
        assert_eq!(reply.await??.0, 200);
    }
    Ok(())
}
