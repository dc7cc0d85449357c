//! `ratekeeper replay`.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

use super::args::ReplayArguments;
use super::{Exit, Failure};
use crate::output::{self, Style};
use crate::parse::Fields;
use crate::read::{Bounds, Taken, open};
use crate::replay::{Settings, replay};
use crate::rules;

pub(super) fn run(
    arguments: &ReplayArguments,
    style: Style,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let settings = settings(arguments)?;
    let bounds = Bounds {
        line: arguments.max_line,
        expansion: arguments.max_expansion,
    };
    let taken = Taken::default();
    let mut logs = Vec::with_capacity(arguments.logs.len());
    for path in &arguments.logs {
        let name = path.to_string_lossy().into_owned();
        let lines = open(path, bounds, &taken)
            .map_err(|error| Failure::run(format!("cannot open {name:?}: {error}")))?;
        logs.push((name, lines));
    }
    let progress = progress(&arguments.logs);
    let findings =
        replay(logs, &settings, || progress.set_position(taken.bytes())).map_err(Failure::run)?;
    progress.finish_and_clear();
    if let Some(path) = &arguments.html {
        let report = output::html::report(&findings, &settings.rules).map_err(Failure::run)?;
        fs::write(path, report)
            .map_err(|error| Failure::run(format!("cannot write {path:?}: {error}")))?;
    }
    if arguments.json {
        output::json::findings(&findings, out)?;
    } else {
        output::human::findings(&findings, style, out)?;
    }
    if findings.total == 0 && findings.unreadable > 0 {
        out.flush()?;
        return Err(Failure::run(
            "no line could be read: name the form with --format, or JSON fields with --field",
        ));
    }
    let refused = arguments.fail_on_refused && findings.refused.at_once > 0;
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

fn settings(arguments: &ReplayArguments) -> Result<Settings, Failure> {
    let mut all = arguments.rule.clone();
    if let Some(path) = &arguments.rules {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::run(format!("cannot read {path:?}: {error}")))?;
        all.extend(rules::parse(&text).map_err(Failure::usage)?);
    }
    rules::check(&all).map_err(Failure::usage)?;
    let mut fields = Fields::default();
    for field in &arguments.fields {
        fields.set(field).map_err(Failure::usage)?;
    }
    Ok(Settings {
        format: arguments.format.map(Into::into),
        fields,
        // At most a year, by the argument's parser.
        skew: i64::try_from(arguments.max_skew.as_nanos()).unwrap_or(i64::MAX),
        keys: arguments.max_keys,
        top: arguments.top,
        ..Settings::new(all)
    })
}

/// Shows a bar when somebody looks and the files' sizes say how long it will be.
fn progress(logs: &[PathBuf]) -> ProgressBar {
    let size = logs
        .iter()
        .map(|path| {
            fs::metadata(path)
                .ok()
                .filter(fs::Metadata::is_file)
                .map(|file| file.len())
        })
        .sum::<Option<u64>>();
    let (true, Some(size)) = (io::stderr().is_terminal(), size) else {
        return ProgressBar::hidden();
    };
    // Less than this is read before anybody has looked up.
    if size < 16 * 1024 * 1024 {
        return ProgressBar::hidden();
    }
    let template = "{wide_bar} {bytes} of {total_bytes}, {eta} left";
    let bar = ProgressBar::new(size);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
