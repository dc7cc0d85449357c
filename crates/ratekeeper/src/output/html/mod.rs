//! The report: one file that asks for nothing else, with its plots as SVG and no script.

mod plot;
mod sections;
mod table;

use std::error::Error;

use super::{Count, plural, share};
use crate::escape::html;
use crate::replay::Findings;
use crate::rules::Rule;
use crate::time::{Span, Utc};

/// Forbids the page to load or run anything, whatever a log might have smuggled in.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Returns the report.
///
/// # Errors
///
/// Fails when a plot cannot be drawn.
pub(crate) fn report(found: &Findings, rules: &[Rule]) -> Result<String, Box<dyn Error>> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Ratekeeper: what the rules would have done</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the findings</a>\n",
        include_str!("page.css")
    );
    page.push_str(&header(found, rules));
    page.push_str("<main id=\"main\">\n");
    if found.decided > 0 {
        page.push_str(&sections::over_time(found)?);
        page.push_str(&sections::by_rule(found));
        page.push_str(&sections::by_key(found));
        page.push_str(&sections::peaks(found, rules)?);
        page.push_str(&sections::levels(found)?);
    }
    page.push_str(&sections::unreadable(found));
    page.push_str("</main>\n<footer><p class=\"quiet\">Times are UTC. This page loads nothing and runs no script.</p></footer>\n</body>\n</html>\n");
    Ok(page)
}

fn header(found: &Findings, rules: &[Rule]) -> String {
    let mut text = "<header>\n<h1>What the rules would have done</h1>\n".to_owned();
    let logs: Vec<_> = found
        .files
        .iter()
        .map(|file| format!("<code>{}</code>", html(&file.name)))
        .collect();
    let more = if logs.len() > 6 {
        format!(" and {} more", logs.len() - 6)
    } else {
        String::new()
    };
    text.push_str(&format!(
        "<p>{}{more}",
        logs[..logs.len().min(6)].join(", ")
    ));
    if found.decided > 0 {
        text.push_str(&format!(", {} to {}", Utc(found.first), Utc(found.last)));
    }
    text.push_str("</p>\n<ul class=\"figures\">\n");
    let mut figure = |value: String, name: String| {
        text.push_str(&format!("<li><strong>{value}</strong> {name}</li>\n"));
    };
    figure(
        Count(found.total).to_string(),
        format!("request{}", plural(found.total)),
    );
    figure(
        found.refused.to_string(),
        format!("refused, {}", html(&share(found.refused, found.decided))),
    );
    let capped = if found.other_clients.requests > 0 {
        "≥ "
    } else {
        ""
    };
    figure(
        format!("{capped}{}", Count(found.clients)),
        format!("client{}", plural(found.clients)),
    );
    figure(
        format!("{capped}{}", found.clients_refused),
        format!(
            "clients refused, {}",
            html(&share(found.clients_refused, found.clients))
        ),
    );
    figure(
        Count(found.late).to_string(),
        "late, not decided".to_owned(),
    );
    figure(
        Count(found.unreadable).to_string(),
        format!("unreadable line{}", plural(found.unreadable)),
    );
    text.push_str("</ul>\n");
    text.push_str("<ul class=\"rules\">\n");
    for rule in rules {
        text.push_str(&format!(
            "<li><code>{}</code></li>\n",
            html(&rule.to_string())
        ));
    }
    text.push_str("</ul>\n");
    if found.exact < found.decided {
        text.push_str(
            "<p>The log gives whole seconds, which hide bursts. So every request was decided twice: with all \
             requests of a second at once, and with each client’s spread evenly over it. Where the two differ, \
             both figures are given, and plots show all at once. The truth mostly lies between.</p>\n",
        );
    }
    text.push_str("<p class=\"quiet\">Servers log a request when it ends, so long requests count later than they came.");
    if let Some(late) = &found.first_late {
        text.push_str(&format!(
            " Lines later than the allowed skew were left out; the first, line {} of <code>{}</code>, is {} behind.",
            late.line,
            html(&late.file),
            Span(late.by)
        ));
    }
    text.push_str("</p>\n</header>\n");
    text
}
