//! What a text that is no rules is told.

use tower_ratekeeper::core::QuotaErrorKind;
use tower_ratekeeper::{RuleErrorKind, RuleSet, RuleTextErrorKind, Rules};

#[test]
fn an_error_tells_the_place_what_was_found_and_what_was_expected() {
    for (text, expected) in [
        (
            "per ip: deny",
            "line 1, column 5: expected `:` after the name of a rule, found \"ip:\"",
        ),
        (
            ": deny",
            "line 1, column 1: expected a rule such as `per-ip: token-bucket 60/min by ip`, found \":\"",
        ),
        (
            "r",
            "line 1, column 2: expected `:` after the name of a rule, found the end",
        ),
        (
            "\n\n  r: bucket 1/s",
            "line 3, column 6: expected `token-bucket`, `leaky-bucket`, `fixed-window`, `calendar-window`, \
             `sliding-log`, `sliding-counter`, `deny` or `unlimited`, found \"bucket\"",
        ),
        (
            "r: sliding-log by ip",
            "line 1, column 16: expected a quota such as `100/min` or `10/s burst 20`, found \"by\"",
        ),
        (
            "r: sliding-log 5 by ip",
            "line 1, column 16: invalid quota \"5\": expected a form like \"100/min\" or \"10/s burst 20\"",
        ),
        (
            "r: token-bucket 5/s burst 0 by ip",
            "line 1, column 27: invalid quota \"5/s burst 0\": the burst must be at least one",
        ),
        (
            "r: sliding-log 5/h burst 9",
            "line 1, column 16: invalid limit \"r\": sliding-log has no burst, but \"5/h burst 9\" sets one",
        ),
        (
            "r: deny bye ip",
            "line 1, column 9: expected `by`, `on`, `plan`, `cost`, `shadow` or another clause of a rule, found \"bye\"",
        ),
        (
            "r: deny by ip,route",
            "line 1, column 14: expected `by`, `on`, `plan`, `cost`, `shadow` or another clause of a rule, found \",route\"",
        ),
        (
            "r: deny by",
            "line 1, column 11: expected a key such as `ip`, `header:x-api-key` or `(ip, method)`, found the end",
        ),
        (
            "r: deny by (ip, usr) off",
            "line 1, column 17: expected a key such as `ip`, `header:x-api-key` or `(ip, method)`, found \"usr\"",
        ),
        (
            "r: deny by header off",
            "line 1, column 12: expected a key with the argument that it takes, found \"header\"",
        ),
        (
            "r: deny by ip else 200",
            "line 1, column 20: expected an error status, `shared` or `exempt`, found \"200\"",
        ),
        (
            "r: deny on",
            "line 1, column 11: expected methods such as `GET,POST`, or a path such as `/api/*`, found the end",
        ),
        (
            "r: deny on off",
            "line 1, column 12: expected methods such as `GET,POST`, or a path such as `/api/*`, found \"off\"",
        ),
        (
            "r: deny on ,",
            "line 1, column 13: expected methods such as `GET,POST`, or a path such as `/api/*`, found the end",
        ),
        (
            "r: deny on GET,*",
            "line 1, column 16: invalid place \"*\": not a method",
        ),
        (
            "r: deny on GET api/*",
            "line 1, column 16: expected `by`, `on`, `plan`, `cost`, `shadow` or another clause of a rule, found \"api/*\"",
        ),
        (
            "r: deny on /a /b*",
            "line 1, column 15: invalid place \"/b*\": \"*\" and \"{name}\" stand for whole segments",
        ),
        (
            "r: deny by ip by ip",
            "line 1, column 15: \"by\" says again what was said before",
        ),
        (
            "r: deny off shadow",
            "line 1, column 13: \"shadow\" says again what was said before",
        ),
        (
            "r: deny cost 5",
            "line 1, column 9: \"cost\" needs a rule with a quota",
        ),
        (
            "r: sliding-log 5/s at +02:00",
            "line 1, column 20: \"at\" needs a `calendar-window`",
        ),
        (
            "r: calendar-window 5/day at noon",
            "line 1, column 29: expected an offset such as `+02:00`, found \"noon\"",
        ),
        (
            "r: calendar-window 5/7s",
            "line 1, column 20: invalid limit \"r\": the period of \"calendar-window 5/7s\" is not a minute, hour, day, week, month or year",
        ),
        (
            "r: sliding-log 5/s cost 6",
            "line 1, column 20: rule \"r\": a request costs 6 units, but at most 5 are ever admitted",
        ),
        (
            "r: sliding-log 5/s max-cost 0",
            "line 1, column 20: rule \"r\": a request costs 1 units, but at most 0 are ever admitted",
        ),
        (
            "r: sliding-log 5/s cost -1",
            "line 1, column 25: expected a number of units, or `later`, found \"-1\"",
        ),
        (
            "r: sliding-log 5/s max-cost",
            "line 1, column 28: expected a number of units, found the end",
        ),
        (
            "r: sliding-log 5/s max-debt 99999999999999999999",
            "line 1, column 29: \"99999999999999999999\" does not fit 64 bits",
        ),
        (
            "r: sliding-counter 5/s max-debt 4294967296",
            "line 1, column 24: invalid limit \"r\": the units of \"sliding-counter 5/s\" and its debt reach 2^32",
        ),
        (
            "r: sliding-log 5/s counter \"\"",
            "line 1, column 20: invalid limit \"\": a name has 1 to 64 printable ASCII characters",
        ),
        (
            "r: sliding-log 5/s plan a",
            "line 1, column 26: expected a quota such as `100/min` or `10/s burst 20`, found the end",
        ),
        (
            "r: sliding-log 5/s plan a 1/s plan a 2/s",
            "line 1, column 31: rule \"r\" has two plans named \"a\", or one without a name",
        ),
        (
            "r: deny plan a 1/s",
            "line 1, column 9: invalid limit \"r\": a plan with a quota needs a rule with an algorithm",
        ),
        (
            "r: deny enforce 101%",
            "line 1, column 17: expected a share from `0%` to `100%`, or another clause, found \"101%\"",
        ),
        (
            "r: deny status 200",
            "line 1, column 16: expected a status from 400 to 599, found \"200\"",
        ),
        (
            "r: deny jitter soon",
            "line 1, column 16: expected a duration such as `5s`, or `none`, found \"soon\"",
        ),
        (
            "r: deny settle",
            "line 1, column 15: expected `handle`, found the end",
        ),
        (
            "r: deny abort never",
            "line 1, column 15: expected `refund` or `charge`, found \"never\"",
        ),
        (
            "\"r: deny",
            "line 1, column 1: expected a name up to a closing `\"`, in it only `\\\"`, `\\\\` and `\\u{…}`, found \"\\\"r:\"",
        ),
        (
            "größe: deny",
            "line 1, column 1: invalid limit \"größe\": a name has 1 to 64 printable ASCII characters",
        ),
        (
            "a: sliding-log 1/s plan ü 1/s off on",
            "line 1, column 37: expected methods such as `GET,POST`, or a path such as `/api/*`, found the end",
        ),
        (
            "unmatched: deny",
            "line 1, column 12: expected `allow`, found \"deny\"",
        ),
        (
            "unmatched: allow it",
            "line 1, column 18: expected the end of the line, found \"it\"",
        ),
        (
            "unmatched: allow\nunmatched: allow",
            "line 2, column 1: \"unmatched\" says again what was said before",
        ),
        (
            "generation: new",
            "line 1, column 13: expected a generation such as `7`, found \"new\"",
        ),
        (
            "generation: 4294967296",
            "line 1, column 13: expected a generation below 2^32, found \"4294967296\"",
        ),
        (
            "generation: 7 8",
            "line 1, column 15: expected the end of the line, found \"8\"",
        ),
        (
            "generation: 0\ngeneration: 1",
            "line 2, column 1: \"generation\" says again what was said before",
        ),
        (
            "r: deny\n # r\n r: deny",
            "line 3, column 2: two rules are named \"r\"",
        ),
        (
            "r: deny by custom",
            "line 1, column 12: \"custom\" stands for code, which no text can bring",
        ),
    ] {
        let error = text
            .parse::<Rules>()
            .map(|rules| rules.to_string())
            .unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn what_rules_say_of_each_other_has_a_place_too() {
    let text = "a: deny\n  b: sliding-log 1/s counter c\n  d: fixed-window 1/s counter c\n";
    let error = text.parse::<RuleSet>().unwrap_err();
    assert_eq!((error.line(), error.column()), (3, 3));
    let RuleTextErrorKind::Rule(error) = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(error.kind(), &RuleErrorKind::CounterTwice("c".to_owned()));
}

#[test]
fn the_kinds_carry_the_errors_of_the_parts() {
    let error = "r: sliding-log 0/s".parse::<Rules>().unwrap_err();
    let RuleTextErrorKind::Quota(quota) = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(quota.kind(), QuotaErrorKind::ZeroUnits);
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let long = format!("r: deny\n{}", "x".repeat(1 << 20));
    let error = long.parse::<Rules>().unwrap_err();
    assert_eq!(
        (error.kind(), error.line()),
        (&RuleTextErrorKind::TooLong, 2)
    );
    let many: String = (0..257)
        .map(|number| format!("r{number}: deny on /a\n"))
        .collect();
    assert_eq!(many.parse::<Rules>().unwrap_err().line(), 257);
}
