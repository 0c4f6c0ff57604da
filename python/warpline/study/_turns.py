"""Turns of the runs that need the machine: as many are under way at once as leave each other enough of it."""

from __future__ import annotations

import bisect
from collections.abc import Hashable
from typing import Generic, TypeVar

Run = TypeVar("Run", bound=Hashable)

ROUNDING = 1e-9
"""Parts may add up to a little more than the whole."""


class Turns(Generic[Run]):
    """The runs that wait, and those under way, each with the part of the machine that it takes. With `alone` one at a time, whatever they take."""

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
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
        """Has a run wait: after all that take as little as it or less."""
        bisect.insort(self._waiting, (run, takes), key=lambda one: one[1])

    def begin(self) -> Run | None:
        """The next run to start, if there is room for it."""
        if not self._waiting:
            return None
        run, takes = self._waiting[0]
        if self._under_way and (self._alone or takes + sum(self._under_way.values()) > 1 + ROUNDING):
            return None
        del self._waiting[0]
        self._under_way[run] = takes
        if len(self._under_way) > 1:
            self._shared.update(self._under_way)
        return run

    def end(self, run: Run, *, failed: bool) -> bool:
        """Notes that a run has ended. Returns whether it waits for another turn: one that failed beside others is made again with the machine for itself."""
        del self._under_way[run]
        again = failed and run in self._shared
        self._shared.discard(run)
        if again:
            self.add(run, 1)
        return again
