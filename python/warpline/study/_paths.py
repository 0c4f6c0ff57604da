"""Paths at which a study reads and writes files: regular ones. To read a fifo may take for ever, and to write a file in the place of a device removes it."""

from __future__ import annotations

import os
from pathlib import Path

from warpline.study._told import StudyError


def is_special(path: Path) -> bool:
    """Whether there is something that is no regular file: a directory, a device, a fifo. Of a link, what it leads to counts."""
    return path.exists() and not path.is_file()


def to_write(path: Path) -> Path:
    """Where a file is written that may be replaced: where links lead to, so that they stay.

    Raises:
        StudyError: If there is something else than a regular file, or no directory for it.
    """
    real = Path(os.path.realpath(path))
    # A link that leads to itself exists, too.
    if os.path.lexists(real) and not real.is_file():
        raise StudyError(f"{path} is not a regular file, so that it is not replaced; name another file")
    if not real.parent.is_dir():
        raise StudyError(f"{path} cannot be written: there is no directory {real.parent}; make it, or name another file")
    return real
