//! What every store has to keep, as one named test each.
//!
//! Who writes a store implements [`Harness`] for it and calls [`conformance!`](crate::conformance!) in a test module:
//!
//! ```
//! use std::time::Duration;
//!
//! use ratekeeper_core::{Clock, ManualClock, Memory};
//! use ratekeeper_testkit::conformance::Harness;
//!
//! struct InMemory {
//!     clock: ManualClock,
//!     store: Memory,
//! }
//!
//! impl InMemory {
//!     fn new() -> Option<Self> {
//!         let clock = ManualClock::new();
//!         let store = Memory::builder().clock(Clock::from(clock.clone())).build();
//!         Some(Self { clock, store })
//!     }
//! }
//!
//! impl Harness for InMemory {
//!     type Store = Memory;
//!
//!     fn store(&self) -> &Memory {
//!         &self.store
//!     }
//!
//!     fn advance(&self, by: Duration) {
//!         self.clock.advance(by);
//!     }
//!
//!     fn unix_now(&self) -> Duration {
//!         self.clock.unix_now()
//!     }
//!
//!     fn set_unix(&self, now: Duration) {
//!         self.clock.set_unix(now);
//!     }
//! }
//!
//! ratekeeper_testkit::conformance!(InMemory::new);
//! # fn main() {}
//! ```
//!
//! Time is injected: the suite never sleeps. A store whose clock cannot be set, such as a server's, takes the time from its
//! harness for the tests and is told apart only by that.
//!
//! Random traces are the same in every run, so that a failure comes back; `PROPTEST_CASES=1000` tries more of them.

#![expect(
    clippy::missing_panics_doc,
    reason = "a property panics when a store does not keep it"
)]

mod block_on;
pub mod decisions;
pub mod reported;
pub mod settlements;
pub mod several;
mod subject;
pub mod threads;
pub mod time;

use std::time::Duration;

use ratekeeper_core::Store;

pub use self::{block_on::block_on, subject::oracle_for};

/// A store with nothing in it, and power over its time.
pub trait Harness: Sync {
    /// The store under test.
    type Store: Store;

    /// The step of the store's clock: promised times are whole multiples of it, and so are the times of the suite.
    const TICK: Duration = Duration::from_nanos(1);

    /// How many random traces each property tries, unless `PROPTEST_CASES` says otherwise.
    const CASES: u32 = 64;

    /// Returns the store.
    fn store(&self) -> &Self::Store;

    /// Moves all the store's clocks forward.
    ///
    /// No test advances a store by more than 140 years in all.
    fn advance(&self, by: Duration);

    /// Returns the calendar time that the store sees, since the Unix epoch.
    fn unix_now(&self) -> Duration;

    /// Sets the calendar time, forward or back, as an operator or a time server would.
    ///
    /// A store that counts on a monotonic clock keeps that one as it is. One that lives on a server's wall clock has only this,
    /// and rebases its keys when it steps back.
    fn set_unix(&self, now: Duration);

    /// Waits for an answer that comes later.
    ///
    /// The provided method needs no runtime; a store that lives on one overrides it.
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    /// Waits until every settlement so far has reached the counters.
    ///
    /// Settling returns at once; a store that does it in the background overrides this.
    fn settled(&self) {}
}

/// Makes a `#[test]` of every property that a store has to keep.
///
/// The argument is a function that returns `Option<impl Harness>`: a fresh store with each call. `None` means that the store
/// cannot be had here (no server is installed); the tests then say that they were skipped.
///
/// See [the module of the same name](mod@crate::conformance) for an example.
#[macro_export]
macro_rules! conformance {
    ($new:expr) => {
        $crate::conformance_tests! { $new;
            decisions::leaky_bucket_equals_its_oracle
            decisions::token_bucket_equals_its_oracle
            decisions::fixed_window_equals_its_oracle
            decisions::calendar_window_equals_its_oracle
            decisions::sliding_log_equals_its_oracle
            decisions::sliding_counter_equals_its_oracle
            decisions::promised_times_are_exact
            decisions::a_refusal_changes_nothing
            decisions::a_cost_above_the_capacity_is_never_admitted_and_changes_nothing
            decisions::a_peek_charges_nothing
            decisions::a_cost_of_zero_is_admitted_and_changes_nothing
            decisions::the_largest_numbers_are_counted
            decisions::keys_do_not_share_a_count
            decisions::counters_are_shared_by_name_alone
            several::several_claims_are_all_admitted_or_none_is_charged
            several::claims_on_one_counter_must_fit_together
            several::a_shadowed_claim_counts_and_has_no_say
            several::no_claims_are_admitted
            several::a_deferred_cost_is_admitted_iff_one_unit_fits
            settlements::a_commit_leaves_the_charge
            settlements::a_refund_gives_back_what_still_weighs
            settlements::a_refund_does_not_reach_another_window
            settlements::a_refund_never_makes_a_key_more_than_fresh
            settlements::a_deferred_cost_is_charged_when_it_is_settled
            settlements::debt_is_bounded_and_waited_out
            settlements::settled_histories_never_yield_more_than_their_final_costs
            settlements::a_changed_quota_keeps_the_used_units
            settlements::a_grown_quota_admits_at_once
            settlements::a_shrunk_quota_gives_nothing_away
            settlements::changing_to_and_fro_yields_no_more_than_the_larger_quota
            settlements::a_bucket_between_two_plans_keeps_the_bound_of_the_larger
            threads::threads_on_one_key_admit_exactly_the_capacity
            threads::threads_on_many_keys_admit_exactly_the_capacity_of_each
            threads::threads_with_several_claims_admit_exactly_what_all_limits_allow
            threads::threads_that_refund_what_they_charged_leave_nothing_charged
            time::a_clock_that_stands_still_admits_the_capacity_and_no_more
            time::an_idle_key_is_fresh_and_never_more_than_fresh
            time::a_year_is_waited_out_to_the_step
            time::three_a_second_do_not_drift_in_a_million_seconds
            time::a_thousand_a_second_are_all_admitted
            time::a_step_of_the_calendar_neither_frees_nor_freezes
            time::the_most_in_any_interval_is_as_documented
            reported::denied_requests_are_not_charged
            reported::a_refused_cost_makes_no_debt
            reported::a_refused_cost_above_the_limit_blocks_nobody
            reported::one_refusing_limit_leaves_the_others_as_they_were
            reported::an_hourly_limit_is_not_spent_by_a_minutely_refusal
            reported::a_month_long_window_holds
            reported::a_burst_longer_than_the_period_is_remembered
            reported::one_in_ten_seconds_is_not_ten_times_that
            reported::a_log_takes_a_cost_of_thousands
            reported::a_window_ends_at_its_end
        }
    };
}

/// Not for use; what [`conformance!`](crate::conformance!) expands to.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($new:expr; $($module:ident :: $property:ident)*) => {
        $(
            #[test]
            fn $property() {
                $crate::conformance::$module::$property(&$new);
            }
        )*
    };
}
