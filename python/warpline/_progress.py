"""Progress of a run while it goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

from warpline._warpline import Progress

Observer: TypeAlias = Callable[[Progress], object]
"""A function called now and then with the progress of a run. If it returns False, the run stops and keeps its results until then."""


class ProgressLine:
    """A progress line that overwrites itself, at most ten times a second: share done, simulated time, remaining time."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._begun = clock()
        self._written = -1.0
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Writes the line if it is due."""
        now = self._clock()
        if now - self._written < 0.1:
            return
        self._written = now
        share, elapsed = progress.fraction, now - self._begun
        text = f"{share:4.0%}  {progress.simulated_s:.1f} of {progress.duration_s:.1f} s"
        if share > 0.01 and elapsed > 0.5:
            text += f"  {elapsed * (1 - share) / share:.0f} s left"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        """Erases the line."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def wanted() -> bool:
    """Whether to show the line: in a terminal or a notebook, not in a file."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
