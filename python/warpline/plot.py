"""Plots of a run with matplotlib. Each function takes a run and, if you like, the axes to draw on; it returns the axes.

    axes = warpline.plot.cwnd(run, flows="bulk")
    axes.figure.savefig("cwnd.svg")

Flows and links are chosen by name ("bulk.0", "r1>r2"), by group ("bulk"), or by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from warpline._columns import Column, columns
from warpline._frames import require
from warpline._intervals import half_width
from warpline._run import Run

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from warpline._runs import RunSet
    from warpline._warpline import Table

    Values: TypeAlias = NDArray[np.float64]

Selection: TypeAlias = "str | int | Sequence[str | int] | None"
"""Which flows or links: a name, a group, a number, or several; None for all that have something to show."""

# Units that are scaled, each with its steps: factor and unit, largest first.
_STEPS = {
    "bit/s": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}
_LEGEND_LINES = 12

_SCALES: WeakKeyDictionary[Axes, dict[str, tuple[float, str]]] = WeakKeyDictionary()
"""By axes and unit: the unit in which values were drawn first. What is drawn on the same axes later has it, too."""


def throughput(run: Run, ax: Axes | None = None, *, flows: Selection = None, goodput: bool = False) -> Axes:
    """Throughput of each flow over time, in wire bits per second; with `goodput`, unique application bits."""
    column = columns("series_flows")["goodput_bps" if goodput else "throughput_bps"]
    sampled = _sampled(run)
    lines = {name: _with_idle(sampled, *line) for name, line in _flow_lines(run, column.name, flows).items()}
    return _draw(ax, lines, column, run)


def cwnd(run: Run, ax: Axes | None = None, *, flows: Selection = None, ssthresh: bool = False) -> Axes:
    """Congestion window of each TCP flow over time; with `ssthresh`, its slow-start threshold too, dashed."""
    lines = _flow_lines(run, "cwnd_bytes", flows)
    thresholds = _flow_lines(run, "ssthresh_bytes", flows, missing_is_error=False) if ssthresh else {}
    return _draw(ax, lines, columns("series_flows")["cwnd_bytes"], run, dashed=thresholds, dashed_label="ssthresh")


def rtt(run: Run, ax: Axes | None = None, *, flows: Selection = None) -> Axes:
    """Smoothed round-trip time of each TCP flow over time."""
    return _draw(ax, _flow_lines(run, "srtt_ms", flows), columns("series_flows")["srtt_ms"], run)


def queue(run: Run, ax: Axes | None = None, *, links: Selection = None, unit: str = "packets") -> Axes:
    """Queue of each link over time, in "packets", "bytes" or "delay". By default only of links at which packets ever waited."""
    names = {"packets": "backlog_packets", "bytes": "backlog_bytes", "delay": "queue_delay_ms"}
    if unit not in names:
        raise ValueError(f"unit={unit!r}: a queue is drawn in packets, bytes or delay")
    chosen = _select("link", run.summary["links"], links)
    lines = _lines(run.series_links, "link", chosen, names[unit])
    if links is None:
        lines = {name: line for name, line in lines.items() if line[1].size and line[1].max() > 0} or lines
    return _draw(ax, lines, columns("series_links")[names[unit]], run)


def _quantities() -> dict[str, tuple[str, Column]]:
    """What can be drawn across seeds, by its word: "flow" or "link", and the column."""
    return {
        column.quantity: (kind, column)
        for kind, table in (("flow", "series_flows"), ("link", "series_links"))
        for column in columns(table).values()
        if column.quantity is not None
    }


def bands(
    runs: RunSet | Run | Mapping[str, RunSet | Run], quantity: str = "throughput", ax: Axes | None = None, *, of: str | None = None
) -> Axes:
    """A quantity over time across seeds: the mean as a line, the 95 % confidence interval of the mean as a band.

    To draw several sets together, name them for the legend: `bands({"cubic": cubic, "vegas": vegas}, "cwnd")`.
    A single run gives a line without a band. Of several, those that are not complete are left out. `warpline compare --plot` draws the same
    without Python.

    Args:
        runs: A result of `Scenario.run(seeds=...)` or `RunSet.open`; or several, by name.
        quantity: "goodput", "throughput", "cwnd", "rtt" (sum or mean of the flows), "queue", "delay", "load" (of a link), or another
            `quantity` of a column of the series (`warpline.columns("series_flows")`).
        ax: Axes to draw on.
        of: A group or a flow, all flows by default. For a quantity of links, the link, which must be named.
    """
    known = _quantities()
    if quantity not in known:
        raise ValueError(f"quantity={quantity!r}: it is one of {', '.join(known)}")
    kind, column = known[quantity]
    np = require("numpy", "plot", "warpline.plot")
    sets = runs if isinstance(runs, Mapping) else {"": runs}
    drawn = {}
    skipped = {}
    for name, group in sets.items():
        samples: dict[int, list[float]] = {}
        members = [group] if isinstance(group, Run) else list(group)
        whole = members if len(members) == 1 else [run for run in members if run.complete]
        if members and not whole:
            raise ValueError(f"none of the {len(members)} runs{f' of {name}' if name else ''} is complete, and bands are of complete runs; draw one of them alone")
        sampled = []
        for run in whole:
            found = _aggregate(run, kind, column, of)
            if found:
                sampled.append(run)
            for instant, value in found.items():
                samples.setdefault(instant, []).append(value)
        skipped[name] = _skipped(sampled)
        instants = sorted(samples)
        means = np.array([np.mean(samples[instant]) for instant in instants])
        halves = np.array([half_width(samples[instant]) for instant in instants])
        drawn[name] = (np.array(instants) / 1e6, means, halves)
    ax = _axes(ax)
    factor, unit = _scale(ax, [float(means.max()) for _, means, _ in drawn.values() if means.size], column.unit)
    for name, values in drawn.items():
        seconds, means, halves = _cut(skipped[name], *values)
        (line,) = ax.plot(seconds, means / factor, linewidth=1.2, label=name)
        if np.isfinite(halves).any():
            low = np.maximum(means - halves, 0)
            ax.fill_between(seconds, low / factor, (means + halves) / factor, color=line.get_color(), alpha=0.22, linewidth=0)
    ax.set_xlabel("Time (s)")
    ax.set_ylabel(f"{column.heading}{'' if of is None else f' of {of}'} ({unit})")
    ax.set_ylim(bottom=0)
    if isinstance(runs, Mapping):
        ax.legend(fontsize="small")
    return ax


def _skipped(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """The stretches of time that all of these runs skipped, in order: start and end, in seconds. Of these there are no samples."""
    every: list[tuple[float, float]] | None = None
    for run in runs:
        # Those that were audited were run, so they have samples.
        own = [(stretch["from_s"], stretch["until_s"]) for stretch in run.summary.get("stretches", []) if not stretch["audited"]]
        if every is None:
            every = own
        else:
            both = [(max(one[0], other[0]), min(one[1], other[1])) for one in every for other in own]
            every = [(start, end) for start, end in both if start < end]
    return every or []


def _cut(skipped: Sequence[tuple[float, float]], seconds: Values, *columns: Values) -> list[Values]:
    """Times and values with a place that has no value in each stretch that was skipped between two samples, so that nothing is drawn across it."""
    np = require("numpy", "plot", "warpline.plot")
    middles = np.array([(start + end) / 2 for start, end in skipped], dtype=float)
    places = np.searchsorted(seconds, middles)
    inside = (places > 0) & (places < len(seconds))
    middles, places = middles[inside], places[inside]
    return [np.insert(seconds, places, middles), *(np.insert(values, places, np.nan) for values in columns)]


def _aggregate(run: Run, kind: str, column: Column, of: str | None) -> dict[int, float]:
    """A run's values, by time in microseconds: the sum or the mean over the chosen flows, or those of a link."""
    if kind == "link":
        if of is None:
            raise ValueError("name the link with of=, such as of='r1>r2'")
        lines = _lines(run.series_links, "link", _select("link", run.summary["links"], of), column.name)
    else:
        lines = _lines(run.series_flows, "flow", _select("flow", run.summary["flows"], of), column.name)
    found: dict[int, list[float]] = {}
    for seconds, values in lines.values():
        for second, value in zip(seconds, values, strict=True):
            found.setdefault(round(second * 1e6), []).append(float(value))
    if kind == "flow" and column.fold == "sum" and lines:
        # Flows of programs have no row while they are idle: their sum is zero wherever the run was sampled.
        for second in set(run.series_links["time_s"]):
            found.setdefault(round(second * 1e6), [0.0])
    return {at: sum(values) / (1 if column.fold == "sum" else len(values)) for at, values in found.items()}


def _sampled(run: Run) -> Values:
    """The instants at which a run was sampled, if it has programs: their flows have no row while they are idle. None of other runs, whose flows have a row at each."""
    np = require("numpy", "plot", "warpline.plot")
    has_programs = any(run.summary.get(kind) is not None for kind in ("live", "guests"))
    instants: Values = np.unique(np.array(run.series_links["time_s"] if has_programs else [], dtype=float))
    return instants


def _with_idle(sampled: Values, seconds: Values, rates: Values) -> tuple[Values, Values]:
    """Rates of a flow with zeros at those of the instants that are more than half of the usual sampling interval (the median) from each of its rows. Clocks of several hosts are not the same to the last digit."""
    if not sampled.size:
        return seconds, rates
    np = require("numpy", "plot", "warpline.plot")
    steps = np.sort(np.diff(sampled))
    interval = steps[steps.size // 2] if steps.size else np.inf
    places = np.searchsorted(seconds, sampled)
    around = np.concatenate(([-np.inf], seconds, [np.inf]))
    nearest = np.minimum(sampled - around[places], around[places + 1] - sampled)
    idle = nearest > interval / 2
    return np.insert(seconds, places[idle], sampled[idle]), np.insert(rates, places[idle], 0.0)


def time_sequence(run: Run, flow: str | int = 0, ax: Axes | None = None) -> Axes:
    """Time-sequence graph of a flow's data direction: segments sent, retransmitted, acknowledged, selectively acknowledged.

    The flow must be recorded: record = ["tcp"] in the scenario. If it has several connections, all are drawn.
    """
    chosen = _select("flow", run.summary["flows"], flow)
    number, name = next(iter(chosen.items()))
    np = require("numpy", "plot", "warpline.plot")
    table = run.tcp
    mine = np.array(table["flow"]) == number
    if not mine.any():
        raise ValueError(f'flow {name} has no TCP events: give it record = ["tcp"] in the scenario and run it again')
    events, sides = np.array(table["event"]), np.array(table["side"])
    seconds = np.array(table["time_ns"], dtype=float) / 1e9
    seq, end, ack = (np.array(table[column], dtype=float) for column in ("seq", "end", "ack"))
    # The side that sent more data is the sender.
    data = mine & np.isin(events, ["sent", "retransmit", "probe"]) & (end > seq)
    sender = 1 if data[sides == 1].sum() > data[sides == 0].sum() else 0
    mine &= sides == sender
    longest = float(np.nanmax(np.where(mine, end, np.nan))) if mine.any() else 0.0
    ax = _axes(ax)
    factor, unit = _scale(ax, [longest], "B")
    for event, colour, label in (
        ("sent", "0.25", "sent"),
        ("probe", "tab:orange", "probe"),
        ("retransmit", "tab:red", "retransmitted"),
        ("sacked", "tab:green", "selectively acknowledged"),
    ):
        rows = mine & (events == event) & (end > seq)
        if rows.any():
            ax.vlines(seconds[rows], seq[rows] / factor, end[rows] / factor, color=colour, linewidth=1.5, label=label)
    rows = mine & (events == "acked") & ~np.isnan(ack)
    if rows.any():
        ax.step(seconds[rows], ack[rows] / factor, where="post", color="tab:blue", linewidth=0.8, label="acknowledged")
    ax.set_xlabel("Time (s)")
    ax.set_ylabel(f"Sequence number ({unit})")
    ax.set_title(f"{run.summary['scenario']}: {name}")
    ax.legend(fontsize="small")
    return ax


def cdf(run: Run, column: str = "completion_s", ax: Axes | None = None, *, table: str | None = None) -> Axes:
    """Cumulative distribution of a column: completion times by default, or "goodput_bps", "latency_mean_ms", "srtt_ms".

    Unless you name the table, it is the first with that column: of transfers, flows, series_flows, series_links, links, tcp and
    packets, in this order.
    """
    names = ("transfers", "flows", "series_flows", "series_links", "links", "tcp", "packets")
    if table is not None and table not in names:
        raise ValueError(f"table={table!r}: the tables are {', '.join(names)}")
    found = next((name for name in names if table in (None, name) and column in columns(name)), None)
    if found is None:
        raise KeyError(f"no column {column!r} in {table or 'any table'}")
    source: Table = getattr(run, found)
    np = require("numpy", "plot", "warpline.plot")
    values = np.array([value for value in source[column] if value is not None])
    if values.dtype.kind not in "iuf" or values.size == 0:
        raise ValueError(f"column {column!r} has no numbers to draw")
    values.sort()
    ax = _axes(ax)
    factor, unit = _scale(ax, [float(values[-1])], source.units.get(column, ""))
    share = np.arange(1, values.size + 1) / values.size
    label = columns(found)[column].heading
    ax.step(np.r_[values[0], values] / factor, np.r_[0.0, share], where="post", label=run.summary["scenario"])
    ax.set_xlabel(label + (f" ({unit})" if unit else ""))
    ax.set_ylabel("Cumulative share")
    ax.set_ylim(0, 1.02)
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    made: Axes = require("matplotlib.pyplot", "plot", "warpline.plot").subplots(layout="constrained")[1]
    return made


def _select(kind: str, rows: Sequence[Mapping[str, Any]], wanted: Selection) -> dict[int, str]:
    """Numbers and names of the chosen flows or links."""
    known = {int(row[kind]): str(row["name"]) for row in rows}
    if wanted is None:
        return known
    found: dict[int, str] = {}
    for want in [wanted] if isinstance(wanted, (str, int)) else wanted:
        matching = [
            int(row[kind])
            for row in rows
            if (row[kind] == want if isinstance(want, int) else want in (row["name"], row.get("group")))
        ]
        if not matching:
            names = ", ".join(list(known.values())[:20]) + (", ..." if len(known) > 20 else "")
            raise KeyError(f"no {kind} {want!r}; there are {names or 'none'}")
        found |= {number: known[number] for number in matching}
    return found


def _lines(table: Table, kind: str, chosen: Mapping[int, str], column: str) -> dict[str, tuple[Values, Values]]:
    """Times and values of a column for each of the chosen flows or links, by name, without missing values."""
    np = require("numpy", "plot", "warpline.plot")
    owner = np.array(table[kind], dtype=np.int64)
    seconds = np.array(table["time_s"], dtype=float)
    values = np.array(table[column], dtype=float)
    present = ~np.isnan(values)
    lines = {}
    for number, name in chosen.items():
        rows = (owner == number) & present
        lines[name] = (seconds[rows], values[rows])
    return lines


def _flow_lines(
    run: Run, column: str, flows: Selection, *, missing_is_error: bool = True
) -> dict[str, tuple[Values, Values]]:
    chosen = _select("flow", run.summary["flows"], flows)
    lines = {name: line for name, line in _lines(run.series_flows, "flow", chosen, column).items() if line[0].size}
    if not lines and missing_is_error:
        raise ValueError(f"none of these flows has {column} over time (UDP has no window; a short run may have no samples)")
    return lines


def _scale(ax: Axes, largest: Sequence[float], unit: str) -> tuple[float, str]:
    """The factor to divide values by, and the unit that they then have: that of what the axes have already, or else one in which the largest value is at least 1."""
    # They may have been cleared.
    if not ax.has_data():
        _SCALES.pop(ax, None)
    known = _SCALES.setdefault(ax, {})
    if unit in known:
        return known[unit]
    steps = _STEPS.get(unit, ((1.0, unit),))
    top = max(largest, default=0.0)
    found = next((step for step in steps if top >= step[0]), steps[-1])
    # Zeros are the same in every unit.
    if top > 0:
        known[unit] = found
    return found


def _draw(
    ax: Axes | None,
    lines: Mapping[str, tuple[Values, Values]],
    column: Column,
    run: Run,
    *,
    dashed: Mapping[str, tuple[Values, Values]] | None = None,
    dashed_label: str = "",
) -> Axes:
    ax = _axes(ax)
    factor, unit = _scale(ax, [float(values.max()) for _, values in lines.values() if values.size], column.unit)
    skipped = _skipped([run])
    for name, samples in lines.items():
        seconds, values = _cut(skipped, *samples)
        (line,) = ax.plot(seconds, values / factor, linewidth=1.2, label=name)
        if dashed and name in dashed:
            times, limits = _cut(skipped, *dashed[name])
            ax.plot(times, limits / factor, "--", linewidth=0.8, color=line.get_color(), label=f"{name} {dashed_label}")
    ax.set_xlabel("Time (s)")
    ax.set_ylabel(f"{column.heading} ({unit})")
    ax.set_title(run.summary["scenario"])
    ax.set_ylim(bottom=0)
    if 0 < len(lines) <= _LEGEND_LINES:
        ax.legend(fontsize="small")
    return ax
