//! Refusals of gRPC calls, as tonic and its types read them.

use std::time::Duration;

use http::HeaderMap;
use proptest::prelude::*;
use tonic_types::{ErrorDetails, StatusExt};
use tower_ratekeeper::grpc::{Code, EXPOSED_FIELDS, EXPOSED_FIELDS_TEXT, GrpcKind, Status};

fn headers(status: Status<'_>) -> HeaderMap {
    status.into_response(GrpcKind::Grpc).into_parts().0.headers
}

/// What tonic's client makes of the answer.
fn received(status: Status<'_>) -> tonic::Status {
    tonic::Status::from_header_map(&headers(status)).unwrap()
}

#[test]
fn details_are_encoded_as_the_reference_encoder_does() {
    let two_seconds = headers(
        Status::new(Code::ResourceExhausted, "rate limit exceeded")
            .retry_after(Duration::from_secs(2)),
    );
    assert_eq!(
        two_seconds["grpc-status-details-bin"],
        "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAg"
    );
    let no_message =
        headers(Status::new(Code::ResourceExhausted, "").retry_after(Duration::from_millis(1_500)));
    assert_eq!(
        no_message["grpc-status-details-bin"],
        "CAgaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIARCAyrXuAQ"
    );
    assert!(!no_message.contains_key("grpc-message"));
}

#[test]
fn messages_are_percent_encoded() {
    let headers = headers(Status::new(
        Code::ResourceExhausted,
        "rate limit exceeded: 100% used, retry in 2s",
    ));
    assert_eq!(
        headers["grpc-message"],
        "rate%20limit%20exceeded:%20100%25%20used,%20retry%20in%202s"
    );
}

#[test]
fn an_answer_is_headers_alone_in_the_protocol_of_the_call() {
    for kind in [
        GrpcKind::Grpc,
        GrpcKind::Proto,
        GrpcKind::Web,
        GrpcKind::WebProto,
        GrpcKind::WebText,
        GrpcKind::WebTextProto,
    ] {
        let response = Status::new(Code::Unavailable, "away").into_response(kind);
        assert_eq!(response.status(), 200);
        let headers = response.headers();
        assert_eq!(headers["content-type"], kind.content_type());
        assert_eq!(headers["grpc-status"], "14");
        assert_eq!(headers["grpc-message"], "away");
        // Nothing is said of another try, and there are no details to send.
        assert_eq!(headers.len(), 3);
    }
}

#[test]
fn headers_are_those_of_tonic() {
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(1_500)));
    let theirs = tonic::Status::with_error_details(
        tonic::Code::ResourceExhausted,
        "rate limit exceeded",
        details,
    );
    let theirs = theirs.into_http::<()>();
    let ours = Status::new(Code::ResourceExhausted, "rate limit exceeded")
        .retry_after(Duration::from_millis(1_500))
        .into_response(GrpcKind::Grpc);
    assert_eq!(ours.status(), theirs.status());
    for (name, value) in theirs.headers() {
        assert_eq!(ours.headers().get(name), Some(value), "{name}");
    }
    let pushback = 1;
    assert_eq!(ours.headers().len(), theirs.headers().len() + pushback);
}

#[test]
fn a_client_reads_wait_policies_and_reason() {
    let status = received(
        Status::new(Code::ResourceExhausted, "rate limit exceeded")
            .retry_after(Duration::from_nanos(2_000_000_001))
            .policies(&["hour", "a\"b\\c"])
            .domain("shop.example.org"),
    );
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.message(), "rate limit exceeded");

    let details = status.get_error_details();
    let delay = details.retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(Duration::from_nanos(2_000_000_001)));
    let violations = &details.quota_failure().unwrap().violations;
    let subjects: Vec<&str> = violations
        .iter()
        .map(|violation| &*violation.subject)
        .collect();
    assert_eq!(subjects, ["hour", "a\"b\\c"]);
    assert_eq!(violations[0].description, "rate limit exceeded");
    let info = details.error_info().unwrap();
    assert_eq!(info.reason, "RATE_LIMIT_EXCEEDED");
    assert_eq!(info.domain, "shop.example.org");
}

#[test]
fn a_call_that_can_never_pass_is_not_to_be_tried_again() {
    let status = Status::new(Code::ResourceExhausted, "too large")
        .never_retry()
        .policies(&["default"]);
    assert_eq!(headers(status)["grpc-retry-pushback-ms"], "-1");
    let details = received(status).get_error_details();
    assert!(details.retry_info().is_none());
    assert!(details.quota_failure().is_some());
}

#[test]
fn every_code_is_the_one_that_tonic_knows_by_its_name() {
    let codes = [
        (Code::Cancelled, tonic::Code::Cancelled),
        (Code::Unknown, tonic::Code::Unknown),
        (Code::InvalidArgument, tonic::Code::InvalidArgument),
        (Code::DeadlineExceeded, tonic::Code::DeadlineExceeded),
        (Code::NotFound, tonic::Code::NotFound),
        (Code::AlreadyExists, tonic::Code::AlreadyExists),
        (Code::PermissionDenied, tonic::Code::PermissionDenied),
        (Code::ResourceExhausted, tonic::Code::ResourceExhausted),
        (Code::FailedPrecondition, tonic::Code::FailedPrecondition),
        (Code::Aborted, tonic::Code::Aborted),
        (Code::OutOfRange, tonic::Code::OutOfRange),
        (Code::Unimplemented, tonic::Code::Unimplemented),
        (Code::Internal, tonic::Code::Internal),
        (Code::Unavailable, tonic::Code::Unavailable),
        (Code::DataLoss, tonic::Code::DataLoss),
        (Code::Unauthenticated, tonic::Code::Unauthenticated),
    ];
    for (ours, theirs) in codes {
        assert_eq!(received(Status::new(ours, "")).code(), theirs);
    }
}

#[test]
fn the_header_block_stays_within_what_clients_accept() {
    let long = "%".repeat(5_000);
    let names = vec!["n".repeat(1024); 8];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for message in ["", "rate limit exceeded", &long] {
        let status = Status::new(Code::ResourceExhausted, message)
            .retry_after(Duration::MAX)
            .policies(&names)
            .domain(&long);
        let headers = headers(status);
        let fields = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 32);
        let block = fields.sum::<usize>() + ":status200".len() + 32;
        assert!(block <= 8 * 1024, "{block} bytes");
        // What fits is still readable.
        let details = received(status).get_error_details();
        assert!(details.retry_info().is_some());
        assert_eq!(details.error_info().unwrap().reason, "RATE_LIMIT_EXCEEDED");
    }
}

#[test]
fn exposed_fields_are_the_same_as_names_and_as_text() {
    let names = EXPOSED_FIELDS.map(|name| name.to_string());
    assert_eq!(names.join(", "), EXPOSED_FIELDS_TEXT);
}

proptest! {
    #[test]
    fn every_refusal_is_read_back(
        message in ".{0,80}",
        seconds in 0..=315_576_000_000_u64,
        nanos in 0..1_000_000_000_u32,
        policies in proptest::collection::vec("[ -~]{1,40}", 0..8),
    ) {
        let wait = Duration::new(seconds, nanos);
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let status = received(
            Status::new(Code::ResourceExhausted, &message)
                .retry_after(wait)
                .policies(&policies),
        );
        prop_assert_eq!(status.message(), &message);
        let details = status.get_error_details();
        let delay = details.retry_info().unwrap().retry_delay.unwrap();
        prop_assert_eq!(delay, wait.min(Duration::from_secs(315_576_000_000)));
        let violations = details.quota_failure().map_or(&[][..], |failure| &failure.violations);
        let subjects: Vec<&str> = violations.iter().map(|violation| &*violation.subject).collect();
        prop_assert_eq!(subjects, policies);
    }
}
