//! The decision on a request, told without Tower.
#![expect(
    clippy::result_large_err,
    reason = "a refusal is as common as its opposite in a flood, and must not allocate"
)]

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use ratekeeper_core::{
    Acquire, Answer, Claim, Claims, Cost, Key, Limit, MAX_CLAIMS, Mode, Outcome, Receipt, Standing,
    Store, StoreError, StoreErrorKind, Wait,
};
use ratekeeper_key::{KeyError, Keyed};

use crate::active::{Active, Pick, Picks};
use crate::after::{After, One, Several};
use crate::charges::Charges;
use crate::diagnose;
use crate::extension::RateLimitInfo;
use crate::pending::Pending;
use crate::queue::{self, Arrived, Queue};
use crate::refusal::Reason;
use crate::report::{KeptReport, Report};
use crate::rule::{RuleMode, Share};
use crate::ruleset::{Asked, CheckedRule, Preflight};
use crate::shared::Shared;

/// What is to be done with a request.
pub(crate) enum Verdict<St: Store> {
    /// It goes on to the inner service.
    Pass,
    /// So it does, and this belongs to its response.
    Allow(After<St>),
    /// It is answered.
    Refuse(Response<Bytes>),
    /// The store has to ask elsewhere, or the request has to wait for its turn;
    /// [`Shared::conclude`] goes on from the answer.
    Wait(Pending<St::Future>, Question),
}

/// The question that a store was asked, to make sense of its answer.
pub(crate) struct Question {
    pub(crate) active: Arc<Active>,
    pub(crate) picks: Picks,
}

/// What a rule asks for a request: a claim, of which the key still lies where it was put.
#[derive(Clone, Copy)]
struct Asking<'a, 'k> {
    limit: &'a Limit,
    key: &'k Key,
    cost: Cost,
    mode: Mode,
    settles: bool,
    pick: Pick,
}

impl<'a> Asking<'a, '_> {
    #[inline]
    fn claim(&self) -> Claim<'a> {
        Claim {
            limit: self.limit,
            key: *self.key,
            cost: self.cost,
            mode: self.mode,
            settles: self.settles,
        }
    }
}

/// Why a request is refused for a rule, before any limit was asked.
enum Denial<'a, 'k> {
    /// Its plan admits nothing.
    Plan(Pick),
    /// It has no key for the rule of this name.
    NoKey(&'k KeyError, &'a str),
    /// For the rule of this name.
    Reason(Reason, &'a str),
}

/// The claims of a request as they come together.
struct Gathered<'a> {
    claims: [Option<Claim<'a>>; MAX_CLAIMS],
    picks: Picks,
    count: usize,
    /// Which of the claims delays the request instead of refusing it.
    delays: Option<(usize, &'a Queue)>,
}

impl Gathered<'_> {
    /// Returns whether there is room for another claim. An enforced one takes that of a shadowed
    /// one: a rule that is only tried must not cost a request its answer.
    fn has_room_for(&mut self, claim: &Claim<'_>) -> bool {
        if self.count < MAX_CLAIMS {
            return true;
        }
        let mut claims = self.claims.iter().flatten();
        let shadowed = claims.position(|claim| claim.mode == Mode::Shadowed);
        let Some(index) = shadowed.filter(|_| claim.mode == Mode::Enforced) else {
            return false;
        };
        self.claims[index..].rotate_left(1);
        self.picks.remove(index);
        self.count -= 1;
        if let Some((delaying, _)) = &mut self.delays
            && *delaying > index
        {
            *delaying -= 1;
        }
        true
    }
}

impl<St: Store> Shared<St> {
    /// Decides on a request: which rules apply, for whom, at what cost, and whether all admit it.
    #[inline]
    pub(crate) fn decide(self: &Arc<Self>, active: &Arc<Active>, parts: &mut Parts) -> Verdict<St> {
        if self.passes(parts) {
            return Verdict::Pass;
        }
        let preflight = active.rules.preflight(parts);
        // One rule is the common case, and needs no table of claims.
        let [rule] = active.rules.rules() else {
            return self.decide_several(active, preflight, parts);
        };
        let Some(mode) = active.rules.mode_at(0, preflight, parts) else {
            return Verdict::Pass;
        };
        let keyed = rule.key.extract(parts);
        let asking = match self.ask_rule(0, rule, mode, &keyed, parts) {
            Ok(Some(asking)) => asking,
            Ok(None) => return Verdict::Pass,
            Err(denial) => return self.deny(active, denial, parts),
        };
        let claim = asking.claim();
        let delays = rule.delays(&claim).map(|queue| (0, queue));
        // And mostly it needs no more than this.
        if delays.is_none()
            && !self.settings.expose
            && let Some(outcome) = &self.store.check(&claim)
        {
            return self.conclude_one(&claim, outcome, active, asking.pick, parts);
        }
        let mut picks = Picks::default();
        picks.push(asking.pick);
        self.acquire(&Claims::one(&claim), delays, active, picks, parts)
    }

    #[inline(never)]
    fn decide_several(
        self: &Arc<Self>,
        active: &Arc<Active>,
        preflight: Preflight,
        parts: &mut Parts,
    ) -> Verdict<St> {
        let mut gathered = Gathered {
            claims: [const { None }; MAX_CLAIMS],
            picks: Picks::default(),
            count: 0,
            delays: None,
        };
        for (index, rule) in active.rules.rules().iter().enumerate() {
            let Some(mode) = active.rules.mode_at(index, preflight, parts) else {
                continue;
            };
            let keyed = rule.key.extract(parts);
            let asking = match self.ask_rule(index, rule, mode, &keyed, parts) {
                Ok(Some(asking)) => asking,
                Ok(None) => continue,
                Err(denial) => return self.deny(active, denial, parts),
            };
            let claim = asking.claim();
            if gathered.has_room_for(&claim) {
                let delays = rule.delays(&claim).map(|queue| (gathered.count, queue));
                gathered.delays = gathered.delays.or(delays);
                gathered.claims[gathered.count] = Some(claim);
                gathered.picks.push(asking.pick);
                gathered.count += 1;
            } else if claim.mode == Mode::Enforced {
                let denial = Denial::Reason(Reason::TooManyRules, &rule.name);
                return self.deny(active, denial, parts);
            }
        }
        let Some(first) = gathered.claims[0] else {
            return Verdict::Pass;
        };
        let claims = gathered.claims.map(|claim| claim.unwrap_or(first));
        match Claims::new(&claims[..gathered.count]) {
            Ok(claims) => self.acquire(&claims, gathered.delays, active, gathered.picks, parts),
            Err(_) => self.deny(active, Denial::Reason(Reason::TooManyRules, ""), parts),
        }
    }

    /// Finds out what a rule asks for a request with this key: nothing, so much, or that it be
    /// refused at once.
    #[inline(always)]
    fn ask_rule<'a, 'k>(
        &self,
        index: usize,
        rule: &'a CheckedRule,
        mode: RuleMode,
        keyed: &'k Keyed,
        parts: &Parts,
    ) -> Result<Option<Asking<'a, 'k>>, Denial<'a, 'k>> {
        let key = match keyed {
            Keyed::Key(key) => key,
            Keyed::Exempt => return Ok(None),
            Keyed::Failed(error) => {
                diagnose::tell(self.observer.as_deref());
                // Who has no key belongs to no share but the whole.
                return if mode.is_enforced_for_all() {
                    Err(Denial::NoKey(error, &rule.name))
                } else {
                    Ok(None)
                };
            }
        };
        let pick = |plan: usize| Pick::new(index, plan);
        match rule.ask(parts) {
            Asked::Nothing => Ok(None),
            // What would refuse a request if the rule were enforced is never shown while it is not.
            Asked::Denied { .. } | Asked::TooCostly
                if self.mode_for(mode, key) == Mode::Shadowed =>
            {
                Ok(None)
            }
            Asked::Denied { plan } => Err(Denial::Plan(pick(plan))),
            Asked::TooCostly => Err(Denial::Reason(Reason::TooCostly, &rule.name)),
            Asked::Claim { plan, limit, cost } => {
                rule.note_key(key);
                Ok(Some(Asking {
                    limit,
                    key,
                    cost,
                    mode: self.mode_for(mode, key),
                    settles: rule.settlement.settles() || cost == Cost::Deferred,
                    pick: pick(plan),
                }))
            }
        }
    }

    #[inline]
    fn mode_for(&self, mode: RuleMode, key: &Key) -> Mode {
        let enforced = match mode {
            RuleMode::Enforced => true,
            RuleMode::Shadowed | RuleMode::Off => false,
            RuleMode::EnforcedFor(share) => {
                key.part_of(Share::WHOLE.into(), &self.settings.share_secret)
                    < share.thousandths().into()
            }
        };
        if enforced {
            Mode::Enforced
        } else {
            Mode::Shadowed
        }
    }

    #[cold]
    fn deny(&self, active: &Active, denial: Denial<'_, '_>, parts: &Parts) -> Verdict<St> {
        Verdict::Refuse(match denial {
            Denial::Plan(pick) => {
                let nothing = Standing {
                    remaining: 0,
                    next: 0,
                    reset: 0,
                };
                self.refuse_one(active, &Outcome::new(nothing, Wait::Never), pick, parts)
            }
            Denial::NoKey(error, rule) => self.refuse(Reason::NoKey(error.clone()), rule, parts),
            Denial::Reason(reason, rule) => self.refuse(reason, rule, parts),
        })
    }

    #[inline]
    fn acquire(
        self: &Arc<Self>,
        claims: &Claims<'_>,
        delays: Option<(usize, &Queue)>,
        active: &Arc<Active>,
        picks: Picks,
        parts: &mut Parts,
    ) -> Verdict<St> {
        let pending = match delays {
            None => match self.store.acquire(claims) {
                Acquire::Now(answer) => Err(Arrived::at_once(answer)),
                Acquire::Later(future) => Ok(Pending::Answer { future }),
            },
            Some((index, queue)) => {
                let observer = self.observer.as_ref();
                match queue::ask(&self.lines, observer, &self.store, claims, index, queue) {
                    Ok(arrived) => Err(arrived),
                    Err(turn) => Ok(Pending::Turn { turn }),
                }
            }
        };
        match pending {
            Ok(pending) => {
                let active = Arc::clone(active);
                Verdict::Wait(pending, Question { active, picks })
            }
            Err(arrived) => match self.conclude(arrived, active, picks, parts) {
                Ok(None) => Verdict::Pass,
                Ok(Some(after)) => Verdict::Allow(after),
                Err(refused) => Verdict::Refuse(refused),
            },
        }
    }

    /// Goes on from the outcome of a request's only claim, which nothing settles.
    #[inline(always)]
    fn conclude_one(
        self: &Arc<Self>,
        claim: &Claim<'_>,
        outcome: &Outcome,
        active: &Arc<Active>,
        pick: Pick,
        parts: &mut Parts,
    ) -> Verdict<St> {
        if let Some(observer) = &self.observer {
            observer.decided(claim.limit, claim.mode, outcome);
        }
        let shadowed = claim.mode == Mode::Shadowed;
        if !outcome.is_allowed() && !shadowed {
            return Verdict::Refuse(self.refuse_one(active, outcome, pick, parts));
        }
        diagnose::note_charge(&mut parts.extensions, self);
        diagnose::tell(self.observer.as_deref());
        if shadowed || !active.tells_allowed() {
            return Verdict::Pass;
        }
        Verdict::Allow(self.after_one(active, outcome, pick, parts))
    }

    /// Returns what the fields are to say of a request's only claim.
    #[inline]
    fn after_one(
        &self,
        active: &Arc<Active>,
        outcome: &Outcome,
        pick: Pick,
        parts: &Parts,
    ) -> After<St> {
        let unix = active.unix(&self.clock);
        let Some(partitions) = self.partitions(active, &[pick], parts) else {
            return After::One(One {
                active: Arc::clone(active),
                outcome: *outcome,
                unix,
                pick,
            });
        };
        let report = Report::of_one(outcome, &pick, unix);
        let mut picks = Picks::default();
        picks.push(pick);
        After::Several(Box::new(Several {
            active: Arc::clone(active),
            report: Some(KeptReport {
                decision: report.decision(),
                picks,
                unix,
                partitions: Some(partitions),
            }),
            waited: None,
            charges: None,
            bodiless: false,
        }))
    }

    #[inline(never)]
    fn refuse_one(
        &self,
        active: &Active,
        outcome: &Outcome,
        pick: Pick,
        parts: &Parts,
    ) -> Response<Bytes> {
        let partitions = self.partitions(active, &[pick], parts);
        let report = Report {
            partitions: partitions.as_deref(),
            ..Report::of_one(outcome, &pick, active.unix(&self.clock))
        };
        self.refuse_limited(active, &report, parts)
    }

    /// Goes on from a store's answer: what belongs to the response, or the refusal.
    pub(crate) fn conclude(
        self: &Arc<Self>,
        arrived: Arrived,
        active: &Arc<Active>,
        picks: Picks,
        parts: &mut Parts,
    ) -> Result<Option<After<St>>, Response<Bytes>> {
        let Arrived { answer, waited } = arrived;
        let Answer { decision, receipts } = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(observer) = &self.observer {
                    observer.store_failed(&error);
                }
                return Err(self.refuse(Reason::StoreFailed, "", parts));
            }
        };
        if let Some(observer) = &self.observer {
            for (index, (outcome, pick)) in
                decision.outcomes().iter().zip(picks.as_slice()).enumerate()
            {
                if let Some(limit) = active.limit(*pick) {
                    let mode = if decision.is_shadowed(index) {
                        Mode::Shadowed
                    } else {
                        Mode::Enforced
                    };
                    observer.decided(limit, mode, outcome);
                }
            }
        }
        if !decision.is_allowed() {
            let partitions = self.partitions(active, picks.as_slice(), parts);
            let report = Report {
                outcomes: decision.outcomes(),
                picks: picks.as_slice(),
                decision: Some(&decision),
                unix: active.unix(&self.clock),
                partitions: partitions.as_deref(),
            };
            return Err(self.refuse_limited(active, &report, parts));
        }
        if self.settings.expose {
            parts.extensions.insert(RateLimitInfo::new(
                Arc::clone(active),
                decision,
                picks,
                waited,
            ));
        }
        diagnose::note_charge(&mut parts.extensions, self);
        diagnose::tell(self.observer.as_deref());
        let charges = if receipts.is_empty() {
            None
        } else {
            Some(self.charges(receipts, active, picks))
        };
        if let Some(handle) = charges.as_ref().and_then(Charges::handle) {
            // A layer outside may have left one.
            let outer = parts.extensions.remove();
            parts.extensions.insert(handle.within(outer));
        }
        let tells = active.tells_allowed();
        let waited = waited.filter(|_| tells);
        let report = (tells && !decision.outcomes().is_empty()).then(|| KeptReport {
            decision,
            picks,
            unix: active.unix(&self.clock),
            partitions: self.partitions(active, picks.as_slice(), parts),
        });
        if report.is_none() && waited.is_none() && charges.is_none() {
            return Ok(None);
        }
        Ok(Some(After::Several(Box::new(Several {
            active: Arc::clone(active),
            report,
            waited,
            charges,
            bodiless: false,
        }))))
    }

    /// Assigns receipts to rules: they come in the order of the claims, but not one for each.
    ///
    /// A receipt that belongs to no claim is a fault of the store; its charge stays as it is.
    fn charges(
        self: &Arc<Self>,
        receipts: Vec<Receipt>,
        active: &Arc<Active>,
        picks: Picks,
    ) -> Charges<St> {
        let mut picks = picks.as_slice();
        let mut charged = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            let is_of = |pick: &Pick| active.limit(*pick) == Some(&receipt.limit);
            if let Some(index) = picks.iter().position(is_of) {
                charged.push((receipt, usize::from(picks[index].rule)));
                picks = &picks[index + 1..];
            } else if let Some(observer) = &self.observer {
                observer.store_failed(&StoreError::new(StoreErrorKind::Fault));
            }
        }
        Charges::new(Arc::clone(self), Arc::clone(active), charged)
    }
}
