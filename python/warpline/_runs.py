"""A set of runs of one scenario with several seeds: tables with a column of seeds, a report with means and intervals."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import overload

from warpline._errors import RunError
from warpline._pool import cores
from warpline._progress import Observer
from warpline._run import Run
from warpline._warpline import LARGEST_SEED, Progress, Table, report_seeds, seeds_in


class RunSet(Sequence[Run]):
    """The runs of several seeds: a sequence of `Run`, in the order in which the seeds were given.

    Each table joins those of the runs, one below the other; the first column is `seed`.
    """

    def __init__(self, runs: Sequence[Run], directory: Path | None = None) -> None:
        """For warpline's own use: `Scenario.run(seeds=...)` and `RunSet.open` make sets."""
        self._runs = list(runs)
        self._directory = directory

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> RunSet:
        """Opens a directory of several seeds that `warpline run --seeds` or `Scenario.run(seeds=..., out=...)` wrote.

        Raises:
            RunError: If it holds no runs of seeds, or if one of them cannot be read.
        """
        path = Path(directory)
        seeds = seeds_in(path)
        if not seeds:
            raise RunError(f"{path} holds no runs of seeds (seed-1 and so on); a single run is opened with Run.open")
        return cls([Run.open(seed_directory(path, seed)) for seed in seeds], path)

    @property
    def directory(self) -> Path | None:
        """The directory with the runs; None for runs that are in memory only."""
        return self._directory

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of the runs."""
        return [run.summary["seed"] for run in self._runs]

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> RunSet: ...
    def __getitem__(self, index: int | slice) -> Run | RunSet:
        """The run at a place, or a part of the set for a slice."""
        return RunSet(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def _joined(self, pick: Callable[[Run], Table]) -> Table:
        return Table.of_seeds([(run.summary["seed"], pick(run)) for run in self._runs])

    @cached_property
    def flows(self) -> Table:
        """A row per seed and flow."""
        return self._joined(lambda run: run.flows)

    @cached_property
    def links(self) -> Table:
        """A row per seed and link direction."""
        return self._joined(lambda run: run.links)

    @cached_property
    def transfers(self) -> Table:
        """A row per seed and transfer of a given size, web object or batch of messages."""
        return self._joined(lambda run: run.transfers)

    @cached_property
    def series_flows(self) -> Table:
        """A row per seed, flow and sampling interval."""
        return self._joined(lambda run: run.series_flows)

    @cached_property
    def series_links(self) -> Table:
        """A row per seed, link direction and sampling interval."""
        return self._joined(lambda run: run.series_links)

    @cached_property
    def tcp(self) -> Table:
        """Events of recorded TCP endpoints, of all seeds."""
        return self._joined(lambda run: run.tcp)

    @cached_property
    def packets(self) -> Table:
        """Packet events of recorded links, of all seeds."""
        return self._joined(lambda run: run.packets)

    @cached_property
    def dilation(self) -> Table:
        """Time dilation factors of dilated runs, of all seeds."""
        return self._joined(lambda run: run.dilation)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes an HTML report: means with 95 % confidence intervals, curves with bands, each run; returns its path."""
        report_seeds(os.fspath(path), [run._native for run in self._runs])
        return Path(path)

    def __reduce__(self) -> tuple[type[RunSet], tuple[list[Run], Path | None]]:
        """For pickle, as of `Run`."""
        return type(self), (self._runs, self._directory and self._directory.absolute())

    def __repr__(self) -> str:
        scenario = self._runs[0].summary["scenario"] if self._runs else "no runs"
        return f"<warpline.RunSet {scenario}: seeds {', '.join(map(str, self.seeds))}>"


def seed_directory(directory: Path, seed: int) -> Path:
    """The run directory of a seed, inside the directory of a set."""
    return directory / f"seed-{seed}"


def checked_seed(seed: int, what: str) -> int:
    """A seed as a whole number. `what` is how an error begins.

    Raises:
        ValueError: If it is no number that a seed can be.
    """
    number = operator.index(seed)
    if not 0 <= number <= LARGEST_SEED:
        raise ValueError(f"{what} {number}: a seed is a whole number from 0 to {LARGEST_SEED}")
    return number


def checked(seeds: Iterable[int]) -> list[int]:
    """The seeds as a list of whole numbers.

    Raises:
        ValueError: If there is none, if one is named twice, or if one is no number that a seed can be.
    """
    numbers = [checked_seed(seed, "seeds has") for seed in seeds]
    if not numbers:
        raise ValueError("seeds is empty: name at least one seed")
    if len(set(numbers)) != len(numbers):
        raise ValueError("a seed is named twice: it would give the same run twice")
    return numbers


def check_force(force: bool, out: object) -> None:
    """Refuses `force` where there is nothing that it lets be replaced.

    Raises:
        ValueError: If no directory is named.
    """
    if force and out is None:
        raise ValueError("force=True lets what is in the run directory be replaced, and none is named: name it (out=...), or leave out force")


def checked_jobs(jobs: int | None) -> int | None:
    """How many runs are made at once, as a whole number; None is one per CPU.

    Raises:
        TypeError: If it is no whole number.
        ValueError: If it is below 1.
    """
    if jobs is None:
        return None
    try:
        number = operator.index(jobs)
    except TypeError:
        raise TypeError(f"jobs={jobs!r}: give a whole number from 1, or leave out jobs") from None
    if number < 1:
        raise ValueError(f"jobs={jobs!r}: at least one run is made at a time; give a number from 1, or leave out jobs")
    return number


def at_once(seeds: Sequence[int], jobs: int | None) -> int:
    """How many of the seeds run at once."""
    return max(1, min(cores() if jobs is None else jobs, len(seeds)))


Failed = list[tuple[int, RunError]]
"""Seeds that failed, and why."""


def run_seeds(
    seeds: Sequence[int], threads: int, one: Callable[[int, Observer], Run], observer: Observer | None
) -> tuple[list[Run], Failed]:
    """Runs the seeds in threads that do not hold the interpreter. Returns the runs in the order of the seeds, and the seeds that failed; one that
    fails does not stop the others.

    Raises:
        KeyboardInterrupt: On Ctrl-C; it stops the runs under way.
    """
    stop = threading.Event()

    def observe(progress: Progress) -> bool:
        if observer is not None and observer(progress) is False:
            stop.set()
        return not stop.is_set()

    runs: list[Run] = []
    failed: Failed = []
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(one, seed, observe) for seed in seeds]
        try:
            for seed, future in zip(seeds, futures, strict=True):
                try:
                    runs.append(future.result())
                except RunError as error:
                    failed.append((seed, error))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return runs, failed


def failure_of(failed: Failed, count: int) -> RunError:
    """The error that says which of so many seeds failed, and why."""
    texts: dict[str, list[int]] = {}
    for seed, failure in failed:
        texts.setdefault(str(failure), []).append(seed)
    told = "\n".join(f"seed {', '.join(map(str, which))}: {text}" for text, which in texts.items())
    return RunError(f"{len(failed)} of {count} seeds failed:\n{told}")
