//! Requests that no limit applies to, and requests that deserve a rule of their own.

use std::fmt;
use std::sync::Arc;

use http::Method;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::request::Parts;

use crate::{ClientIp, Networks, SocketPeer};

/// Paths that health checks usually ask for.
const HEALTH_CHECKS: [&str; 4] = ["/health", "/healthz", "/livez", "/readyz"];

/// The gRPC health service.
const GRPC_HEALTH: &str = "grpc.health.v1.Health";

/// The gRPC reflection service, in both of its versions.
const GRPC_REFLECTION: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Which requests are exempt from every limit of a layer.
///
/// Nothing is by default. Whatever is exempt can be asked for without end, so it has to be cheap or
/// its clients known.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{ClientIp, Exemptions, Networks, PeerAddr};
///
/// let exempt = Exemptions::new()
///     .health_checks()
///     .networks(Networks::new(["192.0.2.0/24"])?, ClientIp::direct());
///
/// let (mut parts, ()) = http::Request::get("/healthz").body(()).unwrap().into_parts();
/// assert!(exempt.apply_to(&parts));
/// parts.uri = "/orders".parse().unwrap();
/// assert!(!exempt.apply_to(&parts));
/// parts.extensions.insert(PeerAddr("192.0.2.7:4711".parse().unwrap()));
/// assert!(exempt.apply_to(&parts));
/// # Ok::<_, ratekeeper_key::NetworkError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exemptions {
    any_of: Vec<Exemption>,
}

#[derive(Clone)]
enum Exemption {
    Networks(Networks, Box<ClientIp>),
    Path(Box<str>),
    GrpcService(&'static str),
    When(Arc<dyn Fn(&Parts) -> bool + Send + Sync>),
}

impl Exemptions {
    /// Returns the exemptions of nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Exempts clients whose address, found as `by` says, lies in the networks.
    ///
    /// Behind a proxy `by` has to know it: with [`ClientIp::direct`] and the proxy's own network
    /// everybody would be exempt.
    #[must_use]
    pub fn networks(self, networks: Networks, by: ClientIp) -> Self {
        self.with(Exemption::Networks(networks, Box::new(by)))
    }

    /// Exempts `GET` and `HEAD` of this very path, as the client wrote it: with another spelling
    /// the request is limited. In a nested axum router it is the whole path that counts.
    #[must_use]
    pub fn path(self, path: impl Into<Box<str>>) -> Self {
        self.with(Exemption::Path(path.into()))
    }

    /// Exempts the usual health checks: `/health`, `/healthz`, `/livez` and `/readyz`.
    #[must_use]
    pub fn health_checks(self) -> Self {
        HEALTH_CHECKS.into_iter().fold(self, Self::path)
    }

    /// Exempts the gRPC health service, `grpc.health.v1.Health`.
    #[must_use]
    pub fn grpc_health(self) -> Self {
        self.with(Exemption::GrpcService(GRPC_HEALTH))
    }

    /// Exempts the gRPC reflection service, `v1` and `v1alpha`.
    #[must_use]
    pub fn grpc_reflection(self) -> Self {
        GRPC_REFLECTION
            .into_iter()
            .fold(self, |all, name| all.with(Exemption::GrpcService(name)))
    }

    /// Exempts requests for which the closure returns true.
    #[must_use]
    pub fn when(self, predicate: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(Exemption::When(Arc::new(predicate)))
    }

    fn with(mut self, exemption: Exemption) -> Self {
        self.any_of.push(exemption);
        self
    }

    /// Returns whether the request is exempt.
    #[must_use]
    pub fn apply_to(&self, parts: &Parts) -> bool {
        self.any_of
            .iter()
            .any(|exemption| exemption.applies_to(parts))
    }
}

impl Exemption {
    fn applies_to(&self, parts: &Parts) -> bool {
        match self {
            Self::Networks(networks, by) => SocketPeer::of(&parts.extensions)
                .and_then(|peer| by.resolve(peer, &parts.headers))
                .is_some_and(|address| networks.contains(address)),
            Self::Path(exempt) => {
                matches!(parts.method, Method::GET | Method::HEAD) && whole_path(parts) == &**exempt
            }
            Self::GrpcService(service) => parts
                .uri
                .path()
                .strip_prefix('/')
                .and_then(|path| path.strip_prefix(service))
                .is_some_and(|rest| rest.starts_with('/')),
            Self::When(predicate) => predicate(parts),
        }
    }
}

/// Returns the path that the client asked for: nested routers of axum cut it.
fn whole_path(parts: &Parts) -> &str {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = parts.extensions.get() {
        return uri.path();
    }
    parts.uri.path()
}

impl fmt::Debug for Exemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Networks(networks, _) => networks.fmt(f),
            Self::Path(path) => write!(f, "Path({path:?})"),
            Self::GrpcService(service) => write!(f, "GrpcService({service:?})"),
            Self::When(_) => f.write_str("When(..)"),
        }
    }
}

/// Returns whether the request is a CORS preflight: an `OPTIONS` request with `Origin` and with
/// `Access-Control-Request-Method`.
///
/// A refused preflight fails the request behind it, and carries no credentials to be keyed by. But
/// anybody can send one, so it is not free either: give preflights a generous rule of their own, by
/// address. Where a CORS layer stands outside the limiter it answers them itself.
#[must_use]
pub fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(ORIGIN)
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}
