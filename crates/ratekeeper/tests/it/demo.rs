//! The log that ships with the crate, and the README's tour through it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::text;

#[allow(dead_code, reason = "the example's main is not called here")]
#[path = "../../examples/demo_log.rs"]
mod demo_log;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_demo_log_is_what_its_generator_writes() {
    let mut written = Vec::new();
    demo_log::write_log(3_000, &mut written).unwrap();
    let path = root().join("demo/access.log");
    if std::env::var_os("RATEKEEPER_BLESS").is_some() {
        fs::write(&path, &written).unwrap();
    }
    assert!(
        fs::read(path).unwrap() == written,
        "run the example demo_log again, or undo its change"
    );
}

/// Splits a command line as a shell does, as far as the README needs it: words and single quotes.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate();
    let mut words = vec![String::new()];
    for (index, part) in quoted {
        if index % 2 == 1 {
            if let Some(word) = words.last_mut() {
                word.push_str(part);
            }
            continue;
        }
        for (index, piece) in part.split_whitespace().enumerate() {
            if index > 0 || part.starts_with(char::is_whitespace) {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push_str(piece);
            }
        }
        if part.ends_with(char::is_whitespace) && part.trim() != "" {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the README with what its commands print now.
fn toured(readme: &str) -> (String, usize) {
    let mut toured = String::new();
    let mut commands = 0;
    let mut printed = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            printed = false;
        }
        if !printed {
            toured.push_str(line);
            toured.push('\n');
        }
        if let Some(command) = line.strip_prefix("$ cargo run -q -p ratekeeper -- ") {
            let output = Command::new(env!("CARGO_BIN_EXE_ratekeeper"))
                .args(words(command))
                .current_dir(root().join("../.."))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{command}: {}",
                text(&output.stderr)
            );
            toured.push_str(&text(&output.stdout));
            commands += 1;
            printed = true;
        }
    }
    (toured, commands)
}

#[test]
fn the_tour_of_the_readme_shows_what_the_command_prints() {
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (toured, commands) = toured(&readme);
    if std::env::var_os("RATEKEEPER_BLESS").is_some() {
        fs::write(path, &toured).unwrap();
    }
    assert_eq!(readme, toured);
    assert!(commands >= 3, "the tour has {commands} commands");
}

#[test]
fn words_are_split_as_a_shell_splits_them() {
    assert_eq!(
        words("replay a.log --rule 'x: y z' --json"),
        ["replay", "a.log", "--rule", "x: y z", "--json"]
    );
    assert_eq!(
        words("explain '10/s burst 20'"),
        ["explain", "10/s burst 20"]
    );
}
