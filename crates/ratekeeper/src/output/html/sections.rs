//! The parts of the report, each a plot or bars with the same figures in a table beside it.

use std::error::Error;

use super::plot::{Bar, Ink, Line, Plot, Size, both};
use super::table::{Cell, table};
use crate::escape::html;
use crate::output::human::wait;
use crate::output::{Count, Percent, share};
use crate::replay::{Bin, Distribution, Findings, Level, Range};
use crate::rules::Rule;
use crate::time::{SECOND, Span, Utc};

/// Rows of a table over time.
const ROWS: usize = 24;

type Section = Result<String, Box<dyn Error>>;

/// The most intervals that a plot of this size shows.
fn most_bars(size: Size) -> usize {
    match size {
        Size::Wide => 160,
        Size::Narrow => 70,
    }
}

/// Intervals merged so that at most `most` are left.
struct Merged {
    start: i64,
    seconds: i64,
    offered: u64,
    refused: Range,
}

fn merge(bins: &[Bin], width: i64, most: usize) -> Vec<Merged> {
    let factor = bins.len().div_ceil(most).max(1);
    let merged = bins.chunks(factor).map(|bins| Merged {
        start: bins.first().map_or(0, |bin| bin.start),
        seconds: width.saturating_mul(i64::try_from(bins.len()).unwrap_or(1)),
        offered: bins.iter().map(|bin| bin.offered).sum(),
        refused: Range {
            at_once: bins.iter().map(|bin| bin.refused.at_once).sum(),
            spread: bins.iter().map(|bin| bin.refused.spread).sum(),
        },
    });
    merged.collect()
}

/// Returns how long the merged intervals are, in words.
fn length(found: &Findings, most: usize) -> String {
    let factor = found.bins.len().div_ceil(most).max(1) as u64;
    Span(
        found
            .width
            .unsigned_abs()
            .saturating_mul(factor)
            .saturating_mul(SECOND.unsigned_abs()),
    )
    .to_string()
}

/// A number for a plot; counts beyond 2^53 are rounded, which no eye can tell.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
fn number(value: u64) -> f64 {
    value as f64
}

/// Seconds for a plot.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
fn place(seconds: i64) -> f64 {
    seconds as f64
}

pub(super) fn over_time(found: &Findings) -> Section {
    let plot = |size: Size| {
        let merged = merge(&found.bins, found.width, most_bars(size));
        let bars = merged.iter().map(|bin| Bar {
            from: place(bin.start),
            to: place(bin.start + bin.seconds),
            parts: vec![
                (Ink::Admitted, number(bin.offered - bin.refused.at_once)),
                (Ink::Refused, number(bin.refused.at_once)),
            ],
        });
        time_plot(found, size, bars.collect(), Vec::new())
    };
    let drawn = both(
        "Requests over time: admitted, and refused on top of them. The table has the figures.",
        plot,
    )?;
    let rows = merge(&found.bins, found.width, ROWS)
        .into_iter()
        .map(|bin| {
            vec![
                Cell::Plain(time(bin.start)),
                Cell::Plain(Count(bin.offered).to_string()),
                Cell::Plain(Count(bin.offered - bin.refused.at_once).to_string()),
                Cell::Plain(bin.refused.to_string()),
            ]
        });
    let caption = format!("Requests in each {}", length(found, ROWS));
    Ok(format!(
        "<section>\n<h2>Offered and admitted over time</h2>\n<div class=\"beside\">\n<figure>{drawn}<figcaption>\
         Requests in each {} (on a phone, {}): <span class=\"item\"><span class=\"swatch admitted\"></span> admitted</span>, \
         <span class=\"item\"><span class=\"swatch refused\"></span> refused</span>; together they are what was offered.</figcaption></figure>\n{}</div>\n</section>\n",
        length(found, most_bars(Size::Wide)),
        length(found, most_bars(Size::Narrow)),
        table(&caption, &["From", "Offered", "Admitted", "Refused"], rows)
    ))
}

fn time(second: i64) -> String {
    Utc(second.saturating_mul(SECOND)).to_string()
}

/// Returns a plot over the whole time of the log.
fn time_plot(found: &Findings, size: Size, bars: Vec<Bar>, lines: Vec<Line>) -> Plot {
    let from = found.bins.first().map_or(0, |bin| bin.start);
    let to = found.bins.last().map_or(1, |bin| bin.start + found.width);
    let most = if size == Size::Wide { 7 } else { 3 };
    Plot {
        from: place(from),
        to: place(to),
        ticks: ticks(from, to, most),
        bars,
        lines,
    }
}

/// Steps between ticks of a time axis, in seconds.
const STEPS: [i64; 23] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 1_209_600, 2_419_200, 7_257_600,
];

/// Returns at most `most` round moments in `from..to`, labeled as briefly as is clear.
fn ticks(from: i64, to: i64, most: i64) -> Vec<(f64, String)> {
    let span = to - from;
    let fits = STEPS.into_iter().find(|step| span / step < most);
    let step = fits.unwrap_or_else(|| span / (most - 1).max(1) + 1);
    let first = from.div_euclid(step) + i64::from(from.rem_euclid(step) > 0);
    let moments = (first..)
        .map(|index| index * step)
        .take_while(|second| *second <= to);
    let label = |second: i64| {
        let text = time(second);
        let day = second.rem_euclid(86_400) == 0;
        // 2026-03-02T09:00:00Z
        let part = match text.len() {
            short @ ..19 => 0..short,
            _ if step < 60 => 11..19,
            _ if step < 86_400 && !day => 11..16,
            _ if step < 7_000_000 => 5..10,
            _ => 0..7,
        };
        (place(second), text.get(part).unwrap_or_default().to_owned())
    };
    moments.map(label).collect()
}

pub(super) fn by_rule(found: &Findings) -> String {
    let most = found
        .rules
        .iter()
        .map(|rule| rule.refused.at_once)
        .max()
        .unwrap_or(0);
    let rows = found.rules.iter().map(|rule| {
        let at_least = if rule.others.requests > 0 { "≥ " } else { "" };
        vec![
            Cell::Key(rule.name.clone()),
            Cell::Bar(hundredths(rule.refused.at_once, most)),
            Cell::Plain(rule.refused.to_string()),
            Cell::Plain(Count(rule.applied).to_string()),
            Cell::Plain(share(rule.refused, rule.applied)),
            Cell::Plain(format!("{at_least}{}", rule.keys_refused)),
            Cell::Plain(format!("{at_least}{}", Count(rule.keys))),
            Cell::Plain(wait(rule.refused.at_once, rule.longest_wait)),
            Cell::Plain(Count(rule.unkeyed).to_string()),
        ]
    });
    let heads = [
        "Rule",
        "<In comparison",
        "Refused",
        "Of",
        "Share",
        "Keys refused",
        "Of",
        "Longest wait",
        "Without key",
    ];
    format!(
        "<section>\n<h2>Refusals by rule</h2>\n{}</section>\n",
        table("What each rule refused", &heads, rows)
    )
}

pub(super) fn by_key(found: &Findings) -> String {
    if found.top.is_empty() {
        return "<section>\n<h2>Refusals by key</h2>\n<p>Nobody would have been refused.</p>\n</section>\n".to_owned();
    }
    let most = found
        .top
        .iter()
        .map(|key| key.refused.at_once)
        .max()
        .unwrap_or(0);
    let rows = found.top.iter().map(|key| {
        vec![
            Cell::Key(key.key.clone()),
            Cell::Left(found.rules[key.rule].name.clone()),
            Cell::Bar(hundredths(key.refused.at_once, most)),
            Cell::Plain(key.refused.to_string()),
            Cell::Plain(Count(key.requests).to_string()),
            Cell::Plain(wait(key.refused.at_once, key.longest_wait)),
            Cell::Plain(Utc(key.first).to_string()),
            Cell::Plain(Utc(key.last).to_string()),
        ]
    });
    let others = found
        .rules
        .iter()
        .filter(|rule| rule.others.requests > 0)
        .map(|rule| {
            vec![
                Cell::Left("all other keys".to_owned()),
                Cell::Left(rule.name.clone()),
                Cell::Bar(hundredths(rule.others.refused.at_once, most)),
                Cell::Plain(rule.others.refused.to_string()),
                Cell::Plain(Count(rule.others.requests).to_string()),
            ]
        });
    let heads = [
        "Key",
        "<Rule",
        "<In comparison",
        "Refused",
        "Of",
        "Longest wait",
        "First refusal",
        "Last refusal",
    ];
    format!(
        "<section>\n<h2>Refusals by key</h2>\n{}</section>\n",
        table("The most refused keys", &heads, rows.chain(others))
    )
}

fn hundredths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(100)
}

pub(super) fn peaks(found: &Findings, rules: &[Rule]) -> Section {
    let mut text = "<section>\n<h2>How busy keys get</h2>\n".to_owned();
    for (finding, rule) in found.rules.iter().zip(rules) {
        let quota = rule.limit.quota();
        let (units, heading) = if rule.cost == 1 {
            ("requests", "Requests")
        } else {
            ("units", "Units")
        };
        let bursts = rule.limit.algorithm().has_burst();
        let most = if bursts {
            quota.units().saturating_add(quota.burst())
        } else {
            quota.units()
        };
        let classes = &finding.peaks.classes;
        let last = classes.len().max(class_of(most) + 1);
        let plot = |size: Size| {
            // One key among thousands still shows: it may be the one that matters.
            let least = number(classes.iter().copied().max().unwrap_or(0)) / 60.0;
            let bars = classes
                .iter()
                .enumerate()
                .filter(|(_, keys)| **keys > 0)
                .map(|(class, keys)| Bar {
                    from: number(class as u64) + 0.08,
                    to: number(class as u64) + 0.92,
                    parts: vec![(Ink::Admitted, number(*keys).max(least))],
                });
            let every = if size == Size::Narrow {
                last.div_ceil(6)
            } else {
                last.div_ceil(12)
            };
            let ticks = (0..last).step_by(every.max(1)).map(|class| {
                (
                    number(class as u64) + 0.5,
                    Count(Distribution::class(class).1).to_string(),
                )
            });
            let mut lines = vec![Line::At(class_place(quota.units()))];
            if bursts {
                lines.push(Line::DashedAt(class_place(most)));
            }
            Plot {
                from: 0.0,
                to: number(last as u64),
                ticks: ticks.collect(),
                bars: bars.collect(),
                lines,
            }
        };
        let period = Span(u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX));
        let label = format!(
            "How many keys of {} made how many {units} in their busiest {period}. The table has the figures.",
            finding.name
        );
        let drawn = both(&label, plot)?;
        let keys: u64 = classes.iter().sum();
        let rows = classes.iter().enumerate().map(|(class, count)| {
            let (low, high) = Distribution::class(class);
            let range = if low == high {
                Count(low).to_string()
            } else {
                format!("{} to {}", Count(low), Count(high))
            };
            vec![
                Cell::Plain(range),
                Cell::Plain(Count(*count).to_string()),
                Cell::Plain(Percent(*count, keys).to_string()),
            ]
        });
        let caption = format!("{}: {units} of a key in its busiest {period}", finding.name);
        let dashed = if bursts {
            format!(
                ", <span class=\"item\"><span class=\"swatch line dashed\"></span> with the burst</span> {}",
                Count(most)
            )
        } else {
            String::new()
        };
        text.push_str(&format!(
            "<h3>{}</h3>\n<div class=\"beside\">\n<figure>{drawn}<figcaption>Keys by their {units} in their busiest {period}, \
             in classes that double (each bar up to the number below it; a single key still shows). <span class=\"item\"><span class=\"swatch line\"></span> The limit</span>, {} a \
             period{dashed}.</figcaption></figure>\n{}</div>\n",
            html(&finding.name),
            Count(quota.units()),
            table(&caption, &[heading, "Keys", "Share"], rows)
        ));
    }
    text.push_str("</section>\n");
    Ok(text)
}

fn class_of(value: u64) -> usize {
    (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize
}

/// Returns where a value lies among classes that are one wide and end with a power of two.
fn class_place(value: u64) -> f64 {
    number(value.max(1)).log2() + 1.0
}

pub(super) fn levels(found: &Findings) -> Section {
    if found.levels.is_empty() {
        return Ok(String::new());
    }
    let mut text =
        "<section>\n<h2>How full the limits of the most refused keys were</h2>\n".to_owned();
    for level in &found.levels {
        let name = &found.rules[level.rule].name;
        let plot = |size: Size| {
            let factor = found.bins.len().div_ceil(most_bars(size)).max(1);
            let bars = level
                .levels
                .chunks(factor)
                .zip(found.bins.chunks(factor))
                .filter_map(|(levels, bins)| {
                    let highest = levels.iter().flatten().max()?;
                    let start = bins.first()?.start;
                    let seconds = found.width.saturating_mul(i64::try_from(bins.len()).ok()?);
                    Some(Bar {
                        from: place(start),
                        to: place(start + seconds),
                        parts: vec![(Ink::Admitted, number(*highest))],
                    })
                });
            time_plot(
                found,
                size,
                bars.collect(),
                vec![Line::Level(number(level.capacity))],
            )
        };
        let label = format!(
            "The level of {name} for one key over time, below its capacity of {}. The table has the figures.",
            level.capacity
        );
        let drawn = both(&label, plot)?;
        let caption = format!(
            "Highest level of {} under {name} in each {}",
            level.key,
            length(found, ROWS)
        );
        text.push_str(&format!(
            "<h3><code>{}</code> under {}</h3>\n<div class=\"beside\">\n<figure>{drawn}<figcaption>The highest level in each \
             interval with a request, from the key’s first refusal on. <span class=\"item\"><span class=\"swatch line\"></span> The capacity</span>, {}.\
             </figcaption></figure>\n{}</div>\n",
            html(&level.key),
            html(name),
            Count(level.capacity),
            table(&caption, &["From", "Level", "Of capacity"], level_rows(found, level))
        ));
    }
    text.push_str("</section>\n");
    Ok(text)
}

fn level_rows(found: &Findings, level: &Level) -> Vec<Vec<Cell>> {
    let factor = found.bins.len().div_ceil(ROWS).max(1);
    let rows = level
        .levels
        .chunks(factor)
        .zip(found.bins.chunks(factor))
        .filter_map(|(levels, bins)| {
            let highest = *levels.iter().flatten().max()?;
            Some(vec![
                Cell::Plain(time(bins.first()?.start)),
                Cell::Plain(Count(highest).to_string()),
                Cell::Plain(Percent(highest, level.capacity).to_string()),
            ])
        });
    rows.collect()
}

pub(super) fn unreadable(found: &Findings) -> String {
    if found.samples.is_empty() {
        return String::new();
    }
    let rows = found.samples.iter().map(|sample| {
        vec![
            Cell::Key(format!("{}:{}", sample.file, sample.line)),
            Cell::Left(sample.fault.to_string()),
            Cell::Key(crate::escape::utf8(&sample.text)),
        ]
    });
    format!(
        "<section>\n<h2>Unreadable lines</h2>\n{}</section>\n",
        table(
            "Some of the lines that could not be read",
            &["Line", "<What is wrong", "<Its beginning"],
            rows
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_axes_have_round_ticks_and_not_too_many() {
        let labels = |from: i64, to: i64, most: i64| {
            ticks(from, to, most)
                .into_iter()
                .map(|(_, label)| label)
                .collect::<Vec<_>>()
        };
        // 2026-03-02T09:00:00Z
        let nine = 1_772_442_000;
        assert_eq!(
            labels(nine, nine + 5_000, 7),
            ["09:00", "09:15", "09:30", "09:45", "10:00", "10:15"]
        );
        assert_eq!(
            labels(nine - 3_600 * 20, nine, 3),
            ["00:00"].map(|_| "03-02")
        );
        assert_eq!(
            labels(nine + 1, nine + 7, 7),
            [
                "09:00:01", "09:00:02", "09:00:03", "09:00:04", "09:00:05", "09:00:06", "09:00:07"
            ]
        );
        for days in 1..40 {
            assert!(
                labels(nine, nine + days * days * 86_400, 7).len() <= 7,
                "{days}"
            );
        }
        assert!(ticks(i64::MIN / SECOND, i64::MAX / SECOND, 7).len() <= 8);
    }

    #[test]
    fn limits_lie_at_the_upper_edge_of_the_class_they_end() {
        for (value, class) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (65, 7)] {
            assert_eq!(class_of(value), class);
            let (low, high) = Distribution::class(class);
            assert!((low..=high).contains(&value));
            assert!(
                class_place(value) > number(class as u64)
                    && class_place(value) <= number(class as u64) + 1.0
            );
        }
    }
}
