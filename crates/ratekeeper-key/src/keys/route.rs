//! Keys by the matched route.

use axum::extract::MatchedPath;
use http::request::Parts;

use crate::{KeyExtractor, Keyed};

/// Keys by the template of the route that axum matched, such as `/users/{id}`. Registered as
/// `route`.
///
/// Requests that match no route share one key: never the path, of which a client can invent any
/// number. A layer around the whole `Router` sees no route at all; put it on with `Router::layer`
/// or `Router::route_layer`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchedRoute;

impl KeyExtractor for MatchedRoute {
    fn extract(&self, parts: &Parts) -> Keyed {
        // Templates begin with a slash, so that none of them is this word.
        parts
            .extensions
            .get()
            .map_or("unmatched", MatchedPath::as_str)
            .into()
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        "route".to_owned()
    }
}
