//! Exact rate limits per key: algorithms, keys and an in-memory store, without HTTP or a runtime.
//!
//! ```
//! use ratekeeper_core::{Limit, Limiter, Quota, Wait};
//!
//! let limiter = Limiter::new(Limit::token_bucket("api", Quota::per_second(5).with_burst(10))?)?;
//!
//! let outcome = limiter.check("alice");
//! assert!(outcome.is_allowed());
//! assert_eq!(outcome.remaining(), 9);
//!
//! // An export costs twenty units, more than the bucket ever holds.
//! assert_eq!(limiter.check_n("alice", 20).wait(), Wait::Never);
//! # Ok::<(), ratekeeper_core::LimitError>(())
//! ```
//!
//! # What it guarantees
//!
//! - Never more is admitted than the limits allow, for any interleaving of threads; nothing drifts.
//! - Several limits of one request are charged together or not at all.
//! - A refusal says exactly how long to wait, and changes nothing.
//! - Memory is bounded, and attackers cannot aim at other keys' entries.
//!
//! # The parts
//!
//! A [`Quota`] is so much per so much time. A [`Limit`] is a named [`Algorithm`] with a quota. A
//! [`Key`] says whom it counts for. [`Claims`] are what one request asks of a [`Store`], here
//! [`Memory`], and a [`Decision`] is the answer. A [`Receipt`] settles later what a request finally
//! cost. A [`Limiter`] is the short way for one limit in memory. Time comes from a [`Clock`], which
//! a test can move by hand.
//!
//! The algorithms themselves are pure functions in [`algorithm`].
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `quanta` | `QuantaClock`, which takes half the time of the system's to read |
//! | `serde` | [`Quota`] as a string |
//! | `tokio` | `WithFallback`: what happens while a shared store is away |
//! | `tokio-clock` | `TokioClock`, which follows tokio's paused time |
//!
//! The minimum supported Rust version is 1.88.

pub mod algorithm;
mod any;
mod async_store;
mod claim;
mod clock;
mod decision;
mod directory;
#[cfg(feature = "tokio")]
mod fallback;
mod inspect;
mod intern;
mod key;
mod limit;
mod limiter;
mod memory;
mod observer;
mod quota;
mod receipt;
mod shared;
mod store;
mod sync;

pub use any::AnyStore;
pub use async_store::{Async, AsyncStore, OwnedClaim, OwnedClaims};
pub use claim::{Claim, Claims, Cost, MAX_CLAIMS, Mode, TooManyClaims};
#[cfg(feature = "quanta")]
pub use clock::QuantaClock;
#[cfg(feature = "tokio-clock")]
pub use clock::TokioClock;
pub use clock::{Clock, ManualClock, Nanos, TimeSource};
pub use decision::{Decision, Outcome, Standing, Wait};
#[cfg(feature = "tokio")]
pub use fallback::{FallbackBuilder, OnFailure, WithFallback};
pub use inspect::{Done, Inspect};
pub use key::{Key, KeyBuilder, Reveal};
pub use limit::{Algorithm, Limit, LimitError, LimitErrorKind, Numbers, Policy};
pub use limiter::Limiter;
pub use memory::{Memory, MemoryBuilder};
pub use observer::{NoObserver, Observer, WaitEnd};
pub use quota::{Quota, QuotaError, QuotaErrorKind};
pub use receipt::{Receipt, Settle};
pub use shared::SharedLimiter;
pub use store::{Acquire, Answer, Store, StoreError, StoreErrorKind};
