"""A study from beginning to end: run what is missing, judge, draw, and write it down."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline._errors import MissingDependencyError, RunError, WarplineError
from warpline._files import write_whole
from warpline._frames import require
from warpline._pool import ExecutorLike, Workers, cloud_dumps, cores
from warpline._progress import wanted
from warpline._runs import checked_jobs
from warpline._sweep import Scalar
from warpline.study._declare import Figure
from warpline.study._paths import to_write
from warpline.study._pictures import markdown, svg
from warpline.study._points import whole
from warpline.study._progress import Counts, Progress, runs
from warpline.study._registry import Declared, find
from warpline.study._report import Judged, failed, judged
from warpline.study._results import Results
from warpline.study._runner import Failure, run_missing
from warpline.study._study import Study
from warpline.study._told import RAISED, StudyError, naming, told

AT_ONCE = 32
"""How many runs in dilated time are made at once at most: each has guests, which need memory."""

PATIENCE_S = 10
"""How long a scheduler has to answer, in seconds."""


@dataclass(frozen=True)
class Done:
    """What came out of a figure: the judgement, the runs that failed, and the files of its results; and why its table or picture could not be drawn."""

    judged: Judged
    failures: Sequence[Failure]
    files: Sequence[Path]
    not_drawn: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing failed, and results and declaration agree."""
        return not self.failures and not self.not_drawn and self.judged.good


def run(
    *names: str | os.PathLike[str],
    quick: bool = False,
    force: bool = False,
    keep: bool = False,
    only: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    executor: ExecutorLike | None = None,
    page: str | os.PathLike[str] | None = None,
    repro: str | os.PathLike[str] | None = None,
    said: Callable[[Done], object] = lambda _: None,
) -> list[Done]:
    """Runs and judges figures. Results stay beside the declarations, so that what is there is not run again.

    Args:
        names: PAPER/FIGURE, PAPER, FILE.py or FILE.py:FIGURE.
        quick: Whether to run the quick form, whose results are apart from those of the full one.
        force: Whether to run what is there already, too.
        keep: Whether results of other builds of Warpline count as there. Those of other kernels and stacks do not.
        only: Which points are run: for an axis a value, a collection of values, or a function that says whether a value is chosen. The others keep the
            results that they have.
        jobs: How many processes to use; by default one per CPU, and up to `AT_ONCE` for runs in dilated time, which leave the machine idle most of the time.
        executor: Runs the runs in place of processes: of concurrent.futures, or dask's `client.get_executor()`. It is not shut down.
        page: A page to write that shows the progress and refreshes itself: a new file in a directory that is there, or a regular file that is replaced.
        repro: The directory with the papers, if it is not found.
        said: Called with what came out of each figure, as soon as it is known.

    Raises:
        TypeError: If a name is neither text nor path, `jobs` is no whole number, or `quick`, `force` or `keep` is neither true nor false.
        ValueError: If `jobs` is below 1.
        StudyError: If a name is unknown, a declaration cannot be read, or the page cannot be a file at its place; or, when the other figures have ended, if a
            scenario has errors or one of them or a claim raised an error.
        NoPointsError: If a figure has none of the points.
        RunError: When the other figures have ended, if the results of one could not be read or written.
        MissingDependencyError: If cloudpickle is not installed.
    """
    for name in names:
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(f"{name!r}: a name is a text, such as PAPER/FIGURE, or a path")
    for what, given in (("quick", quick), ("force", force), ("keep", keep)):
        if not isinstance(given, bool):
            raise TypeError(f"{what}={given!r}: write True or False")
    jobs = None if jobs is None else checked_jobs(whole(jobs, f"jobs={jobs!r}"))
    chosen = [(declared, figure) for declared, figures in find([os.fspath(name) for name in names], None if repro is None else Path(repro)) for figure in figures]
    studies = [declared.study(figure, quick=quick) for declared, figure in chosen]
    counts = [Counts(study.name) for study in studies]
    for study in studies:
        study.figure.chosen(only or {})
    progress = Progress(counts, sys.stderr if wanted() else None, None if page is None else to_write(Path(page)))
    done = []
    errors: list[WarplineError] = []
    finished = False
    try:
        at_once = jobs or AT_ONCE
        # The lock of the machine is freed last: on Ctrl-C runs that need it go on until the processes have ended.
        with contextlib.ExitStack() as machine, _executor(executor, jobs or cores()) as workers, _here(executor, at_once) as here:
            for (declared, _), study, count in zip(chosen, studies, counts, strict=True):
                try:
                    one = _one(declared, study, workers, here, at_once, machine, count, force=force, keep=keep, only=only)
                except MissingDependencyError:
                    raise
                except RAISED as error:
                    # Whatever it is, the figures after this one can do without it.
                    known = isinstance(error, (RunError, OSError))
                    errors.append(error if isinstance(error, StudyError) else RunError(f"{count.name}: {error}") if known else _unforeseen(count.name, error))
                    count.verdict = str(error)
                    continue
                count.verdict = f"{runs(len(one.failures))} failed" if one.failures else one.judged.short
                progress.erase()
                said(one)
                done.append(one)
        finished = True
    finally:
        progress.close(finished=finished)
    if errors:
        unwritten = any(isinstance(error, RunError) for error in errors)
        raise errors[0] if len(errors) == 1 else (RunError if unwritten else StudyError)("\n".join(map(str, errors)))
    return done


def _unforeseen(name: str, error: BaseException) -> StudyError:
    """An error that is none of ours, with its traceback as what it came of."""
    made = StudyError(f"{name}: {told(error)}")
    made.__cause__ = error
    return made


def _one(
    declared: Declared,
    study: Study,
    executor: ExecutorLike,
    here: ExecutorLike | None,
    at_once: int,
    machine: contextlib.ExitStack,
    counts: Counts,
    *,
    force: bool,
    keep: bool,
    only: Mapping[str, Any] | None,
) -> Done:
    dumps = cloud_dumps(declared.package)
    if dumps is None:
        raise MissingDependencyError(
            "a study needs cloudpickle, which is not installed; install it with: pip install 'warpline[study]'"
        )
    failures = run_missing(study, executor, dumps, here=here, at_once=at_once, machine=machine, force=force, keep=keep, only=only, counts=counts)
    try:
        one = judged(study)
    except StudyError as error:
        # A claim may raise it because of them.
        raise StudyError("\n  ".join([str(error), *failed(failures)])) from error
    not_drawn = ""
    try:
        draw(study, one, counts.say)
    except StudyError as error:
        not_drawn = str(error)
    # Where all runs failed there are no results.
    return Done(one, failures, [path for path in [study.results_path] if path.exists()] + drawn(study), not_drawn)


def draw(study: Study, one: Judged, say: Callable[[str], object]) -> None:
    """Writes the table and the picture of the results that are kept, beside them. A table or picture that cannot be made of these results is removed if an earlier
    one is there: people would take it for theirs. Only where matplotlib is not installed, an earlier picture stays.

    Args:
        study: The figure.
        one: Its judgement, with its results.
        say: Told that a picture is not drawn because matplotlib is not installed.

    Raises:
        StudyError: If one cannot be drawn.
    """
    errors = []
    makers: list[tuple[str, Callable[[Figure, Results, Mapping[str, Scalar]], bytes | None]]] = [("table", _table), ("picture", svg)]
    for path, (part, make) in zip(_beside(study), makers, strict=True):
        made: bytes | None = None
        try:
            with naming(f"{one.name}, {part}"):
                made = make(study.figure, one.kept.results, one.kept.no_numbers) if one.kept.results.cells or one.kept.no_numbers else None
        except MissingDependencyError as error:
            # It may be right, and need not be lost because a package is missing.
            say(f"not drawn: {error}" + (f"; {path.name} is an earlier one" if path.exists() else ""))
            continue
        except StudyError as error:
            errors.append(str(error))
        if made is None:
            path.unlink(missing_ok=True)
        else:
            write_whole(path, made)
    if errors:
        raise StudyError("; ".join(errors))


def drawn(study: Study) -> list[Path]:
    """The files of the table and the picture, as far as there are any."""
    return [path for path in _beside(study) if path.exists()]


def _beside(study: Study) -> list[Path]:
    return [study.results_path.with_suffix(suffix) for suffix in (".md", ".svg")]


def _table(figure: Figure, results: Results, no_numbers: Mapping[str, Scalar]) -> bytes:
    return f"# {figure.title}\n\n{markdown(figure, results, no_numbers)}".encode()


@contextlib.contextmanager
def _executor(given: ExecutorLike | None, jobs: int) -> Iterator[ExecutorLike]:
    if given is not None:
        yield given
        return
    with Workers(jobs, hidden=True) as workers:
        yield workers


def _here(given: ExecutorLike | None, jobs: int) -> contextlib.AbstractContextManager[ExecutorLike | None]:
    """What makes runs that need this machine, unless there is an executor, which may be elsewhere. Its processes start when there is work."""
    return contextlib.nullcontext() if given is not None else _executor(None, jobs)


@contextlib.contextmanager
def dask(address: str) -> Iterator[ExecutorLike]:
    """The workers of a Dask cluster as an executor. A run whose worker dies is made again by another.

    Raises:
        StudyError: If the scheduler cannot be reached.
        MissingDependencyError: If dask is not installed.
    """
    if not address:
        raise StudyError("the address of the Dask scheduler is empty; write it as tcp://host:8786")
    distributed: Any = require("distributed", "dask", "a Dask cluster")
    try:
        # In a thread of its own: a notebook has an event loop in this one.
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(asyncio.run, _identity(distributed, address)).result()
        if found.get("type") != "Scheduler":
            raise ValueError(f"it is a {str(found.get('type')).lower()}")
        client = distributed.Client(address, timeout=PATIENCE_S)
    # Before Python 3.11, that of asyncio is none of the others.
    except (OSError, ValueError, asyncio.TimeoutError) as error:
        raise StudyError(f"no Dask scheduler at {address}: {str(error) or 'nothing answers as one does'}") from error
    try:
        if not found.get("workers"):
            print(f"the Dask scheduler at {address} has no workers; runs wait until there are some", file=sys.stderr, flush=True)
        yield client.get_executor()
    finally:
        client.close()


async def _identity(distributed: Any, address: str) -> Mapping[str, Any]:
    """What a server of Dask says of itself. Dask's own client waits for ever for a server of another kind, which has nothing to say to it."""

    async def ask() -> Any:
        async with distributed.rpc(address, connection_args=distributed.Security().get_connection_args("client")) as server:
            return await server.identity()

    found = await asyncio.wait_for(ask(), PATIENCE_S)
    return found if isinstance(found, Mapping) else {}
