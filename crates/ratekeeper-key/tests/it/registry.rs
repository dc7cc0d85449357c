//! Extractors as text.

use http::StatusCode;
use ratekeeper_key::{
    ClientIp, ExtractorErrorKind, KeyExtractor, Keyed, Networks, Registry, Source, by_extension,
    by_fn,
};

use crate::support::{failure, key, request};

fn registry() -> Registry {
    let by_ip = ClientIp::behind(
        Source::XForwardedFor,
        Networks::new(["10.0.0.0/16"]).unwrap(),
    );
    let registry = Registry::new().with_client_ip(by_ip);
    registry
        .with("tenant", by_extension(|tenant: &u64| *tenant))
        .unwrap()
}

#[test]
fn a_text_is_printed_back_as_it_was() {
    for text in [
        "ip",
        "ip:32/48",
        "peer",
        "header:x-api-key",
        "bearer",
        "cookie:sid",
        "cookie:a%20b%25",
        "query:api%20key",
        "method",
        "host",
        "host:a.example|b.example",
        "grpc-method:pkg.A/X|pkg.B/Y",
        "grpc-service:pkg.A|pkg.B",
        "global",
        "tenant",
        "(ip, method)",
        "(tenant, header:x-a, method, global)",
        "tenant or bearer or ip",
        "bearer else 403",
        "bearer or ip else shared",
        "(bearer else shared) or ip",
        "(bearer else shared) else exempt",
        "ip or (bearer else 401)",
        "((ip, method), (tenant or ip else 500, host))",
        "(ip, bearer else 401) or tenant",
    ] {
        let extractor = registry().parse(text).unwrap();
        assert_eq!(extractor.name(), text);
    }
    #[cfg(feature = "axum")]
    assert_eq!(
        registry().parse("(ip, route)").unwrap().name(),
        "(ip, route)"
    );
}

#[test]
fn spaces_and_needless_parentheses_do_not_matter() {
    let text = " ( ( ip ) ,method\t)  or( header:X-API-Key  else   exempt ) ";
    let name = registry().parse(text).unwrap().name();
    assert_eq!(name, "(ip, method) or (header:x-api-key else exempt)");
    assert_eq!(registry().parse(&name).unwrap().name(), name);
}

#[test]
fn what_is_parsed_extracts() {
    let parse = |text| registry().parse(text).unwrap();
    let mut parts = request(
        Some("10.0.0.2"),
        &[
            ("x-forwarded-for", "2001:db8:1:2::9"),
            ("authorization", "Bearer abc"),
            ("cookie", "a b=1"),
        ],
    );
    assert_eq!(key(&parse("ip"), &parts), "2001:db8:1:2::/64");
    assert_eq!(key(&parse("ip:32/48"), &parts), "2001:db8:1::/48");
    assert_eq!(key(&parse("peer"), &parts), "10.0.0.2");
    assert_eq!(
        key(&parse("(bearer, ip, method)"), &parts),
        "abc 2001:db8:1:2::/64 GET"
    );
    assert_eq!(key(&parse("cookie:a%20b"), &parts), "1");
    assert_eq!(key(&parse("tenant or bearer"), &parts), "abc");
    assert_eq!(
        failure(&parse("tenant else 403"), &parts).status(),
        StatusCode::FORBIDDEN
    );
    assert_eq!(parse("tenant else exempt").extract(&parts), Keyed::Exempt);
    parts.extensions.insert(7u64);
    assert_eq!(key(&parse("tenant or bearer"), &parts), "7");
    assert!(parse("(tenant, bearer)").client_chosen() && !parse("(tenant, ip)").client_chosen());
}

#[test]
fn a_longer_text_may_follow() {
    let text = "ip or tenant on GET,POST /api/*";
    let registry = registry();
    let (extractor, rest) = registry.parse_prefix(text).unwrap();
    assert_eq!(
        (extractor.name().as_str(), rest),
        ("ip or tenant", "on GET,POST /api/*")
    );
    let (extractor, rest) = registry.parse_prefix("(ip, method)on /a").unwrap();
    assert_eq!((extractor.name().as_str(), rest), ("(ip, method)", "on /a"));
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    use ExtractorErrorKind::*;
    let deep = "(".repeat(17) + "ip";
    #[rustfmt::skip]
    let table = [
        ("", Unexpected, 0, "invalid key at byte 0: it ends too early"),
        ("  ", Unexpected, 2, "invalid key at byte 2: it ends too early"),
        ("ip or", Unexpected, 5, "invalid key at byte 5: it ends too early"),
        ("(ip, )", Unexpected, 5, "invalid key at byte 5: unexpected \")\""),
        ("(ip method)", Unexpected, 4, "invalid key at byte 4: unexpected \"method)\""),
        ("(ip", Unexpected, 3, "invalid key at byte 3: it ends too early"),
        ("()", Unexpected, 1, "invalid key at byte 1: unexpected \")\""),
        ("ip)", Unexpected, 2, "invalid key at byte 2: unexpected \")\""),
        ("ip ip", Unexpected, 3, "invalid key at byte 3: unexpected \"ip\""),
        ("ip, ip", Unexpected, 2, "invalid key at byte 2: unexpected \", ip\""),
        ("user", UnknownName, 0, "invalid key at byte 0: unknown extractor \"user\""),
        ("(ip, user:a)", UnknownName, 5, "invalid key at byte 5: unknown extractor \"user:a\""),
        ("custom", UnknownName, 0, "invalid key at byte 0: unknown extractor \"custom\""),
        ("or", UnknownName, 0, "invalid key at byte 0: unknown extractor \"or\""),
        ("IP", UnknownName, 0, "invalid key at byte 0: unknown extractor \"IP\""),
        ("\u{1b}[31m", UnknownName, 0, "invalid key at byte 0: unknown extractor \"\\u{1b}[31m\""),
        ("header", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"header\""),
        ("header:", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"header:\""),
        ("header:a:b", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"header:a:b\""),
        ("ip or bearer:x", BadArgument, 6, "invalid key at byte 6: missing, malformed or unwanted argument in \"bearer:x\""),
        ("ip:64", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"ip:64\""),
        ("tenant:1", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"tenant:1\""),
        ("cookie:", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"cookie:\""),
        ("host:a||b", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"host:a||b\""),
        ("grpc-service:/", BadArgument, 0, "invalid key at byte 0: missing, malformed or unwanted argument in \"grpc-service:/\""),
        ("ip else", BadPolicy, 7, "invalid key at byte 7: neither an error status nor `shared` nor `exempt`, but \"\""),
        ("ip else 200", BadPolicy, 8, "invalid key at byte 8: neither an error status nor `shared` nor `exempt`, but \"200\""),
        ("ip else allow", BadPolicy, 8, "invalid key at byte 8: neither an error status nor `shared` nor `exempt`, but \"allow\""),
        ("(ip,ip,ip,ip,ip)", TooManyParts, 13, "invalid key at byte 13: a tuple has at most four parts, before \"ip)\""),
        (&deep, TooDeep, 16, "invalid key at byte 16: parentheses nested too deeply, at \"(\""),
    ];
    for (text, kind, position, message) in table {
        let error = registry().parse(text).unwrap_err();
        assert_eq!((error.kind(), error.position()), (kind, position), "{text}");
        assert_eq!(error.to_string(), message);
    }
}

#[cfg(not(feature = "axum"))]
#[test]
fn a_route_needs_a_feature() {
    let error = registry().parse("route").unwrap_err();
    assert_eq!(error.kind(), ExtractorErrorKind::Unavailable);
}

#[test]
fn a_name_of_ones_own_is_plain_and_free() {
    let with = |name| Registry::new().with(name, by_fn(|_| 7)).map(|_| ());
    for good in ["user", "plan-2", "a"] {
        assert_eq!(with(good), Ok(()), "{good}");
    }
    for bad in [
        "", "User", "2a", "-a", "a b", "a:b", "a,b", "ip", "route", "or", "else", "custom", "é",
    ] {
        assert_eq!(
            with(bad).unwrap_err().kind(),
            ExtractorErrorKind::BadName,
            "{bad}"
        );
    }
    let registry = Registry::new()
        .with("a", by_fn(|_| 1))
        .and_then(|r| r.with("a", by_fn(|_| 2)))
        .unwrap();
    assert_eq!(
        key(&registry.parse("a").unwrap(), &request(None, &[])),
        "2",
        "the later one"
    );
    assert!(format!("{registry:?}").contains("\"a\""));
}
