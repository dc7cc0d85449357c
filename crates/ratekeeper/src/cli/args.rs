//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ratekeeper_core::{Algorithm, Quota};

use crate::parse::Format;
use crate::rules::Rule;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 asked wrongly, 3 requests would be refused (only with --fail-on-refused).
NO_COLOR switches colors off.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ratekeeper explain '10/s burst 20'
  ratekeeper explain 1000/day --algorithm sliding-log
  ratekeeper explain '10/s burst 20' --compare
  ratekeeper explain '10/s burst 20' --backend 200/s --keys 10000";

const REPLAY_EXAMPLES: &str = "\
Examples:
  ratekeeper replay access.log --rule 'per-ip: token-bucket 60/min burst 20 by ip'
  ratekeeper replay access.log* --rules limits.txt --html report.html
  zcat old.log.gz | ratekeeper replay - --rule 'all: fixed-window 100/s by global' --json
  ratekeeper replay app.json --field client=net.peer --field time=at \\
      --rule 'login: sliding-log 5/min by (ip, path) on POST /login'

A rule is `name: algorithm quota [burst n] by key [on METHODS pattern…]`:
  algorithm  token-bucket, leaky-bucket, fixed-window, calendar-window, sliding-log, sliding-counter
  quota      60/min, 10/s, 1000/day, 2/5s; buckets may have a burst
  key        ip (IPv6 by its /64), ip:24/48, user, host, method, path, (ip, path), user or ip, global
  pattern    /login, /users/{id}, /api/*; without methods and patterns a rule applies to all
  more       `cost 3` for dear requests, `shadow` for a rule that counts but refuses nothing

Requests are decided by the time they were logged at. Where a log has whole seconds only, each is
decided twice: all requests of a second at once, and each client's spread evenly over it. A line
later than --max-skew is counted as late and not decided.";

#[derive(Debug, Parser)]
#[command(name = "ratekeeper", version, about, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(super) struct Arguments {
    /// When to color the output
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(super) color: Color,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show what a limit admits, keeps and tells its clients
    Explain(ExplainArguments),
    /// Show what rules would have done to the requests of access logs
    Replay(ReplayArguments),
    /// Print completions for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

#[derive(Args, Debug)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(super) struct ExplainArguments {
    /// The quota, such as `10/s burst 20`, `100/min`, `1000/day`
    pub(super) quota: Quota,

    /// The algorithm: token-bucket, leaky-bucket, fixed-window, calendar-window, sliding-log or sliding-counter
    #[arg(long, default_value = "token-bucket", value_name = "ALGORITHM")]
    pub(super) algorithm: Algorithm,

    /// Show all algorithms beside each other; those without a burst take the quota without it
    #[arg(long, conflicts_with = "algorithm")]
    pub(super) compare: bool,

    /// What the service behind the limit can do, such as `200/s`
    #[arg(long, value_name = "RATE")]
    pub(super) backend: Option<Quota>,

    /// How many keys (clients, users) there are
    #[arg(long, value_name = "N", requires = "backend", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) keys: u64,

    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(super) struct ReplayArguments {
    /// Access logs, plain, gzip or zstd; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    pub(super) logs: Vec<PathBuf>,

    /// A rule, such as `per-ip: token-bucket 60/min burst 20 by ip`; may be given several times
    #[arg(long = "rule", value_name = "RULE", required_unless_present = "rules")]
    pub(super) rule: Vec<Rule>,

    /// A file of rules, one on a line
    #[arg(long, value_name = "FILE")]
    pub(super) rules: Option<PathBuf>,

    /// The form of the lines, instead of finding out for each log
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) format: Option<FormatName>,

    /// What a JSON field is used for: time, client, user, host, method, path or request
    #[arg(long = "field", value_name = "ROLE=NAME")]
    pub(super) fields: Vec<String>,

    /// How late a line may be and still be put in its place, such as `90s` or `5min`
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(super) max_skew: Duration,

    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,

    /// Write a report to a file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// How many of the most refused keys to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) top: usize,

    /// End with exit code 3 if a request would be refused
    #[arg(long)]
    pub(super) fail_on_refused: bool,

    /// How many clients, and keys of each rule, to tell apart; the rest are counted together
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = at_least_one)]
    pub(super) max_keys: usize,

    /// The longest line that is read, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = at_least_one)]
    pub(super) max_line: usize,

    /// How many bytes one compressed byte may become, beyond the first 16 MiB
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) max_expansion: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FormatName {
    Common,
    Combined,
    /// One object on a line, with the field names of Caddy, Traefik or usual nginx formats
    #[value(aliases = ["caddy", "traefik", "nginx-json"])]
    Json,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Common => Self::Common,
            FormatName::Combined => Self::Combined,
            FormatName::Json => Self::Json,
        }
    }
}

/// Reads a length of time: a whole number of seconds, or of `ms`, `s`, `min` or `h`.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let millis: u64 = match unit.trim() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let count = count.parse().ok().filter(|_| millis > 0);
    // A year bounds it: whoever needs more has logs to be sorted first.
    let time = count
        .and_then(|count: u64| count.checked_mul(millis))
        .filter(|millis| *millis <= 31_536_000_000);
    time.map(Duration::from_millis)
        .ok_or_else(|| "expected a time such as 90s, 5min or 500ms, at most 8760h".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    // A bound that keeps sums of it from overflowing.
    text.parse()
        .ok()
        .filter(|number| (1..=1 << 32).contains(number))
        .ok_or_else(|| "expected a number from 1 to 2^32".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("5min", 300_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1500ms", 1_500),
            ("0", 0),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1d",
            "99999999999999999999s",
            "9999h",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
