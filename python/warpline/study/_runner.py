"""Runs an experiment: finds what is missing, runs it on all cores or an executor, and keeps every run as soon as it ends."""

from __future__ import annotations

import contextlib
import json
import pickle
import queue
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warpline._errors import WarplineError
from warpline._pool import ExecutorLike
from warpline._scenario import Scenario
from warpline._sweep import Scalar
from warpline.study import _code, _imported, _machine
from warpline.study._declare import RESERVED, Figure, Measured, Quick, build
from warpline.study._points import Point
from warpline.study._progress import Counts
from warpline.study._results import LINE, Results
from warpline.study._seeds import Until, first
from warpline.study._store import Row, Store, key

Packer = Callable[[Any], bytes]


@dataclass(frozen=True)
class Task:
    """A run, as it is sent to a worker."""

    figure: Figure
    point: Point
    seed: int
    scenario: Scenario | None


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back: values by line (one, without a name, if the measures have none), or an error. And the machine, if the run had it for itself."""

    lines: Mapping[str | None, Mapping[str, Scalar]] = field(default_factory=dict)
    machine: Mapping[str, Scalar] = field(default_factory=dict)
    error: str | None = None


class MeasureError(WarplineError, ValueError):
    """A measure returned something that cannot be kept."""


def perform(packed: bytes) -> Outcome:
    """Runs a task, in any process. What goes wrong is a value, so that it cannot end the study."""
    try:
        task: Task = pickle.loads(packed)
        watch = _machine.Watch() if task.figure.needs_machine(task.scenario) else None
        with watch or contextlib.nullcontext():
            lines = _lines(_measured(task))
        return Outcome(lines, watch.columns if watch else {})
    except WarplineError as error:
        return Outcome(error=str(error))
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {error}")


def _measured(task: Task) -> Mapping[str, Measured]:
    figure = task.figure
    if figure.model is not None:
        return figure.model({**figure.settings, **task.point, "seed": task.seed})
    assert task.scenario is not None
    with tempfile.TemporaryDirectory(prefix="warpline-study-") as scratch:
        out = Path(scratch) / "run" if figure.keep else None
        run = task.scenario.run(seed=task.seed, cores=1, out=out, progress=False, cc=figure.cc)
        if run.failures:
            raise MeasureError("; ".join(run.failures))
        guests: Any = run.summary.get("guests")
        # Under other clocks a run depends on the machine anyway.
        if run.summary["clock"] == "virtual" and guests and not guests["reproducible"]:
            raise MeasureError("a guest had to be pushed on, because the machine was too busy: the result would depend on the machine")
        return figure.measure(run, task.point)


def _lines(measured: Mapping[str, Measured]) -> dict[str | None, dict[str, Scalar]]:
    """Values by line and measure."""
    found: dict[str | None, dict[str, Scalar]] = {}
    for name, value in measured.items():
        for line, one in (value if isinstance(value, Mapping) else {None: value}).items():
            plain: Any = getattr(one, "item", lambda one=one: one)()  # A number of numpy's.
            if not isinstance(plain, (bool, int, float, str, type(None))):
                raise MeasureError(f"the measure {name} returned {type(plain).__name__}; it returns a number, text or None, or a mapping of lines to these")
            found.setdefault(line, {})[name] = plain
    if not found:
        raise MeasureError("nothing was measured")
    return found


@dataclass
class _Spot:
    """A point while it runs."""

    point: Point
    hashes: dict[int, str] = field(default_factory=dict)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    failed: bool = False


@dataclass
class Failure:
    """A run that failed."""

    point: Point
    seed: int
    error: str


@dataclass(frozen=True)
class Kept:
    """What is kept of a figure.

    Attributes:
        results: The results of what is declared.
        builds: What made them.
        others: How many runs are kept that are not declared any more.
        missing: How many points have fewer seeds than every point gets.
        machines: The machines of the runs that had one for themselves, in words.
    """

    results: Results
    builds: Sequence[str]
    others: int
    missing: int
    machines: Sequence[str] = ()


class Study:
    """A figure, the directory of its declaration, and its results."""

    def __init__(self, figure: Figure, directory: Path, store: Path) -> None:
        self.figure = figure
        self.directory = directory
        self.store = store

    def identity(self, point: Point, seed: int) -> tuple[str, Scenario | None]:
        """A hash of what runs at a point, and the scenario if it is one."""
        if self.figure.model is not None:
            values = {**self.figure.settings, **point}
            return f"model:{_code.digest(self.figure.model, json.dumps(values, sort_keys=True))}", None
        scenario = self.figure.built(point, seed, self.directory)
        return scenario.hash, scenario

    def kept(self) -> Kept:
        """The results that are kept of what is declared.

        Raises:
            RunError: If they cannot be read.
        """
        store = Store(self.store)
        imported, makers = _imported.cells(self.figure, lambda point, seed: self.identity(point, seed)[0], self.store)
        if not store and not imported:
            return Kept(Results([]), [], 0, len(self.figure.points))
        measured, least = self.figure.measured, first(self.figure.seeds)
        most = self.figure.seeds if isinstance(self.figure.seeds, int) else self.figure.seeds.most
        declared, rows, lacking = [], [], []
        for point in self.figure.points:
            for seed in range(1, most + 1):
                scenario = self.identity(point, seed)[0]
                found = store.find(scenario, seed, measured)
                if not found:
                    if seed <= least:
                        lacking.append(point)
                    break
                declared.append((scenario, seed))
                # The point as declared: a column of the file has one type, and an axis may have several.
                rows += [{**row, **point} for row in found]
        names = dict.fromkeys(name for row in rows for name in row if name not in (*RESERVED, *self.figure.axes))
        own = Results.of(rows, self.figure.axes, list(names)).cells
        # What another program has measured counts where nothing was run here.
        measured_here = [{axis: cell.where[axis] for axis in self.figure.axes} for cell in own]
        others = [cell for cell in imported if {axis: cell.where[axis] for axis in self.figure.axes} not in measured_here]
        covered = [{axis: cell.where[axis] for axis in self.figure.axes} for cell in others]
        places = list(map(dict, self.figure.points))
        cells = sorted([*own, *others], key=lambda cell: places.index({axis: cell.where[axis] for axis in self.figure.axes}))
        missing = sum(dict(point) not in covered for point in lacking)
        return Kept(Results(cells), store.builds(declared) + (makers if others else []), store.others(declared), missing, _machine.told(rows))

    def run(
        self,
        executor: ExecutorLike,
        dumps: Packer,
        *,
        force: bool = False,
        keep: bool = False,
        counts: Counts | None = None,
    ) -> list[Failure]:
        """Runs what is missing, and returns what failed. A failed run is tried again by the next study.

        Args:
            executor: Runs the tasks.
            dumps: Packs a task for a worker.
            force: Whether to run what is there already, too.
            keep: Whether results of other builds of Warpline count as there.
            counts: Told of what is done.

        Raises:
            ScenarioError: If a scenario has errors.
            RunError: If another study writes the same results.
        """
        counts = counts or Counts()
        failures: list[Failure] = []
        done: queue.SimpleQueue[tuple[_Spot, int, Any]] = queue.SimpleQueue()
        futures: list[Any] = []
        measured, ran = self.figure.measured, build()
        # A worker needs to know how to run and measure, and nothing else.
        sent = replace(self.figure, points=self.figure.points[:1], claims=(), picture=(), quick=Quick())
        under_way = 0
        # Runs that need the machine for themselves come last, one after the other.
        alone: deque[tuple[_Spot, int, Scenario | None]] = deque()

        def start(spot: _Spot, seed: int) -> None:
            counts.total += 1
            scenario_hash, scenario = self.identity(spot.point, seed)
            spot.hashes[seed] = scenario_hash
            rows = [] if force else store.find(scenario_hash, seed, measured, None if keep else ran)
            if rows:
                spot.rows[seed] = rows
                counts.kept += 1
                return
            spot.open.add(seed)
            if self.figure.needs_machine(scenario):
                alone.append((spot, seed, scenario))
            else:
                submit(spot, seed, scenario)

        def submit(spot: _Spot, seed: int, scenario: Scenario | None) -> None:
            nonlocal under_way
            packed = dumps(Task(sent, spot.point, seed, scenario))
            future = executor.submit(perform, packed)
            future.add_done_callback(lambda future, spot=spot, seed=seed: done.put((spot, seed, future)))
            futures.append(future)
            under_way += 1

        def widen(spot: _Spot) -> None:
            """Starts further seeds where the interval is too wide. What is decided depends on results only, not on which came first."""
            while not spot.open and not spot.failed and isinstance(self.figure.seeds, Until):
                wanted = self.figure.seeds.wanted(_by_line(spot.rows, self.figure.seeds.of))
                if wanted <= len(spot.rows):
                    return
                for seed in range(len(spot.rows) + 1, wanted + 1):
                    start(spot, seed)

        with Store(self.store) as store:
            try:
                spots = [_Spot(point) for point in self.figure.points]
                for spot in spots:
                    for seed in range(1, first(self.figure.seeds) + 1):
                        start(spot, seed)
                    widen(spot)
                counts.tell()
                while under_way or alone:
                    if not under_way:
                        submit(*alone.popleft())
                    try:
                        spot, seed, future = done.get(timeout=0.5)
                    except queue.Empty:
                        counts.tell()
                        continue
                    under_way -= 1
                    spot.open.discard(seed)
                    outcome = _outcome(future)
                    if outcome.error is None:
                        spot.rows[seed] = self._rows(spot, seed, outcome, ran, measured)
                        store.put(spot.rows[seed])
                        counts.done += 1
                    else:
                        spot.failed = True
                        failures.append(Failure(spot.point, seed, outcome.error))
                        counts.failed += 1
                    widen(spot)
                    counts.tell()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        return failures

    def _rows(self, spot: _Spot, seed: int, outcome: Outcome, ran: str, measured: str) -> list[Row]:
        scenario = spot.hashes[seed]
        head: dict[str, Scalar] = {"key": key(scenario, ran, measured, seed), "ran": ran, "scenario": scenario, "measured": measured, "seed": seed}
        return [{**head, **spot.point, **({} if line is None else {LINE: line}), **outcome.machine, **values} for line, values in outcome.lines.items()]


def _by_line(rows: Mapping[int, Sequence[Row]], measure: str) -> list[list[float]]:
    """The values of a measure for each line, in the order of the seeds."""
    found: dict[Scalar, list[float]] = {}
    for seed in sorted(rows):
        for row in rows[seed]:
            value = row.get(measure)
            if isinstance(value, (int, float)):
                found.setdefault(row.get(LINE), []).append(float(value))
    if not found:
        raise MeasureError(f"seeds are run until {measure} is known well enough, but no run has a number of that name")
    return list(found.values())


def _outcome(future: Any) -> Outcome:
    try:
        outcome: Outcome = future.result()
        return outcome
    except Exception as error:  # A worker that died.
        return Outcome(error=str(error) if isinstance(error, WarplineError) else f"{type(error).__name__}: {error}")
