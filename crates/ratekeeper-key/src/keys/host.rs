//! Keys by the host that the request is for.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;

use super::OTHER;
use super::header::single;
use super::text::{TextExtractor, keyed};
use crate::{KeyError, KeyExtractor, Keyed};

/// The longest name that DNS knows.
const LONGEST: usize = 253;

/// Keys by the host that the request names, in lower case, without port and closing dot.
///
/// The URI's authority (HTTP/2, absolute form), or else the `Host` field. Neither is a missing
/// identity (400); two fields, or what cannot be a host, is malformed (400).
///
/// The client chooses it, unless the [known](Self::known) hosts are given. Registered as `host`, or
/// `host:NAME|NAME` with the known hosts.
#[derive(Clone, Debug, Default)]
pub struct Host {
    known: Option<Arc<[Box<str>]>>,
}

impl Host {
    /// Returns the extractor for any host.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the extractor for these hosts; all others share one key.
    #[must_use]
    pub fn known<I>(hosts: I) -> Self
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Self {
            known: Some(
                hosts
                    .into_iter()
                    .map(|host| host.as_ref().to_ascii_lowercase().into())
                    .collect(),
            ),
        }
    }
}

/// Takes the port and the closing dot off and checks what is left.
fn bare(host: &str) -> Option<&str> {
    let (host, port) = if host.starts_with('[') {
        host.split_at(host.find(']')? + 1)
    } else {
        host.split_at(host.find(':').unwrap_or(host.len()))
    };
    let port_is_good = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.strip_suffix('.').unwrap_or(host);
    let good = if host.starts_with('[') {
        |byte: u8| byte.is_ascii_hexdigit() || b"[]:.".contains(&byte)
    } else {
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
    };
    (port_is_good && (1..=LONGEST).contains(&host.len()) && host.bytes().all(good)).then_some(host)
}

impl TextExtractor for Host {
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError> {
        let named = match parts.uri.host() {
            Some(host) => host,
            None => single(&parts.headers, &HOST, "host")?,
        };
        let host = bare(named).ok_or_else(|| KeyError::malformed("host"))?;
        match &self.known {
            Some(known) => {
                let known = known.iter().find(|known| known.eq_ignore_ascii_case(host));
                Ok(Cow::Borrowed(known.map_or(OTHER, |known| known)))
            }
            None if host.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                Ok(Cow::Owned(host.to_ascii_lowercase()))
            }
            None => Ok(Cow::Borrowed(host)),
        }
    }
}

impl KeyExtractor for Host {
    fn extract(&self, parts: &Parts) -> Keyed {
        keyed(self.text(parts))
    }

    fn client_chosen(&self) -> bool {
        self.known.is_none()
    }

    fn name(&self) -> String {
        match &self.known {
            Some(known) => format!("host:{}", known.join("|")),
            None => "host".to_owned(),
        }
    }
}
