//! Columns of text, aligned.

use std::io::{self, Write};

use super::Style;

/// A table whose columns are as wide as their widest cell.
#[derive(Debug)]
pub(super) struct Table {
    heads: Vec<(&'static str, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these heads; a column whose head begins with `>` is aligned to the right.
    pub(super) fn new(heads: &[&'static str]) -> Self {
        let head = |head: &&'static str| {
            head.strip_prefix('>')
                .map_or((*head, false), |head| (head, true))
        };
        Self {
            heads: heads.iter().map(head).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn print(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        let width = |index: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(index))
                .map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(self.heads[index].0.len())
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells
                .zip(&self.heads)
                .zip(&widths)
                .map(|((cell, (_, right)), width)| {
                    if *right {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        writeln!(
            out,
            "{}",
            style.bold(line(&mut self.heads.iter().map(|(head, _)| *head)))
        )?;
        for row in &self.rows {
            writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}
