//! Client addresses: canonical forms, trusted networks, and what a proxy says about its client.

mod client_ip;
mod entry;
mod forwarded;
mod front_end;
mod networks;
mod peer;
mod prefixes;
mod source;
mod walk;

pub use client_ip::ClientIp;
pub use front_end::FrontEnd;
pub use networks::{NetworkError, NetworkErrorKind, Networks};
pub use peer::{Peer, PeerAddr, SocketPeer, UnixPeer};
pub use prefixes::{PrefixError, Prefixes};
pub use source::Source;
