//! Where rules apply, and to whom.

use http::StatusCode;
use proptest::prelude::*;
use tower_ratekeeper::key::{Exemptions, Global, Header, KeyError, Keyed, Method, Peer};
use tower_ratekeeper::{
    Algorithm, Limit, Memory, Place, Quota, RateLimitLayer, Rule, RuleErrorKind, RuleMode, RuleSet,
    RuleWarningKind, Share, Unmatched,
};

use crate::support::{
    admitted, at_once, bucket, field, key_of, layer, remaining, request, request_to, send, status,
    text_of,
};

fn limit(name: &str) -> Limit {
    Limit::token_bucket(name, Quota::per_minute(10)).unwrap()
}

fn catch_all() -> Rule {
    bucket("everything-else")
}

/// The rules that a response tells of, in their order.
async fn told(layer: &RateLimitLayer, method: &str, path: &str) -> Vec<String> {
    let response = send(layer, request_to(method, path, 1)).await;
    let standing = field(&response, "ratelimit").unwrap_or_default();
    let items = standing
        .split(',')
        .filter_map(|item| item.split('"').nth(1));
    items.map(str::to_owned).collect()
}

#[tokio::test]
async fn every_spelling_of_a_path_spends_one_budget() {
    let (layer, _) = layer([bucket("login").on(["POST"], ["/login"]), catch_all()]);
    let spellings = [
        "/login",
        "/login/",
        "//login",
        "/login//",
        "/%6Cogin",
        "/%6cogin",
        "/l%6fgi%6E/",
        "/login?next=/",
        "/login/?",
        "http://example.org/login",
    ];
    for spelling in spellings {
        let sent = status(&layer, request_to("POST", spelling, 1)).await;
        assert_eq!(sent, StatusCode::OK, "{spelling}");
    }
    assert_eq!(remaining(&layer, &limit("login"), 1), 0);
    assert_eq!(remaining(&layer, &limit("everything-else"), 1), 0);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn the_path_is_the_one_that_was_sent_also_within_a_nested_router() {
    let (layer, _) = layer([bucket("api").on(["GET"], ["/api/*"]), catch_all()]);
    let mut nested = request_to("GET", "/users", 1);
    let original = axum::extract::OriginalUri("/api/users".parse().unwrap());
    nested.extensions_mut().insert(original);
    assert_eq!(status(&layer, nested).await, StatusCode::OK);
    assert_eq!(remaining(&layer, &limit("api"), 1), 9);
}

#[tokio::test]
async fn head_counts_as_get_and_other_methods_do_not() {
    let (layer, _) = layer([bucket("reads").on(["GET"], ["/a"]), catch_all()]);
    for (method, path, both) in [
        ("GET", "/a", true),
        ("HEAD", "/a", true),
        ("POST", "/a", false),
        ("OPTIONS", "/a", false),
        ("PURGE", "/a", false),
        ("GET", "/b", false),
        ("HEAD", "/a/b", false),
    ] {
        let told = told(&layer, method, path).await;
        assert_eq!(told.contains(&"reads".to_owned()), both, "{method} {path}");
        assert!(
            told.contains(&"everything-else".to_owned()),
            "{method} {path}"
        );
    }
}

#[test]
fn a_set_without_a_catch_all_is_not_put_in_force() {
    let narrow = || {
        [
            bucket("a").on(["GET"], ["/a"]),
            bucket("b").on(["POST"], ["/*"]),
        ]
    };
    let error = RateLimitLayer::new(narrow()).unwrap_err();
    assert_eq!(*error.kind(), RuleErrorKind::NoCatchAll);
    assert!(error.to_string().contains("Unmatched::Allow"), "{error}");

    let set = RuleSet::new(narrow()).unwrap();
    let builder = || RateLimitLayer::builder().rule_set(set.clone());
    assert!(builder().build().is_err());
    let allowing = set.clone().with_unmatched(Unmatched::Allow);
    let layer = RateLimitLayer::builder()
        .rule_set(allowing)
        .build()
        .unwrap();
    assert_eq!(at_once(told(&layer, "GET", "/a")), ["a"]);
    assert_eq!(at_once(admitted(&layer, 1, 20)), 20);

    let error = layer.handle().replace(set).unwrap_err();
    assert_eq!(*error.kind(), RuleErrorKind::NoCatchAll);
    assert_eq!(at_once(told(&layer, "GET", "/a")), ["a"]);
}

#[test]
fn a_pattern_of_all_paths_is_a_catch_all() {
    let none: [&str; 0] = [];
    for pattern in ["/*", "/{*rest}", "//*"] {
        let (layer, _) = layer([bucket("all").on(none, [pattern])]);
        for path in ["/", "/a", "//", "*", "/a/b?c"] {
            assert_eq!(
                at_once(told(&layer, "GET", path)),
                ["all"],
                "{pattern} {path}"
            );
        }
    }
    assert!(RateLimitLayer::new([bucket("some").on(none, ["/*", "/a"])]).is_ok());
    assert!(RateLimitLayer::new([bucket("some").on(none, ["/{a}"])]).is_err());
    assert!(RateLimitLayer::new([bucket("some").on(["GET"], ["/*"])]).is_err());
}

proptest! {
    /// Whatever is asked for, a set with a catch-all limits it.
    #[test]
    fn no_path_passes_by_a_catch_all(path in "[ -~]{0,20}", method in "[A-Z]{1,8}") {
        let uri = format!("/{}", path.replace([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'], "%20"));
        prop_assume!(uri.parse::<http::Uri>().is_ok());
        let (layer, _) = layer([bucket("a").on(["GET"], ["/a/*", "/b"]), catch_all()]);
        let told = at_once(told(&layer, &method, &uri));
        prop_assert!(told.contains(&"everything-else".to_owned()), "{} {}", method, uri);
    }
}

#[tokio::test]
async fn a_rule_or_a_plan_that_denies_everything_names_no_wait() {
    let (layer, _) = layer([
        Rule::deny_all("closed")
            .by_fn(key_of)
            .on(["GET"], ["/closed"]),
        catch_all(),
    ]);
    let refused = send(&layer, request_to("GET", "/closed", 1)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&refused, "retry-after"), None);
    assert_eq!(
        field(&refused, "cache-control").as_deref(),
        Some("no-store")
    );
    let body = text_of(refused.into_body()).await;
    assert!(body.contains(r#""violated-policies":["closed"]"#), "{body}");
    assert_eq!(status(&layer, request(1)).await, StatusCode::OK);
    assert_eq!(remaining(&layer, &limit("everything-else"), 1), 9);
    let (layer, _) = self::layer([Rule::unlimited("open").by_fn(key_of)]);
    assert_eq!(admitted(&layer, 1, 50).await, 50);
}

#[tokio::test]
async fn what_the_extractor_says_becomes_of_the_request() {
    for (keyed, expected) in [
        (Keyed::from(7), StatusCode::OK),
        (Keyed::Exempt, StatusCode::OK),
        (KeyError::missing("user").into(), StatusCode::BAD_REQUEST),
        (KeyError::malformed("user").into(), StatusCode::BAD_REQUEST),
    ] {
        let answer = keyed.clone();
        let (layer, _) = layer([
            bucket("first"),
            bucket("by-user").by_fn(move |_| answer.clone()),
        ]);
        let response = send(&layer, request(1)).await;
        assert_eq!(response.status(), expected, "{keyed:?}");
        let refused = expected != StatusCode::OK;
        assert_eq!(
            remaining(&layer, &limit("first"), 1),
            if refused { 10 } else { 9 }
        );
        if refused {
            assert_eq!(field(&response, "retry-after"), None);
            let body = text_of(response.into_body()).await;
            assert!(
                !body.contains("user") && !body.contains("by-user"),
                "{body}"
            );
        }
    }
}

#[tokio::test]
async fn exempt_requests_pass_without_a_trace() {
    let layer = RateLimitLayer::builder()
        .rule(bucket("per-key"))
        .exempt(Exemptions::new().health_checks())
        .build()
        .unwrap();
    for _ in 0..20 {
        let response = send(&layer, request_to("GET", "/healthz", 1)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(field(&response, "ratelimit"), None);
    }
    assert_eq!(layer.store().entries(&limit("per-key")), 0);
}

#[tokio::test]
async fn of_several_refusing_rules_the_first_chooses_the_status() {
    let (layer, _) = layer([
        bucket("fine"),
        bucket("first").cost(10).status(StatusCode::FORBIDDEN),
        bucket("second")
            .cost(10)
            .status(StatusCode::SERVICE_UNAVAILABLE),
    ]);
    assert_eq!(status(&layer, request(1)).await, StatusCode::OK);
    let refused = send(&layer, request(1)).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let body: serde_json::Value =
        serde_json::from_str(&text_of(refused.into_body()).await).unwrap();
    assert_eq!(body["status"], 403);
    assert_eq!(
        body["violated-policies"],
        serde_json::json!(["first", "second"])
    );
}

#[tokio::test]
async fn layers_on_one_store_share_a_counter_by_its_name_alone() {
    let memory = Memory::new();
    let on = |rule: Rule| {
        RateLimitLayer::builder()
            .store(memory.clone())
            .rule(rule)
            .build()
            .unwrap()
    };
    let (one, same) = (on(bucket("one")), on(bucket("one")));
    let (shared, other) = (on(bucket("two").counter("one")), on(bucket("three")));
    assert_eq!(admitted(&one, 1, 4).await, 4);
    assert_eq!(admitted(&same, 1, 4).await, 4);
    assert_eq!(admitted(&shared, 1, 4).await, 2);
    assert_eq!(admitted(&other, 1, 20).await, 10);
}

#[tokio::test]
async fn a_request_that_more_than_eight_rules_apply_to_is_refused() {
    let rules = || {
        (0..9)
            .map(|n| bucket(&format!("rule-{n}")).on(["GET"], ["/all"]))
            .chain([])
    };
    let few = (0..7).map(|n| bucket(&format!("everywhere-{n}")));
    let (layer, _) = layer(few.chain(rules().take(1)));
    assert_eq!(told(&layer, "GET", "/all").await.len(), 8);
    let many = RuleSet::new(rules().chain([catch_all()])).unwrap();
    let warned = many.warnings().iter();
    assert!(
        warned
            .clone()
            .any(|warning| *warning.kind() == RuleWarningKind::ManyRules)
    );
    let layer = RateLimitLayer::builder().rule_set(many).build().unwrap();
    assert_eq!(status(&layer, request(1)).await, StatusCode::OK);
    let refused = send(&layer, request_to("GET", "/all", 1)).await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(field(&refused, "retry-after"), None);
    assert_eq!(remaining(&layer, &limit("rule-0"), 1), 10);
}

/// A rule that is only tried costs no request its answer, wherever it stands.
#[tokio::test]
async fn shadowed_rules_beyond_the_eighth_are_left_out() {
    let place = |rule: Rule| rule.on(["GET"], ["/all"]);
    for shadowed in 0..=8 {
        let rules = (0..8).map(|n| place(bucket(&format!("rule-{n}")).cost(n + 1)));
        let mut rules: Vec<Rule> = rules.collect();
        rules.insert(shadowed, place(bucket("dark").cost(10).shadowed()));
        let set = RuleSet::new(rules)
            .unwrap()
            .with_unmatched(Unmatched::Allow);
        let layer = RateLimitLayer::builder().rule_set(set).build().unwrap();
        let response = send(&layer, request_to("GET", "/all", 1)).await;
        assert_eq!(response.status(), StatusCode::OK, "{shadowed}");
        let policies = field(&response, "ratelimit-policy").unwrap();
        let names = policies.split('"').skip(1).step_by(2);
        let expected: Vec<_> = (0..8).map(|n| format!("rule-{n}")).collect();
        assert_eq!(names.collect::<Vec<_>>(), expected, "{shadowed}");
        for n in 0..8 {
            let left = remaining(&layer, &limit(&format!("rule-{n}")), 1);
            assert_eq!(left, 9 - n, "{shadowed}");
        }
        // The eighth costs eight: refused, and blamed.
        let refused = send(&layer, request_to("GET", "/all", 1)).await;
        let body = text_of(refused.into_body()).await;
        let blamed = r#"["rule-5","rule-6","rule-7"]"#;
        assert!(body.contains(blamed), "{shadowed}: {body}");
    }
}

#[test]
fn mistakes_are_told_with_the_value_when_the_rules_are_built() {
    let none: [&str; 0] = [];
    let hour = Quota::per_hour(100);
    let cases: Vec<(Vec<Rule>, &str)> = vec![
        (vec![bucket("a"), bucket("a")], "\"a\""),
        (vec![bucket("a"), bucket("b").counter("a")], "\"a\""),
        (vec![bucket("")], "\"\""),
        (vec![bucket("naïve")], "naïve"),
        (vec![bucket("a\nb")], "a\\nb"),
        (vec![Rule::deny_all("a\nb")], "a\\nb"),
        (vec![Rule::unlimited("naïve")], "naïve"),
        (vec![Rule::deny_all("")], "\"\""),
        (vec![bucket("a").counter("ü")], "ü"),
        (vec![bucket("a").on(["GET"], ["users"])], "\"users\""),
        (vec![bucket("a").on(["G T"], none)], "\"G T\""),
        (vec![bucket("a").on(["GET"], ["/a*"])], "\"/a*\""),
        (
            vec![bucket("a").plan("pro", hour).plan("pro", hour)],
            "\"pro\"",
        ),
        (vec![bucket("a").plan("", hour)], "\"\""),
        (vec![bucket("a").cost(11)], "11"),
        (vec![bucket("a").cost(5).max_cost(4)], "5"),
        (
            vec![bucket("a").cost(8).plan("small", Quota::per_minute(7))],
            "8",
        ),
        (vec![Rule::unlimited("a").plan("pro", hour)], "\"a\""),
        (
            vec![Rule::sliding_log("a", Quota::per_day(u64::from(u32::MAX)))],
            "4294967295",
        ),
        (
            vec![Rule::fixed_window("a", Quota::per_second(5).with_burst(9))],
            "burst 9",
        ),
    ];
    for (case, (rules, value)) in cases.into_iter().enumerate() {
        match RateLimitLayer::new(rules) {
            Ok(_) => panic!("case {case} with {value} was built"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(value), "case {case}: {text}");
                assert!(!text.ends_with('.'), "case {case}: {text}");
            }
        }
    }
    let many = (0..9).map(|n| bucket(&format!("rule-{n}")));
    let error = RateLimitLayer::new(many).unwrap_err();
    assert_eq!(*error.kind(), RuleErrorKind::TooMany);
    let most = (0..=256).map(|n| bucket(&format!("rule-{n}")).on(["GET"], [format!("/{n}")]));
    assert_eq!(
        *RuleSet::new(most).unwrap_err().kind(),
        RuleErrorKind::TooMany
    );
}

#[test]
fn a_route_that_only_rules_of_the_clients_choice_limit_is_warned_of() {
    let by_header = |name: &str| bucket(name).by(Header::from_static("x-key"));
    let by_peer = |name: &str| bucket(name).by(Peer);
    let warned = |rules: Vec<Rule>| {
        let set = RuleSet::new(rules).unwrap();
        let mut warned = Vec::new();
        for warning in set.warnings() {
            if *warning.kind() == RuleWarningKind::ClientChosen {
                warned.push(warning.to_string());
            }
        }
        warned.len()
    };
    assert_eq!(warned(vec![by_header("a")]), 1);
    assert_eq!(warned(vec![by_peer("a")]), 0);
    assert_eq!(warned(vec![by_header("a"), by_peer("b")]), 0);
    assert_eq!(warned(vec![by_header("a"), by_header("b")]), 2);
    assert_eq!(
        warned(vec![by_header("a"), by_peer("b").on(["GET"], ["/b"])]),
        1
    );
    assert_eq!(
        warned(vec![by_header("a").on(["GET"], ["/a"]), by_peer("b")]),
        0
    );
    let narrow = by_peer("b").on(["GET"], ["/a"]);
    assert_eq!(
        warned(vec![
            by_header("a").on(["GET"], ["/a"]),
            narrow,
            by_header("c")
        ]),
        1
    );
    // Not chosen: there is only one, or only a few.
    assert_eq!(warned(vec![bucket("a").by(Global)]), 0);
    assert_eq!(warned(vec![bucket("a").by((Method, Peer))]), 0);
    assert_eq!(
        warned(vec![bucket("a").by((Header::from_static("x-key"), Peer))]),
        1
    );
    let set = RuleSet::new([by_header("by-key")]).unwrap();
    assert!(set.warnings()[0].to_string().contains("\"by-key\""));
}

#[test]
fn a_cost_that_is_left_to_a_settlement_of_which_there_is_none_is_warned_of() {
    let warned = |rule: Rule| {
        let set = RuleSet::new([rule.by(Peer)]).unwrap();
        let warnings: Vec<_> = set.warnings().iter().map(ToString::to_string).collect();
        warnings
    };
    let [warning] = &warned(bucket("tokens").cost_later())[..] else {
        panic!("one warning")
    };
    assert!(warning.contains("\"tokens\""), "{warning}");
    for rule in [
        bucket("tokens").cost_later().settle_by_handle(),
        bucket("tokens").cost_later().settle_by(|_| None),
        bucket("tokens").cost_later().settle_by_trailers(|_| None),
        bucket("tokens"),
    ] {
        assert_eq!(warned(rule), [""; 0]);
    }
}

/// Whoever asks like a browser that asks for leave is not to pass unlimited for that.
#[tokio::test]
async fn a_preflight_that_its_own_rule_does_not_limit_is_limited_by_the_others() {
    let none: [&str; 0] = [];
    let own = |patterns: &[&str]| {
        let place = Rule::preflights(Quota::per_minute(2)).by_fn(key_of);
        place.on(["PREFLIGHT"], patterns)
    };
    let preflight = |path: &str| {
        let mut preflight = request_to("OPTIONS", path, 1);
        let headers = preflight.headers_mut();
        headers.insert("origin", "https://a.example".parse().unwrap());
        headers.insert("access-control-request-method", "POST".parse().unwrap());
        preflight
    };
    for (rule, path, expected) in [
        (own(&none), "/a", 2),
        (own(&["/a"]), "/a", 2),
        (own(&["/b"]), "/a", 10),
        (own(&none).shadowed(), "/a", 10),
        (own(&none).mode(RuleMode::Off), "/a", 10),
        (
            own(&none).mode(RuleMode::EnforcedFor(Share::percent(0).unwrap())),
            "/a",
            10,
        ),
        (
            own(&none).mode(RuleMode::EnforcedFor(Share::percent(100).unwrap())),
            "/a",
            2,
        ),
    ] {
        let (layer, _) = layer([rule.clone(), catch_all()]);
        let mut admitted = 0;
        for _ in 0..20 {
            admitted += usize::from(status(&layer, preflight(path)).await == StatusCode::OK);
        }
        assert_eq!(admitted, expected, "{rule} for {path}");
    }
}

#[test]
fn a_place_says_where_a_rule_applies() {
    let place = Place::default();
    assert!(place.is_everywhere());
    let (parts, ()) = request_to("BREW", "/pot", 1).into_parts();
    assert!(place.contains(&parts));
}

#[test]
fn plans_of_a_window_share_its_period() {
    let rule = |algorithm| {
        Rule::with("r", algorithm, Quota::per_minute(10)).plan("quick", Quota::per_second(1))
    };
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
    ] {
        let error = RuleSet::new([rule(algorithm)]).unwrap_err();
        assert_eq!(error.kind(), &RuleErrorKind::PlanPeriod("quick".to_owned()));
    }
    assert!(RuleSet::new([rule(Algorithm::TokenBucket)]).is_ok());
}

#[test]
fn a_set_without_rules_limits_nothing_and_is_no_layer() {
    let empty: RuleSet = "# all commented out\n".parse().unwrap();
    let (layer, _) = layer([catch_all()]);
    let error = layer.handle().replace(empty.clone()).unwrap_err();
    assert_eq!(error.kind(), &RuleErrorKind::NoCatchAll);
    let allowed = empty.with_unmatched(Unmatched::Allow);
    assert!(layer.handle().replace(allowed).is_ok());
}
