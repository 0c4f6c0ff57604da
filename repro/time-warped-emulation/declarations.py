"""Table 4, and what study.py makes: a perceived network gives the same results at every time dilation factor."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import warpline
from warpline import study
from warpline.study import Claim, Elsewhere, Figure, Results

LOCK_STEP = 0
"""In place of a factor: the virtual clock, which is exact."""

LOSSES = {"no loss": {}, "1% loss": {"loss": warpline.EveryLoss(n=100)}}


def single_flow(at: study.Point) -> warpline.Scenario:
    """One flow between two guests over 100 Mbit/s and 20 ms, whose packets are recorded at the bottleneck. A larger factor needs more time of the
    machine, so its run is shorter, and is compared with lock-step over the same time."""
    unlimited = warpline.Droptail(limit="unlimited")
    buffer = 6 << 20
    sysctl = {"net.ipv4.tcp_rmem": f"4096 131072 {buffer}", "net.ipv4.tcp_wmem": f"4096 16384 {buffer}"}
    bottleneck = warpline.Link(
        between=["left", "right"],
        rate="100Mbit/s",
        delay="9ms",
        queue=warpline.Droptail(limit="1BDP"),
        reverse={"queue": unlimited},
        record=["packets"],
        **LOSSES[at["loss"]],
    )
    edges = [warpline.Link(between=ends, rate="100Gbit/s", delay="0.5ms", queue=unlimited) for ends in (["sender", "left"], ["receiver", "right"])]
    hosts = [warpline.Host(name=name, endpoint="guest", machine=name, cc="cubic", sysctl=sysctl) for name in ("sender", "receiver")]
    return warpline.Scenario(
        name="time-warp",
        duration=f"{at['seconds']}s",
        warmup=f"{at['seconds'] / 4}s",
        clock=None if at["tdf"] == LOCK_STEP else warpline.Clock(mode="dilated", tdf=at["tdf"]),
        link=[bottleneck, *edges],
        host=hosts,
        flow=[warpline.Flow(name="flow", from_="sender", to="receiver", start="0s..50ms")],
    )


def gaps(run: warpline.Run, at: study.Point) -> dict[str, float]:
    """Goodput, and the times between packets that enter the bottleneck: mean, coefficient of variation, and interquartile range over the median.

    Raises:
        RuntimeError: If the emulator did not keep pace: its results are those of the machine.
    """
    live = run.summary.get("live")
    if live and not live["kept_pace"]:
        raise RuntimeError("the emulator did not keep pace: the machine is too busy or too slow for this factor")
    packets = run.packets
    begin = at["seconds"] / 4 * 1e9
    sent = [
        time
        for time, event, size in zip(packets["time_ns"], packets["event"], packets["size"], strict=True)
        if event == "enqueue" and size > 1000 and time > begin
    ]
    between = sorted((after - before) / 1e6 for before, after in zip(sent, sent[1:]))
    mean, quarters = statistics.fmean(between), statistics.quantiles(between, n=4)
    return {
        "goodput_mbps": sum(flow["goodput_bps"] for flow in run.summary["flows"]) / 1e6,
        "gap_ms": mean,
        "cov": statistics.pstdev(between) / mean,
        "iqr": (quarters[2] - quarters[0]) / quarters[1],
    }


def from_lock_step(measure: str, loss: str, tdf: int, seconds: float) -> Callable[[Results], float]:
    """A value at a factor over that in lock-step."""
    return lambda results: results.mean(measure, loss=loss, tdf=tdf, seconds=seconds) / results.mean(measure, loss=loss, tdf=LOCK_STEP, seconds=seconds)


FACTORS = {1: 10, 10: 10, 100: 5, 1000: 1}
"""How many seconds of the run each factor has."""


def points(factors: dict[int, float]) -> list[study.Point]:
    """Each factor and lock-step over the same time."""
    spans = list(dict.fromkeys(factors.values()))
    return [
        {"loss": loss, "tdf": tdf, "seconds": seconds}
        for loss in LOSSES
        for tdf, seconds in [*((LOCK_STEP, seconds) for seconds in spans), *factors.items()]
    ]


TABLE4 = study.Table(
    name="table4",
    source="Table 4",
    title="Times between packets at each time dilation factor (0: lock-step)",
    note="The paper's absolute values (0.458, 0.451 and 0.448 ms at factors 1, 10 and 100) are those of Linux 2.6.11 with smaller windows. Its claim is that a factor changes nothing; so each is held "
    "against lock-step, which is exact. A run that did not keep pace has no result.",
    scenario=single_flow,
    points=points(FACTORS),
    seeds=1,
    measures=gaps,
    alone=True,
    labels={"goodput_mbps": "Goodput (Mbit/s)", "gap_ms": "Mean gap (ms)", "cov": "Coefficient of variation", "iqr": "Interquartile range over median", "tdf": "TDF"},
    picture=study.table(x="tdf"),
    claims=[
        Claim(
            text=f"TDF {tdf}, {loss}: {what} over that of lock-step",
            ours=from_lock_step(measure, loss, tdf, seconds),
            theirs=1,
            # A few seconds have some tens of losses, so that lock-step itself differs by 2.5 % from seed to seed.
            bound=study.within(0.02 if loss == "no loss" else 0.07),
            quick=tdf == 100,
        )
        for tdf, seconds in FACTORS.items()
        for loss in LOSSES
        for measure, what in (("goodput_mbps", "goodput"), ("gap_ms", "mean gap"))
    ],
    quick=study.quick(points=points({100: 5})),
)

STUDY = "python3 repro/time-warped-emulation/study.py target/release/warpline --out runs/time-warp --only"
WHY = "it needs an otherwise idle machine for hours"


def elsewhere(name: str, source: str, title: str) -> Elsewhere:
    """A part of study.py."""
    return Elsewhere(name=name, source=source, title=title, how=f"{STUDY} {name}", why=WHY)


PAPER = study.Paper(
    name="time-warp",
    title='D. Gupta and others, "To Infinity and Beyond: Time-Warped Network Emulation", NSDI 2006',
    about="The paper that introduced time dilation, with unmodified Linux guests (Linux 6.1 in place of 2.6.11 under Xen). What is not judged here has its results in `repro/time-warped-emulation/README.md`.",
    figures=[
        elsewhere("table3", "Table 3", "50 flows at several factors"),
        elsewhere("figure2", "Figure 2", "The first second of a flow"),
        elsewhere("figure3", "Figure 3", "The same with losses"),
        TABLE4,
        elsewhere("figure5", "Figure 5", "Flows with several round trips"),
        elsewhere("figure6", "Figure 6", "Several machines"),
        elsewhere("figure7", "Figure 7", "The sender's CPU scaled"),
        elsewhere("figure8", "Figure 8", "The receiver's CPU scaled"),
        elsewhere("figure9", "Figure 9", "Reno and BIC over fast links"),
        elsewhere("figure10", "Figure 10", "Reno and BIC over long paths"),
        elsewhere("figure11", "Figure 11", "Shares of CPU and throughput"),
        elsewhere("figure12", "Figure 12", "BitTorrent"),
    ],
)
