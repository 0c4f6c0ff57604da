#!/usr/bin/env python3
"""Prints the verdicts of `warpline evaluate` on every built-in congestion control, as the table in docs/src/evaluate.md.

    scripts/verdicts.py target/release/warpline [--quick]

A question of RFC 9743 for each row, a congestion control for each column: a dot where all is within bounds, ? where the seeds do not tell, and x
where a figure is beyond its bound."""

import json
import subprocess
import sys

MARKS = {"met": "·", "open": "?", "missed": "x"}
ORDER = list(MARKS)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, options = sys.argv[1], sys.argv[2:]
    schema = json.loads(subprocess.run([program, "schema"], check=True, capture_output=True).stdout)
    kinds = [variant["properties"]["kind"]["const"] for variant in schema["$defs"]["CcKind"]["oneOf"]]
    names = [kind for kind in kinds if kind not in ("fixed", "custom")]
    kept, columns = [], []
    for name in names:
        run = subprocess.run([program, "evaluate", name, "--json", *options], capture_output=True)
        if run.returncode == 2:
            continue  # It is not for TCP.
        run.check_returncode()
        kept.append(name)
        columns.append(json.loads(run.stdout)["criteria"])
    print("| | " + " | ".join(kept) + " |")
    print("|---|" + ":-:|" * len(kept))
    for row in zip(*columns):
        worst = [max((figure["verdict"] for figure in answer["figures"]), key=ORDER.index) for answer in row]
        print(f"| {row[0]['section']} {row[0]['name']} | " + " | ".join(MARKS[verdict] for verdict in worst) + " |")


if __name__ == "__main__":
    main()
