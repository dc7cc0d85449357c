# shellcheck shell=bash disable=SC2154
# Runs steps and counts their outcome. Sourced by scripts/test.

passed=0
failed=0
failures=()
skips=()

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A test that cannot run here (no server, say) appends a line "name: reason" to this file and returns.
export RATEKEEPER_SKIPS=$scratch/skips

# In CI nobody is there to interrupt a step that hangs.
patience=()
if [[ ${CI:-} == true ]]; then
    patience=(timeout --kill-after=10 1500)
fi

# run NAME COMMAND...: prints a heading and runs the command; leaves its output in $scratch/log, its exit code in `status`.
run() {
    local name=$1 start=$SECONDS
    shift
    : >"$RATEKEEPER_SKIPS"
    printf '\n== %s\n' "$name"
    "${patience[@]}" "$@" </dev/null 2>&1 | tee "$scratch/log"
    status=${PIPESTATUS[0]}
    printf -- '-- %s: exit code %d after %d s\n' "$name" "$status" $((SECONDS - start))
}

# check NAME COMMAND...: a step that counts as one. Exit code 77 means that it could not run here.
check() {
    run "$@"
    case $status in
        0) passed=$((passed + 1)) ;;
        77) skip "$1" ;;
        *) fail "$1" ;;
    esac
    collect_skips
}

# tests NAME COMMAND...: a step that runs cargo test and counts as many as it ran.
tests() {
    local ok bad
    run "$@"
    # A target that failed without a closing line has crashed, and counts as one.
    read -r ok bad < <(awk '
        /^test result: / { ok += $4; bad += $6; if ($3 == "FAILED.") closed++ }
        /^error: (test|doctest) failed, to rerun/ { targets++ }
        END { print ok + 0, bad + (targets > closed ? targets - closed : 0) }' "$scratch/log")
    if ((status != 0 && bad == 0)); then
        bad=1 # it did not compile, or ran out of time
    elif ((status == 0 && ok == 0)); then
        echo "-- $1: ran no test"
        bad=1
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    ((bad == 0)) || failures+=("$1")
    # Those that skipped themselves are "ok" to cargo.
    collect_skips
    passed=$((passed - collected))
    collect_ignored
}

fail() {
    failed=$((failed + 1))
    failures+=("$1")
}

# Names stand in a list parted by commas.
skip() {
    skips+=("${1//,/;}")
}

collect_skips() {
    local name reason
    collected=0
    while IFS= read -r reason; do
        name=${reason%%: *}
        echo "SKIPPED: $reason"
        skip "$name"
        collected=$((collected + 1))
    done < <(sort -u "$RATEKEEPER_SKIPS")
}

# The fast tier leaves out the tests marked `#[ignore = "slow: ..."]`; elsewhere an ignored test is a skipped one.
collect_ignored() {
    local name
    while IFS= read -r name; do
        $fast || skip "$name"
    done < <(sed -nE 's/^test (.*) \.\.\. ignored.*/\1/p' "$scratch/log")
}

# join LIST...: the list parted by commas, or "none".
join() {
    local IFS=,
    local list="${*:-none}"
    echo "${list//,/, }"
}

# Prints the counts and returns whether the run is a success.
summary() {
    printf '\nFAILED %d: %s\n' "${#failures[@]}" "$(join "${failures[@]}")"
    if [[ ${CI:-} == true ]] && ((${#skips[@]})); then
        echo "With CI=true a skip is a failure."
    fi
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "${#skips[@]}"
    printf 'SKIPPED %d: %s\n' "${#skips[@]}" "$(join "${skips[@]}")"
    ((failed == 0)) && { ((${#skips[@]} == 0)) || [[ ${CI:-} != true ]]; }
}
