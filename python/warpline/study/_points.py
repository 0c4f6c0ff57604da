"""The points of an experiment: a grid, a list, or drawn from ranges."""

from __future__ import annotations

import itertools
import math
import random as _random
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, SupportsIndex, TypeAlias

from warpline._frames import require
from warpline._sweep import Scalar

Point: TypeAlias = Mapping[str, Scalar]
"""A point: a value for each axis, by its name."""


def plain(value: Any, what: str) -> Scalar:
    """A value of an axis or a setting as it is kept: numbers and texts of other libraries, and of enumerations, become Python's own.

    Args:
        value: The value.
        what: What has it, which is how an error begins.

    Raises:
        TypeError: If it is none that can be kept.
    """
    if getattr(value, "shape", None) == () and callable(item := getattr(value, "item", None)):
        value = item()  # A number of numpy's.
    if value is None or type(value) in (bool, int, float, str):
        return value  # type: ignore[no-any-return]
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    raise TypeError(
        f"{what} is a {type(value).__name__} ({reprlib.repr(value)}); what is kept is text, a number, true or false, or None: name it by a text, and make it of that in the scenario or model"
    )


def grid(**axes: Iterable[Scalar]) -> list[Point]:
    """Every combination of the values of the axes. The last axis varies fastest.

    Raises:
        TypeError: If an axis is a text, which is one value and no list of its letters, or another single value; or if a value is none that can be kept.
    """
    for name, axis in axes.items():
        if isinstance(axis, str) or not isinstance(axis, Iterable):
            raise TypeError(f"{name}={axis!r}: an axis is a list of values, even of one: {name}=[{axis!r}]")
    values = [[plain(value, f"a value of the axis {name}") for value in axis] for name, axis in axes.items()]
    return [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*values)]


def points(items: Iterable[Point]) -> list[Point]:
    """A list of points, each a mapping with the same axes.

    Raises:
        TypeError: If it is no list of mappings.
    """
    listed = None if isinstance(items, (str, Mapping)) or not isinstance(items, Iterable) else list(items)
    if listed is None or not all(isinstance(item, Mapping) for item in listed):
        raise TypeError(f"study.points({reprlib.repr(items)}): write a list of points, even of one, each a mapping: study.points([{{'x': 1}}])")
    return [dict(item) for item in listed]


@dataclass(frozen=True)
class Range:
    """Values from which points are drawn."""

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    words: tuple[Scalar, ...] = ()

    def at(self, share: float) -> Scalar:
        """The value below which this share (0 to 1) of the range lies."""
        if self.words:
            return self.words[min(int(share * len(self.words)), len(self.words) - 1)]
        if self.log:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        if self.whole:
            return min(math.floor(self.low + share * (self.high - self.low + 1)), int(self.high))
        return self.low + share * (self.high - self.low)


def _ordered(low: float, high: float) -> None:
    for value in (low, high):
        if not is_number(value):
            raise TypeError(f"a range from {low!r} to {high!r}: write two numbers")
        if not math.isfinite(value):
            raise ValueError(f"a range from {low} to {high}: write two finite numbers")
    if not low < high:
        raise ValueError(f"a range from {low} to {high} is empty: the first value is the smaller one")


def uniform(low: float, high: float) -> Range:
    """Any number between two others."""
    _ordered(low, high)
    return Range(low, high)


def log(low: float, high: float) -> Range:
    """Any positive number between two others, each factor being as likely: rates, sizes, probabilities."""
    _ordered(low, high)
    if low <= 0:
        raise ValueError(f"a logarithmic range from {low}: its values are above 0")
    return Range(low, high, log=True)


def integers(low: int, high: int) -> Range:
    """A whole number between two others, which may be drawn too."""
    low, high = (whole(value, f"study.integers({low!r}, {high!r})") for value in (low, high))
    _ordered(low, high)
    return Range(low, high, whole=True)


def choice(*words: Scalar) -> Range:
    """One of several values."""
    if not words:
        raise ValueError("a choice of nothing: name at least one value")
    if len(words) == 1 and isinstance(words[0], (list, tuple)):
        raise TypeError(f"study.choice({reprlib.repr(words[0])}): write the values without brackets: study.choice('nice', 'reno')")
    return Range(words=tuple(plain(word, "a value of study.choice") for word in words))


def random(count: int, *, seed: int = 1, **axes: Range) -> list[Point]:
    """Points drawn at random, independently of each other. A point that is drawn twice is there once, so that of few words and whole numbers there may be fewer
    than `count`.

    Raises:
        TypeError: If `count` is no whole number, or an axis is no range.
        ValueError: If `count` is below 1.
    """
    count = _some(count, "random")
    draw = _random.Random(seed)
    return _drawn([[draw.random() for _ in axes] for _ in range(count)], axes)


def sobol(count: int, *, seed: int = 1, **axes: Range) -> list[Point]:
    """Points of a scrambled Sobol sequence, which fill a space of many axes more evenly than random ones. A `count` that is a power of two is best.
    A point that is drawn twice is there once.

    Raises:
        TypeError: If `count` is no whole number, or an axis is no range.
        ValueError: If `count` is below 1.
        MissingDependencyError: If scipy is not installed.
    """
    count = _some(count, "sobol")
    qmc: Any = require("scipy.stats.qmc", "study", "study.sobol()")
    sampler = qmc.Sobol(d=max(len(axes), 1), scramble=True, seed=seed)
    # Scipy warns of other counts than powers of two, of which a part is taken here.
    drawn = sampler.random_base2(math.ceil(math.log2(count)))[:count]
    return _drawn([[float(share) for share in row] for row in drawn], axes)


def sample(points: Sequence[Point], count: int, *, seed: int = 1) -> list[Point]:
    """Some points of a list, drawn at random, none of them twice. They stay in the order of the list.

    Raises:
        TypeError: If `count` is no whole number.
        ValueError: If the list has fewer points.
    """
    count = whole(count, f"study.sample(..., {count!r})")
    if not 0 <= count <= len(points):
        raise ValueError(f"{count} of {len(points)} points: at least 0 are drawn, and at most all")
    return [points[place] for place in sorted(_random.Random(seed).sample(range(len(points)), count))]


def is_number(value: object) -> bool:
    """Whether it is a number, which may be one of numpy's."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(number: object, what: str) -> int:
    """A whole number, which may be one of numpy's.

    Raises:
        TypeError: If it is none.
    """
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"{what}: a whole number is needed")
    return number.__index__()


def _some(count: object, maker: str) -> int:
    """How many points are drawn."""
    number = whole(count, f"study.{maker}({count!r})")
    if number < 1:
        raise ValueError(f"study.{maker}({number}): at least one point is drawn")
    return number


def _drawn(shares: Sequence[Sequence[float]], axes: Mapping[str, Range]) -> list[Point]:
    for name, axis in axes.items():
        if not isinstance(axis, Range):
            raise TypeError(f"{name}={axis!r}: points are drawn from study.uniform, study.log, study.integers or study.choice")
    drawn = [{name: axis.at(share) for (name, axis), share in zip(axes.items(), row, strict=True)} for row in shares]
    return list({tuple(point.values()): point for point in drawn}.values())
