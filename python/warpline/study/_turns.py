"""Turns of the runs that need the machine: as many are under way at once as leave each other enough of it."""

from __future__ import annotations

import bisect
from collections.abc import Hashable
from typing import Generic, TypeVar

Run = TypeVar("Run", bound=Hashable)

ROUNDING = 1e-9
"""Parts may add up to a little more than the whole."""


class Turns(Generic[Run]):
    """The runs that wait, and those under way, each with the part of the machine that it takes: `most` at once, however little they take."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[tuple[Run, float]] = []
        self._under_way: dict[Run, float] = {}
        self._shared: set[Run] = set()

    def __bool__(self) -> bool:
        """Whether any waits or is under way."""
        return bool(self._waiting or self._under_way)

    @property
    def under_way(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def add(self, run: Run, takes: float) -> None:
        """Has a run wait for its turn: after all that take as little as it or less, so that many are under way at once for as long as there are many."""
        bisect.insort(self._waiting, (run, takes), key=lambda one: one[1])

    def begin(self) -> Run | None:
        """The next run to start, if there is room for it."""
        if not self._waiting:
            return None
        run, takes = self._waiting[0]
        full = len(self._under_way) >= self._most or takes + sum(self._under_way.values()) > 1 + ROUNDING
        if self._under_way and full:
            return None
        del self._waiting[0]
        self._under_way[run] = takes
        if len(self._under_way) > 1:
            self._shared.update(self._under_way)
        return run

    def end(self, run: Run, *, good: bool) -> bool:
        """Notes that a run has ended. Returns whether it waits for another turn: one that shared the machine and is not good is made again with the machine
        for itself."""
        del self._under_way[run]
        again = not good and run in self._shared
        self._shared.discard(run)
        if again:
            self.add(run, 1)
        return again

