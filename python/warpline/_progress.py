"""Progress of a run while it goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

from warpline._warpline import Progress

Observer: TypeAlias = Callable[[Progress], object]
"""A function called now and then with the progress of a run. If it returns False, the run stops and keeps its results until then."""


class Line:
    """A line of text that overwrites itself, at most ten times a second."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._written = float("-inf")
        self._width = 0

    def due(self) -> bool:
        """Whether it may be written again."""
        return self._clock() - self._written >= 0.1

    def write(self, text: str) -> None:
        """Writes the line if it is due."""
        if not self.due():
            return
        self._written = self._clock()
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        """Erases the line."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


class ProgressLine:
    """The progress of a run as a line: share done, simulated time, remaining time."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._line = Line(stream, clock)
        self._clock = clock
        self._begun = clock()

    def __call__(self, progress: Progress) -> None:
        """Writes the line if it is due."""
        if not self._line.due():
            return
        share, elapsed = progress.fraction, self._clock() - self._begun
        text = f"{share:4.0%}  {progress.simulated_s:.1f} of {progress.duration_s:.1f} s"
        if share > 0.01 and elapsed > 0.5:
            text += f"  {elapsed * (1 - share) / share:.0f} s left"
        self._line.write(text)

    def close(self) -> None:
        """Erases the line."""
        self._line.close()


def wanted() -> bool:
    """Whether to show the line: in a terminal or a notebook, not in a file."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
