//! One key for everybody.

use http::request::Parts;
use ratekeeper_core::Key;

use crate::{KeyExtractor, Keyed};

/// Keys all requests alike, for limits that protect the service itself. Registered as `global`.
///
/// One client can use such a limit up for all others: have a rule by address beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Global;

impl KeyExtractor for Global {
    fn extract(&self, _: &Parts) -> Keyed {
        Keyed::Key(Key::GLOBAL)
    }

    fn client_chosen(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        "global".to_owned()
    }
}
