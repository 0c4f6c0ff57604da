"""The results of an experiment, as claims and pictures read them."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warpline._errors import WarplineError
from warpline._intervals import half_width
from warpline._sweep import Scalar
from warpline.study._points import Point, is_number

LINE = "line"
"""The column that names the lines of measures which return a mapping."""


class NoResultsError(WarplineError, LookupError):
    """Nothing has been measured yet of what is asked for."""


@dataclass(frozen=True)
class Cell:
    """A line at a point: each measure's value for each seed.

    Attributes:
        where: The values of the axes, with the line under "line" if the measures have lines.
        samples: The values by measure, in the order of the seeds; the mean alone, if that is all that is known.
        widths: Half of the 95 % confidence interval of the mean, where the mean alone is known.
        seeds: The seeds of the values by measure, where they are not 1, 2 and so on. The mean alone has the seed 0, which is no run's.
    """

    where: Mapping[str, Scalar]
    samples: Mapping[str, Sequence[float]]
    widths: Mapping[str, float] = field(default_factory=dict)
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def by_seed(self, measure: str) -> dict[int, float]:
        """The values of a measure by their seeds."""
        values = self.samples[measure]
        return dict(zip(self.seeds.get(measure, range(1, len(values) + 1)), values, strict=True))

    def mean(self, measure: str) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.samples[measure])

    def half_width(self, measure: str) -> float:
        """Half of the 95 % confidence interval of the mean over the seeds; nan of one seed."""
        return self.widths[measure] if measure in self.widths else half_width(self.samples[measure])


class Results:
    """What was measured, a cell for each point and line.

    `where` arguments choose cells: by a value (`flows=16`), a collection of values (`flows=[1, 2]`) or a function (`flows=lambda n: n >= 40`).
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.cells = [cell for cell in cells if cell.samples]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Scalar]], axes: Sequence[str], measures: Sequence[str]) -> Results:
        """Gathers rows, which are in the order of their points and seeds."""
        gathered: dict[tuple[Scalar, ...], dict[str, dict[int, float]]] = {}
        for row in rows:
            samples = gathered.setdefault(tuple(row.get(axis) for axis in (*axes, LINE)), {})
            for measure in measures:
                value = row.get(measure)
                if isinstance(value, (int, float)):
                    samples.setdefault(measure, {})[int(row["seed"] or 0)] = float(value)
        cells = []
        for values, samples in gathered.items():
            where = {name: value for name, value in zip((*axes, LINE), values, strict=True) if name != LINE or value is not None}
            cells.append(_cell(where, samples))
        return cls(cells)

    def where(self, **where: Any) -> Results:
        """The cells that are chosen.

        Raises:
            NoResultsError: If there is none. The text says so if there is no axis of a name.
        """
        found = [cell for cell in self.cells if all(is_chosen(cell.where.get(name), wanted) for name, wanted in where.items())]
        if not found:
            self._refuse_unknown(where)
            told = ", ".join(f"{name}={value!r}" for name, value in where.items() if not callable(value))
            raise NoResultsError(f"no run with {told}" if told else "no run")
        return Results(found)

    @property
    def axes(self) -> list[str]:
        """The names of the axes, and "line" if the measures have lines."""
        return list(dict.fromkeys(name for cell in self.cells for name in cell.where))

    @property
    def measures(self) -> list[str]:
        """The names of the measures."""
        return list(dict.fromkeys(name for cell in self.cells for name in cell.samples))

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        known = self.axes
        for name in names:
            if known and name not in known:
                raise NoResultsError(f"no axis {name!r}; there are {', '.join(known)}")

    def _no_results(self, measure: str, at: str = "") -> NoResultsError:
        """The error that a measure has no results, which says what there is if the measure is nowhere."""
        known = self.measures
        return NoResultsError(f"no results of {measure}{at}" + ("" if measure in known or not known else f"; there are {', '.join(known)}"))

    def means(self, measure: str, **where: Any) -> list[float]:
        """The mean of each cell."""
        return [cell.mean(measure) for cell in self.where(**where).cells if measure in cell.samples]

    def mean(self, measure: str, **where: Any) -> float:
        """The mean of the cells' means; of one cell, its mean over the seeds."""
        return statistics.fmean(self._some(measure, where))

    def min(self, measure: str, **where: Any) -> float:
        """The smallest mean; nan if one is nan."""
        # Python's own order of nan and numbers depends on which comes first.
        return min(self._some(measure, where), key=lambda mean: (not math.isnan(mean), mean))

    def max(self, measure: str, **where: Any) -> float:
        """The largest mean; nan if one is nan."""
        return max(self._some(measure, where), key=lambda mean: (math.isnan(mean), mean))

    def samples(self, measure: str, **where: Any) -> list[float]:
        """The value of each cell and seed."""
        return [value for cell in self.where(**where).cells for value in cell.samples.get(measure, ())]

    def distribution(self, measure: str, *, alike: str | None = None, **where: Any) -> list[tuple[float, float]]:
        """The values of all cells and seeds in rising order, each with the share of the whole that is no larger.

        With `alike`, the name of an axis, each value of that axis weighs the same, however many samples it has.

        Raises:
            NoResultsError: If there are none.
            ValueError: If a value is nan, which has no place in an order.
        """
        cells = self.where(**where).cells
        for cell in cells:
            nans = [seed for seed, value in cell.by_seed(measure).items() if math.isnan(value)] if measure in cell.samples else []
            if nans:
                raise ValueError(f"{measure} is nan at {dict(cell.where)}, seed {nans[0]}, and nan has no place in a distribution; let the measure return None where there is no value")
        samples = [(value, cell.where[alike] if alike else None) for cell in cells for value in cell.samples.get(measure, ())]
        if not samples:
            raise self._no_results(measure)
        counts = Counter(group for _, group in samples)
        each = math.lcm(*counts.values())
        # In whole numbers, so that the last share is 1.
        weighed = sorted((value, each // counts[group]) for value, group in samples)
        sums = itertools.accumulate(weight for _, weight in weighed)
        return [(value, so_far / (each * len(counts))) for (value, _), so_far in zip(weighed, sums, strict=True)]

    def quantile(self, measure: str, share: float, *, alike: str | None = None, **where: Any) -> float:
        """The smallest value that is not below this share of all of them: 0.5 for the median. `alike` and errors as in `distribution`.

        Raises:
            ValueError: If the share is no number from 0 to 1.
        """
        if not (is_number(share) and 0 <= share <= 1):
            raise ValueError(f"quantile({measure!r}, {share!r}): the share is a number from 0 to 1, such as 0.5 for the median")
        return next(value for value, so_far in self.distribution(measure, alike=alike, **where) if so_far >= share)

    def share_up_to(self, most: float, measure: str, *, alike: str | None = None, **where: Any) -> float:
        """The share of the values that are `most` or less. `alike` and errors as in `distribution`."""
        return max((so_far for value, so_far in self.distribution(measure, alike=alike, **where) if value <= most), default=0.0)

    def half_width(self, measure: str, **where: Any) -> float:
        """Half of the 95 % confidence interval of the mean over the seeds of one cell; nan of one seed."""
        cells = self.where(**where).cells
        if len(cells) != 1:
            raise ValueError(f"{len(cells)} cells: an interval is of one point and line")
        if measure not in cells[0].samples:
            raise self._no_results(measure, f" at {dict(cells[0].where)}")
        return cells[0].half_width(measure)

    def series(self, measure: str, x: str, **where: Any) -> list[tuple[Any, float, float]]:
        """Value of the axis `x`, mean and half width (0 where unknown) of each cell, in the order of the points."""
        found = [
            (cell.where[x], cell.mean(measure), cell.half_width(measure))
            for cell in self.where(**where).cells
            if measure in cell.samples
        ]
        return [(at, mean, 0.0 if math.isnan(half) else half) for at, mean, half in found]

    def values(self, axis: str) -> list[Scalar]:
        """The values of an axis, in the order of the points."""
        return list(dict.fromkeys(cell.where[axis] for cell in self.cells if axis in cell.where))

    def rising(self, measure: str, x: str, **where: Any) -> float:
        """By how much the mean at the largest `x` is above that at the smallest, as a ratio: above 1 where it rises. Of several cells at an `x`, the mean."""
        means: dict[Any, list[float]] = {}
        for at, mean, _ in self.series(measure, x, **where):
            means.setdefault(at, []).append(mean)
        if len(means) < 2:
            raise NoResultsError(f"one value of {x}: it takes two to rise")
        first, last = (statistics.fmean(means[at]) for at in (min(means), max(means)))
        return last / first if first else math.inf if last else math.nan

    def paired(
        self,
        measure: str,
        axis: str,
        pairs: Mapping[str, tuple[Scalar, Scalar]],
        how: Callable[[float, float], float],
        name: str,
    ) -> Results:
        """Values of an axis against each other, seed by seed, where all other axes are the same.

        Args:
            measure: What is compared.
            axis: The axis, which the new cells do not have.
            pairs: Two values of it by the name of their line, which follows that of the measure's own line, if it has lines: "A, Nice - Reno".
            how: Compares their results.
            name: What the comparison is called as a measure.

        Cells that lack their counterpart are left out, and so are seeds.
        """
        found: dict[Scalar, dict[tuple[tuple[str, Scalar], ...], Cell]] = {}
        for cell in self.cells:
            if measure in cell.samples and axis in cell.where:
                place = tuple((other, value) for other, value in cell.where.items() if other != axis)
                found.setdefault(cell.where[axis], {})[place] = cell
        cells = []
        for line, (first, second) in pairs.items():
            theirs = found.get(second, {})
            for place, cell in found.get(first, {}).items():
                if place in theirs:
                    ours, others = cell.by_seed(measure), theirs[place].by_seed(measure)
                    values = {seed: how(value, others[seed]) for seed, value in ours.items() if seed in others}
                    where = dict(place)
                    own = where.get(LINE)
                    named = line if own is None else f"{own}, {line}" if line else own
                    cells.append(_cell({**where, LINE: named}, {name: values}))
        return Results(cells)

    def matched(self, measure: str, axis: str, first: Scalar, second: Scalar, **where: Any) -> list[tuple[float, float]]:
        """The means at two values of an axis, in pairs of cells that are the same in all other axes.

        Raises:
            NoResultsError: If there are none, or if one lacks its counterpart.
        """
        ones, others = (
            {frozenset((name, value) for name, value in cell.where.items() if name != axis): cell.mean(measure) for cell in self.where(**{**where, axis: wanted}).cells if measure in cell.samples}
            for wanted in (first, second)
        )
        if not ones or ones.keys() != others.keys():
            raise NoResultsError(f"no results of {measure} for both {axis}={first!r} and {axis}={second!r} at each point")
        return [(mean, others[place]) for place, mean in ones.items()]

    def averaged(self, *axes: str) -> Results:
        """Results with these axes only: for each seed, the mean over the cells that do not differ in them. Of cells with fewer seeds than others, those seeds that all have.
        They are in the order of the axes: numbers rise, words stay as they are."""
        gathered: dict[tuple[tuple[str, Scalar], ...], list[Cell]] = {}
        for cell in self.cells:
            gathered.setdefault(tuple((axis, cell.where[axis]) for axis in axes if axis in cell.where), []).append(cell)
        places = {axis: {value: number for number, value in enumerate(rising(self.values(axis)))} for axis in axes}
        gathered = dict(sorted(gathered.items(), key=lambda item: [places[axis][value] for axis, value in item[0]]))
        # A cell by itself keeps the width of its interval.
        alone = {place: cells[0].widths for place, cells in gathered.items() if len(cells) == 1}
        return Results(_cell(dict(place), _seed_means(cells), alone.get(place, {})) for place, cells in gathered.items())

    def changed(self, change: Callable[[Cell, str, Sequence[float]], Sequence[float]]) -> Results:
        """Results with other samples, to see whether a judgement notices."""
        return Results(
            replace(cell, samples={measure: change(cell, measure, values) for measure, values in cell.samples.items()})
            for cell in self.cells
        )

    def filled(self, lacking: Sequence[Point], points: Sequence[Point], value: Callable[[float], float]) -> Results:
        """Results with a value for each line and measure of the points that lack runs. `value` gets the largest size of the measure's means. Cells are in the order of `points`,
        all points of the figure."""
        axes = list(points[0])

        def at(where: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
            return tuple(where[axis] for axis in axes)

        places = {at(point): number for number, point in enumerate(points)}
        others = {at(point) for point in lacking}
        sizes: dict[str, float] = {}
        for cell in self.cells:
            for measure in cell.samples:
                sizes[measure] = max(sizes.get(measure, 0.0), abs(cell.mean(measure)))
        lines = dict.fromkeys(cell.where.get(LINE) for cell in self.cells)
        added = [
            Cell({**point, **({} if line is None else {LINE: line})}, {measure: [value(size or 1.0)] for measure, size in sizes.items()})
            for point in lacking
            for line in lines
        ]
        known = (cell for cell in self.cells if at(cell.where) not in others)
        return Results(sorted([*known, *added], key=lambda cell: places[at(cell.where)]))

    def shuffled(self) -> Results:
        """Results whose cells have each other's samples, in the reverse order."""
        return Results(replace(cell, samples=other.samples, seeds=other.seeds) for cell, other in zip(self.cells, self.cells[::-1], strict=True))

    def _some(self, measure: str, where: Mapping[str, Any]) -> list[float]:
        found = self.means(measure, **where)
        if not found:
            raise self._no_results(measure)
        return found


def rising(values: list[Any]) -> list[Any]:
    """Numbers in their order; words, and words with numbers, as they are."""
    return sorted(values) if all(isinstance(value, (int, float)) for value in values) else values


def _cell(where: Mapping[str, Scalar], values: Mapping[str, Mapping[int, float]], widths: Mapping[str, float] | None = None) -> Cell:
    """A cell of values by measure and seed. A measure without any is left out."""
    known = {measure: by_seed for measure, by_seed in values.items() if by_seed}
    samples = {measure: list(by_seed.values()) for measure, by_seed in known.items()}
    return Cell(where, samples, widths or {}, {measure: list(by_seed) for measure, by_seed in known.items()})


def _seed_means(cells: Sequence[Cell]) -> dict[str, dict[int, float]]:
    """The mean of some cells for each seed that all have, by measure."""
    found: dict[str, dict[int, float]] = {}
    for measure in dict.fromkeys(measure for cell in cells for measure in cell.samples):
        one, *others = (cell.by_seed(measure) for cell in cells if measure in cell.samples)
        found[measure] = {seed: statistics.fmean([value, *(other[seed] for other in others)]) for seed, value in one.items() if all(seed in other for other in others)}
    return found


def is_chosen(value: Scalar, wanted: Any) -> bool:
    """Whether a value is chosen: by a value, a collection of values, or a function."""
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, Collection) and not isinstance(wanted, str):
        return value in wanted
    return bool(value == wanted)
