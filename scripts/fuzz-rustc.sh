#!/usr/bin/env bash
# rustc with the coverage that guides libFuzzer, for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER in fuzz.sh). Programs that run
# without libFuzzer are compiled without coverage: build scripts, macros, and the agent that is embedded into guests.
set -euo pipefail

case " $* " in
*" --crate-name build_script_"* | *" --crate-type proc-macro "* | *" --crate-name warpline_agent "* | *" --crate-name ___ "*) exec "$@" ;;
esac
exec "$@" -Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares
