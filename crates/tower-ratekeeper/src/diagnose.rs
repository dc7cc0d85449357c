//! Tells of mistakes in the setup, once each.

use std::sync::Arc;

use http::Extensions;
use ratekeeper_core::Observer;
use ratekeeper_key::{Diagnosis, SelfCheck};

/// Passes on what the process has found out about its setup since the last call; nothing, nearly
/// always, at the price of a load.
#[inline]
pub(crate) fn tell(observer: Option<&dyn Observer>) {
    if let Some(diagnosis) = SelfCheck::global().take() {
        tell_of(diagnosis, observer);
    }
}

/// Notes that a request was charged by the rules of this layer, clones of it included.
#[inline]
pub(crate) fn note_charge<T>(extensions: &mut Extensions, layer: &Arc<T>) {
    let check = SelfCheck::global();
    check.note_decision();
    check.note_charge(extensions, Arc::as_ptr(layer).addr() as u64);
}

#[cold]
fn tell_of(diagnosis: Diagnosis, observer: Option<&dyn Observer>) {
    if let Some(observer) = observer {
        observer.diagnosed(diagnosis.code(), diagnosis.sentence());
    }
    log(diagnosis);
}

#[cfg(feature = "tracing")]
fn log(diagnosis: Diagnosis) {
    let (code, sentence) = (diagnosis.code(), diagnosis.sentence());
    match diagnosis {
        Diagnosis::NoPeer => tracing::error!(target: "ratekeeper", code, "{sentence}"),
        _ => tracing::warn!(target: "ratekeeper", code, "{sentence}"),
    }
}

/// Without a log, standard error has to do: a server that answers 500 must not leave its author
/// without a hint.
#[cfg(not(feature = "tracing"))]
#[expect(
    clippy::print_stderr,
    reason = "once for each mistake, and there is no log"
)]
fn log(diagnosis: Diagnosis) {
    eprintln!("ratekeeper: {diagnosis}");
}
