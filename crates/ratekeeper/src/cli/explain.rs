//! `ratekeeper explain`.

use std::io::Write;

use super::args::ExplainArguments;
use super::{Exit, Failure};
use crate::explain::{Backend, Explanation};
use crate::output::{self, Style};

pub(super) fn run(
    arguments: &ExplainArguments,
    style: Style,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let explained = if arguments.compare {
        Explanation::compare(arguments.quota)
    } else {
        vec![Explanation::new(arguments.algorithm, arguments.quota).map_err(Failure::usage)?]
    };
    let backends = explained.iter().map(|one| {
        arguments
            .backend
            .map(|rate| Backend::new(one, arguments.keys, rate))
    });
    let explained: Vec<_> = explained.iter().zip(backends).collect();
    if arguments.json {
        output::json::explained(&explained, out)?;
    } else {
        output::human::explained(&explained, style, out)?;
    }
    Ok(Exit::Done)
}
