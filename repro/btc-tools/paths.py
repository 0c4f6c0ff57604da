"""The 31 paths, and transfers one after another on one of them."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import warpline
from warpline import study

from .tools import Tool, said

HERE = Path(__file__).parent

with (HERE / "paths.csv").open(encoding="utf-8") as file:
    PATHS = {row["name"]: row for row in csv.DictReader(file)}
"""The published profile of each path: rate, round trip, queue at the bottleneck, loss in each direction, cross traffic."""

PLACES = ["first", "second"]
"""What the transfers of a run are called."""

GAP = 1.5
"""Seconds between two transfers, in which the queue drains and iperf3's server becomes ready again."""


def chance(path: str) -> bool:
    """Whether chance decides on a path: random losses, or bursts of cross traffic."""
    profile = PATHS[path]
    return float(profile["loss_percent"]) > 0 or profile["cross"] in ("onoff", "poisson")


def cross(kind: str, rate: float) -> list[warpline.Flow]:
    """Cross traffic: a fifth of the link, or half of it for half of the time."""
    ends: dict[str, Any] = {"name": "cross", "from_": "c", "to": "d"}
    return {
        "none": [],
        "cbr": [warpline.Flow(**ends, app="cbr", rate=f"{rate / 5:.0f}bit/s")],
        "poisson": [warpline.Flow(**ends, app="poisson", transport="udp", message_size="1000B", message_rate=round(rate / 5 / 8224, 3))],
        "onoff": [warpline.Flow(**ends, app="onoff", rate=f"{rate / 2:.0f}bit/s", mean_on="500ms", mean_off="500ms")],
    }[kind]


def transfers(at: study.Point, tools: Sequence[Tool], lost: Sequence[int] = ()) -> warpline.Scenario:
    """Each tool transfers from a to b once, in an order that the seed draws.

    Packets with the numbers `lost` are lost at the bottleneck, in place of the path's losses.
    """
    profile = PATHS[at["path"]]
    live = at.get("live", False)
    rate, rtt, queue = float(profile["rate_mbit"]) * 1e6, float(profile["rtt_ms"]) / 1e3, int(profile["queue_packets"])
    draw = random.Random(f"{at['path']} {at['seed']} {[tool.name for tool in tools] if len(tools) > 1 else ''}")
    order = list(range(len(tools)))
    draw.shuffle(order)
    # Setting up takes a few round trips, the end of cap another, and the queue a while to drain.
    slack = GAP + 11 * rtt + 2.5 * queue * 12e3 / rate
    # What one transfer has learnt of the path is nothing to the next.
    forget = warpline.Program(name="forget", command=["sysctl", "-q", "-w", "net.ipv4.tcp_no_metrics_save=1"])
    programs, start = [forget], 0.5
    for place in order:
        # Not synchronous with anything.
        begin = start + draw.random() * rtt
        words = tools[place].command(at["seconds"])
        # The exit code also tells of alarms, which are no failure here. What it prints shows whether it measured.
        programs.append(warpline.Program(name=PLACES[place], command=words, start=f"{begin * 1e3:.0f}ms", expect="any"))
        start += at["seconds"] + slack + tools[place].patience
    servers = [
        forget,
        warpline.Program(name="iperf3", command=["iperf3", "-s"], start="100ms", expect="running"),
        warpline.Program(name="capd", command=["warpline", "capd", "--json"], expect="running"),
    ]
    # On one kernel a run needs less time, and its results are the same.
    kind: dict[str, Any] = {"endpoint": "live"} if live else {"endpoint": "guest", "machine": "hosts"}
    probability = float(profile["loss_percent"]) / 100
    losses: dict[str, Any] = {"loss": warpline.BernoulliLoss(probability=probability)} if probability else {}
    if lost:
        losses = {"loss": warpline.ListLoss(packets=lost), "reverse": {"loss": warpline.NoLoss()}}
    flows = cross(profile["cross"], rate)
    edges = [("a", "r1"), ("r2", "b"), *([("c", "r1"), ("r2", "d")] if flows else [])]
    return warpline.Scenario(
        name=f"btc-{at['path']}",
        duration=f"{math.ceil(start + 1)}s",
        sample_interval=f"{at['seconds']}s",
        clock=warpline.Clock(mode="real") if live else None,
        link=[
            *(warpline.Link(between=ends, rate="1Gbit/s") for ends in edges),
            warpline.Link(between=["r1", "r2"], rate=f"{rate:.0f}bit/s", delay=f"{rtt * 5e5:.0f}us", queue=warpline.Droptail(limit=f"{queue}p"), **losses),
        ],
        host=[warpline.Host(name="a", program=programs, **kind), warpline.Host(name="b", program=servers, **kind)],
        flow=flows,
        directory=HERE,
    )


def heard(run: warpline.Run) -> list[Mapping[str, float | None]]:
    """What the tools say, in the order in which they were given to `transfers`.

    Raises:
        ValueError: If a tool failed, or a live run did not keep pace.
    """
    live = run.summary.get("live")
    if live and not live["kept_pace"]:
        raise ValueError("the emulator did not keep pace: the machine is too busy")
    assert run.directory is not None
    files = [run.directory / "programs" / f"a.{place}.stdout" for place in PLACES]
    return [said(file.read_text(encoding="utf-8")) for file in files if file.exists()]
