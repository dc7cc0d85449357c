//! What belongs to the response of an allowed request, on its way there.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use ratekeeper_core::{Outcome, Store};

use crate::active::{Active, Pick};
use crate::charges::Charges;
use crate::queue::Waited;
use crate::report::{KeptReport, Report};

/// What belongs to the response of an allowed request.
pub(crate) enum After<St: Store> {
    /// The fields of a single claim: the common case, kept small.
    One(One),
    Several(Box<Several<St>>),
}

/// What the fields say of a single enforced claim. In the enum itself its words would stand beside
/// a short tag, off their alignment, and every copy would stall.
pub(crate) struct One {
    pub(crate) active: Arc<Active>,
    pub(crate) outcome: Outcome,
    pub(crate) unix: u64,
    pub(crate) pick: Pick,
}

/// Whatever can belong to a response.
pub(crate) struct Several<St: Store> {
    pub(crate) active: Arc<Active>,
    pub(crate) report: Option<KeptReport>,
    /// Where the fields are to tell of it.
    pub(crate) waited: Option<Waited>,
    pub(crate) charges: Option<Charges<St>>,
    /// Whether nobody will read a body, whatever the response.
    pub(crate) bodiless: bool,
}

impl<St: Store> After<St> {
    /// The inner service is about to be called. From here on, charges stand unless their rules say
    /// otherwise.
    #[inline]
    pub(crate) fn called(&mut self, request: &Parts) {
        if let Self::Several(several) = self {
            several.charges = several.charges.take().and_then(Charges::called);
            several.bodiless = request.method == Method::HEAD;
        }
    }

    /// Writes the header fields of an allowed response.
    pub(crate) fn write_fields<B>(&self, response: &mut Response<B>) {
        match self {
            Self::One(one) => {
                if one.active.tells(response) {
                    let report = Report::of_one(&one.outcome, &one.pick, one.unix);
                    one.active
                        .write_fields(&report, None, response.headers_mut());
                }
            }
            Self::Several(several) => several.write_fields(response),
        }
    }
}

impl<St: Store> Several<St> {
    fn write_fields<B>(&self, response: &mut Response<B>) {
        if self.report.is_none() && self.waited.is_none() || !self.active.tells(response) {
            return;
        }
        if let Some(report) = &self.report {
            self.active
                .write_fields(&report.view(), None, response.headers_mut());
        }
        if let Some(waited) = &self.waited {
            waited.write_field(response.headers_mut());
        }
    }
}
