//! The fixed window: a count, and the window that it belongs to.

use super::{Charge, Oracle, Terms, calendar, exact};

/// Where the windows of a [`FixedWindow`] begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// A window begins with a key's first charged request and lasts one period.
    FromFirstRequest,
    /// Windows are the minutes, hours, … of a calendar; the period is ignored.
    Calendar {
        /// What one window is.
        unit: calendar::Unit,
        /// Seconds by which local time is ahead of UTC.
        offset: i32,
        /// The Unix time, in nanoseconds, of time 0.
        unix_at_zero: u64,
    },
}

/// The fixed window: at most `units` in each window, all of them free again when it ends.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    terms: Terms,
    windows: Windows,
    /// The window that something was charged in, and how much. None when nothing was, or it was all refunded.
    window: Option<Window>,
}

/// Half-open: `end` is the first instant of the next window. Signed and wide, because a calendar window may begin before time 0.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: i128,
    end: i128,
    used: u128,
}

impl FixedWindow {
    /// Returns a key without a window.
    #[must_use]
    pub fn new(terms: Terms, windows: Windows) -> Self {
        Self {
            terms,
            windows,
            window: None,
        }
    }

    fn window_from(&self, now: u64) -> Window {
        let now = i128::from(now);
        let (start, end) = match self.windows {
            Windows::FromFirstRequest => (now, now + i128::from(self.terms.period)),
            Windows::Calendar {
                unit,
                offset,
                unix_at_zero,
            } => {
                let zero = i128::from(unix_at_zero);
                let (start, end) = calendar::window(unit, offset, now + zero);
                (start - zero, end - zero)
            }
        };
        Window {
            start,
            end,
            used: 0,
        }
    }

    /// The window that stands at `now`, if any.
    fn current(&self, now: u64) -> Option<Window> {
        self.window.filter(|window| i128::from(now) < window.end)
    }

    fn used(&self, now: u64) -> u128 {
        self.current(now).map_or(0, |window| window.used)
    }

    fn until_end(&self, now: u64) -> u64 {
        self.current(now).map_or(0, |window| {
            self.terms.up(&exact(window.end - i128::from(now)))
        })
    }
}

impl Oracle for FixedWindow {
    fn capacity(&self) -> u64 {
        self.terms.units
    }

    fn admits(&self, now: u64, cost: u64) -> bool {
        self.used(now) + u128::from(cost) <= u128::from(self.terms.units)
    }

    fn remaining(&self, now: u64) -> u64 {
        let left = u128::from(self.terms.units).saturating_sub(self.used(now));
        u64::try_from(left).expect("at most the units of a window")
    }

    fn reset(&self, now: u64) -> u64 {
        self.until_end(now)
    }

    fn wait(&self, now: u64, cost: u64) -> u64 {
        if self.admits(now, cost) {
            0
        } else {
            self.until_end(now)
        }
    }

    fn charge(&mut self, now: u64, units: u64) {
        let mut window = self.current(now).unwrap_or_else(|| self.window_from(now));
        window.used += u128::from(units);
        self.window = Some(window);
    }

    fn overdraw(&mut self, now: u64, units: u64, max_debt: u64) -> u64 {
        let most = u128::from(self.terms.units) + u128::from(max_debt);
        let room = most.saturating_sub(self.used(now));
        let charged = units.min(u64::try_from(room).unwrap_or(u64::MAX));
        if charged > 0 {
            self.charge(now, charged);
        }
        units - charged
    }

    fn refund(&mut self, now: u64, charge: Charge) {
        self.window = self.current(now).and_then(|mut window| {
            if i128::from(charge.at) >= window.start {
                window.used = window.used.saturating_sub(u128::from(charge.units));
            }
            (window.used > 0).then_some(window)
        });
    }

    fn change(&mut self, now: u64, terms: Terms) {
        self.window = self.current(now);
        self.terms = terms;
        if let (Some(window), Windows::FromFirstRequest) = (&mut self.window, self.windows) {
            window.end = window.start + i128::from(terms.period);
        }
    }
}
