use http::{
    HeaderMap, StatusCode,
    header::{CACHE_CONTROL, EXPIRES},
};

/// Which responses carry the fields; all but redirects by default.
///
/// Refusals carry them always. A redirect that reports little left can keep a client from following it, and a stored response
/// tells later readers what is long past.
///
/// # Examples
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use tower_ratekeeper::fields::{FieldScope, OnCacheable, OnRedirect};
///
/// let scope = FieldScope::default();
/// assert!(scope.contains(StatusCode::OK, &HeaderMap::new()));
/// assert!(!scope.contains(StatusCode::FOUND, &HeaderMap::new()));
///
/// let scope = FieldScope::default()
///     .redirects(OnRedirect::Send)
///     .cacheable(OnCacheable::Omit);
/// assert!(scope.contains(StatusCode::FOUND, &HeaderMap::new()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldScope {
    redirects: OnRedirect,
    cacheable: OnCacheable,
}

/// What becomes of the fields on responses with a status from 300 to 399.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnRedirect {
    /// They are left out.
    #[default]
    Omit,
    /// They are sent.
    Send,
}

/// What becomes of the fields on responses that say how long they may be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnCacheable {
    /// They are left out.
    Omit,
    /// They are sent; clients are told to ignore them on stored responses.
    #[default]
    Send,
}

impl FieldScope {
    /// Sets what becomes of the fields on redirects.
    #[must_use]
    pub fn redirects(mut self, choice: OnRedirect) -> Self {
        self.redirects = choice;
        self
    }

    /// Sets what becomes of the fields on responses that say how long they may be stored.
    ///
    /// Those are responses with `Expires`, or with `max-age`, `s-maxage` or `public` in `Cache-Control`, unless that has
    /// `no-store` too. Responses that a cache may store by its own reckoning do not count.
    #[must_use]
    pub fn cacheable(mut self, choice: OnCacheable) -> Self {
        self.cacheable = choice;
        self
    }

    /// Returns whether a response with this status and these headers carries the fields.
    #[must_use]
    pub fn contains(self, status: StatusCode, headers: &HeaderMap) -> bool {
        let redirect = self.redirects == OnRedirect::Omit && status.is_redirection();
        let cacheable = self.cacheable == OnCacheable::Omit && is_cacheable(headers);
        !redirect && !cacheable
    }
}

/// Whether `Cache-Control` has a directive of this name, with a value or without.
pub(crate) fn has_directive(headers: &HeaderMap, name: &str) -> bool {
    let lines = headers.get_all(CACHE_CONTROL).iter();
    let mut directives = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    directives.any(|directive| {
        let end = directive.iter().position(|byte| *byte == b'=');
        let given = directive[..end.unwrap_or(directive.len())].trim_ascii();
        given.eq_ignore_ascii_case(name.as_bytes())
    })
}

/// Whether a response says itself how long it may be stored.
fn is_cacheable(headers: &HeaderMap) -> bool {
    let has = |name: &str| has_directive(headers, name);
    let stored =
        headers.contains_key(EXPIRES) || has("max-age") || has("s-maxage") || has("public");
    stored && !has("no-store")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_redirects_are_left_out_by_default() {
        let scope = FieldScope::default();
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        for code in 100..600 {
            let status = StatusCode::from_u16(code).unwrap();
            let redirect = (300..400).contains(&code);
            assert_eq!(scope.contains(status, &headers), !redirect, "{code}");
        }
    }

    #[test]
    fn stored_responses_are_known_by_their_explicit_lifetime() {
        let scope = FieldScope::default().cacheable(OnCacheable::Omit);
        let cases = [
            ("", true),
            ("max-age=60", false),
            ("private, Max-Age = 60", false),
            ("s-maxage=60", false),
            ("public", false),
            ("no-cache", true),
            ("private", true),
            ("max-age=60, no-store", true),
            ("xmax-age=60", true),
        ];
        for (value, sent) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
            assert_eq!(scope.contains(StatusCode::OK, &headers), sent, "{value:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(EXPIRES, HeaderValue::from_static("0"));
        assert!(!scope.contains(StatusCode::OK, &headers));
        // Directives may stand on several lines.
        headers.append(CACHE_CONTROL, HeaderValue::from_static("private"));
        headers.append(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        assert!(scope.contains(StatusCode::OK, &headers));
    }
}
