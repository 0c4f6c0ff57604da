"""Many runs of one scenario, over a grid of parameters and seeds, on all cores or a cluster. The results are one table."""

from __future__ import annotations

import itertools
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from warpline import _toml
from warpline._columns import columns
from warpline._congestion import CcFactories
from warpline._errors import SweepError, WarplineError
from warpline._part import encode
from warpline._pool import ExecutorLike, Workers, cloud_dumps, cores
from warpline._run import Run
from warpline._runs import check_force, checked, checked_jobs
from warpline._scenario import Scenario
from warpline._warpline import Table

Scalar = bool | int | float | str | None
"""A value in a cell of the table."""

Metrics = Callable[[Run], Mapping[str, Scalar]]
"""A function that returns further figures of a run, by the name of their column."""


TABLES = {"run": "totals", "group": "groups", "flow": "flows", "link": "links"}
"""What a row can be, and the table that its columns are from."""

OWN = ("point", "seed", "error")
"""Columns that every row has."""


@dataclass(frozen=True)
class _Point:
    """One run of the grid, as it is sent to a worker. `labels` are the columns that say which one it is."""

    scenario: Scenario
    changes: tuple[str, ...]
    labels: tuple[str, ...]
    seed: int
    out: str | None
    by: str
    cc: CcFactories | None
    metrics: Metrics | None
    force: bool


def sweep(
    scenario: Scenario,
    parameters: Mapping[str, Iterable[Any]],
    *,
    seeds: Iterable[int] | None = None,
    jobs: int | None = None,
    executor: ExecutorLike | None = None,
    by: Literal["run", "group", "flow", "link"] = "run",
    metrics: Metrics | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    cc: CcFactories | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Table:
    """Runs a scenario for every combination of parameters and seeds and returns one table of parameters and metrics.

        table = warpline.sweep(
            scenario,
            {"flow.bulk.cc": ["cubic", "nice"], "link.0.rate": ["5Mbit/s", "10Mbit/s"]},
            seeds=range(5),
        )
        table.polars().group_by("flow.bulk.cc").agg(polars.col("goodput_bps").mean())

    The rows are in the order of the grid, whichever point ran first: the seed varies fastest, then the last parameter. A point
    that fails has its error in the column `error`, and no metrics; a warning says how many failed.

    Args:
        scenario: What to run.
        parameters: Lists of values, by the paths of `Scenario.set`. A path may not be the name of another column, such as "seed".
        seeds: Seeds to run each combination with; by default the seed of the scenario. Those that it plans are `scenario.seeds`.
        jobs: How many processes to use; by default one per CPU. 1 runs the points in this process. With the package cloudpickle
            (`pip install 'warpline[sweep]'`), congestion controls and metrics may be defined anywhere, also in a notebook.
            Without it, each process imports the main module: a script needs `if __name__ == "__main__":`, and a notebook
            `executor=ThreadPoolExecutor()`.
        executor: Runs the points in place of processes. It is not shut down. If Ctrl-C or another exception ends the sweep, the points that have not
            begun are cancelled.
        by: What a row is: a run, a group of flows, a flow or a link direction.
        metrics: A function that takes a `Run` and returns further columns, by names that no other column has. The values of one name are all numbers,
            all text, or all true or false; None where there is none. A column with several of these becomes text, and a warning says so.
        out: Directory for the run directories of the points: "0000", "0001" and so on.
        force: Whether those of an earlier sweep may be replaced.
        cc: Congestion controls written in Python, as in `Scenario.run`.
        progress: Called with the number of points done and the number of all points.

    Raises:
        SweepError: If every point fails, or if something defined in a notebook cannot be sent to the processes.
        TypeError: If the values of a parameter are a text, which is one value and no list of its letters, or `jobs` is no whole number.
        ValueError: If a parameter has the name of another column, `by` is none of the four words, a parameter has no values, there are no seeds or wrong ones,
            `jobs` is below 1, or `force` is without `out`.
    """
    if by not in TABLES:
        raise ValueError(f"by={by!r}: a row is a run, a group, a flow or a link")
    jobs = checked_jobs(jobs)
    check_force(force, out)
    _check_names(parameters, by)
    if seeds is None:
        scenario._warn_of_planned_seeds(stacklevel=2)
    seed_list = [scenario.seed] if seeds is None else checked(seeds)
    combinations = list(itertools.product(*_lists(parameters), seed_list))
    points, labels = [], []
    for number, (*values, seed) in enumerate(combinations):
        changes = tuple(f"{path}={toml_value(value)}" for path, value in zip(parameters, values, strict=True))
        directory = None if out is None else str(Path(out) / f"{number:04}")
        points.append(_Point(scenario, changes, (*OWN, *parameters), seed, directory, by, cc, metrics, force))
        label: dict[str, Scalar] = {"point": number}
        label |= {path: cell(value) for path, value in zip(parameters, values, strict=True)}
        label["seed"] = seed
        labels.append(label)
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
    if jobs is None:
        jobs = cores()
    outcomes = _execute(points, min(jobs, len(points)), executor, progress)
    failed = [error for error, _ in outcomes if error is not None]
    if failed and len(failed) == len(points):
        raise SweepError(f"all {len(points)} points of the sweep failed; the first:\n{failed[0]}")
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(points)} points of the sweep failed; the column `error` says why. The first: {failed[0]}",
            stacklevel=2,
        )
    rows: list[dict[str, Scalar]] = []
    for label, (error, found) in zip(labels, outcomes, strict=True):
        rows += [{**label, "error": error, **row} for row in (found if error is None else [{}])]
    names = dict.fromkeys(name for row in rows for name in row)
    whole = {name: [row.get(name) for row in rows] for name in names}
    mixed = [name for name, values in whole.items() if name not in parameters and len(_kinds(values)) > 1]
    if mixed:
        warnings.warn(
            f"metrics returned values of several kinds for {', '.join(mixed)}, so that all of them are text in the table; return numbers only, text only, "
            "or true and false only, and None where there is no value",
            stacklevel=2,
        )
    # Where nothing has failed, the column has no value that says so.
    return Table.from_columns({name: column(values) for name, values in whole.items()}, text=["error"])


def _check_names(parameters: Iterable[str], by: str) -> None:
    """Refuses parameters whose column would have the name of another."""
    for path in parameters:
        if path == "seed":
            raise ValueError("parameters has 'seed', which is the column with the seed of each run; give the seeds apart: seeds=[3, 4]")
        if path in OWN or path in columns(TABLES[by]):
            raise ValueError(
                f"parameters has {path!r}, and so has each row of the table (by={by!r}), where it is another thing; choose another `by`, or leave it out: "
                "the column point says which point a row is of"
            )


def _lists(parameters: Mapping[str, Iterable[Any]]) -> list[list[Any]]:
    """The values of each parameter."""
    found = []
    for path, values in parameters.items():
        if isinstance(values, str):
            raise TypeError(f"{path!r} has {values!r}: a parameter has a list of values, even of one: [{values!r}]")
        found.append(list(values))
        if not found[-1]:
            raise ValueError(f"{path!r} has no values, so that nothing would run; name at least one")
    return found


Outcome = tuple[str | None, list[dict[str, Scalar]]]
"""The error of a point, or None, and its rows."""


def _execute(
    points: Sequence[_Point], jobs: int, executor: ExecutorLike | None, progress: Callable[[int, int], object] | None
) -> list[Outcome]:
    """The outcomes of the points, in their order."""

    def gathered(results: Iterable[Callable[[], Outcome]]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for result in results:
            try:
                outcomes.append(result())
            except Exception as error:  # A worker that died, or a point that cannot be sent to it.
                outcomes.append((f"{type(error).__name__}: {error}", []))
            if progress is not None:
                progress(len(outcomes), len(points))
        return outcomes

    if executor is not None:
        futures: list[Any] = []
        try:
            for point in points:
                futures.append(executor.submit(_run_point, point))
            return gathered([future.result for future in futures])
        except BaseException:
            # The executor goes on after this, and what waits would be run all the same.
            for future in futures:
                future.cancel()
            raise
    if jobs <= 1:
        return gathered(partial(_run_point, point) for point in points)
    packed, whole = _packed(points)
    with Workers(jobs, hidden=whole) as workers:
        return gathered([workers.submit(_run_packed, data).result for data in packed])


def _main_only(point: _Point) -> list[str]:
    """Names that the point needs from a main module that other processes cannot import: a notebook, a prompt, `python -c`."""
    main = sys.modules.get("__main__")
    # A program from standard input has "<stdin>" as its file.
    if os.path.exists(getattr(main, "__file__", None) or "") or getattr(main, "__spec__", None) is not None:
        return []
    needed: list[Any] = [*(point.cc or {}).values(), *([] if point.metrics is None else [point.metrics])]
    owners = [item if hasattr(item, "__qualname__") else type(item) for item in needed]
    return [owner.__qualname__ for owner in owners if owner.__module__ == "__main__"]


def _packed(points: Sequence[_Point]) -> tuple[list[bytes], bool]:
    """The points as bytes for other processes, and whether these include what the points need from the main module.

    cloudpickle, if installed, includes what is defined in a script or notebook, and functions without a name.
    """
    cloud = cloud_dumps()
    if cloud is None:
        missing = _main_only(points[0]) if points else []
        if missing:
            raise SweepError(
                f"{', '.join(missing)}: defined in a notebook or at the prompt, where other processes cannot find it; "
                "pip install 'warpline[sweep]' (cloudpickle), or move it to a module, or pass executor=ThreadPoolExecutor() or jobs=1"
            )
    dumps: Callable[[Any], bytes] = cloud or pickle.dumps
    try:
        return [dumps(point) for point in points], cloud is not None
    except Exception as error:
        raise SweepError(
            f"a point cannot be sent to another process ({type(error).__name__}: {error}): use functions and classes of a "
            "module, or install cloudpickle, or pass executor=ThreadPoolExecutor() or jobs=1"
        ) from error


def _run_packed(data: bytes) -> Outcome:
    """Runs a point that came as bytes."""
    try:
        point = pickle.loads(data)
    except Exception as error:
        return f"a worker cannot read the point ({type(error).__name__}: {error})", []
    return _run_point(point)


def _run_point(point: _Point) -> Outcome:
    """Runs one point, in any process."""
    try:
        run = point.scenario.set(*point.changes).run(
            seed=point.seed, cores=1, out=point.out, force=point.force, progress=False, cc=point.cc
        )
        rows = _rows(run, point.by)
        if point.metrics is not None:
            extra = {name: _metric(name, value) for name, value in point.metrics(run).items()}
            known = set(point.labels).union(*rows)
            if taken := [name for name in extra if name in known]:
                raise ValueError(f"metrics returned {', '.join(taken)}, which the table has already; give it another name")
            rows = [{**row, **extra} for row in rows]
        return None, rows
    except WarplineError as error:
        return str(error), []
    except Exception as error:
        return f"{type(error).__name__}: {error}", []


def _rows(run: Run, by: str) -> list[dict[str, Scalar]]:
    summary = run.summary
    entries: Any  # Mappings of scalars.
    if by == "run":
        drops = sum(
            link["drops_overflow"] + link["drops_aqm"] + link["drops_loss"] + link["drops_down"] for link in summary["links"]
        )
        arrivals = sum(link["arrivals"] for link in summary["links"])
        sent = sum(flow["sent_packets"] for flow in summary["flows"])
        again = sum(flow["retransmitted_packets"] for flow in summary["flows"])
        entries = [
            {
                **summary["totals"],
                "loss_ratio": drops / arrivals if arrivals else None,
                "retransmit_ratio": again / sent if sent else None,
                # A link that had no rate has none.
                "utilisation_max": max((used for link in summary["links"] if (used := link["utilisation"]) is not None), default=None),
                "queue_delay_max_ms": max((link["queue_delay_max_ms"] for link in summary["links"]), default=None),
                "simulated_s": summary["simulated_s"],
                "packet_hops": summary["packet_hops"],
            }
        ]
    elif by == "group":
        entries = summary["groups"]
    elif by == "flow":
        entries = summary["flows"]
    else:
        entries = summary["links"]
    return [dict(entry) for entry in entries]


def _metric(name: Any, value: Any) -> Scalar:
    """A value that metrics returned, as a cell of the table.

    Raises:
        TypeError: If its name is no text.
        ValueError: If a column cannot have it.
    """
    if not isinstance(name, str):
        raise TypeError(f"metrics returned {name!r} as the name of a column; names are text")
    return plain(value, f"metrics returned for {name}", "return a number, text, true or false, or None")


def plain(value: Any, what: str, allowed: str) -> Scalar:
    """A value as a column keeps it. An error begins with `what`, and says what is `allowed`.

    Raises:
        ValueError: If a column cannot have it.
    """
    found: Any = getattr(value, "item", lambda: value)()  # A number of numpy's.
    if not isinstance(found, (bool, int, float, str, type(None))):
        raise ValueError(f"{what} {type(found).__name__}; {allowed}")
    if isinstance(found, int) and not fits_64_bits(found):
        raise ValueError(f"{what} a whole number of {found.bit_length()} bits; a column has 64, and float(...) makes a number that fits")
    return found


def fits_64_bits(value: int) -> bool:
    """Whether a column of numbers can have a whole number: one of 64 bits."""
    return -(2**63) <= value < 2**63


def toml_value(value: Any) -> str:
    """A value as text for a change, after the "="."""
    return _toml.text(encode(value))


def cell(value: Any) -> Scalar:
    """A value as a cell of the table: a scalar as it is, a part by its kind, anything else as text.

    A congestion control of your own appears by its name, "gentle"; one with parameters as "vegas(alpha=1.0)".
    """
    plain = encode(value)
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return plain
    if isinstance(plain, Mapping) and isinstance(plain.get("kind"), str):
        rest = {key: item for key, item in plain.items() if key != "kind" and item is not None}
        if plain["kind"] == "custom" and list(rest) == ["name"]:
            return str(rest["name"])
        words = ", ".join(f"{key}={item if isinstance(item, str) else _toml.text(item)}" for key, item in rest.items())
        return f"{plain['kind']}({words})" if words else str(plain["kind"])
    return _toml.text(plain)


def kind(value: bool | int | float | str) -> str:
    """What a column of such values has, in words: one column has one kind."""
    return "text" if isinstance(value, str) else "true or false" if isinstance(value, bool) else "a number"


def _kinds(values: Iterable[Scalar]) -> set[str]:
    return {kind(value) for value in values if value is not None}


def column(values: list[Scalar]) -> list[Scalar]:
    """The values of one column; all as text if they are of different kinds. The text of a number has all its digits."""
    return values if len(_kinds(values)) <= 1 else [None if value is None else str(value) for value in values]
