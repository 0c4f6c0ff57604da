"""Figures 8 and 9: how long people wait if their browsers prefetch, over a cable modem and over a modem.

Sixteen clients replay a trace against nginx, which sends requested objects with Reno, and prefetched objects with Reno or Nice. As in the paper, requests are
pipelined: a connection has up to eight under way, and the server suggests what to prefetch in a header. The paper does not say how long the queues of its
paths were, so there are several. All policies run at the same time, each behind its own link, with the kernel's Nice, which is loaded meanwhile.

The paper's trace, requests to CNN in January 2001, is not public. A generated trace (`warpline prefetch`) takes its place; the server has
learnt from an hour of it before. Demand is about a tenth of the cable modem's capacity, as in the paper, and about a quarter of the modem's, for which the paper says nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .kernel import nice_in_kernel, ran
from .paths import PATHS

CASES = {
    "none": ("none", "reno"),
    "conservative, Reno": ("conservative", "reno"),
    "conservative, Nice": ("conservative", "nice"),
    "aggressive, Reno": ("aggressive", "reno"),
    "aggressive, Nice": ("aggressive", "nice"),
}
"""The policy, and the congestion control for prefetched objects."""
TRACES = {"cable modem": "--think 7", "modem": "--think 30 --object-bytes 2000"}
"""Options of the trace that give the wanted demand."""
QUEUES = [60, 240, 1000]
PIPELINE = 8
"""Requests under way on a connection."""
LEARNT = 3600
"""How many seconds of the trace the server has learnt from before."""
PORT = 8080
LAST = 900
"""Seconds that the last answers may take at most: a thousand packets take 210 s over the modem."""


def links(at: study.Point) -> warpline.Scenario:
    """A server, a link and clients for each case."""
    rate, delay, queue = PATHS[at["path"]][0], PATHS[at["path"]][1], f"{at['queue']}p"
    trace = f"--duration {LEARNT + at['seconds']} --seed {at['seed']} {TRACES[at['path']]} --learn {LEARNT}"
    hosts, between = [], []
    for number, (policy, cc) in enumerate(CASES.values()):
        server, client = f"s{number}", f"c{number}"
        serve = f"warpline prefetch serve --listen {{{server}}} --port {PORT} --cc {cc} --strict --hints {policy} {trace}"
        replay = f"warpline prefetch run --server {{{server}}}:{PORT} --policy {policy} --pipeline {PIPELINE} --hints --json {trace}"
        hosts += [
            warpline.Host(name=server, endpoint="live", program=[warpline.Program(name="serve", command=serve.split(), expect="running")]),
            # nginx gets its sockets before it can answer, so early connections wait.
            warpline.Host(name=client, endpoint="live", program=[warpline.Program(name="run", command=replay.split(), start="3s")]),
        ]
        between.append(warpline.Link(between=[server, client], rate=f"{rate}Mbit/s", delay=delay, queue=warpline.Droptail(limit=queue)))
    return warpline.Scenario(
        name="prefetch",
        duration=f"{at['seconds'] + LAST}s",
        until=[f"c{number}.run exits" for number in range(len(CASES))],
        clock=warpline.Clock(mode="real"),
        link=between,
        host=hosts,
    )


def prefetched(at: study.Point) -> dict[str, dict[str, float]]:
    """How long requests take, how many the cache answers, and what is on the link, with each policy."""
    if not shutil.which("nginx"):
        raise study.Unable("it needs nginx")
    with nice_in_kernel():
        reports = [json.loads(text)["report"] for text in ran(links(at), at["seed"], [f"c{number}.run" for number in range(len(CASES))])]
    capacity = float(PATHS[at["path"]][0]) * 1e6
    alone = reports[0]["mean_response_s"]
    rows = {line: row(report, capacity, alone) for line, report in zip(CASES, reports, strict=True)}
    return {name: {line: values[name] for line, values in rows.items()} for name in rows["none"]}


def row(report: dict[str, Any], capacity: float, alone: float) -> dict[str, float]:
    """What is kept of a report. Each seed gives another trace, so it is compared with its own without prefetching."""
    if report["failures"]:
        raise RuntimeError(f"{report['failures']} of {report['requests']} requests failed")

    def share(key: str) -> float:
        return float(report[key]) * 8 / report["seconds"] / capacity

    return {
        "response_ms": report["mean_response_s"] * 1e3,
        "over_none": report["mean_response_s"] / alone,
        "p90_ms": report["response_quantiles_s"][1] * 1e3,
        "hit_rate": report["hit_rate"],
        "demand_share": share("demand_bytes"),
        "prefetched_share": share("prefetch_bytes"),
        "useful": report["useful"],
    }


def over_none(case: str, queues: list[int], most: bool = True) -> Callable[[Results], float]:
    """The response time over that without prefetching, the most or the least of these queues."""
    return lambda results: (results.max if most else results.min)("over_none", line=case, queue=queues)


def over_response(case: str, other: str) -> Callable[[Results], float]:
    """The response time in one case over that in another, the most of all queues."""
    return lambda results: max(here / there for here, there in results.matched("response_ms", "line", case, other))


def farthest(case: str, other: str) -> Callable[[Results], float]:
    """The response time in one case over that in another, at the queue where that is farthest from 1."""
    return lambda results: max((here / there for here, there in results.matched("response_ms", "line", case, other)), key=lambda ratio: abs(ratio - 1))


def comparable(differs: str = "") -> Claim:
    """That conservative prefetching takes as long with Nice as with Reno; why it does not, if so."""
    return Claim(
        text="conservative prefetching with Reno and with Nice are comparable: response time with Nice, divided by that with Reno, the farthest from 1 of all queues",
        ours=farthest("conservative, Nice", "conservative, Reno"),
        theirs=1,
        bound=study.within(0.2),
        quick=False,
        differs=differs,
    )


def prefetching(name: str, source: str, path: str, claims: list[Claim]) -> Figure:
    """The figure of a path."""
    return Figure(
        name=name,
        source=source,
        title=f"Prefetching over a {path}",
        note="Theirs is over a real line with an hour of requests to CNN, and a queue of which nothing is said; ours is over an emulated one, with a generated trace.",
        model=prefetched,
        points=study.grid(path=[path], queue=QUEUES),
        settings={"seconds": 150},
        seeds=3,
        alone=True,
        labels={
            "queue": "Queue (packets)",
            "response_ms": "Mean response time (ms)",
            "over_none": "Response time over that without prefetching",
            "p90_ms": "90 % of the responses below (ms)",
            "hit_rate": "Answered by the cache",
            "demand_share": "Requested, as a share of the link",
            "prefetched_share": "Prefetched, as a share of the link",
            "useful": "Share of the prefetched objects that were used",
        },
        picture=study.bars(x="queue", y="response_ms", by="line"),
        claims=claims,
        quick=study.quick(points=study.grid(path=[path], queue=QUEUES[:1]), seeds=1, seconds=30),
    )


FIG8 = prefetching(
    "fig8",
    "Figure 8",
    "cable modem",
    [
        Claim(text="conservative prefetching with Reno helps: response time, divided by that without prefetching, the most of all queues", ours=over_none("conservative, Reno", QUEUES), theirs=1, bound=study.at_most()),
        Claim(text="conservative prefetching with Nice helps: response time, divided by that without prefetching, the most of all queues", ours=over_none("conservative, Nice", QUEUES), theirs=1, bound=study.at_most()),
        Claim(
            text="aggressive prefetching with Reno is worse by an order of magnitude: response time, divided by that without prefetching, with the longest queue",
            ours=over_none("aggressive, Reno", QUEUES[-1:]),
            theirs=10,
            bound=study.at_least(),
            quick=False,
            differs="it is worse by a factor of three to six: sixteen connections have eight objects of 8 kB under way at most, which do not fill the longest queue; the paper does not say how long its queue was",
        ),
        Claim(
            text="aggressive prefetching with Nice helps further: response time, divided by that of conservative prefetching with Nice, the most of all queues",
            ours=over_response("aggressive, Nice", "conservative, Nice"),
            theirs=1,
            bound=study.at_most(),
            quick=False,
        ),
        comparable(),
    ],
)
FIG9 = prefetching(
    "fig9",
    "Figure 9",
    "modem",
    [
        comparable("demand takes a quarter of this line, so that little is spare; Reno takes it from demand, and with Nice responses take about a tenth to an eighth as long"),
        Claim(text="aggressive prefetching with Reno is at least three times slower (three-fold in the paper): response time, divided by that without prefetching, the least of all queues", ours=over_none("aggressive, Reno", QUEUES, most=False), theirs=3, bound=study.at_least(), quick=False),
        Claim(
            text="aggressive prefetching with Nice is no slower: response time, divided by that without prefetching, the most of all queues",
            ours=over_none("aggressive, Nice", QUEUES),
            theirs=1.05,
            bound=study.at_most(),
            differs="a packet takes 0.21 s on this line; the kernel paces none of the first ten packets of each of sixteen connections, which are most of what Nice sends in the 150 s of a test; and sixteen windows of 1/48, the least there is, are a tenth of the line",
        ),
    ],
)
