use std::cmp::Reverse;

use bytes::Bytes;
use http::HeaderValue;

use super::{
    format::{FieldFormat, FieldFormats},
    policy::{Policy, Standing},
    text::{Padding, base64_len, integer_len, push_base64, push_integer, push_quoted},
};

/// The policies of a service, their texts prepared for one choice of [`FieldFormats`].
///
/// Standings refer to policies by their place in the set. `RateLimit-Policy` lists the policies that a response reports on, in
/// the order of the set, so that its value stays the same from response to response.
///
/// See [`Standing`] for an example.
#[derive(Clone, Debug)]
pub struct PolicySet {
    pub(super) formats: FieldFormats,
    policies: Box<[Prepared]>,
    /// `RateLimit-Policy` for responses that report on every policy.
    all: Option<HeaderValue>,
}

/// One policy with everything that its responses have in common.
#[derive(Clone, Debug)]
struct Prepared {
    policy: Policy,
    /// The name as it opens an item of `RateLimit`: quoted and escaped.
    name: Box<[u8]>,
    /// The item of `RateLimit-Policy` in the chosen revision; `None` where that revision cannot say it.
    item: Option<HeaderValue>,
    /// The quota alone, for the formats that give it a field of its own.
    quota: Option<HeaderValue>,
}

impl PolicySet {
    /// Prepares the texts of these policies.
    #[must_use]
    pub fn new(policies: impl IntoIterator<Item = Policy>, formats: FieldFormats) -> Self {
        let policies = policies
            .into_iter()
            .map(|policy| Prepared::new(policy, formats))
            .collect();
        let mut set = Self {
            formats,
            policies,
            all: None,
        };
        set.all = set.join_items(&(0..set.policies.len())).map(shareable);
        set
    }

    /// Returns the formats that the policies were prepared for.
    #[must_use]
    pub fn formats(&self) -> FieldFormats {
        self.formats
    }

    /// Returns `RateLimit-Policy` for a response with these standings.
    pub(super) fn policy_value(&self, standings: &[Standing<'_>]) -> Option<HeaderValue> {
        if self.formats.draft() == Some(FieldFormat::Draft11)
            && standings
                .iter()
                .any(|standing| standing.partition.is_some())
        {
            return self.partitioned_value(standings);
        }
        let places = Ascending::new(standings, self.policies.len());
        let reported = places.clone().count();
        if reported == self.policies.len() {
            return self.all.clone();
        }
        match places.clone().next() {
            Some(only) if reported == 1 => self.policies[only].item.clone(),
            _ => self.join_items(&places),
        }
    }

    /// Returns `RateLimit-Policy` for a caller who is told the partitions, which differ from one to the next.
    fn partitioned_value(&self, standings: &[Standing<'_>]) -> Option<HeaderValue> {
        let mut text = Vec::new();
        for place in Ascending::new(standings, self.policies.len()) {
            let Some(item) = &self.policies[place].item else {
                continue;
            };
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            text.extend_from_slice(item.as_bytes());
            let standing = standings.iter().find(|standing| standing.policy == place);
            push_partition(&mut text, standing.and_then(|standing| standing.partition));
        }
        if text.is_empty() {
            None
        } else {
            header_value(text)
        }
    }

    /// Returns `RateLimit` of revisions 08 to 11.
    pub(super) fn standing_value(&self, standings: &[Standing<'_>]) -> Option<HeaderValue> {
        let items = || {
            standings
                .iter()
                .filter_map(|standing| Some((self.policies.get(standing.policy)?, standing)))
        };
        // The exact length first, so that the value takes one allocation.
        let length: usize = items()
            .map(|(prepared, standing)| 2 + prepared.standing_len(standing))
            .sum();
        let mut text = Vec::with_capacity(length.checked_sub(2)?);
        for (prepared, standing) in items() {
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            prepared.push_standing(&mut text, standing);
        }
        header_value(text)
    }

    /// Returns `RateLimit` of revision 07.
    pub(super) fn dictionary_value(&self, standing: &Standing<'_>) -> Option<HeaderValue> {
        let quota = self.policies.get(standing.policy)?.policy.quota();
        let reset = standing.written_after()?;
        let mut text = Vec::with_capacity(
            "limit=, remaining=, reset=".len()
                + integer_len(quota)
                + integer_len(standing.remaining)
                + integer_len(reset),
        );
        text.extend_from_slice(b"limit=");
        push_integer(&mut text, quota);
        text.extend_from_slice(b", remaining=");
        push_integer(&mut text, standing.remaining);
        text.extend_from_slice(b", reset=");
        push_integer(&mut text, reset);
        header_value(text)
    }

    /// Returns the quota as a value of its own.
    pub(super) fn quota_value(&self, standing: &Standing<'_>) -> Option<HeaderValue> {
        self.policies.get(standing.policy)?.quota.clone()
    }

    /// Joins the `RateLimit-Policy` items at these places, all of which the set has.
    fn join_items(&self, places: &(impl Iterator<Item = usize> + Clone)) -> Option<HeaderValue> {
        let mut text = Vec::new();
        for place in places.clone() {
            let Some(item) = &self.policies[place].item else {
                continue;
            };
            if places.clone().any(|other| self.replaces(other, place)) {
                continue;
            }
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            text.extend_from_slice(item.as_bytes());
        }
        if text.is_empty() {
            None
        } else {
            header_value(text)
        }
    }

    /// Whether the item at `other` stands for the one at `place` too.
    ///
    /// Without names, two items of one quota are invalid. The one with the longest window says the most.
    fn replaces(&self, other: usize, place: usize) -> bool {
        if self.formats.draft() == Some(FieldFormat::Draft11) {
            return false;
        }
        let rank = |place: usize| (self.policies[place].policy.seconds(), Reverse(place));
        let quota = |place: usize| self.policies[place].policy.quota();
        quota(other) == quota(place) && rank(other) > rank(place)
    }
}

impl Prepared {
    fn new(policy: Policy, formats: FieldFormats) -> Self {
        let mut name = Vec::with_capacity(policy.name().len() + 2);
        push_quoted(&mut name, policy.name());
        let item = match formats.draft() {
            Some(FieldFormat::Draft11) => named_item(&policy, &name),
            Some(_) => numeric_item(&policy),
            None => None,
        };
        Self {
            quota: integer_value(policy.quota()).map(shareable),
            name: name.into(),
            item: item.map(shareable),
            policy,
        }
    }

    fn standing_len(&self, standing: &Standing<'_>) -> usize {
        let after = standing
            .written_after()
            .map_or(0, |seconds| ";t=".len() + integer_len(seconds));
        let partition = standing.partition.map_or(0, |key| {
            ";pk=::".len() + base64_len(key.len(), Padding::Padded)
        });
        self.name.len() + ";r=".len() + integer_len(standing.remaining) + after + partition
    }

    fn push_standing(&self, text: &mut Vec<u8>, standing: &Standing<'_>) {
        text.extend_from_slice(&self.name);
        text.extend_from_slice(b";r=");
        push_integer(text, standing.remaining);
        if let Some(seconds) = standing.written_after() {
            text.extend_from_slice(b";t=");
            push_integer(text, seconds);
        }
        push_partition(text, standing.partition);
    }
}

/// Returns `"name";q=100;w=60`.
fn named_item(policy: &Policy, name: &[u8]) -> Option<HeaderValue> {
    let mut text = name.to_vec();
    text.extend_from_slice(b";q=");
    push_integer(&mut text, policy.quota());
    if let Some(unit) = policy.quota_unit().text() {
        text.extend_from_slice(b";qu=");
        push_quoted(&mut text, unit);
    }
    push_window(&mut text, policy.seconds());
    header_value(text)
}

/// Returns `100;w=60`, or `None` for a policy without a window: the older revisions demand one.
fn numeric_item(policy: &Policy) -> Option<HeaderValue> {
    policy.seconds()?;
    let mut text = Vec::new();
    push_integer(&mut text, policy.quota());
    push_window(&mut text, policy.seconds());
    header_value(text)
}

fn push_window(text: &mut Vec<u8>, seconds: Option<u64>) {
    if let Some(seconds) = seconds {
        text.extend_from_slice(b";w=");
        push_integer(text, seconds);
    }
}

fn push_partition(text: &mut Vec<u8>, partition: Option<&[u8]>) {
    if let Some(key) = partition {
        text.extend_from_slice(b";pk=:");
        push_base64(text, key, Padding::Padded);
        text.push(b':');
    }
}

/// Returns a number as a value of its own.
pub(super) fn integer_value(number: u64) -> Option<HeaderValue> {
    let mut text = Vec::with_capacity(integer_len(number));
    push_integer(&mut text, number);
    header_value(text)
}

/// Returns the text as a value. It is `Some` for all that is written here, which is printable ASCII.
fn header_value(text: Vec<u8>) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::from(text)).ok()
}

/// Makes the value cheap to clone: the first clone of any allocates, which happens here and not in the first response.
fn shareable(value: HeaderValue) -> HeaderValue {
    drop(value.clone());
    value
}

/// The places that standings refer to, each once, in ascending order. A response has few standings, so they are searched again
/// for each place rather than sorted into a new list.
#[derive(Clone, Debug)]
struct Ascending<'a> {
    standings: &'a [Standing<'a>],
    next: usize,
    end: usize,
}

impl<'a> Ascending<'a> {
    fn new(standings: &'a [Standing<'a>], end: usize) -> Self {
        Self {
            standings,
            next: 0,
            end,
        }
    }
}

impl Iterator for Ascending<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let range = self.next..self.end;
        let places = self.standings.iter().map(|standing| standing.policy);
        let place = places.filter(|place| range.contains(place)).min()?;
        self.next = place + 1;
        Some(place)
    }
}
