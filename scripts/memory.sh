#!/usr/bin/env bash
# Runs tests of the crates with unsafe code under LLVM's address sanitiser, if they need no privileges: scripts/memory.sh [FILTER]
#
# The sanitiser's run-time library comes with every Rust. The option that enables it is for nightly only; RUSTC_BOOTSTRAP allows it.
# Builds go to target/memory, because every crate is built again.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
cargo test --locked --target "$host" --target-dir target/memory -p warpline-guest -p warpline-live --lib -- "$@"
