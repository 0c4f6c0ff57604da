"""How far our value may be from theirs."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass

from warpline.study._points import is_number

_PROBES = (0.0, -1.0, 1e-9, 1e9, -1e9)
"""Values of which a bound must refuse at least one, in units and in multiples of their value."""


@dataclass(frozen=True)
class Bound:
    """A condition on our value and theirs. `within`, `at_least` and so on make the usual ones.

    Attributes:
        text: What it says, for people: "within 5 %".
        holds: Whether it holds for our value and theirs.
    """

    text: str
    holds: Callable[[float, float], bool]

    def met(self, ours: float, theirs: float) -> bool:
        """Whether our value is good enough. One that is not a number never is."""
        return not math.isnan(ours) and self.holds(ours, theirs)

    def can_fail(self, theirs: float) -> bool:
        """Whether there is a value that it refuses."""
        return not all(self.holds(probe * scale, theirs) for scale in (1.0, abs(theirs)) for probe in _PROBES)


def within(share: float) -> Bound:
    """Ours differs from theirs by at most this share of theirs."""
    _check_width("within", share)
    return Bound(f"within {share * 100:g} %", lambda ours, theirs: abs(ours - theirs) <= share * abs(theirs))


def within_absolute(difference: float, unit: str = "") -> Bound:
    """Ours differs from theirs by at most this much."""
    _check_width("within_absolute", difference)
    return Bound(f"within {difference:g}{unit and ' ' + unit}", lambda ours, theirs: abs(ours - theirs) <= difference)


def at_least(share: float = 1.0) -> Bound:
    """Ours is at least this share of theirs."""
    _check_finite("at_least", share)
    return Bound("at least theirs" if share == 1 else f"at least {share:g} of theirs", lambda ours, theirs: ours >= share * theirs)


def at_most(share: float = 1.0) -> Bound:
    """Ours is at most this share of theirs."""
    _check_finite("at_most", share)
    return Bound("at most theirs" if share == 1 else f"at most {share:g} of theirs", lambda ours, theirs: ours <= share * theirs)


def between(low: float, high: float) -> Bound:
    """Ours lies between two values, whatever theirs is. One of them may be infinite."""
    for value in (low, high):
        _check_number("between", value)
    if not low <= high:
        raise ValueError(f"between({low!r}, {high!r}): no value is; give the lower one first")
    return Bound(f"{low:g} to {high:g}", lambda ours, _: low <= ours <= high)


def _check_number(name: str, value: object) -> None:
    """Refuses what is no number. `name` is the function's that has it."""
    if not is_number(value):
        raise TypeError(f"{name}({reprlib.repr(value)}): write a number")


def _check_finite(name: str, value: float) -> None:
    """Refuses what is no finite number."""
    _check_number(name, value)
    if not math.isfinite(value):
        raise ValueError(f"{name}({value!r}): write a finite number")


def _check_width(name: str, value: float) -> None:
    """Refuses what no difference is within, or each."""
    _check_number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}({value!r}): {'every' if value > 0 else 'no'} value is; give a finite number from 0")
