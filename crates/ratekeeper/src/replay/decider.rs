//! Decides requests twice, as logged and spread over their seconds, and counts what came of it.

use super::engine::Engine;
use super::names::{ByPrint, KeyRef};
use super::source::Request;
use super::tally::Tally;
use super::{ReplayError, Settings};
use crate::rules::Rule;
use crate::time::SECOND;

/// Whole seconds of requests in order, ready to be decided.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Each second, and where its requests end.
    pub(super) seconds: Vec<(i64, usize)>,
    /// When each request was logged, in nanoseconds since the Unix epoch.
    pub(super) requests: Vec<(i64, Request)>,
    /// The keys of each request, as many for every one: the client's first.
    pub(super) keys: Vec<KeyRef>,
}

pub(super) struct Decider<'a> {
    rules: &'a [Rule],
    kind_of_rule: Vec<usize>,
    /// Keys that each request has.
    stride: usize,
    pub(super) tally: Tally,
    at_once: Engine,
    spread: Engine,
    /// Scratch: rule and key of each claim of one request.
    claimed: Vec<(usize, KeyRef)>,
    /// Scratch: how many requests each client has in a second, and how many have been placed.
    counts: ByPrint<(i64, i64)>,
    /// Scratch: the requests of a second in the order that spreading gives.
    times: Vec<(i64, usize)>,
}

impl<'a> Decider<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        kind_of_rule: Vec<usize>,
        stride: usize,
    ) -> Result<Self, ReplayError> {
        Ok(Self {
            rules: &settings.rules,
            kind_of_rule,
            stride,
            tally: Tally::new(&settings.rules),
            at_once: Engine::new(settings.keys, &settings.rules)?,
            spread: Engine::new(settings.keys, &settings.rules)?,
            claimed: Vec::new(),
            counts: ByPrint::default(),
            times: Vec::new(),
        })
    }

    pub(super) fn evicted(&self) -> u64 {
        self.at_once.evicted()
    }

    pub(super) fn batch(&mut self, batch: &Batch) -> Result<(), ReplayError> {
        let mut begin = 0;
        for (second, end) in &batch.seconds {
            let requests = &batch.requests[begin..*end];
            self.second(
                *second,
                requests,
                &batch.keys[begin * self.stride..*end * self.stride],
            )?;
            begin = *end;
        }
        Ok(())
    }

    fn second(
        &mut self,
        second: i64,
        requests: &[(i64, Request)],
        keys: &[KeyRef],
    ) -> Result<(), ReplayError> {
        self.tally.second(second);
        for ((time, request), keys) in requests.iter().zip(keys.chunks_exact(self.stride)) {
            self.claim(*request, keys, true);
            let decision = self.at_once.decide(*time, self.rules, &self.claimed)?;
            self.tally
                .at_once(*time, *request, keys[0], &self.claimed, &decision);
        }
        self.spread_times(requests, keys);
        for index in 0..self.times.len() {
            let (time, place) = self.times[index];
            let keys = &keys[place * self.stride..][..self.stride];
            self.claim(requests[place].1, keys, false);
            let decision = self.spread.decide(time, self.rules, &self.claimed)?;
            self.tally.spread(keys[0], &self.claimed, &decision);
        }
        Ok(())
    }

    /// Gives each request the time that spreading its client's requests evenly over the second
    /// gives. A time known more exactly than to the second stays as it is.
    fn spread_times(&mut self, requests: &[(i64, Request)], keys: &[KeyRef]) {
        self.times.clear();
        if let [(time, _)] = requests {
            self.times.push((*time, 0));
            return;
        }
        self.counts.clear();
        let clients = || keys.chunks_exact(self.stride).map(|keys| keys[0].print);
        for (_, client) in requests
            .iter()
            .zip(clients())
            .filter(|((_, request), _)| request.whole_second)
        {
            self.counts.entry(client).or_default().0 += 1;
        }
        for (index, ((time, request), client)) in requests.iter().zip(clients()).enumerate() {
            let offset = match self.counts.get_mut(&client) {
                Some((count, placed)) if request.whole_second => {
                    *placed += 1;
                    // The product fits: a second holds fewer than 2^32 requests.
                    SECOND * (*placed - 1) / *count
                }
                _ => 0,
            };
            self.times.push((time + offset, index));
        }
        if !self.times.is_sorted() {
            self.times.sort_unstable();
        }
    }

    /// Puts the rules that apply to a request, with their keys, into `claimed`.
    fn claim(&mut self, request: Request, keys: &[KeyRef], count: bool) {
        self.claimed.clear();
        let mut rules = request.rules;
        while rules != 0 {
            let rule = rules.trailing_zeros() as usize;
            rules &= rules - 1;
            match keys[self.kind_of_rule[rule]] {
                KeyRef::NONE if count => self.tally.unkeyed(rule),
                KeyRef::NONE => {}
                key => self.claimed.push((rule, key)),
            }
        }
    }
}
