//! What tonic asks of a service that it routes to.

use tonic::server::NamedService;

use crate::service::RateLimit;

/// A limited gRPC service has the name of the one inside, so that it can be added to tonic's routes.
impl<S: NamedService, St> NamedService for RateLimit<S, St> {
    const NAME: &'static str = S::NAME;
}
