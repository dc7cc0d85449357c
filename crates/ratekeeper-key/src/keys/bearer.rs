//! Keys by the bearer token.

use std::borrow::Cow;

use http::StatusCode;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::header::single;
use super::text::{TextExtractor, keyed};
use crate::{KeyError, KeyErrorKind, KeyExtractor, Keyed};

/// Keys by the token of `Authorization: Bearer …` (RFC 6750). Registered as `bearer`.
///
/// No such field, or another scheme, is a missing identity (401); two fields, or a token with
/// characters that no bearer token has, is malformed (400).
///
/// Nobody has verified the token at this point. A client that makes up a token for every request
/// is never limited by it: have a rule by address beside it, or key by what the authentication
/// layer verified, with [`by_extension`](crate::by_extension).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BearerToken;

const WHAT: &str = "bearer token";

fn token(parts: &Parts) -> Result<&str, KeyError> {
    let missing = || KeyError::missing(WHAT).with_status(StatusCode::UNAUTHORIZED);
    let value = single(&parts.headers, &AUTHORIZATION, WHAT).map_err(|error| {
        if error.kind() == KeyErrorKind::Missing {
            missing()
        } else {
            error
        }
    })?;
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    let token = token.trim_start_matches(' ');
    let body = token.trim_end_matches('=');
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    if body.is_empty() || !body.bytes().all(good) {
        return Err(KeyError::malformed(WHAT));
    }
    Ok(token)
}

impl TextExtractor for BearerToken {
    fn text<'a>(&'a self, parts: &'a Parts) -> Result<Cow<'a, str>, KeyError> {
        token(parts).map(Cow::Borrowed)
    }
}

impl KeyExtractor for BearerToken {
    fn extract(&self, parts: &Parts) -> Keyed {
        keyed(self.text(parts))
    }

    fn name(&self) -> String {
        "bearer".to_owned()
    }
}
