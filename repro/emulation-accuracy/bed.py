"""What the tables share: live hosts beside links that are measured, the load between them, and the search for the most that is carried.

The load is made by `warpline load`, whose times are the kernel's timestamps: when a measuring program wakes up is not part of a result.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warpline
from warpline import study

PORT = 9
ON_WIRE = {64: 64, 1518: 1500}
"""Bytes from the IP header on by the paper's name of the packet size: 1518 are a full packet with Ethernet's header and check sequence."""

PAPERS_RATE = 4000
"""Round trips a second that the paper's emulator carried, and at which its table of delays was measured."""

KEPT = 0.999
"""A load is carried if this share of it comes back, and as much was sent."""

SINK = ("udp-sink", PORT, "stamps")
UNLIMITED = warpline.Droptail(limit="unlimited")


def program(name: str, *words: object, **more: Any) -> warpline.Program:
    """A load generator. `warpline study` and `warpline reproduce` say where the program is; without them it is looked for in PATH."""
    return warpline.Program(name=name, command=f'exec "${{WARPLINE_PROGRAM:-warpline}}" load {" ".join(map(str, words))}', **more)


def link(end: str, **more: Any) -> warpline.Link:
    """A link from the source that adds nothing but what is said."""
    return warpline.Link(between=["source", end], **{"rate": "100Gbit/s", "queue": UNLIMITED, **more})


@dataclass(frozen=True)
class Seen:
    """What a run showed: its summary, and what the programs on the source printed, by their names."""

    summary: Mapping[str, Any]
    printed: Mapping[str, Any]

    @property
    def pace(self) -> dict[str, float]:
        """Whether the emulator kept pace, how late packets left (99 % of them by at most this, in microseconds), and how much of the load was lost."""
        live, load = self.summary["live"], self.printed.get("load")
        lost = {"load_lost": 100 * (1 - load["returned"] / load["packets"])} if load else {}
        return {"kept_pace": float(live["kept_pace"]), "late_us": live["audit"]["lateness"]["p99_us"], **lost}


def watch(
    at: study.Point,
    sinks: Mapping[str, warpline.Link],
    programs: Sequence[warpline.Program],
    seconds: float,
    *,
    sink: Sequence[object] = SINK,
    links: Sequence[warpline.Link] = (),
    flows: Sequence[warpline.Flow] = (),
) -> Seen:
    """Runs programs on a source that has a link to each of several sinks, until they have exited, or for `seconds` at most. On each sink runs the load
    generator `sink`. The other links and flows are simulated.

    Raises:
        RuntimeError: If a program failed.
    """
    listening = program("sink", *sink, expect="running", ready=PORT)
    scenario = warpline.Scenario(
        name="emulation-accuracy",
        duration=f"{seconds:g}s",
        seed=at["seed"],
        clock=warpline.Clock(mode="real"),
        until=[f"source.{one.name} exits" for one in programs],
        link=[*sinks.values(), *links],
        host=[
            *(warpline.Host(name=name, endpoint="live", program=[listening]) for name in sinks),
            warpline.Host(name="source", endpoint="live", program=programs),
        ],
        flow=flows,
    )
    with tempfile.TemporaryDirectory() as scratch:
        run = scenario.run(out=Path(scratch) / "run", progress=False)
        if run.failures:
            raise RuntimeError("; ".join(run.failures))
        outputs = (Path(scratch) / "run/programs").glob("source.*.stdout")
        printed = {path.name.split(".")[1]: path.read_text() for path in outputs}
        return Seen(run.summary, {name: json.loads(text) for name, text in printed.items() if text})


def trips(sink: str, seconds: float, rate: float, size: int) -> list[warpline.Program]:
    """The load: round trips of datagrams at a rate. No program if the rate is below one a second."""
    return [program("load", "trips", f"{{{sink}}}:{PORT}", seconds, round(rate), ON_WIRE[size])] if rate >= 1 else []


def knee(holds: Callable[[int], bool], first: int, ratio: float) -> int:
    """The largest number at which something holds, to this ratio: doubled until it does not hold, and then bisected. Whatever else the machine does can break one try: two must fail."""

    def fine(number: int) -> bool:
        return holds(number) or holds(number)

    low, high = 0, first
    while fine(high):
        low, high = high, 2 * high
    while low == 0 and high > 1:
        low, high = (high // 2, high) if fine(high // 2) else (0, high // 2)
    while low and high > max(ratio * low, low + 1):
        middle = round((low * high) ** 0.5)
        low, high = (middle, high) if fine(middle) else (low, middle)
    return low


def carried(at: study.Point, size: int, **more: Any) -> int:
    """How many round trips a second a link carries, to a sink that returns them."""

    def holds(rate: int) -> bool:
        seconds = at["probe_s"]
        back = watch(at, {"sink": link("sink", **more)}, trips("sink", seconds, rate, size), seconds + 10).printed["load"]
        return back["returned"] >= KEPT * back["packets"] and back["packets"] >= KEPT * rate * seconds

    return knee(holds, PAPERS_RATE, at["ratio"])


def loads(most: int) -> dict[str, float]:
    """The loads at which the tables are measured, in round trips a second, by what the tables call them."""
    return {"no load": 0, f"{PAPERS_RATE}/s": PAPERS_RATE, "50 %": most / 2, "100 %": most}
