//! Keys by the request method.

use http::request::Parts;

use super::OTHER;
use crate::{KeyExtractor, Keyed};

/// Keys by the request method; `HEAD` counts as `GET`. Registered as `method`.
///
/// Methods that are not among the standard ones share one key, since a client can invent any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Method;

impl KeyExtractor for Method {
    fn extract(&self, parts: &Parts) -> Keyed {
        match parts.method.as_str() {
            "HEAD" => "GET",
            known @ ("GET" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "CONNECT"
            | "TRACE") => known,
            _ => OTHER,
        }
        .into()
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        "method".to_owned()
    }
}
