//! What the examples beside this package share; see `README.md` for the list of them.

use std::net::SocketAddr;

/// Returns a setting from the environment, or what it is without.
#[must_use]
pub fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Prints where the server listens, as the first line of its output.
#[expect(clippy::print_stdout, reason = "this is what the examples print")]
pub fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}
