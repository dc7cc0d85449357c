//! Text for people. Whatever came from a log is escaped for the terminal.

use std::io::{self, Write};
use std::time::Duration;

use super::table::Table;
use super::{Count, Percent, Rate, Style, plural, share};
use crate::escape::terminal;
use crate::explain::{Backend, Explanation};
use crate::replay::{Findings, Others};
use crate::time::{SECOND, Span, Utc};

/// How many intervals with the most refusals are listed.
const BUSIEST: usize = 5;

pub(crate) fn findings(found: &Findings, style: Style, out: &mut impl Write) -> io::Result<()> {
    summary(found, style, out)?;
    if found.decided == 0 {
        return Ok(());
    }
    writeln!(out)?;
    rules(found, style, out)?;
    top(found, style, out)?;
    when(found, style, out)
}

fn summary(found: &Findings, style: Style, out: &mut impl Write) -> io::Result<()> {
    let Findings {
        total,
        decided,
        refused,
        clients,
        clients_refused,
        ..
    } = found;
    let capped = if found.other_clients.requests > 0 {
        "at least "
    } else {
        ""
    };
    write!(
        out,
        "{} request{}",
        style.bold(Count(total)),
        plural(*total)
    )?;
    if *decided > 0 {
        write!(
            out,
            " of {capped}{} client{}",
            style.bold(Count(clients)),
            plural(*clients)
        )?;
        write!(out, ", {} to {}", Utc(found.first), Utc(found.last))?;
    }
    writeln!(out)?;
    if *decided > 0 {
        let requests = format!(
            "{refused} request{}",
            plural(refused.at_once.max(refused.spread))
        );
        writeln!(
            out,
            "refused: {} ({})",
            style.bold(requests),
            share(*refused, *decided)
        )?;
        let touched = clients_refused.at_once.max(clients_refused.spread);
        writeln!(
            out,
            "touched: {} client{} ({})",
            style.bold(clients_refused),
            plural(touched),
            share(*clients_refused, *clients)
        )?;
    }
    notes(found, style, out)
}

/// Says what a reader has to know to trust the figures.
fn notes(found: &Findings, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut note = |text: String| writeln!(out, "{} {text}", style.warning("note:"));
    if found.exact < found.decided {
        note(
            "the log has whole seconds: a range lies between each client's requests of a second spread \
             evenly over it and all at once"
                .to_owned(),
        )?;
    }
    if found.decided > 0 {
        note(
            "servers log a request when it ends: long requests count later than they came"
                .to_owned(),
        )?;
    }
    if let Some(late) = &found.first_late {
        note(format!(
            "{} late and not decided: the first is line {} of {}, {} behind line {}; --max-skew takes in more",
            requests_were(found.late),
            late.line,
            terminal(&late.file),
            Span(late.by),
            late.after
        ))?;
    }
    if found.unreadable > 0 {
        note(format!(
            "{} line{} could not be read:",
            Count(found.unreadable),
            plural(found.unreadable)
        ))?;
    }
    for sample in &found.samples {
        let text = terminal(&crate::escape::utf8(&sample.text));
        writeln!(
            out,
            "      {}:{}: {}: {text}",
            terminal(&sample.file),
            sample.line,
            sample.fault
        )?;
    }
    let mut note = |text: String| writeln!(out, "{} {text}", style.warning("note:"));
    for rule in found.rules.iter().filter(|rule| rule.unkeyed > 0) {
        note(format!(
            "{} let through by {} alone, since the log has no such key for {}",
            requests_were(rule.unkeyed),
            rule.name,
            if rule.unkeyed == 1 { "it" } else { "them" }
        ))?;
    }
    for file in found.files.iter().filter(|file| file.squeezed) {
        note(format!(
            "{} has too many lines within --max-skew to hold back: some were put in order within less",
            terminal(&file.name)
        ))?;
    }
    if found.evicted > 0 {
        note(format!(
            "{} key{} forgotten while still counting, as a server of this size would: --max-keys tells more apart",
            Count(found.evicted),
            if found.evicted == 1 { " was" } else { "s were" }
        ))?;
    }
    Ok(())
}

fn requests_were(count: u64) -> String {
    format!(
        "{} request{}",
        Count(count),
        if count == 1 { " was" } else { "s were" }
    )
}

fn rules(found: &Findings, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "RULE",
        ">REQUESTS",
        ">REFUSED",
        ">SHARE",
        ">KEYS",
        ">KEYS REFUSED",
        ">LONGEST WAIT",
    ]);
    for rule in &found.rules {
        let at_least = if rule.others.requests > 0 { "≥ " } else { "" };
        table.row(vec![
            rule.name.clone(),
            Count(rule.applied).to_string(),
            rule.refused.to_string(),
            share(rule.refused, rule.applied),
            format!("{at_least}{}", Count(rule.keys)),
            format!("{at_least}{}", rule.keys_refused),
            wait(rule.refused.at_once, rule.longest_wait),
        ]);
    }
    table.print(style, out)?;
    for rule in &found.rules {
        writeln!(out, "  {}", rule.text)?;
    }
    Ok(())
}

/// Returns a wait in words: nothing when there was no refusal.
pub(super) fn wait(refused: u64, nanos: u64) -> String {
    match (refused, nanos) {
        (0, _) => "-".to_owned(),
        (_, u64::MAX) => "for ever".to_owned(),
        _ => Span(nanos).to_string(),
    }
}

fn top(found: &Findings, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "MOST REFUSED",
        "RULE",
        ">REFUSED",
        ">OF",
        ">LONGEST WAIT",
        "FIRST",
        "LAST",
    ]);
    for key in &found.top {
        table.row(vec![
            terminal(&key.key),
            found.rules[key.rule].name.clone(),
            key.refused.to_string(),
            Count(key.requests).to_string(),
            wait(key.refused.at_once, key.longest_wait),
            Utc(key.first).to_string(),
            Utc(key.last).to_string(),
        ]);
    }
    for rule in found.rules.iter().filter(|rule| rule.others.requests > 0) {
        let Others { requests, refused } = rule.others;
        let cells = [
            "(others)".to_owned(),
            rule.name.clone(),
            refused.to_string(),
            Count(requests).to_string(),
        ];
        table.row(
            cells
                .into_iter()
                .chain(["-"; 3].map(str::to_owned))
                .collect(),
        );
    }
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    table.print(style, out)
}

fn when(found: &Findings, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut busiest: Vec<_> = found
        .bins
        .iter()
        .filter(|bin| bin.refused.at_once > 0)
        .collect();
    busiest.sort_by_key(|bin| (std::cmp::Reverse(bin.refused.at_once), bin.start));
    busiest.truncate(BUSIEST);
    if busiest.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["BUSIEST", ">OFFERED", ">REFUSED", ">SHARE"]);
    for bin in busiest {
        table.row(vec![
            Utc(bin.start.saturating_mul(SECOND)).to_string(),
            Count(bin.offered).to_string(),
            bin.refused.to_string(),
            Percent(bin.refused.at_once, bin.offered).to_string(),
        ]);
    }
    writeln!(out)?;
    table.print(style, out)?;
    let width = Span(
        found
            .width
            .unsigned_abs()
            .saturating_mul(SECOND.unsigned_abs()),
    );
    writeln!(out, "  each {width} long; the share is of all at once")
}

/// Returns a length of time in words.
fn span(time: Duration) -> String {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).to_string()
}

pub(crate) fn explained(
    explained: &[(&Explanation, Option<Backend>)],
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    match explained {
        [(one, backend)] => single(one, backend.as_ref(), style, out),
        several => compared(several, style, out),
    }
}

fn single(
    one: &Explanation,
    backend: Option<&Backend>,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{} {}",
        style.bold(one.algorithm),
        style.bold(one.quota)
    )?;
    let period = span(one.quota.period());
    let hundredth = one.quota.period() / 100;
    let mut line = |name: String, value: String| writeln!(out, "  {name:<26} {value}");
    line(
        "at once".to_owned(),
        format!("{}  by a key that has rested", Count(one.at_once)),
    )?;
    line(
        "in the first minute".to_owned(),
        format!("{} at most", Count(one.first_minute)),
    )?;
    line(
        format!("in any {period}"),
        format!("{} at most", Count(one.worst_period)),
    )?;
    line(
        format!("in any {}", precise(hundredth)),
        format!("{} at most", Count(one.worst_hundredth)),
    )?;
    line("full again after".to_owned(), precise(one.to_full))?;
    line("wait when all is spent".to_owned(), precise(one.wait))?;
    line(
        "memory".to_owned(),
        format!("{} bytes a key", Count(one.memory)),
    )?;
    line(
        "Redis".to_owned(),
        format!("about {} bytes a key", Count(one.redis)),
    )?;
    let [first, refusal] = &one.fields;
    for (title, fields) in [
        ("a first response says", first),
        ("a refusal, status 429, says", refusal),
    ] {
        writeln!(out, "{}", style.bold(title))?;
        for (name, value) in fields {
            writeln!(out, "  {name}: {value}")?;
        }
    }
    backend.map_or(Ok(()), |backend| against(backend, style, out))
}

/// Returns a length of time to the millisecond, below that to the nanosecond.
fn precise(time: Duration) -> String {
    if time < Duration::from_millis(1)
        || (time < Duration::from_secs(60) && time.subsec_nanos() > 0)
    {
        format!("{time:?}")
    } else {
        span(time)
    }
}

fn against(backend: &Backend, style: Style, out: &mut impl Write) -> io::Result<()> {
    let keys = backend.keys;
    writeln!(
        out,
        "{}",
        style.bold(format!(
            "{} key{} before a backend of {}",
            Count(keys),
            plural(keys),
            backend.capacity
        ))
    )?;
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<26} {value}");
    line(
        "all at once",
        format!(
            "{} requests, {} of the backend's work",
            Count(backend.at_once),
            work(backend)
        ),
    )?;
    line(
        "for ever",
        format!(
            "{}/s, the backend serves {}/s",
            Rate(backend.rate),
            Rate(backend.served)
        ),
    )?;
    line(
        "served at full rate",
        format!(
            "{} key{}",
            Count(backend.sustained_keys),
            plural(backend.sustained_keys)
        ),
    )?;
    let outcome = match backend.worked_off {
        _ if backend.queue_growth > 0.0 => {
            format!(
                "grows by {} requests a second: {} in an hour",
                Rate(backend.queue_growth),
                Rate(backend.queue_growth * 3_600.0)
            )
        }
        Some(seconds) => format!(
            "worked off in {}",
            span(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        ),
        None => "neither grows nor shrinks: what came at once stays".to_owned(),
    };
    line("the queue before it", outcome)
}

/// Returns how long the backend works on what may come at once.
#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn work(backend: &Backend) -> String {
    let seconds = backend.at_once as f64 / backend.served;
    span(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn compared(
    explained: &[(&Explanation, Option<Backend>)],
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut table = Table::new(&[
        "ALGORITHM",
        "QUOTA",
        ">AT ONCE",
        ">FIRST MINUTE",
        ">ANY PERIOD",
        ">ANY 1/100",
        ">FULL AFTER",
        ">WAIT",
        ">MEMORY",
        ">REDIS",
    ]);
    for (one, _) in explained {
        table.row(vec![
            one.algorithm.to_string(),
            one.quota.to_string(),
            Count(one.at_once).to_string(),
            Count(one.first_minute).to_string(),
            Count(one.worst_period).to_string(),
            Count(one.worst_hundredth).to_string(),
            precise(one.to_full),
            precise(one.wait),
            format!("{} B", Count(one.memory)),
            format!("{} B", Count(one.redis)),
        ]);
    }
    table.print(style, out)?;
    writeln!(
        out,
        "  a period is the quota's; memory and Redis are bytes of one key that has spent everything"
    )?;
    for (one, backend) in explained {
        if let Some(backend) = backend {
            writeln!(out)?;
            writeln!(out, "{}", style.bold(one.algorithm))?;
            against(backend, style, out)?;
        }
    }
    Ok(())
}
