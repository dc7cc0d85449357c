//! Several claims of one request: all are charged or none is.

use proptest::{collection::vec, prelude::*, sample::select};
use ratekeeper_core::{Claim, Claims, Cost, Limit, Mode, Settle};

use super::{
    Harness,
    subject::{SECOND, Subject, algorithms, for_all, limit, verdict},
};
use crate::oracle::{Oracle, Verdict, Wait};

/// One claim of a random request: which limit, which key, the cost, and whether it is shadowed.
type Asked = (usize, usize, u64, bool);

const QUOTAS: [&str; 4] = ["3/min", "10/min", "10/h", "40/day"];
const KEYS: [&str; 2] = ["alice", "bob"];

/// Random requests with up to four claims, costs above one among them, are decided as by an oracle for each limit and key: all
/// enforced claims fit and every claim that fits is charged, or nothing is. The answers name each limit's own state.
pub fn several_claims_are_all_admitted_or_none_is_charged<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let algorithms = algorithms(new);
    if algorithms.is_empty() {
        return;
    }
    let asked = (
        0..algorithms.len() * QUOTAS.len(),
        0..KEYS.len(),
        0..=12_u64,
        prop::bool::weighted(0.2),
    );
    let gap = select(vec![
        0,
        0,
        0,
        1,
        SECOND / 10,
        SECOND,
        60 * SECOND - 1,
        60 * SECOND,
    ]);
    for_all::<H, _>(&vec((gap, vec(asked, 1..=4)), 1..=40), |requests| {
        let Some(mut subject) = Subject::new(new) else {
            return Ok(());
        };
        let limits: Vec<Limit> = algorithms
            .iter()
            .flat_map(|algorithm| {
                QUOTAS.map(|quota| limit(&format!("{algorithm} {quota}"), *algorithm, quota))
            })
            .collect();
        let mut oracles: Vec<[Box<dyn Oracle + Send>; KEYS.len()]> = limits
            .iter()
            .map(|limit| KEYS.map(|_| subject.oracle(limit)))
            .collect();
        for (gap, mut request) in requests {
            subject.advance_to(subject.now + gap);
            // Claims on one counter are another test's business: there the order counts.
            request.sort_unstable_by_key(|(limit, key, ..)| (*limit, *key));
            request.dedup_by_key(|(limit, key, ..)| (*limit, *key));
            let expected = decide(&mut oracles, &request, subject.now);
            let claims: Vec<Claim<'_>> =
                request.iter().map(|asked| claim(&limits, *asked)).collect();
            let decision = subject.decide(&claims);
            let found: Vec<Verdict> = decision.outcomes().iter().map(verdict).collect();
            prop_assert_eq!(found, expected.1, "at {}", subject.now);
            prop_assert_eq!(decision.is_allowed(), expected.0);
        }
        Ok(())
    });
}

fn claim(limits: &[Limit], (limit, key, cost, shadowed): Asked) -> Claim<'_> {
    let claim = Claim::new(&limits[limit], KEYS[key]).with_cost(cost);
    if shadowed { claim.shadowed() } else { claim }
}

fn decide(
    oracles: &mut [[Box<dyn Oracle + Send>; KEYS.len()]],
    request: &[Asked],
    now: u64,
) -> (bool, Vec<Verdict>) {
    let peek = |(limit, key, cost, _): Asked, oracles: &[[Box<dyn Oracle + Send>; KEYS.len()]]| {
        oracles[limit][key].peek(now, cost)
    };
    let admitted = request
        .iter()
        .all(|asked| asked.3 || peek(*asked, oracles).admitted);
    let verdicts = request.iter().map(|asked| {
        let (limit, key, cost, _) = *asked;
        if admitted {
            oracles[limit][key].check(now, cost)
        } else {
            peek(*asked, oracles)
        }
    });
    (admitted, verdicts.collect())
}

/// Two claims of one request on the same counter and key are admitted only if both fit together.
pub fn claims_on_one_counter_must_fit_together<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "10/min");
        let pair = |one, other| {
            let claim = |cost| Claim::new(&limit, "key").with_cost(cost);
            subject.decide(&[claim(one), claim(other)]).is_allowed()
        };
        assert!(!pair(6, 5), "{algorithm}");
        assert_eq!(subject.remaining(&limit, "key"), 10, "{algorithm}");
        assert!(pair(6, 4), "{algorithm}");
        assert_eq!(subject.remaining(&limit, "key"), 0, "{algorithm}");
    }
}

/// A shadowed claim is charged while it fits, says when it does not, and refuses nothing.
pub fn a_shadowed_claim_counts_and_has_no_say<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let enforced = limit(&format!("{algorithm} enforced"), algorithm, "10/min");
        let shadowed = limit(&format!("{algorithm} shadowed"), algorithm, "2/min");
        for admitted in 1..=10 {
            let decision = subject.decide(&[
                Claim::new(&shadowed, "key").shadowed(),
                Claim::new(&enforced, "key"),
            ]);
            assert!(
                decision.is_allowed() && decision.is_shadowed(0) && !decision.is_shadowed(1),
                "{algorithm}"
            );
            assert_eq!(
                decision.outcomes()[0].is_allowed(),
                admitted <= 2,
                "{algorithm}"
            );
            assert_eq!(
                decision.outcomes()[1].remaining(),
                10 - admitted,
                "{algorithm}"
            );
        }
        // What refuses the request charges no shadowed limit either.
        let other = Claim {
            mode: Mode::Shadowed,
            ..Claim::new(&shadowed, "other")
        };
        assert!(
            !subject
                .decide(&[other, Claim::new(&enforced, "key")])
                .is_allowed(),
            "{algorithm}"
        );
        assert_eq!(subject.remaining(&shadowed, "other"), 2, "{algorithm}");
    }
}

/// A request that no limit applies to is admitted.
pub fn no_claims_are_admitted<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    let answer = subject.acquire(&Claims::new(&[]).expect("none are not too many"));
    assert!(answer.decision.is_allowed());
    assert_eq!(
        (answer.decision.outcomes().len(), answer.receipts.len()),
        (0, 0)
    );
}

/// A cost that is known only later needs room for one unit, and takes none until it is settled.
pub fn a_deferred_cost_is_admitted_iff_one_unit_fits<H: Harness>(new: &dyn Fn() -> Option<H>) {
    let Some(subject) = Subject::new(new) else {
        return;
    };
    for algorithm in algorithms(new) {
        let limit = limit(algorithm.name(), algorithm, "5/min");
        let deferred = || Claim::new(&limit, "key").with_cost(Cost::Deferred);
        for _ in 0..3 {
            let receipt = subject.charge(deferred()).expect("one unit fits");
            assert_eq!(receipt.units, 0, "{algorithm}");
            assert_eq!(subject.remaining(&limit, "key"), 5, "{algorithm}");
            subject.settle(receipt, Settle::Commit);
        }
        assert!(subject.admits(&limit, "key", 5), "{algorithm}");
        assert!(subject.charge(deferred()).is_none(), "{algorithm}");
        let refused = verdict(&subject.decide(&[deferred()]).outcomes()[0]);
        assert_eq!(refused.wait, Wait::For(refused.next), "{algorithm}");
    }
}
