"""The exceptions of warpline."""

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
        path: Path of the key, such as "link.1.rate"; empty if the error is not about a key.
        help: What is allowed, and what to do.
        source: The file, or "--set" for a change; None for a scenario built in Python.
        line: Line, counted from 1; None if the scenario was not read from text.
        column: Column in characters, counted from 1; None if the scenario was not read from text.
    """

    message: str
    path: str
    help: tuple[str, ...] = ()
    source: str | None = None
    line: int | None = None
    column: int | None = None


class ScenarioError(WarplineError, ValueError):
    """A scenario has errors. The text lists all of them; `diagnostics` has them one by one."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text, diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return str(self.args[0]).rstrip()


class RunError(WarplineError, RuntimeError):
    """A run failed, or its results could not be written or read."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run. `run` holds the results until then; its summary has `complete = False`."""

    run: Run | None

    def __init__(self, message: str, run: Run | None = None) -> None:
        super().__init__(message)
        self.run = run


class SweepError(WarplineError, RuntimeError):
    """Every point of a sweep failed. The text has the first error."""


class MissingDependencyError(WarplineError, ImportError):
    """An optional library that is needed is not installed."""
