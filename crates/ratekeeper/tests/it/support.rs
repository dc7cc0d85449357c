use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ratekeeper::read::{Bounds, LogLines, Taken, lines_of};
use ratekeeper::replay::{Findings, Settings, replay};
use ratekeeper::rules::Rule;

/// Returns the path of a file of the tests.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Returns the command with the tests' data as its folder, and without the caller's wishes.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratekeeper"));
    command
        .args(arguments)
        .current_dir(data(""))
        .env_remove("NO_COLOR")
        .env_remove("TERM");
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs the command with this on its standard input.
pub(crate) fn run_on(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    // The command may have ended without reading all.
    let _ = writer.join().unwrap();
    output
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn lines(bytes: impl Into<Vec<u8>>) -> LogLines {
    lines_of(
        Box::new(Cursor::new(bytes.into())),
        Bounds::default(),
        &Taken::default(),
    )
    .unwrap()
}

pub(crate) fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Replays one log of these bytes.
pub(crate) fn findings(bytes: impl Into<Vec<u8>>, settings: &Settings) -> Findings {
    replay(vec![("log".to_owned(), lines(bytes))], settings, || ()).unwrap()
}

/// Returns a line in common format; the time is in seconds since 2025-10-10T00:00:00Z.
pub(crate) fn line(client: &str, second: u64) -> String {
    let (day, time) = (10 + second / 86_400, second % 86_400);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!(
        "{client} - - [{day:02}/Oct/2025:{hour:02}:{minute:02}:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n"
    )
}
