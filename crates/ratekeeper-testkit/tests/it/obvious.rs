//! A store of oracles, and the same store with one fault at a time: a suite that cannot fail proves nothing.

use std::{
    collections::HashMap,
    future::{Ready, ready},
    sync::{Mutex, MutexGuard},
    thread,
    time::Duration,
};

use ratekeeper_core::{
    Acquire, Algorithm, Answer, Claim, Claims, Decision, Key, Limit, LimitError, ManualClock, Mode,
    Outcome, Receipt, Settle, Standing, Store, StoreError, Wait,
};
use ratekeeper_testkit::{
    conformance::{Harness, oracle_for},
    oracle::{self, Charge, Oracle, Terms},
};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// A refused request is charged as well.
    ChargesRefusals,
    /// Of several claims those that fit are charged although another refuses.
    ChargesInPart,
    /// A peek is a request.
    ChargesPeeks,
    /// A cost of nothing is a cost of one.
    ChargesZero,
    /// A cost above the capacity is told to come back.
    WaitsForTheImpossible,
    /// Waits are rounded down to milliseconds.
    FloorsWaits,
    /// Waits are a step too long.
    WaitsOneStepMore,
    /// The question and the charge are two steps.
    ChecksThenActs,
    /// A refund adds the whole cost back, whatever has drained since.
    RefundsInFull,
    /// A refund goes to whichever window stands.
    RefundsAnyWindow,
    /// A debt has no bound.
    OwesWithoutBound,
    /// A key is kept for one period, even where a burst takes longer to come back.
    ForgetsAfterThePeriod,
    /// Keys are compared without their last byte.
    CutsKeys,
    /// Counters are found by their key alone.
    ForgetsTheCounter,
    /// A changed quota begins afresh.
    ForgetsOnChange,
    /// A shadowed limit refuses.
    EnforcesShadows,
    /// A deferred cost needs no room.
    DefersWithoutRoom,
}

struct Slot {
    limit: Limit,
    oracle: Box<dyn Oracle + Send>,
    touched: u64,
}

struct Obvious {
    clock: ManualClock,
    turn: Mutex<()>,
    slots: Mutex<HashMap<(String, Vec<u8>), Slot>>,
    fault: Fault,
}

impl Obvious {
    fn now(&self) -> u64 {
        self.clock.now().get()
    }

    fn name(&self, limit: &Limit, key: &Key) -> (String, Vec<u8>) {
        let mut bytes = key.as_bytes().to_vec();
        if self.fault == Fault::CutsKeys {
            bytes.pop();
        }
        let counter = if self.fault == Fault::ForgetsTheCounter {
            ""
        } else {
            limit.counter()
        };
        (counter.to_owned(), bytes)
    }

    fn slot<'s>(
        &self,
        slots: &'s mut HashMap<(String, Vec<u8>), Slot>,
        limit: &Limit,
        key: &Key,
    ) -> &'s mut Slot {
        let now = self.now();
        let fresh = || Slot {
            limit: limit.clone(),
            oracle: oracle_for(limit, Duration::from_nanos(1), Duration::ZERO),
            touched: now,
        };
        let slot = slots.entry(self.name(limit, key)).or_insert_with(fresh);
        let period = nanos(limit.quota().period());
        let forgotten = self.fault == Fault::ForgetsAfterThePeriod && now - slot.touched >= period;
        if slot.limit.algorithm() != limit.algorithm() || forgotten {
            *slot = fresh();
        } else if slot.limit != *limit {
            let quota = limit.quota();
            slot.oracle
                .change(now, Terms::new(quota.units(), period).burst(quota.burst()));
            slot.limit = limit.clone();
            if self.fault == Fault::ForgetsOnChange {
                *slot = fresh();
            }
        }
        slot.touched = now;
        slot
    }

    /// Returns how long each claim would have to wait, those before it on the same key included.
    fn waits(&self, claims: &[Claim<'_>]) -> Vec<Wait> {
        let mut slots = lock(&self.slots);
        let mut taken: HashMap<(String, Vec<u8>), u64> = HashMap::new();
        let mut waits = Vec::new();
        for claim in claims {
            let mut needed = claim.cost.needed();
            if self.fault == Fault::DefersWithoutRoom {
                needed = claim.cost.charged();
            }
            let taken = taken.entry(self.name(claim.limit, &claim.key)).or_default();
            let slot = self.slot(&mut slots, claim.limit, &claim.key);
            let together = if needed == 0 {
                0
            } else {
                needed.saturating_add(*taken)
            };
            let wait = match slot.oracle.peek(self.now(), together).wait {
                oracle::Wait::None => Wait::None,
                oracle::Wait::For(wait) => self.promised(wait),
                oracle::Wait::Never if self.fault == Fault::WaitsForTheImpossible => {
                    Wait::For(Duration::from_secs(1))
                }
                oracle::Wait::Never => Wait::Never,
            };
            if wait == Wait::None {
                *taken += claim.cost.charged();
            }
            waits.push(wait);
        }
        waits
    }

    fn promised(&self, wait: u64) -> Wait {
        Wait::For(Duration::from_nanos(match self.fault {
            Fault::FloorsWaits => wait / 1_000_000 * 1_000_000,
            Fault::WaitsOneStepMore => wait + 1,
            _ => wait,
        }))
    }

    fn decide(&self, claims: &Claims<'_>) -> Answer {
        let asked = claims.as_slice();
        let has_a_say = |claim: &Claim<'_>| {
            claim.mode == Mode::Enforced || self.fault == Fault::EnforcesShadows
        };
        let waits = self.waits(asked);
        let refused = asked
            .iter()
            .zip(&waits)
            .any(|(claim, wait)| has_a_say(claim) && *wait != Wait::None);
        let mut answer = Answer {
            decision: Decision::UNLIMITED,
            receipts: Vec::new(),
        };
        if self.fault == Fault::ChecksThenActs {
            thread::yield_now();
        }
        let now = self.now();
        let mut slots = lock(&self.slots);
        for (claim, wait) in asked.iter().zip(&waits) {
            let slot = self.slot(&mut slots, claim.limit, &claim.key);
            let mut units = claim.cost.charged();
            if self.fault == Fault::ChargesZero {
                units = units.max(1);
            }
            let charged = match self.fault {
                Fault::ChargesRefusals => true,
                Fault::ChargesInPart => *wait == Wait::None,
                _ => *wait == Wait::None && !refused,
            } && (!claims.is_peek() || self.fault == Fault::ChargesPeeks);
            if charged && units > 0 && units <= claim.limit.capacity() {
                slot.oracle.charge(now, units);
            }
            if charged && claim.settles && *wait == Wait::None {
                answer.receipts.push(Receipt {
                    limit: claim.limit.clone(),
                    key: claim.key,
                    units,
                    stamp: now,
                });
            }
        }
        for (claim, wait) in asked.iter().zip(waits) {
            let stands = self
                .slot(&mut slots, claim.limit, &claim.key)
                .oracle
                .peek(now, 0);
            let standing = Standing {
                remaining: stands.remaining,
                next: stands.next,
                reset: stands.reset,
            };
            answer
                .decision
                .push(Outcome::new(standing, wait), !has_a_say(claim));
        }
        answer
    }
}

impl Store for Obvious {
    type Future = Ready<Result<Answer, StoreError>>;

    fn acquire(&self, claims: &Claims<'_>) -> Acquire<Self::Future> {
        // One lock for the question and the charge, unless that is the fault.
        let _guard = (self.fault != Fault::ChecksThenActs).then(|| lock(&self.turn));
        Acquire::Later(ready(Ok(self.decide(claims))))
    }

    fn settle(&self, receipt: Receipt, how: Settle) {
        let Receipt {
            limit,
            key,
            units,
            stamp,
        } = receipt;
        let now = self.now();
        let mut slots = lock(&self.slots);
        let oracle = &mut self.slot(&mut slots, &limit, &key).oracle;
        let at = match self.fault {
            Fault::RefundsInFull if limit.algorithm().has_burst() => now,
            Fault::RefundsAnyWindow if !limit.algorithm().has_burst() => now,
            _ => stamp,
        };
        let actual = match how {
            Settle::Commit => units,
            Settle::Refund => 0,
            Settle::Actual(actual) => actual,
        };
        let max_debt = if self.fault == Fault::OwesWithoutBound {
            1 << 40
        } else {
            limit.max_debt()
        };
        oracle.settle(now, Charge { at, units }, actual, max_debt);
    }

    /// Keeps all but the calendar: an oracle knows no steps of it.
    fn supports(&self, limit: &Limit) -> Result<(), LimitError> {
        match limit.algorithm() {
            Algorithm::CalendarWindow(_) => Err(LimitError::unsupported(
                limit,
                "this store follows no calendar",
            )),
            _ => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under a lock")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("less than 584 years")
}

struct Oracles(Obvious);

impl Oracles {
    fn new() -> Option<Self> {
        Some(Self::with(Fault::Nothing))
    }

    fn with(fault: Fault) -> Self {
        Self(Obvious {
            clock: ManualClock::new(),
            turn: Mutex::default(),
            slots: Mutex::default(),
            fault,
        })
    }
}

impl Harness for Oracles {
    type Store = Obvious;

    const CASES: u32 = 16;

    fn store(&self) -> &Obvious {
        &self.0
    }

    fn advance(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    fn unix_now(&self) -> Duration {
        self.0.clock.unix_now()
    }

    fn set_unix(&self, now: Duration) {
        self.0.clock.set_unix(now);
    }
}

ratekeeper_testkit::conformance!(Oracles::new);

mod faults {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use ratekeeper_testkit::conformance::{
        decisions, reported, settlements, several, threads, time,
    };

    use super::{Fault, Oracles};

    type Property = fn(&dyn Fn() -> Option<Oracles>);

    /// The property must fail on a store with the fault; that it holds without is what the suite above has shown.
    fn is_found(fault: Fault, properties: &[Property]) {
        for (index, property) in properties.iter().enumerate() {
            let new = || Some(Oracles::with(fault));
            let result = catch_unwind(AssertUnwindSafe(|| property(&new)));
            assert!(result.is_err(), "property {index} does not find {fault:?}");
        }
    }

    #[test]
    fn a_charge_for_a_refusal_is_found() {
        is_found(
            Fault::ChargesRefusals,
            &[
                decisions::a_refusal_changes_nothing,
                decisions::token_bucket_equals_its_oracle,
                reported::denied_requests_are_not_charged,
                reported::a_refused_cost_makes_no_debt,
            ],
        );
    }

    #[test]
    fn a_charge_in_part_is_found() {
        is_found(
            Fault::ChargesInPart,
            &[
                several::several_claims_are_all_admitted_or_none_is_charged,
                several::claims_on_one_counter_must_fit_together,
                reported::one_refusing_limit_leaves_the_others_as_they_were,
                reported::an_hourly_limit_is_not_spent_by_a_minutely_refusal,
            ],
        );
    }

    #[test]
    fn charges_for_peeks_and_for_nothing_are_found() {
        is_found(
            Fault::ChargesPeeks,
            &[
                decisions::a_peek_charges_nothing,
                decisions::fixed_window_equals_its_oracle,
            ],
        );
        is_found(
            Fault::ChargesZero,
            &[decisions::a_cost_of_zero_is_admitted_and_changes_nothing],
        );
        is_found(
            Fault::DefersWithoutRoom,
            &[several::a_deferred_cost_is_admitted_iff_one_unit_fits],
        );
    }

    #[test]
    fn a_wait_for_the_impossible_is_found() {
        is_found(
            Fault::WaitsForTheImpossible,
            &[
                decisions::a_cost_above_the_capacity_is_never_admitted_and_changes_nothing,
                reported::a_refused_cost_above_the_limit_blocks_nobody,
            ],
        );
    }

    #[test]
    fn waits_that_are_not_exact_are_found() {
        is_found(
            Fault::FloorsWaits,
            &[
                decisions::promised_times_are_exact,
                decisions::sliding_counter_equals_its_oracle,
            ],
        );
        is_found(
            Fault::WaitsOneStepMore,
            &[
                decisions::promised_times_are_exact,
                time::a_year_is_waited_out_to_the_step,
            ],
        );
    }

    #[test]
    fn a_question_apart_from_its_charge_is_found() {
        is_found(
            Fault::ChecksThenActs,
            &[
                threads::threads_on_one_key_admit_exactly_the_capacity,
                threads::threads_with_several_claims_admit_exactly_what_all_limits_allow,
            ],
        );
    }

    #[test]
    fn refunds_of_too_much_are_found() {
        is_found(
            Fault::RefundsInFull,
            &[
                settlements::a_refund_gives_back_what_still_weighs,
                settlements::settled_histories_never_yield_more_than_their_final_costs,
            ],
        );
        is_found(
            Fault::RefundsAnyWindow,
            &[settlements::a_refund_does_not_reach_another_window],
        );
    }

    #[test]
    fn a_debt_without_bound_is_found() {
        is_found(
            Fault::OwesWithoutBound,
            &[settlements::debt_is_bounded_and_waited_out],
        );
    }

    #[test]
    fn state_that_is_lost_is_found() {
        is_found(
            Fault::ForgetsAfterThePeriod,
            &[
                reported::a_burst_longer_than_the_period_is_remembered,
                decisions::leaky_bucket_equals_its_oracle,
            ],
        );
        is_found(
            Fault::ForgetsOnChange,
            &[
                settlements::a_changed_quota_keeps_the_used_units,
                settlements::a_shrunk_quota_gives_nothing_away,
                settlements::changing_to_and_fro_yields_no_more_than_the_larger_quota,
                settlements::a_bucket_between_two_plans_keeps_the_bound_of_the_larger,
            ],
        );
    }

    #[test]
    fn identities_that_run_together_are_found() {
        is_found(Fault::CutsKeys, &[decisions::keys_do_not_share_a_count]);
        is_found(
            Fault::ForgetsTheCounter,
            &[decisions::counters_are_shared_by_name_alone],
        );
    }

    #[test]
    fn a_shadow_with_a_say_is_found() {
        is_found(
            Fault::EnforcesShadows,
            &[
                several::a_shadowed_claim_counts_and_has_no_say,
                several::several_claims_are_all_admitted_or_none_is_charged,
            ],
        );
    }
}
