//! Rules in configuration files.

use serde::Deserialize;
use tower_ratekeeper::key::{Registry, by_fn};
use tower_ratekeeper::{Quota, Rule, RuleSet, Rules};

#[derive(Debug, Deserialize)]
struct Config {
    rules: Rules,
}

fn of_json(json: &str) -> Result<Rules, serde_json::Error> {
    serde_json::from_str(json)
}

#[test]
fn lines_and_maps_say_the_same_in_toml_and_json() {
    let toml: Config = toml::from_str(
        r#"
        rules = [
            "per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*",
            { name = "log in", algorithm = "sliding-log", quota = "5/h", on = { methods = ["post"], paths = ["/login", "/in/{id}"] } },
            { unmatched = "allow" },
        ]
        "#,
    )
    .unwrap();
    let tables: Config = toml::from_str(
        r#"
        [[rules]]
        name = "per-ip"
        algorithm = "token-bucket"
        quota = "60/min"
        burst = 20
        by = "ip"
        on.methods = ["GET", "POST"]
        on.paths = ["/api/*"]

        [[rules]]
        name = "log in"
        algorithm = "sliding-log"
        quota = "5/h"
        on = { methods = ["POST"], paths = ["/login", "/in/{id}"] }

        [[rules]]
        unmatched = "allow"
        "#,
    )
    .unwrap();
    let json = of_json(
        r#"[
            {"name": "per-ip", "algorithm": "token-bucket", "quota": "60/min burst 20", "by": "ip",
             "on": {"methods": ["GET", "POST"], "paths": ["/api/*"]}},
            "\"log in\": sliding-log 5/h on POST /login /in/{id}",
            "unmatched: allow"
        ]"#,
    )
    .unwrap();
    let text = "per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*\n\
        \"log in\": sliding-log 5/h on POST /login /in/{id}\n\
        unmatched: allow\n";
    for rules in [toml.rules, tables.rules, json] {
        assert_eq!(rules.to_string(), text);
    }
    let whole: Rules = serde_json::from_value(text.into()).unwrap();
    assert_eq!(whole.to_string(), text);
}

#[test]
fn a_map_has_every_word_of_the_text_form() {
    let rules = of_json(
        r#"[
            {
                "name": "a: b", "algorithm": "token-bucket", "quota": "60/min",
                "plans": {"pro": "600/min burst 9", "our staff": "unlimited"},
                "by": "(header:x-user or ip, method) else 401", "on": {"methods": ["GET"]},
                "cost": 2, "max-cost": 30, "max-debt": 0, "counter": "two words",
                "settle": "handle", "abort": "refund", "refund-errors": "5/h",
                "mode": "enforce 2.5%", "status": 503, "jitter": "5s"
            },
            {"name": "month", "algorithm": "calendar-window", "quota": "9/month", "at": "+02:00", "cost": "later"},
            {"name": "x", "algorithm": "deny", "mode": "off", "on": {"paths": ["/x"]}}
        ]"#,
    )
    .unwrap();
    assert_eq!(
        rules.to_string(),
        "\"a: b\": token-bucket 60/min plan pro 600/min burst 9 plan \"our staff\" unlimited \
         by (header:x-user or ip, method) else 401 on GET cost 2 max-cost 30 max-debt 0 \
         counter \"two words\" settle handle abort refund refund-errors 5/h enforce 2.5% status 503 jitter 5s\n\
         month: calendar-window 9/month at +02:00 cost later\n\
         x: deny on /x off\n"
    );
}

#[test]
fn what_is_written_reads_the_same() {
    let text = "a: token-bucket 1/s plan \"b c\" 2/s by (ip, method) cost 0 shadow\nunmatched: allow\ngeneration: 7\n";
    let rules: Rules = text.parse().unwrap();
    let json = serde_json::to_string(&rules).unwrap();
    assert_eq!(
        json,
        r#"["a: token-bucket 1/s plan \"b c\" 2/s by (ip, method) cost 0 shadow","unmatched: allow","generation: 7"]"#
    );
    let map = json.replace(r#""generation: 7""#, r#"{"generation": 7}"#);
    assert_eq!(of_json(&map).unwrap().to_string(), text);
    assert_eq!(of_json(&json).unwrap().to_string(), text);
    let set: RuleSet = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&set).unwrap(), json);
    let table =
        toml::Table::from_iter([("rules".to_owned(), toml::Value::try_from(&rules).unwrap())]);
    let again: Config = toml::from_str(&table.to_string()).unwrap();
    assert_eq!(again.rules.to_string(), text);
}

#[test]
fn what_code_has_a_part_in_is_not_written() {
    let rule = || Rule::token_bucket("r", Quota::per_second(1));
    for rule in [
        rule().by_fn(|_| 1),
        rule().by((by_fn(|_| 1), tower_ratekeeper::key::Method)),
        rule().cost_by(|_| 1),
        rule().settle_by(|_| None),
        rule().plan("a", Quota::per_second(2)).quota_by(|_| None),
    ] {
        let error = serde_json::to_string(&Rules::from_iter([rule])).unwrap_err();
        assert!(error.to_string().contains("custom"), "{error}");
    }
}

#[test]
fn an_error_names_the_rule_the_field_and_the_place_in_the_file() {
    for (json, expected) in [
        (r#"[{"algorithm": "deny"}]"#, "missing field `name`"),
        (
            r#"[{"name": "r", "algorithm": "deny", "rate": 5}]"#,
            "unknown field `rate`",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "on": {"methods": [], "hosts": []}}]"#,
            "unknown field `hosts`",
        ),
        (
            r#"[{"name": "r"}]"#,
            "rule \"r\": algorithm and quota: expected `token-bucket`",
        ),
        (
            r#"[{"name": "r", "algorithm": "sliding-log", "quota": "5"}]"#,
            "rule \"r\": algorithm and quota: invalid quota \"5\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "token-bucket", "quota": "5/s burst 2", "burst": 3}]"#,
            "rule \"r\": algorithm and quota: invalid quota \"5/s burst 2 burst 3\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "sliding-log", "quota": "5/s off"}]"#,
            "rule \"r\": algorithm and quota: expected nothing more, found \"off\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "sliding-log", "quota": "5/s", "plans": {"a": "1/s plan b 2/s"}}]"#,
            "rule \"r\": plans: expected nothing more, found \"plan\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "by": "ip off"}]"#,
            "rule \"r\": by: expected nothing more, found \"off\"",
        ),
        (
            r##"[{"name": "r", "algorithm": "deny", "by": "ip #"}]"##,
            "rule \"r\": by: expected nothing more, found \"#\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "by": "custom"}]"#,
            "rule \"r\": by: \"custom\" stands for code",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "on": {"paths": ["/a /b"]}}]"#,
            "rule \"r\": on: invalid place \"/a /b\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "on": {"methods": ["A,B"]}}]"#,
            "rule \"r\": on: invalid place \"A,B\"",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "on": {}}]"#,
            "rule \"r\": on: expected methods",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "mode": "by ip"}]"#,
            "rule \"r\": mode: expected `shadow`",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "cost": 1}]"#,
            "rule \"r\": cost: \"cost\" needs a rule with a quota",
        ),
        (
            r#"[{"name": "r", "algorithm": "deny", "status": 200}]"#,
            "rule \"r\": status: expected a status from 400 to 599",
        ),
        (
            r#"[{"name": "r", "algorithm": "sliding-log", "quota": "5/s", "cost": -1}]"#,
            "rule \"r\": cost: expected a number of units",
        ),
        (
            r#"[{"name": "r", "algorithm": "sliding-log", "quota": "5/s", "cost": 6}]"#,
            "rule \"r\": a request costs 6 units, but at most 5 are ever admitted",
        ),
        (
            r#"[{"name": "", "algorithm": "deny"}]"#,
            "invalid limit \"\": a name has",
        ),
        (r#"[{"unmatched": "deny"}]"#, "unmatched: expected `allow`"),
        (
            r#"[{"generation": 7, "name": "r", "algorithm": "deny"}]"#,
            "`generation` is about all rules and stands in a map of its own",
        ),
        (
            r#"["generation: 7", {"generation": 8}]"#,
            "`generation` is there twice",
        ),
        (
            r#"[{"unmatched": "allow", "name": "r", "algorithm": "deny"}]"#,
            "stands in a map of its own",
        ),
        (
            r#"["r: deny", "s: deny bye ip"]"#,
            "line 1, column 9: expected `by`",
        ),
        (r#"[5]"#, "expected a rule, as text or as a map"),
        (
            r#"5"#,
            "expected a list of rules, or text with a rule on each line",
        ),
    ] {
        let error = of_json(json).map(|rules| rules.to_string()).unwrap_err();
        assert!(error.to_string().contains(expected), "{json}: {error}");
    }
    let error = of_json("[\n  \"r: deny\",\n  {\"name\": \"s\", \"algorithm\": \"bucket\"}\n]")
        .unwrap_err();
    assert_eq!(error.line(), 3);
    let error =
        toml::from_str::<Config>("rules = [\n  \"r: deny\",\n  { name = \"s\", rate = 5 },\n]")
            .unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
    let twice = serde_json::from_str::<RuleSet>(r#"["r: deny", "r: deny"]"#).unwrap_err();
    assert!(
        twice.to_string().contains("two rules are named \"r\""),
        "{twice}"
    );
    let many: Vec<_> = (0..300)
        .map(|number| format!("r{number}: deny on /a"))
        .collect();
    let error = serde_json::from_value::<RuleSet>(many.into()).unwrap_err();
    assert!(error.to_string().contains("too many rules"), "{error}");
}

#[test]
fn extractors_of_ones_own_are_found_by_name() {
    let registry = Registry::new().with("tenant", by_fn(|_| 7)).unwrap();
    let json =
        r#"[{"name": "r", "algorithm": "sliding-log", "quota": "5/s", "by": "(tenant, method)"}]"#;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let rules = Rules::deserialize_with(&registry, &mut deserializer).unwrap();
    assert_eq!(
        rules.to_string(),
        "r: sliding-log 5/s by (tenant, method)\n"
    );
    assert!(of_json(json).is_err());
}
