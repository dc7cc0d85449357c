//! Deciding two claims together without waiting: the way of most requests with more than one limit.
//!
//! Each claim's line is looked at without its lock, both are decided, and only then the locks are
//! taken, both or none. That works for claims on counters of their own, as long as nobody else
//! changes a line at the same time. Whatever is not as plain as that is left to `acquire`, which
//! waits for its locks.

use crate::algorithm::{Fixed, Moment, Verdict, Words};
use crate::claim::{Claim, Cost, Mode};
use crate::decision::{Decision, Outcome};
use crate::limit::Numbers;
use crate::store::Answer;

use super::Inner;
use super::table::{Chain, Inserted, Slot, Table, View};

/// A claim, the line that it looks at, and what it comes to if nobody changes that.
struct Step<'a> {
    claim: &'a Claim<'a>,
    units: u64,
    numbers: (&'a Fixed, u32),
    table: &'a Table,
    tag: u64,
    view: View<'a>,
    slot: Option<Slot<'a>>,
    outcome: Outcome,
    words: Words,
}

impl Inner {
    /// Decides both claims of a request, both or none. `None` if that does not work without waiting;
    /// then nothing has been done.
    #[inline]
    pub(super) fn try_together(
        &self,
        first: &Claim<'_>,
        second: &Claim<'_>,
        answer: &mut Answer,
    ) -> Option<()> {
        if first.limit.counter_number() == second.limit.counter_number() {
            return None;
        }
        let same_key = first.key == second.key;
        let first = self.look(first, None)?;
        let second = self.look(second, same_key.then_some(first.tag))?;
        // The clock is read after the lines' heads. If nobody has changed a line since, nobody has
        // judged it by a later moment either.
        let moment = Moment::from(self.clock.now());
        let steps = [first.decide(moment)?, second.decide(moment)?];
        if steps.iter().any(Step::refuses) {
            refuse(&steps, moment, answer)
        } else {
            self.charge_together(&steps, moment, answer)
        }
    }

    /// Looks at a claim's line, if the claim is a plain one.
    #[inline(always)]
    fn look<'a>(&'a self, claim: &'a Claim<'_>, tag: Option<u64>) -> Option<Step<'a>> {
        let numbers = match claim.limit.numbers() {
            Numbers::Log(_) => return None,
            Numbers::Fixed { fixed, version } => (fixed, *version),
        };
        let units = match (claim.cost, numbers.0) {
            (_, Fixed::Calendar(_)) => return None,
            (Cost::Units(units @ 1..), _) if !claim.settles => units,
            _ => return None,
        };
        let tag = tag.unwrap_or_else(|| self.secret.tag(&claim.key));
        let table = self.table(claim.limit);
        Some(Step {
            claim,
            units,
            numbers,
            table,
            tag,
            view: table.view(table.line_of(tag)),
            slot: None,
            outcome: Decision::EMPTY,
            words: [0, 0],
        })
    }

    /// Charges the claims but those that are shadowed and would refuse.
    #[inline(always)]
    fn charge_together(
        &self,
        steps: &[Step<'_>; 2],
        moment: Moment,
        answer: &mut Answer,
    ) -> Option<()> {
        let [first, second] = steps;
        // If the second fails, the first is released with nothing written.
        let mut chains = [first.lock()?, second.lock()?];
        let mut inserted = [None; 2];
        for ((step, chain), inserted) in steps.iter().zip(&mut chains).zip(&mut inserted) {
            *inserted = chain.as_mut().and_then(|chain| step.write(chain, moment));
            answer.decision.push(step.outcome, step.is_shadowed());
        }
        drop(chains);
        for (step, inserted) in steps.iter().zip(inserted) {
            if let Some(inserted) = inserted {
                self.after_insert(step.claim.limit, step.table, step.numbers, inserted, moment);
            }
        }
        Some(())
    }
}

/// Refuses a request, if what was read still stands. The key of a limit that would have admitted it
/// stands as before.
fn refuse(steps: &[Step<'_>; 2], moment: Moment, answer: &mut Answer) -> Option<()> {
    let outcomes = steps.each_ref().map(|step| step.uncharged(moment));
    if steps.iter().any(|step| !step.view.is_current()) {
        return None;
    }
    for (outcome, step) in outcomes.into_iter().zip(steps) {
        answer.decision.push(outcome, step.is_shadowed());
    }
    Some(())
}

impl<'a> Step<'a> {
    /// Decides on what the line shows; `None` if the key is to be converted from other numbers.
    #[inline(always)]
    fn decide(self, moment: Moment) -> Option<Self> {
        let (fixed, version) = self.numbers;
        let slot = self.view.find(self.tag);
        let words = match slot {
            None => [0, 0],
            Some(slot) if slot.version() == version => slot.words(),
            Some(_) => return None,
        };
        let Verdict { outcome, words } = fixed.decide(version, words, moment, self.units);
        Some(Self {
            slot,
            outcome,
            words,
            ..self
        })
    }

    /// Locks the line if the claim is to be charged. `None` if somebody has changed it.
    #[inline(always)]
    fn lock(&self) -> Option<Option<Chain<'a>>> {
        if self.outcome.is_allowed() {
            self.view.lock().map(Some)
        } else {
            self.view.is_current().then_some(None)
        }
    }

    #[inline(always)]
    fn write(&self, chain: &mut Chain<'_>, moment: Moment) -> Option<Inserted> {
        match self.slot {
            Some(slot) => {
                chain.update(slot, self.words);
                None
            }
            None => Some(chain.insert(self.tag, self.numbers, self.words, moment)),
        }
    }

    /// Returns the outcome where nothing is charged.
    fn uncharged(&self, moment: Moment) -> Outcome {
        if !self.outcome.is_allowed() {
            return self.outcome;
        }
        let (fixed, version) = self.numbers;
        let words = self.slot.map_or([0, 0], Slot::words);
        fixed.decide(version, words, moment, 0).outcome
    }

    fn is_shadowed(&self) -> bool {
        self.claim.mode == Mode::Shadowed
    }

    fn refuses(&self) -> bool {
        !self.outcome.is_allowed() && !self.is_shadowed()
    }
}
