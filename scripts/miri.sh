#!/usr/bin/env bash
# Runs the tests of core, net, transport and capacity under Miri, which finds undefined behaviour and differences between runs: scripts/miri.sh [FILTER]
#
# Miri is part of nightly Rust only. Without it, this script says what is missing; with CI=true that is a failure. Property tests get few
# cases, because Miri makes programs thousands of times slower; tests of long simulations and statistics are ignored there.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
if ! command -v rustup >/dev/null || ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
	missing+=("a nightly toolchain: rustup toolchain install nightly")
fi
if ! cargo +nightly miri --version >/dev/null 2>&1; then
	missing+=("Miri: rustup +nightly component add miri")
fi
if ! [[ -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]]; then
	missing+=("the standard library's source: rustup +nightly component add rust-src")
fi
if ((${#missing[@]} > 0)); then
	printf 'Miri cannot run here. Missing is\n' >&2
	printf '  %s\n' "${missing[@]}" >&2
	[[ ${CI:-} != true ]] || exit 1
	exit 0
fi

# The tests read snapshots and traces from files, so isolation is off. No test reads the machine's clock.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation" PROPTEST_CASES=4 INSTA_WORKSPACE_ROOT=$PWD
cargo +nightly miri test --locked --target-dir target/miri -p warpline-core -p warpline-net -p warpline-transport -p warpline-capacity --lib -- "$@"
