"""The figures of the paper (2 and 3 are in `dumbbell.py`), for Linux, the stacks in the process, and the TCP model.

They need `user-mode-linux` (Linux as guests) and `make stacks` (the stacks that are not part of the program).
"""

from __future__ import annotations

import json
import random
import statistics

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .dumbbell import FIG2, FIG2_LINUX, WEAK_BSD
from .stacks import FOREIGN, NEWRENO, SACK, TAHOE, Stack, both, goodputs, link, named, scenario

# Figure 1 --------------------------------------------------------------------------------------------------------------

REORDERED = [*both("cubic"), *both("reno"), *both("cubic", "sack"), *both("cubic", "dsack"), *both("cubic", "timestamps"), NEWRENO, SACK, *FOREIGN]


def reordering(at: study.Point) -> warpline.Scenario:
    """Each stack on its own path, all in one run. Data is delayed at random on the last hop."""
    links, hosts, flows = [], [], []
    jitter = {"jitter": warpline.ExponentialJitter(mean=f"{at['delay_ms']}ms", reorder=True), "reverse": {"jitter": warpline.NoJitter()}} if at["delay_ms"] else {}
    for number, stack in enumerate(REORDERED):
        source, router, last, sink = (f"{name}{number}" for name in ("src", "r", "s", "dst"))
        links += [link(source, router, 100e6, 1, 9999), link(router, last, 4e6, 48, 49), link(last, sink, 100e6, 1, 9999, **jitter)]
        hosts += stack.host(source, "sources") + stack.host(sink, "sinks")
        flows.append(stack.flow(f"flow{number}", source, sink, start="0s..100ms"))
    return scenario("fig1", at["seconds"], at["seed"], links, hosts, flows)


def kept(line: str, delay_ms: int):
    """The share of its goodput that a stack keeps where packets are reordered."""
    return lambda results: results.mean("goodput", line=line, delay_ms=delay_ms) / results.mean("goodput", line=line, delay_ms=0)


FIG1 = Figure(
    name="fig1",
    source="Figure 1",
    title="Goodput where packets are reordered (4 Mbit/s, RTT 100 ms)",
    scenario=reordering,
    points=study.grid(delay_ms=[0, 1, 2, 5, 10, 20, 50, 100]),
    settings={"seconds": 200},
    seeds=20,
    measures={"goodput": lambda run: {stack.name: goodputs(run)[f"flow{number}"] for number, stack in enumerate(REORDERED)}},
    labels={"goodput": "Goodput (Mbit/s)", "delay_ms": "Mean extra delay (ms)"},
    picture=study.lines(x="delay_ms", y="goodput", log="x"),
    claims=[
        Claim(
            text="ns-2's Sack1 loses its goodput to reordering of 10 ms",
            ours=kept("ns-2 Sack1 (model)", 10),
            theirs=0.25,
            bound=study.at_most(),
        ),
        Claim(
            text="the BSDs are very similar to ns-2's Sack1: goodput of 4.4BSD, divided by that of Sack1, at 10 ms",
            ours=lambda results: results.mean("goodput", line="4.4BSD reno", delay_ms=10) / results.mean("goodput", line="ns-2 Sack1 (model)", delay_ms=10),
            theirs=1,
            bound=study.between(0.5, 2),
        ),
        Claim(
            text="Linux is very different from ns-2's Sack1: its goodput, divided by that of Sack1, at 10 ms",
            ours=lambda results: results.mean("goodput", line="Linux cubic", delay_ms=10) / results.mean("goodput", line="ns-2 Sack1 (model)", delay_ms=10),
            theirs=3,
            bound=study.at_least(),
        ),
        Claim(
            text="duplicate SACKs are one of the reasons why Linux differs: its goodput with them, divided by that without them, at 50 ms",
            ours=lambda results: results.mean("goodput", line="Linux cubic", delay_ms=50) / results.mean("goodput", line="Linux cubic, no dsack", delay_ms=50),
            theirs=1.5,
            bound=study.at_least(),
        ),
    ],
    quick=study.quick(points=study.grid(delay_ms=[0, 10, 50]), seeds=1, seconds=60),
)

# Figure 4 --------------------------------------------------------------------------------------------------------------


def pairs() -> list[tuple[Stack, Stack]]:
    """The stacks of the two flows of each dumbbell."""
    linux, model = ({cc: both(cc)[place] for cc in ("reno", "cubic", "bbr", "vegas")} for place in (0, 1))
    return [
        *((kind["reno"], kind["reno"]) for kind in (linux, model)),
        (linux["reno"], model["reno"]),
        *((kind["cubic"], kind["cubic"]) for kind in (linux, model)),
        (linux["cubic"], model["cubic"]),
        *((kind["cubic"], kind["reno"]) for kind in (linux, model)),
        (linux["bbr"], linux["cubic"]),
        *((without, kind["reno"]) for without, kind in zip(both("reno", "sack"), (linux, model))),
        *((stack, stack) for stack in FOREIGN),
        *((stack, linux[stack.cc]) for stack in FOREIGN),
    ]


def dumbbells(at: study.Point) -> warpline.Scenario:
    """A dumbbell for each pair, with a queue of a fifth of the path's BDP."""
    rate, rtt = at["rate_mbps"] * 1e6, at["rtt_ms"]
    links, hosts, flows = [], [], []
    for number, pair in enumerate(pairs()):
        left, right = f"l{number}", f"r{number}"
        links.append(link(left, right, rate, rtt / 2 - 2, max(3, round(0.2 * rate * rtt / 1e3 / 12000))))
        for side, stack in zip("ab", pair):
            source, sink = f"{left}{side}", f"{right}{side}"
            links += [link(source, left, 10 * rate, 1, 9999), link(sink, right, 10 * rate, 1, 9999)]
            hosts += stack.host(source, "sources") + stack.host(sink, "sinks")
            flows.append(stack.flow(f"pair{number}{side}", source, sink, start=f"0s..{rtt}ms"))
    return scenario("fig4", at["seconds"], at["seed"], links, hosts, flows)


def ratios(run: warpline.Run) -> dict[str, float]:
    """The goodput of each pair's first flow over that of its second."""
    found = goodputs(run)
    return {f"{first.name} : {second.name}": found[f"pair{number}a"] / found[f"pair{number}b"] for number, (first, second) in enumerate(pairs())}


def farthest(results: Results, **where: object) -> float:
    """How far the ratio that is farthest from 1 is from it, as a factor above 1. Of the seeds, the geometric mean counts: it is the same whichever flow is the first."""
    means = [statistics.geometric_mean(cell.samples["ratio"]) for cell in results.where(**where).cells if "ratio" in cell.samples]
    return max(max(value, 1 / value) for value in means)


SAME = [f"{first.name} : {second.name}" for first, second in pairs() if first == second]
MIXED = [f"{first.name} : {second.name}" for first, second in pairs() if first != second and "bbr" not in first.name]

FIG4 = Figure(
    name="fig4",
    source="Figure 4",
    title="Goodput of the first flow over that of the second",
    note="Of the seeds, the claims take the geometric mean, which is the same whichever flow is the first; the table and the picture have the arithmetic one.",
    scenario=dumbbells,
    points=study.grid(rate_mbps=[10, 50], rtt_ms=[16, 42, 82, 122, 162, 202]),
    settings={"seconds": 60},
    seeds=5,
    measures={"ratio": ratios},
    labels={"ratio": "Ratio of goodputs", "rtt_ms": "RTT (ms)", "rate_mbps": "Mbit/s"},
    picture=[study.lines(x="rtt_ms", y="ratio", by="line", log="y", only={"rate_mbps": rate}, title=f"{rate} Mbit/s") for rate in (10, 50)],
    claims=[
        Claim(
            text="flows of the same Linux stack share fairly at 82 ms and more: the ratio farthest from 1",
            ours=lambda results: farthest(results, line=[line for line in SAME if line.startswith("Linux")], rtt_ms=lambda rtt: rtt >= 82),
            theirs=1,
            bound=study.between(1, 1.5),
        ),
        Claim(
            text="flows of the same model share fairly at 82 ms and more: the ratio farthest from 1",
            ours=lambda results: farthest(results, line=[line for line in SAME if line.startswith("model")], rtt_ms=lambda rtt: rtt >= 82),
            theirs=1,
            bound=study.between(1, 1.5),
        ),
        Claim(
            text="different standard TCPs are far apart at 10 Mbit/s: the ratio farthest from 1",
            ours=lambda results: farthest(results, line=MIXED, rate_mbps=10),
            theirs=2,
            bound=study.at_least(),
        ),
    ],
    quick=study.quick(points=study.grid(rate_mbps=[10], rtt_ms=[16, 82, 202]), seeds=2),
)

# Figure 5 --------------------------------------------------------------------------------------------------------------


FORWARD = named([*(stack for cc in ("reno", "cubic", "vegas", "westwood") for stack in both(cc)), SACK, *FOREIGN])


def reverse_traffic(at: study.Point) -> warpline.Scenario:
    """M flows in one direction and ten in the other over 10 Mbit/s, with round trips from 20 + 230/M to 250 ms."""
    stack, count, draw = FORWARD[at["stack"]], at["flows"], random.Random(at["seed"])
    links, hosts, flows = [link("l", "r", 10e6, 2, 125)], [], []
    least = 20 + 230 / count
    for number in range(count + 10):
        forward = number < count
        rtt = least + (250 - least) * number / max(count - 1, 1) if forward else draw.uniform(least, 250)
        one, other = f"a{number}", f"b{number}"
        links += [link(one, "l", 100e6, rtt / 4 - 1, 9999), link(other, "r", 100e6, rtt / 4 - 1, 9999)]
        hosts += stack.host(one, "left") + stack.host(other, "right")
        ends = (one, other) if forward else (other, one)
        flows.append(stack.flow(f"m{number}" if forward else f"reverse{number}", *ends, start="0s..5s"))
    return scenario("fig5", at["seconds"], at["seed"], links, hosts, flows, warmup=10)


def shared(run: warpline.Run, at: study.Point) -> dict[str, float]:
    """The goodput of the M flows together, and Jain's index of their shares."""
    found = goodputs(run)
    shares = [found.get(f"m{number}", 0.0) for number in range(at["flows"])]
    return {"goodput": sum(shares), "jain": sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares)) if any(shares) else 0.0}


PAPERS_OWN = [name for name in FORWARD if name.startswith(("Linux", "model", "ns-2"))]

FIG5 = Figure(
    name="fig5",
    source="Figure 5",
    title="M flows over 10 Mbit/s with reverse traffic",
    scenario=reverse_traffic,
    points=study.grid(stack=list(FORWARD), flows=[10, 20, 40, 100, 200]),
    settings={"seconds": 2000},
    seeds=5,
    measures=shared,
    labels={"goodput": "Goodput of all M (Mbit/s)", "jain": "Jain's index", "flows": "M"},
    picture=[study.lines(x="flows", y="goodput", by="stack", log="x"), study.lines(x="flows", y="jain", by="stack", log="x")],
    claims=[
        Claim(
            text="from M = 40 on goodput levels out at some 9 Mbit/s: the smallest of Linux, the model and ns-2's",
            ours=lambda results: results.min("goodput", stack=PAPERS_OWN, flows=lambda count: count >= 40),
            theirs=9,
            bound=study.at_least(),
            unit="Mbit/s",
        ),
        Claim(
            text="fairness grows with M: Jain's index with the most flows, divided by that with 10, the smallest of Linux, the model and ns-2's",
            ours=lambda results: min(results.rising("jain", "flows", stack=name) for name in PAPERS_OWN),
            theirs=1,
            bound=study.at_least(),
            differs="Only Westwood is below one: its shares are as even with 10 flows as with 200, since its window after a loss follows its estimate of the bandwidth. All others rise.",
        ),
        Claim(
            text="goodput is similar and fairness varies: range of Jain's index, divided by that of goodput, as shares, with 10 flows",
            ours=lambda results: (results.max("jain", flows=10) / results.min("jain", flows=10)) / (results.max("goodput", flows=10) / results.min("goodput", flows=10)),
            theirs=1,
            bound=study.at_least(),
        ),
    ],
    quick=study.quick(points=study.grid(stack=list(FORWARD), flows=[10, 40]), seeds=1, seconds=60),
)

# Figure 6 --------------------------------------------------------------------------------------------------------------

CROSSED = named([*both("reno"), *both("cubic"), *both("reno", "sack"), *both("vegas"), *both("westwood"), NEWRENO, SACK, *FOREIGN])


def hops(at: study.Point) -> warpline.Scenario:
    """One flow over congested hops of 10 Mbit/s, each crossed by a flow with ns-2's Newreno."""
    stack, count = CROSSED[at["stack"]], at["hops"]
    links, flows = [], []
    for hop in range(count):
        links += [link(f"r{hop}", f"r{hop + 1}", 10e6, 10, 124), link(f"s{hop}", f"r{hop}", 100e6, 20, 9999), link(f"d{hop}", f"r{hop + 1}", 100e6, 20, 9999)]
        flows.append(NEWRENO.flow(f"cross{hop}", f"s{hop}", f"d{hop}", start="0s..1s"))
    links += [link("src", "r0", 100e6, 20, 9999), link("dst", f"r{count}", 100e6, 20, 9999)]
    flows.append(stack.flow("measured", "src", "dst", start="10s"))
    return scenario("fig6", at["seconds"], at["seed"], links, stack.host("src", "source") + stack.host("dst", "sink"), flows, warmup=10)


REAL = [name for name in CROSSED if not name.startswith(("ns-2", "model")) and "vegas" not in name and "westwood" not in name]
"""Real stacks with congestion controls like those of the paper's stacks."""


def spread(results: Results, stacks: list[str]) -> float:
    """The largest goodput of some stacks over the smallest, at three hops."""
    return results.max("goodput", stack=stacks, hops=3) / results.min("goodput", stack=stacks, hops=3)


FIG6 = Figure(
    name="fig6",
    source="Figure 6",
    title="Goodput of a flow over several congested hops of 10 Mbit/s",
    scenario=hops,
    points=study.grid(stack=list(CROSSED), hops=[1, 2, 3, 4, 5]),
    settings={"seconds": 1000},
    seeds=5,
    measures={"goodput": lambda run: goodputs(run)["measured"]},
    labels={"goodput": "Goodput (Mbit/s)", "hops": "Congested hops"},
    picture=study.lines(x="hops", y="goodput", by="stack"),
    claims=[
        Claim(
            text="ns-2's Newreno achieves similar results to its Sack1: goodput of Newreno, divided by that of Sack1, at three hops",
            ours=lambda results: results.mean("goodput", stack=NEWRENO.name, hops=3) / results.mean("goodput", stack=SACK.name, hops=3),
            theirs=1,
            bound=study.within(0.3),
        ),
        Claim(
            text="goodput falls with the number of hops: that of Linux's Reno at the most hops, divided by that at one",
            ours=lambda results: results.rising("goodput", "hops", stack="Linux reno"),
            theirs=0.9,
            bound=study.at_most(),
        ),
        Claim(
            text="real stacks, without Vegas and Westwood, have a greater range than ns-2's models at three hops: largest goodput divided by smallest, and the ratio of the two",
            ours=lambda results: spread(results, REAL) / spread(results, [NEWRENO.name, SACK.name]),
            theirs=1.5,
            bound=study.at_least(),
        ),
        Claim(
            text="Linux has substantially less than the BSDs at three hops: goodput of Linux's Reno, divided by that of 4.4BSD",
            ours=lambda results: results.mean("goodput", stack="Linux reno", hops=3) / results.mean("goodput", stack="4.4BSD reno", hops=3),
            theirs=0.8,
            bound=study.at_most(),
            differs=WEAK_BSD,
        ),
    ],
    quick=study.quick(points=study.grid(stack=list(CROSSED), hops=[1, 3]), seeds=1, seconds=100),
)

# Figure 7 --------------------------------------------------------------------------------------------------------------

SIP = [*both("cubic"), *both("reno"), *both("reno", "sack"), *both("cubic", "timestamps"), TAHOE, NEWRENO, SACK, *FOREIGN]
LINES = [(stack, False) for stack in SIP] + [(stack, True) for stack in both("cubic")]
"""The stacks of the figure, and whether they delay acknowledgements."""


def line_of(stack: Stack, late: bool) -> str:
    """What the figure calls it."""
    return stack.name + (", delayed ACKs" if late else "")


def messages(at: study.Point) -> warpline.Scenario:
    """Messages of 512 bytes at random times over one connection, each in one segment, with packet loss."""
    seconds, seed, percent = at["seconds"], at["seed"], at["loss_percent"]
    loss = {"loss": warpline.BernoulliLoss(probability=percent / 100), "reverse": {"loss": warpline.NoLoss()}} if percent else {}
    links, hosts, flows = [], [], []
    for number, (stack, late) in enumerate(LINES):
        source, sink = f"src{number}", f"dst{number}"
        # A segment has room for a message beside its timestamps. Of the stacks in the process, only netstack has them.
        bare = stack.off == "timestamps" or stack.tcp or (stack.foreign and stack.kind != "stack:netstack")
        mss = 512 + (0 if bare else 12)
        links += [link(source, f"n{number}", 100e6, 1, 999), link(f"n{number}", f"m{number}", 10e6, 48, 999, **loss), link(f"m{number}", sink, 100e6, 1, 999)]
        if stack.kind == "linux":
            # Without delayed acknowledgements, which only a route can switch off for good.
            quick = "" if late else "ip route replace default dev eth0 quickack 1; "

            def program(words: str, start: str, quick: str = quick) -> list[warpline.Program]:
                return [warpline.Program(command=f"{quick}exec python3 messages.py {words}", start=start)]

            hosts += stack.host(source, "sources", program=program(f"send {{{sink}}} 100 {seconds} {seed} {mss}", "1s"))
            hosts += stack.host(sink, "sinks", program=program(f"receive {mss}", "0s"))
            continue
        hosts += stack.host(source, "sources")
        # A stack in the process sends to the model, which tells it the size of segments and can acknowledge at once.
        if not stack.foreign:
            hosts += stack.host(sink, "sinks")
        tcp = {**({} if late else {"delayed_ack": "0s"}), "nagle": False, "mss": f"{mss}B"}
        app = {"app": "poisson", "message_rate": 100, "message_size": "512B", "start": "1s", "stop": f"{seconds + 1}s"}
        flows.append(stack.flow(f"flow{number}", source, sink, tcp, **app))
    # At 2 % a connection carries fewer messages than are offered: those that wait at the end take as long again.
    return scenario("fig7", seconds + (30 if percent < 2 else 2 * seconds), seed, links, hosts, flows)


def latencies(run: warpline.Run) -> dict[str, float]:
    """The mean latency of each stack's messages in seconds: of the simulated ones from the summary, of the guests' from what the receivers print."""
    flows = {flow["group"]: flow["message_latency_mean_ms"] / 1e3 for flow in run.summary["flows"] if flow["app"] == "poisson"}
    assert run.directory is not None
    found = {}
    for number, (stack, late) in enumerate(LINES):
        printed = run.directory / "programs" / f"dst{number}.0.stdout"
        found[line_of(stack, late)] = json.loads(printed.read_text())["mean"] if stack.kind == "linux" else flows[f"flow{number}"]
    return found


AT_ONCE = [line_of(stack, late) for stack, late in LINES if not late]

FIG7 = Figure(
    name="fig7",
    source="Figure 7",
    title="Mean latency of 512-byte messages, 100 a second, one way 50 ms",
    note="The paper leaves Linux out, because its delayed acknowledgements could not be switched off. Now a route can do that (`ip route ... quickack 1`). ns-2's Newreno takes the place of its Reno, which is not here.",
    scenario=messages,
    points=study.grid(loss_percent=[0, 0.1, 0.2, 0.3, 0.4, 0.5, 1, 2]),
    settings={"seconds": 270},
    seeds=5,
    keep=True,
    measures={"latency": latencies},
    labels={"latency": "Latency (s)", "loss_percent": "Loss (%)"},
    picture=study.lines(x="loss_percent", y="latency", log="y"),
    claims=[
        Claim(
            text="ns-2's Sack1 is within 2 s at all loss rates up to 0.5 %",
            ours=lambda results: results.max("latency", line=SACK.name, loss_percent=lambda loss: loss <= 0.5),
            theirs=2,
            bound=study.at_most(),
            unit="s",
        ),
        Claim(
            text="ns-2's models other than Sack1 exceed 2 s at loss rates up to 0.5 %: the latency of Tahoe, the most",
            ours=lambda results: results.max("latency", line=TAHOE.name, loss_percent=lambda loss: loss <= 0.5),
            theirs=2,
            bound=study.at_least(),
            unit="s",
            quick=False,
            differs="it is above 2 s from 1 % on, as all stacks but netstack are at 2 %; the reason is not known",
        ),
        Claim(
            text="ns-2's Tahoe is slower than Sack1 at 0.3 %: the ratio",
            ours=lambda results: results.mean("latency", line=TAHOE.name, loss_percent=0.3) / results.mean("latency", line=SACK.name, loss_percent=0.3),
            theirs=1,
            bound=study.at_least(),
        ),
        Claim(
            text="a real BSD has over 4 s at 0.5 %: 4.4BSD",
            ours=lambda results: results.mean("latency", line="4.4BSD reno", loss_percent=0.5),
            theirs=4,
            bound=study.at_least(),
            unit="s",
            quick=False,
            differs="The paper shows it for FreeBSD 5.3 and OpenBSD 3.5, and does not say what makes them slow. 4.4BSD, their common ancestor, recovers as ns-2's Reno does.",
        ),
        Claim(
            text="delayed acknowledgements increase the latency under loss: that of Linux's CUBIC with them, divided by that without them, at 1 %",
            ours=lambda results: results.mean("latency", line="Linux cubic, delayed ACKs", loss_percent=1) / results.mean("latency", line="Linux cubic", loss_percent=1),
            theirs=1,
            bound=study.at_least(),
            quick=False,
        ),
    ],
    quick=study.quick(points=study.grid(loss_percent=[0, 0.3, 1]), seeds=1, seconds=60),
)

# Figure 8 --------------------------------------------------------------------------------------------------------------

BOTTLENECKS = named([*both("reno"), *both("cubic"), NEWRENO, SACK, *FOREIGN])


def bottlenecks(at: study.Point) -> warpline.Scenario:
    """Flows A over two bottlenecks, X over the first and Y over the second, five each. X and Y are ns-2's Newreno."""
    stack = BOTTLENECKS[at["stack"]]
    links, hosts, flows = [link("r0", "r1", 10e6, 10, 49), link("r1", "r2", 10e6, 10, 49)], [], []
    for name, begin, end in [*((f"x{number}", "r0", "r1") for number in range(5)), *((f"y{number}", "r1", "r2") for number in range(5))]:
        links += [link(f"s{name}", begin, 100e6, 5, 9999), link(f"d{name}", end, 100e6, 5, 9999)]
        flows.append(NEWRENO.flow(name, f"s{name}", f"d{name}", start="0s..10s"))
    for number in range(at["flows"]):
        source, sink = f"sa{number}", f"da{number}"
        links += [link(source, "r0", 100e6, 5, 9999), link(sink, "r2", 100e6, 5, 9999)]
        hosts += stack.host(source, "left") + stack.host(sink, "right")
        flows.append(stack.flow(f"a{number}", source, sink, start="0s..10s"))
    return scenario("fig8", at["seconds"], at["seed"], links, hosts, flows, warmup=10)


def falls(name: str) -> Claim:
    """The paper's claim for a stack."""
    return Claim(
        text=f"the goodput of all falls as A grows, {name}: that with the most flows, divided by that with one",
        ours=lambda results: results.rising("goodput", "flows", stack=name),
        theirs=0.8,
        bound=study.at_most(),
    )


FIG8 = Figure(
    name="fig8",
    source="Figure 8",
    title="Goodput of all flows over two bottlenecks",
    note="The paper does not tell rates and delays: 10 Mbit/s and 10 ms here, and a queue of 50 packets. It does not say by how much the goodput falls, either: by a fifth at least, here.",
    scenario=bottlenecks,
    points=study.grid(stack=list(BOTTLENECKS), flows=[1, 5, 10, 20, 40]),
    settings={"seconds": 300},
    seeds=10,
    measures={"goodput": lambda run: sum(goodputs(run).values())},
    labels={"goodput": "Goodput of all flows (Mbit/s)", "flows": "Flows in A"},
    picture=study.lines(x="flows", y="goodput", by="stack", log="x"),
    claims=[falls(name) for name in BOTTLENECKS],
    quick=study.quick(points=study.grid(stack=list(BOTTLENECKS), flows=[1, 10]), seeds=1, seconds=60),
)

PAPER = study.Paper(
    title='S. Jansen and A. McGregor, "Performance, validation and testing with the Network Simulation Cradle"',
    about="Their stacks were Linux 2.4 and 2.6.10, FreeBSD 5.3 and OpenBSD 3.5, beside ns-2's models. Here they are Linux 6.1 as guests, lwIP, smoltcp, gVisor's netstack and the "
    "TCP of 4.4BSD in the process, our model with Linux's options, and our model with the presets for ns-2's. Where the paper has a graph without numbers, the value to hold ours against is "
    "read from its words.",
    figures=[FIG1, FIG2, FIG2_LINUX, FIG4, FIG5, FIG6, FIG7, FIG8],
)
