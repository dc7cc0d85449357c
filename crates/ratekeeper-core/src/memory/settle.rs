//! Ending a charge.

use crate::algorithm::Moment;
use crate::limit::Numbers;
use crate::receipt::{Receipt, Settle};

use super::Inner;
use super::logs::Logs;
use super::state::{read, write};

impl Inner {
    /// Ends a charge.
    pub(super) fn settle(&self, receipt: &Receipt, how: Settle) {
        let Receipt {
            limit,
            key,
            units,
            stamp,
        } = receipt;
        let (refund, charge) = match how {
            Settle::Commit => return,
            Settle::Refund => (*units, 0),
            Settle::Actual(actual) => (units.saturating_sub(actual), actual.saturating_sub(*units)),
        };
        if refund == 0 && charge == 0 {
            return;
        }
        let tag = self.secret.tag(key);
        let mut clipped = 0;
        match limit.numbers() {
            Numbers::Fixed { fixed, version } => {
                let table = self.table(limit);
                let mut chain = table.lock(table.line_of(tag));
                let slot = chain.find(tag);
                let numbers = (fixed, *version);
                let moment = self.moment(numbers, slot);
                let words = read(&mut chain, slot, numbers, moment);
                if refund > 0
                    && let Some(slot) = slot
                {
                    chain.write(slot, *version, fixed.refund(words, moment, refund, *stamp));
                }
                if charge > 0 {
                    let charged = fixed.charge(words, moment, charge, limit.max_debt());
                    clipped = charged.clipped;
                    let inserted = write(&mut chain, slot, tag, numbers, charged.words, moment);
                    drop(chain);
                    if let Some(inserted) = inserted {
                        self.after_insert(limit, table, numbers, inserted, moment);
                    }
                }
            }
            Numbers::Log(numbers) => {
                let logs = self.logs(limit);
                let mut shard = logs.lock(Logs::shard_of(tag));
                if charge == 0 && !Logs::contains(&shard, tag) {
                    return;
                }
                let moment = Moment::from(self.clock.now());
                let evicted = logs.change(&mut shard, tag, numbers, moment, |log| {
                    numbers.refund(log, refund, *stamp);
                    clipped = numbers.charge(log, moment, charge, limit.max_debt());
                });
                drop(shard);
                self.tell_evicted(limit, evicted);
            }
        }
        if clipped > 0 {
            self.observer.clipped(limit, clipped);
        }
    }
}
