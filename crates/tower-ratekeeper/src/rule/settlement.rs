//! What a request finally cost, and who says so.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Extensions, HeaderMap, StatusCode};
use ratekeeper_core::{Quota, Settle};

/// The head of a response, as a settlement looks at it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// The extensions.
    pub extensions: &'a Extensions,
}

/// What becomes of a charge when the response does not end: the client went away, the service
/// failed, or its future was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnAbort {
    /// It stays, or a client could refund itself by going away.
    #[default]
    Charge,
    /// It is given back.
    Refund,
}

/// Tells in a response's extensions what the request finally cost, for the rules that settle by
/// handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleAs(pub Settle);

/// Tells from within a handler what the request finally cost; found in the request's extensions
/// where a rule settles by handle.
///
/// The last word before the response's body ends counts. Without any, the charge stands. Where
/// several layers settle by handle, all of them hear what is said.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::{Settle, SettleHandle};
///
/// # fn stream_answer() -> u64 { 1_250 }
/// fn handler(parts: &http::request::Parts) {
///     let tokens = stream_answer();
///     if let Some(handle) = parts.extensions.get::<SettleHandle>() {
///         handle.settle(Settle::Actual(tokens));
///     }
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SettleHandle {
    said: Arc<Mutex<Said>>,
    /// That of the next layer outside.
    outer: Option<Arc<Self>>,
}

#[derive(Debug, Default)]
struct Said {
    all: Option<Settle>,
    rules: Vec<(String, Settle)>,
}

impl SettleHandle {
    /// Says how the charges of all rules that settle by handle end.
    pub fn settle(&self, how: Settle) {
        self.lock().all = Some(how);
        if let Some(outer) = &self.outer {
            outer.settle(how);
        }
    }

    /// Says how the charge of one rule ends; it goes before what is said for all.
    pub fn settle_rule(&self, rule: &str, how: Settle) {
        let mut said = self.lock();
        match said.rules.iter_mut().find(|(name, _)| name == rule) {
            Some((_, settle)) => *settle = how,
            None => said.rules.push((rule.to_owned(), how)),
        }
        drop(said);
        if let Some(outer) = &self.outer {
            outer.settle_rule(rule, how);
        }
    }

    /// Passes on what is said to the handle of a layer further outside.
    pub(crate) fn within(self, outer: Option<Self>) -> Self {
        let outer = outer.map(Arc::new);
        Self { outer, ..self }
    }

    pub(crate) fn said(&self, rule: &str) -> Option<Settle> {
        let said = self.lock();
        let own = said.rules.iter().find(|(name, _)| name == rule);
        own.map(|(_, settle)| *settle).or(said.all)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Said> {
        // Nothing panics while it is locked, so a poisoned one is as good as any.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type ByHead = Arc<dyn Fn(&ResponseHead<'_>) -> Option<Settle> + Send + Sync>;
type ByTrailers = Arc<dyn Fn(&HeaderMap) -> Option<Settle> + Send + Sync>;

/// How a rule's charges are settled; by nothing, unless told otherwise.
#[derive(Clone, Default)]
pub(crate) struct Settlement {
    by_head: Option<ByHead>,
    by_handle: bool,
    by_trailers: Option<ByTrailers>,
    pub(crate) on_abort: OnAbort,
    pub(crate) refund_cap: Option<Quota>,
}

/// What a moment in the life of a response says of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It ends so.
    Settle(Settle),
    /// It is given back because the server failed, if the cap allows.
    ServerError,
    /// Nothing yet.
    Undecided,
}

impl Settlement {
    pub(crate) fn set_by_head(
        &mut self,
        settle: impl Fn(&ResponseHead<'_>) -> Option<Settle> + Send + Sync + 'static,
    ) {
        self.by_head = Some(Arc::new(settle));
    }

    pub(crate) fn set_by_handle(&mut self) {
        self.by_handle = true;
    }

    pub(crate) fn set_by_trailers(
        &mut self,
        settle: impl Fn(&HeaderMap) -> Option<Settle> + Send + Sync + 'static,
    ) {
        self.by_trailers = Some(Arc::new(settle));
    }

    /// Returns whether charges wait for anything at all.
    pub(crate) fn settles(&self) -> bool {
        self.by_head.is_some()
            || self.by_handle
            || self.by_trailers.is_some()
            || self.refund_cap.is_some()
            || self.on_abort == OnAbort::Refund
    }

    pub(crate) fn uses_handle(&self) -> bool {
        self.by_handle
    }

    /// Returns whether a closure has a say.
    pub(crate) fn uses_code(&self) -> bool {
        self.by_head.is_some() || self.by_trailers.is_some()
    }

    /// Says how a charge ends by the head of the response.
    pub(crate) fn at_head(&self, head: &ResponseHead<'_>) -> Ending {
        if self.by_handle
            && let Some(SettleAs(settle)) = head.extensions.get()
        {
            return Ending::Settle(*settle);
        }
        if let Some(settle) = self.by_head.as_ref().and_then(|by_head| by_head(head)) {
            return Ending::Settle(settle);
        }
        match self.refund_cap {
            Some(_) if head.status.is_server_error() => Ending::ServerError,
            // Nothing later has a say, unless the client goes away.
            _ if !self.by_handle
                && self.by_trailers.is_none()
                && self.on_abort == OnAbort::Charge =>
            {
                Ending::Settle(Settle::Commit)
            }
            _ => Ending::Undecided,
        }
    }

    /// Says how a charge ends by the trailers of the response.
    pub(crate) fn at_trailers(&self, trailers: &HeaderMap) -> Ending {
        let settle = self
            .by_trailers
            .as_ref()
            .and_then(|by_trailers| by_trailers(trailers));
        settle.map_or(Ending::Undecided, Ending::Settle)
    }

    /// Says how a charge ends when the response has ended, or has not and never will.
    pub(crate) fn at_end(&self, handle: &SettleHandle, rule: &str, ended: bool) -> Settle {
        let said = if self.by_handle {
            handle.said(rule)
        } else {
            None
        };
        said.unwrap_or(match self.on_abort {
            OnAbort::Refund if !ended => Settle::Refund,
            OnAbort::Refund | OnAbort::Charge => Settle::Commit,
        })
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settlement")
            .field("by_head", &self.by_head.is_some())
            .field("by_handle", &self.by_handle)
            .field("by_trailers", &self.by_trailers.is_some())
            .field("on_abort", &self.on_abort)
            .field("refund_cap", &self.refund_cap)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_for_a_rule_goes_before_what_is_said_for_all() {
        let handle = SettleHandle::default();
        assert_eq!(handle.said("tokens"), None);
        handle.settle(Settle::Refund);
        handle.settle_rule("tokens", Settle::Actual(7));
        handle.settle_rule("tokens", Settle::Actual(9));
        assert_eq!(handle.said("tokens"), Some(Settle::Actual(9)));
        assert_eq!(handle.said("requests"), Some(Settle::Refund));
    }

    #[test]
    fn an_abort_charges_unless_told_otherwise_and_the_handle_has_the_last_word() {
        let mut settlement = Settlement::default();
        let handle = SettleHandle::default();
        assert_eq!(settlement.at_end(&handle, "r", false), Settle::Commit);
        settlement.on_abort = OnAbort::Refund;
        assert_eq!(settlement.at_end(&handle, "r", false), Settle::Refund);
        assert_eq!(settlement.at_end(&handle, "r", true), Settle::Commit);
        settlement.set_by_handle();
        handle.settle(Settle::Actual(3));
        assert_eq!(settlement.at_end(&handle, "r", false), Settle::Actual(3));
    }
}
