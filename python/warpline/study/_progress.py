"""The progress of a study: a line on a terminal, and a page that refreshes itself."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from warpline._files import write_whole
from warpline._progress import Line


@dataclass
class Counts:
    """How far a figure has come. The total grows if more seeds turn out to be needed.

    Attributes:
        name: The figure's.
        total: Runs that are known to be needed.
        kept: Runs whose results were there.
        done: Runs that were made now.
        failed: Runs that failed.
        verdict: What came out, once it is known.
        listener: Called after each change.
        teller: Called with what people have to know at once.
    """

    name: str = ""
    total: int = 0
    kept: int = 0
    done: int = 0
    failed: int = 0
    verdict: str = ""
    listener: Callable[[], object] | None = None
    teller: Callable[[str], object] | None = None

    def say(self, text: str) -> None:
        """Says what people have to know at once."""
        if self.teller is not None:
            self.teller(f"{self.name}: {text}")

    def tell(self) -> None:
        """Calls the listener."""
        if self.listener is not None:
            self.listener()


def span(seconds: float) -> str:
    """A time as people say it: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def runs(number: int) -> str:
    """A number of runs as people say it: "1 run", "2 runs"."""
    return f"{number} run" if number == 1 else f"{number} runs"


@dataclass
class Progress:
    """Shows how far several figures have come.

    Attributes:
        figures: The figures, in their order.
        stream: A terminal to write to, or None.
        page: A page to write, or None. If it cannot be written, the study says so once, and does not try again.
        clock: Seconds, from any start.
    """

    figures: Sequence[Counts]
    stream: TextIO | None = None
    page: Path | None = None
    clock: Callable[[], float] = time.monotonic
    _line: Line | None = field(default=None, init=False)
    _page_written: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock()
        self._stopped = False
        if self.stream is not None:
            self._line = Line(self.stream, self.clock)
        for figure in self.figures:
            figure.listener, figure.teller = self.show, self.say

    def show(self) -> None:
        """Shows it, if it is time to."""
        if self._line is not None:
            self._line.write(self.text())
        if self.page is not None and self.clock() - self._page_written >= 1:
            self._page(last=False)

    def _page(self, *, last: bool) -> None:
        if self.page is not None:
            self._page_written = self.clock()
            try:
                write_whole(self.page, self.html(last).encode())
            except OSError as error:
                self.say(f"{self.page}: the page of the progress cannot be written: {error.strerror}; the study goes on without it")
                self.page = None

    def say(self, text: str) -> None:
        """Writes a line that stays, to standard error."""
        self.erase()
        print(text, file=sys.stderr, flush=True)

    def text(self, *, last: bool = False) -> str:
        """The line: what is done, failed and left, of the figure under way, and of all if there are several. At the last nothing will be done any more."""
        now = next((figure for figure in self.figures if not figure.verdict), None)
        total, kept, done, failed = (sum(getattr(figure, name) for figure in self.figures) for name in ("total", "kept", "done", "failed"))
        words = [f"{kept + done} of {total} runs done"]
        if failed:
            words.append(f"{failed} failed")
        left = None if last else self.left()
        if left is not None:
            words.append(f"{span(left)} left")
        text = ", ".join(words)
        return f"{now.name}: {text}" if now is not None else text

    def left(self) -> float | None:
        """Seconds left for the runs that are known to be needed, or None if nothing can be said yet."""
        total, kept, done, failed = (sum(getattr(figure, name) for figure in self.figures) for name in ("total", "kept", "done", "failed"))
        ended = done + failed
        rest = total - kept - ended
        return (self.clock() - self._begun) * rest / ended if ended and rest else None

    def erase(self) -> None:
        """Erases the line, so that something else can be written."""
        if self._line is not None:
            self._line.close()

    def close(self, *, finished: bool = True) -> None:
        """Erases the line, and writes the page for the last time: as of a study that has ended, or was stopped before."""
        self.erase()
        self._stopped = not finished
        if self.page is not None:
            self._page(last=True)

    def html(self, last: bool) -> str:
        """The page."""
        rows = "".join(
            f"<tr><td>{html.escape(figure.name)}</td><td>{figure.kept + figure.done}</td><td>{figure.failed}</td><td>{figure.total}</td>"
            f"<td><progress max={max(figure.total, 1)} value={figure.kept + figure.done}></progress></td><td>{html.escape(figure.verdict)}</td></tr>"
            for figure in self.figures
        )
        refresh = "" if last else '<meta http-equiv="refresh" content="2">'
        state = "Stopped" if self._stopped else "Ended" if last else "Under way"
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">{refresh}<title>Study</title><style>body{{font:16px sans-serif;margin:2em}}'
            "td,th{padding:.2em 1em;text-align:right}td:first-child,td:last-child{text-align:left}</style></head>"
            f"<body><h1>Study</h1><p>{state}: {html.escape(self.text(last=last))}.</p><table><thead><tr><th>figure</th><th>done</th><th>failed</th>"
            f"<th>all</th><th></th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table></body></html>\n"
        )
