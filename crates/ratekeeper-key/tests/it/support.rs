//! Requests to extract from.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use ratekeeper_key::{KeyError, KeyExtractor, Keyed, PeerAddr};

/// Returns the parts of a request with these header lines, perhaps from a peer.
pub(crate) fn request(peer: Option<&str>, lines: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::get("/");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    if let Some(peer) = peer {
        parts
            .extensions
            .insert(PeerAddr(SocketAddr::new(address(peer), 4711)));
    }
    parts
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns the key as people read it.
#[track_caller]
pub(crate) fn key(extractor: &impl KeyExtractor, parts: &Parts) -> String {
    match extractor.extract(parts) {
        Keyed::Key(key) => key.reveal().to_string(),
        other => panic!("no key but {other:?}"),
    }
}

#[track_caller]
pub(crate) fn failure(extractor: &impl KeyExtractor, parts: &Parts) -> KeyError {
    match extractor.extract(parts) {
        Keyed::Failed(error) => error,
        other => panic!("no failure but {other:?}"),
    }
}
