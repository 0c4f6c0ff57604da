"""Runs an experiment: finds what is missing, runs it on all cores or an executor, and keeps every run as soon as it ends."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import pickle
import queue
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from warpline._errors import WarplineError
from warpline._pool import ExecutorLike
from warpline._run import Run
from warpline._scenario import Scenario
from warpline._sweep import Scalar, kind
from warpline.study import _code, _imported, _machine, _scratch
from warpline.study._declare import ALLOWED, DECLARED_IN, RESERVED, UNABLE, Figure, Measured, Quick, build
from warpline.study._points import Point
from warpline.study._progress import Counts, runs
from warpline.study._results import LINE, Results
from warpline.study._seeds import Until, first, most
from warpline.study._store import Row, Store, fits, number
from warpline.study._told import StudyError, naming, told
from warpline.study._turns import Turns

Packer = Callable[[Any], bytes]

AHEAD = 1000
"""So many runs at most are handed to the executor at a time: the others need no memory yet, and a study that is stopped has little to call back. And before a run
is handed out, so many at most are looked at for points that share it."""

GATHER_S = 2.0
"""Where nothing is under way, runs are handed out after this many seconds, although points that share them may follow: the processes would stand idle."""


MANY = 1000
"""Runs of a figure from which on a judgement does not make the scenario of each."""

CHECKED = 100
"""Runs of such a figure whose scenarios are made and compared."""

Finder = Callable[[Point, int], Sequence[Row]]
"""Finds the rows of a run by its point and seed; none if it has not run."""


@dataclass(frozen=True)
class Task:
    """A run, as it is sent to a worker, and the points at which it is measured. They have the same scenario."""

    points: Sequence[Point]
    seed: int
    scenario: Scenario | None


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back of a point: values by line (one, without a name, if the measures have none), or an error, which may be that this machine is unable to make
    the run. And the machine, if the run needs it, and whether it was busy to the full; the worker's build of Warpline, and the kernels and stacks there that
    made the run; and the failures of the run that are a result."""

    lines: Mapping[Scalar, Mapping[str, Scalar]] = field(default_factory=dict)
    machine: Mapping[str, Scalar] = field(default_factory=dict)
    error: str | None = None
    ran: str = ""
    builds: str = ""
    unable: bool = False
    full: bool = False
    allowed: Sequence[str] = ()


class Unable(WarplineError, RuntimeError):
    """What a measure or a model raises if this machine cannot make the run, because it is too slow or lacks something. The run has failed, and is tried again
    by the next study. But that it cannot be made here is what comes out of it, and so a result."""


class MeasureError(WarplineError, ValueError):
    """A measure returned something that cannot be kept."""


def perform(figure: bytes, packed: bytes) -> list[Outcome]:
    """Runs a task, in any process. What goes wrong is a value, so that it cannot end the study.

    Args:
        figure: The figure, packed: the same bytes for all its tasks, so that a worker unpacks them once.
        packed: The task.

    Returns:
        An outcome for each of the task's points; a single one, which is that of all, if the run failed before anything was measured.
    """
    try:
        shared, task = _unpacked(figure), pickle.loads(packed)
        # Before the run: what is replaced while it runs is not what made it.
        builds = "" if task.scenario is None else " ".join(task.scenario.builds)
        watch = _machine.Watch() if shared.takes(task.scenario) else None
        with watch or contextlib.nullcontext():
            try:
                outcomes = _measured(shared, task)
            except Exception as error:
                outcomes = [_failed(error)]
        machine: Mapping[str, Scalar] = watch.columns if watch else {}
        full = watch is not None and not watch.had_enough
        return [replace(one, machine=machine, ran=build(), builds=builds, full=full) for one in outcomes]
    except Exception as error:
        return [_failed(error)]


def _failed(error: Exception) -> Outcome:
    return Outcome(error=str(error) if isinstance(error, WarplineError) else told(error), unable=isinstance(error, Unable))


@lru_cache(maxsize=1)
def _unpacked(figure: bytes) -> Figure:
    unpacked: Figure = pickle.loads(figure)
    return unpacked


def _measured(figure: Figure, task: Task) -> list[Outcome]:
    """What is measured at each point of a task, with the failures of the run that are a result."""
    if figure.model is not None:
        return [_tried(figure, partial(figure.model, {**figure.settings, **point, "seed": task.seed})) for point in task.points]
    assert task.scenario is not None
    with _run_directory(figure.keep) as out:
        run = task.scenario.run(seed=task.seed, cores=1, out=out, progress=False, cc=figure.cc)
        others = [failure for failure in run.failures if not figure.allows(failure)]
        if others:
            raise MeasureError("; ".join(others))
        # With many flows, reading the summary takes longer than finding out that it has nothing to say of guests.
        guests: Any = run.summary.get("guests") if '"guests":' in run.summary_json else None
        # Under other clocks a run depends on the machine anyway.
        if guests and not guests["reproducible"] and run.summary["clock"] == "virtual":
            raise MeasureError("a guest had to be pushed on, because the machine was too busy: the result would depend on the machine")
        # Each point has a summary of its own: a measure may change what it reads.
        return [_tried(figure, partial(figure.measure, Run(run._native), point), run.failures) for point in task.points]


def _tried(figure: Figure, measure: Callable[[], Mapping[str, Measured]], allowed: Sequence[str] = ()) -> Outcome:
    """What is measured at a point. An error is that of this point alone: others may share its run."""
    try:
        return Outcome(_lines(figure, measure()), allowed=list(allowed))
    except Exception as error:
        return _failed(error)


@contextlib.contextmanager
def _run_directory(wanted: bool) -> Iterator[Path | None]:
    """A run directory that is removed afterwards, if one is wanted."""
    if not wanted:
        yield None
        return
    with _scratch.scratch() as directory:
        yield directory / "run"


def _lines(figure: Figure, measured: Mapping[str, Measured]) -> dict[Scalar, dict[str, Scalar]]:
    """Values by line and measure."""
    found: dict[Scalar, dict[str, Scalar]] = {}
    for name, value in measured.items():
        if name in (*RESERVED, *figure.axes):
            raise MeasureError(f"{name} cannot be the name of a measure: results have such a column already")
        for line, one in (value if isinstance(value, Mapping) else {None: value}).items():
            found.setdefault(_plain(line, f"the measure {name} has as a line"), {})[name] = _plain(one, f"the measure {name} returned")
    if not found:
        raise MeasureError("nothing was measured")
    return found


def _plain(value: Any, what: str) -> Scalar:
    """A value as it is kept. `what` is how an error begins."""
    plain: Any = getattr(value, "item", lambda: value)()  # A number of numpy's.
    if not isinstance(plain, (bool, int, float, str, type(None))):
        raise MeasureError(f"{what} {type(plain).__name__}; a measure returns a number, text or None, or a mapping of lines to these, and a line is a number or text")
    if isinstance(plain, int) and not fits(plain):
        raise MeasureError(f"{what} a whole number of {plain.bit_length()} bits; results have 64, and float(...) makes a number that fits")
    return plain


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


class _Here:
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


class Identity(NamedTuple):
    """What tells runs and their results apart.

    Attributes:
        results: A hash of what decides the results of a run at a point. Where measures read the point, two points of the same scenario may differ.
        scenario: The scenario; None for a model.
        run: A hash of what runs, whatever is measured: points of the same scenario have the same.
    """

    results: str
    scenario: Scenario | None
    run: str


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
        lacking: The points that have fewer seeds than they get.
        runs: How many runs there are of what is declared.
        machines: The machines of the runs that needed one, in words.
        unable: What could not be run on this machine, and why, in words.
    """

    results: Results
    builds: Sequence[str]
    others: int
    lacking: Sequence[Point]
    runs: int = 0
    machines: Sequence[str] = ()
    unable: Sequence[str] = ()

    @property
    def missing(self) -> int:
        """How many points have fewer seeds than they get."""
        return len(self.lacking)


class Study:
    """A figure with its name PAPER/FIGURE, the directory of its declaration, its results, and the names of the files that it is declared in: the declaration's own first,
    then those of the modules beside it that it imports."""

    def __init__(self, name: str, figure: Figure, directory: Path, store: Path, files: Sequence[str]) -> None:
        self.name = name
        self.figure = figure
        self.directory = directory
        self.store = store
        self.files = files

    def identity(self, point: Point, seed: int) -> Identity:
        """What tells a run and its results from others.

        Raises:
            StudyError: If the scenario has errors, or what makes it raises one.
        """
        scenario = None
        if self.figure.model is None:
            with naming(f"{self.name}, scenario of {dict(point)}, seed {seed}"):
                scenario = self.figure.built(point, seed, self.directory)
        made = None if scenario is None else scenario.hash
        if made is not None and not self.figure.reads_point:
            return Identity(made, scenario, made)
        values = json.dumps({**self.figure.settings, **point}, sort_keys=True)
        if made is None:
            model = f"model:{_code.digest(self.figure.model, values)}"
            return Identity(model, None, model)
        return Identity(f"point:{hashlib.sha256(f'{made} {values}'.encode()).hexdigest()}", scenario, made)

    def kept(self) -> Kept:
        """The results that are kept of what is declared.

        Raises:
            RunError: If they cannot be read.
            StudyError: If a scenario has errors, or what makes it raises one.
        """
        store = Store(self.store, self.figure.allows)
        imported, makers = _imported.cells(self.figure, lambda point, seed: self.identity(point, seed).results, self.store)
        if not store and not imported:
            return Kept(Results([]), [], 0, self.figure.points)
        declared: list[tuple[int, int]] = []
        rows: list[Row] = []
        lacking: list[Point] = []
        find = self._finder(store, sum(most(self.figure.seeds, point) for point in self.figure.points))
        seeds = store.seeds
        for point in self.figure.points:
            found: dict[int, Sequence[Row]] = {}
            last = most(self.figure.seeds, point)
            for seed in (seed for seed in seeds if seed <= last):
                lines = find(point, seed)
                if not lines:
                    continue
                declared.append((int(lines[0]["scenario"] or 0), seed))
                # How many seeds `Until` adds depends on those before: after one that is missing, they wait for it.
                if isinstance(self.figure.seeds, Until) and seed > len(found) + 1:
                    continue
                found[seed] = lines
                # The point as declared: a column of the file has one type, and an axis may have several.
                rows += [{**row, **point} for row in lines]
            if len(found) < self._wanted(point, found):
                lacking.append(point)
        names = dict.fromkeys(name for row in rows for name in row if name not in (*RESERVED, *self.figure.axes))
        own = Results.of(rows, self.figure.axes, list(names)).cells
        # What another program has measured counts where nothing was run here.
        measured_here = {self._place(cell.where) for cell in own}
        others = [cell for cell in imported if self._place(cell.where) not in measured_here]
        covered = {self._place(cell.where) for cell in others}
        order = {self._place(point): number for number, point in enumerate(self.figure.points)}
        cells = sorted([*own, *others], key=lambda cell: order[self._place(cell.where)])
        lacking = [point for point in lacking if self._place(point) not in covered]
        made_by = store.builds(declared) + (makers if others else [])
        return Kept(Results(cells), made_by, store.others(declared), lacking, len(declared), _machine.told(rows), _unable(rows, self.figure.points))

    def _wanted(self, point: Point, rows: Mapping[int, Sequence[Row]]) -> int:
        """How many seeds a point needs, as far as these rows tell: it begins with the first ones, and is widened as a study does it."""
        count = first(self.figure.seeds, point)
        while isinstance(self.figure.seeds, Until) and count <= len(rows):
            so_far = {seed: rows[seed] for seed in sorted(rows)[:count]}
            if any(_cannot(run) for run in so_far.values()):
                break
            wanted = self.figure.seeds.wanted(_by_line(so_far, self.figure.seeds.of), count)
            if wanted <= count:
                break
            count = wanted
        return count

    def _finder(self, store: Store, count: int) -> Finder:
        """How the rows of a run are found: by the hash of its scenario. Where there are very many, it would take minutes to make all scenarios. Then they
        are found by point and seed, if the declaration was the same when they were made, and if some of them, drawn at random, have the scenarios that are declared."""
        measured = self.figure.measured

        def exact(point: Point, seed: int) -> Sequence[Row]:
            return store.find(self.identity(point, seed).results, seed, measured)

        if count <= MANY:
            return exact
        places = store.places(self.figure.axes, self.figure.declared, measured)
        points = {self._place(point): point for point in self.figure.points}
        known = [at for at in places if at[0] in points]
        for place, seed in random.Random(0).sample(known, min(CHECKED, len(known))):
            if number(self.identity(points[place], seed).results) != places[place, seed][0]["scenario"]:
                return exact
        # Runs that were kept for another declaration, as words in place of numbers, or for another point of the same scenario are found by the hash only.
        lacking = [point for place, point in points.items() if (place, 1) not in places]
        others = len(known) < len(store) or any(exact(point, 1) for point in random.Random(0).sample(lacking, min(CHECKED, len(lacking))))
        return lambda point, seed: places.get((self._place(point), seed), ()) or (exact(point, seed) if others else ())

    def _place(self, where: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
        """The values of the axes."""
        return tuple(where[axis] for axis in self.figure.axes)

    def run(
        self,
        executor: ExecutorLike,
        dumps: Packer,
        *,
        here: ExecutorLike | None = None,
        at_once: int = 1,
        force: bool = False,
        keep: bool = False,
        only: Mapping[str, Any] | None = None,
        counts: Counts | None = None,
    ) -> list[Failure]:
        """Runs what is missing, and returns what failed. A failed run is tried again by the next study.

        Args:
            executor: Runs the tasks.
            dumps: Packs a task for a worker.
            here: Runs those that need this machine, as many at once as their time dilation factors leave room for, and `at_once` at most, and none while another
                study on this machine makes such runs. Without it `executor` runs them, one at a time: nobody knows which machines it has.
            at_once: How many processes `here` has.
            force: Whether to run what is there already, too.
            keep: Whether results of other builds of Warpline count as there. Those of other kernels and stacks do not.
            only: Which points are run, as in `Results.where`.
            counts: Told of what is done.

        Raises:
            StudyError: If another declaration has its results in the same file; if a scenario has errors, or what makes it raises one; or, when all have run, if
                seeds depend on a measure of which no run has a number.
            RunError: If another study writes the same results.
        """
        _scratch.remove_left_over()
        points = self.figure.chosen(only or {})
        with Store(self.store, self.figure.allows) as store:
            self._refuse_others(store)
            return _Pass(self, store, executor, dumps, here, at_once, force=force, keep=keep, counts=counts or Counts()).over(points)

    def _refuse_others(self, store: Store) -> None:
        """Refuses results that another declaration beside this one has made, too. One that is gone, or has no such figure any more, has left them to this one."""
        for other in store.files:
            if other not in self.files and _declares(self.directory / other, self.figure.name):
                raise StudyError(
                    f"{self.name}: {self.store} has results of {other}, which declares a figure {self.figure.name!r}, too: figures of one name share their results if "
                    f"their files are in one directory; give one of the two another name, or move {other} to another directory"
                )


def _declares(file: Path, figure: str) -> bool:
    """Whether a file has something with the name of a figure, as far as its text tells."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.keyword) and node.arg == "name" and isinstance(node.value, ast.Constant) and node.value.value == figure for node in ast.walk(tree))


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
        *,
        force: bool,
        keep: bool,
        counts: Counts,
    ) -> None:
        """As in `Study.run`."""
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
        self._machine = contextlib.ExitStack()
        self._has_machine = False
        self._declared, self._measured, self._ran, self._installed = self._figure.declared, self._figure.measured, build(), _Here()
        self._kinds = _Kinds(self._figure.axes)
        self._reads_point = self._figure.reads_point
        # A worker needs to know how to run and measure, and nothing else.
        with naming(f"{study.name}, as it is sent to the processes that run it"):
            self._sent = dumps(replace(self._figure, points=self._figure.points[:1], seeds=1, claims=(), picture=(), quick=Quick()))

    def over(self, points: Sequence[Point]) -> list[Failure]:
        """Runs what is missing at these points, and returns what failed."""
        spots = [_Spot(point, set(range(1, first(self._figure.seeds, point) + 1))) for point in points]
        # Every point with one seed, then with two: a study that is stopped has something of everything, except of runs that need the machine.
        self._plan(sorted(((spot, seed) for spot in spots for seed in spot.open), key=lambda one: one[1]))
        try:
            with self._machine:
                while self._planned or self._gathered or self._released or self._turns or self._under_way:
                    self._hand_out()
                    self._harvest()
                    self._counts.tell()
        except BaseException:
            for future in self._under_way.values():
                future.cancel()
            raise
        self._check_seeds(spots)
        return self._failures

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
        further = range(len(spot.rows) + 1, seeds.wanted(_by_line(spot.rows, seeds.of), len(spot.rows)) + 1)
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
        results, scenario, made = self._study.identity(spot.point, seed)
        spot.hashes[seed] = results
        rows = [] if self._force else self._store.find(results, seed, self._measured, None if self._keep else self._ran, self._installed.builds(scenario))
        if rows and not _cannot(rows) and self._kinds.refuse(rows) is None:
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
        before = self._store.find(spot.hashes[seed], seed, self._measured)
        # What the same run has measured on a quieter day counts more.
        if outcome.unable and (not before or _cannot(before)):
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
        return [{**head, **spot.point, **({} if line is None else {LINE: line}), **outcome.machine, **noted, **values} for line, values in outcome.lines.items()]


def _cannot(rows: Sequence[Row]) -> bool:
    """Whether these are the rows of a run that could not be made."""
    return rows[0].get(UNABLE) is not None


def _unable(rows: Sequence[Row], points: Sequence[Point]) -> list[str]:
    """For people: each reason why a run could not be made, how often, and at which values of the axes, where it is not at all of them."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.get(UNABLE) is not None:
            found.setdefault(str(row[UNABLE]), []).append(row)
    said = []
    for reason, those in found.items():
        where = [f"{axis} {', '.join(map(str, mine))}" for axis in points[0] if len(mine := _values(axis, those)) < len(_values(axis, points))]
        said.append(f"{runs(len(those))} could not be made" + (f" ({'; '.join(where)})" if where else "") + f": {reason}")
    return said


def _values(axis: str, rows: Iterable[Mapping[str, Scalar]]) -> dict[Scalar, None]:
    return dict.fromkeys(row[axis] for row in rows)


def _by_line(rows: Mapping[int, Sequence[Row]], measure: str) -> list[list[float]]:
    """The values of a measure for each line, in the order of the seeds."""
    found: dict[Scalar, list[float]] = {}
    for seed in sorted(rows):
        for row in rows[seed]:
            value = row.get(measure)
            if isinstance(value, (int, float)):
                found.setdefault(row.get(LINE), []).append(float(value))
    return list(found.values())


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
