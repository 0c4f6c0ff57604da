"""Figures 7, 8 and 11: the CPU of senders or receivers as the limit.

How much of a core a bottleneck takes is measured first, with a whole core (the 100 % line of the paper). From there the share is halved until
the bottleneck is no longer full, on any machine: a guest that is held back takes packets in larger batches, and needs less than it uses when it is
free. That it was is not inferred from the throughput: the control group counts the periods in which the guests were held back.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .network import Network, mean_and_deviation, paced, rates

HELD_BACK, FREE = 0.5, 0.1
"""A share is the limit if the guests were held back in this part of the periods at least, and is not if in this part at most."""
PART, ENOUGH = 0.5, 0.7
"""Where the search for the share begins, as a part of what was used of a whole core, and what part of the whole core's throughput is little enough."""
CLOSE = 0.15
"""How close the throughputs of two factors with the same perceived CPU must be."""
DILATED, LEAST = 10, 0.001
"""The factor of a whole core, and the least share that a control group gives."""
TRIES = {1: 10, DILATED: 3}
"""How often a run is made, by its factor, if the emulator does not keep pace: a virtual machine stands still now and then. A run at TDF 1 takes seconds."""
SENDERS, RECEIVERS = 0, 1
WHOLE = "whole core"
LABELS = {"rate_mbps": "Bottleneck (Mbit/s)", "flow_mbps": "Per flow (Mbit/s)", "of_link": "Share of the link", "share": "Share of a core", "used": "Used of a core", "held_back": "Periods held back"}


def measure(at: study.Point, side: int, tdf: int, share: float, rate_mbps: float) -> dict[str, float]:
    """A run in which the machine of one side has this share of a core."""
    shares = (share, None) if side == SENDERS else (None, share)
    network = Network(rate_mbps=rate_mbps, groups=[(at["flows"], 80)], seconds=at["seconds"], warmup=at["warmup"], shares=shares)
    run = paced(network.scenario(tdf).run(seed=at["seed"], progress=False))
    guests: Any = run.summary["guests"]
    own = next(row for row in guests["machines"] if row["machine"] == ("left-0", "right-0")[side]).get("cpu", {})
    if own.get("used") is None:
        raise RuntimeError("this machine's control groups do not count the time on a core (cpuacct.usage, or cpu.stat of version 2)")
    found = rates(run)
    return {
        "share": own["share"],
        "used": own["used"],
        "held_back": own["throttled"],
        **mean_and_deviation(found),
        "of_link": sum(found) / rate_mbps,
    }


def by_line(rows: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The measures of several runs, a line for each."""
    measures = dict.fromkeys(name for row in rows.values() for name in row)
    return {name: {line: row[name] for line, row in rows.items()} for name in measures}


def measure_paced(at: study.Point, side: int, tdf: int, share: float, rate_mbps: float) -> dict[str, float]:
    """What `measure` returns, which is called again if the emulator does not keep pace; nothing if it does in none of its tries."""
    for _ in range(TRIES[tdf]):
        with contextlib.suppress(study.Unable):
            return measure(at, side, tdf, share, rate_mbps)
    return {}


def scaled(side: int) -> Callable[[study.Point], dict[str, dict[str, float]]]:
    """A whole core at a factor of 10, and the same perceived CPU at factors of 10 and 1: a share of a core that is too little."""

    def dilated(at: study.Point, share: float) -> dict[str, float]:
        found = measure_paced(at, side, DILATED, share, at["rate_mbps"])
        if not found:
            raise study.Unable(f"the emulator kept pace in none of {TRIES[DILATED]} tries at TDF {DILATED}")
        return found

    def lines(at: study.Point) -> dict[str, dict[str, float]]:
        held = whole = dilated(at, 1.0)
        share = 2 * PART * whole["used"]
        while held["of_link"] >= ENOUGH * whole["of_link"] and share > LEAST:
            share = max(LEAST, round(share / 2, 5))
            held = dilated(at, share)
        rows = {WHOLE: whole, f"TDF {DILATED}": held, "TDF 1": measure_paced(at, side, 1, min(1.0, share * DILATED), at["rate_mbps"])}
        return by_line({line: row for line, row in rows.items() if row})

    return lines


def ratio(measure: str, above: str, below: str, rate: int) -> Callable[[Results], float]:
    """A value of one line over that of another."""
    return lambda results: results.mean(measure, line=above, rate_mbps=rate) / results.mean(measure, line=below, rate_mbps=rate)


ONE_BY_ONE = (
    "a packet takes more CPU at TDF 10: a sender with a whole core uses 27 % of what it perceives as one for 50 Mbit/s, and 13 % at TDF 1; "
    "probably because packets come ten times further apart in real time, so that more of them wake the guest one by one"
)
OF_RECEIVERS = "probably as in figure 7, where a packet takes more CPU at TDF 10; it was not measured for receivers"


def scaled_figure(name: str, number: int, side: int, who: str, differs: Mapping[int, str]) -> Figure:
    """Figure 7 or 8. `differs` says why the factors are not alike, for the bottlenecks at which they are not."""
    every = [50, 100, 200, 400, 800]
    return Figure(
        name=name,
        source=f"Figure {number}",
        title=f"The CPU of the {who} as the limit",
        note="A share of a core that is too small is searched for each bottleneck: the search begins with half of what the machine used of a whole core, and halves until the link carries less than 70 % "
        "of what it carries with a whole core. At TDF 1 the machine gets ten times the share that it has at TDF 10, so that its guests perceive the same CPU; where the emulator keeps pace in none of "
        f"{TRIES[1]} tries, there is no value.",
        model=scaled(side),
        points=study.grid(rate_mbps=every),
        settings={"flows": 50, "seconds": 6, "warmup": 2},
        alone=True,
        labels=LABELS,
        picture=study.lines(x="rate_mbps", y="flow_mbps"),
        claims=[
            Claim(
                text="a whole core is enough: the largest part of the periods in which it was held back",
                ours=lambda results: results.max("held_back", line=WHOLE),
                theirs=FREE,
                bound=study.at_most(),
            ),
            *(
                Claim(
                    text=f"at the largest bottleneck, the share is the limit at TDF {tdf}: the part of the periods in which it was held back",
                    ours=lambda results, tdf=tdf: results.mean("held_back", line=f"TDF {tdf}", rate_mbps=every[-1]),  # type: ignore[misc]
                    theirs=HELD_BACK,
                    bound=study.at_least(),
                    quick=False,
                )
                for tdf in (DILATED, 1)
            ),
            # At TDF 10 that is how the share was found.
            Claim(
                text="at the largest bottleneck, TDF 1 carries less than TDF 10 with a whole core",
                ours=ratio("of_link", "TDF 1", WHOLE, every[-1]),
                theirs=0.9,
                bound=study.at_most(),
                quick=False,
            ),
            *(
                Claim(
                    text=f"{rate} Mbit/s: TDF 1 carries what TDF 10 carries with the same perceived CPU",
                    ours=ratio("of_link", "TDF 1", f"TDF {DILATED}", rate),
                    theirs=1,
                    bound=study.within(CLOSE),
                    quick=rate == 50,
                    differs=differs.get(rate, ""),
                )
                for rate in every
            ),
        ],
        quick=study.quick(points=study.grid(rate_mbps=[50]), flows=10, seconds=3, warmup=1),
    )


FIG7 = scaled_figure("fig7", 7, SENDERS, "senders", dict.fromkeys([50, 100, 400, 800], ONE_BY_ONE))
FIG8 = scaled_figure("fig8", 8, RECEIVERS, "receivers", dict.fromkeys([50, 100, 200, 800], OF_RECEIVERS))

# Figure 11 -------------------------------------------------------------------------------------------------------------

PARTS = [0.125, 0.25, 0.5, 1, 2]
"""Shares of a core, as parts of what the largest bottleneck used of a whole one."""
FAST = [500, 1000, 2000, 4000]


def several_shares(at: study.Point) -> dict[str, dict[str, float]]:
    """Several shares of the senders' CPU at one bottleneck, and a whole core."""
    used = measure(at, SENDERS, DILATED, 1.0, at["most_mbps"])["used"]
    rows = {f"{part:g} of what is used": min(1.0, max(LEAST, round(part * used, 4))) for part in PARTS}
    return by_line({line: measure(at, SENDERS, DILATED, share, at["rate_mbps"]) for line, share in {**rows, WHOLE: 1.0}.items()})


def more_carries_more(rate: int) -> Callable[[Results], float]:
    """By how much of the link less CPU carries more, at most: of all pairs of shares."""

    def ours(results: Results) -> float:
        shares = results.means("of_link", rate_mbps=rate)
        return max(less - more for less, more in itertools.combinations(shares, 2))

    return ours


FIG11 = Figure(
    name="fig11",
    source="Figure 11",
    title="Throughput for several shares of the senders' CPU, at TDF 10",
    model=several_shares,
    points=study.grid(rate_mbps=FAST),
    settings={"flows": 50, "seconds": 8, "warmup": 3, "most_mbps": FAST[-1]},
    alone=True,
    cpus=1,
    labels=LABELS,
    picture=study.lines(x="rate_mbps", y="flow_mbps"),
    claims=[
        *(
            Claim(
                text=f"{rate} Mbit/s: more CPU carries more, until the link is full: the largest share of the link by which less CPU carries more",
                ours=more_carries_more(rate),
                theirs=0.02,
                bound=study.at_most(),
                quick=rate == 500,
            )
            for rate in FAST
        ),
        Claim(
            text="the least share is the limit at the largest bottleneck: the part of the periods in which it was held back",
            ours=lambda results: results.mean("held_back", rate_mbps=FAST[-1], line=f"{PARTS[0]:g} of what is used"),
            theirs=HELD_BACK,
            bound=study.at_least(),
            quick=False,
        ),
        Claim(
            text="the least share at the largest bottleneck carries less than a whole core",
            ours=ratio("of_link", f"{PARTS[0]:g} of what is used", WHOLE, FAST[-1]),
            theirs=0.8,
            bound=study.at_most(),
            quick=False,
        ),
        Claim(
            text="a whole core is enough: the largest part of the periods in which it was held back",
            ours=lambda results: results.max("held_back", line=WHOLE),
            theirs=FREE,
            bound=study.at_most(),
        ),
    ],
    quick=study.quick(points=study.grid(rate_mbps=[500]), flows=10, seconds=3, warmup=1, most_mbps=500),
)
