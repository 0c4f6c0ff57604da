"""A figure with its results: what tells its runs from each other, and what is kept of them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from warpline._scenario import Scenario
from warpline._sweep import Scalar
from warpline.study import _code, _imported, _machine
from warpline.study._declare import DECLARED_AXES, RESERVED, UNABLE, Figure
from warpline.study._points import Point
from warpline.study._progress import runs
from warpline.study._results import LINE, Results
from warpline.study._seeds import Until, first, most
from warpline.study._store import Row, Store, number
from warpline.study._told import StudyError, naming

MANY = 1000
"""The most runs of a figure of which a judgement makes the scenario of each. A point counts with the most seeds that it may get."""

CHECKED = 100
"""How many scenarios a judgement makes and compares if a figure has more than `MANY` runs."""

Finder = Callable[[Point, int], Sequence[Row]]
"""Finds the rows of a run by its point and seed; none if it has not run."""


class Identity(NamedTuple):
    """What tells runs and their results apart.

    Attributes:
        results: A hash of what decides the results of a run at a point. Two points of the same scenario may differ: where measures read the point, and where
            runs need the machine, as each has results of its own then.
        scenario: The scenario; None for a model.
        run: A hash of what runs, whatever is measured: points of the same scenario have the same.
    """

    results: str
    scenario: Scenario | None
    run: str


@dataclass(frozen=True)
class Kept:
    """What is kept of a figure.

    Attributes:
        results: The results of what is declared.
        builds: What made them: builds of Warpline, and other programs whose means stand in for points.
        others: How many runs are kept that are not declared any more.
        lacking: The points that have fewer seeds than they get.
        runs: How many runs there are of what is declared. One that points share counts for each of them.
        machines: The machines of the runs that needed one, in words.
        unable: What could not be run on this machine, and why, in words.
        no_numbers: The measures of which no run has a number, each with one of its texts, or None if it has none. `results` has numbers only.
    """

    results: Results
    builds: Sequence[str]
    others: int
    lacking: Sequence[Point]
    runs: int = 0
    machines: Sequence[str] = ()
    unable: Sequence[str] = ()
    no_numbers: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """How many points have fewer seeds than they get."""
        return len(self.lacking)


class Study:
    """A figure with its name PAPER/FIGURE, the directory of its declaration, the file of its results, and the names of the files that it is declared in: the
    declaration's own first, then those of the modules beside it that it imports."""

    def __init__(self, name: str, figure: Figure, directory: Path, results_path: Path, files: Sequence[str]) -> None:
        self.name = name
        self.figure = figure
        self.directory = directory
        self.results_path = results_path
        self.files = files
        self._axes = json.dumps(figure.axes)
        named = figure.measures if figure.model is None and isinstance(figure.measures, Mapping) else None
        # The columns that a row can have. A function tells its measures with a run only.
        self._columns = None if named is None else frozenset((*RESERVED, *figure.axes, *named))

    def identity(self, point: Point, seed: int) -> Identity:
        """What tells a run and its results from others.

        Raises:
            StudyError: If the scenario has errors, or what makes it raises one.
        """
        if self.figure.model is not None:
            model = f"model:{_code.digest(self.figure.model, self._values(point))}"
            return Identity(model, None, model)
        scenario = self._scenario(point, seed)
        made = scenario.hash
        # Each run that needs the machine says something of its own about the machine, so another point with the same scenario has another result.
        of_point = self.figure.reads_point or self.figure.takes(scenario) > 0
        results = f"point:{hashlib.sha256(f'{made} {self._values(point)}'.encode()).hexdigest()}" if of_point else made
        return Identity(results, scenario, made)

    def hash_of(self, point: Point, seed: int) -> str:
        """A hash of what decides the results of a run at a point. Errors as of `identity`."""
        return self.identity(point, seed).results

    def _values(self, point: Point) -> str:
        """The values of the axes and settings at a point, as text."""
        return json.dumps({**self.figure.settings, **point}, sort_keys=True)

    def _scenario(self, point: Point, seed: int) -> Scenario:
        with naming(f"{self.name}, scenario of {dict(point)}, seed {seed}"):
            return self.figure.built(point, seed, self.directory)

    def find(self, store: Store, identity: Identity, point: Point, seed: int, ran: str | None = None, builds: str | None = None) -> list[Row]:
        """The rows of a run at a point, as `Store.find` has them. Runs that need the machine were once kept by the scenario alone: such a row counts, too, if
        it has the values of the point."""
        measured = self.figure.measured
        rows = store.find(identity.results, seed, measured, ran, builds)
        if not rows and not self.figure.reads_point and identity.results != identity.run:
            earlier = store.find(identity.run, seed, measured, ran, builds)
            rows = earlier if earlier and all(earlier[0].get(axis) == value for axis, value in point.items()) else []
        return rows

    def store(self) -> Store:
        """The results that are kept.

        Raises:
            RunError: If they cannot be read.
        """
        return Store(self.results_path, self.figure.allows, alone=self.figure.alone)

    def as_declared(self, row: Row, point: Point) -> dict[str, Scalar]:
        """A row of a run at a point as it is under what is declared now: with the values of the present axes, and without those that the figure had when the
        run was made. They would be taken for measures."""
        if self._columns is None:
            earlier = json.loads(str(row.get(DECLARED_AXES) or "[]"))
            own = {name: value for name, value in row.items() if name in point or name not in earlier}
        else:
            own = {name: value for name, value in row.items() if name in self._columns}
        # The point as declared: a column of the file has one type, and an axis may have several.
        return {**own, **point, DECLARED_AXES: self._axes}

    def kept(self) -> Kept:
        """The results that are kept of what is declared.

        Raises:
            RunError: If they cannot be read.
            StudyError: If a scenario has errors, or what makes it raises one.
        """
        store = self.store()
        imported = _imported.cells(self.figure, self.hash_of, self.results_path)
        if not store and not imported:
            return Kept(Results([]), [], 0, self.figure.points)
        declared: list[tuple[int, int]] = []
        rows: list[Row] = []
        lacking: list[Point] = []
        for point, runs_of_point in self._declared(store):
            found: dict[int, Sequence[Row]] = {}
            for seed, lines in runs_of_point.items():
                declared.append(_run_of(lines, seed))
                # How many seeds `Until` adds depends on those before: after one that is missing, they wait for it.
                if isinstance(self.figure.seeds, Until) and seed > len(found) + 1:
                    continue
                found[seed] = [self.as_declared(row, point) for row in lines]
                rows += found[seed]
            if len(found) < self._wanted(point, found):
                lacking.append(point)
        names = dict.fromkeys(name for row in rows for name in row if name not in (*RESERVED, *self.figure.axes))
        own = Results.of(rows, self.figure.axes, list(names)).cells
        # What another program has measured counts where nothing was run here.
        measured_here = {self._place(cell.where) for cell in own}
        others = [(cell, made_by) for cell, made_by in imported if self._place(cell.where) not in measured_here]
        covered = {self._place(cell.where) for cell, _ in others}
        order = {self._place(point): number for number, point in enumerate(self.figure.points)}
        cells = sorted([*own, *(cell for cell, _ in others)], key=lambda cell: order[self._place(cell.where)])
        lacking = [point for point in lacking if self._place(point) not in covered]
        builds = store.builds(declared) + sorted({maker for _, made_by in others for maker in made_by})
        unable, no_numbers = _unable(rows, self.figure.points), _without_numbers(rows, names)
        return Kept(Results(cells), builds, store.others(declared), lacking, len(declared), _machine.told(rows), unable, no_numbers)

    def _declared(self, store: Store) -> Iterator[tuple[Point, dict[int, Sequence[Row]]]]:
        """Each point that is declared, with the rows of those of its runs that are kept, by seed. Errors as of `kept`."""
        find = self._finder(store, sum(most(self.figure.seeds, point) for point in self.figure.points))
        seeds = store.seeds
        for point in self.figure.points:
            last = most(self.figure.seeds, point)
            found = ((seed, find(point, seed)) for seed in seeds if seed <= last)
            yield point, {seed: lines for seed, lines in found if lines}

    def prune(self) -> int:
        """Drops the runs that are not declared any more, and returns how many there were.

        Raises:
            RunError: If the results cannot be read or written, or a study writes them.
            StudyError: If no run would be left, or as `kept` raises it.
        """
        if not self.store():
            return 0
        with self.store() as store:
            declared = [_run_of(lines, seed) for _, runs_of_point in self._declared(store) for seed, lines in runs_of_point.items()]
            if not declared:
                raise StudyError(f"{self.name}: none of the {runs(len(store))} that are kept is declared; to drop them all, delete {self.results_path}")
            return store.drop_others(declared)

    def _wanted(self, point: Point, rows: Mapping[int, Sequence[Row]]) -> int:
        """How many seeds a point needs, as far as these rows tell: it begins with the first ones, and is widened as a study does it."""
        count = first(self.figure.seeds, point)
        while isinstance(self.figure.seeds, Until) and count <= len(rows):
            so_far = {seed: rows[seed] for seed in sorted(rows)[:count]}
            if any(could_not_be_made(run) for run in so_far.values()):
                break
            wanted = self.figure.seeds.wanted(by_line(so_far, self.figure.seeds.of), count)
            if wanted <= count:
                break
            count = wanted
        return count

    def _finder(self, store: Store, count: int) -> Finder:
        """How the rows of a run are found: by the hash of its scenario. Where there are very many, it would take minutes to make all scenarios. Then they
        are found by point and seed, if the declaration was the same when they were made, and if some of them, drawn at random, have the scenarios that are declared."""
        measured = self.figure.measured

        def exact(point: Point, seed: int) -> Sequence[Row]:
            return self.find(store, self.identity(point, seed), point, seed)

        if count <= MANY:
            return exact
        places = store.places(self.figure.axes, self.figure.declared, measured)
        points = {self._place(point): point for point in self.figure.points}
        known = [at for at in places if at[0] in points]
        for place, seed in random.Random(0).sample(known, min(CHECKED, len(known))):
            identity = self.identity(points[place], seed)
            if places[place, seed][0]["scenario"] not in (number(identity.results), number(identity.run)):
                return exact
        # Runs that were kept for another declaration, as words in place of numbers, or for another point of the same scenario are found by the hash only.
        lacking = [point for place, point in points.items() if (place, 1) not in places]
        others = len(known) < len(store) or any(exact(point, 1) for point in random.Random(0).sample(lacking, min(CHECKED, len(lacking))))
        return lambda point, seed: places.get((self._place(point), seed), ()) or (exact(point, seed) if others else ())

    def _place(self, where: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
        """The values of the axes."""
        return tuple(where[axis] for axis in self.figure.axes)


def _run_of(rows: Sequence[Row], seed: int) -> tuple[int, int]:
    """What names a run in the store: the number of its scenario, and its seed."""
    return int(rows[0]["scenario"] or 0), seed


def could_not_be_made(rows: Sequence[Row]) -> bool:
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


def _without_numbers(rows: Sequence[Row], measures: Iterable[str]) -> dict[str, Scalar]:
    """The measures of which no row has a number, each with one of its texts, or None if it has none. Runs that could not be made say nothing of measures."""
    made = [row for row in rows if row.get(UNABLE) is None]
    found = {measure: next((row[measure] for row in made if row.get(measure) is not None), None) for measure in measures} if made else {}
    return {measure: value for measure, value in found.items() if value is None or isinstance(value, str)}


def _values(axis: str, rows: Iterable[Mapping[str, Scalar]]) -> dict[Scalar, None]:
    return dict.fromkeys(row[axis] for row in rows)


def by_line(rows: Mapping[int, Sequence[Row]], measure: str) -> list[list[float]]:
    """The values of a measure for each line, in the order of the seeds."""
    found: dict[Scalar, list[float]] = {}
    for seed in sorted(rows):
        for row in rows[seed]:
            value = row.get(measure)
            if isinstance(value, (int, float)):
                found.setdefault(row.get(LINE), []).append(float(value))
    return list(found.values())
