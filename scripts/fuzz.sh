#!/usr/bin/env bash
# Builds the fuzz targets and runs each of them for a while: scripts/fuzz.sh SECONDS [TARGET ...]
#
# libFuzzer (the crate libfuzzer-sys) needs a C++ compiler. The coverage it steers by is a pass of LLVM that stable Rust can
# be told to run, so that no nightly toolchain and no cargo-fuzz is needed. Address sanitiser is left out: there is no unsafe
# code of ours to find anything in. What a target learns stays in fuzz/corpus, what it fails on in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-30}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(tcp btc probe mahimahi datagram wire model_host access_log scenario oracle replicate)

if ! command -v c++ >/dev/null; then
	echo "Fuzzing needs a C++ compiler: apt-get install --no-install-recommends g++" >&2
	[ "${CI:-}" != true ] || exit 1
	exit 0
fi

# Only the targets that need Arrow and Parquet wait for them.
features=()
for target in "${targets[@]}"; do
	case $target in
	access_log | scenario | oracle) features+=(--features lab) ;;
	replicate) features+=(--features apps) ;;
	esac
done

export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
# With a target named, build scripts are built without these flags: they have no libFuzzer to link with.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --locked --target "$host" "${features[@]}" "${targets[@]/#/--bin=}"

for target in "${targets[@]}"; do
	printf '\n== %s, %s s\n' "$target" "$seconds"
	mkdir -p "corpus/$target" "artifacts/$target"
	seeds=()
	case $target in
	scenario) seeds=(../scenarios) ;;
	esac
	log=$(mktemp)
	status=0
	"target/$host/release/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=4096 \
		-print_final_stats=1 -artifact_prefix="artifacts/$target/" "corpus/$target" "${seeds[@]}" >"$log" 2>&1 || status=$?
	grep -E 'ERROR|panicked|assertion|artifact|Done|stat::(number_of|new_units|peak)' "$log" || true
	if [ "$status" -ne 0 ]; then
		tail -n 20 "$log" >&2
		echo "$target failed (exit code $status); the input, if one is to blame, is in fuzz/artifacts/$target" >&2
		exit 1
	fi
	rm -f "$log"
done
