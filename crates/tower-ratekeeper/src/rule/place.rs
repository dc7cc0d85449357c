//! Where a rule applies: methods and path patterns.

use std::fmt;

use http::Method;
use http::request::Parts;

/// Stands among a rule's methods for CORS preflights: `OPTIONS` with `Origin` and
/// `Access-Control-Request-Method`.
pub(crate) const PREFLIGHT: &str = "PREFLIGHT";

/// The methods and the path patterns a rule applies to; everything unless narrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Empty is any method.
    methods: Vec<Method>,
    /// Empty is any path.
    patterns: Vec<Pattern>,
}

impl Place {
    pub(crate) fn new(methods: Vec<Method>, patterns: Vec<Pattern>) -> Self {
        Self { methods, patterns }
    }

    /// Returns the methods; none means any.
    #[must_use]
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Returns the path patterns; none means any.
    #[must_use]
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Returns whether the rule applies to every request.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.methods.is_empty()
            && (self.patterns.is_empty() || self.patterns.iter().any(Pattern::is_any_path))
    }

    /// Returns whether the rule applies to this request. HEAD counts as GET.
    #[must_use]
    pub fn contains(&self, parts: &Parts) -> bool {
        self.is_everywhere() || (self.has_method(&parts.method) && self.has_path(path_of(parts)))
    }

    /// Returns whether the rule is for CORS preflights: the pseudo-method `PREFLIGHT`.
    #[must_use]
    pub fn is_for_preflights(&self) -> bool {
        self.methods
            .iter()
            .any(|method| method.as_str() == PREFLIGHT)
    }

    pub(crate) fn has_path_of(&self, parts: &Parts) -> bool {
        self.patterns.is_empty() || self.has_path(path_of(parts))
    }

    fn has_method(&self, method: &Method) -> bool {
        let counted = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        self.methods.is_empty()
            || self
                .methods
                .iter()
                .any(|own| own == counted || own == method)
    }

    fn has_path(&self, path: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(path))
    }

    /// Returns whether every request of `other` is one of this place; false where it is hard to tell.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let methods = self.methods.is_empty()
            || (!other.methods.is_empty()
                && other
                    .methods
                    .iter()
                    .all(|method| self.methods.contains(method)));
        let patterns = self.patterns.is_empty()
            || (!other.patterns.is_empty()
                && other
                    .patterns
                    .iter()
                    .all(|pattern| self.patterns.contains(pattern)));
        methods && patterns
    }
}

/// Prints the place as the text form of rules has it: `GET,POST /api/*`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (index, method) in self.methods.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            f.write_str(method.as_str())?;
            separator = " ";
        }
        for pattern in &self.patterns {
            write!(f, "{separator}{pattern}")?;
            separator = " ";
        }
        Ok(())
    }
}

/// Returns the path as the client sent it: axum strips the prefix of a nested router.
fn path_of(parts: &Parts) -> &str {
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<::axum::extract::OriginalUri>() {
        return original.0.path();
    }
    parts.uri.path()
}

/// A path pattern: segments, of which `{name}` or `*` stands for any one, and a last `*` for any
/// number of further ones.
///
/// A path matches in whatever spelling a router might take for the same: empty segments and a
/// slash at the end do not count, and percent-encoded characters are compared decoded. So
/// `/login` also matches `//login`, `/login/` and `/%6Cogin`. Letters count as they are.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::Pattern;
///
/// let pattern: Pattern = "/api/{version}/*".parse().unwrap();
/// assert!(pattern.matches("/api/v1/users/7"));
/// assert!(pattern.matches("//api/v1/"));
/// assert!(!pattern.matches("/api"));
/// assert!("api".parse::<Pattern>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
    /// Whether further segments may follow.
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Segment {
    /// Decoded.
    Literal(Vec<u8>),
    Any,
}

impl Pattern {
    /// Returns whether every path matches: `/*`.
    fn is_any_path(&self) -> bool {
        self.open && self.segments.is_empty()
    }

    /// Returns whether a path matches.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        for segment in &self.segments {
            match (segment, parts.next()) {
                (Segment::Any, Some(_)) => {}
                (Segment::Literal(literal), Some(part))
                    if decoded(part).eq(literal.iter().copied()) => {}
                _ => return false,
            }
        }
        self.open || parts.next().is_none()
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = |reason| PatternError {
            text: text.to_owned(),
            reason,
        };
        if !text.starts_with('/') {
            return Err(fail("a path pattern begins with a slash"));
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#')) {
            return Err(fail("a path pattern has no spaces, no \"?\" and no \"#\""));
        }
        let mut segments = Vec::new();
        let mut parts = text.split('/').filter(|part| !part.is_empty()).peekable();
        let mut open = false;
        while let Some(part) = parts.next() {
            let named = part.starts_with('{') && part.ends_with('}') && part.len() > 2;
            match part {
                "*" if parts.peek().is_none() => open = true,
                "*" => segments.push(Segment::Any),
                // axum's name for the rest of a path.
                _ if named && part.starts_with("{*") => {
                    if parts.peek().is_some() {
                        return Err(fail(
                            "only the last part of a path pattern stands for the rest",
                        ));
                    }
                    open = true;
                }
                _ if named => segments.push(Segment::Any),
                _ if part.contains(['*', '{', '}']) => {
                    return Err(fail("\"*\" and \"{name}\" stand for whole segments"));
                }
                _ => segments.push(Segment::Literal(decoded(part).collect())),
            }
        }
        Ok(Self {
            text: text.to_owned(),
            segments,
            open,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Decodes percent-encoding; what is not a valid escape stays as it is.
fn decoded(part: &str) -> impl Iterator<Item = u8> + '_ {
    let mut rest = part.as_bytes();
    std::iter::from_fn(move || {
        let (byte, length) = match rest {
            [] => return None,
            [b'%', high, low, ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [byte, ..] => (*byte, 1),
        };
        rest = &rest[length..];
        Some(byte)
    })
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Why a text is not a path pattern, or not a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    text: String,
    reason: &'static str,
}

impl PatternError {
    /// Returns the text that is neither.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Reads a method, in capitals or not.
///
/// A method begins with a letter here, which leaves out nothing that is registered but `*`: taken
/// for any method, it would keep a rule from applying to anything.
pub(crate) fn method(text: &str) -> Result<Method, PatternError> {
    let fail = || PatternError {
        text: text.to_owned(),
        reason: "not a method",
    };
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err(fail());
    }
    Method::from_bytes(text.to_ascii_uppercase().as_bytes()).map_err(|_| fail())
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid place {:?}: {}", self.text, self.reason)
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(path)
    }

    #[test]
    fn a_path_matches_in_every_spelling() {
        for path in ["/login", "/login/", "//login", "/%6Cogin", "/%6cogin//"] {
            assert!(matches("/login", path), "{path}");
        }
        for path in ["/", "/log", "/login/x", "/Login", "/%6log"] {
            assert!(!matches("/login", path), "{path}");
        }
        assert!(matches("/", "/"));
        assert!(matches("/*", "/any/thing"));
        assert!(matches("/a%2Fb", "/a%2fb"));
        assert!(!matches("/a%2Fb", "/a/b"));
    }

    #[test]
    fn stars_and_names_stand_for_whole_segments() {
        assert!(matches("/users/{id}/files", "/users/7/files"));
        assert!(!matches("/users/{id}/files", "/users/files"));
        assert!(matches("/files/{*rest}", "/files/a/b"));
        assert!(matches("/*/x", "/a/x"));
        for text in ["", "users", "/a b", "/a?b", "/a*", "/{*rest}/x", "/x{id}"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn head_counts_as_get() {
        let place = Place::new(vec![Method::GET], vec![]);
        let request = |method: Method| {
            http::Request::builder()
                .method(method)
                .body(())
                .unwrap()
                .into_parts()
                .0
        };
        assert!(place.contains(&request(Method::HEAD)));
        assert!(place.contains(&request(Method::GET)));
        assert!(!place.contains(&request(Method::POST)));
        let head_only = Place::new(vec![Method::HEAD], vec![]);
        assert!(head_only.contains(&request(Method::HEAD)));
        assert!(!head_only.contains(&request(Method::GET)));
    }
}
