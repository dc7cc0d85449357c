use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::{Format, Parser};
use super::*;

fn read(fields: &[&str], line: &[u8]) -> Result<[String; 5], Fault> {
    let mut named = Fields::default();
    fields.iter().for_each(|field| named.set(field).unwrap());
    let mut parser = Parser::new(Some(Format::Json), named);
    let record = parser.parse(line)?;
    Ok([
        record.client,
        record.user,
        record.host,
        record.method,
        record.path,
    ]
    .map(|field| String::from_utf8_lossy(field).into_owned()))
}

#[test]
fn names_can_be_set_and_reach_into_objects() {
    let line = br#"{"when":1,"net":{"peer":{"ip":"192.0.2.1"}},"method":"GET","request.path":"/a?b","remote_addr":"x"}"#;
    let fields = ["time=when", "client=net.peer.ip", "path=request.path"];
    assert_eq!(
        read(&fields, line).unwrap(),
        ["192.0.2.1", "", "", "GET", "/a"]
    );
    assert_eq!(read(&["time=when"], line).unwrap()[0], "x");
    let error = Fields::default()
        .set("status=code")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("invalid field \"status=code\""),
        "{error}"
    );
    assert!(Fields::default().set("time=").is_err());
}

#[test]
fn preferred_names_win_in_any_order_and_the_first_of_equals_counts() {
    let expected = ["192.0.2.1", "", "", "", ""];
    assert_eq!(
        read(&[], br#"{"ts":1,"client":"x","remote_addr":"192.0.2.1"}"#).unwrap(),
        expected
    );
    assert_eq!(
        read(&[], br#"{"ts":1,"remote_addr":"192.0.2.1","client":"x"}"#).unwrap(),
        expected
    );
    assert_eq!(
        read(&[], br#"{"ts":1,"client":"192.0.2.1","client":"x"}"#).unwrap(),
        expected
    );
    assert_eq!(
        read(&[], br#"{"ts":1,"remote_addr":null,"client":"192.0.2.1"}"#).unwrap(),
        expected
    );
}

#[test]
fn objects_that_are_not_whole_are_unreadable() {
    let whole = br#"{"ts":1,"client":"192.0.2.1","more":{"a":[1,{"b":"\"}"}],"c":null}}"#;
    assert!(read(&[], whole).is_ok());
    for end in 1..whole.len() {
        assert_eq!(
            read(&[], &whole[..end]),
            Err(Fault::BadJson),
            "cut at {end}"
        );
    }
    for odd in [
        &br#"{"ts":1,"client":"a"}}"#[..],
        br#"{"ts":1,"client":"a"} x"#,
        b"[]",
        b"{\"ts\"}",
        b"{,}",
        b"{\"a\":}",
    ] {
        assert_eq!(
            read(&[], odd),
            Err(Fault::BadJson),
            "{}",
            odd.escape_ascii()
        );
    }
    assert_eq!(read(&[], b"{}"), Err(Fault::NoClient));
    assert_eq!(read(&[], br#"{"client":"a"}"#), Err(Fault::NoTime));
    assert_eq!(
        read(&[], br#"{"client":"a","ts":"soon"}"#),
        Err(Fault::BadTime)
    );
}

#[test]
fn nesting_of_any_depth_is_skipped_without_recursion() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let line = format!(r#"{{"x":{deep},"ts":1,"client":"a"}}"#);
    assert_eq!(read(&[], line.as_bytes()).unwrap()[0], "a");
    let deep = r#"{"request":"#.repeat(50_000);
    assert_eq!(read(&[], deep.as_bytes()), Err(Fault::BadJson));
}

#[test]
fn bytes_that_are_not_utf8_and_escapes_that_are_not_json_pass() {
    let line =
        b"{\"ts\":1,\"client\":\"a\",\"uri\":\"/\xff\\x41\\u00e9\\ud83d\\ude00\\ud800\\u12\"}";
    let mut parser = Parser::new(None, Fields::default());
    assert_eq!(
        parser.parse(line).unwrap().path,
        b"/\xffA\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd\\u12"
    );
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::hash_map("[a-z]{1,9}", inner, 0..4).prop_map(Json::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn strings_read_as_a_full_json_parser_reads_them(client in "\\PC+", user: String, noise in any_json(), pretty: bool) {
        let object = json!({
            "a": noise, "ts": 7, "in": { "noise": noise, "user": user }, "client": client, "z": noise,
        });
        let line = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
        let fields = ["client=client", "user=in.user", "host=none", "method=none", "path=none"];
        let expected = |text: &str| if text == "-" { String::new() } else { text.to_owned() };
        let found = read(&fields, line.as_bytes()).unwrap();
        prop_assert_eq!(&found[0], &expected(&client));
        prop_assert_eq!(&found[1], &expected(&user));
    }

    #[test]
    fn no_line_panics(line: Vec<u8>, json: bool) {
        let format = if json { Format::Json } else { Format::Common };
        let _ = Parser::new(Some(format), Fields::default()).parse(&line).is_ok();
    }

    #[test]
    fn no_mangled_line_panics(at in 0usize..120, byte: u8) {
        for line in [
            &br#"{"ts":1646861401.5e0,"request":{"remote_ip":"a\u00e9","uri":"/\ud83d\ude00\x"},"status":200}"#[..],
            br#"192.0.2.1 - j\x41 [07/Mar/2004:16:05:49 -0800] "GET /a\"b?c HTTP/1.1" 200 12 "-" "x""#,
        ] {
            let mut line = line.to_vec();
            let at = at % line.len();
            line[at] = byte;
            let _ = Parser::new(None, Fields::default()).parse(&line).is_ok();
        }
    }
}
