"""The frame of a command that is written in Python: exit codes, as those of `warpline`, and how errors become them."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

SUCCESS, DIFFERS, WRONG_INPUT, NOT_WRITTEN, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: those of `crates/cli/src/failure.rs`."""

Codes = Sequence[tuple[tuple[type[BaseException], ...], int]]
"""Kinds of errors and the exit code of each. The first that fits counts."""


def run(parser: argparse.ArgumentParser, words: Sequence[str] | None, codes: Codes, interrupted: str = "") -> int:
    """Reads `words`, does what the command's `do` says, and returns the exit code. An error is one line, and no traceback.

    Args:
        parser: Each of its commands sets `do`, a function of the options that returns the exit code.
        words: The words behind the program's name; those of this process if there are none.
        codes: Which errors are the user's to mend.
        interrupted: What is said after Ctrl-C.
    """
    # So that what belongs to runs under way is removed, as with Ctrl-C.
    with contextlib.suppress(ValueError):  # Not in the main thread.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = parser.parse_args(words)
    try:
        code: int = options.do(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # A reader that has closed the pipe is not an error; nor is there anything to say to it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except KeyboardInterrupt:
        if interrupted:
            print(interrupted, file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        known = next((code for kinds, code in codes if isinstance(error, kinds)), None)
        if known is None:
            raise
        print(f"error: {error}", file=sys.stderr)
        return known
