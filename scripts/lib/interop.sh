# shellcheck shell=bash
# Installs the clients of scripts/interop, starts examples and runs the clients against them.

target=${CARGO_TARGET_DIR:-target}
tools=$target/interop
failed=0

# Installs the pinned clients under the target folder, where they are not yet.
install_clients() {
    local wanted
    wanted=$(cat tests/interop/{package-lock.json,requirements.txt} | sha256sum)
    if [[ $(cat "$tools/installed" 2>/dev/null) != "$wanted" ]]; then
        if [[ ${CI:-} != true && -z ${RATEKEEPER_INSTALL:-} ]]; then
            echo "the clients are missing; install them with: RATEKEEPER_INSTALL=1 scripts/interop"
            return 77
        fi
        rm -rf "$tools" && mkdir -p "$tools" && cp tests/interop/package*.json "$tools" || return 1
        npm ci --prefix "$tools" --ignore-scripts --no-audit --no-fund || return 1
        python3 -m venv "$tools/venv" || return 1
        "$tools/venv/bin/pip" install -q --no-deps -r tests/interop/requirements.txt || return 1
        echo "$wanted" >"$tools/installed"
    fi
    cp tests/interop/*.mjs "$tools" # where they find their modules
}

scratch=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait; rm -rf "$scratch"' EXIT

# serve EXAMPLE QUOTA: starts an example on a free port and sets `url`.
serve() {
    ADDR=127.0.0.1:0 QUOTA=$2 "$target/debug/examples/$1" >"$scratch/$1" &
    servers+=($!)
    for _ in {1..100}; do
        url=$(grep -os 'http://.*' "$scratch/$1") && return
        sleep 0.1
    done
    echo "$1 does not listen"
    exit 1
}

# client COMMAND...: runs a client, for a minute and a half at most.
client() {
    timeout --kill-after=5 90 "$@" && return
    echo "failed: $*"
    failed=1
}
