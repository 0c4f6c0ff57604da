"""Slow lines, in the simulator: how much sixteen flows of Nice disturb web users on a modem, and what a flow has that is alone where packets are lost.

A packet of 0.21 s cannot be called back, and each of sixteen flows keeps some of its own in the queue. A flow that yields too readily starves when it is alone:
it takes its own packets, or an acknowledgement that the receiver delays, for other traffic. A rule has to do well in both figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .paths import PATHS

CC, QUEUE = "flow.background.cc", "topology.bottleneck.queue.kind"
KINDS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {"flow.background.stop": "5.1s"},
    "priority": {QUEUE: "priority", CC: "reno"},
    "nice": {CC: "nice"},
    "nice (paper)": {CC: {"kind": "nice", "variant": "paper"}},
    "ledbat++": {CC: "ledbat++"},
    "reno": {CC: "reno"},
}
"""What is behind the web users: settings by their paths."""
BESIDE_WEB = list(KINDS)
ALONE = ["reno", "nice", "nice (paper)", "ledbat++"]

LINES = {"56.6 kbit/s, 150 ms": ("56.6kbit/s", "150ms"), "256 kbit/s, 40 ms": ("256kbit/s", "40ms"), "1 Mbit/s, 150 ms": ("1Mbit/s", "150ms"), "2 Mbit/s, 40 ms": ("2Mbit/s", "40ms")}
"""Rate and round trip of lossy lines."""


RATE_MBPS = float(PATHS["modem"][0])
"""The modem's rate."""


def behind_web(run: warpline.Run) -> dict[str, float]:
    """How long an object takes, and what those behind it get of the line."""
    groups = {group["group"]: group for group in run.summary["groups"]}
    return {"object_s": groups["demand"]["completion_mean_s"], "share": groups["background"]["goodput_bps"] / (RATE_MBPS * 1e6)}


def slower(background: str) -> Callable[[Results], float]:
    """How long an object takes in front of these flows, over that in front of router priority."""
    return lambda results: results.mean("object_s", background=background) / results.mean("object_s", background="priority")


def over_reno(path: str) -> Callable[[Results], float]:
    """What Nice gets over what Reno gets."""
    return lambda results: results.mean("mbps", background="nice", path=path) / results.mean("mbps", background="reno", path=path)


MODEM = Figure(
    name="modem",
    source="Not in the paper",
    title="A modem: web users in front of sixteen flows",
    note="Theirs are what the paper says of other lines.",
    scenario=study.file("modem.toml", lambda at: {"duration": f"{at['seconds']}s", "topology.bottleneck.rate": f"{RATE_MBPS}Mbit/s", **KINDS[at["background"]]}),
    points=study.grid(background=BESIDE_WEB),
    settings={"seconds": 1200},
    measures=behind_web,
    seeds=20,
    labels={"object_s": "Mean time of an object (s)", "share": "Goodput of the sixteen over the rate"},
    picture=[study.bars(x="background", y="object_s"), study.bars(x="background", y="share")],
    claims=[
        Claim(
            text="sixteen flows slow the web users by less than 5 %: the time of an object in front of Nice, divided by that in front of router priority",
            ours=slower("nice"),
            theirs=1.05,
            bound=study.at_most(),
            differs="a packet takes 0.21 s here, and an object two; a single packet of the sixteen in the queue makes an object a sixth slower",
        ),
        Claim(text="sixteen flows of today's form slow the web users less than sixteen of the paper's form: slow-down by the paper's form, divided by that by today's", ours=lambda results: slower("nice (paper)")(results) / slower("nice")(results), theirs=1, bound=study.at_least()),
        Claim(text="sixteen flows take a significant part of the line", ours=lambda results: results.mean("share", background="nice"), theirs=0.5, bound=study.at_least(), quick=False),
    ],
    quick=study.quick(points=study.grid(background=["priority", "nice", "nice (paper)"]), seeds=2, seconds=600),
)

LOSSY = Figure(
    name="lossy",
    source="Not in the paper",
    title="A flow alone on a slow line that loses a packet in a hundred",
    note="Theirs is what the paper says of figure 6: Nice alone gets a significant part of what Reno gets.",
    scenario=study.file(
        "lossy.toml",
        lambda at: {"duration": f"{at['seconds']}s", "topology.bottleneck.rate": LINES[at["path"]][0], "topology.rtt": LINES[at["path"]][1], **KINDS[at["background"]]},
    ),
    points=study.grid(background=ALONE, path=list(LINES)),
    settings={"seconds": 330},
    measures={"mbps": lambda run: study.column(run, "group.background.goodput_bps") / 1e6},
    seeds=10,
    labels={"mbps": "Goodput (Mbit/s)"},
    picture=study.bars(x="path", y="mbps", by="background"),
    claims=[Claim(text=f"{path}: Nice alone gets a significant part of what Reno gets", ours=over_reno(path), theirs=0.5, bound=study.at_least()) for path in LINES],
    quick=study.quick(seeds=1, seconds=130),
)
