"""OpenMetrics text of a finished run: totals of flows and links, and their time series.

Prometheus takes it with the times of the run (`promtool tsdb create-blocks-from openmetrics`). The metrics are the columns of
`flows`, `links`, `series_flows` and `series_links`, with their units in base units: `warpline_flow_goodput_bits_per_second`.

https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from warpline.convert._source import Writer
from warpline.convert.flent import START

if TYPE_CHECKING:
    from warpline._columns import Column
    from warpline._run import Run

UNITS = {
    "bit/s": ("bits_per_second", 1.0),
    "B": ("bytes", 1.0),
    "packets": ("packets", 1.0),
    "s": ("seconds", 1.0),
    "ms": ("seconds", 1e-3),
    "ns": ("seconds", 1e-9),
    "1": ("ratio", 1.0),
}
"""Units of columns: OpenMetrics has base units, and names end in them."""
SUFFIX = re.compile(r"_(bps|bytes|packets|s|ms|ns)$")
"""How names of columns say their unit."""

TABLES = (("flows", "flow", ""), ("links", "link", ""), ("series_flows", "flow", "sample_"), ("series_links", "link", "sample_"))
"""Tables, what their rows are about, and what sets the names of time series apart from those of totals."""


def content(run: Run) -> bytes:
    """The metrics of a run, as text: the same bytes for the same results."""
    lines = list(_info(run))
    for table, about, apart in TABLES:
        lines += _table(run, table, about, apart)
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def _info(run: Run) -> Iterator[str]:
    summary = run.summary
    yield "# TYPE warpline_run info"
    yield "# HELP warpline_run What ran."
    labels = {"scenario": summary["scenario"], "seed": summary["seed"], "complete": str(summary["complete"]).lower()}
    yield f"warpline_run_info{_labels(labels)} 1 {_time(summary['simulated_s'])}"


def _table(run: Run, table: str, about: str, apart: str) -> Iterator[str]:
    from warpline._columns import columns

    rows = getattr(run, table)
    if not len(rows):
        return
    named = getattr(run, f"{about}s")
    numbers = named[about]
    texts = ("name", "group", "from", "to", "cc") if about == "flow" else ("name", "from", "to")
    common = {"scenario": run.summary["scenario"], "seed": run.summary["seed"]}
    labels = {
        number: _labels({**common, **{("flow" if about == "flow" else "link") if text == "name" else text: named[text][at] for text in texts if named[text][at] is not None}})
        for at, number in enumerate(numbers)
    }
    # A metric's samples of one set of labels stand together, in the order of time.
    order = sorted(range(len(rows)), key=lambda row: (rows[about][row], rows["time_s"][row] if apart else 0))
    end = _time(run.summary["simulated_s"])
    times = [_time(value) for value in rows["time_s"]] if apart else [end] * len(rows)
    of_rows = rows[about]
    for column in columns(table).values():
        if column.type not in ("integer", "number") or column.key or column.name == about:
            continue
        values = rows[column.name]
        samples = [row for row in order if values[row] is not None and of_rows[row] in labels]
        if not samples:
            continue
        name, factor = _name(column, about, apart)
        yield f"# TYPE {name} gauge"
        if (unit := _unit(column)) is not None:
            yield f"# UNIT {name} {unit[0]}"
        yield f"# HELP {name} {_escaped(column.about)}"
        for row in samples:
            yield f"{name}{labels[of_rows[row]]} {_number(values[row], factor)} {times[row]}"


def _unit(column: Column) -> tuple[str, float] | None:
    return UNITS.get(column.unit)


def _name(column: Column, about: str, apart: str) -> tuple[str, float]:
    unit = _unit(column)
    plain = column.name if unit is None else SUFFIX.sub("", column.name)
    return f"warpline_{about}_{apart}{plain}" + ("" if unit is None else f"_{unit[0]}"), 1.0 if unit is None else unit[1]


def _number(value: float, factor: float) -> str:
    # Division is exact where a factor such as 0.001 is not.
    scaled = value if factor == 1.0 else value / round(1 / factor)
    return repr(scaled)


def _time(seconds: float) -> str:
    return f"{START.timestamp() + seconds:.9f}".rstrip("0").rstrip(".")


def _labels(labels: dict[str, Any]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


WRITER = Writer("openmetrics", "OpenMetrics text: totals and time series, which Prometheus can take in", ".om", content)
