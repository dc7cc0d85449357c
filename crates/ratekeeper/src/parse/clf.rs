//! The common log format and what is built on it.

use super::{Fault, Format, Found, Place, request_line, stamp, unescape};

/// Finds the fields of one line, and which of the two formats it has.
///
/// The user is whatever the client sent, so it may hold spaces and brackets; but servers escape
/// quotes, so the first bare quote behind a bracket begins the request, and the last bracket before
/// it the time. That way nobody forges a line by choosing a user name.
pub(super) fn parse(line: &[u8], scratch: &mut Vec<u8>) -> Result<(Found, Format), Fault> {
    let client = match memchr::memchr(b' ', line) {
        Some(end) if end > 0 => Place {
            start: 0,
            end,
            scratch: false,
        },
        _ => return Err(Fault::NoClient),
    };
    let quote = request_quote(line, client.end);
    let before = &line[..quote.unwrap_or(line.len())];
    let bracket = match quote {
        Some(_) => memchr::memrchr(b'[', before),
        None => memchr::memchr(b'[', before),
    };
    let bracket = bracket.filter(|at| *at > client.end).ok_or(Fault::NoTime)?;
    let inside = &before[bracket + 1..];
    let inside = &inside[..memchr::memchr(b']', inside).ok_or(Fault::NoTime)?];
    let stamp = stamp::clf(inside).ok_or(Fault::BadTime)?;

    let user = unescape(line, user(line, client.end, bracket), scratch);
    let (request, format) = match quote {
        Some(quote) => request(line, quote + 1),
        None => (Place::default(), Format::Common),
    };
    let request = unescape(line, request, scratch);
    let (method, target) = match request_line(request.get(line, scratch)) {
        Some((method, target)) => (
            request.within(method.0, method.1),
            request.within(target.0, target.1),
        ),
        None => Default::default(),
    };
    let client = if client.get(line, scratch) == b"-" {
        Place::default()
    } else {
        client
    };
    Ok((
        Found {
            stamp,
            client,
            user,
            host: Place::default(),
            method,
            target,
        },
        format,
    ))
}

/// Returns the user, which stands behind the identity and reaches up to the time.
fn user(line: &[u8], client_end: usize, bracket: usize) -> Place {
    let begin = client_end + 1;
    let end = if bracket > begin && line[bracket - 1] == b' ' {
        bracket - 1
    } else {
        bracket
    };
    let between = line.get(begin..end).unwrap_or_default();
    match memchr::memchr(b' ', between) {
        Some(space) if &between[space + 1..] != b"-" => Place {
            start: begin + space + 1,
            end,
            scratch: false,
        },
        _ => Place::default(),
    }
}

/// Returns the request, and the format that what follows it shows.
///
/// It ends at the first bare quote with a status behind it, since old servers did not escape
/// quotes; without one at the first bare quote, or with a line that was cut at its end.
fn request(line: &[u8], begin: usize) -> (Place, Format) {
    let mut first = None;
    let mut from = begin;
    while let Some(quote) = bare_quote(line, from) {
        let after = &line[quote + 1..];
        if let [b' ', a, b, c, rest @ ..] = after
            && ([*a, *b, *c].iter().all(u8::is_ascii_digit) || *a == b'-')
        {
            let mut fields = rest
                .split(|byte| *byte == b' ')
                .filter(|field| !field.is_empty());
            let format = if fields.nth(1).is_some() {
                Format::Combined
            } else {
                Format::Common
            };
            return (
                Place {
                    start: begin,
                    end: quote,
                    scratch: false,
                },
                format,
            );
        }
        first = first.or(Some(quote));
        from = quote + 1;
    }
    (
        Place {
            start: begin,
            end: first.unwrap_or(line.len()),
            scratch: false,
        },
        Format::Common,
    )
}

/// Returns the quote that begins the request: the first bare one behind a bracket. Quotes before it
/// are a user's, from a server that does not escape them.
fn request_quote(line: &[u8], client_end: usize) -> Option<usize> {
    let mut from = client_end;
    loop {
        let quote = bare_quote(line, from)?;
        if line[..quote].trim_ascii_end().ends_with(b"]") {
            return Some(quote);
        }
        from = quote + 1;
    }
}

/// Returns the first quote from `from` on that no backslash escapes.
fn bare_quote(line: &[u8], from: usize) -> Option<usize> {
    let mut search = from;
    loop {
        let quote = search + memchr::memchr(b'"', line.get(search..)?)?;
        let slashes = line[from..quote]
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\')
            .count();
        if slashes % 2 == 0 {
            return Some(quote);
        }
        search = quote + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parser;
    use super::*;

    /// Returns client, user, method and path of a line.
    fn read(line: &str) -> Result<[String; 4], Fault> {
        let mut parser = Parser::new(Some(Format::Combined), Default::default());
        let record = parser.parse(line.as_bytes())?;
        Ok([record.client, record.user, record.method, record.path]
            .map(|field| String::from_utf8_lossy(field).into_owned()))
    }

    const TIME: &str = "[07/Mar/2004:16:05:49 -0800]";

    fn expect(line: &str, fields: [&str; 4]) {
        let line = line.replace("TIME", TIME);
        assert_eq!(
            read(&line)
                .as_ref()
                .map(|read| read.each_ref().map(String::as_str)),
            Ok(fields),
            "{line}"
        );
    }

    #[test]
    fn clients_are_addresses_of_both_kinds_host_names_or_missing() {
        for client in ["192.0.2.1", "2001:db8::1", "lj1036.example.org"] {
            expect(
                &format!(r#"{client} - - TIME "GET / HTTP/1.0" 200 1"#),
                [client, "", "GET", "/"],
            );
        }
        expect(r#"- - - TIME "GET / HTTP/1.0" 200 1"#, ["", "", "GET", "/"]);
    }

    #[test]
    fn a_user_name_cannot_forge_the_rest_of_the_line() {
        expect(
            r#"192.0.2.1 - x [01/Jan/2030:00:00:00 +0000] \"GET /fake HTTP/1.1\" 200 1 TIME "GET /true HTTP/1.1" 401 1"#,
            [
                "192.0.2.1",
                r#"x [01/Jan/2030:00:00:00 +0000] "GET /fake HTTP/1.1" 200 1"#,
                "GET",
                "/true",
            ],
        );
        expect(
            r#"192.0.2.1 - "><a> TIME "GET / HTTP/1.1" 401 1"#,
            ["192.0.2.1", "\"><a>", "GET", "/"],
        );
        expect(
            r#"192.0.2.1 - john doe TIME "GET / HTTP/1.1" 401 1"#,
            ["192.0.2.1", "john doe", "GET", "/"],
        );
    }

    #[test]
    fn escaped_and_stray_quotes_stay_inside_the_request() {
        expect(
            r#"192.0.2.1 - - TIME "GET /a\"b HTTP/1.1" 200 1 "-" "x""#,
            ["192.0.2.1", "", "GET", "/a\"b"],
        );
        expect(
            r#"192.0.2.1 - - TIME "GET /a\x22b HTTP/1.1" 200 1 "-" "x""#,
            ["192.0.2.1", "", "GET", "/a\"b"],
        );
        expect(
            r#"192.0.2.1 - - TIME "GET /a"b HTTP/1.1" 200 1 "-" "x""#,
            ["192.0.2.1", "", "GET", "/a\"b"],
        );
        expect(
            r#"192.0.2.1 - - TIME "GET /a\\" 200 1 "-" "x" "y"z""#,
            ["192.0.2.1", "", "GET", "/a\\"],
        );
    }

    #[test]
    fn requests_that_are_not_http_still_count_for_their_client() {
        for request in [r"\x16\x03\x01", "-", "", "quit"] {
            expect(
                &format!(r#"192.0.2.1 - - TIME "{request}" 400 0"#),
                ["192.0.2.1", "", "", ""],
            );
        }
        expect("192.0.2.1 - - TIME", ["192.0.2.1", "", "", ""]);
    }

    #[test]
    fn a_line_that_was_cut_is_readable_once_its_time_is() {
        expect(
            r#"192.0.2.1 - - TIME "GET /a"#,
            ["192.0.2.1", "", "GET", "/a"],
        );
        expect(
            r#"192.0.2.1 - - TIME "GET /a HTTP/1.1" 200 235 "-" "Mozilla/5.0 (cut"#,
            ["192.0.2.1", "", "GET", "/a"],
        );
        assert_eq!(read("192.0.2.1 - - [07/Mar/2004:16:05"), Err(Fault::NoTime));
    }

    #[test]
    fn lines_without_client_or_time_are_unreadable() {
        assert_eq!(read(""), Err(Fault::NoClient));
        assert_eq!(read("rubbish"), Err(Fault::NoClient));
        assert_eq!(
            read(" - - [07/Mar/2004:16:05:49 -0800] \"\" 1"),
            Err(Fault::NoClient)
        );
        assert_eq!(read("some rubbish with spaces"), Err(Fault::NoTime));
        assert_eq!(
            read("192.0.2.1 - - \"GET / HTTP/1.1\" 200 [1]"),
            Err(Fault::BadTime)
        );
        assert_eq!(
            read("192.0.2.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1"),
            Err(Fault::BadTime)
        );
    }

    #[test]
    fn the_common_format_ends_with_the_size() {
        let format = |line: &str| {
            let mut parser = Parser::new(None, Default::default());
            parser.parse(line.replace("TIME", TIME).as_bytes()).unwrap();
            parser.format()
        };
        assert_eq!(
            format(r#"192.0.2.1 - - TIME "GET / HTTP/1.1" 200 1"#),
            Some(Format::Common)
        );
        assert_eq!(
            format(r#"192.0.2.1 - - TIME "GET / HTTP/1.1" 200 -"#),
            Some(Format::Common)
        );
        assert_eq!(
            format(r#"192.0.2.1 - - TIME "GET / HTTP/1.1" 200 1 "-""#),
            Some(Format::Combined)
        );
    }
}
