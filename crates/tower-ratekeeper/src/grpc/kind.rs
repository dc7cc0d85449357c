use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};

/// The protocol of a gRPC call, which is the content type of its answer.
///
/// # Examples
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
/// use tower_ratekeeper::grpc::GrpcKind;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
/// assert_eq!(GrpcKind::of(&Method::POST, &headers), Some(GrpcKind::Proto));
/// assert_eq!(GrpcKind::of(&Method::GET, &headers), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrpcKind {
    /// `application/grpc`, also with a message format other than protobuf.
    Grpc,
    /// `application/grpc+proto`.
    Proto,
    /// `application/grpc-web`, also with a message format other than protobuf.
    Web,
    /// `application/grpc-web+proto`.
    WebProto,
    /// `application/grpc-web-text`, also with a message format other than protobuf.
    WebText,
    /// `application/grpc-web-text+proto`.
    WebTextProto,
}

impl GrpcKind {
    /// Returns the protocol of a request, or `None` where it is no gRPC call.
    ///
    /// A call is a POST whose content type says so; letter case and parameters do not matter.
    #[must_use]
    pub fn of(method: &Method, headers: &HeaderMap) -> Option<Self> {
        if method != Method::POST {
            return None;
        }
        let value = headers.get(CONTENT_TYPE)?.as_bytes();
        let media = value.split(|byte| *byte == b';').next()?.trim_ascii();
        let protocol = strip_prefix(media, b"application/grpc")?;
        // The longer names first: each is also the start of the next.
        if let Some(format) = strip_prefix(protocol, b"-web-text") {
            message_format(format, Self::WebText, Self::WebTextProto)
        } else if let Some(format) = strip_prefix(protocol, b"-web") {
            message_format(format, Self::Web, Self::WebProto)
        } else {
            message_format(protocol, Self::Grpc, Self::Proto)
        }
    }

    /// Returns the content type of an answer.
    #[must_use]
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Grpc => "application/grpc",
            Self::Proto => "application/grpc+proto",
            Self::Web => "application/grpc-web",
            Self::WebProto => "application/grpc-web+proto",
            Self::WebText => "application/grpc-web-text",
            Self::WebTextProto => "application/grpc-web-text+proto",
        })
    }
}

/// Tells the protobuf variant from the others by what follows the protocol's name.
fn message_format(format: &[u8], other: GrpcKind, proto: GrpcKind) -> Option<GrpcKind> {
    match format {
        [] => Some(other),
        [b'+', name @ ..] if name.eq_ignore_ascii_case(b"proto") => Some(proto),
        [b'+', _, ..] => Some(other),
        _ => None,
    }
}

fn strip_prefix<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(content_type: &str) -> Option<GrpcKind> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        GrpcKind::of(&Method::POST, &headers)
    }

    #[test]
    fn calls_are_known_by_their_content_type() {
        let cases = [
            ("application/grpc", Some(GrpcKind::Grpc)),
            ("application/grpc+proto", Some(GrpcKind::Proto)),
            ("application/grpc+json", Some(GrpcKind::Grpc)),
            ("application/grpc;charset=utf-8", Some(GrpcKind::Grpc)),
            (" Application/GRPC ; a=b", Some(GrpcKind::Grpc)),
            ("application/grpc+Proto", Some(GrpcKind::Proto)),
            ("application/grpc-web", Some(GrpcKind::Web)),
            ("application/grpc-web+proto", Some(GrpcKind::WebProto)),
            ("application/grpc-web+thrift", Some(GrpcKind::Web)),
            ("application/grpc-web-text", Some(GrpcKind::WebText)),
            (
                "application/grpc-web-text+proto",
                Some(GrpcKind::WebTextProto),
            ),
            ("application/GRPC-Web-Text; a=b", Some(GrpcKind::WebText)),
            ("application/grpc+", None),
            ("application/grpcx", None),
            ("application/grpc-webx", None),
            ("application/grpc-web-textx", None),
            ("application/grp", None),
            ("application/json", None),
            ("application/connect+proto", None),
            ("text/plain; application/grpc", None),
            ("", None),
        ];
        for (content_type, expected) in cases {
            assert_eq!(kind(content_type), expected, "{content_type:?}");
        }
    }

    #[test]
    fn only_a_post_with_a_content_type_is_a_call() {
        let mut headers = HeaderMap::new();
        assert_eq!(GrpcKind::of(&Method::POST, &headers), None);
        headers.insert(CONTENT_TYPE, GrpcKind::Grpc.content_type());
        for method in [Method::GET, Method::OPTIONS, Method::PUT, Method::HEAD] {
            assert_eq!(GrpcKind::of(&method, &headers), None, "{method}");
        }
    }

    #[test]
    fn the_protobuf_variants_are_answered_in_their_own_type() {
        for text in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "application/grpc-web-text+proto",
        ] {
            assert_eq!(kind(text).unwrap().content_type(), text);
        }
    }
}
