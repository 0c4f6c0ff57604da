"""What makes the runs of this process: the build of Warpline."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from warpline import _warpline


@cache
def build() -> str:
    """Warpline's version, and a digest of its compiled part, which is another one after each change of the program."""
    content = Path(_warpline.__file__).read_bytes()
    return f"warpline-{_warpline.__version__}-{hashlib.sha256(content).hexdigest()[:12]}"
