use super::*;

#[test]
fn rules_print_back_as_they_were_written() {
    for text in [
        "per-ip: token-bucket 60/min burst 20 by ip on GET,POST /api/*",
        "per-ip: token-bucket 60/min burst 20 by ip",
        "all: fixed-window 100/s by global",
        "coupons: sliding-log 5/h by (user or ip, path) on POST /coupons/{id}/redeem /c/{*rest}",
        "net: token-bucket 1000/min by ip:24/48",
        "any: leaky-bucket 10/s by ip on /a /b",
        "\"two words: one\": token-bucket 10/s by ip",
    ] {
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
    }
}

#[test]
fn what_a_server_takes_is_taken_and_what_matters_is_kept() {
    let rule: Rule =
        "a: calendar-window 1000/day cost 3 by user else 401 shadow at +02:00 status 403 on get /x"
            .parse()
            .unwrap();
    assert_eq!((rule.cost, rule.shadowed), (3, true));
    assert_eq!(rule.key, KeyParts(vec![vec![KeyPart::User]]));
    assert_eq!(rule.on.methods, ["GET"]);
    assert_eq!(
        rule.limit.algorithm(),
        ratekeeper_core::Algorithm::CalendarWindow("+02:00".parse().unwrap())
    );
    let rule: Rule = "b: token-bucket 10/s burst 20 counter shared"
        .parse()
        .unwrap();
    assert_eq!(
        (rule.limit.counter(), rule.limit.capacity()),
        ("shared", 20)
    );
    assert_eq!(rule.key, KeyParts(vec![vec![KeyPart::IP]]));
    let text = "# limits\n\na: token-bucket 1/s by ip # all\nb: unlimited on /health\nc: token-bucket 1/s off\n";
    assert_eq!(parse(text).unwrap().len(), 1);
}

#[test]
fn a_rule_that_cannot_be_replayed_says_why() {
    for (text, reason) in [
        ("60/min by ip", "line 1, column "),
        ("a: token-bucket 60/min bye ip", "line 1, column "),
        ("a: bucket 60/min by ip", "line 1, column 4: "),
        ("a: token-bucket 60/min by ip on GET api", "line 1, column "),
        ("a: sliding-log 60/min burst 9 by ip", "burst"),
        (
            "a: token-bucket 60/min by header:x-api-key",
            "a log does not tell the key \"header:x-api-key\"",
        ),
        (
            "a: token-bucket 60/min by user else shared",
            "a log does not tell the key \"user else shared\"",
        ),
        (
            "a: token-bucket 60/min plan pro 600/min by user",
            "a log does not tell who is in which plan",
        ),
        (
            "a: token-bucket 60/min cost later",
            "a log does not tell what a request cost",
        ),
        ("a: deny on /admin/*", "deny refuses all"),
        ("a: unlimited", "expected one rule that limits something"),
        ("", "expected one rule that limits something"),
    ] {
        let error = text.parse::<Rule>().unwrap_err().to_string();
        assert!(
            error.starts_with("invalid rule") && error.contains(reason),
            "{error}"
        );
    }
    let error = parse("a: token-bucket 1/s by ip\n\nb")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("invalid rules: line 3, column "),
        "{error}"
    );
    let mut twice = parse("a: token-bucket 1/s by ip").unwrap();
    twice.extend(parse("a: token-bucket 2/s by ip").unwrap());
    assert!(
        check(&twice)
            .unwrap_err()
            .to_string()
            .ends_with("another rule has this name")
    );
    assert!(check(&[]).is_err());
}

#[test]
fn a_head_request_counts_as_a_get_and_paths_match_in_every_spelling() {
    let rule: Rule = "a: token-bucket 1/s by ip on GET /x /u/{id}"
        .parse()
        .unwrap();
    assert!(rule.on.applies(b"HEAD", b"/x") && rule.on.applies(b"GET", b"//%78/"));
    assert!(rule.on.applies(b"GET", b"/u/7") && !rule.on.applies(b"GET", b"/u/7/y"));
    assert!(!rule.on.applies(b"POST", b"/x") && !rule.on.applies(b"GET", b"/y\xff"));
    assert!(On::default().applies(b"", b""));
}
