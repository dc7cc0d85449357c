//! The charges of one request on their way to being settled, each exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use ratekeeper_core::{Receipt, Settle, Store};

use crate::active::Active;
use crate::body::BodyEnd;
use crate::rule::{Ending, ResponseHead, SettleHandle};
use crate::ruleset::CheckedRule;
use crate::shared::Shared;

/// The charges that wait for an ending. Dropped, they end as the moment demands.
pub(crate) struct Charges<St: Store> {
    shared: Arc<Shared<St>>,
    active: Arc<Active>,
    items: Vec<Charge>,
    handle: SettleHandle,
    /// Whether the inner service has been called; before that nothing was had for the charges.
    called: bool,
    /// Whether the response has ended. Relaxed: set through the body by whoever reads it, and read
    /// only when that owner drops it.
    ended: AtomicBool,
}

struct Charge {
    receipt: Option<Receipt>,
    /// The index of the rule.
    rule: usize,
}

impl<St: Store> Charges<St> {
    pub(crate) fn new(
        shared: Arc<Shared<St>>,
        active: Arc<Active>,
        charged: Vec<(Receipt, usize)>,
    ) -> Self {
        let items = charged.into_iter().map(|(receipt, rule)| Charge {
            receipt: Some(receipt),
            rule,
        });
        let items = items.collect();
        Self {
            shared,
            active,
            items,
            handle: SettleHandle::default(),
            called: false,
            ended: AtomicBool::new(false),
        }
    }

    /// Returns the handle for the request, where a rule of it wants one.
    pub(crate) fn handle(&self) -> Option<SettleHandle> {
        let rules = self.active.rules.rules();
        let wanted = self
            .items
            .iter()
            .any(|item| rules[item.rule].settlement.uses_handle());
        wanted.then(|| self.handle.clone())
    }

    /// The inner service is about to be called.
    ///
    /// Charges that nothing settles are done with: they stand.
    pub(crate) fn called(mut self) -> Option<Self> {
        self.called = true;
        let rules = self.active.rules.rules();
        self.items.retain(|item| {
            let rule = &rules[item.rule];
            rule.settlement.settles() || rule.cost.is_deferred()
        });
        (!self.items.is_empty()).then_some(self)
    }

    /// The head of the response is there. Returns what still waits for the body.
    pub(crate) fn responded(mut self, head: &ResponseHead<'_>, has_body: bool) -> Option<Self> {
        let Self {
            shared,
            active,
            items,
            handle,
            ..
        } = &mut self;
        for item in items.iter_mut() {
            let rule = &active.rules.rules()[item.rule];
            let said = || rule.settlement.uses_handle() && handle.said(&rule.name).is_some();
            let how = match rule.settlement.at_head(head) {
                Ending::Settle(how) => how,
                // The handler knows better what its failure cost.
                Ending::ServerError if said() => continue,
                Ending::ServerError => {
                    let key = item
                        .receipt
                        .as_ref()
                        .map(|receipt| receipt.key)
                        .unwrap_or_default();
                    let within_cap = rule
                        .refunds
                        .as_ref()
                        .is_some_and(|cap| shared.refunds.check(cap, &key, 1).is_allowed());
                    if within_cap {
                        Settle::Refund
                    } else {
                        Settle::Commit
                    }
                }
                Ending::Undecided => continue,
            };
            settle(&shared.store, rule, item, how);
        }
        items.retain(|item| item.receipt.is_some());
        if !has_body {
            self.end();
            return None;
        }
        (!self.items.is_empty()).then_some(self)
    }
}

/// Ends a charge. A cost that was left to be told, and never was, is one unit: what was admitted
/// for one is never free.
fn settle<St: Store>(store: &St, rule: &CheckedRule, item: &mut Charge, how: Settle) {
    if let Some(receipt) = item.receipt.take() {
        let untold = how == Settle::Commit && rule.cost.is_deferred();
        store.settle(receipt, if untold { Settle::Actual(1) } else { how });
    }
}

impl<St: Store> BodyEnd for Charges<St> {
    fn trailers(&mut self, trailers: &HeaderMap) {
        for item in &mut self.items {
            let rule = &self.active.rules.rules()[item.rule];
            if let Ending::Settle(how) = rule.settlement.at_trailers(trailers) {
                settle(&self.shared.store, rule, item, how);
            }
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl<St: Store> Drop for Charges<St> {
    fn drop(&mut self) {
        let ended = *self.ended.get_mut();
        for item in &mut self.items {
            let rule = &self.active.rules.rules()[item.rule];
            let how = if self.called {
                rule.settlement.at_end(&self.handle, &rule.name, ended)
            } else {
                Settle::Refund
            };
            settle(&self.shared.store, rule, item, how);
        }
    }
}
