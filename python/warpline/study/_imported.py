"""Means that another program has measured of the same scenarios, in a file beside a figure's own results.

They stand in for points that the figure has not run itself. Each row has what made it, and a hash of the scenarios of all its seeds, so that it counts only
as long as these are what is declared.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warpline._errors import WarplineError
from warpline._sweep import Scalar, column
from warpline._warpline import Table
from warpline.study._declare import Figure
from warpline.study._points import Point
from warpline.study._results import LINE, Cell
from warpline.study._seeds import first
from warpline.study._store import reading

HALF_WIDTH, SEEDS = "half_width_95", "seeds"
"""Columns that a table of means has."""


class ImportFailedError(WarplineError, ValueError):
    """A table cannot be taken for results of a figure."""


HashOf = Callable[[Point, int], str]
"""The hash of what decides the results of a run at a point, by its point and seed (`Study.hash_of`)."""


def path_of(results: Path) -> Path:
    """The file beside the results of a figure that has the means."""
    return results.with_name(f"{results.stem}.imported.parquet")


def take(figure: Figure, hash_of: HashOf, results: Path, table: Path, names: Mapping[str, str], fixed: Mapping[str, str], made_by: str) -> int:
    """Takes the means of a CSV file over, and returns how many.

    Args:
        figure: The figure.
        hash_of: Hashes what decides the results of a run.
        results: The file of the figure's own results.
        table: The file: a row for each point and line, with a mean, and columns `HALF_WIDTH` (may be empty) and `SEEDS`.
        names: The axes, "line" and the measure, by the heading of the file's columns.
        fixed: Axes that have one value in the whole file.
        made_by: What has measured them.

    Raises:
        ImportFailedError: If the file cannot be read, a column is missing, or a row is none of the figure's points or one that was there before, has no numbers,
            or has too few seeds.
        RunError: If the results cannot be written.
    """
    headings, table_rows = _rows(table)
    measures = [name for name in names.values() if name not in (*figure.axes, LINE)]
    if len(measures) != 1:
        raise ImportFailedError(
            f"--column names {' and '.join(measures) or 'no column'} as the measure; name one, as HEADING=NAME (the axes are {', '.join(figure.axes)}, "
            f"and lines are called {LINE}); {table} has the columns {', '.join(headings) or 'none'}"
        )
    (measure,) = measures
    if isinstance(figure.measures, Mapping) and figure.model is None and measure not in figure.measures:
        raise ImportFailedError(f"{figure.name} has no measure {measure!r}, so that nothing would read it; there are {', '.join(figure.measures)}")
    points = {_place(figure, point): point for point in figure.points}

    def place(row: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
        return (row["measure"], *_place(figure, row), row[LINE])

    rows: dict[tuple[Scalar, ...], dict[str, Scalar]] = {}
    lines: dict[tuple[Scalar, ...], int] = {}
    if missing := [heading for heading in (*names, HALF_WIDTH, SEEDS) if heading not in headings]:
        raise ImportFailedError(f"{table}: no column {missing[0]!r}; there are {', '.join(headings) or 'none'}")
    if not table_rows:
        raise ImportFailedError(f"{table} has no rows below its headings")
    for number, row in table_rows:
        found = {**fixed, **{name: row[heading] for heading, name in names.items()}}
        point = points.get(_place(figure, found))
        if point is None:
            raise ImportFailedError(f"{table}:{number}: {found} is no point of {figure.name}")
        try:
            mean, half, seeds = _finite(found[measure]), _finite(row[HALF_WIDTH]) if row[HALF_WIDTH] else None, int(row[SEEDS])
        except ValueError as error:
            raise ImportFailedError(f"{table}:{number}: {error}; a mean, {HALF_WIDTH} (or nothing) and {SEEDS} are numbers") from None
        if half is not None and half < 0:
            raise ImportFailedError(f"{table}:{number}: {HALF_WIDTH} is {half:g}; half of an interval is not below 0")
        if seeds < first(figure.seeds, point):
            raise ImportFailedError(f"{table}:{number}: a mean over {seeds} seeds; at {dict(point)}, {figure.name} has {first(figure.seeds, point)} at least")
        taken: dict[str, Scalar] = {
            **point,
            LINE: found.get(LINE),
            "measure": measure,
            "mean": mean,
            "half_width": half,
            "seeds": seeds,
            "scenarios": _scenarios(hash_of, point, seeds),
            "made_by": made_by,
        }
        at = place(taken)
        if at in lines:
            raise ImportFailedError(f"{table}:{number}: another mean of {found}; line {lines[at]} has the first, and a point and line have one")
        rows[at], lines[at] = taken, number
    out = path_of(results)
    before = [row for row in _read(out) if place(row) not in rows] if out.exists() else []
    every = [*before, *rows.values()]
    out.parent.mkdir(parents=True, exist_ok=True)
    columns = dict.fromkeys(name for row in every for name in row)
    Table.from_columns({name: column([row.get(name) for row in every]) for name in columns}).write(out)
    return len(rows)


def _rows(table: Path) -> tuple[Sequence[str], list[tuple[int, dict[str, str]]]]:
    """The headings of a table, and its rows with the numbers of their lines. A row that is too short has nothing in the last columns."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            return reader.fieldnames or [], [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise ImportFailedError(f"{table} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ImportFailedError(f"{table} is no table of text with commas: {error}") from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value


def cells(figure: Figure, hash_of: HashOf, results: Path) -> list[tuple[Cell, set[str]]]:
    """The means that may stand in for points, each cell with what made them."""
    path = path_of(results)
    if not path.exists():
        return []
    points = {_place(figure, point): point for point in figure.points}
    known: dict[tuple[int, int], str] = {}
    gathered: dict[tuple[Scalar, ...], tuple[Cell, set[str]]] = {}
    for row in _read(path):
        point = points.get(_place(figure, row))
        if point is None:
            continue
        seeds = int(row["seeds"] or 0)
        if seeds < first(figure.seeds, point):
            continue
        at = (id(point), seeds)
        if at not in known:
            known[at] = _scenarios(hash_of, point, seeds)
        if row["scenarios"] != known[at]:
            continue
        line = row[LINE]
        cell, made_by = gathered.setdefault((*point.values(), line), (Cell({**point, **({} if line is None else {LINE: line})}, {}, {}, {}), set()))
        made_by.add(str(row["made_by"]))
        half = row["half_width"]
        measure = str(row["measure"])
        cell.samples[measure] = [float(row["mean"] or 0)]  # type: ignore[index]
        cell.widths[measure] = math.nan if half is None else float(half)  # type: ignore[index]
        cell.seeds[measure] = [0]  # type: ignore[index]
    return list(gathered.values())


def _read(path: Path) -> list[dict[str, Scalar]]:
    with reading(path):
        table = Table.read(path)
        if lacking := [name for name in (LINE, "measure", "mean", "half_width", "seeds", "scenarios", "made_by") if name not in table.column_names]:
            raise LookupError(f"no column {lacking[0]}")
        columns = {name: table[name] for name in table.column_names}
    return [{name: values[number] for name, values in columns.items()} for number in range(len(table))]


def _scenarios(hash_of: HashOf, point: Point, seeds: int) -> str:
    return hashlib.sha256("\n".join(hash_of(point, seed) for seed in range(1, seeds + 1)).encode()).hexdigest()[:16]


def _place(figure: Figure, where: Mapping[str, Scalar]) -> tuple[str, ...]:
    """The values of the figure's axes as text; nothing for one that was not there when a mean was taken over: then it is of no point."""
    return tuple(_plain(where.get(axis, "")) for axis in figure.axes)


def _plain(value: Scalar) -> str:
    """A value as text that is the same for 10, 10.0 and "10", and for True, "True" and "true"."""
    if isinstance(value, bool) or str(value) in ("True", "False"):
        return str(value).lower()
    try:
        return repr(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)
