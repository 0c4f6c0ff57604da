#!/usr/bin/env bash
# Runs a command, and beside it another one with what the first leaves of the processors. The second prints nothing, its outcome does not count, and it
# ends with the first.
#
# Usage: beside.sh 'SECOND COMMAND' COMMAND [ARGUMENTS]
set -uo pipefail

# Without the scheduler's class for idle time, at the lowest priority.
idle=(nice -n 19)
if chrt --idle 0 true 2>/dev/null; then
    idle+=(chrt --idle 0)
fi
# In a group of its own, so that it ends with all that it has started.
set -m
"${idle[@]}" bash -c "$1" </dev/null >/dev/null 2>&1 &
second=$!
set +m
shift

end() {
    kill -TERM -- "-$second" 2>/dev/null
    wait "$second" 2>/dev/null
}
trap 'end; exit 129' HUP
trap 'end; exit 130' INT
trap 'end; exit 143' TERM
"$@"
code=$?
end
exit "$code"
