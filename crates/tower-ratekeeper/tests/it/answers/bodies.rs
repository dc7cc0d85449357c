//! Statuses, bodies and the fields about them.

use http::{Method, Request, Response, StatusCode};
use tower_ratekeeper::{BodyFormat, Quota, RateLimitLayer, Rule};

use super::{
    builder, everybody, exhaust, limit_fields, one_a_minute, request, retry_after, send, text,
    value,
};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

#[tokio::test]
async fn bodies_have_the_chosen_form() {
    for (format, kind, body) in [
        (
            BodyFormat::ProblemJson,
            Some("application/problem+json"),
            format!(
                r#"{{"type":"{QUOTA_EXCEEDED}","title":"Quota Exceeded","status":429,"violated-policies":["default"]}}"#
            ),
        ),
        (
            BodyFormat::Plain,
            Some("text/plain; charset=utf-8"),
            "rate limit exceeded: default\n".to_owned(),
        ),
        (BodyFormat::Empty, None, String::new()),
    ] {
        let (builder, _) = builder([one_a_minute("default")]);
        let layer = builder.body(format).build().unwrap();
        exhaust(&layer).await;
        let head = Request::head("/").body(()).unwrap();
        // hyper leaves the body of an answer to HEAD out; the fields are those of GET.
        for request in [request(), head] {
            let refused = send(&layer, request).await;
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            let headers = refused.headers();
            assert_eq!(value(headers, "content-type"), kind);
            assert_eq!(value(headers, "cache-control"), Some("no-store"));
            assert_eq!(retry_after(headers), Some(60));
            let length = headers
                .get("content-length")
                .map(|length| length.to_str().unwrap());
            assert_eq!(length.unwrap_or("0"), body.len().to_string());
            assert_eq!(text(refused).await, body);
        }
    }
}

#[tokio::test]
async fn a_problem_names_every_policy_that_refuses_and_no_other() {
    let (builder, _) = builder([
        one_a_minute("one"),
        everybody(Rule::token_bucket("wide", Quota::per_minute(9))),
        one_a_minute("shadow").shadowed(),
        everybody(Rule::sliding_log("two", Quota::per_hour(1))),
    ]);
    let layer = builder.build().unwrap();
    exhaust(&layer).await;
    let refused = send(&layer, request()).await;
    assert!(
        retry_after(refused.headers()) >= Some(3_600),
        "the longest wait"
    );
    let problem: serde_json::Value = serde_json::from_str(&text(refused).await).unwrap();
    assert_eq!(
        problem["violated-policies"],
        serde_json::json!(["one", "two"])
    );
}

#[tokio::test]
async fn each_rule_has_its_status_and_the_first_that_refuses_decides() {
    let (builder, _) = builder([
        everybody(Rule::token_bucket("wide", Quota::per_minute(9))).status(StatusCode::IM_A_TEAPOT),
        one_a_minute("load").status(StatusCode::SERVICE_UNAVAILABLE),
        one_a_minute("user").status(StatusCode::FORBIDDEN),
    ]);
    let layer = builder.build().unwrap();
    exhaust(&layer).await;
    let refused = send(&layer, request()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let problem: serde_json::Value = serde_json::from_str(&text(refused).await).unwrap();
    assert_eq!(problem["status"], 503);
}

#[tokio::test]
async fn refusals_that_no_limit_made_are_not_stored_either() {
    let by_tenant = Rule::token_bucket("tenant", Quota::per_minute(9))
        .by_fn(|parts| parts.headers.get("x-tenant").map(|_| 1_u64))
        .cost_by(|parts| if parts.method == Method::POST { 100 } else { 1 })
        .max_cost(50);
    let (builder, _) = builder([by_tenant]);
    let layer = builder.build().unwrap();
    let costly = Request::post("/").header("x-tenant", "a").body(()).unwrap();
    for (request, status) in [
        (request(), StatusCode::BAD_REQUEST),
        (costly, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let refused = send(&layer, request).await;
        assert_eq!(refused.status(), status);
        assert_eq!(value(refused.headers(), "cache-control"), Some("no-store"));
        assert_eq!(retry_after(refused.headers()), None);
        assert!(limit_fields(refused.headers()).is_empty());
    }
}

#[tokio::test]
async fn a_responder_that_speaks_of_caches_does_not_lose_no_store() {
    for (own, sent) in [
        (&[][..], &["no-store"][..]),
        (&["private"], &["private", "no-store"]),
        (&["private, No-Store"], &["private, No-Store"]),
        (&["private", "no-store"], &["private", "no-store"]),
    ] {
        let (builder, _) = builder([one_a_minute("default")]);
        let layer = builder.respond_with(move |refusal, _| {
            let response = Response::builder().status(refusal.status);
            own.iter()
                .fold(response, |response, own| {
                    response.header("cache-control", *own)
                })
                .body("")
                .unwrap()
        });
        let layer: RateLimitLayer = layer.build().unwrap();
        exhaust(&layer).await;
        let refused = send(&layer, request()).await;
        let lines: Vec<_> = refused.headers().get_all("cache-control").iter().collect();
        assert_eq!(lines, sent);
    }
}
