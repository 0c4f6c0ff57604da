"""OpenMetrics text of a finished run: totals of flows and links, and their time series.

Prometheus takes it with the times of the run (`promtool tsdb create-blocks-from openmetrics`). The metrics are the columns of
`flows`, `links`, `series_flows` and `series_links`, with their units in base units: `warpline_flow_goodput_bits_per_second`. Their names are those of
`warpline run --metrics`.

https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from warpline._warpline import openmetrics_names
from warpline.convert._source import Writer
from warpline.convert.flent import START

if TYPE_CHECKING:
    from warpline._run import Run

TABLES = (("flows", "flow"), ("links", "link"), ("series_flows", "flow"), ("series_links", "link"))
"""Tables, and what their rows are about."""


def content(run: Run) -> bytes:
    """The metrics of a run, as text: the same bytes for the same results."""
    lines = list(_info(run))
    for table, about in TABLES:
        lines += _table(run, table, about)
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def _info(run: Run) -> Iterator[str]:
    summary = run.summary
    yield "# TYPE warpline_run info"
    yield "# HELP warpline_run What ran."
    labels = {"scenario": summary["scenario"], "seed": summary["seed"], "complete": str(summary["complete"]).lower()}
    yield f"warpline_run_info{_labels(labels)} 1 {_time(summary['simulated_s'])}"


def _table(run: Run, table: str, about: str) -> Iterator[str]:
    rows = getattr(run, table)
    series = table.startswith("series_")
    if not len(rows):
        return
    named = getattr(run, f"{about}s")
    texts = ("name", "group", "from", "to", "cc") if about == "flow" else ("name", "from", "to")
    common = {"scenario": run.summary["scenario"], "seed": run.summary["seed"]}
    # A table makes a new list each time that it is asked for a column, so each column is taken once.
    words = {(about if text == "name" else text): named[text] for text in texts}
    labels = {
        number: _labels({**common, **{label: values[at] for label, values in words.items() if values[at] is not None}})
        for at, number in enumerate(named[about])
    }
    of_rows = rows[about]
    seconds = rows["time_s"] if series else [run.summary["simulated_s"]] * len(of_rows)
    times = [_time(value) for value in seconds]
    # A metric's samples of one set of labels stand together, in the order of time.
    order = sorted(range(len(of_rows)), key=lambda row: (of_rows[row], seconds[row]))
    for column, name, unit, divisor, meaning in openmetrics_names(table):
        values = rows[column]
        samples = [row for row in order if values[row] is not None and of_rows[row] in labels]
        if not samples:
            continue
        yield f"# TYPE {name} gauge"
        if unit is not None:
            yield f"# UNIT {name} {unit}"
        yield f"# HELP {name} {_escaped(meaning)}"
        for row in samples:
            yield f"{name}{labels[of_rows[row]]} {_number(values[row], divisor)} {times[row]}"


def _number(value: float, divisor: float) -> str:
    return repr(value if divisor == 1.0 else value / divisor)


def _time(seconds: float) -> str:
    return f"{START.timestamp() + seconds:.9f}".rstrip("0").rstrip(".")


def _labels(labels: dict[str, Any]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


WRITER = Writer("openmetrics", "OpenMetrics text: totals and time series, which Prometheus can take in", ".om", content)
