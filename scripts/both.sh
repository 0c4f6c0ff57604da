#!/usr/bin/env bash
# Runs two commands at the same time. What the second one prints follows when both have ended. The exit code is the first
# command's, or, if that is 0, the second's.
#
# Usage: both.sh 'COMMAND' 'COMMAND'
set -uo pipefail

printed=$(mktemp)
# Each in a group of its own, so that it ends with all that it has started.
set -m
bash -c "$2" </dev/null >"$printed" 2>&1 &
second=$!
bash -c "$1" </dev/null &
first=$!
set +m

end() {
    kill -TERM -- "-$first" "-$second" 2>/dev/null
    wait
    cat "$printed"
    rm -f "$printed"
    exit "$1"
}
trap 'end 129' HUP
trap 'end 130' INT
trap 'end 143' TERM
wait "$first"
code=$?
wait "$second"
other=$?
cat "$printed"
rm -f "$printed"
exit "$((code ? code : other))"
