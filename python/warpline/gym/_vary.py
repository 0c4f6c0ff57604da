"""Scenarios drawn at random, so that an agent meets many paths."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpline._scenario import Scenario
from warpline._sweep import toml_value

Values = tuple[str, str] | Sequence[Any]
"""A pair of two texts with a number and the same unit: a range. A list: its elements."""

_WHOLE = ("p", "B")
"""Units of what there are whole numbers of: packets and bytes."""

_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(\D*?)\s*")


@dataclass(frozen=True)
class _Range:
    """A range of quantities. `whole`: only whole numbers are drawn."""

    low: float
    high: float
    unit: str
    whole: bool

    def draw(self, generator: np.random.Generator) -> str:
        """Draws evenly on the scale of logarithms, as text with the unit; a range from 0 has none, so that it is linear."""
        if self.low > 0:
            value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = generator.uniform(self.low, self.high)
        return self._text(value)

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends, as text with the unit."""
        return self._text(self.low), self._text(self.high)

    def _text(self, value: float) -> str:
        return f"{round(value) if self.whole else f'{value:.6g}'}{self.unit}"


def _range(key: str, pair: tuple[Any, ...]) -> _Range:
    def refuse(what: str) -> ValueError:
        return ValueError(f'the range of {key!r} is {pair!r}: {what}, as in ("5Mbit/s", "50Mbit/s"); a choice is a list')

    if len(pair) != 2:
        raise refuse("it has two ends")
    found = [_QUANTITY.fullmatch(str(end)) for end in pair]
    if found[0] is None or found[1] is None:
        raise refuse("both ends are numbers with a unit")
    (low, unit), (high, other) = found[0].groups(), found[1].groups()
    if unit != other:
        raise refuse("both ends have the same unit")
    if float(low) > float(high):
        raise refuse("the lower end comes first")
    ends = float(low), float(high)
    return _Range(*ends, unit, unit in _WHOLE and all(end.is_integer() for end in ends))


def _written(value: Any) -> str:
    """An element of a list for `Scenario.set`: text as it is, all else as TOML."""
    return value if isinstance(value, str) else toml_value(value)


@dataclass(frozen=True)
class _Varied:
    """Draws scenarios."""

    scenario: Scenario
    ranges: tuple[tuple[str, _Range | Sequence[str]], ...]

    def __call__(self, generator: np.random.Generator) -> Scenario:
        drawn = []
        for key, values in self.ranges:
            value = values.draw(generator) if isinstance(values, _Range) else values[int(generator.integers(len(values)))]
            drawn.append(f"{key}={value}")
        return self.scenario.set(*drawn)

    def check(self) -> None:
        """Makes scenarios with every element of the lists, both ends of the ranges and a value between them.

        Raises:
            ScenarioError: If one cannot be.
        """
        generator = np.random.default_rng(0)
        some = [(key, (*values.ends, values.draw(generator)) if isinstance(values, _Range) else values) for key, values in self.ranges]
        for number in range(max((len(values) for _, values in some), default=0)):
            self.scenario.set(*(f"{key}={values[number % len(values)]}" for key, values in some))


def vary(scenario: Scenario, values: Mapping[str, Values]) -> Callable[[np.random.Generator], Scenario]:
    """A source of scenarios for an environment: each episode has other values of some keys.

        warpline.gym.vary(scenario, {
            "topology.bottleneck.rate": ("5Mbit/s", "100Mbit/s"),
            "topology.rtt": ("10ms", "200ms"),
            "topology.bottleneck.queue": ["250p", "codel"],
        })

    Args:
        scenario: The scenario.
        values: By key, as in `Scenario.set`: a pair is a range, of which values are drawn evenly on the scale of logarithms (linearly, if it
            begins at 0; whole numbers, if both ends are and the unit is p or B); of a list, each element is equally likely. Elements are text, as in
            `Scenario.set`, or numbers, True and False, lists, mappings and parts such as `Vegas(alpha=1)`.

    Raises:
        ValueError: If a range is not one, or a list is empty or holds None.
        TypeError: If an element of a list is of a type that no scenario has.
        ScenarioError: If the scenario cannot have one of the elements, or an end of a range.
    """
    ranges: list[tuple[str, _Range | Sequence[str]]] = []
    for key, found in values.items():
        if isinstance(found, tuple):
            ranges.append((key, _range(key, found)))
        elif isinstance(found, str) or not found:
            raise ValueError(f"the values of {key!r} are {found!r}; give a pair for a range, or a list to choose from")
        else:
            ranges.append((key, [_written(value) for value in found]))
    varied = _Varied(scenario, tuple(ranges))
    # A mistake in a key or a value shows now, and not in the middle of the training.
    varied.check()
    return varied
