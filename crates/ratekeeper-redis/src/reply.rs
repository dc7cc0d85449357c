//! What the server answered, in the words of the core.
//!
//! The script decides and reports the state that is left; durations and the units that remain are
//! worked out here, in 128 bits.

use std::time::Duration;

use ratekeeper_core::algorithm::Moment;
use ratekeeper_core::{
    Answer, Decision, Limit, Mode, Numbers as Prepared, Outcome, Quota, Receipt, Standing,
    StoreError, StoreErrorKind, Wait,
};
use redis::Value;

use crate::bounds::{Kind, Numbers};
use crate::request::{Asked, Request};

/// Numbers that the script answers for each claim.
const PER_CLAIM: usize = 7;

/// Numbers more for each claim that those of a newer generation decided.
const PER_NEWER: usize = 5;

/// Reads the answer to a request.
pub(crate) fn read(request: Request, value: &Value) -> Result<Answer, StoreError> {
    let nonsense = || StoreError::with_source(StoreErrorKind::Fault, "the script's answer");
    let Value::Array(values) = value else {
        return Err(nonsense());
    };
    let mut numbers: Vec<i64> = values
        .iter()
        .filter_map(|value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        })
        .collect();
    if let ([claim], [admitted, stamp, level]) = (&request.claims[..], &numbers[..]) {
        // The short way's answer, with the level in 1/units microseconds.
        let units = claim.numbers.units.max(1);
        numbers = vec![*admitted, 0, *stamp, level / units, level % units, 0, 0];
    }
    let (reports, newer) = numbers
        .split_at_checked(PER_CLAIM * request.claims.len())
        .ok_or_else(nonsense)?;
    let newer: Vec<(usize, Numbers)> = newer
        .chunks(PER_NEWER)
        .map(read_newer)
        .collect::<Option<_>>()
        .ok_or_else(nonsense)?;
    let mut decision = Decision::UNLIMITED;
    let mut admitted = Vec::with_capacity(request.claims.len());
    let reports = reports.chunks(PER_CLAIM).enumerate();
    for (claim, (place, report)) in request.claims.iter().zip(reports) {
        let report = Report::new(report).ok_or_else(nonsense)?;
        let deciding = newer.iter().find(|(newer, _)| *newer == place);
        let numbers = deciding.map_or(&claim.numbers, |(_, numbers)| numbers);
        let outcome = report.outcome(claim, numbers).ok_or_else(nonsense)?;
        decision.push(outcome, claim.mode == Mode::Shadowed);
        admitted.push(report.admitted.then_some(report.stamp));
    }
    let mut receipts = Vec::new();
    if decision.is_allowed() && !request.peek {
        receipts.reserve(request.claims.len());
        for (claim, stamp) in request.claims.into_iter().zip(admitted) {
            let units = claim.cost.charged();
            if let Some(stamp) = stamp
                && (claim.settles || units > 0)
            {
                receipts.push(Receipt {
                    limit: claim.limit,
                    key: claim.key,
                    units,
                    stamp,
                });
            }
        }
    }
    Ok(Answer { decision, receipts })
}

/// Returns the place of a claim, and the numbers that decided it instead of its own.
fn read_newer(newer: &[i64]) -> Option<(usize, Numbers)> {
    let [claim, letter, period, units, capacity] = *newer else {
        return None;
    };
    let numbers = Numbers {
        kind: Kind::of_letter(u8::try_from(letter).ok()?)?,
        period: u64::try_from(period).ok()?,
        units,
        capacity: u64::try_from(capacity).ok()?,
    };
    // They are divisors.
    let can_divide = numbers.period > 0 && (numbers.kind != Kind::Bucket || units > 0);
    let claim = usize::try_from(claim).ok()?.checked_sub(1)?;
    can_divide.then_some((claim, numbers))
}

/// The seven numbers of a claim.
struct Report {
    admitted: bool,
    /// Microseconds by which the key's own time is ahead of the server's.
    ahead: u64,
    stamp: u64,
    x: u64,
    y: u64,
    z: u64,
    /// Negative: never.
    w: i64,
}

/// How a key stands, in units and microseconds.
struct Micros {
    remaining: u64,
    next: u64,
    reset: u64,
    wait: u64,
}

impl Report {
    fn new(numbers: &[i64]) -> Option<Self> {
        let [admitted, ahead, stamp, x, y, z, w] = *numbers else {
            return None;
        };
        let number = |number: i64| u64::try_from(number).ok();
        Some(Self {
            admitted: admitted == 1,
            ahead: number(ahead)?,
            stamp: number(stamp)?,
            x: number(x)?,
            y: number(y)?,
            z: number(z)?,
            w,
        })
    }

    /// Returns the outcome by the numbers that decided.
    fn outcome(&self, claim: &Asked, numbers: &Numbers) -> Option<Outcome> {
        let cost = claim.cost.needed();
        let micros = match numbers.kind {
            Kind::Bucket => self.bucket(numbers, cost),
            Kind::Window | Kind::Calendar => self.window(numbers),
            Kind::Counter => self.counter(claim, numbers, cost)?,
            Kind::Log => self.log(numbers),
        };
        // What is ahead has to pass first, wherever anything has to.
        let nanos = |micros: u64| {
            if micros == 0 {
                0
            } else {
                (micros + self.ahead).saturating_mul(1000)
            }
        };
        let standing = Standing {
            remaining: micros.remaining,
            next: if micros.remaining >= numbers.capacity {
                0
            } else {
                nanos(micros.next)
            },
            reset: nanos(micros.reset),
        };
        let never = cost > numbers.capacity || self.w < 0;
        let wait = match (self.admitted, never) {
            (true, _) => Wait::None,
            (false, true) => Wait::Never,
            (false, false) => Wait::For(Duration::from_nanos(nanos(micros.wait.max(1)))),
        };
        Some(Outcome::new(standing, wait))
    }

    /// x + y/units is the level in microseconds.
    fn bucket(&self, numbers: &Numbers, cost: u64) -> Micros {
        let (period, units) = (
            u128::from(numbers.period),
            u128::from(numbers.units.unsigned_abs()),
        );
        let level = u128::from(self.x) * units + u128::from(self.y);
        let capacity = u128::from(numbers.capacity) * period;
        let wait = |cost: u64| {
            let excess = (level + u128::from(cost) * period).saturating_sub(capacity);
            micros(excess.div_ceil(units))
        };
        let remaining = micros(capacity.saturating_sub(level) / period);
        Micros {
            remaining,
            next: wait(remaining.saturating_add(1)),
            reset: micros(level.div_ceil(units)),
            wait: wait(cost),
        }
    }

    /// x is the time until the window ends, y its count.
    fn window(&self, numbers: &Numbers) -> Micros {
        Micros {
            remaining: numbers.capacity.saturating_sub(self.y),
            next: self.x,
            reset: if self.y == 0 { 0 } else { self.x },
            wait: self.x,
        }
    }

    /// x is the units in use, y the time to fresh, z the time until more fits, w that until this does.
    fn log(&self, numbers: &Numbers) -> Micros {
        Micros {
            remaining: numbers.capacity.saturating_sub(self.x),
            next: self.z,
            reset: self.y,
            wait: self.w.unsigned_abs(),
        }
    }

    /// x is the time since the window began, y and z the units of the previous and this one.
    fn counter(&self, claim: &Asked, numbers: &Numbers, cost: u64) -> Option<Micros> {
        let newer;
        let limit = if *numbers == claim.numbers {
            &claim.limit
        } else {
            let window = Duration::from_micros(numbers.period);
            let quota = Quota::try_new(numbers.capacity, window).ok()?;
            newer = Limit::sliding_counter(claim.limit.name(), quota).ok()?;
            &newer
        };
        let Prepared::Fixed { fixed, .. } = limit.numbers() else {
            return None;
        };
        let words = [0, self.y << 32 | self.z];
        let moment = Moment::at(self.x.saturating_mul(1000));
        let standing = fixed.standing(words, moment);
        let wait = match fixed.wait(words, moment, cost) {
            Wait::For(wait) => micros(wait.as_nanos().div_ceil(1000)),
            Wait::None | Wait::Unknown | Wait::Never => 0,
        };
        Some(Micros {
            remaining: standing.remaining,
            next: standing.next.div_ceil(1000),
            reset: standing.reset.div_ceil(1000),
            wait,
        })
    }
}

fn micros(micros: u128) -> u64 {
    u64::try_from(micros).unwrap_or(u64::MAX)
}

/// Returns the units of a settlement that were not charged: what the script counted, and what was
/// too much to tell it.
pub(crate) fn clipped(asked: u64, value: &Value) -> u64 {
    let counted = match value {
        Value::Int(counted) => u64::try_from(*counted).unwrap_or(0),
        _ => 0,
    };
    counted.saturating_add(asked.saturating_sub(crate::bounds::MAX_EXACT))
}
