"""What can go wrong, as exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpline._run import Run


class WarplineError(Exception):
    """Base of all errors that warpline raises on purpose."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong with a scenario.

    Attributes:
        message: What is wrong, on one line.
        path: Key path, "link.1.rate"; empty where the error is not about a key.
        help: What is allowed, and what to do.
        source: The file, or "--set" for a change; None for a scenario built in Python.
        line: Line from 1, if there is a text.
        column: Column in characters from 1, if there is a text.
    """

    message: str
    path: str
    help: tuple[str, ...] = ()
    source: str | None = None
    line: int | None = None
    column: int | None = None


class ScenarioError(WarplineError, ValueError):
    """A scenario is wrong. The text says all that is wrong at once; `diagnostics` has it in pieces."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text, diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return str(self.args[0]).rstrip()


class RunError(WarplineError, RuntimeError):
    """A run could not be done, or its results could not be written or read."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run. What had been measured until then is in `run`, whose summary says `complete = False`."""

    run: Run | None

    def __init__(self, message: str, run: Run | None = None) -> None:
        super().__init__(message)
        self.run = run


class SweepError(WarplineError, RuntimeError):
    """Every point of a sweep failed; the text has the first reason."""


class MissingDependencyError(WarplineError, ImportError):
    """An optional library is needed for this and is not installed."""
