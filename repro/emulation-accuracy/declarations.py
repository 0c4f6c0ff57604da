"""Tables 1 to 3 of the report on the first simulator that carried live traffic, and how much it carries, on live hosts under the real clock.

They are of the machine that they are measured on, which should do nothing else meanwhile.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

import warpline
from warpline import study
from warpline.study import Claim, Results

from .bed import KEPT, ON_WIRE, PAPERS_RATE, PORT, carried, knee, link, loads, program, trips, watch

NO_LOAD, PAPERS, HALF, ALL = loads(0)
SEARCH = {"probe_s": 2, "ratio": 1.05}
"""For how long a load is tried, and how well what is carried is known."""
QUICK_SEARCH = {"probe_s": 1, "ratio": 1.4}

LABELS = {
    "line": "Load",
    "bytes": "Bytes",
    "carried": "Round trips carried a second",
    "load_lost": "Load lost (%)",
    "kept_pace": "Kept pace",
    "late_us": "99 % leave late by at most (us)",
}


def by_load(most: int, measure: Callable[[float], Mapping[str, float]]) -> dict[str, object]:
    """What is measured at each load, a line for each, and how much is carried."""
    found: dict[str, dict[str, float]] = {}
    for name, rate in loads(most).items():
        for one, value in measure(rate).items():
            found.setdefault(one, {})[name] = value
    return {"carried": most, **found}


BUSY = (
    "the most that is carried is twenty times theirs or more, and at half of it the load, the sink and the emulator share two busy cores: "
    "more than one packet in a thousand leaves late"
)
FULL = "at all that is carried, the load, the sink and the emulator want more than the two cores that there are, and packets wait for them in sockets"
SUBTRACTED = (
    "the correction is too large: over 0 ms, each packet wakes the emulator at once, which takes longer than it does for a packet that has waited; "
    "without the correction ours is nearer (see the error as it is, above)"
)


def kept_pace(*lines: str, differs: str = "") -> Claim:
    """That the emulator kept pace at these loads."""
    return Claim(
        text=f"the emulator keeps pace: {', '.join(lines)}",
        ours=lambda results: results.min("kept_pace", line=lines),
        theirs=1,
        bound=study.at_least(),
        differs=differs,
    )


# Table 1 ---------------------------------------------------------------------------------------------------------------

GAP_MS = 2
"""Between two pings."""


def delays(at: study.Point) -> dict[str, object]:
    """Single pings, which the far kernel answers, beside the load on the same link."""
    delay, size = at["delay_ms"], at["bytes"]
    way = {"sink": link("sink", delay=f"{delay}ms")}
    # As many as the time allows; the five before those that count are not reported.
    count = max(5, min(1000, round(1e3 * at["seconds"] / (2 * delay + GAP_MS))))
    seconds = (count + 5) * (2 * delay + GAP_MS) / 1e3 + 1

    def pings(rate: float) -> dict[str, float]:
        pinging = program("pings", "echo", "{sink}", count, 1000 * GAP_MS, ON_WIRE[size], start="500ms")
        seen = watch(at, way, [*trips("sink", seconds, rate, size), pinging], 2 * seconds + 10)
        times = [nanos / 1e6 for nanos in seen.printed["pings"]["stamped"]]
        return {
            "rtt_ms": statistics.median(times),
            "stddev_ms": statistics.pstdev(times),
            "above_ms": statistics.median(times) - 2 * delay,
            "least_above_ms": min(times) - 2 * delay,
            **seen.pace,
        }

    return by_load(carried(at, size, delay=f"{delay}ms"), pings)


def error(delay: int, size: int, load: str) -> Callable[[Results], float]:
    """The error of the round trip after the one over 0 ms is subtracted, in per cent."""

    def ours(results: Results) -> float:
        here, base = (results.mean("rtt_ms", delay_ms=each, bytes=size, line=load) for each in (delay, 0))
        return abs(100 * ((here - base) / (2 * delay) - 1))

    return ours


def raw_error(delay: int, size: int) -> Callable[[Results], float]:
    """The error of the round trip at the paper's load as it is, in per cent."""
    return lambda results: abs(100 * (results.mean("rtt_ms", delay_ms=delay, bytes=size, line=PAPERS) / (2 * delay) - 1))


def deviation(delay: int, size: int) -> Callable[[Results], float]:
    """The standard deviation of the round trip at the paper's load, in ms."""
    return lambda results: results.mean("stddev_ms", delay_ms=delay, bytes=size, line=PAPERS)


TABLE1_THEIRS = {
    (0, 64): (0.004, None, None),
    (0, 1518): (0.025, None, None),
    (5, 64): (0.295, 2.51, 0.13),
    (5, 1518): (0.067, 15.86, 0.32),
    (10, 64): (0.014, 1.28, 0.09),
    (10, 1518): (0.093, 8.38, 0.61),
    (50, 64): (0.029, 0.47, 0.24),
    (50, 1518): (3.440, 2.39, 0.84),
    (300, 64): (0.546, 0.28, 0.24),
    (300, 1518): (0.093, 0.49, 0.24),
}
"""By delay in ms and bytes: the standard deviation of the round trip in ms, its error in per cent, and that after the one over 0 ms is subtracted."""


TABLE1_DIFFERS = {
    (0, 64, PAPERS): "the program that measures, the load, the sink and the emulator share two cores here, and a wake-up waits for another now and then; theirs had a machine each",
    (5, 64, PAPERS): SUBTRACTED,
    (5, 64, HALF): SUBTRACTED,
    (5, 64, ALL): SUBTRACTED,
    (10, 64, PAPERS): SUBTRACTED,
    (10, 64, ALL): SUBTRACTED,
    (50, 1518, ALL): FULL,
    (300, 1518, ALL): FULL,
}
"""Why ours differs, by delay in ms, bytes and load: over 0 ms the deviation, over others the corrected error."""


def table1_claims() -> list[Claim]:
    """The table at the paper's load, and its errors at half and all of ours."""
    claims = []
    for (delay, size), (stddev, raw, adjusted) in TABLE1_THEIRS.items():
        told = {"bound": study.at_most(), "quick": size == 64 and delay in (0, 5)}
        where = f"{delay} ms, {size} bytes"
        why = TABLE1_DIFFERS.get((delay, size, PAPERS), "") if delay == 0 else ""
        claims.append(Claim(text=f"{where}: standard deviation at {PAPERS}", ours=deviation(delay, size), theirs=stddev, unit="ms", differs=why, **told))
        if raw is None or adjusted is None:
            continue
        claims.append(Claim(text=f"{where}: error at {PAPERS}", ours=raw_error(delay, size), theirs=raw, unit="%", **told))
        claims += [
            Claim(text=f"{where}: error at {load}, adjusted", ours=error(delay, size, load), theirs=adjusted, unit="%", differs=TABLE1_DIFFERS.get((delay, size, load), ""), **told)
            for load in (PAPERS, HALF, ALL)
        ]
    return claims


TABLE1 = study.Table(
    name="table1",
    source="Table 1, and the capacity in the text",
    title="Delay, and how much is carried",
    note=f"The paper measured at {PAPERS_RATE} round trips a second, the most that its emulator carried. Here each link is also measured without load, and at half and all "
    "of what it carries itself on this machine, which is searched first. A round trip is one of a ping, by the kernel's timestamps. *Adjusted*: the round trip over the link of 0 ms is "
    "subtracted first, as in the paper. *Keeps pace*: 1 if at most one packet in a thousand left late, 0 if more did.",
    model=delays,
    points=study.grid(bytes=list(ON_WIRE), delay_ms=[0, 5, 10, 50, 300]),
    settings={"seconds": 8, **SEARCH},
    alone=True,
    labels={
        **LABELS,
        "delay_ms": "Delay each way (ms)",
        "rtt_ms": "Median round trip (ms)",
        "stddev_ms": "Standard deviation (ms)",
        "above_ms": "Median above the setting (ms)",
        "least_above_ms": "Shortest above the setting (ms)",
    },
    picture=study.table(x="delay_ms"),
    claims=[
        Claim(
            text="round trips carried a second, the least of all delays and sizes",
            ours=lambda results: results.min("carried"),
            theirs=PAPERS_RATE,
            bound=study.at_least(),
        ),
        Claim(
            text="no round trip is shorter than it should be, at any load: the least above the setting",
            ours=lambda results: results.min("least_above_ms"),
            theirs=0,
            bound=study.at_least(),
            unit="ms",
        ),
        Claim(
            text=f"without load and at {PAPERS}, the median is above the setting by the time of two interfaces and two wake-ups at most",
            ours=lambda results: results.max("above_ms", line=[NO_LOAD, PAPERS]),
            theirs=0.25,
            bound=study.at_most(),
            unit="ms",
        ),
        kept_pace(NO_LOAD, PAPERS),
        kept_pace(HALF, differs=BUSY),
        *table1_claims(),
    ],
    quick=study.quick(points=study.grid(bytes=[64], delay_ms=[0, 5]), seconds=2, **QUICK_SEARCH),
)

# Table 2 ---------------------------------------------------------------------------------------------------------------


def rates(at: study.Point) -> dict[str, object]:
    """A stream that is 5 % too fast for its link, beside the load on a link of its own."""
    bits, size = 1e3 * at["kbps"], ON_WIRE[at["bytes"]]
    # 12 ms of packets, but enough that a source which stands still for a moment stays ahead of a slow link.
    queue = max(20, round(bits * 0.012 / (8 * size)))
    packets = bits / (8 * size)
    # A slow link needs some hundred packets for a rate.
    seconds = max(at["seconds"], 100 / packets)

    def stream(load: float) -> dict[str, float]:
        sending = program("stream", "udp", f"{{slow}}:{PORT}", seconds, math.ceil(1.05 * packets), size, queue + 10, start="500ms")
        sinks = {
            "slow": link("slow", rate=f"{at['kbps']}kbit/s", queue=warpline.Droptail(limit=f"{queue}p")),
            "sink": link("sink"),
        }
        # A datagram crosses the emulator once, a round trip twice: both together are the load.
        beside = trips("sink", seconds + 0.5, load - min(load, packets / 2), at["bytes"])
        seen = watch(at, sinks, [*beside, sending], 3 * seconds + 20)
        sent, sunk = seen.printed["stream"], seen.printed["stream"]["sunk"]
        under_way, full = sunk["under_way_us"][1] / 1e3, 8e3 * queue * size / bits
        return {
            "kbps_seen": 8e6 * size / sunk["spacing_ns"],
            "error": abs(100 * (8e9 * size / sunk["spacing_ns"] / bits - 1)),
            # By how much the transit time of a full queue is off, beyond one packet.
            "queue_off_ms": max(0.0, abs(under_way - full) - 8e3 * size / bits),
            "ahead": sent["packets"] / (packets * sent["seconds"]),
            **seen.pace,
        }

    return by_load(carried(at, at["bytes"]), stream)


TABLE2_THEIRS = {
    (56, 64): 0.71,
    (56, 1518): 1.12,
    (384, 64): 2.00,
    (384, 1518): 0.49,
    (1544, 64): 6.44,
    (1544, 1518): 0.84,
    (10_000, 1518): 3.40,
    (45_000, 1518): 11.43,
}
"""Error of the rate in per cent, by kbit/s and bytes."""

BEYOND = [(10_000, 64), (45_000, 64), (1000, 1518), (100_000, 1518), (1_000_000, 1518)]
"""Rates that the paper does not have."""

EXACT = 0.002
"""The error that we allow ourselves without load, in per cent: two parts in 100,000."""


def rate_error(kbps: int, size: int, load: str) -> Callable[[Results], float]:
    """The error of a rate in per cent."""
    return lambda results: results.mean("error", kbps=kbps, bytes=size, line=load)


TABLE2 = study.Table(
    name="table2",
    source="Table 2",
    title="Bandwidth",
    note="A rate is that of IP packets. It is the slope of the line below all arrivals, by the kernel's timestamps: a packet may be late, never early. The load is round trips over another "
    "link of the same emulator, less what the stream itself takes. Where the source itself did not send as much as the link carries, the machine had no time for it.",
    model=rates,
    points=study.points([{"bytes": size, "kbps": kbps} for kbps, size in sorted([*TABLE2_THEIRS, *BEYOND], key=lambda point: point[::-1])]),
    settings={"seconds": 4, **SEARCH},
    alone=True,
    labels={**LABELS, "kbps": "Set (kbit/s)", "kbps_seen": "Seen (kbit/s)", "error": "Error (%)", "queue_off_ms": "Transit time of a full queue off, beyond a packet (ms)", "ahead": "Sent over what the link carries"},
    picture=study.table(x="kbps"),
    claims=[
        *(
            Claim(
                text=f"{kbps} kbit/s, {size} bytes: error, {load}",
                ours=rate_error(kbps, size, load),
                theirs=theirs,
                bound=study.at_most(),
                unit="%",
                quick=(kbps, size) == (1544, 1518),
            )
            for (kbps, size), theirs in TABLE2_THEIRS.items()
            for load in (PAPERS, HALF, ALL)
        ),
        Claim(
            text="full packets at 1 to 1000 Mbit/s, without load: the largest error is two parts in 100,000",
            ours=lambda results: results.max("error", kbps=lambda rate: rate >= 1000, bytes=1518, line=NO_LOAD),
            theirs=EXACT,
            bound=study.at_most(),
            unit="%",
        ),
        Claim(
            text="full packets at 1 to 1000 Mbit/s, without load: the transit time of a full queue is right to a packet and this",
            ours=lambda results: results.max("queue_off_ms", kbps=lambda rate: rate >= 1000, bytes=1518, line=NO_LOAD),
            theirs=0.25,
            bound=study.at_most(),
            unit="ms",
        ),
        kept_pace(
            NO_LOAD,
            PAPERS,
            differs="beside streams of 100 Mbit/s and more, and of 20,000 small packets a second, more than one packet in a thousand leaves late; the rates are right even so",
        ),
        kept_pace(HALF, differs=BUSY),
    ],
    quick=study.quick(points=study.grid(bytes=[1518], kbps=[1544, 100_000]), seconds=2, **QUICK_SEARCH),
)

# Table 3 ---------------------------------------------------------------------------------------------------------------


def losses(at: study.Point) -> dict[str, object]:
    """Round trips over a link that loses packets both ways, the more the higher the load."""
    p = at["percent"] / 100
    expected = 1 - (1 - p) ** 2
    loss = warpline.BernoulliLoss(probability=p)

    def lost(rate: float) -> dict[str, float]:
        seen = watch(at, {"sink": link("sink", loss=loss)}, trips("sink", at["seconds"], rate, at["bytes"]), at["seconds"] + 15)
        load = seen.printed["load"]
        share = 1 - load["returned"] / load["packets"]
        there, back = seen.summary["links"]
        dropped, crossed = (sum(row[name] for row in (there, back)) for name in ("drops_loss", "arrivals"))
        return {
            "lost": 100 * share,
            # What each way loses, if both lose the same.
            "lost_each_way": 100 * (1 - math.sqrt(1 - share)),
            "lost_there": 100 * there["drops_loss"] / there["arrivals"],
            "lost_back": 100 * back["drops_loss"] / back["arrivals"],
            "deviations": (share - expected) / math.sqrt(expected * (1 - expected) / load["packets"]),
            "link_deviations": (dropped - p * crossed) / math.sqrt(p * (1 - p) * crossed),
            "lost_elsewhere": max(0.0, 100 * (load["packets"] - load["returned"] - dropped) / load["packets"]),
            "error": abs(100 * (share / expected - 1)),
            **{name: value for name, value in seen.pace.items() if name != "load_lost"},
        }

    # Without load there is nothing to lose.
    return by_load(carried(at, at["bytes"]), lambda rate: lost(rate) if rate else {})


TABLE3_THEIRS = {(0.8, 64): 2.37, (0.8, 1518): 2.50, (2.5, 64): 0.92, (2.5, 1518): 0.92, (12, 64): 1.00, (12, 1518): 0.91}
"""Error of the loss in per cent, by the loss set in per cent and bytes."""

LOSS_SECONDS = 20
SURE = 4
"""How many standard deviations of the binomial distribution are no error."""


def chance(percent: float) -> float:
    """The standard deviation by chance of a loss in the full form at the paper's load, as per cent of it."""
    expected = 1 - (1 - percent / 100) ** 2
    return 100 * math.sqrt((1 - expected) / (expected * PAPERS_RATE * LOSS_SECONDS))


def beside_chance(percent: float) -> study.Bound:
    """At most theirs, and what is by chance."""
    more = SURE * chance(percent)
    return study.Bound(f"at most theirs and {more:.2g} %, which is {SURE} standard deviations of chance", lambda ours, theirs: ours <= theirs + more)


def loss_of(measure: str, percent: float, size: int, load: str) -> Callable[[Results], float]:
    """A measure of a loss."""
    return lambda results: results.mean(measure, percent=percent, bytes=size, line=load)


TABLE3 = study.Table(
    name="table3",
    source="Table 3",
    title="Loss",
    note="Both ways lose, and a round trip is lost if either does: at p each way, 1 - (1 - p)². What the program misses is counted, wherever it was lost. A load counts as carried if at most one round trip in a thousand "
    "is lost elsewhere than at the link. So, at all that is carried, what the link itself has lost is held against the setting.",
    model=losses,
    points=study.grid(bytes=list(ON_WIRE), percent=[0.8, 2.5, 12]),
    settings={"seconds": LOSS_SECONDS, **SEARCH},
    alone=True,
    labels={
        **LABELS,
        "percent": "Set, each way (%)",
        "lost": "Round trips lost (%)",
        "lost_each_way": "Which is each way (%)",
        "lost_there": "By the link, there (%)",
        "lost_back": "By the link, back (%)",
        "deviations": "Off by standard deviations",
        "link_deviations": "By the link, off by standard deviations",
        "lost_elsewhere": "Lost elsewhere (%)",
        "error": "Error (%)",
    },
    picture=study.table(x="percent"),
    claims=[
        *(
            Claim(
                text=f"{percent} % each way, {size} bytes: error of the round trips lost at {PAPERS}",
                ours=loss_of("error", percent, size, PAPERS),
                theirs=theirs,
                bound=beside_chance(percent),
                unit="%",
                # There is more chance in its few seconds. How many standard deviations it is off is judged.
                quick=False,
            )
            for (percent, size), theirs in TABLE3_THEIRS.items()
        ),
        *(
            Claim(
                text=f"{percent} % each way, {size} bytes: standard deviations of the round trips lost from 1 - (1 - p)² at {load}",
                ours=loss_of("deviations", percent, size, load),
                theirs=0,
                bound=study.within_absolute(SURE),
                quick=(percent, size) == (12, 64),
            )
            for percent, size in TABLE3_THEIRS
            for load in (PAPERS, HALF)
        ),
        *(
            Claim(
                text=f"{percent} % each way, {size} bytes: standard deviations of what the link loses both ways at {ALL}",
                ours=loss_of("link_deviations", percent, size, ALL),
                theirs=0,
                bound=study.within_absolute(SURE),
                quick=(percent, size) == (12, 64),
            )
            for percent, size in TABLE3_THEIRS
        ),
        Claim(
            text=f"round trips lost elsewhere at {ALL}, the most of all",
            ours=lambda results: results.max("lost_elsewhere", line=ALL),
            theirs=100 * (1 - KEPT),
            bound=study.at_most(),
            unit="%",
            differs=f"a load is tried for two seconds and then kept for {LOSS_SECONDS}; {FULL}",
        ),
        kept_pace(PAPERS),
        kept_pace(HALF, differs=BUSY),
    ],
    quick=study.quick(points=study.grid(bytes=[64], percent=[12]), seconds=4, **QUICK_SEARCH),
)

# How many links are kept in pace -----------------------------------------------------------------------------------------

RATE = 2e6
PAYLOAD = 1448 / 1500
"""What a TCP stream carries of a link's rate, with timestamps."""
HELD = 0.95
"""The live stream has its full throughput above this share of what its link carries. It is a round number: the paper says only when it "dropped"."""

FLOWS = {"CBR": {"app": "cbr", "rate": "2Mbit/s"}, "TCP": {"app": "bulk", "cc": "reno"}}
LINKS_THEIRS = {"CBR": 150, "TCP": 80}


def beside(at: study.Point, count: int) -> float:
    """The throughput of a live TCP stream over 2 Mbit/s and 50 ms, as a share of the full one, beside so many simulated links of the same kind, each with a flow."""
    slow = {"rate": "2Mbit/s", "delay": "50ms", "queue": warpline.Droptail(limit="50p")}
    seen = watch(
        at,
        {"sink": link("sink", **slow)},
        [program("stream", "tcp", f"{{sink}}:{PORT}", at["seconds"], 0, "cubic", start="500ms", expect="any")],
        at["seconds"] + 3,
        sink=("tcp-sink", PORT),
        links=[warpline.Link(between=[f"a{number}", f"b{number}"], **slow) for number in range(count)],
        flows=[warpline.Flow(name=f"f{number}", from_=f"a{number}", to=f"b{number}", start="0s..1s", **FLOWS[at["flows"]]) for number in range(count)],
    )
    # A stream that did not end within the run has no useful throughput: the emulator was far behind.
    tenths = seen.printed.get("stream", {}).get("tenths", [])
    # The start is left out, and the last tenth of a second, which may be incomplete.
    steady = tenths[15:-1]
    return 80 * statistics.fmean(steady) / (RATE * PAYLOAD) if steady else 0.0


def links(at: study.Point) -> dict[str, object]:
    """How many simulated links are kept in pace."""
    most = knee(lambda count: beside(at, count) >= HELD, LINKS_THEIRS[at["flows"]], at["ratio"])
    return {"links": most, "share": beside(at, most) if most else 0.0, "share_beyond": beside(at, 2 * most)}


LINKS = study.Table(
    name="links",
    source="Scaling, in the text",
    title="Simulated links of 2 Mbit/s beside which a live TCP stream keeps its throughput",
    note=f"The stream keeps it if it has {HELD:.0%} of what its link carries. The largest number is found by bisection; beyond is twice as many.",
    model=links,
    points=study.grid(flows=list(FLOWS)),
    settings={"seconds": 7, "ratio": 1.1},
    alone=True,
    labels={"flows": "Flows", "links": "Links", "share": "Throughput of the live stream", "share_beyond": "Beside twice as many"},
    picture=study.table(x="flows"),
    claims=[
        Claim(
            text=f"links with {flows} flows",
            ours=lambda results, flows=flows: results.mean("links", flows=flows),
            theirs=theirs,
            bound=study.at_least(),
            quick=flows == "CBR",
        )
        for flows, theirs in LINKS_THEIRS.items()
    ],
    quick=study.quick(points=study.grid(flows=["CBR"]), seconds=4, ratio=1.5),
)

PAPER = study.Paper(
    title='The report on the first simulator that carried live traffic, nse as part of Emulab ("NSE scaling, accuracy and capacity", with data of B. White and others, OSDI 2002)',
    about="It ran on a PC of 850 MHz with FreeBSD and a clock of 1 kHz. Ours is of the machine that each figure names: a result under the real clock is of one machine. "
    "`warpline calibrate` measures most of it in minutes, without scenarios.",
    figures=[TABLE1, TABLE2, TABLE3, LINKS],
)
