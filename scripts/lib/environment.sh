# shellcheck shell=bash disable=SC2154
# The environment that every step shares. Sourced by scripts/test, which sets `fast`.

export CARGO_TERM_COLOR=never # the counts are read from cargo's output
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-5}
if [[ ${CI:-} == true ]]; then
    export CARGO_INCREMENTAL=0 # a machine that builds once gains nothing from it
fi
if $fast; then
    export PROPTEST_CASES=${PROPTEST_CASES:-32}
fi
