//! Keys as fingerprints and row numbers, with their texts kept once and in bounded memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::client::Client;
use crate::parse::Record;
use crate::rules::{KeyPart, KeyParts};

/// How many bytes of a key's text are kept.
const LONGEST: usize = 200;

/// Bytes that all texts together may take.
const ALL_TEXT: usize = 128 * 1024 * 1024;

/// A key: what it is decided by, and the row that it is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRef {
    /// A keyed hash of the whole key; it stands for the key in the store. Two of n keys share one
    /// with a probability of n² / 2^65.
    pub(super) print: u64,
    pub(super) row: u32,
}

impl KeyRef {
    /// The log has no such key for this request.
    pub(super) const NONE: Self = Self {
        print: 0,
        row: u32::MAX,
    };

    /// The row of all keys beyond the bound.
    pub(super) const OTHERS: u32 = u32::MAX - 1;
}

/// A map by fingerprints, which are hashes already.
pub(super) type ByPrint<V> = HashMap<u64, V, BuildHasherDefault<Through>>;

/// Passes a fingerprint through.
#[derive(Debug, Default)]
pub(super) struct Through(u64);

impl Hasher for Through {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed")
    }

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }
}

/// The keys of one kind that have come, each with its row.
#[derive(Debug)]
pub(super) struct Names {
    parts: KeyParts,
    rows: ByPrint<u32>,
    /// All texts, one after the other, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    most: usize,
    seed: RandomState,
}

impl Names {
    /// Creates a table of at most `most` keys.
    pub(super) fn new(parts: KeyParts, most: usize) -> Self {
        Self {
            parts,
            rows: HashMap::default(),
            text: Vec::new(),
            ends: Vec::new(),
            most: most.min(KeyRef::OTHERS as usize),
            seed: RandomState::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the text of a row, perhaps cut off, and not yet escaped for anything.
    pub(super) fn text(&self, row: u32) -> &[u8] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text[start..self.ends[row]]
    }

    /// Returns the key of a request.
    pub(super) fn key(&mut self, record: &Record<'_>, client: Option<Client<'_>>) -> KeyRef {
        let Some(print) = self.print(record, client) else {
            return KeyRef::NONE;
        };
        let room = self.ends.len() < self.most && self.text.len() < ALL_TEXT;
        let row = match self.rows.entry(print) {
            Entry::Occupied(row) => *row.get(),
            Entry::Vacant(vacant) if room => {
                // Bounded by `most`.
                let row = u32::try_from(self.ends.len()).unwrap_or(KeyRef::OTHERS);
                vacant.insert(row);
                write(&self.parts, record, client, &mut self.text);
                self.ends.push(self.text.len());
                row
            }
            Entry::Vacant(_) => KeyRef::OTHERS,
        };
        KeyRef { print, row }
    }

    /// Returns the fingerprint; nothing when the log lacks a part.
    fn print(&self, record: &Record<'_>, client: Option<Client<'_>>) -> Option<u64> {
        let mut hasher = self.seed.build_hasher();
        for alternatives in &self.parts.0 {
            // Kind and length are written, so that no two keys are written alike.
            match part(alternatives, record, client)? {
                Part::V4(network) => hasher.write_u64(u64::from(network) | 4 << 32),
                Part::V6(network) => {
                    hasher.write_u8(6);
                    hasher.write_u128(network);
                }
                Part::Text(kind, text) => {
                    hasher.write_u8(kind);
                    hasher.write_usize(text.len());
                    hasher.write(text);
                }
            }
        }
        Some(hasher.finish())
    }
}

/// One part of a key.
enum Part<'a> {
    /// The network that an IPv4 address lies in.
    V4(u32),
    V6(u128),
    /// A text, and a number for what it is: a user called like a path is another key.
    Text(u8, &'a [u8]),
}

/// Returns the first alternative that the log has.
fn part<'a>(
    alternatives: &[KeyPart],
    record: &Record<'a>,
    client: Option<Client<'a>>,
) -> Option<Part<'a>> {
    let text = |kind, text: &'a [u8]| (!text.is_empty()).then_some(Part::Text(kind, text));
    alternatives
        .iter()
        .find_map(|alternative| match alternative {
            KeyPart::Ip(v4, v6) => client.map(|client| match client {
                Client::V4(address) => Part::V4(
                    address.to_bits() & u32::MAX.checked_shl(32 - u32::from(*v4)).unwrap_or(0),
                ),
                Client::V6(address) => Part::V6(
                    address.to_bits() & u128::MAX.checked_shl(128 - u32::from(*v6)).unwrap_or(0),
                ),
                Client::Name(name) => Part::Text(1, name),
            }),
            KeyPart::User => text(2, record.user),
            KeyPart::Host => text(3, record.host),
            KeyPart::Method => text(
                4,
                if record.method == b"HEAD" {
                    b"GET"
                } else {
                    record.method
                },
            ),
            KeyPart::Path => text(5, record.path),
        })
}

/// Appends the text of a key: its parts with a space between.
fn write(parts: &KeyParts, record: &Record<'_>, client: Option<Client<'_>>, text: &mut Vec<u8>) {
    let start = text.len();
    if parts.0.is_empty() {
        text.extend_from_slice(b"global");
    }
    for (index, alternatives) in parts.0.iter().enumerate() {
        if index > 0 {
            text.push(b' ');
        }
        let ip = alternatives.iter().find_map(|part| {
            if let KeyPart::Ip(v4, v6) = part {
                Some((*v4, *v6))
            } else {
                None
            }
        });
        let (v4, v6) = ip.unwrap_or((32, 128));
        match part(alternatives, record, client) {
            Some(Part::V4(network)) => {
                network_text(text, Ipv4Addr::from_bits(network).into(), v4, 32);
            }
            Some(Part::V6(network)) => {
                network_text(text, Ipv6Addr::from_bits(network).into(), v6, 128);
            }
            Some(Part::Text(_, part)) => text.extend_from_slice(part),
            None => {}
        }
    }
    if text.len() - start > LONGEST {
        text.truncate(start + LONGEST);
        text.extend_from_slice("…".as_bytes());
    }
}

fn network_text(text: &mut Vec<u8>, network: IpAddr, prefix: u8, host: u8) {
    let shown = if prefix == host {
        network.to_string()
    } else {
        format!("{network}/{prefix}")
    };
    text.extend_from_slice(shown.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Stamp;

    fn record<'a>(client: &'a str, user: &'a str, path: &'a str) -> Record<'a> {
        let [client, user, path] = [client, user, path].map(str::as_bytes);
        Record {
            stamp: Stamp {
                unix: 0,
                whole_second: true,
            },
            client,
            user,
            host: b"",
            method: b"HEAD",
            path,
        }
    }

    fn names(by: &str) -> Names {
        let rule: crate::rules::Rule = format!("a: token-bucket 1/s by {by}").parse().unwrap();
        Names::new(rule.key, 3)
    }

    fn key(names: &mut Names, record: &Record<'_>) -> KeyRef {
        names.key(record, Client::read(record.client))
    }

    #[test]
    fn keys_are_networks_names_and_what_comes_first() {
        for (by, client, user, expected) in [
            ("ip", "192.0.2.7:80", "", "192.0.2.7"),
            ("ip", "2001:db8:1:2:3::4", "", "2001:db8:1:2::/64"),
            ("ip", "example.org", "", "example.org"),
            ("ip:24/48", "192.0.2.7", "", "192.0.2.0/24"),
            ("ip:24/48", "2001:db8:1:2::4", "", "2001:db8:1::/48"),
            ("ip:32/128", "2001:db8::4", "", "2001:db8::4"),
            ("user or ip", "192.0.2.7", "ann", "ann"),
            ("user or ip", "192.0.2.7", "", "192.0.2.7"),
            ("(ip, path)", "192.0.2.7", "", "192.0.2.7 /p"),
            ("(user, method)", "192.0.2.7", "ann", "ann GET"),
            ("global", "", "", "global"),
        ] {
            let mut names = names(by);
            let found = key(&mut names, &record(client, user, "/p"));
            assert_eq!(
                String::from_utf8_lossy(names.text(found.row)),
                expected,
                "{by}"
            );
        }
        assert_eq!(
            key(&mut names("user"), &record("192.0.2.7", "", "/p")),
            KeyRef::NONE
        );
        assert_eq!(
            key(&mut names("(ip, user)"), &record("192.0.2.7", "", "/p")),
            KeyRef::NONE
        );
    }

    #[test]
    fn equal_keys_share_a_row_and_those_beyond_the_bound_another() {
        let mut names = names("user");
        let rows =
            ["a", "b", "a", "c", "d", "b", "e"].map(|user| key(&mut names, &record("", user, "")));
        assert_eq!(
            rows.map(|key| key.row),
            [0, 1, 0, 2, KeyRef::OTHERS, 1, KeyRef::OTHERS]
        );
        assert_ne!(rows[4].print, rows[6].print);
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn no_kind_of_key_is_taken_for_another() {
        let mut names = names("user or path");
        let user = key(&mut names, &record("", "/p", "/q"));
        let path = key(&mut names, &record("", "", "/p"));
        assert_ne!(user, path);
        let mut names = self::names("(user, path)");
        assert_ne!(
            key(&mut names, &record("", "ab", "c")),
            key(&mut names, &record("", "a", "bc"))
        );
    }

    #[test]
    fn long_texts_are_cut_but_told_apart() {
        let mut names = names("path");
        let long = "/x".repeat(300);
        let other = format!("{long}y");
        let rows = [&long, &other].map(|path| key(&mut names, &record("", "", path)));
        assert_ne!(rows[0], rows[1]);
        assert_eq!(names.text(rows[1].row).len(), LONGEST + "…".len());
    }
}
