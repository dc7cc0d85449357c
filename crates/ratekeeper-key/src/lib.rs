//! Says who is asking: rate-limit keys from the head of an HTTP request.
//!
//! ```
//! use ratekeeper_key::{ClientIp, Header, KeyExtractor, Keyed, Networks, PeerAddr, Source};
//!
//! // An API key, or else the client's address behind our proxies.
//! let proxies = Networks::new(["10.1.0.0/16"])?;
//! let by_client = Header::from_static("x-api-key").or(ClientIp::behind(Source::XForwardedFor, proxies));
//!
//! let (mut parts, ()) = http::Request::get("/")
//!     .header("x-forwarded-for", "6.6.6.6, 203.0.113.7")
//!     .body(()).unwrap().into_parts();
//! parts.extensions.insert(PeerAddr("10.1.0.2:4711".parse().unwrap()));
//! let Keyed::Key(key) = by_client.extract(&parts) else { panic!("no key") };
//! assert_eq!(key.reveal().to_string(), "203.0.113.7");
//! # Ok::<_, ratekeeper_key::NetworkError>(())
//! ```
//!
//! # What it guarantees
//!
//! - No address that a client typed is ever believed: the walk through the proxies goes from right
//!   to left and ends at the first address that is not trusted, or at the first garbage.
//! - IPv4-mapped addresses are IPv4, IPv6 is keyed by /64, ports never count.
//! - No two different tuples, and no address and text, have the same key.
//! - A missing or malformed identity is a [`KeyError`] with a status, never a panic, never no limit,
//!   never one silent key for all.
//! - Keys by address, and by text of any length that needs no decoding, are made without the heap,
//!   in time linear in the header fields.
//!
//! # What it does not do
//!
//! It verifies no identity, asks no store and no network, and sees no body. What needs a look-up is
//! done by a layer outside, which leaves its result in the extensions for [`by_extension`].
//!
//! # How it fits
//!
//! `ratekeeper-core` has the [`Key`]; `tower-ratekeeper` asks a [`KeyExtractor`] per rule and
//! re-exports this crate. The [`guide`] tells how to choose keys.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `axum` | the peer of `ConnectInfo` and `MockConnectInfo`, `MatchedRoute`, the path before nesting |
//! | `tonic` | the peer of tonic's connection information |
//!
//! None is on by default. The minimum supported Rust version is 1.88.

mod address;
mod combine;
mod diagnosis;
mod error;
mod exempt;
mod extract;
pub mod guide;
mod keys;
mod registry;
mod self_check;
mod warning;

pub use address::{
    ClientIp, FrontEnd, NetworkError, NetworkErrorKind, Networks, Peer, PeerAddr, PrefixError,
    Prefixes, SocketPeer, Source, UnixPeer,
};
pub use combine::{ByFn, OnFailure, Or, WithFailure, by_fn};
pub use diagnosis::Diagnosis;
pub use error::{KeyError, KeyErrorKind};
pub use exempt::{Exemptions, is_preflight};
pub use extract::{KeyExtractor, Keyed};
#[cfg(feature = "axum")]
pub use keys::MatchedRoute;
pub use keys::{
    BearerToken, Cookie, Extension, Global, GrpcMethod, GrpcService, Header, Host, Method,
    Normalized, Query, TextExtractor, by_extension,
};
pub use ratekeeper_core::{Key, KeyBuilder};
pub use registry::{ExtractorError, ExtractorErrorKind, Registry};
pub use self_check::{KeyShare, SelfCheck};
pub use warning::{Warning, WarningKind};
