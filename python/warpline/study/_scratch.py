"""Directories for runs whose files a figure measures."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from warpline.study._locks import is_at

if sys.platform != "win32":
    import fcntl

PREFIX = "warpline-study-"
LOCK = "lock"


def _locked(file: TextIO) -> bool | None:
    """Whether this process has the lock of a file now: nobody else has it. The system frees it when its process ends, however that ends. None where files have
    no locks: Windows, and some file systems."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
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
    while True:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
            directory = Path(name)
            with (directory / LOCK).open("w") as lock:
                locked = _locked(lock)
                # Another study that came before the lock has taken it for the directory of a killed one. Without locks nobody removes any.
                if locked is None or (locked and is_at(lock.fileno(), directory / LOCK)):
                    yield directory
                    return
