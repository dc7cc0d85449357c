//! What keys are called on the server.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use ratekeeper_core::{Algorithm, Key, Limit};
use sha2::Sha256;

/// How a limit's keys are named on the server.
///
/// By default a name is a 128-bit MAC of the key under a secret that all nodes of the fleet share:
/// who can read the server learns neither addresses nor users from it, and two keys share a count
/// with negligible probability. Nodes with different secrets would count apart, each granting the
/// whole limit; a canary key in the namespace reveals the second one as soon as it connects.
///
/// # Examples
///
/// ```
/// use ratekeeper_redis::KeyNames;
///
/// let names = KeyNames::secret("correct horse battery staple").unwrap();
/// assert_eq!(format!("{names:?}"), "KeyNames::Secret(..)");
/// assert!(KeyNames::secret("short").is_err());
/// ```
#[derive(Clone)]
pub struct KeyNames(Option<Hmac<Sha256>>);

impl KeyNames {
    /// The least number of bytes in a secret.
    pub const MIN_SECRET: usize = 16;

    /// Creates names that are MACs under this secret.
    ///
    /// # Errors
    ///
    /// [`SecretTooShort`] when it has less than [`MIN_SECRET`](Self::MIN_SECRET) bytes.
    pub fn secret(secret: impl AsRef<[u8]>) -> Result<Self, SecretTooShort> {
        let secret = secret.as_ref();
        if secret.len() < Self::MIN_SECRET {
            return Err(SecretTooShort(secret.len()));
        }
        // A MAC of this kind takes keys of any length.
        let mac = Hmac::new_from_slice(secret).map_err(|_| SecretTooShort(secret.len()))?;
        Ok(Self(Some(mac)))
    }

    /// Creates names that **show addresses, users and tokens to everybody who can read the server**,
    /// its dumps, its slow log and its monitor. For looking into a problem, or where keys are
    /// neither personal nor secret.
    #[must_use]
    pub fn plain_text_for_all_to_read() -> Self {
        Self(None)
    }
}

impl fmt::Debug for KeyNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "KeyNames::Secret(..)",
            None => "KeyNames::PlainText",
        })
    }
}

/// A secret has too few bytes to protect anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretTooShort(usize);

impl fmt::Display for SecretTooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the secret has {} bytes, it needs at least {}",
            self.0,
            KeyNames::MIN_SECRET
        )
    }
}

impl std::error::Error for SecretTooShort {}

/// The names within one namespace.
#[derive(Clone)]
pub(crate) struct Namer {
    /// `namespace:rk1:`.
    prefix: String,
    /// Has taken in the namespace.
    mac: Option<Hmac<Sha256>>,
}

impl Namer {
    pub(crate) fn new(namespace: &str, names: KeyNames) -> Self {
        let mac = names.0.map(|mut mac| {
            part(&mut mac, namespace.as_bytes());
            mac
        });
        Self {
            prefix: format!("{namespace}:rk1:"),
            mac,
        }
    }

    /// Returns a key's name: of the log that the limit counts in, or of the state.
    pub(crate) fn name(&self, limit: &Limit, key: &Key) -> String {
        self.name_of(limit, key, limit.algorithm() == Algorithm::SlidingLog)
    }

    pub(crate) fn name_of(&self, limit: &Limit, key: &Key, log: bool) -> String {
        let counter = limit.counter();
        let mut name = String::with_capacity(self.prefix.len() + counter.len() + 39);
        name.push_str(&self.prefix);
        name.push('{');
        escape(&mut name, counter.as_bytes(), |byte| {
            !matches!(byte, b'{' | b'}' | b'%')
        });
        name.push_str("}:");
        if let Some(mac) = &self.mac {
            let mut mac = mac.clone();
            part(&mut mac, counter.as_bytes());
            mac.update(key.as_bytes());
            hex(&mut name, &mac.finalize().into_bytes()[..16]);
        } else {
            escape(&mut name, key.as_bytes(), |byte| {
                byte.is_ascii_alphanumeric() || b"-._@".contains(&byte)
            });
        }
        if log {
            name.push_str(":l");
        }
        name
    }

    /// Returns the canary's name and value; equal values come from equal secrets.
    pub(crate) fn canary(&self) -> (String, String) {
        let value = match &self.mac {
            Some(mac) => {
                let mut mac = mac.clone();
                // No counter has an empty name.
                part(&mut mac, b"");
                let mut value = String::with_capacity(32);
                hex(&mut value, &mac.finalize().into_bytes()[..16]);
                value
            }
            None => "plain".to_owned(),
        };
        (format!("{}canary", self.prefix), value)
    }
}

impl fmt::Debug for Namer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namer")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Namespaces and counters have at most 64 bytes.
fn part(mac: &mut Hmac<Sha256>, bytes: &[u8]) {
    mac.update(&[bytes.len().to_le_bytes()[0]]);
    mac.update(bytes);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push(HEX[usize::from(byte >> 4)].into());
        text.push(HEX[usize::from(byte & 15)].into());
    }
}

/// Writes `%` and two digits for bytes that are not to stand as they are.
fn escape(text: &mut String, bytes: &[u8], stands: impl Fn(u8) -> bool) {
    for byte in bytes {
        if stands(*byte) {
            text.push((*byte).into());
        } else {
            text.push('%');
            hex(text, &[*byte]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_core::Quota;

    fn limit(counter: &str) -> Limit {
        Limit::token_bucket("limit", Quota::per_second(1))
            .unwrap()
            .with_counter(counter)
            .unwrap()
    }

    fn namer(namespace: &str, secret: &str) -> Namer {
        Namer::new(namespace, KeyNames::secret(secret).unwrap())
    }

    #[test]
    fn a_name_shows_nothing_of_the_key_and_depends_on_everything() {
        let secret = "0123456789abcdef";
        let key = Key::from("alice");
        let name = namer("shop", secret).name(&limit("pages"), &key);
        assert!(name.starts_with("shop:rk1:{pages}:"), "{name}");
        assert_eq!(name.len(), "shop:rk1:{pages}:".len() + 32);
        assert!(!name.contains("alice"));
        let mac = |name: &str| name[name.len() - 32..].to_owned();
        for other in [
            namer("shop", secret).name(&limit("pages"), &Key::from("bob")),
            namer("shop", secret).name(&limit("page"), &key),
            namer("shops", secret).name(&limit("pages"), &key),
            namer("shop", "0123456789abcdeF").name(&limit("pages"), &key),
        ] {
            assert_ne!(mac(&other), mac(&name));
        }
        assert_eq!(namer("shop", secret).name(&limit("pages"), &key), name);
    }

    #[test]
    fn plain_names_stay_apart_and_cannot_choose_their_slot() {
        let plain = Namer::new("shop", KeyNames::plain_text_for_all_to_read());
        let name = plain.name(&limit("a{b}%"), &Key::from("x}{y:l"));
        assert_eq!(name, "shop:rk1:{a%7bb%7d%25}:%01%06x%7d%7by%3al");
    }

    #[test]
    fn another_secret_has_another_canary() {
        let canary = |secret| namer("shop", secret).canary().1;
        assert_eq!(canary("0123456789abcdef"), canary("0123456789abcdef"));
        assert_ne!(canary("0123456789abcdef"), canary("0123456789abcdeg"));
    }

    #[test]
    fn no_debug_text_shows_the_secret() {
        let shown = format!(
            "{:?} {:?}",
            KeyNames::secret("0123456789abcdef"),
            namer("shop", "0123456789abcdef")
        );
        assert!(!shown.contains("0123"), "{shown}");
    }
}
