//! Reading the state of a key as the numbers of a claim see it, and writing it.

use crate::algorithm::{Fixed, Moment, Words};

use super::table::{Chain, Inserted, Slot};

/// Reads the state of an entry under the claim's numbers. Where it was counted under others, or
/// calendar time has stepped back, it is written as it is read now: a key is converted when it is
/// next touched.
#[inline]
pub(super) fn read(
    chain: &mut Chain<'_>,
    slot: Option<Slot<'_>>,
    (fixed, version): (&Fixed, u32),
    moment: Moment,
) -> Words {
    let Some(slot) = slot else { return [0, 0] };
    let words = slot.words();
    let converted = if slot.version() == version {
        fixed.rebase(words, moment)
    } else {
        let from = crate::intern::fixed(slot.version());
        Some(from.map_or([0, 0], |from| fixed.adopt(from, words, moment)))
    };
    match converted {
        None => words,
        Some(words) => {
            chain.write(slot, version, words);
            words
        }
    }
}

/// Writes a state into its entry, or a new one.
#[inline]
pub(super) fn write(
    chain: &mut Chain<'_>,
    slot: Option<Slot<'_>>,
    tag: u64,
    numbers: (&Fixed, u32),
    words: Words,
    moment: Moment,
) -> Option<Inserted> {
    match slot {
        Some(slot) => {
            chain.write(slot, numbers.1, words);
            None
        }
        None => Some(chain.insert(tag, numbers, words, moment)),
    }
}
