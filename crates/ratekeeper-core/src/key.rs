//! The identity that a limit counts for, in a fixed number of bytes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

/// Bytes of encoded parts that a key holds before it is digested.
const INLINE: usize = 46;

/// Words of 64 bits in a key. What is not used for parts is zero, but for the length in the last byte.
const WORDS: usize = 6;

/// Index of the byte that holds the number of encoded bytes.
const LENGTH: usize = 47;

/// Bytes of one encoded part that are not its value: the kind and the length.
const PART_HEADER: usize = 2;

/// A length that does not fit one byte follows this mark in eight bytes, big endian.
const LONG: u8 = u8::MAX;

/// The kinds of part. They are part of the identity of stored counters: never renumber them.
mod kind {
    pub(super) const TEXT: u8 = 1;
    pub(super) const NUMBER: u8 = 2;
    pub(super) const IPV4: u8 = 3;
    pub(super) const IPV6: u8 = 4;
    pub(super) const BYTES: u8 = 5;
    pub(super) const NESTED: u8 = 6;
    /// Stands only for a whole key, so that no sequence of parts can imitate a digest.
    pub(super) const DIGEST: u8 = 7;
}

/// The identity that a limit counts for: one or several typed parts in 48 bytes.
///
/// Every part is written as its kind, its length and its bytes, so two different tuples never give
/// the same key: `("ab", "c")` differs from `("a", "bc")`, and the text `"10.0.0.1"` from the
/// address. Up to 46 encoded bytes are kept as they are (a 36-byte token and an IPv4 address fit);
/// longer keys are replaced by their SHA-256. No key allocates.
///
/// `Debug` prints no value, since keys are often personal data; [`Key::reveal`] does, on request.
///
/// # Examples
///
/// ```
/// use ratekeeper_core::Key;
///
/// let user = Key::from("alice");
/// let user_at_address = Key::builder().text("alice").address([203, 0, 113, 9].into()).finish();
/// assert_ne!(user, user_at_address);
/// assert_ne!(Key::builder().text("ab").text("c").finish(), Key::builder().text("a").text("bc").finish());
/// assert_eq!(format!("{user:?}"), "Key(..)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The encoded parts, then zeros, then their length in the last byte; so the derived comparisons
    /// are right, and a hash can take whole words. They hold bytes in their order in memory.
    words: [u64; WORDS],
}

impl Key {
    /// The key of a limit that everybody shares.
    pub const GLOBAL: Self = Self { words: [0; WORDS] };

    /// Starts a key of several parts.
    pub fn builder() -> KeyBuilder {
        KeyBuilder {
            key: Self::GLOBAL,
            digest: None,
        }
    }

    /// Returns the encoded parts, or the digest of a longer key: at most 46 bytes.
    ///
    /// The encoding is injective and stable, which makes it fit for stores that outlive a process.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let bytes: &[u8; 8 * WORDS] = bytemuck::cast_ref(&self.words);
        &bytes[..usize::from(bytes[LENGTH])]
    }

    /// Returns the words that [`as_bytes`](Self::as_bytes) lies in, as they are in memory. The last
    /// byte is the number of bytes; those in between are zero.
    #[inline]
    pub(crate) fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8; 8 * WORDS] {
        bytemuck::cast_mut(&mut self.words)
    }

    /// Creates a key of one part of at most 44 bytes.
    #[inline]
    fn of_short(kind: u8, value: &[u8]) -> Self {
        let mut key = Self::GLOBAL;
        let bytes = key.bytes_mut();
        let end = PART_HEADER + value.len();
        bytes[PART_HEADER..end].copy_from_slice(value);
        let length = value.len().to_le_bytes()[0];
        bytes[..PART_HEADER].copy_from_slice(&[kind, length]);
        bytes[LENGTH] = end.to_le_bytes()[0];
        key
    }

    /// Creates a key of one part of any length.
    #[inline]
    fn of_bytes(kind: u8, value: &[u8]) -> Self {
        if value.len() <= INLINE - PART_HEADER {
            Self::of_short(kind, value)
        } else {
            Self::builder().part(kind, value).finish()
        }
    }

    /// Creates a key of one part whose value lies in `value`, the first byte lowest: at most 14
    /// bytes, the others zero.
    #[inline]
    fn of_part(kind: u8, value: u128, length: u8) -> Self {
        let encoded = value << (8 * PART_HEADER) | u128::from(length) << 8 | u128::from(kind);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (low, high) = (encoded as u64, (encoded >> 64) as u64);
        let length = u64::from(length) + PART_HEADER as u64;
        Self {
            words: [low, high, 0, 0, 0, length << 56].map(u64::to_le),
        }
    }

    /// Returns the key of the network that the address lies in, `prefix` bits long: the key of one
    /// part that [`KeyBuilder::network`] adds.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::Key;
    ///
    /// let key = Key::network("2001:db8:1:2::9".parse().unwrap(), 64);
    /// assert_eq!(key.reveal().to_string(), "2001:db8:1:2::/64");
    /// ```
    #[must_use]
    #[inline]
    pub fn network(address: IpAddr, prefix: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let bits = u128::from(v4.to_bits()) << (128 - Ipv4Addr::BITS);
                Self::of_network(kind::IPV4, bits, prefix.min(32))
            }
            IpAddr::V6(v6) => Self::of_network(kind::IPV6, v6.to_bits(), prefix.min(128)),
        }
    }

    /// Creates the key of a network: the length of its prefix, then those octets that it reaches,
    /// the rest of the last one cleared. The address begins at the highest bit.
    #[inline]
    fn of_network(kind: u8, address: u128, prefix: u8) -> Self {
        let cleared = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
        let network = address & !cleared;
        let octets = prefix.div_ceil(8);
        if octets <= 13 {
            let value = network.swap_bytes() << 8 | u128::from(prefix);
            Self::of_part(kind, value, 1 + octets)
        } else {
            let mut value = [prefix; 17];
            value[1..].copy_from_slice(&network.to_be_bytes());
            Self::of_short(kind, &value[..=usize::from(octets)])
        }
    }

    /// Returns a number below `parts` (which is at least one) that follows from the key and a secret.
    ///
    /// It is the same on every machine that knows the secret and spreads keys evenly, so it picks
    /// stable shares of them. It costs one SHA-256.
    #[must_use]
    pub fn part_of(&self, parts: u32, secret: &[u8]) -> u32 {
        let number = self
            .digest(&[], secret)
            .iter()
            .take(4)
            .fold(0, |number, byte| number << 8 | u32::from(*byte));
        // The high half of the product is below `parts`.
        let product = u64::from(number) * u64::from(parts.max(1));
        u32::try_from(product >> 32).unwrap_or(0)
    }

    /// Returns bytes that stand for the key and, to whoever does not know the secret, tell nothing
    /// of it.
    ///
    /// They are the same on every machine that knows the secret. It costs one SHA-256.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::Key;
    ///
    /// let alice = Key::from("alice").pseudonym(b"the fleet's secret");
    /// assert_eq!(alice, Key::from("alice").pseudonym(b"the fleet's secret"));
    /// assert_ne!(alice, Key::from("alice").pseudonym(b"another"));
    /// assert_ne!(alice, Key::from("bob").pseudonym(b"the fleet's secret"));
    /// ```
    #[must_use]
    pub fn pseudonym(&self, secret: &[u8]) -> [u8; 16] {
        // Half of the digest: what follows from the whole one cannot be computed from it.
        let digest = self.digest(b"pseudonym", secret);
        std::array::from_fn(|index| digest[index])
    }

    /// Digests the key under a secret. A purpose begins with a byte other than zero, as no length
    /// does.
    fn digest(&self, purpose: &[u8], secret: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(purpose);
        digest.update((secret.len() as u64).to_be_bytes());
        digest.update(secret);
        digest.update(self.as_bytes());
        digest.finalize().into()
    }

    /// Returns a view that prints the key's parts.
    ///
    /// Text is escaped, a digested key prints as `#` and hexadecimal digits. Keys can be personal
    /// data or secrets: print them only where that was asked for.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::Key;
    ///
    /// let key = Key::builder().address([192, 0, 2, 1].into()).text("a\nb").finish();
    /// assert_eq!(key.reveal().to_string(), "192.0.2.1 a\\nb");
    /// ```
    #[must_use]
    pub fn reveal(&self) -> Reveal<'_> {
        Reveal(self.as_bytes())
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::GLOBAL
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl From<&Self> for Key {
    fn from(key: &Self) -> Self {
        *key
    }
}

impl From<&str> for Key {
    #[inline]
    fn from(text: &str) -> Self {
        Self::of_bytes(kind::TEXT, text.as_bytes())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for Key {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self::of_bytes(kind::BYTES, bytes)
    }
}

impl From<u64> for Key {
    #[inline]
    fn from(number: u64) -> Self {
        Self::of_part(kind::NUMBER, number.swap_bytes().into(), 8)
    }
}

impl From<IpAddr> for Key {
    /// Keys the single host, as [`KeyBuilder::address`] does. Clients that own a whole IPv6 prefix
    /// are keyed by [`KeyBuilder::network`].
    #[inline]
    fn from(address: IpAddr) -> Self {
        Self::network(address, 128)
    }
}

impl From<Ipv4Addr> for Key {
    #[inline]
    fn from(address: Ipv4Addr) -> Self {
        Self::from(IpAddr::V4(address))
    }
}

impl From<Ipv6Addr> for Key {
    #[inline]
    fn from(address: Ipv6Addr) -> Self {
        Self::from(IpAddr::V6(address))
    }
}

/// Builds a [`Key`] of several typed parts; made by [`Key::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until it is finished"]
pub struct KeyBuilder {
    key: Key,
    /// Everything written so far, once it no longer fits the key.
    digest: Option<Sha256>,
}

impl KeyBuilder {
    /// Adds a part of text.
    pub fn text(self, text: &str) -> Self {
        self.part(kind::TEXT, text.as_bytes())
    }

    /// Adds a part of bytes. The same bytes given as text are a different part.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.part(kind::BYTES, bytes)
    }

    /// Adds a number.
    pub fn number(self, number: u64) -> Self {
        self.part(kind::NUMBER, &number.to_be_bytes())
    }

    /// Adds the address of one host. An IPv4-mapped IPv6 address is its IPv4 address.
    pub fn address(self, address: IpAddr) -> Self {
        self.network(address, 128)
    }

    /// Adds the network that the address lies in, `prefix` bits long.
    ///
    /// An IPv4-mapped IPv6 address is its IPv4 address; a prefix longer than the address (32 bits
    /// or 128) means the host. Networks of different lengths are different parts.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_core::Key;
    ///
    /// let key = |address: &str| Key::builder().network(address.parse().unwrap(), 64).finish();
    /// assert_eq!(key("2001:db8:1:2::9"), key("2001:db8:1:2:3:4:5:6"));
    /// assert_eq!(key("2001:db8:1:2::9").reveal().to_string(), "2001:db8:1:2::/64");
    /// ```
    pub fn network(self, address: IpAddr, prefix: u8) -> Self {
        self.key(&Key::network(address, prefix))
    }

    /// Adds a whole key as one part, so that tuples of keys never collide.
    pub fn key(mut self, key: &Key) -> Self {
        if is_one_part(key.as_bytes()) {
            self.write(key.as_bytes());
            self
        } else {
            self.part(kind::NESTED, key.as_bytes())
        }
    }

    /// Returns the key.
    #[must_use]
    pub fn finish(self) -> Key {
        match self.digest {
            None => self.key,
            Some(digest) => Key::of_short(kind::DIGEST, &digest.finalize()),
        }
    }

    fn part(mut self, kind: u8, value: &[u8]) -> Self {
        match u8::try_from(value.len()) {
            Ok(length) if length != LONG => self.write(&[kind, length]),
            _ => {
                self.write(&[kind, LONG]);
                self.write(&(value.len() as u64).to_be_bytes());
            }
        }
        self.write(value);
        self
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
            return;
        }
        let start = self.key.as_bytes().len();
        let end = start + bytes.len();
        if end <= INLINE {
            let key = self.key.bytes_mut();
            key[start..end].copy_from_slice(bytes);
            key[LENGTH] = end.to_le_bytes()[0];
        } else {
            let mut digest = Sha256::new();
            digest.update(self.key.as_bytes());
            digest.update(bytes);
            self.digest = Some(digest);
        }
    }
}

impl fmt::Debug for KeyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBuilder(..)")
    }
}

/// Returns the first part and what follows it. Inline parts are always short.
fn split_part(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (value, rest) = rest.split_at_checked(usize::from(length))?;
    Some((kind, value, rest))
}

fn is_one_part(bytes: &[u8]) -> bool {
    matches!(split_part(bytes), Some((_, _, [])))
}

/// Prints the parts of a key; made by [`Key::reveal`].
#[derive(Clone, Copy)]
pub struct Reveal<'a>(&'a [u8]);

impl fmt::Debug for Reveal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reveal(..)")
    }
}

impl fmt::Display for Reveal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("global");
        }
        let mut rest = self.0;
        let mut first = true;
        while let Some((kind, value, next)) = split_part(rest) {
            if !first {
                f.write_str(" ")?;
            }
            first = false;
            print_part(f, kind, value)?;
            rest = next;
        }
        Ok(())
    }
}

fn print_part(f: &mut fmt::Formatter<'_>, kind: u8, value: &[u8]) -> fmt::Result {
    match (kind, value) {
        (kind::TEXT, text) => match std::str::from_utf8(text) {
            Ok(text) => write!(f, "{}", text.escape_debug()),
            Err(_) => write!(f, "{}", value.escape_ascii()),
        },
        (kind::NUMBER, number) => {
            let number = number
                .iter()
                .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            write!(f, "{number}")
        }
        (kind::IPV4, [prefix, octets @ ..]) => {
            let mut address = [0; 4];
            address[..octets.len()].copy_from_slice(octets);
            print_network(f, Ipv4Addr::from(address).into(), *prefix, 32)
        }
        (kind::IPV6, [prefix, octets @ ..]) => {
            let mut address = [0; 16];
            address[..octets.len()].copy_from_slice(octets);
            print_network(f, Ipv6Addr::from(address).into(), *prefix, 128)
        }
        (kind::NESTED, nested) => write!(f, "({})", Reveal(nested)),
        (kind::DIGEST, digest) => {
            f.write_str("#")?;
            digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
        (_, bytes) => write!(f, "{}", bytes.escape_ascii()),
    }
}

fn print_network(f: &mut fmt::Formatter<'_>, address: IpAddr, prefix: u8, host: u8) -> fmt::Result {
    if prefix == host {
        write!(f, "{address}")
    } else {
        write!(f, "{address}/{prefix}")
    }
}

#[cfg(test)]
mod tests;
