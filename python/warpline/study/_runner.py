"""Runs an experiment: finds what is missing, runs it on all cores or an executor, and keeps every run as soon as it ends."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warpline._errors import WarplineError
from warpline._pool import ExecutorLike
from warpline._scenario import Scenario
from warpline._sweep import Scalar, kind
from warpline.study import _build, _code, _machine, _scratch
from warpline.study._declare import ALLOWED, DECLARED_IN, RESERVED, UNABLE, Quick
from warpline.study._points import Point
from warpline.study._progress import Counts, runs
from warpline.study._results import LINE
from warpline.study._seeds import Until, first
from warpline.study._store import Row, Store, number
from warpline.study._study import Study, by_line, could_not_be_made
from warpline.study._told import RAISED, StudyError, naming
from warpline.study._turns import Turns
from warpline.study._worker import Outcome, Task, perform

Packer = Callable[[Any], bytes]

AHEAD = 1000
"""So many runs at most are handed to the executor at a time: the others need no memory yet, and a study that is stopped has little to call back. And before a run
is handed out, so many at most are looked at for points that share it."""

GATHER_S = 2.0
"""Where nothing is under way, runs are handed out after this many seconds, although points that share them may follow: the processes would stand idle."""


@dataclass
class Failure:
    """A run that failed."""

    point: Point
    seed: int
    error: str


def run_missing(
    study: Study,
    executor: ExecutorLike,
    dumps: Packer,
    *,
    here: ExecutorLike | None = None,
    at_once: int = 1,
    machine: contextlib.ExitStack | None = None,
    force: bool = False,
    keep: bool = False,
    only: Mapping[str, Any] | None = None,
    counts: Counts | None = None,
) -> list[Failure]:
    """Runs what is missing of a study, and returns what failed. A failed run is tried again by the next study.

    Args:
        study: The figure, and where its results are.
        executor: Runs the tasks.
        dumps: Packs a task for a worker.
        here: Runs those that need this machine, as many at once as their time dilation factors leave room for, and `at_once` at most, and none while another
            study on this machine makes such runs. Without it `executor` runs them, one at a time: nobody knows which machines it has.
        at_once: How many processes `here` has.
        machine: Holds the lock of this machine while runs need it. A study that is stopped (Ctrl-C) leaves it so: the caller closes it when the processes of
            `here` have ended, and with them the runs.
        force: Whether to run what is there already, too.
        keep: Whether results of other builds of Warpline count as there. Those of other kernels and stacks do not.
        only: Which points are run, as in `Results.where`.
        counts: Told of what is done.

    Raises:
        NoPointsError: If none of the points is chosen, or an axis is unknown.
        StudyError: If another declaration has its results in the same file; if the figure cannot be sent to the processes that run it; if a scenario has
            errors, or what makes it raises one; or, when all have run, if seeds depend on a measure of which no run has a number.
        RunError: If another study writes the same results.
    """
    _scratch.remove_left_over()
    points = study.figure.chosen(only or {})
    with study.store() as store:
        _refuse_others(study, store)
        return _Pass(study, store, executor, dumps, here, at_once, machine or contextlib.ExitStack(), force=force, keep=keep, counts=counts or Counts()).over(points)


def _refuse_others(study: Study, store: Store) -> None:
    """Refuses results that another declaration beside this one has made, too. One that is gone, or has no such figure any more, has left them to this one."""
    for other in store.files:
        if other not in study.files and _code.gives_name(study.directory / other, study.figure.name):
            raise StudyError(
                f"{study.name}: {study.results_path} has results of {other}, which declares a figure {study.figure.name!r}, too: figures of one name share their results if "
                f"their files are in one directory; give one of the two another name, or move {other} to another directory"
            )


class _Kinds:
    """Of what kind the values of each measure are: all of one, because a mean or a picture of numbers would leave a text among them out without a word."""

    def __init__(self, axes: Sequence[str]) -> None:
        self._other = {*RESERVED, *axes}
        self._known: dict[str, str] = {}

    def refuse(self, lines: Iterable[Mapping[str, Scalar]]) -> str | None:
        """Why a run whose values these are cannot be kept beside those before. If it can, its kinds count from now on."""
        kinds = dict(self._known)
        for values in lines:
            for name, value in values.items():
                if value is not None and name not in self._other and kinds.setdefault(name, kind(value)) != kind(value):
                    return f"the measure {name} returned {kind(value)} ({value!r}), and {kinds[name]} before; all its values are of one kind, or None"
        self._known = kinds
        return None


class _Installed:
    """What scenarios would run with on this machine. The files are read once for all scenarios with the same kinds of hosts."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], str | None] = {}

    def builds(self, scenario: Scenario | None) -> str | None:
        """The kernels and stacks; none without a scenario, and where this machine lacks one."""
        if scenario is None:
            return None
        hosts = scenario.to_dict().get("host", [])
        kinds = tuple(tuple(host.get(key) for key in ("name", "endpoint", "machine", "kernel", "library")) for host in hosts if "endpoint" in host)
        at = (scenario.directory, kinds)
        if at not in self._known:
            try:
                self._known[at] = " ".join(scenario.builds)
            except WarplineError:
                self._known[at] = None
        return self._known[at]


@dataclass
class _Spot:
    """A point while it runs. `open` are the seeds that are planned or under way."""

    point: Point
    open: set[int]
    hashes: dict[int, str] = field(default_factory=dict)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    failed: bool = False


@dataclass(eq=False)
class _Run:
    """A run that is planned or under way, and the points that share it. `takes` is the part of the machine that it takes."""

    spots: list[_Spot]
    seed: int
    scenario: Scenario | None
    takes: float


class _Pass:
    """A pass over a figure: plans its runs, hands them out, and keeps what they measure."""

    def __init__(
        self,
        study: Study,
        store: Store,
        executor: ExecutorLike,
        dumps: Packer,
        here: ExecutorLike | None,
        at_once: int,
        machine: contextlib.ExitStack,
        *,
        force: bool,
        keep: bool,
        counts: Counts,
    ) -> None:
        """As in `run_missing`."""
        self._study, self._figure, self._store = study, study.figure, store
        self._executor, self._dumps, self._here = executor, dumps, here
        self._force, self._keep, self._counts = force, keep, counts
        self._failures: list[Failure] = []
        self._done: queue.SimpleQueue[tuple[_Run, Any]] = queue.SimpleQueue()
        self._under_way: dict[_Run, Any] = {}
        self._planned: deque[tuple[_Spot, int]] = deque()
        # Runs that wait to be handed out: by then, points further back that share them have joined. And when the first of them began to wait.
        self._gathered: dict[tuple[str, Path | None, int], _Run] = {}
        self._since = 0.0
        # Runs that wait for room only.
        self._released: deque[_Run] = deque()
        self._turns: Turns[_Run] = Turns(at_once if here is not None else 1)
        self._machine = machine
        self._has_machine = False
        self._declared, self._measured, self._ran, self._installed = self._figure.declared, self._figure.measured, _build.build(), _Installed()
        self._kinds = _Kinds(self._figure.axes)
        self._reads_point = self._figure.reads_point
        # A worker needs to know how to run and measure, and nothing else.
        with naming(f"{study.name}, as it is sent to the processes that run it"):
            self._sent = dumps(replace(self._figure, points=self._figure.points[:1], seeds=1, claims=(), picture=(), labels={}, quick=Quick()))

    def over(self, points: Sequence[Point]) -> list[Failure]:
        """Runs what is missing at these points, and returns what failed."""
        spots = [_Spot(point, set(range(1, first(self._figure.seeds, point) + 1))) for point in points]
        # Every point with one seed, then with two: a study that is stopped has something of everything, except of runs that need the machine.
        self._plan(sorted(((spot, seed) for spot in spots for seed in spot.open), key=lambda one: one[1]))
        try:
            while self._planned or self._gathered or self._released or self._turns or self._under_way:
                self._hand_out()
                self._harvest()
                self._counts.tell()
        except RAISED as error:
            self._finish(error)
            raise
        except BaseException:
            # Ctrl-C: Warpline's own processes end now.
            for future in self._under_way.values():
                future.cancel()
            raise
        self._machine.close()
        self._check_seeds(spots)
        return self._failures

    def _finish(self, error: BaseException) -> None:
        """After an error, waits for the runs that are under way, and keeps what they measure. They cannot be stopped, and runs of the next figure may need the
        machine for themselves."""
        for waiting in (self._planned, self._gathered, self._released):
            waiting.clear()
        for run, future in self._under_way.items():
            # On a cluster a run that is under way can be cancelled, and goes on even so.
            if not run.takes:
                future.cancel()
        if left := sum(not future.cancelled() for future in self._under_way.values()):
            self._counts.say(f"{error}; waits for {runs(left)} under way")
        while self._under_way:
            with contextlib.suppress(Exception):
                self._harvest()
                self._counts.tell()
        self._machine.close()

    def _check_seeds(self, spots: Sequence[_Spot]) -> None:
        """Refuses seeds that depend on a measure of which no run of the figure has a number: its name is wrong. Some points may be without."""
        seeds = self._figure.seeds
        if not isinstance(seeds, Until) or len(spots) < len(self._figure.points) or any(spot.failed for spot in spots):
            return
        rows = [row for spot in spots for run in spot.rows.values() for row in run]
        if not any(isinstance(row.get(seeds.of), (int, float)) for row in rows):
            others = {*RESERVED, *self._figure.axes}
            names = dict.fromkeys(name for row in rows for name, value in row.items() if name not in others and isinstance(value, (int, float)))
            raise StudyError(f"{self._study.name}: seeds are run until {seeds.of!r} is known well enough, but no run has a number of that name; there are {', '.join(names) or 'none'}")

    def _plan(self, runs: Sequence[tuple[_Spot, int]]) -> None:
        self._planned.extend(runs)
        self._counts.total += len(runs)

    def _widen(self, spot: _Spot) -> None:
        """Plans further seeds where the interval is too wide. What is decided depends on results only, not on which came first."""
        seeds = self._figure.seeds
        if spot.open or spot.failed or not isinstance(seeds, Until):
            return
        further = range(len(spot.rows) + 1, seeds.wanted(by_line(spot.rows, seeds.of), len(spot.rows)) + 1)
        spot.open.update(further)
        self._plan([(spot, seed) for seed in further])

    def _hand_out(self) -> None:
        """Submits what is planned, as far as there is room."""
        while self._done.empty():
            if self._gathered and not self._under_way and time.monotonic() - self._since > GATHER_S:
                self._released.extend(self._gathered.values())
                self._gathered.clear()
            room = len(self._under_way) < AHEAD
            if self._released and room:
                self._submit(self._executor, self._released.popleft())
            elif self._planned and len(self._gathered) + len(self._released) < AHEAD:
                self._start(*self._planned.popleft())
            elif self._gathered and room:
                self._submit(self._executor, self._gathered.pop(next(iter(self._gathered))))
            else:
                break
            self._counts.tell()
        # Runs that need the machine come last.
        if self._planned or self._gathered or self._released or not self._turns or len(self._under_way) > self._turns.under_way:
            return
        if self._here is not None and not self._has_machine:
            self._machine.enter_context(_machine.alone(self._counts.say))
            self._has_machine = True
        while (next_run := self._turns.begin()) is not None:
            self._submit(self._here or self._executor, next_run)

    def _start(self, spot: _Spot, seed: int) -> None:
        """Takes the rows of a run that are kept, or gathers it, or has it wait for room or for its turn."""
        identity = self._study.identity(spot.point, seed)
        results, scenario, made = identity
        spot.hashes[seed] = results
        ran = None if self._keep else self._ran
        found = [] if self._force else self._study.find(self._store, identity, spot.point, seed, ran, self._installed.builds(scenario))
        rows: list[Row] = [self._study.as_declared(row, spot.point) for row in found]
        if rows and not could_not_be_made(rows) and self._kinds.refuse(rows) is None:
            spot.rows[seed] = rows if rows[0].get("declared") == self._declared else self._store.renew(rows, self._declared)
            spot.open.discard(seed)
            self._counts.kept += 1
            self._widen(spot)
            return
        takes = self._figure.takes(scenario)
        if takes:
            # Never shared: each of them tells something of its own of the machine.
            self._turns.add(_Run([spot], seed, scenario, takes), takes)
            return
        if scenario is None:
            # The run of a model has the values of its point, so that no other point shares it.
            self._released.append(_Run([spot], seed, None, 0))
            return
        if not self._gathered:
            self._since = time.monotonic()
        self._gathered.setdefault((made, scenario.directory, seed), _Run([], seed, scenario, 0)).spots.append(spot)

    def _submit(self, executor: ExecutorLike, run: _Run) -> None:
        # Where no measure reads the point, they all have the same values.
        measured = run.spots if self._reads_point else run.spots[:1]
        task = self._dumps(Task([spot.point for spot in measured], run.seed, run.scenario))
        try:
            future: Any = executor.submit(perform, self._sent, task)
        except Exception as error:  # A pool one of whose processes has died takes no more work.
            future = Future()
            future.set_exception(error)
        self._under_way[run] = future
        future.add_done_callback(lambda future: self._done.put((run, future)))

    def _harvest(self) -> None:
        """Keeps what the runs that have ended have measured."""
        fresh: list[list[Row]] = []
        ended: list[_Spot] = []
        for run, future in _ready(self._done, wait=bool(self._under_way)):
            del self._under_way[run]
            outcomes = [self._checked(outcome) for outcome in _outcomes(future)]
            if run.takes and self._turns.end(run, good=all(outcome.error is None and not outcome.full for outcome in outcomes)):
                continue
            for spot, outcome in zip(run.spots, outcomes if len(outcomes) > 1 else outcomes * len(run.spots), strict=True):
                spot.open.discard(run.seed)
                ended.append(spot)
                if outcome.error is None:
                    spot.rows[run.seed] = self._rows(spot, run.seed, outcome)
                    fresh.append(spot.rows[run.seed])
                else:
                    self._fail(spot, run.seed, outcome, outcome.error)
        if fresh:
            self._store.put(fresh)
            self._counts.done += len(fresh)
        for spot in ended:
            self._widen(spot)

    def _checked(self, outcome: Outcome) -> Outcome:
        """An outcome, with an error if its values cannot be kept beside those before."""
        refused = self._kinds.refuse(outcome.lines.values())
        return replace(outcome, error=refused) if refused else outcome

    def _fail(self, spot: _Spot, seed: int, outcome: Outcome, error: str) -> None:
        before = self._study.find(self._store, self._study.identity(spot.point, seed), spot.point, seed)
        # What the same run has measured on a quieter day counts more.
        if outcome.unable and (not before or could_not_be_made(before)):
            self._store.put([self._rows(spot, seed, replace(outcome, lines={None: {UNABLE: error}}))])
        spot.failed = True
        self._failures.append(Failure(spot.point, seed, error))
        self._counts.failed += 1

    def _rows(self, spot: _Spot, seed: int, outcome: Outcome) -> list[Row]:
        noted = {ALLOWED: json.dumps(list(outcome.allowed))} if outcome.allowed else {}
        head: dict[str, Scalar] = {
            "declared": self._declared,
            DECLARED_IN: self._study.files[0],
            "ran": outcome.ran,
            "builds": outcome.builds,
            "measured": self._measured,
            "scenario": number(spot.hashes.pop(seed)),
            "seed": seed,
        }
        lines = [{**head, **spot.point, **({} if line is None else {LINE: line}), **outcome.machine, **noted, **values} for line, values in outcome.lines.items()]
        return [self._study.as_declared(line, spot.point) for line in lines]


def _ready(done: queue.SimpleQueue[tuple[_Run, Any]], *, wait: bool) -> list[tuple[_Run, Any]]:
    """What has ended; waits a moment for the first, if there is anything to wait for."""
    found = []
    with contextlib.suppress(queue.Empty):
        found.append(done.get(timeout=0.5) if wait else done.get_nowait())
        while True:
            found.append(done.get_nowait())
    return found


def _outcomes(future: Any) -> list[Outcome]:
    try:
        outcomes: list[Outcome] = future.result()
        return outcomes
    except Exception as error:  # A worker that died.
        return [Outcome(error=str(error) if isinstance(error, WarplineError) else f"{type(error).__name__}: {error}")]
