//! Finds mistakes in the setup in the first requests.
//!
//! # Concurrency
//!
//! Every word here stands alone: nothing else is read through it, so all accesses are `Relaxed`.
//! `found` only gains bits, and a bit enters `pending` once, when it enters `found`; the
//! `fetch_and` in `take` that clears it decides which caller reports it. The counters are
//! approximate by intent: a request that two threads count at once moves a share by a thousandth.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use http::Extensions;
use ratekeeper_core::Key;

use crate::Diagnosis;

/// Requests after which a share is judged.
const WINDOW: u32 = 1_000;

/// Charges that are marked, to see whether the same rules charge a request again.
const MARKED: u32 = 64;

/// Limiters after which building them is compared with using them.
const BUILDS: u32 = 100;

/// Rounds of two windows in which [`KeyShare`] looks for a key that takes all.
const ROUNDS: u32 = 10;

/// Watches the first requests of a process for mistakes in the setup, and tells each kind once.
///
/// The extractors of addresses and the layers report to [`SelfCheck::global`]; whoever has an
/// observer or a log takes what was found. All of it together costs a request a few loads once the
/// first thousands have passed.
///
/// # Examples
///
/// ```
/// use ratekeeper_key::{Diagnosis, SelfCheck};
///
/// let check = SelfCheck::new();
/// check.report(Diagnosis::NoPeer);
/// assert_eq!(check.take(), Some(Diagnosis::NoPeer));
/// check.report(Diagnosis::NoPeer);
/// assert_eq!(check.take(), None, "once");
/// ```
#[derive(Debug)]
pub struct SelfCheck {
    /// The bits of all diagnoses so far.
    found: AtomicU32,
    /// The bits of those that nobody has taken yet.
    pending: AtomicU32,
    untrusted_proxy: Share,
    everybody_trusted: Share,
    /// Charges that were marked, up to [`MARKED`].
    marked: AtomicU32,
    built: AtomicU32,
    /// Requests that were decided, up to a little more than they are compared for.
    decided: AtomicU32,
}

impl SelfCheck {
    /// Returns a check that has seen nothing: for tests, where the one of the process is shared.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            found: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            untrusted_proxy: Share::new(),
            everybody_trusted: Share::new(),
            marked: AtomicU32::new(0),
            built: AtomicU32::new(0),
            decided: AtomicU32::new(0),
        }
    }

    /// Returns the check of this process.
    #[must_use]
    #[inline]
    pub fn global() -> &'static Self {
        static GLOBAL: SelfCheck = SelfCheck::new();
        &GLOBAL
    }

    /// Takes a diagnosis that was found; each is returned once.
    #[must_use]
    #[inline]
    pub fn take(&self) -> Option<Diagnosis> {
        let pending = self.pending.load(Relaxed);
        if pending == 0 {
            return None;
        }
        self.take_of(pending)
    }

    #[cold]
    fn take_of(&self, pending: u32) -> Option<Diagnosis> {
        Diagnosis::ALL.into_iter().find(|diagnosis| {
            let bit = diagnosis.bit();
            pending & bit != 0 && self.pending.fetch_and(!bit, Relaxed) & bit != 0
        })
    }

    /// Reports what was found, unless it was before.
    pub fn report(&self, diagnosis: Diagnosis) {
        let bit = diagnosis.bit();
        if self.found.load(Relaxed) & bit == 0 && self.found.fetch_or(bit, Relaxed) & bit == 0 {
            self.pending.fetch_or(bit, Relaxed);
        }
    }

    /// Returns whether a request's proxies are still looked at: until a window of requests has come
    /// from trusted peers, or one from others. On most servers all are of one kind.
    pub(crate) fn watches_proxies(&self) -> bool {
        !self.untrusted_proxy.is_judged() && !self.everybody_trusted.is_judged()
    }

    /// Notes whether a peer that is not trusted sent a forwarding field. From within a private
    /// network one such request is enough; on the internet, clients may do so as they like.
    pub(crate) fn note_untrusted_proxy(&self, forwards: bool, private: bool) {
        if self.untrusted_proxy.note(forwards) || (forwards && private) {
            self.report(Diagnosis::UntrustedProxy);
        }
    }

    /// Notes whether all that a trusted peer's proxies named was trusted too.
    pub(crate) fn note_trust(&self, everybody: bool) {
        if self.everybody_trusted.note(everybody) {
            self.report(Diagnosis::EverybodyTrusted);
        }
    }

    /// Marks a request as charged by the rules of this identity, and reports a second time. Only
    /// the first requests are marked, since a mark allocates.
    #[inline]
    pub fn note_charge(&self, extensions: &mut Extensions, rules: u64) {
        if self.marked.load(Relaxed) < MARKED {
            self.mark(extensions, rules);
        }
    }

    #[cold]
    fn mark(&self, extensions: &mut Extensions, rules: u64) {
        self.marked.fetch_add(1, Relaxed);
        let charged = extensions.get_or_insert_default::<ChargedBy>();
        if charged.0.contains(&rules) {
            self.report(Diagnosis::ChargedTwice);
        }
        charged.0.push(rules);
    }

    /// Notes that a limiter was built.
    pub fn note_build(&self) {
        let built = self.built.fetch_add(1, Relaxed).saturating_add(1);
        let decided = self.decided.load(Relaxed);
        if built == BUILDS && (BUILDS / 2..=2 * BUILDS).contains(&decided) {
            self.report(Diagnosis::LimiterPerRequest);
        }
    }

    /// Notes that a limiter decided a request.
    #[inline]
    pub fn note_decision(&self) {
        if self.decided.load(Relaxed) <= 2 * BUILDS {
            self.decided.fetch_add(1, Relaxed);
        }
    }
}

impl Default for SelfCheck {
    fn default() -> Self {
        Self::new()
    }
}

/// The rules that have charged a request.
#[derive(Clone, Debug, Default)]
struct ChargedBy(Vec<u64>);

/// Whether more than nine in ten of the first requests are of a kind.
#[derive(Debug)]
struct Share {
    seen: AtomicU32,
    hits: AtomicU32,
}

impl Share {
    const fn new() -> Self {
        Self {
            seen: AtomicU32::new(0),
            hits: AtomicU32::new(0),
        }
    }

    fn is_judged(&self) -> bool {
        self.seen.load(Relaxed) >= WINDOW
    }

    /// Counts a request; returns true at the end of the window if the share is that high.
    fn note(&self, hit: bool) -> bool {
        if self.is_judged() {
            return false;
        }
        let hits = self.hits.fetch_add(u32::from(hit), Relaxed) + u32::from(hit);
        self.seen.fetch_add(1, Relaxed) + 1 == WINDOW && hits > WINDOW / 10 * 9
    }

    fn clear(&self) {
        self.hits.store(0, Relaxed);
        self.seen.store(0, Relaxed);
    }
}

/// Finds out whether more than nine in ten of a rule's requests count for one key.
///
/// A window of requests votes for a candidate, as in Boyer and Moore's majority algorithm, and the
/// next one counts it. Gives up after the first 20,000 requests; from then on a request costs one
/// load. Not for rules by [`Global`](crate::Global), of which it is true.
#[derive(Debug)]
pub struct KeyShare {
    /// A hash of the candidate's key, no key.
    candidate: AtomicU64,
    votes: AtomicU32,
    voters: AtomicU32,
    share: Share,
    rounds: AtomicU32,
}

impl KeyShare {
    /// Returns one that has seen no request.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            candidate: AtomicU64::new(0),
            votes: AtomicU32::new(0),
            voters: AtomicU32::new(0),
            share: Share::new(),
            rounds: AtomicU32::new(0),
        }
    }

    /// Notes the key of a request, and reports to the check if it is everybody's.
    #[inline]
    pub fn note(&self, key: &Key, check: &SelfCheck) {
        if self.rounds.load(Relaxed) < ROUNDS {
            self.count(key, check);
        }
    }

    #[cold]
    fn count(&self, key: &Key, check: &SelfCheck) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let key = hasher.finish();
        if self.voters.load(Relaxed) < WINDOW {
            self.vote(key);
            return;
        }
        if self.share.note(key == self.candidate.load(Relaxed)) {
            self.rounds.store(ROUNDS, Relaxed);
            check.report(Diagnosis::OneKey);
        } else if self.share.is_judged() {
            self.rounds.fetch_add(1, Relaxed);
            self.share.clear();
            self.votes.store(0, Relaxed);
            self.voters.store(0, Relaxed);
        }
    }

    fn vote(&self, key: u64) {
        self.voters.fetch_add(1, Relaxed);
        if self.votes.load(Relaxed) == 0 {
            self.candidate.store(key, Relaxed);
        }
        if self.candidate.load(Relaxed) == key {
            self.votes.fetch_add(1, Relaxed);
        } else {
            // Lost to another thread at zero, the vote is not counted: it must not wrap.
            _ = self
                .votes
                .fetch_update(Relaxed, Relaxed, |votes| votes.checked_sub(1));
        }
    }
}

impl Default for KeyShare {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(check: &SelfCheck) -> Vec<Diagnosis> {
        std::iter::from_fn(|| check.take()).collect()
    }

    #[test]
    fn each_diagnosis_is_told_once_with_its_code_and_what_to_do() {
        let check = SelfCheck::new();
        for diagnosis in Diagnosis::ALL.into_iter().chain(Diagnosis::ALL) {
            check.report(diagnosis);
        }
        assert_eq!(taken(&check), Diagnosis::ALL);
        Diagnosis::ALL
            .into_iter()
            .for_each(|diagnosis| check.report(diagnosis));
        assert_eq!(taken(&check), []);
        for diagnosis in Diagnosis::ALL {
            assert!(
                diagnosis
                    .to_string()
                    .starts_with(&format!("{}: ", diagnosis.code()))
            );
            assert!(diagnosis.sentence().contains(": ") && !diagnosis.sentence().ends_with('.'));
        }
    }

    #[test]
    fn a_private_peer_that_forwards_is_a_proxy_at_once_and_a_public_one_in_the_long_run() {
        let check = SelfCheck::new();
        check.note_untrusted_proxy(false, true);
        assert_eq!(taken(&check), []);
        check.note_untrusted_proxy(true, true);
        assert_eq!(taken(&check), [Diagnosis::UntrustedProxy]);

        for (forwarding, expected) in [(901, vec![Diagnosis::UntrustedProxy]), (900, vec![])] {
            let check = SelfCheck::new();
            (0..1_000).for_each(|n| check.note_untrusted_proxy(n < forwarding, false));
            assert_eq!(taken(&check), expected, "{forwarding} of 1,000 requests");
        }
    }

    #[test]
    fn proxies_are_watched_for_a_thousand_requests_of_either_kind() {
        for trusted in [true, false] {
            let check = SelfCheck::new();
            for _ in 0..1_000 {
                assert!(check.watches_proxies());
                if trusted {
                    check.note_trust(false);
                } else {
                    check.note_untrusted_proxy(false, false);
                }
            }
            assert!(!check.watches_proxies());
        }
    }

    #[test]
    fn trusting_everybody_is_told_after_a_thousand_requests() {
        let check = SelfCheck::new();
        (0..999).for_each(|_| check.note_trust(true));
        assert_eq!(taken(&check), []);
        check.note_trust(true);
        assert_eq!(taken(&check), [Diagnosis::EverybodyTrusted]);
    }

    #[test]
    fn a_key_that_takes_more_than_nine_in_ten_requests_is_told() {
        for (of_hundred, expected) in [(92, vec![Diagnosis::OneKey]), (89, vec![]), (40, vec![])] {
            let (check, share) = (SelfCheck::new(), KeyShare::new());
            for n in 0..20_000u64 {
                let key = if n % 100 < of_hundred {
                    Key::from("proxy")
                } else {
                    Key::from(n)
                };
                share.note(&key, &check);
            }
            assert_eq!(taken(&check), expected, "{of_hundred} %");
            (0..5_000u64).for_each(|_| share.note(&Key::from("proxy"), &check));
            assert_eq!(taken(&check), [], "nothing is looked for any more");
        }
    }

    #[test]
    fn votes_for_an_earlier_key_do_not_hide_a_later_one() {
        let (check, share) = (SelfCheck::new(), KeyShare::new());
        for n in 0..20_000u64 {
            let (name, of_hundred) = if n < 14_000 {
                ("earlier", 89)
            } else {
                ("later", 95)
            };
            let key = if n % 100 < of_hundred {
                Key::from(name)
            } else {
                Key::from(n)
            };
            share.note(&key, &check);
        }
        assert_eq!(taken(&check), [Diagnosis::OneKey]);
    }

    #[test]
    fn a_request_that_the_same_rules_charge_twice_is_told() {
        let check = SelfCheck::new();
        let mut extensions = Extensions::new();
        check.note_charge(&mut extensions, 1);
        check.note_charge(&mut extensions, 2);
        assert_eq!(
            taken(&check),
            [],
            "two layers with their own rules are fine"
        );
        check.note_charge(&mut extensions, 1);
        assert_eq!(taken(&check), [Diagnosis::ChargedTwice]);
    }

    #[test]
    fn only_the_first_requests_are_marked() {
        let check = SelfCheck::new();
        (0..MARKED).for_each(|_| check.note_charge(&mut Extensions::new(), 1));
        let mut extensions = Extensions::new();
        check.note_charge(&mut extensions, 1);
        assert!(extensions.is_empty(), "a mark allocates");
    }

    #[test]
    fn limiters_built_for_every_request_are_told_and_many_built_at_the_start_are_not() {
        let check = SelfCheck::new();
        for _ in 0..BUILDS {
            check.note_build();
            check.note_decision();
        }
        assert_eq!(taken(&check), [Diagnosis::LimiterPerRequest]);

        let check = SelfCheck::new();
        (0..BUILDS).for_each(|_| check.note_build());
        (0..BUILDS).for_each(|_| check.note_decision());
        assert_eq!(taken(&check), []);

        let check = SelfCheck::new();
        for _ in 0..BUILDS {
            check.note_build();
            (0..10).for_each(|_| check.note_decision());
        }
        assert_eq!(taken(&check), []);
    }
}
