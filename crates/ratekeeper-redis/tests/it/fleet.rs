//! Several processes with one budget.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::{Algorithm, Claim, Claims, Limit};
use ratekeeper_redis::{KeyNames, Redis};

use crate::support::{RUNTIME, SECRET, Server, ask, new_namespace};

const URL: &str = "RATEKEEPER_TEST_URL";
const NAMESPACE: &str = "RATEKEEPER_TEST_NAMESPACE";

const CAPACITY: u64 = 1_000;
const TASKS: usize = 64;

fn limits() -> Vec<Limit> {
    [
        "leaky-bucket",
        "token-bucket",
        "fixed-window",
        "sliding-log",
        "sliding-counter",
    ]
    .iter()
    .map(|name| {
        let algorithm: Algorithm = name.parse().unwrap();
        let quota = format!("{CAPACITY}/day").parse().unwrap();
        Limit::new(name, algorithm, quota).unwrap()
    })
    .collect()
}

/// Asks for one key from many tasks until each has been refused, and returns what was admitted.
async fn spend(redis: &Redis, limit: &Limit) -> u64 {
    let admitted = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (redis, limit, admitted) = (redis.clone(), limit.clone(), Arc::clone(&admitted));
            tokio::spawn(async move {
                let claim = Claim::new(&limit, "everybody");
                while ask(&redis, &Claims::one(&claim))
                    .await
                    .unwrap()
                    .decision
                    .is_allowed()
                {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    admitted.load(Ordering::Relaxed)
}

#[test]
fn two_processes_of_64_tasks_admit_exactly_the_capacity() {
    let Some(server) = Server::shared() else {
        return;
    };
    let namespace = new_namespace();
    let process = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fleet::one_process", "--ignored", "--nocapture"])
            .env(URL, server.url())
            .env(NAMESPACE, &namespace)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let processes = [process(), process()];
    let mut totals = vec![0; limits().len()];
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let counts: Vec<u64> = text
            .lines()
            .filter_map(|line| line.strip_prefix("admitted "))
            .map(|count| count.parse().unwrap())
            .collect();
        assert_eq!(counts.len(), totals.len(), "{text}");
        totals
            .iter_mut()
            .zip(counts)
            .for_each(|(total, count)| *total += count);
    }
    assert_eq!(totals, vec![CAPACITY; totals.len()]);
}

#[test]
#[ignore = "one of the two processes of the test above, which starts it"]
fn one_process() {
    let (Ok(url), Ok(namespace)) = (std::env::var(URL), std::env::var(NAMESPACE)) else {
        return;
    };
    let names = KeyNames::secret(SECRET).unwrap();
    RUNTIME.block_on(async {
        let redis = Redis::builder(&url, &namespace, names).build().unwrap();
        for limit in limits() {
            let admitted = spend(&redis, &limit).await;
            println!("admitted {admitted}");
        }
    });
}

#[test]
fn limits_that_are_charged_together_stay_together_across_nodes() {
    let Some(server) = Server::shared() else {
        return;
    };
    let namespace = new_namespace();
    let limits = limits();
    let small = Limit::token_bucket("small", "100/day".parse().unwrap()).unwrap();
    RUNTIME.block_on(async {
        let nodes: Vec<Redis> = (0..2)
            .map(|_| server.builder_in(&namespace).build().unwrap())
            .collect();
        let mut tasks = Vec::new();
        for node in nodes.iter().cycle().take(TASKS) {
            let (node, limits, small) = (node.clone(), limits.clone(), small.clone());
            tasks.push(tokio::spawn(async move {
                let mut claims: Vec<_> =
                    limits.iter().map(|limit| Claim::new(limit, "k")).collect();
                claims.push(Claim::new(&small, "k"));
                let claims = Claims::new(&claims).unwrap();
                let mut admitted = 0;
                while ask(&node, &claims).await.unwrap().decision.is_allowed() {
                    admitted += 1;
                }
                admitted
            }));
        }
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert_eq!(admitted, 100);
        for limit in &limits {
            let claim = Claim::new(limit, "k");
            let answer = ask(&nodes[0], &Claims::one(&claim).peek()).await.unwrap();
            assert_eq!(
                answer.decision.outcomes()[0].remaining(),
                CAPACITY - 100,
                "{limit}"
            );
        }
    });
}
