#!/usr/bin/env bash
# Runs $WARPLINE as the inputs of action.yml say, which are variables: INPUT_SCENARIO, INPUT_SEEDS and so on. Its exit code is Warpline's.
set -eu -o pipefail

# The inputs that are options of `warpline run`, and of `warpline shell`.
run=(seeds seed set clock out junit)
shell=(netem rate delay loss queue pcap)
# What action.yml gives without being asked: it says nothing of what the user wants.
given_anyway=(out)

fail() {
  echo "::error::$1" >&2
  exit 2
}

input() {
  local name=INPUT_${1^^}
  printf '%s' "${!name:-}"
}

# The options of these inputs, into `words`; an input of several lines is as many options.
options() {
  local name line
  for name in "$@"; do
    while IFS= read -r line; do
      if [ -n "$line" ]; then words+=("--$name=$line"); fi
    done <<< "$(input "$name")"
  done
}

# Refuses inputs that go with something else.
refuse() {
  local what=$1 name
  shift
  for name in "$@"; do
    if [[ " ${given_anyway[*]} " != *" $name "* && -n "$(input "$name")" ]]; then fail "the input $name goes with $what"; fi
  done
}

scenario=$(input scenario)
command=$(input command)
words=()
if [ -n "$scenario" ] && [ -n "$command" ]; then
  fail "give either the input scenario or the input command"
elif [ -n "$scenario" ]; then
  refuse command "${shell[@]}"
  options "${run[@]}"
  if [ -n "${GITHUB_OUTPUT:-}" ]; then echo "out=$(input out)" >> "$GITHUB_OUTPUT"; fi
  exec "$WARPLINE" run "${words[@]}" -- "$scenario"
elif [ -n "$command" ]; then
  refuse scenario "${run[@]}"
  options "${shell[@]}"
  exec "$WARPLINE" shell "${words[@]}" -- sh -c "$command"
else
  fail "give the input scenario, a file, or the input command, a command line"
fi
