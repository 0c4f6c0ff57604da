"""The study of BTC tools: pairs of transfers back to back on 31 paths, as in 2000, with today's tools, and what explains their differences.

The hosts are guests (Debian's `user-mode-linux`), where iperf3, `warpline cap` and `warpline treno` run as programs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .paths import PATHS, chance, heard, transfers
from .tools import ALONE, CAP_2000, CAP_CUBIC, CAP_RENO, CUBIC, RENO, TCP_2000, TRENO, TRENO_2000, UNTUNED, WINDOW, Tool, cap, treno

ROUNDS = 3
"""How often a pair is measured on a path where chance decides. On the others a second round would be the first again."""


def rounds(at: study.Point) -> int:
    """How many seeds a point has."""
    return ROUNDS if chance(str(at["path"])) else 1


# Pairs of transfers ----------------------------------------------------------------------------------------------------

Pair = tuple[Tool, Tool]

BETWEEN = " : "


def named(*pairs: Pair) -> dict[str, Pair]:
    """Pairs by their names, which are values of an axis."""
    return {f"{first.name}{BETWEEN}{second.name}": (first, second) for first, second in pairs}


YEAR_2000 = named((TCP_2000, TCP_2000), (TCP_2000, CAP_2000), (TCP_2000, TRENO_2000))
TODAY = named((RENO, RENO), (RENO, CAP_RENO), (RENO, TRENO), (RENO, UNTUNED), (CUBIC, CUBIC), (CUBIC, CAP_CUBIC), (RENO, CUBIC))
ONE_SIDE = named((RENO, ALONE), (CAP_RENO, ALONE), (CAP_RENO, TRENO), (ALONE, TRENO))
PAIRS = YEAR_2000 | TODAY | ONE_SIDE


def one_pair(at: study.Point) -> warpline.Scenario:
    """Two transfers back to back."""
    return transfers(at, PAIRS[str(at["pair"])])


def compared(run: warpline.Run) -> dict[str, float]:
    """The throughput of both transfers, and how far the second is from the first.

    The difference is a share of the larger throughput. So it is never above 1, as on the slides, which do not say how they computed theirs.
    """
    first, second = (one["mbps"] or 0.0 for one in heard(run))
    difference = (second - first) / max(first, second)
    return {"first_mbps": first, "second_mbps": second, "difference": difference, "size": abs(difference)}


LABELS = {
    "first_mbps": "Throughput of the first of the pair (Mbit/s)",
    "second_mbps": "Throughput of the second of the pair (Mbit/s)",
    "difference": "Difference of the second from the first, as a share of the larger",
    "size": "Size of the difference, as a share of the larger",
}

EVERY = list(PATHS)
FEW = ["country", "campus-small-queue"]
"""Quiet paths. The quick forms have the first."""

SHORT = 3
"""Seconds of a transfer in the quick forms. The tools of 2000 need three times as long, since their windows begin with two segments."""


def pairs(name: str, those: Mapping[str, Pair], **more: Any) -> Figure:
    """A figure like those of the slides: pairs of transfers on all paths, which weigh alike."""
    of = list(those)
    options: dict[str, Any] = {
        "name": name,
        "scenario": one_pair,
        "points": study.grid(path=EVERY, pair=of),
        "settings": {"seconds": 30},
        "seeds": rounds,
        "measures": compared,
        "keep": True,
        "labels": LABELS,
        "picture": [
            *(study.cdf(y, by="pair", log="x", alike="path", title=title) for y, title in (("first_mbps", "The first of each pair"), ("second_mbps", "The second of each pair"))),
            study.cdf("size", by="pair", alike="path", title="Difference, take 1"),
            study.cdf("difference", by="pair", alike="path", title="Difference, take 2"),
        ],
        "quick": study.quick(points=study.grid(path=FEW[:1], pair=of), seeds=1, seconds=3 * SHORT if those is YEAR_2000 else SHORT),
    }
    return Figure(**{**options, **more})


def middle(pair: str):
    """The size of the difference, the median; paths weigh alike."""
    return lambda results: results.quantile("size", 0.5, alike="path", pair=pair)


def close(results: Results, pair: str) -> float:
    """The share of the transfers that differ by at most 5 %; paths weigh alike."""
    return results.share_up_to(0.05, "size", alike="path", pair=pair)


def closer(pair: str, other: str):
    """By how much the share of transfers that differ by at most 5 % is larger for one pair than for another."""
    return lambda results: close(results, pair) - close(results, other)


TCP_TCP, TCP_CAP, TCP_TRENO = YEAR_2000

SLIDES = pairs(
    "slides",
    YEAR_2000,
    source="Slides 8 to 10",
    title="TCP, cap and TReno as in 2000: throughput, and differences take 1 and take 2",
    note=f"TCP is Linux's Reno in place of BSD's, cap has the preset `classic`, TReno its default timers, and all have windows of {WINDOW}iB. The slides have curves without numbers: what they conclude in words is "
    "judged with numbers of ours. The axis of slide 8 ends at 3,000,000 bytes/s; two of our paths are faster, with 50 Mbit/s.",
    claims=[
        Claim(
            text="BTC is likely possible with a sender and a receiver: the difference between TCP and cap, the median",
            ours=middle(TCP_CAP),
            theirs=0.05,
            bound=study.at_most(),
        ),
        Claim(
            text="cap predicts TCP as another transfer of TCP does: the share of TCP : TCP pairs within 5 %, minus that of TCP : cap pairs",
            ours=closer(TCP_TCP, TCP_CAP),
            theirs=0.1,
            bound=study.at_most(),
            quick=False,
            differs="`classic` (the recovery of RFC 6675, a least time-out of 1 s) gets less than today's Reno of Linux, which has RACK and a least time-out of 0.2 s: in guests and on live hosts together, 16 to 58 % less where packets are lost at random, and 9 to 33 % less on satellite, continent-small-queue and ocean-small-queue, where none are; theirs was a Reno of 2000",
        ),
        Claim(
            text="whether a sender alone can do it is an open question: the mean size of TReno's difference from TCP, divided by that of cap's",
            ours=lambda results: results.mean("size", pair=TCP_TRENO) / results.mean("size", pair=TCP_CAP),
            theirs=1,
            bound=study.at_least(),
            quick=False,
            differs="on the same paths TReno loses as much as cap's `classic` does, and on those with small queues less; both are of 2000, and TCP is not",
        ),
        Claim(
            text="cap gets less than TCP, which the slide puts down to time-outs that end up a bit longer: the mean difference",
            ours=lambda results: results.mean("difference", pair=TCP_CAP),
            theirs=0,
            bound=study.at_most(),
            quick=False,
        ),
    ],
)

NOW = pairs(
    "today",
    TODAY,
    source="Slide 14, future work",
    title="Today's TCPs, cap with their algorithms, and TReno",
    note="Linux's own buffers, cap with its default preset, TReno with Linux's timers and untuned.",
    claims=[
        *(
            Claim(
                text=f"cap predicts TCP: the median difference, {pair}",
                ours=middle(pair),
                theirs=0.01,
                bound=study.at_most(),
                quick=False,
            )
            for pair in ("TCP reno : cap reno", "TCP cubic : cap cubic")
        ),
        Claim(
            text="cap with Reno might differ from TCP no more than another TCP does: the share of Reno : cap pairs within 5 %, minus that of Reno : CUBIC pairs",
            ours=closer("TCP reno : cap reno", "TCP reno : TCP cubic"),
            theirs=0,
            bound=study.at_least(),
            quick=False,
        ),
        Claim(
            text="cap with CUBIC might differ from TCP no more than another TCP does: the share of CUBIC : cap pairs within 5 %, minus that of Reno : CUBIC pairs",
            ours=closer("TCP cubic : cap cubic", "TCP reno : TCP cubic"),
            theirs=0,
            bound=study.at_least(),
            quick=False,
        ),
        Claim(
            text="TReno needs to be fixed to emulate TCP better: the share of TCP : TReno pairs within 5 % with Linux's timers, minus that without",
            ours=closer("TCP reno : TReno", "TCP reno : TReno, untuned"),
            theirs=0,
            bound=study.at_least(),
            quick=False,
        ),
        Claim(
            text="on two quiet paths, country and campus-small-queue, cap gets what TCP gets: the largest difference, with Reno and CUBIC",
            ours=lambda results: results.max("size", pair=["TCP reno : cap reno", "TCP cubic : cap cubic"], path=FEW),
            theirs=0,
            bound=study.between(0, 0.1),
        ),
    ],
)

SENDER_ONLY = pairs(
    "sender-only",
    ONE_SIDE,
    source="Slide 15, future work",
    title="cap from one side, beside TCP, cap and TReno",
    note="`cap --sender-only` is cap's engine with echo replies in place of acknowledgements. So it shows which differences come from TReno's algorithms, and which from measuring from one side.",
    claims=[
        Claim(
            text="a sender alone can do it where the way back loses nothing: cap from one side and TCP, the median difference",
            ours=lambda results: results.quantile("size", 0.5, alike="path", pair="TCP reno : cap reno, sender only", path=[path for path in PATHS if path not in RANDOM_LOSS]),
            theirs=0.05,
            bound=study.at_most(),
            quick=False,
        ),
        Claim(
            text="the more direct comparison: cap from one side is nearer to cap than TReno is, by the share of pairs within 5 %",
            ours=closer("cap reno : cap reno, sender only", "cap reno : TReno"),
            theirs=0,
            bound=study.at_least(),
            quick=False,
            differs="they are equally near: within 5 % of cap are 78 % of the transfers of cap from one side and 80 % of TReno's, one transfer on ocean-lossy more. Both take lost answers for lost segments",
        ),
        Claim(
            text="what is lost on the way back counts as lost: mean difference from TCP where packets are lost at random",
            ours=lambda results: results.mean("difference", pair="TCP reno : cap reno, sender only", path=RANDOM_LOSS),
            theirs=0,
            bound=study.at_most(),
            quick=False,
        ),
    ],
)

# Why they differ -------------------------------------------------------------------------------------------------------

RANDOM_LOSS = [path for path, profile in PATHS.items() if float(profile["loss_percent"]) > 0]

QUIET = ["adsl", "t1-quiet", "cable"]
"""Paths without chance, on which the first window is lost."""

FIRST_WINDOW: Mapping[str, Sequence[int]] = {"cap": [4, 5], "TReno": [1, 2]}
"""The numbers of the packets at the bottleneck that carry the first window: before it, cap sends two messages and its SYN."""

VARIANTS = {
    tool.name: tool
    for tool in (
        CAP_2000,
        # A SYN may be lost, and its answer.
        cap("cap, first time-out 6 s", "--preset", "classic", "--initial-rto", "6s", patience=12),
        cap("cap, no heartbeat", "--preset", "classic", "--heartbeat", "no"),
        cap("cap, ticks of 10 ms", "--preset", "classic", "--granularity", "10ms"),
        TRENO_2000,
        treno("TReno, first time-out 6 s", "--max-window", "200KiB", "--initial-rto", "6s", patience=12),
    )
}

BY_CHANCE, FIRST = "by chance", "the first window"


def one_variant(at: study.Point) -> warpline.Scenario:
    """One transfer alone. All variants have the same seed, so that a path loses the same packets until they differ."""
    name = str(at["tool"])
    return transfers(at, [VARIANTS[name]], FIRST_WINDOW[name.partition(",")[0]] if at["lost"] == FIRST else ())


def alone(run: warpline.Run) -> Mapping[str, float | None]:
    """The throughput and the number of time-outs."""
    (one,) = heard(run)
    return one


def ablation_points(first: Sequence[str], by_chance: Sequence[str], tools: Sequence[str]) -> list[study.Point]:
    """Where the first window is lost, and where packets are lost by chance."""
    return [
        {"lost": lost, "path": path, "tool": tool}
        for lost, paths in ((FIRST, first), (BY_CHANCE, by_chance))
        for path, tool in itertools.product(paths, tools)
    ]


def ratio(tool: str, base: str, lost: str):
    """The throughput of a variant over that of another, the mean over the paths."""

    def ours(results: Results) -> float:
        shares = [mine / theirs for mine, theirs in results.matched("mbps", "tool", tool, base, lost=lost)]
        return sum(shares) / len(shares)

    return ours


ABLATION = Figure(
    name="ablation",
    source="Slide 11",
    title="Why the difference: cap's first time-out and its heartbeat",
    note="Each variant transfers alone, on the paths with random losses, and on three quiet paths that lose the first window of two segments. The slide names 3 s and 6 s; a transfer of 30 s that waits for "
    "them has 27 and 24 s left, whose ratio is 0.89.",
    scenario=one_variant,
    points=ablation_points(QUIET, RANDOM_LOSS, list(VARIANTS)),
    settings={"seconds": 30},
    seeds=rounds,
    measures=alone,
    keep=True,
    labels={"mbps": "Throughput (Mbit/s)", "timeouts": "Time-outs", "lost": "What is lost", "tool": "Tool"},
    picture=study.table(),
    claims=[
        Claim(
            text="a first time-out of 6 s in place of 3 s explains a difference where the first window is lost: throughput of cap with 6 s, divided by that with 3 s",
            ours=ratio("cap, first time-out 6 s", "cap", FIRST),
            theirs=24 / 27,
            bound=study.within(0.03),
            differs="our cap opens with a SYN, so it has measured the round trip before the first segment, and its first time-out is the smallest one, 1 s",
        ),
        Claim(
            text="a first time-out of 6 s in place of 3 s explains a difference of TReno, which has no SYN: its throughput with 6 s, divided by that with 3 s, where the first window is lost",
            ours=ratio("TReno, first time-out 6 s", "TReno", FIRST),
            theirs=24 / 27,
            bound=study.within(0.03),
            quick=False,
        ),
        Claim(
            text="a bug in the heartbeat of the paper's cap made its time-outs longer than TCP's; ours costs nothing: throughput of cap without the heartbeat, divided by that with it, where the first window is lost",
            ours=ratio("cap, no heartbeat", "cap", FIRST),
            theirs=1,
            bound=study.at_most(),
        ),
    ],
    quick=study.quick(points=ablation_points(QUIET[:1], [], list(VARIANTS)), seeds=1, seconds=10),
)

# Live ------------------------------------------------------------------------------------------------------------------

LIVE = pairs(
    "live",
    YEAR_2000,
    source="Slides 8 to 10",
    title="The same on live hosts",
    note="Namespaces of this machine under the real clock. It needs root and, with two idle cores, an hour. A run in which the emulator did not keep pace has no result.",
    settings={"seconds": 30, "live": True},
    alone=True,
    # Three at once on two cores: with four, many runs do not keep pace. The fastest path, with 50 Mbit/s, takes 36 s of processor time in 68 s.
    cpus=2 / 3,
    claims=SLIDES.claims,
)

PAPER = study.Paper(
    title='M. Allman, "Preliminary Empirical Study of BTC Tools", IPPM, August 2000',
    about="TCP, cap and TReno were compared between 31 sites of the NIMI project. Here 31 emulated paths with published profiles (`repro/btc-tools/paths.csv`) take the place of the sites, and Linux's TCP "
    "takes the place of theirs.",
    figures=[SLIDES, ABLATION, NOW, SENDER_ONLY, LIVE],
)
