//! The replay against a count that is obvious and slow: it keeps all requests, sorts them, and
//! remembers of each key every moment at which a request was admitted.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use ratekeeper::replay::{Range, Settings};

use crate::support::{findings, line, rules};

const SECOND: i128 = 1_000_000_000;

/// A limit told by the moments at which its key was admitted, the last of them the newest.
type Admits = fn(&[i128], i128) -> bool;

/// A token bucket of 1/2s burst 3, by replaying its whole history for every request.
fn token_bucket(admitted: &[i128], now: i128) -> bool {
    let (period, burst) = (2 * SECOND, 3);
    let mut tokens = burst * period;
    let mut last = now;
    for at in admitted {
        tokens = (tokens + (at - last).max(0)).min(burst * period) - period;
        last = *at;
    }
    tokens = (tokens + now - last).min(burst * period);
    tokens >= period
}

/// A sliding log of 3/5s.
fn sliding_log(admitted: &[i128], now: i128) -> bool {
    admitted.iter().filter(|at| **at > now - 5 * SECOND).count() < 3
}

/// A fixed window of 3/5s from a key's first request.
fn fixed_window(admitted: &[i128], now: i128) -> bool {
    let mut start = now;
    let mut count = 0;
    for at in admitted {
        if count == 0 || *at >= start + 5 * SECOND {
            (start, count) = (*at, 0);
        }
        count += 1;
    }
    now >= start + 5 * SECOND || count < 3
}

const LIMITS: [(&str, Admits); 3] = [
    ("a: token-bucket 1/2s burst 3 by ip", token_bucket),
    ("a: sliding-log 3/5s by ip", sliding_log),
    ("a: fixed-window 3/5s by ip", fixed_window),
];

/// Decides requests in their order; returns per client how many were refused.
fn count(requests: &[(i128, String)], admits: Admits) -> BTreeMap<String, u64> {
    let mut histories: BTreeMap<&str, Vec<i128>> = BTreeMap::new();
    let mut refused = BTreeMap::new();
    for (time, client) in requests {
        let history = histories.entry(client).or_default();
        if admits(history, *time) {
            history.push(*time);
        } else {
            *refused.entry(client.clone()).or_default() += 1;
        }
    }
    refused
}

/// Gives each client's requests of one second even distances.
fn spread(requests: &[(i128, String)]) -> Vec<(i128, String)> {
    let of_same = |index: usize, upto: usize| {
        requests[..upto]
            .iter()
            .filter(|request| **request == requests[index])
            .count() as i128
    };
    let placed = requests.iter().enumerate().map(|(index, (time, client))| {
        (
            time + SECOND * of_same(index, index) / of_same(index, requests.len()),
            client.clone(),
        )
    });
    let mut placed: Vec<_> = placed.collect();
    placed.sort_by_key(|(time, _)| *time);
    placed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn counts_equal_an_independent_slow_count_also_out_of_order(
        entries in prop::collection::vec((0u64..90, 0usize..5, 0u8..20), 1..150),
        skew in 0u64..40,
        sorted: bool,
        limit in 0..LIMITS.len(),
    ) {
        const CLIENTS: [&str; 5] = ["192.0.2.1", "192.0.2.2:99", "2001:db8::1", "2001:db8::2", "host.example"];
        const KEYS: [&str; 5] = ["192.0.2.1", "192.0.2.2", "2001:db8::/64", "2001:db8::/64", "host.example"];
        let mut entries = entries;
        if sorted {
            entries.sort_by_key(|(second, ..)| *second);
        }
        let (mut log, mut requests, mut latest) = (String::new(), Vec::new(), None);
        let (mut late, mut unreadable) = (0, 0);
        for (second, client, kind) in entries {
            if kind == 0 {
                log.push_str("neither client nor time\n");
                unreadable += 1;
                continue;
            }
            log.push_str(&line(CLIENTS[client], second));
            if latest.is_some_and(|latest| second + skew < latest) {
                late += 1;
            } else {
                latest = latest.max(Some(second));
                requests.push((i128::from(second) * SECOND, KEYS[client].to_owned()));
            }
        }
        requests.sort_by_key(|(time, _)| *time);
        let (rule, admits) = LIMITS[limit];
        let refused = count(&requests, admits);
        let refused_spread = count(&spread(&requests), admits);

        let skew = i64::try_from(skew * 1_000_000_000).unwrap();
        let found = findings(log, &Settings { skew, top: 100, ..Settings::new(rules(&[rule])) });

        let range = |key: &str| Range {
            at_once: refused.get(key).copied().unwrap_or(0),
            spread: refused_spread.get(key).copied().unwrap_or(0),
        };
        prop_assert_eq!(found.late, late);
        prop_assert_eq!(found.unreadable, unreadable);
        prop_assert_eq!(found.total, requests.len() as u64 + late);
        prop_assert_eq!(found.clients, requests.iter().map(|(_, client)| client).collect::<BTreeSet<_>>().len() as u64);
        let all = Range { at_once: refused.values().sum(), spread: refused_spread.values().sum() };
        prop_assert_eq!(found.refused, all);
        prop_assert_eq!(found.rules[0].refused, all);
        let clients = Range { at_once: refused.len() as u64, spread: refused_spread.len() as u64 };
        prop_assert_eq!(found.clients_refused, clients);
        prop_assert_eq!(found.top.len(), refused.len());
        for key in &found.top {
            prop_assert_eq!(key.refused, range(&key.key), "{}", key.key);
        }
        let of_bins = |pick: fn(&ratekeeper::replay::Bin) -> u64| found.bins.iter().map(pick).sum::<u64>();
        prop_assert_eq!(of_bins(|bin| bin.offered), found.decided);
        prop_assert_eq!(of_bins(|bin| bin.refused.at_once), all.at_once);
        prop_assert_eq!(of_bins(|bin| bin.refused.spread), all.spread);
    }
}

#[test]
fn the_slow_token_bucket_is_the_textbooks() {
    let at = |seconds: &[i128]| {
        seconds
            .iter()
            .map(|second| second * SECOND)
            .collect::<Vec<_>>()
    };
    assert!(token_bucket(&[], 0));
    assert!(token_bucket(&at(&[0, 0]), 0));
    assert!(!token_bucket(&at(&[0, 0, 0]), SECOND));
    assert!(token_bucket(&at(&[0, 0, 0]), 2 * SECOND));
    assert!(!token_bucket(&at(&[0, 0, 0, 2]), 3 * SECOND));
}
