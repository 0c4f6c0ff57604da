"""Errors of what a declaration has of its own: its scenarios, measures, models, claims and pictures."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

from warpline._errors import MissingDependencyError, WarplineError
from warpline.study import _code


class StudyError(WarplineError):
    """A name is unknown, a declaration cannot be read, or a scenario, claim or picture of it raises an error."""


RAISED = (Exception, SystemExit)
"""What counts as an error of a declaration that raises it. What `sys.exit` raises does, too: a declaration does not end the study. Ctrl-C does not."""


def told(error: BaseException) -> str:
    """An error in words, with the line of the declaration, or of a module beside it, that raised it; then that which it came of."""
    # By the names of modules: in a worker a function has come as bytes, and its code does not name its file.
    frames = [(str(frame.f_globals.get("__name__")), line, frame.f_code.co_name) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [f" ({module.rpartition('.')[2]}.py:{line}, in {function})" for module, line, function in frames if module.startswith(_code.PACKAGE)]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return in_words(error) + "".join(own[-1:]) + (f"; it came of {told(cause)}" if cause is not None else "")


def in_words(error: BaseException) -> str:
    """The kind of an error and its text. That of `sys.exit` is a number, or nothing, and says nothing."""
    if isinstance(error, SystemExit):
        return f"sys.exit({'' if error.code is None else repr(error.code)}) in a declaration ends no study; raise an error that says what is wrong"
    return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def naming(part: str) -> Iterator[None]:
    """Names the part of a declaration that raises an error meanwhile.

    Raises:
        StudyError: In place of that error.
    """
    try:
        yield
    except MissingDependencyError:
        raise
    except RAISED as error:
        raise StudyError(f"{part}: {told(error)}") from error
