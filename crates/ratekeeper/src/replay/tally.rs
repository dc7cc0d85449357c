//! Counts of what was decided: by rule, by key, by client and over time.

use ratekeeper_core::{Decision, Outcome, Wait};

use super::names::KeyRef;
use super::source::Request;
use crate::rules::Rule;
use crate::series::{Grid, Series};

/// How many keys are followed over time, to show the most limited of them.
const TRACES: usize = 8;

/// Stands for a wait that never ends.
pub(super) const NEVER: u64 = u64::MAX;

/// What one rule did to one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) spread: u64,
    /// Nanoseconds; [`NEVER`] when no wait would do.
    pub(super) longest_wait: u64,
    /// When the first and the last refusal were; without one both are zero.
    pub(super) first: i64,
    pub(super) last: i64,
    /// The period that requests are being counted in, as a number of periods since the epoch.
    period: i64,
    in_period: u32,
    pub(super) peak: u32,
}

impl Row {
    fn request(&mut self, period: i64, units: u32) {
        self.requests += 1;
        if self.period != period || self.in_period == 0 {
            self.period = period;
            self.in_period = 0;
        }
        self.in_period = self.in_period.saturating_add(units);
        self.peak = self.peak.max(self.in_period);
    }

    fn refusal(&mut self, time: i64, wait: u64) {
        self.first = if self.refused == 0 { time } else { self.first };
        self.last = time;
        self.refused += 1;
        self.longest_wait = self.longest_wait.max(wait);
    }
}

/// What one rule did.
#[derive(Debug, Default)]
pub(super) struct RuleTally {
    pub(super) all: Row,
    /// Requests that the rule would apply to, had they a key.
    pub(super) unkeyed: u64,
    pub(super) rows: Vec<Row>,
    pub(super) others: Row,
    pub(super) over_time: Series,
    capacity: u64,
    period: i64,
    /// Units of a request.
    cost: u32,
}

impl RuleTally {
    fn row(&mut self, row: u32) -> &mut Row {
        if row == KeyRef::OTHERS {
            return &mut self.others;
        }
        let row = row as usize;
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Row::default());
        }
        &mut self.rows[row]
    }
}

/// What became of one client's requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientRow {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) spread: u64,
}

/// How full one key's limit was over time.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) rule: usize,
    pub(super) row: u32,
    /// The highest level in each interval and one, so that zero means no request.
    pub(super) levels: Series,
}

#[derive(Debug)]
pub(super) struct Tally {
    pub(super) decided: u64,
    pub(super) refused: u64,
    pub(super) spread: u64,
    /// Requests whose time is known more exactly than to the second.
    pub(super) exact: u64,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) rules: Vec<RuleTally>,
    pub(super) clients: Vec<ClientRow>,
    pub(super) other_clients: ClientRow,
    pub(super) grid: Grid,
    pub(super) offered: Series,
    pub(super) refused_over_time: Series,
    pub(super) spread_over_time: Series,
    pub(super) traces: Vec<Trace>,
    /// The interval of the second being counted.
    interval: usize,
}

impl Tally {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let rule = |rule: &Rule| RuleTally {
            capacity: rule.limit.capacity(),
            period: i64::try_from(rule.limit.quota().period().as_nanos()).unwrap_or(i64::MAX),
            cost: u32::try_from(rule.cost).unwrap_or(u32::MAX),
            ..RuleTally::default()
        };
        Self {
            decided: 0,
            refused: 0,
            spread: 0,
            exact: 0,
            first: 0,
            last: 0,
            rules: rules.iter().map(rule).collect(),
            clients: Vec::new(),
            other_clients: ClientRow::default(),
            grid: Grid::default(),
            offered: Series::default(),
            refused_over_time: Series::default(),
            spread_over_time: Series::default(),
            traces: Vec::new(),
            interval: 0,
        }
    }

    /// Begins the next second.
    pub(super) fn second(&mut self, second: i64) {
        let (interval, fold) = self.grid.place(second);
        self.interval = interval;
        let Some(fold) = fold else { return };
        let sums = [
            &mut self.offered,
            &mut self.refused_over_time,
            &mut self.spread_over_time,
        ];
        let by_rule = self.rules.iter_mut().map(|rule| &mut rule.over_time);
        sums.into_iter()
            .chain(by_rule)
            .for_each(|series| series.fold(fold, |one, other| one + other));
        self.traces
            .iter_mut()
            .for_each(|trace| trace.levels.fold(fold, u64::max));
    }

    /// Counts a request that a rule would apply to but for its key.
    pub(super) fn unkeyed(&mut self, rule: usize) {
        self.rules[rule].unkeyed += 1;
    }

    /// Counts the decision at the logged time; `claims` says which rule and key each outcome is of.
    pub(super) fn at_once(
        &mut self,
        time: i64,
        request: Request,
        client: KeyRef,
        claims: &[(usize, KeyRef)],
        decision: &Decision,
    ) {
        self.first = if self.decided == 0 { time } else { self.first };
        self.last = time;
        self.decided += 1;
        self.exact += u64::from(!request.whole_second);
        *self.offered.at(self.interval) += 1;
        let refused = !decision.is_allowed();
        self.refused += u64::from(refused);
        *self.refused_over_time.at(self.interval) += u64::from(refused);
        if let Some(client) = self.client(client) {
            client.requests += 1;
            client.refused += u64::from(refused);
        }
        for ((rule, key), outcome) in claims.iter().zip(decision.outcomes()) {
            self.outcome(time, *rule, *key, outcome);
        }
    }

    fn outcome(&mut self, time: i64, index: usize, key: KeyRef, outcome: &Outcome) {
        let rule = &mut self.rules[index];
        let period = time.div_euclid(rule.period);
        rule.all.request(period, rule.cost);
        let cost = rule.cost;
        rule.row(key.row).request(period, cost);
        if !outcome.is_allowed() {
            let wait = match outcome.wait() {
                Wait::For(wait) => u64::try_from(wait.as_nanos()).unwrap_or(NEVER),
                Wait::None => 0,
                Wait::Unknown | Wait::Never => NEVER,
            };
            rule.all.refusal(time, wait);
            *rule.over_time.at(self.interval) += 1;
            let row = rule.row(key.row);
            row.refusal(time, wait);
            if key.row != KeyRef::OTHERS {
                let refused = row.refused;
                self.follow(index, key.row, refused);
            }
        }
        if let Some(trace) = self
            .traces
            .iter_mut()
            .find(|trace| trace.row == key.row && trace.rule == index)
        {
            let level = self.rules[index]
                .capacity
                .saturating_sub(outcome.remaining());
            let most = trace.levels.at(self.interval);
            *most = (*most).max(level.saturating_add(1));
        }
    }

    /// Follows the key from here on, if it is among the most limited.
    ///
    /// A followed key gives way only to one that was refused far more often, so that two alike do
    /// not keep displacing each other.
    fn follow(&mut self, rule: usize, row: u32, refused: u64) {
        if self
            .traces
            .iter()
            .any(|trace| trace.row == row && trace.rule == rule)
        {
            return;
        }
        let trace = Trace {
            rule,
            row,
            levels: Series::default(),
        };
        if self.traces.len() < TRACES {
            self.traces.push(trace);
            return;
        }
        let refusals = |trace: &Trace| self.rules[trace.rule].rows[trace.row as usize].refused;
        let least = self
            .traces
            .iter()
            .enumerate()
            .min_by_key(|(_, trace)| refusals(trace));
        if let Some((index, least)) = least
            && refused > 2 * refusals(least) + 8
        {
            self.traces[index] = trace;
        }
    }

    /// Counts the decision at the time within its second that spreading gives.
    pub(super) fn spread(
        &mut self,
        client: KeyRef,
        claims: &[(usize, KeyRef)],
        decision: &Decision,
    ) {
        if decision.is_allowed() {
            return;
        }
        self.spread += 1;
        *self.spread_over_time.at(self.interval) += 1;
        if let Some(client) = self.client(client) {
            client.spread += 1;
        }
        for ((rule, key), outcome) in claims.iter().zip(decision.outcomes()) {
            if !outcome.is_allowed() {
                let rule = &mut self.rules[*rule];
                rule.all.spread += 1;
                rule.row(key.row).spread += 1;
            }
        }
    }

    fn client(&mut self, client: KeyRef) -> Option<&mut ClientRow> {
        match client {
            KeyRef::NONE => None,
            KeyRef {
                row: KeyRef::OTHERS,
                ..
            } => Some(&mut self.other_clients),
            KeyRef { row, .. } => {
                let row = row as usize;
                if self.clients.len() <= row {
                    self.clients.resize(row + 1, ClientRow::default());
                }
                Some(&mut self.clients[row])
            }
        }
    }
}
