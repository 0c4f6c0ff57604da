"""Declarations of studies for tests."""

from __future__ import annotations

import textwrap
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from warpline import study

#: A figure without a network: ten times x, with chance that depends on the seed.
PURE = """\
    '''A line through the origin.'''

    import os
    from pathlib import Path
    from warpline import study

    def model(at):
        with (Path(__file__).parent / "ran.txt").open("a") as out:
            out.write(f"{at['x']} {at['seed']}\\n")
        return {"y": at["slope"] * at["x"] + 0.1 * (at["seed"] % 3)}

    FIGURE = study.Figure(
        name="line",
        title="A line",
        model=model,
        points=study.grid(x=[1, 2, 3]),
        settings={"slope": 10},
        seeds=2,
        claims=[study.Claim(text="it rises threefold", ours=lambda results: results.rising("y", "x"), theirs=3, bound=study.within(0.05))],
        picture=study.lines(x="x", y="y"),
        quick=study.quick(points=study.grid(x=[1, 3]), seeds=1),
    )
"""


def declare(directory: Path, text: str = PURE, name: str = "mine.py") -> Path:
    file = directory / name
    file.write_text(textwrap.dedent(text))
    return file


def ran(directory: Path) -> list[str]:
    """What ran, and empties the list."""
    log = directory / "ran.txt"
    lines = sorted(log.read_text().splitlines()) if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def simple(**options: Any) -> study.Figure:
    return study.Figure(**{"name": "f", "title": "F", "points": study.grid(x=[1, 2]), "quick": study.quick(), "model": lambda at: {"y": at["x"]}, **options})


NETWORK = """\
    from warpline import study

    FIGURE = study.Figure(
        name="rates",
        title="Goodput",
        scenario=study.file("two.toml", lambda at: {"topology.bottleneck.rate": f"{at['rate']}Mbit/s"}),
        points=study.grid(rate=[2, 8]),
        measures=lambda run, at: {"mbps": {flow["name"]: flow["goodput_bps"] / 1e6 for flow in run.summary["flows"][:2]}, "rate_seen": at["rate"]},
        claims=[study.Claim(text="four times as fast", ours=lambda results: results.rising("mbps", "rate"), theirs=4, bound=study.at_least())],
        quick=study.quick(),
    )
"""

MANY = """\
    from pathlib import Path
    from warpline import study

    HERE = Path(__file__).parent

    def scenario(at):
        with (HERE / "made.txt").open("a") as out:
            out.write("x")
        return (HERE / "two.toml").read_text().replace("20ms", f"{at['delay'] * at['factor']}ms")

    FIGURE = study.Figure(
        name="many",
        title="Many runs",
        scenario=scenario,
        points=study.grid(delay=range(1, 7)),
        settings={"factor": 1},
        measures={"bps": "totals.goodput_bps"},
        seeds=2,
        quick=study.quick(),
    )
"""


class Counting(ThreadPoolExecutor):
    """Counts the runs that it is given."""

    count = 0

    def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
        self.count += 1
        return super().submit(fn, *args, **more)
