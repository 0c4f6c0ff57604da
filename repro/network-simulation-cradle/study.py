"""Repeats figures 1 and 4 to 8 of "Performance, validation and testing with the Network Simulation Cradle", for Linux, the stacks in the process, and the
TCP model.

    python3 repro/network-simulation-cradle/study.py target/release/warpline --short     # fewer points, shorter runs, one or two seeds
    python3 repro/network-simulation-cradle/study.py target/release/warpline             # the figures of the README
    python3 repro/network-simulation-cradle/study.py target/release/warpline --only fig1,fig7

Writes results/FIGURE.csv and, with matplotlib, results/FIGURE.svg, and prints the tables. `--scenarios DIR` writes the scenarios instead.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
from pathlib import Path

import nsc
from nsc import Stack, head, link

HERE = Path(__file__).parent
NS2_NEWRENO = Stack("ns-2 Newreno (model)", "model", '{ kind = "reno", counting = "acks" }', tcp='{ preset = "ns2-sack1", recovery = "newreno", sack = false }')
NS2_SACK = Stack("ns-2 Sack1 (model)", "model", '{ kind = "reno", counting = "acks" }', tcp='{ preset = "ns2-sack1" }')
NS2_TAHOE = Stack("ns-2 Tahoe (model)", "model", '{ kind = "reno", counting = "acks" }', tcp='{ preset = "ns2-sack1", recovery = "tahoe", sack = false }')


STACKS = [
    Stack("lwIP reno", "stack:lwip", "reno"),
    Stack("smoltcp reno", "stack:smoltcp", "reno"),
    Stack("smoltcp cubic", "stack:smoltcp", "cubic"),
    Stack("netstack reno", "stack:netstack", "reno"),
    Stack("4.4BSD reno", "stack:bsd", "reno"),
]


def both(cc: str, off: str = "") -> list[Stack]:
    """Linux and the model, with a feature off."""
    without = f", no {off}" if off else ""
    return [Stack(f"{title} {cc}{without}", kind, cc, off) for title, kind in (("Linux", "linux"), ("model", "model"))]


class Figure:
    """A figure: the values of its lines at each point, collected over seeds."""

    def __init__(self, name: str, title: str, axis: str, value: str, log: str = "") -> None:
        self.name, self.title, self.axis, self.value, self.log = name, title, axis, value, log
        self.runs: list[tuple[float, object]] = []
        self.points: dict[tuple[str, float], list[float]] = {}

    def add(self, x: float, future: object) -> None:
        """Starts a run for this x, which returns values by line."""
        self.runs.append((x, future))

    def collect(self) -> None:
        """Waits for all runs."""
        for x, future in self.runs:
            for line, value in future.result().items():
                self.points.setdefault((line, x), []).append(value)

    def lines(self) -> list[str]:
        return list(dict.fromkeys(line for line, _ in self.points))

    def xs(self) -> list[float]:
        return sorted({x for _, x in self.points})

    def write(self, out: Path) -> None:
        rows = [
            {self.axis: x, "stack": line, self.value: nsc.significant(statistics.mean(values)),
             "half_width_95": "" if len(values) < 2 else nsc.significant(nsc.half_width(values), 3), "seeds": len(values)}
            for (line, x), values in sorted(self.points.items(), key=lambda item: (self.lines().index(item[0][0]), item[0][1]))
        ]
        nsc.write_csv(out / f"{self.name}.csv", rows)
        cell = lambda line, x: f"{statistics.mean(self.points[line, x]):.3g}" if (line, x) in self.points else ""
        table = [f"### {self.title}", "", f"| {self.value} | " + " | ".join(f"{x:g}" for x in self.xs()) + " |", "|---|" + "--:|" * len(self.xs())]
        table += [f"| {line} | " + " | ".join(cell(line, x) for x in self.xs()) + " |" for line in self.lines()]
        (out / f"{self.name}.md").write_text("\n".join(table) + "\n")
        print("\n" + "\n".join(table), flush=True)
        self.draw(out)

    def draw(self, out: Path) -> None:
        try:
            from matplotlib.figure import Figure as Drawing
        except ImportError:
            print("no plots: matplotlib is not installed", file=sys.stderr)
            return
        drawing = Drawing(figsize=(8, 4.5), layout="constrained")
        ax = drawing.subplots()
        for line in self.lines():
            mine = [(x, self.points[line, x]) for x in self.xs() if (line, x) in self.points]
            error = [nsc.half_width(values) if len(values) > 1 else 0 for _, values in mine]
            style = {"linestyle": "-", "marker": "o"} if line.startswith("Linux") else {"linestyle": "--", "marker": "x"}
            ax.errorbar([x for x, _ in mine], [statistics.mean(values) for _, values in mine], error, label=line, linewidth=1, markersize=4, **style)
        if "x" in self.log:
            ax.set_xscale("symlog", linthresh=min(x for x in self.xs() if x > 0))
        if "y" in self.log:
            ax.set_yscale("log")
        ax.set(title=self.title, xlabel=self.axis, ylabel=self.value)
        ax.grid(alpha=0.3)
        ax.legend(fontsize="x-small")
        drawing.savefig(out / f"{self.name}.svg")


def goodputs(summary: dict, _: Path) -> dict[str, float]:
    """Goodput of the groups of flows, in Mbit/s."""
    found: dict[str, float] = {}
    for flow in summary["flows"]:
        found[flow["group"]] = found.get(flow["group"], 0.0) + flow["goodput_bps"] / 1e6
    return found


def fig1(study: Study) -> list[Figure]:
    """Reordering: 4 Mbit/s, 100 ms, each packet delayed at random on the last hop. All stacks are in one run, each on its own path."""
    stacks = [*both("cubic"), *both("reno"), *both("cubic", "sack"), *both("cubic", "dsack"), *both("cubic", "timestamps"), NS2_NEWRENO, NS2_SACK, *study.stacks]
    figure = Figure("fig1", "Figure 1: goodput where packets are reordered (4 Mbit/s, RTT 100 ms)", "mean extra delay, ms", "goodput, Mbit/s", "x")
    seconds = study.pick(60, 200)
    for mean, seed in itertools.product(study.pick([0, 2, 10, 50], [0, 1, 2, 5, 10, 20, 50, 100]), study.seeds(1, 20)):
        parts = [head("fig1", seconds, seed)]
        jitter = f'jitter = {{ kind = "exponential", mean = "{mean}ms", reorder = true }}\nreverse = {{ jitter = {{ kind = "none" }} }}\n' if mean else ""
        for number, stack in enumerate(stacks):
            source, sink = f"src{number}", f"dst{number}"
            parts += [
                link(source, f"r{number}", 100e6, 1, 9999),
                link(f"r{number}", f"s{number}", 4e6, 48, 49),
                link(f"s{number}", sink, 100e6, 1, 9999, jitter),
                stack.host(source, "sources"), stack.host(sink, "sinks"),
                stack.flow(f"flow{number}", source, sink, 'start = "0s..100ms"\n'),
            ]
        named = lambda summary, run: {stack.name: goodputs(summary, run)[f"flow{number}"] for number, stack in enumerate(stacks)}
        figure.add(mean, study.start(f"fig1-{mean}-{seed}", "\n".join(parts), named))
    return [figure]


def fig4(study: Study) -> list[Figure]:
    """Fairness of two flows in a dumbbell with a queue of a fifth of the path's BDP."""
    linux = {cc: both(cc)[0] for cc in ("reno", "cubic", "bbr", "vegas")}
    model = {cc: both(cc)[1] for cc in ("reno", "cubic", "vegas")}
    pairs = [(linux["reno"], linux["reno"]), (model["reno"], model["reno"]), (linux["reno"], model["reno"]),
             (linux["cubic"], linux["cubic"]), (model["cubic"], model["cubic"]), (linux["cubic"], model["cubic"]),
             (linux["cubic"], linux["reno"]), (model["cubic"], model["reno"]), (linux["bbr"], linux["cubic"]),
             (both("reno", "sack")[0], linux["reno"]), (both("reno", "sack")[1], model["reno"])]
    pairs += [(stack, stack) for stack in study.stacks] + [(stack, linux[stack.cc]) for stack in study.stacks]
    figures = []
    for panel, rate in zip("ab", study.pick([10e6], [10e6, 50e6])):
        figure = Figure(f"fig4{panel}", f"Figure 4({panel}): goodput of the first flow over that of the second, {rate / 1e6:g} Mbit/s", "RTT, ms", "ratio of goodputs", "y")
        for rtt, seed in itertools.product(study.pick([16, 82, 202], [16, 42, 82, 122, 162, 202]), study.seeds(2, 5)):
            queue = max(3, round(0.2 * rate * rtt / 1e3 / 12000))
            parts = [head("fig4", 60, seed)]
            names = {}
            for number, pair in enumerate(pairs):
                left, right = f"l{number}", f"r{number}"
                parts.append(link(left, right, rate, rtt / 2 - 2, queue))
                for side, stack in zip("ab", pair):
                    source, sink, name = f"{left}{side}", f"{right}{side}", f"pair{number}{side}"
                    parts += [link(source, left, 10 * rate, 1, 9999), link(sink, right, 10 * rate, 1, 9999), stack.host(source, "sources"),
                              stack.host(sink, "sinks"), stack.flow(name, source, sink, f'start = "0s..{rtt}ms"\n')]
                names[f"{pair[0].name} : {pair[1].name}"] = f"pair{number}"

            def ratio(summary: dict, run: Path, names: dict = names) -> dict[str, float]:
                found = goodputs(summary, run)
                return {line: found[f"{name}a"] / found[f"{name}b"] for line, name in names.items()}

            figure.add(rtt, study.start(f"fig4{panel}-{rtt}-{seed}", "\n".join(parts), ratio))
        figures.append(figure)
    return figures


def fig5(study: Study) -> list[Figure]:
    """M flows in one direction and ten in the other over 10 Mbit/s, with round trips from 20 + 230/M to 250 ms: total goodput, and Jain's index."""
    sum_of = Figure("fig5a", "Figure 5(a): goodput of M flows together, 10 Mbit/s with reverse traffic", "M", "goodput, Mbit/s")
    jain = Figure("fig5b", "Figure 5(b): Jain's fairness index of M flows", "M", "Jain's index")
    seconds = study.pick(60, 2000)
    stacks = [*(stack for cc in ("reno", "cubic", "vegas", "westwood") for stack in both(cc)), NS2_SACK, *study.stacks]
    for count, stack, seed in itertools.product(study.pick([10, 40], [10, 20, 40, 100, 200]), stacks, study.seeds(1, 5)):
        draw = random.Random(seed)
        parts = [head("fig5", seconds, seed, warmup=10), link("l", "r", 10e6, 2, 125)]
        least = 20 + 230 / count
        for number in range(count + 10):
            forward = number < count
            rtt = least + (250 - least) * number / max(count - 1, 1) if forward else draw.uniform(least, 250)
            one, other = f"a{number}", f"b{number}"
            parts += [link(one, "l", 100e6, rtt / 4 - 1, 9999), link(other, "r", 100e6, rtt / 4 - 1, 9999), stack.host(one, "left"), stack.host(other, "right"),
                      stack.flow(f"m{number}" if forward else f"reverse{number}", *((one, other) if forward else (other, one)), 'start = "0s..5s"\n')]

        def shares(summary: dict, run: Path, line: str = stack.name, count: int = count) -> dict[str, float]:
            found = goodputs(summary, run)
            return {line: [found.get(f"m{number}", 0.0) for number in range(count)]}

        future = study.start(f"fig5-{stack.name}-{count}-{seed}", "\n".join(parts), shares)
        sum_of.add(count, Mapped(future, sum))
        jain.add(count, Mapped(future, lambda b: sum(b) ** 2 / (len(b) * sum(x * x for x in b)) if any(b) else 0.0))
    return [sum_of, jain]


class Mapped:
    """A future with values computed from those of another."""

    def __init__(self, future: object, make: object) -> None:
        self.future, self.make = future, make

    def result(self) -> dict[str, float]:
        return {line: self.make(values) for line, values in self.future.result().items()}


def fig6(study: Study) -> list[Figure]:
    """One flow over congested hops of 10 Mbit/s, each crossed by a flow with ns-2's Newreno."""
    figure = Figure("fig6", "Figure 6: goodput of a flow over several congested hops of 10 Mbit/s", "hops", "goodput, Mbit/s")
    seconds = study.pick(100, 1000)
    stacks = [*both("reno"), *both("cubic"), *both("reno", "sack"), *both("vegas"), *both("westwood"), NS2_NEWRENO, NS2_SACK, *study.stacks]
    for hops, stack, seed in itertools.product(study.pick([1, 3], [1, 2, 3, 4, 5]), stacks, study.seeds(1, 5)):
        parts = [head("fig6", seconds, seed, warmup=10)]
        for hop in range(hops):
            parts += [link(f"r{hop}", f"r{hop + 1}", 10e6, 10, 124), link(f"s{hop}", f"r{hop}", 100e6, 20, 9999), link(f"d{hop}", f"r{hop + 1}", 100e6, 20, 9999),
                      NS2_NEWRENO.flow(f"cross{hop}", f"s{hop}", f"d{hop}", 'start = "0s..1s"\n')]
        parts += [link("src", "r0", 100e6, 20, 9999), link("dst", f"r{hops}", 100e6, 20, 9999), stack.host("src", "source"), stack.host("dst", "sink"),
                  stack.flow("measured", "src", "dst", 'start = "10s"\n')]
        measured = lambda summary, run, line=stack.name: {line: goodputs(summary, run)["measured"]}
        figure.add(hops, study.start(f"fig6-{stack.name}-{hops}-{seed}", "\n".join(parts), measured))
    return [figure]


def fig7(study: Study) -> list[Figure]:
    """Messages of 512 bytes at random times over one connection, each in one segment: their latency with packet loss."""
    figure = Figure("fig7", "Figure 7: mean latency of 512-byte messages, 100 a second, one way 50 ms", "loss, %", "latency, s", "y")
    seconds = study.pick(60, 270)
    stacks = [*both("cubic"), *both("reno"), *both("reno", "sack"), *both("cubic", "timestamps"), NS2_TAHOE, NS2_NEWRENO, NS2_SACK, *study.stacks]
    for percent, seed in itertools.product(study.pick([0, 0.3, 1], [0, 0.1, 0.2, 0.3, 0.4, 0.5, 1, 2]), study.seeds(1, 5)):
        parts = [head("fig7", seconds + 30, seed)]
        loss = f'loss = {{ kind = "bernoulli", probability = {percent / 100:.6g} }}\nreverse = {{ loss = {{ kind = "none" }} }}\n' if percent else ""
        programs: list[tuple[str, str]] = []
        models: dict[str, str] = {}
        for number, (stack, late) in enumerate([(stack, False) for stack in stacks] + [(stack, True) for stack in both("cubic")]):
            line = stack.name + (", delayed ACKs" if late else "")
            source, sink = f"src{number}", f"dst{number}"
            foreign = stack.kind.startswith("stack:")
            # A segment has room for a message beside its timestamps. Of the stacks in the process, only netstack has them.
            mss = 512 + (0 if stack.off == "timestamps" or stack.tcp or foreign and stack.kind != "stack:netstack" else 12)
            parts += [link(source, f"n{number}", 100e6, 1, 999), link(f"n{number}", f"m{number}", 10e6, 48, 999, loss), link(f"m{number}", sink, 100e6, 1, 999),
                      stack.host(source, "sources")]
            # A stack in the process sends to the model, which tells it the size of segments and can acknowledge at once.
            if not foreign:
                parts.append(stack.host(sink, "sinks"))
            if stack.kind == "linux":
                quick = "" if late else "ip route replace default dev eth0 quickack 1; "
                command = f"{quick}exec python3 {HERE / 'messages.py'}"
                for host, what in ((sink, f"receive {mss}"), (source, f"send {{{sink}}} 100 {seconds} {seed} {mss}")):
                    at = parts.index(stack.host(host, "sources" if host == source else "sinks"))
                    start = "1s" if host == source else "0s"
                    parts[at] += f'\n[[host.program]]\ncommand = "{command} {what}"\nstart = "{start}"\n'
                programs.append((line, f"{sink}.0"))
            else:
                app = f'app = "poisson"\nmessage_rate = 100\nmessage_size = "512B"\nstart = "1s"\nstop = "{seconds + 1}s"\n'
                acks = "" if late else 'delayed_ack = "0s", '
                sizes = f'{acks}nagle = false, mss = "{mss}B"'
                parts.append(stack.flow(f"flow{number}", source, sink, app + (f"tcp = {{ {sizes} }}\n" if foreign else ""), sizes))
                models[f"flow{number}"] = line

        def latencies(summary: dict, run: Path, programs: list = programs, models: dict = models) -> dict[str, float]:
            found = {models[flow["group"]]: flow["message_latency_mean_ms"] / 1e3 for flow in summary["flows"] if flow["app"] == "poisson"}
            return found | {line: json.loads((run / "programs" / f"{name}.stdout").read_text())["mean"] for line, name in programs}

        figure.add(percent, study.start(f"fig7-{percent}-{seed}", "\n".join(parts), latencies))
    return [figure]


def fig8(study: Study) -> list[Figure]:
    """Flows A over two bottlenecks, X over the first and Y over the second, five each: the goodput of all together. X and Y are ns-2's Newreno. The paper does not tell rates
    and delays: 10 Mbit/s and 10 ms here, and a queue of 50 packets."""
    figure = Figure("fig8", "Figure 8: goodput of all flows over two bottlenecks of 10 Mbit/s", "flows in A", "goodput, Mbit/s")
    seconds = study.pick(60, 300)
    stacks = [*both("reno"), *both("cubic"), NS2_NEWRENO, NS2_SACK, *study.stacks]
    for count, stack, seed in itertools.product(study.pick([1, 10], [1, 5, 10, 20, 40]), stacks, study.seeds(1, 10)):
        parts = [head("fig8", seconds, seed, warmup=10), link("r0", "r1", 10e6, 10, 49), link("r1", "r2", 10e6, 10, 49)]
        for name, begin, end in [*((f"x{number}", "r0", "r1") for number in range(5)), *((f"y{number}", "r1", "r2") for number in range(5))]:
            parts += [link(f"s{name}", begin, 100e6, 5, 9999), link(f"d{name}", end, 100e6, 5, 9999), NS2_NEWRENO.flow(name, f"s{name}", f"d{name}", 'start = "0s..10s"\n')]
        for number in range(count):
            source, sink = f"sa{number}", f"da{number}"
            parts += [link(source, "r0", 100e6, 5, 9999), link(sink, "r2", 100e6, 5, 9999), stack.host(source, "left"), stack.host(sink, "right"),
                      stack.flow(f"a{number}", source, sink, 'start = "0s..10s"\n')]
        total = lambda summary, run, line=stack.name: {line: sum(goodputs(summary, run).values())}
        figure.add(count, study.start(f"fig8-{stack.name}-{count}-{seed}", "\n".join(parts), total))
    return [figure]


FIGURES = {"fig1": fig1, "fig4": fig4, "fig5": fig5, "fig6": fig6, "fig7": fig7, "fig8": fig8}


class Study:
    """The options of the study."""

    def __init__(self, laboratory: nsc.Laboratory, short: bool, count: int | None, scenarios: Path | None, stacks: list[Stack]) -> None:
        self.laboratory, self.short, self.count, self.scenarios, self.stacks = laboratory, short, count, scenarios, stacks

    def pick(self, short: object, full: object) -> object:
        return short if self.short else full

    def seeds(self, short: int, full: int) -> range:
        return range(1, 1 + (self.count or self.pick(short, full)))

    def start(self, name: str, text: str, read: object) -> object:
        if self.scenarios:
            (self.scenarios / f"{name.replace(' ', '-').replace(',', '')}.toml").write_text(text)
            return None
        return self.laboratory.start(text, read)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline", help="the program")
    parser.add_argument("--short", action="store_true", help="fewer points, shorter runs, fewer seeds")
    parser.add_argument("--seeds", type=int, help="how many seeds (default: the figure's own)")
    parser.add_argument("--only", default=",".join(FIGURES), help="which figures, separated by commas")
    names = ",".join(dict.fromkeys(stack.kind.removeprefix("stack:") for stack in STACKS))
    parser.add_argument("--stacks", default=names, help=f"stacks in the process, separated by commas (default: {names}; `make stacks` builds them)")
    parser.add_argument("--scenarios", type=Path, metavar="DIR", help="write the scenarios there and run nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(FIGURES)
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    (options.scenarios or options.out).mkdir(parents=True, exist_ok=True)
    laboratory = nsc.Laboratory(options.warpline, options.jobs)
    chosen = options.stacks.split(",") if options.stacks else []
    stacks = [stack for stack in STACKS if stack.kind.removeprefix("stack:") in chosen]
    study = Study(laboratory, options.short, options.seeds, options.scenarios, stacks)
    try:
        figures = [figure for name in options.only.split(",") for figure in FIGURES[name](study)]
        for figure in figures if not options.scenarios else []:
            figure.collect()
            figure.write(options.out)
    finally:
        laboratory.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
