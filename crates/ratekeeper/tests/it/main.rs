//! The command from outside, and the replay against slow and independent counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
mod demo;
mod golden;
mod hostile;
mod inputs;
mod library;
mod oracle;
mod support;
