//! Writes an access log in combined format, always the same for the same number of lines:
//! `cargo run -p ratekeeper --example demo_log -- 3000 > access.log`.
//!
//! Visitors load pages with their images, an office shares one address, a crawler takes two pages a
//! second for some minutes, somebody guesses passwords, and a client in a loop calls the API. The
//! lines are in the order in which requests ended, as servers write them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

/// 2026-03-02T09:00:00Z, the first second of the log.
const START: u64 = 1_772_442_000;

/// A small generator of numbers that look random (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let index = self.below(choices.len() as u64);
        usize::try_from(index).map_or("", |index| choices[index])
    }
}

const PAGES: [&str; 6] = [
    "/",
    "/news",
    "/products?page=2",
    "/products/17",
    "/about",
    "/search?q=rate+limit",
];
const ASSETS: [&str; 4] = [
    "/static/app.js",
    "/static/style.css",
    "/static/logo.svg",
    "/static/photo.jpg",
];
const BROWSERS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
];

/// One request: when it ended, a number that keeps the order of equals, and its line.
type Entry = Reverse<(u64, u64, String)>;

struct Log<W> {
    out: W,
    numbers: Numbers,
    /// Requests under way, the first to end on top.
    open: BinaryHeap<Entry>,
    begun: u64,
}

impl<W: Write> Log<W> {
    fn request(
        &mut self,
        second: u64,
        client: &str,
        user: &str,
        request: &str,
        status: u16,
        agent: &str,
    ) {
        let lasts = if self.numbers.below(50) == 0 {
            self.numbers.below(8)
        } else {
            0
        };
        let size = 200 + self.numbers.below(9_000);
        let line = format!(
            "{client} - {user} [{}] \"{request} HTTP/1.1\" {status} {size} \"-\" \"{agent}\"",
            // The stamp is the request's begin, as in nginx logs that note it: lines come out of order.
            stamp(second)
        );
        self.begun += 1;
        self.open.push(Reverse((second + lasts, self.begun, line)));
    }

    fn write_until(&mut self, second: u64) -> io::Result<()> {
        while self
            .open
            .peek()
            .is_some_and(|Reverse((end, ..))| *end <= second)
        {
            if let Some(Reverse((_, _, line))) = self.open.pop() {
                writeln!(self.out, "{line}")?;
            }
        }
        Ok(())
    }

    fn page(&mut self, second: u64, client: &str, user: &str) {
        let agent = self.numbers.pick(&BROWSERS);
        let page = self.numbers.pick(&PAGES);
        self.request(second, client, user, &format!("GET {page}"), 200, agent);
        for asset in 0..self.numbers.below(4) {
            let asset = ASSETS[usize::try_from(asset).unwrap_or(0)];
            let later = second + self.numbers.below(2);
            self.request(later, client, user, &format!("GET {asset}"), 200, agent);
        }
    }
}

/// Prints a second since the Unix epoch, of March 2026, in the common log format.
fn stamp(second: u64) -> String {
    let since = second - START + 9 * 3_600 + 86_400;
    let (day, time) = (since / 86_400 + 1, since % 86_400);
    format!(
        "{:02}/Mar/2026:{:02}:{:02}:{:02} +0000",
        day,
        time / 3_600,
        time / 60 % 60,
        time % 60
    )
}

/// Writes about as many lines as asked for: over two hours, or over up to four weeks for large logs.
pub(crate) fn write_log(lines: u64, out: impl Write) -> io::Result<()> {
    let seconds = (lines * 12 / 5).clamp(600, 28 * 86_400);
    // Visitors make up for what the seconds alone do not give.
    let crowd = (lines * 4 / seconds).saturating_sub(1).max(1);
    let visitors = 200 + lines / 50;
    let mut log = Log {
        out,
        numbers: Numbers(0x9e37_79b9_7f4a_7c15),
        open: BinaryHeap::new(),
        begun: 0,
    };
    let mut second = START;
    while log.begun < lines {
        // The story repeats every two hours.
        let minute = (second - START) / 60 % 120;
        for _ in 0..crowd {
            if log.numbers.below(9) == 0 {
                // Some visitors come more often than others: the product leans to the low numbers.
                let visitor = log.numbers.below(visitors) * log.numbers.below(visitors) / visitors;
                let client = if visitor.is_multiple_of(5) {
                    format!(
                        "2001:db8:{:x}:{:x}::{:x}",
                        visitor >> 16,
                        visitor % 65_536,
                        1 + log.numbers.below(9)
                    )
                } else {
                    format!(
                        "198.{}.{}.{}",
                        18 + (visitor >> 16) % 2,
                        (visitor >> 8) % 256,
                        visitor % 256
                    )
                };
                log.page(second, &client, "-");
            }
        }
        if log.numbers.below(40) == 0 {
            let user = log.numbers.pick(&["ann", "ben", "eve"]);
            log.page(second, "192.0.2.10", user);
        }
        if (30..38).contains(&minute) {
            for page in 0..1 + log.numbers.below(3) {
                let page = second % 900 * 3 + page;
                log.request(
                    second,
                    "203.0.113.254",
                    "-",
                    &format!("GET /products/{page}"),
                    200,
                    "ExampleBot/2.1 (+https://bot.example/)",
                );
            }
        }
        if (60..63).contains(&minute) && log.numbers.below(3) > 0 {
            log.request(
                second,
                "198.51.100.254",
                "-",
                "POST /login",
                401,
                "python-requests/2.32",
            );
        }
        if (80..82).contains(&minute) {
            for _ in 0..4 + log.numbers.below(3) {
                log.request(
                    second,
                    "192.0.2.77",
                    "robot",
                    "GET /api/orders?status=open",
                    200,
                    "loop/1.0",
                );
            }
        }
        if minute == 45 && second.is_multiple_of(30) {
            writeln!(log.out, "a line that is no request")?;
        }
        log.write_until(second)?;
        second += 1;
    }
    log.write_until(u64::MAX)
}

fn main() -> io::Result<()> {
    let lines = std::env::args()
        .nth(1)
        .and_then(|lines| lines.parse().ok())
        .unwrap_or(3_000);
    let mut out = io::BufWriter::new(io::stdout().lock());
    write_log(lines, &mut out)?;
    out.flush()
}
