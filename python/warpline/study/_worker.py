"""What a worker process does with a run: makes it, measures it at its points, and sends back the values or an error."""

from __future__ import annotations

import contextlib
import pickle
import reprlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from warpline._errors import WarplineError
from warpline._run import Run
from warpline._scenario import Scenario
from warpline._sweep import Scalar, plain
from warpline.study import _build, _machine, _scratch
from warpline.study._declare import RESERVED, Figure, Measured
from warpline.study._points import Point
from warpline.study._told import RAISED, told


@dataclass(frozen=True)
class Task:
    """A run, as it is sent to a worker, and the points at which it is measured. They have the same scenario."""

    points: Sequence[Point]
    seed: int
    scenario: Scenario | None


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back of a run: what it measured at a point, or at all of its points alike, or an error.

    Attributes:
        lines: The values by line; a single one, without a name, if the measures have no lines.
        machine: The columns that say which machine it was, if the run needs it.
        error: Why there are no values.
        ran: The worker's build of Warpline.
        builds: The kernels and stacks of that machine that made the run.
        unable: Whether the error is that this machine is unable to make the run.
        full: Whether the run needs the machine, and too few of its CPUs were left over: other runs may have taken something away from it.
        allowed: The failures of the run that are a result.
    """

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


class _RefusedError(WarplineError):
    """A run failed in a way that is no result, or what it measured cannot be kept. Its text is the error of the run's outcome."""


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
        if missing := [program for program in shared.needs if shutil.which(program) is None]:
            raise _RefusedError(f"it needs {', '.join(missing)}, which this machine does not have on its PATH")
        # Before the run: what is replaced while it runs is not what made it.
        builds = "" if task.scenario is None else " ".join(task.scenario.builds)
        watch = _machine.Watch() if shared.takes(task.scenario) else None
        with _machine.in_use() if watch else contextlib.nullcontext(), watch or contextlib.nullcontext():
            try:
                outcomes = _measured(shared, task)
            except RAISED as error:
                outcomes = [_failed(error)]
        machine: Mapping[str, Scalar] = watch.columns if watch else {}
        full = watch is not None and not watch.had_enough
        return [replace(one, machine=machine, ran=_build.build(), builds=builds, full=full) for one in outcomes]
    except RAISED as error:
        return [_failed(error)]


def _failed(error: BaseException) -> Outcome:
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
            raise _RefusedError("; ".join(others))
        # With many flows, reading the summary takes longer than finding out that it has nothing to say of guests.
        guests: Any = run.summary.get("guests") if '"guests":' in run.summary_json else None
        # Under other clocks a run depends on the machine anyway.
        if guests and not guests["reproducible"] and run.summary["clock"] == "virtual":
            raise _RefusedError("a guest had to be pushed on, because the machine was too busy: the result would depend on the machine")
        # Each point has a summary of its own: a measure may change what it reads.
        return [_tried(figure, partial(figure.measure, Run(run._native), point), run.failures) for point in task.points]


def _tried(figure: Figure, measure: Callable[[], Mapping[str, Measured]], allowed: Sequence[str] = ()) -> Outcome:
    """What is measured at a point. An error is that of this point alone: others may share its run."""
    try:
        return Outcome(_lines(figure, measure()), allowed=list(allowed))
    except RAISED as error:
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
    try:
        by_name = dict(measured)
    except (TypeError, ValueError):
        what = f"the {'measures' if figure.model is None else 'model'} returned {reprlib.repr(measured)}"
        raise _RefusedError(f"{what}; let the function return values by their names, such as {{'y': 1.5}}") from None
    for name, value in by_name.items():
        if not (isinstance(name, str) and name):
            raise _RefusedError(f"{name!r} cannot be the name of a measure: it is a text that says something")
        if name in (*RESERVED, *figure.axes):
            raise _RefusedError(f"{name} cannot be the name of a measure: results have such a column already")
        for line, one in (value if isinstance(value, Mapping) else {None: value}).items():
            found.setdefault(_plain(line, f"the measure {name} has as a line"), {})[name] = _plain(one, f"the measure {name} returned")
    if not found:
        raise _RefusedError("nothing was measured")
    return found


def _plain(value: Any, what: str) -> Scalar:
    """A value as it is kept. `what` is how an error begins."""
    try:
        return plain(value, what, "a measure returns a number, text or None, or a mapping of lines to these, and a line is a number or text")
    except ValueError as error:
        raise _RefusedError(str(error)) from error
