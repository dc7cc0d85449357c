use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header::CONTENT_TYPE};

use crate::fields::text::{Padding, base64_len, push_base64};

use super::{
    Code, GRPC_MESSAGE, GRPC_RETRY_PUSHBACK, GRPC_STATUS, GRPC_STATUS_DETAILS, GrpcKind, details,
};

/// How large all header fields of an answer may get together; clients accept 8 KiB. What is not under the caller's control
/// (the names, the numbers, 32 bytes that each field is counted for) takes less than the difference.
const MAX_FIELDS: usize = 8 * 1024 - 512;

/// How many bytes of a message are sent. Percent-encoding takes three for one, and the message is sent twice.
const MAX_MESSAGE: usize = 1024;

/// The answer to a refused call.
///
/// It is a response of headers alone (Trailers-Only), so that clients may try again by themselves: nothing of the call has been
/// answered yet.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tower_ratekeeper::grpc::{Code, GrpcKind, Status};
///
/// let response = Status::new(Code::ResourceExhausted, "rate limit exceeded")
///     .retry_after(Duration::from_millis(1_500))
///     .policies(&["default"])
///     .domain("example.org")
///     .into_response(GrpcKind::Grpc);
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["content-type"], "application/grpc");
/// assert_eq!(response.headers()["grpc-status"], "8");
/// assert_eq!(response.headers()["grpc-message"], "rate%20limit%20exceeded");
/// assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1500");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    code: Code,
    message: &'a str,
    retry: Option<Retry>,
    policies: &'a [&'a str],
    domain: &'a str,
}

/// What a client is told about another try.
#[derive(Clone, Copy, Debug)]
enum Retry {
    After(Duration),
    Never,
}

impl<'a> Status<'a> {
    /// Returns the answer with that code and message, which says nothing of another try.
    ///
    /// At most 1024 bytes of the message are sent.
    #[must_use]
    pub const fn new(code: Code, message: &'a str) -> Self {
        Self {
            code,
            message,
            retry: None,
            policies: &[],
            domain: "",
        }
    }

    /// Sets how long a client must wait, as `RetryInfo` and, in whole milliseconds rounded up, as `grpc-retry-pushback-ms`.
    #[must_use]
    pub const fn retry_after(mut self, wait: Duration) -> Self {
        self.retry = Some(Retry::After(wait));
        self
    }

    /// Tells the client that another try is no use, with a negative `grpc-retry-pushback-ms`.
    #[must_use]
    pub const fn never_retry(mut self) -> Self {
        self.retry = Some(Retry::Never);
        self
    }

    /// Sets the names of the policies that refuse.
    ///
    /// They are sent as the subjects of a `QuotaFailure`, beside an `ErrorInfo` with the reason `RATE_LIMIT_EXCEEDED`. Give the
    /// names of policies only, never what identifies a caller. Names that do not fit into a header block of 8 KiB are left out.
    #[must_use]
    pub const fn policies(mut self, names: &'a [&'a str]) -> Self {
        self.policies = names;
        self
    }

    /// Sets the domain of the `ErrorInfo`, such as the name of the service.
    #[must_use]
    pub const fn domain(mut self, domain: &'a str) -> Self {
        self.domain = domain;
        self
    }

    /// Returns the response to a call of that kind; its body is to be empty.
    #[must_use]
    pub fn into_response(self, kind: GrpcKind) -> Response<()> {
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, kind.content_type());
        headers.insert(
            GRPC_STATUS,
            HeaderValue::from(u16::from(self.code.number())),
        );

        let message = truncated(self.message);
        let encoded = percent_encoded(message);
        let room = MAX_FIELDS.saturating_sub(encoded.len());
        if !encoded.is_empty() {
            insert(headers, GRPC_MESSAGE, encoded);
        }
        if let Some(text) = self.details(message, room) {
            insert(headers, GRPC_STATUS_DETAILS, text);
        }
        match self.retry {
            Some(Retry::After(wait)) => {
                headers.insert(GRPC_RETRY_PUSHBACK, HeaderValue::from(pushback(wait)));
            }
            Some(Retry::Never) => {
                headers.insert(GRPC_RETRY_PUSHBACK, HeaderValue::from_static("-1"));
            }
            None => {}
        }
        response
    }

    /// Returns the value of `grpc-status-details-bin` in at most `room` bytes, or `None` where there are no details.
    fn details(self, message: &str, room: usize) -> Option<Vec<u8>> {
        let mut status = details::status(self.code, message);
        let retry_info = match self.retry {
            Some(Retry::After(wait)) => Some(wait),
            Some(Retry::Never) | None => None,
        };
        if retry_info.is_none() && self.policies.is_empty() {
            return None;
        }
        if let Some(wait) = retry_info {
            status = details::with_retry_info(status, wait);
        }
        if !self.policies.is_empty() {
            status = details::with_error_info(status, truncated(self.domain));
            status = details::with_quota_failure(status, self.policies, room / 4 * 3);
        }
        let bytes = status.into_bytes();
        let mut text = Vec::with_capacity(base64_len(bytes.len(), Padding::Unpadded));
        push_base64(&mut text, &bytes, Padding::Unpadded);
        Some(text)
    }
}

/// Sets a field to text that is printable ASCII.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: Vec<u8>) {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
        headers.insert(name, value);
    }
}

/// Returns whole milliseconds, rounded up, in the 31 bits that the field has room for.
fn pushback(wait: Duration) -> i32 {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    i32::try_from(millis).unwrap_or(i32::MAX)
}

/// Returns as much of the start as is sent, cut between characters.
fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Encodes what a `grpc-message` cannot carry, and with it the characters that other implementations encode too.
fn percent_encoded(message: &str) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = Vec::with_capacity(message.len() + 16);
    for byte in message.bytes() {
        match byte {
            b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'`' | b'{' | b'}' | 0..=b' ' | 0x7F.. => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 0xF));
                text.extend_from_slice(&[b'%', HEX[high], HEX[low]]);
            }
            _ => text.push(byte),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushback_is_rounded_up_and_keeps_to_31_bits() {
        let cases = [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(1_500), 2),
            (Duration::from_millis(1_500), 1_500),
            (Duration::from_millis(2_147_483_646), 2_147_483_646),
            (Duration::from_millis(2_147_483_648), i32::MAX),
            (Duration::MAX, i32::MAX),
        ];
        for (wait, millis) in cases {
            assert_eq!(pushback(wait), millis, "{wait:?}");
        }
    }

    #[test]
    fn messages_are_cut_between_characters() {
        assert_eq!(truncated("short"), "short");
        let text = format!("{}é", "x".repeat(1023));
        assert_eq!(truncated(&text).len(), 1023);
    }
}
