//! Findings and explanations as text for people, as JSON and as an HTML report.

pub(crate) mod html;
pub(crate) mod human;
pub(crate) mod json;
mod table;

use std::fmt;

use crate::replay::Range;

/// Colors, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colored: bool,
}

impl Style {
    pub(crate) fn new(colored: bool) -> Self {
        Self { colored }
    }

    fn paint(self, code: &str, text: impl fmt::Display) -> String {
        if self.colored {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    fn bold(self, text: impl fmt::Display) -> String {
        self.paint("1", text)
    }

    fn warning(self, text: impl fmt::Display) -> String {
        self.paint("33", text)
    }
}

/// Prints a whole number with commas between thousands.
struct Count<T>(T);

impl<T: fmt::Display> fmt::Display for Count<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut shown = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                shown.push(',');
            }
            shown.push(digit);
        }
        f.pad(&shown)
    }
}

/// Prints a share in percent: one digit behind the point, `0 %` and `100 %` only when that is exact.
struct Percent(u64, u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part, whole) = *self;
        if part == 0 || whole == 0 {
            return f.pad("0 %");
        }
        if part >= whole {
            return f.pad("100 %");
        }
        let tenths = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
        match tenths {
            0 => f.pad("<0.1 %"),
            1_000 => f.pad(">99.9 %"),
            tenths => f.pad(&format!("{}.{} %", tenths / 10, tenths % 10)),
        }
    }
}

/// Prints a range of counts, the smaller first: `120 to 133`, or `133` when both are the same.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (self.at_once.min(self.spread), self.at_once.max(self.spread));
        if least == most {
            f.pad(&Count(most).to_string())
        } else {
            f.pad(&format!("{} to {}", Count(least), Count(most)))
        }
    }
}

/// Returns a range's share of a whole: `7.8 % to 8.7 %`.
fn share(range: Range, whole: u64) -> String {
    let (least, most) = (
        range.at_once.min(range.spread),
        range.at_once.max(range.spread),
    );
    let (least, most) = (
        Percent(least, whole).to_string(),
        Percent(most, whole).to_string(),
    );
    if least == most {
        most
    } else {
        format!("{least} to {most}")
    }
}

/// Returns a plural `s` unless there is one.
fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Prints a number with three significant digits, and whole above that: `0.125`, `12.5`, `99,800`.
struct Rate(f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = match self.0 {
            value if value >= 100.0 => Count(format!("{value:.0}")).to_string(),
            value if value >= 10.0 => format!("{value:.1}"),
            value if value >= 1.0 => format!("{value:.2}"),
            value => format!("{value:.3}"),
        };
        let shown = if shown.contains('.') {
            shown.trim_end_matches('0').trim_end_matches('.')
        } else {
            &shown
        };
        f.pad(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_pretend() {
        assert_eq!(Count(1_234_567u64).to_string(), "1,234,567");
        assert_eq!(Count(100u64).to_string(), "100");
        assert_eq!(Percent(1, 3).to_string(), "33.3 %");
        assert_eq!(Percent(1, 1_000_000).to_string(), "<0.1 %");
        assert_eq!(Percent(999_999, 1_000_000).to_string(), ">99.9 %");
        assert_eq!(Percent(0, 0).to_string(), "0 %");
        assert_eq!(Percent(5, 5).to_string(), "100 %");
        assert_eq!(
            [Rate(99_800.0), Rate(12.5), Rate(2.0), Rate(0.125)].map(|rate| rate.to_string()),
            ["99,800", "12.5", "2", "0.125"]
        );
        assert_eq!(
            Range {
                at_once: 1_333,
                spread: 120
            }
            .to_string(),
            "120 to 1,333"
        );
        assert_eq!(
            share(
                Range {
                    at_once: 5,
                    spread: 5
                },
                10
            ),
            "50.0 %"
        );
    }
}
