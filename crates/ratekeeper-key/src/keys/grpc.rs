//! Keys by the gRPC method or service that is called.

use std::sync::Arc;

use http::request::Parts;

use super::OTHER;
use crate::{KeyExtractor, Keyed};

/// Splits `/package.Service/Method`.
fn call(parts: &Parts) -> Option<(&str, &str)> {
    parts.uri.path().strip_prefix('/')?.split_once('/')
}

/// Keys by the gRPC method that is called. Registered as `grpc-method:SERVICE/METHOD|…`.
///
/// Only the given methods have a key each; all others share one, since a client can call any number
/// of methods that do not exist.
#[derive(Clone, Debug)]
pub struct GrpcMethod {
    /// Sorted, as `extract` needs it; without the leading slash.
    known: Arc<[Box<str>]>,
}

impl GrpcMethod {
    /// Returns the extractor for these methods, each as `package.Service/Method`.
    #[must_use]
    pub fn new<I>(methods: I) -> Self
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Self {
            known: sorted(methods),
        }
    }
}

impl KeyExtractor for GrpcMethod {
    fn extract(&self, parts: &Parts) -> Keyed {
        let path = parts.uri.path();
        known(&self.known, path.strip_prefix('/').unwrap_or(path)).into()
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        format!("grpc-method:{}", self.known.join("|"))
    }
}

/// Keys by the gRPC service that is called. Registered as `grpc-service:SERVICE|…`.
///
/// Only the given services have a key each; all others share one. tonic's generated servers carry
/// their name: `GrpcService::new([GreeterServer::<Greeter>::NAME])`.
#[derive(Clone, Debug)]
pub struct GrpcService {
    /// Sorted, as `extract` needs it.
    known: Arc<[Box<str>]>,
}

impl GrpcService {
    /// Returns the extractor for these services, each as `package.Service`.
    #[must_use]
    pub fn new<I>(services: I) -> Self
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Self {
            known: sorted(services),
        }
    }
}

impl KeyExtractor for GrpcService {
    fn extract(&self, parts: &Parts) -> Keyed {
        call(parts)
            .map_or(OTHER, |(service, _)| known(&self.known, service))
            .into()
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        format!("grpc-service:{}", self.known.join("|"))
    }
}

fn sorted<I>(names: I) -> Arc<[Box<str>]>
where
    I: IntoIterator<Item: AsRef<str>>,
{
    let mut names: Vec<Box<str>> = names
        .into_iter()
        .map(|name| name.as_ref().trim_start_matches('/').into())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

fn known<'a>(known: &'a [Box<str>], name: &str) -> &'a str {
    known
        .binary_search_by(|known| (**known).cmp(name))
        .map_or(OTHER, |at| &known[at])
}
