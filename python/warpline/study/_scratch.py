"""Directories for runs whose files a figure measures."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

if sys.platform != "win32":
    import fcntl

PREFIX = "warpline-study-"
LOCK = "lock"


def _locked(file: TextIO) -> bool:
    """Whether this process has the lock of a file now: nobody else has it. The system frees it when its process ends, however that ends."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_left_over(parent: Path | None = None) -> None:
    """Removes the directories of studies that were killed.

    Args:
        parent: Where they are; the directory for temporary files by default.
    """
    for directory in (parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (directory / LOCK).open("r+") as lock:
            if _locked(lock):
                shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is removed afterwards. If the process is killed, the next study removes it."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory, (Path(directory) / LOCK).open("w") as lock:
        _locked(lock)
        yield Path(directory)
