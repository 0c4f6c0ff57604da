#!/usr/bin/env bash
# Runs the tests of the crates with unsafe code that need no privilege under the address sanitiser of LLVM: scripts/memory.sh [FILTER]
#
# The sanitiser's run-time library comes with every Rust; the option that switches it on is meant for nightly, and RUSTC_BOOTSTRAP allows it.
# What is built goes to target/memory, since every crate is built anew.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
cargo test --locked --target "$host" --target-dir target/memory -p warpline-guest -p warpline-live --lib -- "$@"
