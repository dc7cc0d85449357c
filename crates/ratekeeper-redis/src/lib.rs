//! Rate limits that a fleet shares through Redis or Valkey.
//!
//! [`Redis`] is a [`Store`](ratekeeper_core::Store): the layer, a limiter or a test uses it where it
//! would use [`Memory`](ratekeeper_core::Memory), with the same algorithms and the same answers.
//!
//! ```no_run
//! use ratekeeper_core::{Acquire, Claim, Claims, Limit, Quota, Store};
//! use ratekeeper_redis::{KeyNames, Redis};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let names = KeyNames::secret("the secret that all nodes of the fleet know")?;
//! let redis = Redis::builder("redis://127.0.0.1/", "shop", names).build()?;
//! redis.verify().await?;
//!
//! let logins = Limit::sliding_log("logins", Quota::per_minute(5))?;
//! let claim = Claim::new(&logins, "alice");
//! let answer = match redis.acquire(&Claims::one(&claim)) {
//!     Acquire::Now(answer) => answer?,
//!     Acquire::Later(answer) => answer.await?,
//! };
//! println!("{:?}", answer.decision);
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//!
//! - All limits of a request are decided in one round trip by one static script: all are charged or
//!   none is, exactly, whatever the number of nodes.
//! - The time is the server's, so the nodes' clocks do not matter. Its step is 1 µs.
//! - Every key expires once it is fresh again. One that has lost its expiry gets it back.
//! - A call is repeated only when the server's answer proves that nothing ran. Whatever became of
//!   one without an answer, it counts as charged, once.
//! - A request that is dropped while it waits leaves nothing charged: what arrives with nobody
//!   waiting is given back.
//! - Neither keys nor what they are made of can be read on the server; see [`KeyNames`].
//!
//! # What it does not do
//!
//! It has no opinion on what happens while the server is away: wrap it in
//! `ratekeeper_core::WithFallback`, which has a deadline, a breaker and a local limiter. It decides
//! on one primary: with replicas, a failover may forget the last writes, and a restart without
//! persistence forgets all; each grants a key at most one capacity more. So does a server that
//! evicts keys when its memory is full (`maxmemory-policy`): let it refuse writes instead
//! (`noeviction`).
//!
//! # During a rollout
//!
//! Nodes that count one limit by different numbers convert a key on each touch and give nothing
//! away, but each would decide by its own. With `Limit::with_generation`, or the line
//! `generation: N` of a rule set, the newer numbers decide for all: a key remembers which
//! generation counted it last, and a claim or a settlement of an older one is done by the numbers
//! kept with the key, which stay. They come without their debt; what an older node settles
//! overdraws them by its own, and by one capacity at most. Numbers of one generation each decide
//! for themselves, and a key that is fresh again has forgotten all. A sliding log is another key
//! than the other algorithms have, so that a change between them starts afresh.
//!
//! # On the server
//!
//! A key is `namespace:rk1:{counter}:name`, with `:l` behind it for a sliding log. The part in
//! braces places all keys of a counter in one slot of a cluster. `rk1` is the version of the
//! format. Generation 0 is not stored, others are with each key. A key of a fixed size takes about
//! 230 bytes on the server (7.0), a sliding log about 15 bytes more for each admitted request that
//! still counts.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `rustls` | `rediss://` by rustls with the system's certificates |
//!
//! The minimum supported Rust version is 1.88.

mod bounds;
mod builder;
mod call;
mod link;
mod names;
mod reply;
mod request;
mod script;
mod settler;
mod store;

pub use builder::{BuildError, BuildErrorKind, RedisBuilder};
pub use call::Call;
pub use names::{KeyNames, SecretTooShort};
pub use store::Redis;
