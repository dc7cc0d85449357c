//! Measures a check against a server on this machine: `scripts/bench redis [--quick] [--json]`.
//!
//! Ours, the same script called bare on a connection of the same kind, PING, and tower-rate-limiter's
//! GCRA, in turns within one process: the median of a call one at a time, and calls a second with 32
//! and 256 under way. All limits are wide enough to admit everything, over 1,000 keys.

mod server;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratekeeper_core::{Acquire, Claim, Claims, Limit, Quota, Store};
use ratekeeper_redis::{KeyNames, Redis};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};
use tower_rate_limiter::{GcraQuota, RateLimitPolicy, RedisGcra};

const KEYS: u64 = 1_000;
const UNITS: u64 = 100_000;

const SCRIPT: &str = concat!(
    include_str!("../../../crates/ratekeeper-redis/src/scripts/time.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/one_bucket.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/number.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/entry.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/bucket.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/fixed_window.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/calendar_window.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/sliding_counter.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/sliding_log.lua"),
    include_str!("../../../crates/ratekeeper-redis/src/scripts/main.lua"),
);

type Call = Arc<dyn Fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (quick, json) = (
        arguments.contains(&"--quick".into()),
        arguments.contains(&"--json".into()),
    );
    let server = server::Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let contestants = contestants(&server.url()).await;
        let rounds = if quick { 3 } else { 9 };
        let calls = if quick { 2_000 } else { 10_000 };
        let mut rows = vec![
            row(
                "redis/check/p50/1",
                "us",
                rounds,
                &contestants,
                async |call| p50(call, calls).await,
            )
            .await,
        ];
        for under_way in [32, 256] {
            let id = format!("redis/check/rate/{under_way}");
            let time = Duration::from_millis(if quick { 300 } else { 1_000 });
            rows.push(
                row(&id, "1/s", rounds, &contestants, async |call| {
                    rate(call, under_way, time).await
                })
                .await,
            );
        }
        if json {
            let rows: Vec<String> = rows.iter().map(Row::json).collect();
            println!(
                "{{\"machine\":{:?},\"rows\":[\n{}\n]}}",
                machine(),
                rows.join(",\n")
            );
        } else {
            rows.iter().for_each(Row::print);
        }
    });
}

/// A line of the results: the medians of one question's contestants.
struct Row {
    id: String,
    unit: &'static str,
    medians: Vec<(&'static str, f64)>,
}

impl Row {
    fn print(&self) {
        println!("{} ({})", self.id, self.unit);
        let ours = self.medians[0].1;
        for (name, median) in &self.medians {
            println!(
                "    {name:<20} {median:>12.1}  ours is {:.2} of it",
                ours / median
            );
        }
    }

    fn json(&self) -> String {
        let medians = self.medians.iter();
        let medians: Vec<String> = medians
            .map(|(name, median)| format!("{name:?}:{median:.3}"))
            .collect();
        format!(
            "{{\"id\":{:?},\"unit\":{:?},{}}}",
            self.id,
            self.unit,
            medians.join(",")
        )
    }
}

/// Measures all contestants in turn, several rounds.
async fn row(
    id: &str,
    unit: &'static str,
    rounds: usize,
    contestants: &[(&'static str, Call)],
    measure: impl AsyncFn(&Call) -> f64,
) -> Row {
    let mut figures = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for ((_, call), figures) in contestants.iter().zip(&mut figures) {
            figures.push(measure(call).await);
        }
    }
    let medians = contestants
        .iter()
        .zip(figures)
        .map(|((name, _), mut figures)| {
            figures.sort_by(f64::total_cmp);
            (*name, figures[figures.len() / 2])
        });
    Row {
        id: id.to_owned(),
        unit,
        medians: medians.collect(),
    }
}

async fn contestants(url: &str) -> Vec<(&'static str, Call)> {
    let names = KeyNames::secret("the secret of the benchmark").expect("a long secret");
    let store = Redis::builder(url, "bench", names)
        .build()
        .expect("a store");
    store.verify().await.expect("a server");
    let quota = Quota::per_second(UNITS).with_burst(UNITS);
    let limit = Limit::token_bucket("bench", quota).expect("a limit");
    let ours: Call = Arc::new(move |key| {
        let claim = Claim::new(&limit, key);
        let Acquire::Later(answer) = store.acquire(&Claims::one(&claim)) else {
            panic!("a server answers later")
        };
        Box::pin(async move {
            assert!(answer.await.expect("an answer").decision.is_allowed());
        })
    });

    let mut connection = connect(url).await;
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(SCRIPT);
    let digest: String = load.query_async(&mut connection).await.expect("a script");
    let bare: Call = {
        let connection = connection.clone();
        Arc::new(move |key| {
            let mut connection = connection.clone();
            let mut call = redis::cmd("EVALSHA");
            call.arg(&digest)
                .arg(1)
                .arg(format!("bench:rk1:{{bare}}:{key:032}"));
            // 100,000 a second: one in ten microseconds.
            call.arg("1")
                .arg(format!("b 10 1 {UNITS}"))
                .arg(1)
                .arg(10)
                .arg(1)
                .arg(UNITS);
            Box::pin(async move {
                let answer: Vec<i64> = call.query_async(&mut connection).await.expect("an answer");
                assert_eq!(answer[0], 1);
            })
        })
    };
    let ping: Call = {
        let connection = connection.clone();
        Arc::new(move |_| {
            let mut connection = connection.clone();
            Box::pin(async move {
                let _: String = redis::cmd("PING")
                    .query_async(&mut connection)
                    .await
                    .expect("a pong");
            })
        })
    };
    let burst = u32::try_from(UNITS).expect("a small number");
    let quota = GcraQuota::new(
        UNITS.try_into().expect("a small number"),
        Duration::from_secs(1),
        burst,
    );
    let peer = RedisGcra::new(connect(url).await, quota.expect("a quota")).with_namespace("peer");
    let peer: Call = Arc::new(move |key| {
        let answer = peer.check(format!("{key:032}"));
        Box::pin(async move {
            answer.await.expect("an answer");
        })
    });
    vec![
        ("ours", ours),
        ("bare", bare),
        ("ping", ping),
        ("tower-rate-limiter", peer),
    ]
}

/// A connection with the settings that ours has.
async fn connect(url: &str) -> MultiplexedConnection {
    let info = url.into_connection_info().expect("an address");
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(1_024);
    let client = Client::open(info).expect("a client");
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.expect("a connection")
}

/// Returns the median of so many calls, one after another, in microseconds.
async fn p50(call: &Call, calls: usize) -> f64 {
    let call = Arc::clone(call);
    let task = tokio::spawn(async move {
        let mut times = Vec::with_capacity(calls);
        for key in (0..KEYS).cycle().take(calls) {
            let start = Instant::now();
            call(key).await;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        times[calls / 2].as_secs_f64() * 1e6
    });
    task.await.expect("no call failed")
}

/// Returns the calls a second with so many under way.
async fn rate(call: &Call, under_way: u64, time: Duration) -> f64 {
    let (done, stop) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let start = Instant::now();
    let tasks: Vec<_> = (0..under_way)
        .map(|task| {
            let (call, done, stop) = (Arc::clone(call), Arc::clone(&done), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut key = task * 7;
                while !stop.load(Ordering::Relaxed) {
                    call(key % KEYS).await;
                    key += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no call failed");
    }
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// The processors' class and number: nothing that names a host.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line
        .and_then(|line| line.split(':').nth(1))
        .unwrap_or(std::env::consts::ARCH);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!(
        "{cores} virtual cores, {}, server and callers on the same",
        model.trim()
    )
}
