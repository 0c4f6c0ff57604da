"""What a paper says of a figure, and whether our results agree."""

from __future__ import annotations

import math
import random
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

from warpline._sweep import Scalar
from warpline.study._bounds import Bound
from warpline.study._points import Point
from warpline.study._results import NoResultsError, Results
from warpline.study._told import RAISED


_INCOMPLETE = (NoResultsError, ArithmeticError, ValueError)
"""What reading a value raises where results are missing: nothing to choose from, nothing to divide by, lists of different lengths."""


def _instead() -> Iterator[Callable[[float], float]]:
    """Values in the place of runs that are missing, to see whether a claim reads them, each by the largest size of its measure: beyond all others on both sides, so that each
    maximum, minimum and place in an order notices; and different ones, so that what compares the missing runs with each other does."""
    yield lambda largest: 1e3 * largest
    yield lambda largest: -1e3 * largest
    for seed in range(4):
        draw = random.Random(seed)
        yield lambda largest, draw=draw: draw.uniform(-2, 2) * largest  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One thing that the paper says.

    Attributes:
        text: What it says, in a sentence.
        ours: Reads our value from the results.
        theirs: Their value; what is judged against, also if the paper has it in words only.
        bound: How far we may be.
        unit: The unit of both values.
        differs: Why ours differs, in one honest line. Allowed only if it does.
        quick: Whether the quick form is judged too. A short run may not show an effect that takes its time.
    """

    text: str
    ours: Callable[[Results], float]
    theirs: float
    bound: Bound
    unit: str = ""
    differs: str = ""
    quick: bool = True

    def __post_init__(self) -> None:
        for what, good, allowed in (
            ("text", isinstance(self.text, str), "a sentence"),
            ("ours", callable(self.ours), "a function of the results that returns a number"),
            ("theirs", isinstance(self.theirs, Real), "a number"),
            ("bound", isinstance(self.bound, Bound), "study.within(0.1) or the like, or a study.Bound"),
        ):
            if not good:
                raise TypeError(f"claim {self.text!r}: {what}={reprlib.repr(getattr(self, what))}: write {allowed}")
        if math.isnan(self.theirs):
            raise ValueError(f"claim {self.text!r}: theirs is not a number, so that no value of ours can be compared with it")
        if not self.bound.can_fail(self.theirs):
            raise ValueError(f"{self.text!r}: the bound {self.bound.text!r} refuses nothing, so this judgement cannot fail")

    def judge(self, results: Results) -> Verdict:
        """Compares our value with theirs."""
        if not results.cells:
            return Verdict(self, math.nan, "no results", "nothing has run yet")
        try:
            ours = float(self.ours(results))
        except _INCOMPLETE as error:
            return Verdict(self, math.nan, "no results", str(error))
        if math.isnan(ours):
            return Verdict(self, ours, "no results", "our value is not a number")
        met = self.bound.met(ours, self.theirs)
        if met and not self._notices(results):
            return Verdict(self, ours, "cannot fail", "it is met whatever the results are")
        if met and self.differs:
            return Verdict(self, ours, "agrees after all", f"it is met, but the declaration says why it is not: {self.differs}")
        if met:
            return Verdict(self, ours, "met")
        return Verdict(self, ours, "differs", self.differs) if self.differs else Verdict(self, ours, "not met", "the declaration does not say why")

    def waits_for(self, lacking: Sequence[Point], points: Sequence[Point], results: Results) -> bool:
        """Whether its value can change with the runs that are missing: it is read with several other values in their place.

        Args:
            lacking: The points that lack runs.
            points: All points of the figure.
            results: What is there.
        """
        try:
            ours = float(self.ours(results))
            return any(float(self.ours(results.filled(lacking, points, instead))) != ours for instead in _instead())
        except RAISED:  # It cannot do without them, or reads what stands for them.
            return True

    def _notices(self, results: Results) -> bool:
        """Whether it refuses results that are spoilt in some way."""
        return any(self._refuses(other) for other in _spoilt(results, self.theirs))

    def _refuses(self, results: Results) -> bool:
        """Whether these results have a value, and it is refused. What is no number (0/0) would be so whatever the bound is, and says nothing of the claim."""
        try:
            ours = float(self.ours(results))
        except RAISED:  # It needs to cope with results, not with spoilt ones.
            return False
        return math.isfinite(ours) and not self.bound.met(ours, self.theirs)


def _spoilt(results: Results, theirs: float) -> Iterator[Results]:
    """The results, spoilt in several ways: all of them too large or small, exchanged, growing from cell to cell, all the same, and each measure of each cell
    by a factor of its own; and, as no factor changes a 0, other values that are far from all that is there."""
    for factor in (0.0, -1.0, 1e-3, 1e3, 0.5, 2.0, 0.8, 1.25):
        yield results.changed(lambda _, __, values, factor=factor: [factor * value for value in values])  # type: ignore[misc]
    yield results.shuffled()
    for cells in (results.cells, results.cells[::-1]):
        order = {id(cell): float(place) for place, cell in enumerate(cells, 1)}
        yield results.changed(lambda cell, _, values, order=order: [order[id(cell)]] * len(values))  # type: ignore[misc]
    for constant in (1.0, 1e3 * max(1.0, abs(theirs)), -1e3 * max(1.0, abs(theirs))):
        yield results.changed(lambda _, __, values, constant=constant: [constant] * len(values))  # type: ignore[misc]
    draw = random.Random(0)
    for _ in range(8):
        powers = {(id(cell), measure): draw.uniform(-3, 3) for cell in results.cells for measure in cell.samples}
        # The other way round, too: a bound may refuse on one side only.
        for sign in (1, -1):
            yield results.changed(lambda cell, measure, values, powers=powers, sign=sign: [10 ** (sign * powers[id(cell), measure]) * value for value in values])  # type: ignore[misc]
            yield results.changed(lambda cell, measure, values, powers=powers, sign=sign: [sign * 10 ** (3 * powers[id(cell), measure])] * len(values))  # type: ignore[misc]


State = Literal["met", "differs", "not met", "incomplete", "no results", "agrees after all", "cannot fail"]
"""How a claim stands. "differs" is one that is not met with its reason given, "incomplete" one that missing runs may change, "no results" one that has no
value yet, "agrees after all" one whose reason is out of date, and "cannot fail" one that is met whatever the results are."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of a claim: our value, how it stands, and why if that needs a word."""

    claim: Claim
    ours: float
    state: State
    why: str = ""

    @property
    def good(self) -> bool:
        """Whether the declaration and the results agree: it is met, or differs as the declaration says."""
        return self.state in ("met", "differs")

    @property
    def so_far(self) -> Verdict:
        """What it is while runs are missing that may change it."""
        if self.state == "no results":
            return self
        return replace(self, state="incomplete", why=f"{self.state} so far" + (f": {self.why}" if self.why else ""))


def values(
    measure: str,
    theirs: Mapping[Any, float],
    *,
    by: Sequence[str] | str,
    bound: Bound,
    text: str,
    unit: str = "",
    differs: str | Mapping[Any, str] = "",
    quick: bool = True,
) -> list[Claim]:
    """A claim for each value of a table: `theirs` has the values by the axis or axes named in `by` ("line" for the lines of a measure).

    `differs` is a line for all values, or a mapping with lines for some. `quick=False` leaves them out of the quick form.
    """
    axes = [by] if isinstance(by, str) else list(by)
    if unknown := [key for key in differs if key not in theirs] if isinstance(differs, Mapping) else []:
        raise ValueError(f"differs has {unknown[0]!r}, which the table does not have; there are {', '.join(map(repr, theirs))}")
    claims = []
    for key, value in theirs.items():
        parts: tuple[Scalar, ...] = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(axes):
            raise ValueError(f"{key!r}: a value of the table is named by {', '.join(axes)}")
        where = dict(zip(axes, parts, strict=True))
        claims.append(
            Claim(
                text=f"{text}, {', '.join(str(part) for part in parts)}",
                ours=_mean_at(measure, where),
                theirs=value,
                bound=bound,
                unit=unit,
                differs=differs if isinstance(differs, str) else differs.get(key, ""),
                quick=quick,
            )
        )
    return claims


def _mean_at(measure: str, where: Mapping[str, Scalar]) -> Callable[[Results], float]:
    return lambda results: results.mean(measure, **where)
