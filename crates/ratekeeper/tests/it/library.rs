//! Decisions equal the library's own on the same trace, with the keys that a server would use.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use ratekeeper::replay::Settings;
use ratekeeper_core::{Acquire, Claim, Claims, Key, Limiter, ManualClock, Memory, Nanos, Store};

use crate::support::{data, findings, rules};

/// 2025-10-10T00:00:00Z.
const START: u64 = 1_760_054_400;

fn memory() -> (Memory, ManualClock) {
    let clock = ManualClock::new();
    (Memory::builder().clock(clock.clone()).build(), clock)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_replay_decides_as_a_limiter_does(
        requests in prop::collection::vec((0u64..30_000, 0u8..4, prop::sample::select(vec!["/a", "/b"])), 1..200),
        algorithm in prop::sample::select(vec![
            "token-bucket 2/s burst 3", "leaky-bucket 3/2s", "fixed-window 5/3s", "calendar-window 20/min", "sliding-log 4/3s",
            "sliding-counter 4/3s",
        ]),
    ) {
        let mut requests = requests;
        requests.sort_by_key(|(milli, ..)| *milli);
        let second = format!("second: {algorithm} by ip");
        let minute = "path: token-bucket 12/min burst 6 by path on GET /a";
        let all = rules(&[&second, minute]);

        let (memory, clock) = memory();
        let mut refused: BTreeMap<String, u64> = BTreeMap::new();
        let mut log = String::new();
        for (milli, client, path) in &requests {
            log.push_str(&format!(
                "{{\"ts\":{}.{:03},\"remote_addr\":\"192.0.2.{client}\",\"method\":\"GET\",\"uri\":\"{path}\"}}\n",
                START + milli / 1_000,
                milli % 1_000
            ));
            clock.advance_to(Nanos::new((milli - requests[0].0) * 1_000_000));
            clock.set_unix(Duration::from_millis(START * 1_000 + milli));
            let address: IpAddr = [192, 0, 2, *client].into();
            let mut claims = vec![Claim::new(&all[0].limit, address)];
            if *path == "/a" {
                claims.push(Claim::new(&all[1].limit, "/a"));
            }
            let Acquire::Now(Ok(answer)) = memory.acquire(&Claims::new(&claims).unwrap()) else { panic!("memory knows") };
            for (outcome, key) in answer.decision.outcomes().iter().zip([address.to_string(), "/a".to_owned()]) {
                *refused.entry(key).or_default() += u64::from(!outcome.is_allowed());
            }
            *refused.entry("all".to_owned()).or_default() += u64::from(!answer.decision.is_allowed());
        }
        let found = findings(log, &Settings { top: 100, ..Settings::new(all) });
        prop_assert_eq!(found.exact, requests.len() as u64);
        prop_assert_eq!(found.refused.at_once, refused["all"]);
        prop_assert_eq!(found.refused.spread, refused["all"], "exact times are not spread");
        for (key, count) in refused.into_iter().filter(|(key, count)| key != "all" && *count > 0) {
            let found = found.top.iter().find(|found| found.key == key);
            prop_assert_eq!(found.map(|found| found.refused.at_once), Some(count), "{}", key);
        }
    }
}

#[test]
fn the_longest_wait_is_the_one_that_the_limiter_tells() {
    let rule = rules(&["ip: token-bucket 2/min burst 2 by ip"]);
    let (memory, clock) = memory();
    let limiter = Limiter::on(&memory, rule[0].limit.clone()).unwrap();
    let mut longest = Duration::ZERO;
    for second in [0u64, 0, 0, 7, 20, 31] {
        clock.advance_to(Nanos::new(second * 1_000_000_000));
        if let ratekeeper_core::Wait::For(wait) = limiter.check(Key::from("client")).wait() {
            longest = longest.max(wait);
        }
    }
    let log: String = [0u64, 0, 0, 7, 20, 31]
        .iter()
        .map(|second| crate::support::line("192.0.2.1", *second))
        .collect();
    let found = findings(log, &Settings::new(rule));
    assert_eq!(u128::from(found.rules[0].longest_wait), longest.as_nanos());
    assert_eq!(found.refused.at_once, 3);
}

#[test]
fn a_request_costs_what_its_rule_says_and_a_shadowed_rule_refuses_nothing() {
    let log: String = [0u64, 0, 1]
        .iter()
        .map(|second| crate::support::line("192.0.2.1", *second))
        .collect();
    let texts = [
        "dear: fixed-window 5/min by ip cost 3",
        "dark: fixed-window 1/min by ip shadow",
    ];
    let found = findings(log.clone(), &Settings::new(rules(&texts)));
    assert_eq!(
        (found.refused.at_once, found.rules[0].refused.at_once),
        (2, 2)
    );
    let found = findings(log, &Settings::new(rules(&texts[1..])));
    assert_eq!(
        (found.refused.at_once, found.rules[0].refused.at_once),
        (0, 2)
    );
    assert_eq!(
        (
            found.clients_refused.at_once,
            found.rules[0].keys_refused.at_once
        ),
        (0, 1)
    );
}

#[test]
fn more_rules_than_a_request_can_carry_are_an_error_and_not_a_wrong_count() {
    let texts: Vec<String> = (0..9)
        .map(|index| format!("r{index}: token-bucket 1/s by ip"))
        .collect();
    let rules = rules(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let log = std::fs::read(data("common.log")).unwrap();
    let logs = vec![("log".to_owned(), crate::support::lines(log))];
    let error = ratekeeper::replay::replay(logs, &Settings::new(rules), || ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "9 rules apply to one request, at most 8 can"
    );
}
