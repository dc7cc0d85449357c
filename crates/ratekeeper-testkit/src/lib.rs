//! What a rate-limit store has to keep, as tests to run and as oracles to compare with.
//!
//! ```
//! use ratekeeper_testkit::oracle::{Oracle, Terms, TokenBucket, Wait};
//!
//! // Two units every five seconds; time is a number of nanoseconds that the caller gives.
//! let mut bucket = TokenBucket::new(Terms::new(2, 5_000_000_000));
//! assert!(bucket.check(0, 2).admitted);
//! assert_eq!(bucket.check(0, 1).wait, Wait::For(2_500_000_000));
//! ```
//!
//! * [`conformance`](mod@conformance): one named test per property, for everybody who writes a store. It needs a harness of some
//!   twenty lines, no runtime and no real time.
//! * [`oracle`]: the obvious slow version of each algorithm, in exact fractions.
//! * [`trace`]: random histories of a key for proptest, crowded where limiters go wrong.
//!
//! The suite finds what it has been shown to find: its own tests run it on stores with one fault each. It does not replace a
//! model checker for a store's locks, nor tests of what is a store's own: time to live, outages, memory.
//!
//! The minimum supported Rust version is 1.88.

pub mod conformance;
pub mod oracle;
pub mod trace;
