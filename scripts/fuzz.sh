#!/usr/bin/env bash
# Builds the fuzz targets and runs each of them for a while: scripts/fuzz.sh SECONDS [TARGET ...]
#
# libFuzzer (the crate libfuzzer-sys) needs a C++ compiler. The coverage that guides it is a pass of LLVM that stable Rust can run, so
# neither a nightly toolchain nor cargo-fuzz is needed. `fuzz-rustc.sh` adds it to our own crates; dependencies are those of the tests. Each
# target begins with its committed corpus (fuzz/corpus). New inputs go to fuzz/found, and inputs that fail to fuzz/artifacts: repair the
# fault, and add the input to the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
	for program in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$program" .rs)"); done
fi

if ! command -v c++ >/dev/null; then
	echo "Fuzzing needs a C++ compiler: apt-get install --no-install-recommends g++" >&2
	[ "${CI:-}" != true ] || exit 1
	exit 0
fi

export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/fuzz-rustc.sh CARGO_INCREMENTAL=0
cargo build --locked --package warpline-fuzz --features link "${targets[@]/#/--bin=}"

for target in "${targets[@]}"; do
	printf '\n== %s, %s s\n' "$target" "$seconds"
	mkdir -p "fuzz/found/$target" "fuzz/artifacts/$target"
	log=$(mktemp)
	status=0
	seeds=("fuzz/corpus/$target")
	case $target in
	scenario | network) seeds+=(scenarios) ;;
	esac
	"${CARGO_TARGET_DIR:-target}/debug/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=4096 \
		-print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" "fuzz/found/$target" "${seeds[@]}" >"$log" 2>&1 || status=$?
	grep -E 'ERROR|panicked|assertion|artifact|Done|stat::(number_of|new_units|peak)' "$log" || true
	if [ "$status" -ne 0 ]; then
		tail -n 20 "$log" >&2
		echo "$target failed (exit code $status); the input, if one is to blame, is in fuzz/artifacts/$target" >&2
		exit 1
	fi
	rm -f "$log"
done
