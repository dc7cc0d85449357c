//! Partition keys: under which of its identities a client was counted, without naming it.

use std::sync::Arc;

use http::request::Parts;
use ratekeeper_core::{MAX_CLAIMS, Store};
use ratekeeper_key::Keyed;

use crate::active::{Active, Pick};
use crate::shared::Shared;

/// The pseudonyms of a request's keys in the order of its claims.
pub(crate) struct Partitions([Option<[u8; 16]>; MAX_CLAIMS]);

impl Partitions {
    pub(crate) fn get(&self, claim: usize) -> Option<&[u8]> {
        self.0.get(claim)?.as_ref().map(<[u8; 16]>::as_slice)
    }
}

impl<St: Store> Shared<St> {
    /// Returns the partitions of a request, where clients are told of them.
    ///
    /// The keys are extracted once more, so that requests carry none about where they are not told.
    #[inline]
    pub(crate) fn partitions(
        &self,
        active: &Active,
        picks: &[Pick],
        parts: &Parts,
    ) -> Option<Box<Partitions>> {
        let secret: &Arc<[u8]> = self.settings.partition_secret.as_ref()?;
        let mut partitions = Partitions([None; MAX_CLAIMS]);
        for (slot, pick) in partitions.0.iter_mut().zip(picks) {
            if let Keyed::Key(key) = active.rule(*pick).key.extract(parts) {
                *slot = Some(key.pseudonym(secret));
            }
        }
        Some(Box::new(partitions))
    }
}
