"""Locks of files that may be removed, and made again, by others."""

from __future__ import annotations

import os
from pathlib import Path


def is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one that has this path. The lock of another one keeps nobody out: somebody else may have that of the new file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
