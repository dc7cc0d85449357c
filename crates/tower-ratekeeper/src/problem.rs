//! Bodies of the responses that a limiter sends itself: problem details (RFC 9457), plain text, or nothing.
//!
//! Bodies are made when a layer is built and cloned for each response; only a refusal by several policies is put together anew.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::grpc::Code;

/// The form of the bodies that tell a client why it was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BodyFormat {
    /// Problem details as `application/problem+json`, with the type and members that the draft of the `RateLimit` fields registers.
    #[default]
    ProblemJson,
    /// One line of `text/plain`.
    Plain,
    /// No body.
    Empty,
}

impl BodyFormat {
    /// Returns the content type of bodies in this form, `None` where there is no body.
    #[must_use]
    pub fn content_type(self) -> Option<HeaderValue> {
        const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
        const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
        match self {
            Self::ProblemJson => Some(PROBLEM_JSON),
            Self::Plain => Some(PLAIN),
            Self::Empty => None,
        }
    }
}

/// Why a limiter answers a request itself. The texts tell the client what it can mend and nothing of the server's inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem<'a> {
    /// The policies of these names refuse the request.
    QuotaExceeded { policies: &'a [&'a str] },
    /// The address that the request came from is not known: the server is set up wrongly.
    AddressUnknown,
    /// The request does not say who is asking.
    KeyMissing,
    /// What says who is asking cannot be read.
    KeyMalformed,
    /// Who is asking is known and must not.
    KeyForbidden,
    /// The request costs more than any single request may.
    CostTooLarge,
    /// The limits could not be looked up, and the request is refused for safety.
    StoreUnavailable,
}

impl Problem<'_> {
    /// Returns the gRPC status that fits where none was configured.
    pub(crate) fn code(self) -> Code {
        match self {
            Self::QuotaExceeded { .. } => Code::ResourceExhausted,
            Self::AddressUnknown => Code::Internal,
            Self::KeyMissing => Code::Unauthenticated,
            Self::KeyMalformed | Self::CostTooLarge => Code::InvalidArgument,
            Self::KeyForbidden => Code::PermissionDenied,
            Self::StoreUnavailable => Code::Unavailable,
        }
    }

    /// Returns the sentence for the client, without a full stop.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::QuotaExceeded { .. } => "rate limit exceeded",
            Self::AddressUnknown => "the client's address is unknown",
            Self::KeyMissing => "the request does not identify its caller",
            Self::KeyMalformed => "the request identifies its caller in a form that cannot be read",
            Self::KeyForbidden => "the caller is not allowed to make this request",
            Self::CostTooLarge => "the request costs more than a single request may",
            Self::StoreUnavailable => {
                "the request cannot be checked against its limits at the moment"
            }
        }
    }

    /// Returns the body for a response with that status.
    pub(crate) fn body(self, format: BodyFormat, status: StatusCode) -> Bytes {
        match format {
            BodyFormat::ProblemJson => self.problem_json(status).into(),
            BodyFormat::Plain => self.plain().into(),
            BodyFormat::Empty => Bytes::new(),
        }
    }

    fn problem_json(self, status: StatusCode) -> String {
        let mut json = String::with_capacity(192);
        match self {
            Self::QuotaExceeded { policies } => {
                json.push_str(
                    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":"#,
                );
                json.push_str(status.as_str());
                json.push_str(r#","violated-policies":["#);
                for (place, name) in policies.iter().enumerate() {
                    if place > 0 {
                        json.push(',');
                    }
                    push_json_string(&mut json, name);
                }
                json.push_str("]}");
            }
            _ => {
                // Without a type of its own a problem is titled as its status.
                json.push_str(r#"{"type":"about:blank","title":"#);
                push_json_string(&mut json, status.canonical_reason().unwrap_or("Error"));
                json.push_str(r#","status":"#);
                json.push_str(status.as_str());
                json.push_str(r#","detail":"#);
                push_json_string(&mut json, self.detail());
                json.push('}');
            }
        }
        json
    }

    fn plain(self) -> String {
        let mut line = self.detail().to_owned();
        if let Self::QuotaExceeded { policies } = self {
            for (place, name) in policies.iter().enumerate() {
                line.push_str(if place == 0 { ": " } else { ", " });
                line.push_str(name);
            }
        }
        line.push('\n');
        line
    }
}

/// Appends `string` as a JSON string.
fn push_json_string(json: &mut String, string: &str) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    json.push('"');
    for character in string.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\0'..='\x1F' => {
                let code = u32::from(character) as usize;
                json.extend(['\\', 'u', '0', '0', HEX[code >> 4], HEX[code & 0xF]]);
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const TROUBLES: [Problem<'static>; 6] = [
        Problem::AddressUnknown,
        Problem::KeyMissing,
        Problem::KeyMalformed,
        Problem::KeyForbidden,
        Problem::CostTooLarge,
        Problem::StoreUnavailable,
    ];

    fn json(problem: Problem<'_>, status: StatusCode) -> serde_json::Value {
        let body = problem.body(BodyFormat::ProblemJson, status);
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn a_refusal_has_the_registered_type_and_names_the_policy() {
        let problem = Problem::QuotaExceeded {
            policies: &["default"],
        };
        assert_eq!(
            problem.body(BodyFormat::ProblemJson, StatusCode::TOO_MANY_REQUESTS),
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["default"]}"#
        );
    }

    #[test]
    fn several_policies_are_named_and_escaped() {
        let problem = Problem::QuotaExceeded {
            policies: &["a\"b\\c", "</script>", "day"],
        };
        let value = json(problem, StatusCode::FORBIDDEN);
        assert_eq!(value["status"], 403);
        assert_eq!(
            value["violated-policies"],
            serde_json::json!(["a\"b\\c", "</script>", "day"])
        );
    }

    #[test]
    fn every_character_survives_a_json_parser() {
        for code in (0..0xD800).chain(0xE000..0x1_1000) {
            let string = char::from_u32(code).unwrap().to_string();
            let mut text = String::new();
            push_json_string(&mut text, &string);
            let back: String = serde_json::from_str(&text).unwrap();
            assert_eq!(back, string, "U+{code:04X}");
        }
    }

    #[test]
    fn other_problems_are_titled_as_their_status() {
        for problem in TROUBLES {
            let status = StatusCode::FORBIDDEN;
            let value = json(problem, status);
            assert_eq!(value["type"], "about:blank");
            assert_eq!(value["title"], status.canonical_reason().unwrap());
            assert_eq!(value["status"], status.as_u16());
            assert_eq!(value["detail"], problem.detail());
            assert_eq!(value.as_object().unwrap().len(), 4);
        }
        // The status of the body is that of the response even where another one is configured.
        let value = json(Problem::CostTooLarge, StatusCode::BAD_REQUEST);
        assert_eq!(value["status"], 400);
        assert_eq!(value["title"], "Bad Request");
    }

    #[test]
    fn no_problem_tells_how_the_server_is_built() {
        for problem in TROUBLES {
            let text = problem.body(BodyFormat::ProblemJson, StatusCode::BAD_REQUEST);
            let text = String::from_utf8(text.to_vec()).unwrap().to_lowercase();
            for word in [
                "redis",
                "store",
                "extension",
                "header",
                "connectinfo",
                "socket",
                "proxy",
            ] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    }

    #[test]
    fn plain_bodies_are_one_line_and_empty_ones_none() {
        let problem = Problem::QuotaExceeded {
            policies: &["hour", "day"],
        };
        let status = StatusCode::FORBIDDEN;
        assert_eq!(
            problem.body(BodyFormat::Plain, status),
            "rate limit exceeded: hour, day\n"
        );
        assert_eq!(
            Problem::AddressUnknown.body(BodyFormat::Plain, status),
            "the client's address is unknown\n"
        );
        assert!(problem.body(BodyFormat::Empty, status).is_empty());
        assert_eq!(BodyFormat::Empty.content_type(), None);
        assert_eq!(
            BodyFormat::ProblemJson.content_type().unwrap(),
            "application/problem+json"
        );
    }
}
