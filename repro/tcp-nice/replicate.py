"""Figure 10 (the Tivoli case): how long a push of files takes, and how it affects other traffic, with Reno at several limits of its rate and with Nice without one.

`warpline replicate push` sends a tree of files from one guest to another over the paths of figure 6. `--limit` is the parameter by which the paper's server is tuned.
Pings take the same path meanwhile. Then the same beside a transfer in front (the kernel's Reno, ten seconds), to measure how much of its rate that keeps. Nice is the
library's, over QUIC, so nothing is needed in the kernel, and the guests can be in lock-step with the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import warpline
from warpline import study
from warpline.study import Figure, Results

from .paths import KEPT, PATHS, each

LIMITS = [0.125, 0.25, 0.5, 0.75, 0.9]
"""Limits of Reno's rate, as shares of the path's."""
UNLIMITED, NICE, NOTHING = "Reno", "Nice", "nothing"


def limited(limit: float) -> str:
    """What a push by Reno with a limit is called."""
    return f"Reno, {limit:g} of the rate"


PUSHES = {
    NOTHING: None,
    **{limited(limit): ("reno", limit) for limit in LIMITS},
    UNLIMITED: ("reno", 0),
    NICE: ("nice", 0),
}
"""With which congestion control, and to which share of the path's rate it is limited; 0 for no limit."""

PINGS, TRANSFER = "pings", "a transfer"
"""What takes the path meanwhile."""
LENGTH = {"modem": 40, "cable modem": 10, "London": 10, "Delaware": 4}
"""How many seconds the tree takes at the path's rate. The modem needs longer, because its round trips do."""
START = 1
"""When the push begins, in seconds."""
FRONT, BEFORE = 10, 3
"""How many seconds the transfer in front lasts, and how long before it the push begins."""
SPARE = 2
"""Seconds for which the push has still something to send when that transfer ends."""
SHORT = ["cable modem"]
"""The path of the quick form."""
WARPLINE = '"$WARPLINE_PROGRAM"'
"""This program, in a shell."""
FILES = 4
DIRECTORY = "/tmp/replicate"


def push(at: study.Point) -> str:
    """The command that pushes."""
    named = PUSHES[at["pushed"]]
    if named is None:
        return "true"
    cc, limit = named
    rate = float(PATHS[at["path"]][0]) * 1e3
    held = f" --limit {rate * limit:.1f}kbit/s" if limit else ""
    return f"{WARPLINE} replicate push {DIRECTORY}/tree {{r}}:4433 --key {DIRECTORY}/key --json --patience 300s --cc {cc}{held}"


def replicated(at: study.Point) -> warpline.Scenario:
    """A push from s to r, and what is beside it."""
    rate, delay, queue = PATHS[at["path"]]
    beside = at["beside"] == TRANSFER
    seconds = FRONT + BEFORE + SPARE if beside else LENGTH[at["path"]] * at["length"]
    size = int(float(rate) * 1e6 / 8 * seconds / FILES)
    prepare = f"mkdir -p {DIRECTORY}/tree && for file in $(seq {FILES}); do head -c {size} /dev/urandom > {DIRECTORY}/tree/$file; done && {WARPLINE} replicate keygen {DIRECTORY}/key > /dev/null"
    serve = f"{prepare} && exec {WARPLINE} replicate serve {DIRECTORY}/store --key {DIRECTORY}/key --listen 0.0.0.0:4433"
    pings = f"ping -n -q -c 5 -i 0.2 {{r}}; ping -n -q -i 0.2 {{r}} & ping=$!; {push(at)}; code=$?; kill -INT $ping; wait; exit $code"
    begin = START + BEFORE
    # A push with the smallest limit takes eight times as long as the path needs.
    ends: dict[str, Any] = {"duration": f"{begin + FRONT}s", "warmup": f"{begin}s"} if beside else {"duration": f"{max(60, 12 * seconds)}s", "until": "s.push exits"}
    guest: dict[str, Any] = {"endpoint": "guest", "machine": "hosts", "memory": "1GB"}
    return warpline.Scenario(
        name="replicate",
        seed=at["seed"],
        link=[warpline.Link(between=["s", "r"], rate=f"{rate}Mbit/s", delay=delay, queue=warpline.Droptail(limit=queue))],
        host=[
            warpline.Host(name="s", program=[warpline.Program(name="push", command=["sh", "-c", push(at) if beside else pings], start=f"{START}s", expect="any" if beside else 0)], **guest),
            warpline.Host(name="r", program=[warpline.Program(name="serve", command=["sh", "-c", serve], expect="running")], **guest),
        ],
        flow=[warpline.Flow(name="front", from_="s", to="r", cc="reno", start=f"{begin}s")] if beside else [],
        **ends,
    )


def heard(run: warpline.Run, at: study.Point) -> dict[str, float]:
    """How long the push took, and the mean round trips of pings before and meanwhile; or what the transfer in front got."""
    if at["beside"] == TRANSFER:
        (front,) = [group for group in run.summary["groups"] if group["group"] == "front"]
        return {"front_mbps": front["goodput_bps"] / 1e6}
    assert run.directory is not None
    text = (run.directory / "programs" / "s.push.stdout").read_text(encoding="utf-8")
    idle, during = (float(mean) for mean in re.findall(r" = [\d.]+/([\d.]+)/", text))
    (told,) = re.findall(r"^\{.*?^\}", text, re.MULTILINE | re.DOTALL)
    return {"completion_s": json.loads(told)["wall_clock_s"], "idle_ms": idle, "ping_ms": during}


def longer(first: str, second: str, measure: str, path: str) -> Callable[[Results], float]:
    """A measure of the first kind of push over that of the second."""
    return lambda results: results.mean(measure, path=path, pushed=first) / results.mean(measure, path=path, pushed=second)


def points(paths: list[str], limits: list[float], beside: list[float]) -> list[study.Point]:
    """Pushes with these limits and without, beside pings; and some of them, and none, beside a transfer in front."""
    alone = study.grid(path=paths, beside=[PINGS], pushed=[*map(limited, limits), UNLIMITED, NICE])
    return alone + study.grid(path=paths, beside=[TRANSFER], pushed=[NOTHING, *map(limited, beside), UNLIMITED, NICE])


REPLICATION = Figure(
    name="fig10",
    source="Figure 10",
    title="Replication: how long a push takes, and what it does to others",
    note="The receivers of the paper have two parameters to tune, of which one is repeated here. Its figure has curves without numbers; the numbers here are ours, but for 97 %, which its text says of figure 6.",
    scenario=replicated,
    points=points(list(PATHS), LIMITS, [0.25, 0.75]),
    settings={"length": 1},
    measures=heard,
    seeds=3,
    keep=True,
    labels={
        "completion_s": "Completion (s)",
        "ping_ms": "Round trip of pings meanwhile (ms)",
        "idle_ms": "Round trip of pings before (ms)",
        "front_mbps": "Goodput of a transfer in front (Mbit/s)",
        "pushed": "Pushed with",
    },
    picture=[
        study.bars(x="path", y="completion_s", by="pushed"),
        study.bars(x="path", y="ping_ms", by="pushed"),
        study.bars(x="path", y="front_mbps", by="pushed"),
    ],
    claims=[
        *each(
            PATHS,
            "Reno keeps to its limit, so that a higher one takes less time: its time with a limit of a quarter of the rate, divided by that with three quarters",
            lambda path: longer(limited(0.25), limited(0.75), "completion_s", path),
            3,
            study.within(0.1),
        ),
        *each(
            PATHS,
            "Reno lengthens pings more with a higher limit: ping without a limit, divided by that with a quarter of the rate; 1.1 is our number",
            lambda path: longer(UNLIMITED, limited(0.25), "ping_ms", path),
            1.1,
            study.at_least(),
            quick=SHORT,
        ),
        *each(PATHS, "Nice finds a good rate without tuning: its time, divided by that of Reno with half of the rate", lambda path: longer(NICE, limited(0.5), "completion_s", path), 1, study.at_most()),
        *each(
            PATHS,
            "Nice ensures short pings: ping beside Nice, divided by that beside Reno without a limit",
            lambda path: longer(NICE, UNLIMITED, "ping_ms", path),
            1,
            study.at_most(),
            quick=SHORT,
        ),
        *each(
            PATHS,
            "a transfer in front keeps its rate beside Nice",
            lambda path: longer(NICE, NOTHING, "front_mbps", path),
            KEPT,
            study.within(0.05),
            differs={"modem": "ten seconds are 45 packets there; the push has up to five in the queue of 16 at the end of its slow start, of which each round trip of a second takes one away, and the first window of the transfer is ten more"},
        ),
    ],
    quick=study.quick(points=study.grid(path=SHORT, beside=[PINGS], pushed=[limited(0.25), limited(0.75), UNLIMITED, NICE]), seeds=1, length=0.3),
)
