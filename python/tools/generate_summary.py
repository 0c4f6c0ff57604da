"""Writes python/warpline/_summary.py, the summary of a run as typed mappings, from docs/results.json.

Run it after a change of the columns of results: `python python/tools/generate_summary.py`. A test compares the file with what the
compiled module says and fails when it is stale.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "docs" / "results.json"
TARGET = ROOT / "python" / "warpline" / "_summary.py"

TYPES = {"text": "str", "integer": "int", "number": "float", "boolean": "bool"}
# The mappings, each with the table whose rows it describes.
CLASSES = {"Totals": "totals", "GroupSummary": "groups", "SizeSummary": "sizes", "FlowRow": "flows", "LinkRow": "links", "InputFile": "inputs", "FastForwardSummary": "fast_forward", "Stretch": "stretches", "AuditedMeasure": "audits"}

HEAD = '''"""The summary of a run as typed mappings: what summary.json holds.

Generated from the declarations of the columns by python/tools/generate_summary.py; change those, not this file.
"""

from __future__ import annotations

from typing import Any, TypedDict
'''
TAIL = '''    totals: Totals
    groups: list[GroupSummary]
    flows: list[FlowRow]
    links: list[LinkRow]


class Summary(_Always, total=False):
    """What ran, and its metrics in total, per group, per flow and per link direction.

    `sizes` is there where there are transfers, `inputs` where the scenario reads files, `fast_forward`, `stretches` and
    `audits` where it skips time, `live` and `guests` in live runs and those with guests.
    """

    sizes: list[SizeSummary]
    inputs: list[InputFile]
    fast_forward: FastForwardSummary
    stretches: list[Stretch]
    audits: list[AuditedMeasure]
    live: dict[str, Any]
    guests: dict[str, Any]
'''


def comment(about: str) -> str:
    return textwrap.fill(about, 120, initial_indent="        # ", subsequent_indent="        # ")


def type_of(column: dict[str, Any]) -> str:
    return TYPES[column["type"]] + (" | None" if column["optional"] else "")


def generate(tables: list[dict[str, Any]]) -> str:
    """The text of _summary.py."""
    known = {table["name"]: table for table in tables}
    parts = [HEAD]
    for name, table in CLASSES.items():
        # "from" is a column, and a keyword of Python: no class can have it.
        parts.append(f'\n{name} = TypedDict(\n    "{name}",\n    {{\n')
        for column in known[table]["columns"]:
            parts.append(f'{comment(column["about"])}\n        "{column["name"]}": {type_of(column)},\n')
        parts.append(f'    }},\n)\n"""{textwrap.fill(known[table]["about"].replace("`", ""), 116)}"""\n')
    parts.append("\n\nclass _Always(TypedDict):\n    warpline: str\n    format: int\n")
    parts += [f"    {column['name']}: {type_of(column)}\n" for column in known["run"]["columns"]]
    parts.append(TAIL)
    return "".join(parts)


def main() -> None:
    """Writes the file."""
    TARGET.write_text(generate(json.loads(SOURCE.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
