# shellcheck shell=bash disable=SC2154
# The steps, in the order in which they run. Sourced by scripts/test.

workspace=(--workspace --all-features --locked)

quick_steps() {
    check "lock file" cargo fetch --locked
    check format cargo fmt --all -- --check -l --color never
    check clippy cargo clippy "${workspace[@]}" --all-targets -- -D warnings
    local script
    for script in scripts/check-*; do
        check "${script#scripts/}" "$script"
    done
}

test_steps() {
    local slow=(--include-ignored)
    $fast && slow=()
    if [[ -f crates/ratekeeper-redis/Cargo.toml ]]; then
        check redis-server scripts/need redis-server redis-server
    fi
    tests tests cargo test "${workspace[@]}" --tests --examples --no-fail-fast -- "${slow[@]}"
    tests "doc tests" cargo test "${workspace[@]}" --doc --no-fail-fast
}

full_steps() {
    check docs env RUSTDOCFLAGS="-D warnings" cargo doc "${workspace[@]}" --no-deps
    check features scripts/features
    if grep -q ratekeeper_loom crates/*/Cargo.toml; then
        tests loom scripts/loom
    fi
    check quickstart scripts/quickstart
    example_steps
    check proxy scripts/proxy
    check report scripts/report-check
    if [[ -x scripts/interop ]]; then
        check interop scripts/interop
    fi
    check dependencies scripts/deps
}

# Runs each example that knows `--check` (by `is_check`), in which it asserts something and ends by itself.
example_steps() {
    local source name
    check examples cargo build "${workspace[@]}" --examples
    ((status == 0)) || return
    for source in examples/*.rs; do
        name=$(basename "$source" .rs)
        if grep -q is_check "$source"; then
            check "example $name" timeout 60 "${CARGO_TARGET_DIR:-target}/debug/examples/$name" --check
        fi
    done
}
