//! A log full of what strangers send to whoever reads it.

use std::fs;

use crate::support::{run, text};

/// Rules whose keys bring every field of a line to light.
const RULES: [&str; 3] = [
    "who: fixed-window 2/min by (ip, path)",
    "user: fixed-window 1/min by user",
    "path: fixed-window 1/min by path",
];

/// Returns what is printed under each of the rules alone.
fn replay(more: &[&str]) -> Vec<String> {
    let printed = RULES.map(|rule| {
        let arguments = [
            &["replay", "hostile.log", "--rule", rule, "--top", "50"],
            more,
        ]
        .concat();
        let output = run(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    });
    printed.to_vec()
}

/// Characters that a terminal or a reader's eye would be led astray by.
fn is_hidden(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
}

#[test]
fn nothing_reaches_the_terminal_raw() {
    let shown = replay(&[]).concat();
    assert!(!shown.contains(is_hidden), "{shown:?}");
    assert!(shown.contains(r"\x1b[31mred\x1b]0;title\x07"), "{shown}");
    assert!(
        shown.contains(r"\x9b31m\xff\xfe\xc2\x9b\xe2\x80\xae\xe2\x80\xa8x"),
        "{shown}"
    );
}

#[test]
fn json_is_valid_and_says_the_same_keys() {
    let mut keys = Vec::new();
    for shown in replay(&["--json"]) {
        assert!(!shown.contains(is_hidden), "{shown:?}");
        let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(json["unreadable"], 2);
        let top = json["top"].as_array().unwrap().iter();
        keys.extend(top.map(|key| key["key"].as_str().unwrap().to_owned()));
    }
    for key in [
        "<script>alert(1)</script> /<img/src=x/onerror=alert(2)>",
        "\\x9b31m\\xff\\xfe\u{9b}\u{202e}\u{2028}x",
        "\"><svg/onload=alert(3)>",
        "/<script>alert(4)</script>",
    ] {
        assert!(keys.iter().any(|known| known == key), "{key:?} in {keys:?}");
    }
}

#[test]
fn the_report_has_no_markup_but_its_own() {
    let path = std::env::temp_dir().join(format!("ratekeeper-hostile-{}.html", std::process::id()));
    let page_of = ["--html", path.to_str().unwrap()];
    let arguments: Vec<&str> = ["replay", "hostile.log", "--rule", RULES[0]]
        .into_iter()
        .chain(page_of)
        .collect();
    assert!(run(&arguments).status.success());
    let page = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!page.contains(is_hidden));
    let tags = page.split('<').skip(1).map(|rest| {
        let end = rest
            .find(|letter: char| letter.is_whitespace() || letter == '>')
            .unwrap_or(rest.len());
        rest[..end].trim_start_matches('/').to_ascii_lowercase()
    });
    let own = [
        "!doctype",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "h1",
        "p",
        "code",
        "ul",
        "li",
        "strong",
        "main",
        "section",
        "h2",
        "h3",
        "div",
        "figure",
        "svg",
        "rect",
        "line",
        "polyline",
        "polygon",
        "text",
        "figcaption",
        "span",
        "table",
        "caption",
        "thead",
        "tr",
        "th",
        "tbody",
        "td",
        "footer",
    ];
    let foreign: Vec<String> = tags.filter(|tag| !own.contains(&tag.as_str())).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for loading in ["http:", "https:", "src=", "@import", "url("] {
        let outside_text = page
            .replace("http://www.w3.org/2000/svg", "")
            .replace("src=x", "");
        assert!(!outside_text.contains(loading), "{loading}");
    }
}

#[test]
fn names_of_files_are_escaped_as_well() {
    let output = run(&[
        "replay",
        "no\u{1b}[31mfile",
        "--rule",
        "a: token-bucket 1/s by ip",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!text(&output.stderr).contains('\u{1b}'));
}
