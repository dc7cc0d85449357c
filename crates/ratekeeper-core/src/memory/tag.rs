//! Tags: what stands for a key in a table.
//!
//! Whoever sends requests chooses the bytes of keys, so they are reduced by a pseudorandom function
//! under a secret: `SipHash` with one round a word and three at the end, as the standard library's
//! maps use it. This one takes the words of a [`Key`] as they are, instead of collecting them from
//! bytes.

use std::hash::{BuildHasher, RandomState};

use crate::key::Key;

/// The secret of one store.
pub(super) struct Secret([u64; 2]);

impl Secret {
    /// Draws a secret from the randomness that the system gave the process.
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        Self([random.hash_one(0), random.hash_one(1)])
    }

    /// Returns the tag that stands for a key; never zero, which marks an empty entry.
    #[inline]
    pub(super) fn tag(&self, key: &Key) -> u64 {
        self.hash(key).max(1)
    }

    #[inline]
    fn hash(&self, key: &Key) -> u64 {
        let words = key.words();
        // The last block of a message has its length in the highest byte, and so has a key's last
        // word, which is that of its messages of 40 bytes and more.
        let length = u64::from_le(words[5]) >> 56;
        let whole = (length / 8).min(5) as usize;
        let mut state = State::new(self.0);
        for word in &words[..whole] {
            state.absorb(u64::from_le(*word));
        }
        state.absorb(u64::from_le(words[whole]) | length << 56);
        state.finish()
    }
}

struct State([u64; 4]);

impl State {
    #[inline]
    fn new([first, second]: [u64; 2]) -> Self {
        Self([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    #[inline]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }

    #[inline]
    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..3).for_each(|_| self.round());
        self.0.iter().fold(0, |hash, word| hash ^ word)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use super::*;

    #[test]
    fn the_hash_is_the_standard_library_s_for_keys_of_every_length() {
        // The default hasher is the same function under a key of zeros.
        let secret = Secret([0, 0]);
        let value: Vec<u8> = (0..44).map(|index| index * 5 + 1).collect();
        let keys = (0..=44).map(|length| Key::from(&value[..length]));
        for key in keys.chain([Key::GLOBAL]) {
            let mut hasher = DefaultHasher::new();
            hasher.write(key.as_bytes());
            let length = key.as_bytes().len();
            assert_eq!(secret.hash(&key), hasher.finish(), "{length} bytes");
        }
    }

    #[test]
    fn two_secrets_give_two_tags() {
        let key = Key::from("alice");
        assert_ne!(Secret::new().tag(&key), Secret::new().tag(&key));
    }
}
