"""Results of a run: summary, tables, report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from warpline import _notebook
from warpline._columns import Column, columns
from warpline._summary import Summary
from warpline._warpline import NativeRun, Table, show


class Run:
    """The results of a run: a summary, and tables that any Arrow library can read.

    `run.series_flows.polars()` and `.pandas()` turn a table into a frame; `run.flows["goodput_bps"]` is a column as a list.
    """

    def __init__(self, native: NativeRun) -> None:
        """For warpline's own use: `Scenario.run` and `Run.open` make runs."""
        self._native = native

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Run:
        """Opens a run directory.

        Raises:
            RunError: If it is not a run directory, or cannot be read.
        """
        return cls(NativeRun.open(os.fspath(directory)))

    @property
    def directory(self) -> Path | None:
        """The run directory; None for a run that is in memory only."""
        return None if self._native.directory is None else Path(self._native.directory)

    @cached_property
    def summary(self) -> Summary:
        """The summary: what ran, and its metrics in total, per group of flows, per flow and per link direction."""
        summary: Summary = json.loads(self._native.summary_json())
        return summary

    @property
    def summary_json(self) -> str:
        """The text of summary.json: the same scenario and seed give the same bytes."""
        return self._native.summary_json()

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return self.summary["complete"]

    @property
    def failures(self) -> list[str]:
        """What failed, in words: a stack that crashed, a program that did not end as expected, results that are not what the scenario expects, or why
        the run broke off. Empty if nothing did, and for a run that was opened from a directory."""
        return self._native.failures

    @cached_property
    def flows(self) -> Table:
        """A row per flow."""
        return self._native.table("flows")

    @cached_property
    def links(self) -> Table:
        """A row per link direction."""
        return self._native.table("links")

    @cached_property
    def transfers(self) -> Table:
        """A row per transfer of a given size, web object or batch of messages."""
        return self._native.table("transfers")

    @cached_property
    def series_flows(self) -> Table:
        """A row per flow and sampling interval: goodput, window, RTT."""
        return self._native.table("series_flows")

    @cached_property
    def series_links(self) -> Table:
        """A row per link direction and sampling interval: throughput, backlog, drops."""
        return self._native.table("series_links")

    @cached_property
    def tcp(self) -> Table:
        """Events of the TCP endpoints of flows with record = ["tcp"]."""
        return self._native.table("tcp")

    @cached_property
    def packets(self) -> Table:
        """Packet events of links with record = ["packets"] or ["queue"]."""
        return self._native.table("packets")

    @cached_property
    def dilation(self) -> Table:
        """A row for each time dilation factor of a dilated run, with its start by the run's clock and by the machine's."""
        return self._native.table("dilation")

    @property
    def recordings(self) -> list[Path]:
        """Captures (.pcapng) and qlog files (.sqlog) in the run directory."""
        return [Path(path) for path in self._native.recordings()]

    def report(self, path: str | os.PathLike[str], *, beside: Sequence[Run] = ()) -> Path:
        """Writes an HTML report, in one file, of this run and of others beside it, and returns its path."""
        self._native.report(os.fspath(path), [run._native for run in beside])
        return Path(path)

    def __reduce__(self) -> tuple[type[Run], tuple[NativeRun]]:
        """For pickle, and so for results of other processes. A run in memory is copied whole; one in a directory is opened there again."""
        return type(self), (self._native,)

    def __repr__(self) -> str:
        summary = self.summary
        state = "" if summary["complete"] else f", stopped at {summary['simulated_s']:g} s"
        return (
            f"<warpline.Run {summary['scenario']}: seed {summary['seed']}, {summary['duration_s']:g} s{state}, "
            f"{len(summary['flows'])} flows, {show('bit/s', summary['totals']['goodput_bps'])}>"
        )

    def _repr_html_(self) -> str:
        """A small table for notebooks, with a drawing of the goodput over time."""
        summary = self.summary
        # The same columns as in the terminal, in the same order.
        shown = sorted((column for column in columns("groups").values() if column.place is not None), key=lambda column: column.place or 0)
        rows = [[_cell(column, dict(group)[column.name]) for column in shown] for group in summary["groups"]]
        state = "" if summary["complete"] else f", stopped at {summary['simulated_s']:g} s"
        caption = f"{summary['scenario']}: seed {summary['seed']}, {summary['duration_s']:g} s{state}"
        return _notebook.table(caption, [column.heading for column in shown], rows) + self._drawing()

    def _drawing(self) -> str:
        """The goodput of each group of flows over time."""
        series, flows = self.series_flows, self.flows
        group = dict(zip(flows["flow"], flows["group"], strict=True))
        lines: dict[str, dict[float, float]] = {name: {} for name in group.values()}
        for time, flow, goodput in zip(series["time_s"], series["flow"], series["goodput_bps"], strict=True):
            line = lines[group[flow]]
            line[time] = line.get(time, 0.0) + goodput
        column = columns("series_flows")["goodput_bps"]
        return _notebook.drawing(lines, column.heading, lambda value: show(column.unit, value))


def _cell(column: Column, value: object) -> str:
    """A value as people read it."""
    if isinstance(value, (int, float)):
        return show(column.unit, value)
    return "–" if value is None else str(value)
