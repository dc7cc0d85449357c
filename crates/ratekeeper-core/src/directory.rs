//! A list that grows without moving or locking what is in it.

use std::sync::OnceLock;

/// Elements in the first block; each further one is twice as long.
const FIRST: u32 = 16;

/// Elements by number, each made by `Default` when its block is first asked for.
pub(crate) struct Directory<T> {
    /// Block k holds 16·2^k elements.
    blocks: [OnceLock<Box<[T]>>; 28],
}

impl<T> Directory<T> {
    pub(crate) const fn new() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; 28],
        }
    }

    /// Returns the block that an element is in, the block's length and the element's index there.
    #[inline]
    fn place(number: u32) -> (usize, u32, usize) {
        // Numbers from 16·(2^k − 1) on are in block k.
        let position = number.saturating_add(FIRST);
        let block = position.ilog2() - FIRST.ilog2();
        let length = FIRST << block;
        (block as usize, length, (position - length) as usize)
    }

    /// Returns the element of this number, if its block has been made.
    #[inline]
    pub(crate) fn existing(&self, number: u32) -> Option<&T> {
        let (block, _, index) = Self::place(number);
        self.blocks[block].get()?.get(index)
    }
}

impl<T: Default> Directory<T> {
    /// Returns the element of this number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &T {
        let (block, length, index) = Self::place(number);
        let elements =
            self.blocks[block].get_or_init(|| (0..length).map(|_| T::default()).collect());
        &elements[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_an_element_of_its_own() {
        let directory = Directory::<u8>::new();
        assert_eq!(directory.existing(1_999), None);
        let mut places: Vec<_> = (0..2_000)
            .map(|number| std::ptr::from_ref(directory.get(number)))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 2_000);
        assert_eq!(directory.existing(1_999), Some(&0));
    }
}
