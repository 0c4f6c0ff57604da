#!/usr/bin/env bash
# cargo-deny: checks licences, bans and sources, which needs no network, and advisories if their database can be reached.
# Installs a pinned cargo-deny into target/tools if it is missing (some minutes, once).
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools=$PWD/target/tools
deny=$tools/bin/cargo-deny

leave_out() {
    if [[ ${CI:-} == true ]]; then
        echo "error: $1" >&2
        exit 1
    fi
    echo "notice: $1; licences and sources are not checked" >&2
    exit 0
}

if [[ $("$deny" --version 2>/dev/null) != "cargo-deny $version" ]]; then
    echo "Installing cargo-deny $version into target/tools"
    # Without optimisation, which would take longer than it saves.
    cargo install cargo-deny --version "$version" --locked --quiet --debug --root "$tools" ||
        leave_out "cargo-deny $version could not be installed"
fi
cargo fetch --locked --quiet
"$deny" --offline --log-level warn check licenses bans sources

if GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --quiet https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1; then
    "$deny" --log-level warn check advisories
else
    echo "notice: the advisory database cannot be reached; known vulnerabilities are not checked"
fi
