//! Identities that stand in the request: tokens, cookies, parameters, hosts, gRPC calls.

use http::StatusCode;
use ratekeeper_key::{
    BearerToken, Cookie, GrpcMethod, GrpcService, Host, KeyErrorKind, KeyExtractor, Query,
};

use crate::support::{failure, key, request};

const TOKEN: &str = "3b12f1df-5232-4804-897e-917bf397618a";

#[test]
fn a_bearer_token_is_read_in_any_case_of_its_scheme() {
    for scheme in ["Bearer", "bearer", "BEARER"] {
        for spaces in [" ", "   "] {
            let value = format!("{scheme}{spaces}{TOKEN}");
            assert_eq!(
                key(&BearerToken, &request(None, &[("authorization", &value)])),
                TOKEN
            );
        }
    }
    assert_eq!(
        key(
            &BearerToken,
            &request(None, &[("authorization", "Bearer a-._~+/==")])
        ),
        "a-._~+/=="
    );
}

#[test]
fn an_absent_token_is_401_and_a_malformed_one_400() {
    let error = |lines: &[(&str, &str)]| {
        let error = failure(&BearerToken, &request(None, lines));
        (error.kind(), error.status())
    };
    let missing = (KeyErrorKind::Missing, StatusCode::UNAUTHORIZED);
    let malformed = (KeyErrorKind::Malformed, StatusCode::BAD_REQUEST);
    assert_eq!(error(&[]), missing);
    for other in ["", "Basic YTpi", "Bearerx abc", TOKEN] {
        assert_eq!(error(&[("authorization", other)]), missing, "{other}");
    }
    for bad in [
        "Bearer",
        "Bearer  ",
        "Bearer ==",
        "Bearer a b",
        "Bearer a,b",
        "Bearer a=b",
        "Bearer \"a\"",
    ] {
        assert_eq!(error(&[("authorization", bad)]), malformed, "{bad}");
    }
    let twice = [("authorization", "Bearer a"), ("authorization", "Bearer a")];
    assert_eq!(error(&twice), malformed);
}

#[test]
fn a_cookie_is_found_among_others_and_across_lines() {
    let sid = Cookie::new("sid");
    for lines in [
        &[("cookie", "sid=abc")][..],
        &[("cookie", "a=1; sid=abc; b=2")],
        &[("cookie", "a=1;sid=abc;")],
        &[("cookie", "a=1"), ("cookie", "sid=abc")],
        &[("cookie", "xsid=1; sid2=2; SID=3; sid=abc")],
        &[("cookie", "sid=\"abc\"")],
        &[("cookie", "sid=%61b%63")],
        &[("cookie", "sid=abc; sid=abc")],
        &[("cookie", "flag; sid = abc ")],
    ] {
        assert_eq!(key(&sid, &request(None, lines)), "abc", "{lines:?}");
    }
    assert_eq!(
        key(&sid, &request(None, &[("cookie", "sid=a=b+c%zz%4")])),
        "a=b+c%zz%4"
    );
}

#[test]
fn a_cookie_that_is_absent_or_ambiguous_fails() {
    let sid = Cookie::new("sid");
    for lines in [
        &[][..],
        &[("cookie", "a=1")],
        &[("cookie", "sid=")],
        &[("cookie", "sid")],
    ] {
        let error = failure(&sid, &request(None, lines));
        assert_eq!(error.kind(), KeyErrorKind::Missing, "{lines:?}");
        assert_eq!(error.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            error.detail().to_string(),
            "the request has no cookie \"sid\""
        );
    }
    for bad in ["sid=abc; sid=abd", "sid=%ff"] {
        let error = failure(&sid, &request(None, &[("cookie", bad)]));
        assert_eq!(
            (error.kind(), error.status()),
            (KeyErrorKind::Malformed, StatusCode::BAD_REQUEST),
            "{bad}"
        );
    }
}

#[test]
fn a_query_parameter_is_one_value_however_it_is_spelled() {
    let by_key = Query::new("api key");
    let with = |query: &str| {
        let mut parts = request(None, &[]);
        parts.uri = format!("/p?{query}").parse().unwrap();
        parts
    };
    for query in [
        "api+key=a%20b",
        "x=1&api%20key=a+b&y",
        "api+key=a+b&api+key=%61+b",
    ] {
        assert_eq!(key(&by_key, &with(query)), "a b", "{query}");
    }
    for query in ["", "api=a", "api+key=", "api+key"] {
        assert_eq!(
            failure(&by_key, &with(query)).kind(),
            KeyErrorKind::Missing,
            "{query}"
        );
    }
    for query in ["api+key=a&api+key=b", "api+key=%FF"] {
        assert_eq!(
            failure(&by_key, &with(query)).kind(),
            KeyErrorKind::Malformed,
            "{query}"
        );
    }
    assert_eq!(
        failure(&by_key, &request(None, &[])).status(),
        StatusCode::BAD_REQUEST
    );
}

#[test]
fn a_host_is_keyed_without_case_port_and_dot() {
    for host in [
        "example.com",
        "Example.COM",
        "example.com.",
        "example.com:8080",
        "EXAMPLE.com.:80",
    ] {
        assert_eq!(
            key(&Host::new(), &request(None, &[("host", host)])),
            "example.com",
            "{host}"
        );
    }
    assert_eq!(
        key(
            &Host::new(),
            &request(None, &[("host", "[2001:DB8::1]:80")])
        ),
        "[2001:db8::1]"
    );
    let mut parts = request(None, &[("host", "other.example")]);
    parts.uri = "http://example.com:80/".parse().unwrap();
    assert_eq!(
        key(&Host::new(), &parts),
        "example.com",
        "the authority wins"
    );
    assert_eq!(
        failure(&Host::new(), &request(None, &[])).kind(),
        KeyErrorKind::Missing
    );
    for bad in ["a b", "a/b", "a:b", "[::1", ":80", "."] {
        let error = failure(&Host::new(), &request(None, &[("host", bad)]));
        assert_eq!(error.kind(), KeyErrorKind::Malformed, "{bad}");
    }
    let long = "a".repeat(254);
    assert_eq!(
        failure(&Host::new(), &request(None, &[("host", &long)])).kind(),
        KeyErrorKind::Malformed
    );
}

#[test]
fn hosts_that_are_not_known_share_one_key() {
    let known = Host::known(["A.example", "b.example"]);
    let of = |host| key(&known, &request(None, &[("host", host)]));
    assert_eq!(
        (of("a.EXAMPLE:80"), of("b.example")),
        ("a.example".into(), "b.example".into())
    );
    assert_eq!(
        (of("c.example"), of("d.example")),
        ("(other)".into(), "(other)".into())
    );
    assert!(!known.client_chosen() && Host::new().client_chosen());
}

#[test]
fn calls_of_unknown_grpc_methods_share_one_key() {
    let by_method = GrpcMethod::new(["pkg.Greeter/SayHello", "/pkg.Greeter/SayBye"]);
    let by_service = GrpcService::new(["pkg.Greeter", "pkg.Other"]);
    let of = |extractor: &dyn Fn(&http::request::Parts) -> String, path: &str| {
        let mut parts = request(None, &[]);
        parts.uri = path.parse().unwrap();
        extractor(&parts)
    };
    let method = |path| of(&|parts| key(&by_method, parts), path);
    let service = |path| of(&|parts| key(&by_service, parts), path);
    assert_eq!(method("/pkg.Greeter/SayHello"), "pkg.Greeter/SayHello");
    assert_eq!(method("/pkg.Greeter/SayBye"), "pkg.Greeter/SayBye");
    for unknown in [
        "/pkg.Greeter/X1",
        "/pkg.Greeter/sayhello",
        "/",
        "/pkg.Greeter/SayHello/",
        "//pkg.Greeter/SayHello",
    ] {
        assert_eq!(method(unknown), "(other)", "{unknown}");
    }
    assert_eq!(service("/pkg.Greeter/SayHello"), "pkg.Greeter");
    assert_eq!(service("/pkg.Greeter/X"), "pkg.Greeter");
    for unknown in ["/pkg.Gone/X", "/pkg.Greeter", "/"] {
        assert_eq!(service(unknown), "(other)", "{unknown}");
    }
    assert!(!by_method.client_chosen() && !by_service.client_chosen());
}
