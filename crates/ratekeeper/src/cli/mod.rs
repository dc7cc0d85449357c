//! The command line: what it accepts, and what its exit codes say.

mod args;
mod explain;
mod replay;

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::{Arguments, Color, Command};
use crate::output::Style;

/// What the command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    /// Only with `--fail-on-refused`.
    Refused = 3,
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    error: Box<dyn Error>,
}

impl Failure {
    fn usage(error: impl Into<Box<dyn Error>>) -> Self {
        Self {
            exit: Exit::Usage,
            error: error.into(),
        }
    }

    fn run(error: impl Into<Box<dyn Error>>) -> Self {
        Self {
            exit: Exit::Failed,
            error: error.into(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::run(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut source = self.error.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// Runs the command with these arguments, the program's name first, and returns its exit code:
/// 0 when it did what was asked, 1 when it failed, 2 when it was asked wrongly, and with
/// `--fail-on-refused` 3 when a request would have been refused.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; clap prints each where it belongs and knows its code.
            let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let style = Style::new(wants_color(arguments.color));
    let result = run(arguments, style, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) if is_closed_pipe(&failure) => ExitCode::from(Exit::Done as u8),
        Err(failure) => {
            let text = crate::escape::terminal(&failure.to_string());
            // Nothing is left to do when even this fails.
            let _ = writeln!(io::stderr(), "error: {text}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(arguments: Arguments, style: Style, out: &mut impl Write) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Explain(arguments) => explain::run(&arguments, style, out),
        Command::Replay(arguments) => replay::run(&arguments, style, out),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "ratekeeper", out);
            Ok(Exit::Done)
        }
    }
}

/// Whether to color, by the wish, by `NO_COLOR` and by whether somebody looks at a terminal.
fn wants_color(color: Color) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            io::stdout().is_terminal()
                && !is_set("NO_COLOR")
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// Whether the reader of our output went away, which is no failure: `ratekeeper … | head`.
fn is_closed_pipe(failure: &Failure) -> bool {
    let error = failure.error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
