"""How many seeds a point gets."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

from warpline._intervals import half_width
from warpline.study._points import Point, whole


@dataclass(frozen=True)
class Until:
    """Seeds until the interval of a mean is narrow enough. `study.until` makes one."""

    width: float
    of: str
    least: int
    most: int

    def wanted(self, lines: Sequence[Sequence[float]], count: int) -> int:
        """How many seeds a point needs, as far as one knows from the `count` that it has: for each line, the values of the measure. A line may have fewer values
        than there are seeds. A point without any line needs no more than the least."""
        if count < self.least:
            return self.least
        wanted = count
        for values in lines:
            half = half_width(values)
            if math.isnan(half):
                return self.most
            mean = statistics.fmean(values)
            if half <= self.width * abs(mean):
                continue
            # The width falls with the root of the number; what a few seeds say of it is uncertain, so never more than twice as many.
            needed = count * (half / (self.width * abs(mean))) ** 2 if mean else math.inf
            wanted = max(wanted, count + 1, math.ceil(min(needed, 2 * count)))
        return min(wanted, self.most)


def until(width: float, *, of: str, least: int = 5, most: int = 30) -> Until:
    """Seeds 1, 2 and so on, until half of the 95 % interval of the measure `of` is at most `width` of its mean, for each line of a point.

    At least `least` seeds are run and at most `most`. With lines that differ by chance a lot, `most` decides; the results have the width reached. A point
    of which no run has a number of that name gets `least`; a study in which none has one ends with a `StudyError`.

    Raises:
        TypeError: If a number is none, or `of` is no name.
        ValueError: If `width` is no share, `of` is empty, `least` is below 2, or `most` is below `least`.
    """
    for what, given, kind, needed in (("width", width, Real, "a share of the mean between 0 and 1, such as 0.05"), ("of", of, str, "the name of a measure")):
        if not isinstance(given, kind):
            raise TypeError(f"{what}={given!r}: {needed}")
    least, most = whole(least, f"least={least!r}"), whole(most, f"most={most!r}")
    if not 0 < width < 1:
        raise ValueError(f"width={width}: a share of the mean between 0 and 1, such as 0.05")
    if not of:
        raise ValueError("of='': write the name of a measure")
    if not 2 <= least <= most:
        raise ValueError(f"least={least}, most={most}: at least 2 seeds, and no more than `most`")
    return Until(width, of, least, most)


Seeds: TypeAlias = "int | Until | Callable[[Point], int]"
"""How many seeds a point gets: a number, until an interval is narrow, or a number that depends on the point."""


def first(seeds: Seeds, point: Point) -> int:
    """How many seeds a point gets to begin with."""
    return seeds.least if isinstance(seeds, Until) else most(seeds, point)


def most(seeds: Seeds, point: Point) -> int:
    """How many seeds a point gets at most."""
    if isinstance(seeds, Until):
        return seeds.most
    count = seeds(point) if callable(seeds) else seeds
    count = whole(count, f"{count!r} seeds at {dict(point)}" if callable(seeds) else f"seeds={count!r}")
    if count < 1:
        raise ValueError(f"{count} seeds at {dict(point)}; at least one is run")
    return count
