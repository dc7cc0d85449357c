//! The grammar of extractors:
//!
//! ```text
//! expression  = alternative [ "else" policy ]
//! alternative = primary *( "or" primary )
//! primary     = "(" expression *( "," expression ) ")" / name [ ":" argument ]
//! ```

use std::sync::Arc;

use http::{HeaderName, StatusCode};

use super::{ExtractorError, ExtractorErrorKind, RESERVED, Registry};
use crate::keys::percent;
use crate::{
    BearerToken, Cookie, Global, GrpcMethod, GrpcService, Header, Host, KeyExtractor, Method,
    OnFailure, Peer, Query,
};

/// How deeply parentheses nest: enough for people, and a bound on the stack.
const DEEPEST: u8 = 16;

type Extractor = Arc<dyn KeyExtractor>;

pub(super) struct Parser<'r, 't> {
    registry: &'r Registry,
    text: &'t str,
    /// What has not been read yet, without white space in front.
    rest: &'t str,
    depth: u8,
}

impl<'r, 't> Parser<'r, 't> {
    pub(super) fn new(registry: &'r Registry, text: &'t str) -> Self {
        Self {
            registry,
            text,
            rest: text.trim_start(),
            depth: 0,
        }
    }

    pub(super) fn rest(&self) -> &'t str {
        self.rest
    }

    pub(super) fn expression(&mut self) -> Result<Extractor, ExtractorError> {
        let mut extractor = self.primary()?;
        while self.keyword("or") {
            extractor = Arc::new(extractor.or(self.primary()?));
        }
        if self.keyword("else") {
            let position = self.position();
            let policy = self.word();
            let policy = policy_of(policy).ok_or_else(|| {
                ExtractorError::new(ExtractorErrorKind::BadPolicy, position, policy)
            })?;
            extractor = Arc::new(extractor.on_failure(policy));
        }
        Ok(extractor)
    }

    fn primary(&mut self) -> Result<Extractor, ExtractorError> {
        let position = self.position();
        if !self.symbol('(') {
            let word = self.word();
            return if word.is_empty() {
                Err(self.unexpected())
            } else {
                self.named(word, position)
            };
        }
        if self.depth == DEEPEST {
            return Err(ExtractorError::new(
                ExtractorErrorKind::TooDeep,
                position,
                "(",
            ));
        }
        self.depth += 1;
        let mut parts = vec![self.expression()?];
        while self.symbol(',') {
            if parts.len() == 4 {
                return Err(self.error(ExtractorErrorKind::TooManyParts));
            }
            parts.push(self.expression()?);
        }
        if !self.symbol(')') {
            return Err(self.unexpected());
        }
        self.depth -= 1;
        let mut parts = parts.into_iter();
        // A single expression in parentheses is only grouped.
        Ok(
            match (parts.next(), parts.next(), parts.next(), parts.next()) {
                (Some(a), Some(b), Some(c), Some(d)) => Arc::new((a, b, c, d)),
                (Some(a), Some(b), Some(c), None) => Arc::new((a, b, c)),
                (Some(a), Some(b), ..) => Arc::new((a, b)),
                (Some(a), ..) => a,
                (None, ..) => return Err(self.unexpected()),
            },
        )
    }

    fn named(&self, word: &str, position: usize) -> Result<Extractor, ExtractorError> {
        let error = |kind| ExtractorError::new(kind, position, word);
        let (name, argument) = match word.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (word, None),
        };
        if let Some(named) = self.registry.named.get(name) {
            return match argument {
                None => Ok(Arc::clone(named)),
                Some(_) => Err(error(ExtractorErrorKind::BadArgument)),
            };
        }
        if name == "route" && cfg!(not(feature = "axum")) {
            return Err(error(ExtractorErrorKind::Unavailable));
        }
        if !RESERVED.contains(&name) || ["custom", "else", "or"].contains(&name) {
            return Err(error(ExtractorErrorKind::UnknownName));
        }
        self.built_in(name, argument)
            .ok_or_else(|| error(ExtractorErrorKind::BadArgument))
    }

    /// Returns the built-in extractor, or `None` if the argument is not the right one for it.
    fn built_in(&self, name: &str, argument: Option<&str>) -> Option<Extractor> {
        let ip = || self.registry.client_ip.clone();
        Some(match (name, argument) {
            ("ip", None) => Arc::new(ip()),
            ("ip", Some(prefixes)) => Arc::new(ip().with_prefixes(prefixes.parse().ok()?)),
            ("peer", None) => Arc::new(Peer),
            ("bearer", None) => Arc::new(BearerToken),
            ("method", None) => Arc::new(Method),
            ("global", None) => Arc::new(Global),
            ("host", None) => Arc::new(Host::new()),
            #[cfg(feature = "axum")]
            ("route", None) => Arc::new(crate::MatchedRoute),
            ("header", Some(name)) => {
                Arc::new(Header::new(HeaderName::from_bytes(name.as_bytes()).ok()?))
            }
            ("cookie", Some(name)) => Arc::new(Cookie::new(decoded(name)?)),
            ("query", Some(name)) => Arc::new(Query::new(decoded(name)?)),
            ("host", Some(hosts)) => Arc::new(Host::known(list(hosts)?)),
            ("grpc-method", Some(methods)) => Arc::new(GrpcMethod::new(list(methods)?)),
            ("grpc-service", Some(services)) => Arc::new(GrpcService::new(list(services)?)),
            _ => return None,
        })
    }

    /// Reads up to white space, a comma or a parenthesis.
    fn word(&mut self) -> &'t str {
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')');
        let (word, rest) = self
            .rest
            .split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let before = self.rest;
        let found = self.word() == keyword;
        if !found {
            self.rest = before;
        }
        found
    }

    fn symbol(&mut self, symbol: char) -> bool {
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn position(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    fn error(&self, kind: ExtractorErrorKind) -> ExtractorError {
        ExtractorError::new(kind, self.position(), self.rest)
    }

    fn unexpected(&self) -> ExtractorError {
        self.error(ExtractorErrorKind::Unexpected)
    }
}

fn policy_of(text: &str) -> Option<OnFailure> {
    match text {
        "shared" => Some(OnFailure::Shared),
        "exempt" => Some(OnFailure::Exempt),
        status => {
            let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
            let is_error = status.is_client_error() || status.is_server_error();
            is_error.then_some(OnFailure::Refuse(status))
        }
    }
}

fn decoded(name: &str) -> Option<String> {
    let name = percent::decode(name, false)?;
    (!name.is_empty()).then(|| name.into_owned())
}

/// Returns the names of a list, none of which is empty, not even after the slash that gRPC methods
/// may begin with.
fn list(text: &str) -> Option<impl Iterator<Item = &str>> {
    let all_named = text
        .split('|')
        .all(|name| !name.trim_start_matches('/').is_empty());
    all_named.then(|| text.split('|'))
}
