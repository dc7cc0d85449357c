//! The rules of a replay, in the text form that servers are configured with.
//!
//! `name: algorithm quota [burst n] by key [on METHODS pattern…]`, such as
//! `per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*`.

use std::fmt;
use std::str::FromStr;

use ratekeeper_core::{Algorithm, Limit, Quota};

use crate::parse::hex;

/// The most rules of one replay.
pub const MAX_RULES: usize = 32;

/// A limit, whom it counts for, and the requests that it applies to.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name, the algorithm and the quota.
    pub limit: Limit,
    /// What is taken of a request as its key.
    pub key: KeyParts,
    /// The requests that the rule applies to.
    pub on: On,
}

/// What a log tells of a request that can be (part of) a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPart {
    /// The client: the network of its address, of so many bits for IPv4 and IPv6, or its host name.
    Ip(u8, u8),
    /// The authenticated user.
    User,
    /// The host asked for.
    Host,
    /// The method; `HEAD` counts as `GET`.
    Method,
    /// The path without its query.
    Path,
}

impl KeyPart {
    /// The client as servers key it unless told otherwise: an IPv4 address or an IPv6 /64.
    pub const IP: Self = Self::Ip(32, 64);

    /// Reads one part, such as `user`, `ip` or `ip:24/48`.
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "ip" => Self::IP,
            "user" => Self::User,
            "host" => Self::Host,
            "method" => Self::Method,
            "path" => Self::Path,
            _ => {
                let (v4, v6) = text.strip_prefix("ip:")?.split_once('/')?;
                let (v4, v6) = (v4.parse().ok()?, v6.parse().ok()?);
                (v4 <= 32 && v6 <= 128).then_some(Self::Ip(v4, v6))?
            }
        })
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip(32, 64) => "ip",
            Self::Ip(v4, v6) => return write!(f, "ip:{v4}/{v6}"),
            Self::User => "user",
            Self::Host => "host",
            Self::Method => "method",
            Self::Path => "path",
        })
    }
}

/// A key: a list of parts, of each the first of some alternatives that the log has. No part at all
/// is the key that all requests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyParts(pub Vec<Vec<KeyPart>>);

impl fmt::Display for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |alternatives: &Vec<KeyPart>| {
            alternatives
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" or ")
        };
        match self.0.as_slice() {
            [] => f.write_str("global"),
            [one] => f.write_str(&part(one)),
            several => write!(
                f,
                "({})",
                several.iter().map(part).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// The methods and paths that a rule applies to; empty lists apply to all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct On {
    /// Methods, in capitals.
    pub methods: Vec<String>,
    /// Path patterns: a segment `{name}` or `*` stands for any one, a last `*` or `{*name}` for any
    /// number of them.
    pub patterns: Vec<String>,
}

impl On {
    /// Returns whether a request is among those that the rule applies to.
    ///
    /// Paths match as a server's rules match them, in any spelling that a router may take for the
    /// same: empty segments do not count, and percent-encoded characters are compared decoded.
    #[must_use]
    pub fn applies(&self, method: &[u8], path: &[u8]) -> bool {
        let counted = if method == b"HEAD" { b"GET" } else { method };
        let same = |known: &String| known.as_bytes() == counted || known.as_bytes() == method;
        (self.methods.is_empty() || self.methods.iter().any(same))
            && (self.patterns.is_empty()
                || self
                    .patterns
                    .iter()
                    .any(|pattern| matches(pattern.as_bytes(), path)))
    }
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|segment| !segment.is_empty())
}

fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let mut path = segments(path);
    let mut pattern = segments(pattern).peekable();
    while let Some(wanted) = pattern.next() {
        let is_last = pattern.peek().is_none();
        if is_last && (wanted == b"*" || wanted.starts_with(b"{*")) {
            return true;
        }
        let Some(found) = path.next() else {
            return false;
        };
        let any = wanted == b"*" || wanted.starts_with(b"{");
        if !any && !decoded(wanted).eq(decoded(found)) {
            return false;
        }
    }
    path.next().is_none()
}

/// Returns the bytes of a segment with percent-encoding undone where it is valid.
fn decoded(segment: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = segment;
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = after;
            return Some(high << 4 | low);
        }
        rest = after;
        Some(*first)
    })
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.methods.is_empty() && self.patterns.is_empty() {
            return Ok(());
        }
        f.write_str(" on")?;
        if !self.methods.is_empty() {
            write!(f, " {}", self.methods.join(","))?;
        }
        self.patterns
            .iter()
            .try_for_each(|pattern| write!(f, " {pattern}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}{}", self.limit, self.key, self.on)
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let fail = |reason: String| RuleError {
            text: text.trim().to_owned(),
            reason,
        };
        let form = || {
            fail(
                "expected \"name: algorithm quota [burst n] by key [on METHODS pattern…]\""
                    .to_owned(),
            )
        };
        let (name, rest) = text.split_once(':').ok_or_else(form)?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let by = words
            .iter()
            .position(|word| *word == "by")
            .filter(|by| *by >= 2)
            .ok_or_else(form)?;
        let end = words
            .iter()
            .position(|word| *word == "on")
            .filter(|end| *end > by)
            .unwrap_or(words.len());
        let algorithm: Algorithm = words[0].parse().map_err(|error| fail(format!("{error}")))?;
        let quota: Quota = words[1..by]
            .join(" ")
            .parse()
            .map_err(|error| fail(format!("{error}")))?;
        let limit =
            Limit::new(name.trim(), algorithm, quota).map_err(|error| fail(format!("{error}")))?;
        let key = match words[by + 1..end].join(" ") {
            key if key.is_empty() => return Err(form()),
            key => key_parts(&key).map_err(fail)?,
        };
        let on = match words.get(end + 1..) {
            None => On::default(),
            Some([]) => return Err(form()),
            Some(words) => on(words).map_err(fail)?,
        };
        Ok(Self { limit, key, on })
    }
}

fn key_parts(text: &str) -> Result<KeyParts, String> {
    if text == "global" {
        return Ok(KeyParts(Vec::new()));
    }
    let inside = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let parts = inside.map_or(vec![text], |inside| inside.split(',').collect());
    let one = |name: &str| {
        let name = name.trim();
        KeyPart::read(name).ok_or_else(|| {
            format!("a log has no key {name:?}: it has ip, user, host, method, path, (a, b), a or b, and global")
        })
    };
    parts
        .into_iter()
        .map(|part| part.split(" or ").map(one).collect())
        .collect::<Result<_, _>>()
        .map(KeyParts)
}

fn on(words: &[&str]) -> Result<On, String> {
    let (methods, patterns) = match words {
        [first, rest @ ..] if !first.starts_with('/') => (*first, rest),
        _ => ("", words),
    };
    let methods = methods
        .split(',')
        .filter(|method| !method.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    for pattern in patterns {
        check_pattern(pattern)
            .map_err(|reason| format!("invalid pattern {pattern:?}: {reason}"))?;
    }
    Ok(On {
        methods,
        patterns: patterns
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect(),
    })
}

fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    if !pattern.starts_with('/') {
        return Err("it begins with a slash");
    }
    let mut segments = pattern
        .split('/')
        .filter(|segment| !segment.is_empty())
        .peekable();
    while let Some(segment) = segments.next() {
        let named = segment.len() > 2 && segment.starts_with('{') && segment.ends_with('}');
        if named && segment.starts_with("{*") && segments.peek().is_some() {
            return Err("only its last segment stands for the rest");
        }
        if segment != "*" && !named && segment.contains(['*', '{', '}', '?', '#']) {
            return Err(
                "\"*\" and \"{name}\" stand for whole segments, and a query is not part of it",
            );
        }
    }
    Ok(())
}

/// Reads a set of rules: one on a line, `#` begins a comment, empty lines are skipped.
///
/// # Errors
///
/// Fails when a rule has not the form, a name is used twice, or there are more than [`MAX_RULES`].
pub fn parse(text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut rules = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let rule: Rule = line.parse().map_err(|error: RuleError| RuleError {
            reason: format!("line {}: {}", number + 1, error.reason),
            ..error
        })?;
        rules.push(rule);
    }
    Ok(rules)
}

/// Checks that rules can stand together.
///
/// # Errors
///
/// Fails when a name is used twice, or there are none or more than [`MAX_RULES`].
pub fn check(rules: &[Rule]) -> Result<(), RuleError> {
    let fail = |text: String, reason: &str| {
        Err(RuleError {
            text,
            reason: reason.to_owned(),
        })
    };
    if rules.is_empty() || rules.len() > MAX_RULES {
        return fail(
            format!("{} rules", rules.len()),
            "a replay takes 1 to 32 rules",
        );
    }
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index]
            .iter()
            .any(|other| other.limit.name() == rule.limit.name())
        {
            return fail(rule.to_string(), "another rule has this name");
        }
    }
    Ok(())
}

/// Why a rule was refused; names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    text: String,
    reason: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid rule {:?}: {}", self.text, self.reason)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_print_back_as_they_were_written() {
        for text in [
            "per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*",
            "per-ip: token-bucket 60/min burst 20 by ip",
            "all: fixed-window 100/s by global",
            "coupons: sliding-log 5/h by (user or ip, path) on POST /coupons/{id}/redeem /c/{*rest}",
            "net: token-bucket 1000/min by ip:24/48",
            "any: leaky-bucket 10/s by ip on /a /b",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_rule_that_has_not_the_form_says_why() {
        for (text, reason) in [
            ("60/min by ip", "expected \"name: algorithm"),
            ("a: token-bucket by ip", "expected \"name: algorithm"),
            ("a: token-bucket 60/min by", "expected \"name: algorithm"),
            (
                "a: token-bucket 60/min by ip at /",
                "a log has no key \"ip at /\"",
            ),
            (
                "a: token-bucket 60/min by ip:33/48",
                "a log has no key \"ip:33/48\"",
            ),
            (
                "a: token-bucket 60/min by (ip, user",
                "a log has no key \"(ip, user\"",
            ),
            (
                "a: token-bucket 60/min by ip on",
                "expected \"name: algorithm",
            ),
            ("a: bucket 60/min by ip", "unknown algorithm \"bucket\""),
            ("a: token-bucket 60 by ip", "invalid quota \"60\""),
            (
                "a: sliding-log 60/min burst 9 by ip",
                "sliding-log has no burst",
            ),
            (
                "a: token-bucket 60/min by header:x-api-key",
                "a log has no key \"header:x-api-key\": it has ip, user",
            ),
            (
                "a: token-bucket 60/min by ip on GET api",
                "invalid pattern \"api\"",
            ),
            (
                "a: token-bucket 60/min by ip on /{*rest}/x",
                "invalid pattern \"/{*rest}/x\"",
            ),
            (
                "a: token-bucket 60/min by ip on /a*",
                "invalid pattern \"/a*\"",
            ),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let error = parse("# limits\n\na: token-bucket 1/s by ip\nb")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("invalid rule \"b\": line 4: expected"),
            "{error}"
        );
        let twice = parse("a: token-bucket 1/s by ip\na: token-bucket 2/s by ip").unwrap();
        assert!(
            check(&twice)
                .unwrap_err()
                .to_string()
                .ends_with("another rule has this name")
        );
        assert!(check(&[]).is_err());
    }

    #[test]
    fn patterns_match_whole_segments_in_every_spelling() {
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/a/", true),
            ("/a", "//a", true),
            ("/a", "/%61", true),
            ("/a%2Fb", "/a%2fb", true),
            ("/a%2Fb", "/a/b", false),
            ("/a", "/%6", false),
            ("/a", "/ab", false),
            ("/a", "/A", false),
            ("/api/*", "/api/x", true),
            ("/api/*", "/api/x/y", true),
            ("/api/*", "/api", true),
            ("/api/*", "/apix", false),
            ("/*", "/", true),
            ("/*/x", "/u/x", true),
            ("/*/x", "/x", false),
            ("/u/{id}", "/u/7", true),
            ("/u/{id}", "/u/", false),
            ("/u/{id}/x", "/u/7/x", true),
            ("/u/{id}/x", "/u/7/y", false),
            ("/f/{*rest}", "/f/a/b", true),
            ("/", "/", true),
            ("/", "/x", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), path.as_bytes()),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn a_head_request_counts_as_a_get() {
        let on: Rule = "a: token-bucket 1/s by ip on get /x".parse().unwrap();
        assert!(on.on.applies(b"HEAD", b"/x") && on.on.applies(b"GET", b"/x"));
        assert!(!on.on.applies(b"POST", b"/x") && !on.on.applies(b"GET", b"/y"));
        assert!(On::default().applies(b"", b""));
    }
}
