//! Rules read from text and printed.

mod errors;
mod properties;
#[cfg(feature = "serde")]
mod serde;

use std::time::Duration;

use http::{Request, Response, StatusCode};
use proptest::prelude::*;
use tower::{ServiceExt, service_fn};
use tower_ratekeeper::core::algorithm::UtcOffset;
use tower_ratekeeper::key::{
    BearerToken, ClientIp, Global, Header, KeyExtractor, Method, OnFailure, Registry, by_fn,
};
use tower_ratekeeper::{
    Algorithm, Jitter, Limit, OnAbort, Quota, RateLimitLayer, Rule, RuleErrorKind, RuleMode,
    RuleSet, RuleWarningKind, Rules, Settle, Share, Unmatched,
};

fn minute() -> Rule {
    Rule::token_bucket("r", Quota::per_minute(60))
}

/// Rules made in code with the text of each.
fn pairs() -> Vec<(Rule, &'static str)> {
    let share = |thousandths| RuleMode::EnforcedFor(Share::per_mille(thousandths).unwrap());
    let calendar = Algorithm::CalendarWindow(UtcOffset::from_minutes(120).unwrap());
    let month = "1000/month".parse().unwrap();
    let limit = Limit::token_bucket("r", Quota::per_minute(60)).unwrap();
    vec![
        (
            Rule::token_bucket("per-ip", Quota::per_minute(60).with_burst(20))
                .by(ClientIp::direct())
                .on(["GET", "POST"], ["/api/*"]),
            "per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*",
        ),
        (minute(), "r: token-bucket 60/min"),
        (
            Rule::leaky_bucket("r", Quota::per_second(1)),
            "r: leaky-bucket 1/s",
        ),
        (
            Rule::fixed_window("r", Quota::per_day(9)),
            "r: fixed-window 9/day",
        ),
        (
            Rule::sliding_log("r", Quota::per_hour(9)),
            "r: sliding-log 9/h",
        ),
        (
            Rule::sliding_counter("r", Quota::per_hour(9)),
            "r: sliding-counter 9/h",
        ),
        (
            Rule::with("r", Algorithm::CalendarWindow(UtcOffset::UTC), month),
            "r: calendar-window 1000/month",
        ),
        (
            Rule::with("r", calendar, month),
            "r: calendar-window 1000/month at +02:00",
        ),
        (Rule::deny_all("r").on(["PUT"], ["/"; 0]), "r: deny on PUT"),
        (
            Rule::unlimited("r").on([""; 0], ["/health", "/up"]),
            "r: unlimited on /health /up",
        ),
        (
            minute()
                .plan("pro", Quota::per_minute(600).with_burst(9))
                .unlimited_plan("our staff"),
            "r: token-bucket 60/min plan pro 600/min burst 9 plan \"our staff\" unlimited",
        ),
        (
            minute().by((Header::from_static("x-user").or(ClientIp::direct()), Method)),
            "r: token-bucket 60/min by (header:x-user or ip, method)",
        ),
        (
            minute()
                .by(BearerToken.on_failure(OnFailure::Refuse(StatusCode::UNAUTHORIZED)))
                .cost(2),
            "r: token-bucket 60/min by bearer else 401 cost 2",
        ),
        (minute().by(Global), "r: token-bucket 60/min by global"),
        (
            minute().cost_later().settle_by_handle(),
            "r: token-bucket 60/min cost later settle handle",
        ),
        (
            minute().cost(3).max_cost(30).max_debt(300),
            "r: token-bucket 60/min cost 3 max-cost 30 max-debt 300",
        ),
        (
            Rule::new(
                limit
                    .with_max_debt(7)
                    .unwrap()
                    .with_counter("shared: all")
                    .unwrap(),
            ),
            "r: token-bucket 60/min max-debt 7 counter \"shared: all\"",
        ),
        (
            minute().counter("both").shadowed(),
            "r: token-bucket 60/min counter both shadow",
        ),
        (minute().mode(RuleMode::Off), "r: token-bucket 60/min off"),
        (
            minute().mode(share(100)),
            "r: token-bucket 60/min enforce 10%",
        ),
        (
            minute().mode(share(25)),
            "r: token-bucket 60/min enforce 2.5%",
        ),
        (
            minute()
                .on_abort(OnAbort::Refund)
                .refund_server_errors(Quota::per_hour(5)),
            "r: token-bucket 60/min abort refund refund-errors 5/h",
        ),
        (
            minute()
                .status(StatusCode::SERVICE_UNAVAILABLE)
                .jitter(Jitter::up_to(Duration::from_millis(1_500))),
            "r: token-bucket 60/min status 503 jitter 1500ms",
        ),
        (
            minute().jitter(Jitter::up_to(Duration::from_secs(1))),
            "r: token-bucket 60/min jitter 1s",
        ),
        (
            minute().jitter(Jitter::none()),
            "r: token-bucket 60/min jitter none",
        ),
        (
            Rule::sliding_log("log in: \"once\" \\ twice", Quota::per_hour(5)),
            r#""log in: \"once\" \\ twice": sliding-log 5/h"#,
        ),
        (Rule::deny_all("unmatched"), "\"unmatched\": deny"),
        (Rule::deny_all("generation"), "\"generation\": deny"),
        (Rule::deny_all("#1"), "\"#1\": deny"),
    ]
}

#[test]
fn rules_made_in_code_print_as_text_that_reads_the_same() {
    for (rule, text) in pairs() {
        assert_eq!(rule.to_string(), text);
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        assert_eq!(format!("{rule:?}"), format!("Rule({text})"));
    }
}

#[test]
fn clauses_come_in_any_order_and_print_in_one() {
    for (text, printed) in [
        (
            "r:token-bucket 60/min off cost 2 on get /a by ip plan a 1/s",
            "r: token-bucket 60/min plan a 1/s by ip on GET /a cost 2 off",
        ),
        (
            " r : calendar-window 1_000 / 30 days by (  ip ,method )  at +02:00 # by month",
            "r: calendar-window 1000/month at +02:00 by (ip, method)",
        ),
        (
            "r: token-bucket 1/s burst 2 status 503 cost 1 by peer",
            "r: token-bucket 1/s burst 2 status 503",
        ),
        ("r: calendar-window 1/day at Z", "r: calendar-window 1/day"),
        ("r: deny on GET, POST ,PUT /a", "r: deny on GET,POST,PUT /a"),
        ("r: deny enforce", "r: deny"),
        ("r: deny abort charge", "r: deny"),
        ("\"r\": deny", "r: deny"),
        (r#""\u{72}": deny # "a" "#, "r: deny"),
        ("r: token-bucket 1/s plan # 2/s", "an error"),
        (
            "r: token-bucket 1/s plan \"#\" 2/s",
            "r: token-bucket 1/s plan \"#\" 2/s",
        ),
        (
            "r: token-bucket 1/s plan \"größe\" 2/s",
            r#"r: token-bucket 1/s plan "gr\u{f6}\u{df}e" 2/s"#,
        ),
        (
            "r: token-bucket 1/s plan by 2/s by ip",
            "r: token-bucket 1/s plan by 2/s by ip",
        ),
        (
            "r: deny by header:x#y on /a%23b",
            "r: deny by header:x#y on /a%23b",
        ),
    ] {
        match text.parse::<Rule>() {
            Ok(rule) => assert_eq!(rule.to_string(), printed, "{text}"),
            Err(error) => assert_eq!(printed, "an error", "{error}"),
        }
    }
}

#[test]
fn a_set_reads_its_lines_comments_and_answer_to_the_unmatched() {
    let text = "\u{feff}# all\r\n\r\n b: deny on /b\r\n\ta: sliding-log 1/s on /a # once\n unmatched : allow\n";
    let printed = "b: deny on /b\na: sliding-log 1/s on /a\nunmatched: allow\n";
    let rules: Rules = text.parse().unwrap();
    assert_eq!(rules.unmatched(), Unmatched::Allow);
    assert_eq!(rules.to_string(), printed);
    let set: RuleSet = text.parse().unwrap();
    assert_eq!(set.to_string(), printed);
    assert_eq!(set.to_rules().to_string(), printed);
    assert!(RateLimitLayer::builder().rule_set(set).build().is_ok());

    let nothing: Rules = "# nothing\n".parse().unwrap();
    assert_eq!(nothing.to_string(), "");
}

#[test]
fn a_set_has_a_generation_which_all_its_limits_have() {
    let text = "generation: 7\na: sliding-log 1/s plan pro 2/s\nb: token-bucket 1/s\n";
    let printed = "a: sliding-log 1/s plan pro 2/s\nb: token-bucket 1/s\ngeneration: 7\n";
    let rules: Rules = text.parse().unwrap();
    assert_eq!(
        (rules.generation(), rules.to_string().as_str()),
        (7, printed)
    );
    let set: RuleSet = text.parse().unwrap();
    assert_eq!((set.generation(), set.to_string().as_str()), (7, printed));
    assert_eq!(set.to_rules().to_string(), printed);
    assert_eq!(set.to_rules().check().unwrap().generation(), 7);
    let none = set.with_generation(0);
    assert_eq!(none.to_string(), printed.replace("generation: 7\n", ""));
    assert_eq!("generation: 0".parse::<Rules>().unwrap().to_string(), "");
    let largest = format!("generation: {}\n", u32::MAX);
    assert_eq!(largest.parse::<Rules>().unwrap().to_string(), largest);
    assert!(format!("a: deny\n{largest}").parse::<Rule>().is_err());
}

#[test]
fn what_was_made_in_code_prints_as_custom_and_cannot_be_read() {
    for (rule, text) in [
        (
            minute().by_fn(|parts| parts.uri.to_string()),
            "r: token-bucket 60/min by custom",
        ),
        (
            minute().by((Method, by_fn(|parts| parts.uri.to_string()))),
            "r: token-bucket 60/min by (method, custom)",
        ),
        (
            minute().cost_by(|_| 2),
            "r: token-bucket 60/min cost custom",
        ),
        (
            minute().settle_by(|_| Some(Settle::Commit)),
            "r: token-bucket 60/min settle custom",
        ),
        (
            minute().settle_by_trailers(|_| None),
            "r: token-bucket 60/min settle custom",
        ),
        (
            minute()
                .plan("pro", Quota::per_second(9))
                .quota_by(|_| Some("pro")),
            "r: token-bucket 60/min plan pro 9/s plan-by custom",
        ),
    ] {
        assert_eq!(rule.to_string(), text);
        let error = text.parse::<Rule>().unwrap_err();
        assert_eq!(
            error.kind(),
            &tower_ratekeeper::RuleTextErrorKind::Custom,
            "{text}"
        );
    }
}

#[test]
fn an_extractor_of_ones_own_is_read_and_printed_by_its_name() {
    let tenant = by_fn(|parts| {
        parts
            .headers
            .get("x-tenant")?
            .to_str()
            .ok()
            .map(str::to_owned)
    });
    let registry = Registry::new().with("on", tenant).unwrap();
    let text = "r: fixed-window 1/h by on on /a\nrest: unlimited\n";
    let set = RuleSet::parse_with(text, &registry).unwrap();
    assert_eq!(set.to_string(), text);
    assert_eq!(text.parse::<Rules>().unwrap_err().column(), 24);
}

#[tokio::test]
async fn loaded_rules_limit_once_code_has_completed_them() {
    let text = "
        tiers: fixed-window 1/h plan pro 3/h by header:x-user on GET,POST /api/*
        unmatched: allow
    ";
    let rules: Rules = text.parse().unwrap();
    let warned = rules.clone().check().unwrap();
    let unused = |set: &RuleSet| {
        set.warnings()
            .iter()
            .any(|w| *w.kind() == RuleWarningKind::PlansUnused)
    };
    assert!(unused(&warned));
    let complete = rules
        .edit("tiers", |rule| {
            rule.quota_by(|parts| parts.headers.get("x-plan")?.to_str().ok())
        })
        .unwrap()
        .check()
        .unwrap();
    assert!(!unused(&complete));
    let layer = RateLimitLayer::builder()
        .rule_set(complete)
        .build()
        .unwrap();
    let service = tower::Layer::layer(
        &layer,
        service_fn(|_: Request<()>| async {
            Ok::<_, std::convert::Infallible>(Response::new(
                http_body_util::Full::<bytes::Bytes>::default(),
            ))
        }),
    );
    let mut admitted = Vec::new();
    for (user, plan, path) in [
        ("a", "", "/api/x"),
        ("b", "pro", "/api/x"),
        ("c", "", "/free"),
    ] {
        let mut count = 0;
        for _ in 0..5 {
            let request = Request::get(path)
                .header("x-user", user)
                .header("x-plan", plan);
            let response = service
                .clone()
                .oneshot(request.body(()).unwrap())
                .await
                .unwrap();
            count += u32::from(response.status() == StatusCode::OK);
        }
        admitted.push(count);
    }
    assert_eq!(admitted, [1, 3, 5]);
}

#[test]
fn only_a_rule_that_exists_can_be_edited() {
    let rules: Rules = "r: deny".parse().unwrap();
    let error = rules.edit("s", |rule| rule).unwrap_err();
    assert_eq!((error.kind(), error.rule()), (&RuleErrorKind::Unknown, "s"));
}

#[test]
fn the_most_deeply_made_key_is_read_and_printed() {
    let text = format!("r: deny by ip{}", " or ip".repeat(1_362));
    properties::rule_text(&text);
    assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
    properties::rule_text(&format!("r: deny by {}", "(".repeat(8_000)));
    properties::rule_text(&format!("r: deny on{}", " /".repeat(4_000)));
    properties::rule_text(&format!("r: token-bucket 1/s{}", " plan a 1/s".repeat(700)));
}

/// A word that may stand in a rule, right or wrong.
fn word() -> impl Strategy<Value = String> {
    let known: Vec<String> = "a b r \"q q\" \"\\u{e9}\" : , # ( ) \\ \" custom token-bucket sliding-log \
        calendar-window deny unlimited unmatched allow generation 60/min 1/day 0/s 10/s burst 20 0 1 5 by ip peer \
        header:x or else 401 shared (ip,method) on GET get, GET,POST /a /b/* /{x} plan cost later \
        max-cost max-debt counter shadow off enforce 10% 2.5% 101% status 503 200 at +02:00 Z settle \
        handle abort refund charge refund-errors jitter 5s none 99999999999999999999"
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect();
    prop_oneof![
        20 => proptest::sample::select(known),
        1 => ".{0,6}",
        1 => Just("\n".to_owned()),
    ]
}

/// A clause that is right, whatever the rule.
fn clauses() -> impl Strategy<Value = String> {
    let any_of = |clauses: &'static [&'static str]| proptest::sample::select(clauses);
    let lists: Vec<_> = [
        &[
            "",
            " by ip",
            " by (header:x, method else 401)",
            " by bearer or ip:32/48",
            " by global",
        ][..],
        &["", " on GET", " on /a", " on post,GET /a/* /{b}/c"],
        &["", " plan a 7/min", " plan \"a b\" 1/min plan c unlimited"],
        &["", " cost 0", " cost 2", " cost later"],
        &["", " max-cost 5", " max-debt 5", " max-debt 0 max-cost 9"],
        &["", " counter other", " counter \"o o\""],
        &[
            "",
            " shadow",
            " off",
            " enforce",
            " enforce 0%",
            " enforce 99.9%",
        ],
        &["", " status 503", " status 418"],
        &["", " settle handle", " abort refund", " refund-errors 2/h"],
        &["", " jitter none", " jitter 3min"],
    ]
    .map(any_of)
    .into();
    lists.prop_shuffle().prop_map(|clauses| clauses.concat())
}

proptest! {
    #[test]
    fn any_words_are_read_or_refused_with_their_place(words in prop::collection::vec(word(), 0..20)) {
        properties::rule_text(&words.join(" "));
        properties::rule_text(&format!("r: token-bucket 60/min {}", words.join(" ")));
    }

    #[test]
    fn any_text_is_read_or_refused_with_its_place(text in "(?s).{0,200}") {
        properties::rule_text(&text);
        properties::rule_text(&format!("{text:?}: deny by {text}"));
    }

    #[test]
    fn any_clauses_in_any_order_make_a_rule_that_prints_the_same(
        base in prop::sample::select(&["token-bucket 9/s burst 10", "sliding-log 9/min", "calendar-window 9/day"][..]),
        clauses in clauses(),
    ) {
        let text = format!("r: {base}{clauses}");
        let rule: Rule = text.parse().unwrap();
        let printed = rule.to_string();
        let again: Rule = printed.parse().unwrap();
        prop_assert_eq!(&again.to_string(), &printed);
        // Nothing is lost but what goes without saying, and nothing is added.
        let sorted = |text: &str| {
            let text = text.replace(" enforce ", " ").replace("post,GET", "POST,GET");
            let mut words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            if words.last().is_some_and(|last| last == "enforce") {
                words.pop();
            }
            words.sort();
            words
        };
        prop_assert_eq!(sorted(&printed), sorted(&text));
    }

    #[test]
    fn any_name_is_read_as_it_was_printed(name in "\\PC{1,20}|.{1,5}", ascii in "[ -~]{1,64}") {
        let rule = Rule::token_bucket(&ascii, Quota::per_second(1)).plan(&name, Quota::per_second(2));
        let printed = rule.to_string();
        let again: Rule = printed.parse().unwrap();
        prop_assert_eq!(again.name(), ascii);
        prop_assert_eq!(again.to_string(), printed);
    }
}

#[cfg(feature = "queue")]
#[test]
fn queues_are_printed_as_they_are_read() {
    for text in [
        "a: leaky-bucket 10/s queue 100",
        "a: leaky-bucket 10/s queue 100 max-wait 5s",
        "a: leaky-bucket 10/s queue 100 max-wait none at-once 3",
        "a: token-bucket 10/s burst 20 wait-up-to 1500ms",
        "a: token-bucket 10/s wait-up-to none shadow",
    ] {
        let rules: Rules = text.parse().unwrap();
        assert_eq!(rules.to_string(), format!("{text}\n"));
    }
    for (text, column) in [
        ("a: leaky-bucket 10/s queue", 27),
        ("a: leaky-bucket 10/s queue 5 wait-up-to 5s", 30),
        ("a: leaky-bucket 10/s queue 5 max-wait soon", 39),
        ("a: deny queue 5", 9),
    ] {
        let error = text.parse::<Rules>().unwrap_err();
        assert_eq!((error.line(), error.column()), (1, column), "{error}");
    }
}
