//! The script that decides, put together from one file per algorithm.

use std::sync::LazyLock;

use redis::Script;

macro_rules! concatenate {
    ($time:literal) => {
        concat!(
            include_str!($time),
            include_str!("scripts/one_bucket.lua"),
            include_str!("scripts/number.lua"),
            include_str!("scripts/entry.lua"),
            include_str!("scripts/bucket.lua"),
            include_str!("scripts/fixed_window.lua"),
            include_str!("scripts/calendar_window.lua"),
            include_str!("scripts/sliding_counter.lua"),
            include_str!("scripts/sliding_log.lua"),
            include_str!("scripts/main.lua"),
        )
    };
}

pub(crate) const SOURCE: &str = concatenate!("scripts/time.lua");

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));

/// The digest by which the server knows the script.
pub(crate) fn digest() -> &'static str {
    SCRIPT.get_hash()
}

/// The script that takes the time from its last argument.
#[cfg(feature = "__test-clock")]
pub(crate) mod test_clock {
    use super::{LazyLock, Script};

    pub(crate) const SOURCE: &str = concatenate!("scripts/time_test.lua");

    static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));

    pub(crate) fn digest() -> &'static str {
        SCRIPT.get_hash()
    }
}
