//! The `ratekeeper` command; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ratekeeper::cli::main(std::env::args_os())
}
