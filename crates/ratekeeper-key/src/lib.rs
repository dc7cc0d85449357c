//! Says who is asking: rate-limit keys from the head of an HTTP request.

mod address;
mod combine;
mod diagnosis;
mod error;
mod exempt;
mod extract;
mod keys;
mod registry;
mod warning;

pub use address::{
    ClientIp, FrontEnd, NetworkError, NetworkErrorKind, Networks, Peer, PeerAddr, PrefixError,
    Prefixes, SocketPeer, Source, UnixPeer,
};
pub use combine::{ByFn, OnFailure, Or, WithFailure, by_fn};
pub use diagnosis::{Diagnosis, KeyShare, SelfCheck};
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
pub use warning::{Warning, WarningKind};
