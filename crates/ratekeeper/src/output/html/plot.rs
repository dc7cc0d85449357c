//! Bars and limits over an axis, as SVG inside the page.
//!
//! The backend writes colors as numbers. Each role has a number of its own here, which is then
//! replaced by the page's variable for that role, so that light, dark and print need one drawing.
//! Nothing from a log is drawn: keys stand in the page beside the plot.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

/// What a color stands for, with the page's variable for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ink {
    Text,
    Grid,
    /// What was admitted, and plain bars.
    Admitted,
    Refused,
    Limit,
}

impl Ink {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Text, "var(--text)"),
        (Self::Grid, "var(--grid)"),
        (Self::Admitted, "var(--admitted)"),
        (Self::Refused, "var(--refused)"),
        (Self::Limit, "var(--limit)"),
    ];

    fn color(self) -> RGBColor {
        RGBColor(1, 2, 3 + self as u8)
    }
}

/// A bar from one place of the x axis to another, in parts that stand on each other.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) parts: Vec<(Ink, f64)>,
}

/// A line across the plot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// At a height.
    Level(f64),
    /// At a place of the x axis.
    At(f64),
    /// At a place of the x axis, dashed.
    DashedAt(f64),
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) from: f64,
    pub(super) to: f64,
    /// Places of the x axis and what stands there.
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) bars: Vec<Bar>,
    pub(super) lines: Vec<Line>,
}

/// Whether a plot is drawn for a wide page or for a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Wide,
    Narrow,
}

impl Size {
    fn pixels(self) -> (u32, u32) {
        match self {
            Self::Wide => (640, 250),
            Self::Narrow => (330, 220),
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Draws a plot in both sizes, of which the page shows one. `label` is read out in its place.
pub(super) fn both(label: &str, plot: impl Fn(Size) -> Plot) -> Result<String, Box<dyn Error>> {
    let mut drawn = String::new();
    for size in [Size::Wide, Size::Narrow] {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, size.pixels()).into_drawing_area();
            draw(&area, &plot(size)).map_err(|error| error.to_string())?;
            area.present().map_err(|error| error.to_string())?;
        }
        for (ink, variable) in Ink::ALL {
            let RGBColor(red, green, blue) = ink.color();
            svg = svg.replace(&format!("#{red:02X}{green:02X}{blue:02X}"), variable);
        }
        let label = crate::escape::html(label);
        drawn.push_str(&svg.replacen(
            "<svg ",
            &format!(
                "<svg class=\"{}\" role=\"img\" aria-label=\"{label}\" ",
                size.class()
            ),
            1,
        ));
    }
    Ok(drawn)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    plot: &Plot,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
    let tops = plot
        .bars
        .iter()
        .map(|bar| bar.parts.iter().map(|(_, height)| height).sum::<f64>());
    let levels = plot.lines.iter().map(|line| {
        if let Line::Level(level) = line {
            *level
        } else {
            0.0
        }
    });
    // Room above the highest, and never an empty axis.
    let top = tops.chain(levels).fold(1.0, f64::max) * 1.08;
    let x = Axis {
        from: plot.from,
        to: plot.to,
        ticks: plot.ticks.clone(),
    };
    let mut chart = ChartBuilder::on(area)
        .margin(4)
        .margin_right(32)
        .x_label_area_size(26)
        .y_label_area_size(50)
        .build_cartesian_2d(x, 0.0..top)?;
    let text = ("sans-serif", 13).into_font().color(&Ink::Text.color());
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(Ink::Grid.color())
        .axis_style(Ink::Grid.color())
        .x_labels(plot.ticks.len())
        .y_labels(5)
        .label_style(text)
        .y_label_formatter(&|height| height_label(*height))
        .draw()?;
    for bar in &plot.bars {
        let mut bottom = 0.0;
        for (ink, height) in bar.parts.iter().filter(|(_, height)| *height > 0.0) {
            let corners = [(bar.from, bottom), (bar.to, bottom + height)];
            chart.draw_series([Rectangle::new(corners, ink.color().filled())])?;
            bottom += height;
        }
    }
    let limit = Ink::Limit.color().stroke_width(2);
    for line in &plot.lines {
        match *line {
            Line::Level(level) => {
                chart.draw_series([PathElement::new(
                    [(plot.from, level), (plot.to, level)],
                    limit,
                )])?;
            }
            Line::At(place) => {
                chart.draw_series([PathElement::new([(place, 0.0), (place, top)], limit)])?;
            }
            Line::DashedAt(place) => {
                let dash = |part: u32| {
                    let low = top * f64::from(part) / 12.0;
                    PathElement::new([(place, low), (place, low + top / 24.0)], limit)
                };
                chart.draw_series((0..12).map(dash))?;
            }
        }
    }
    Ok(())
}

/// An x axis whose ticks are given.
struct Axis {
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a pixel within the plot")]
    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        low + (f64::from(high - low) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(place, _)| place == value);
        tick.map_or_else(String::new, |(_, label)| label.clone())
    }
}

/// Returns a count for the y axis; nothing between whole ones.
fn height_label(height: f64) -> String {
    match height {
        _ if height.fract() != 0.0 => String::new(),
        _ if height >= 1e9 => format!("{}G", height / 1e9),
        _ if height >= 1e6 => format!("{}M", height / 1e6),
        _ if height >= 1e4 => format!("{}k", height / 1e3),
        _ => format!("{height}"),
    }
}
