#!/usr/bin/env bash
# Runs the tests of networks in parts under LLVM's thread sanitiser, which finds accesses from two threads without order: scripts/threads.sh [FILTER]
#
# The standard library has to be built with the sanitiser, too, which needs nightly Rust and the library's source. Without them, this script
# says what is missing; with CI=true that is a failure. Builds go to target/threads.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! [[ -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]]; then
	printf 'The thread sanitiser cannot run here. Missing is\n' >&2
	printf '  nightly Rust with the source of its library: rustup toolchain install nightly && rustup +nightly component add rust-src\n' >&2
	[[ ${CI:-} != true ]] || exit 1
	exit 0
fi

host=$(rustc +nightly -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=thread" PROPTEST_CASES=${PROPTEST_CASES:-40} INSTA_WORKSPACE_ROOT=$PWD
cargo +nightly test --locked -Zbuild-std --target "$host" --target-dir target/threads -p warpline-net --lib --test engine -- "$@"
