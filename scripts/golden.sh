#!/usr/bin/env bash
# Runs every simulation among the scenarios with two builds of Warpline, and compares all bytes of the results.
#
# usage: scripts/golden.sh PROGRAM OTHER-PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."

one=${1:?"usage: scripts/golden.sh PROGRAM OTHER-PROGRAM"}
other=${2:?"usage: scripts/golden.sh PROGRAM OTHER-PROGRAM"}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

count=0
for scenario in scenarios/*.toml; do
	# Skips the real clock, where no two runs give the same bytes, and guests.
	if grep -qE '^mode = "(real|dilated)"|mode = "(real|dilated)"|\[\[host\]\]' "$scenario"; then
		continue
	fi
	name=$(basename "$scenario" .toml)
	# Those that take longer in simulated time end after 12 s.
	seconds=$(sed -n 's/^duration = "\([0-9]*\)s".*/\1/p' "$scenario")
	shorter=()
	((${seconds:-0} <= 12)) || shorter=(--set duration=12s --set warmup=1s)
	for build in one other; do
		"${!build}" run "$scenario" "${shorter[@]}" --out "$results/$build/$name" --quiet >/dev/null
	done
	diff -r "$results/one/$name" "$results/other/$name" || {
		echo "$name differs between $one and $other" >&2
		exit 1
	}
	count=$((count + 1))
done
((count >= 7)) || {
	echo "only $count examples were compared" >&2
	exit 1
}
echo "$count examples give the same bytes with $one and $other."
