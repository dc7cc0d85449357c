//! A rule's plans: a closed set of quotas, of which a request has one.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use ratekeeper_core::Quota;

/// The plans beside a rule's own quota.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    /// Without a quota a plan is unlimited.
    pub(crate) named: Vec<(String, Option<Quota>)>,
    pub(crate) by: Option<PlanBy>,
}

impl Plans {
    pub(crate) fn add(&mut self, name: &str, quota: Option<Quota>) {
        self.named.push((name.to_owned(), quota));
    }
}

type NameOf = dyn Fn(&Parts) -> Option<&str> + Send + Sync;

/// Names a request's plan.
#[derive(Clone)]
pub(crate) struct PlanBy(Arc<NameOf>);

impl PlanBy {
    pub(crate) fn new(function: impl Fn(&Parts) -> Option<&str> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(crate) fn name<'a>(&self, parts: &'a Parts) -> Option<&'a str> {
        (self.0)(parts)
    }
}

impl fmt::Debug for PlanBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanBy(..)")
    }
}
