"""Repeats tables 3 and 4 and figures 2 to 12 of "To Infinity and Beyond: Time-Warped Network Emulation", with Linux guests.

    python3 repro/time-warped-emulation/study.py target/release/warpline --out runs/time-warp         # the whole study: hours
    python3 repro/time-warped-emulation/study.py target/release/warpline --short                      # every part, small: some 15 minutes
    python3 repro/time-warped-emulation/study.py target/release/warpline --only table3 figure9

For each part, it prints the results at each time dilation factor, beside those of the same scenario in lock-step (the virtual clock, which is
exact), and beside the paper's figure if there is one. Writes the numbers of each part as JSON to --out, and plots as SVG with matplotlib.
Needs Debian's user-mode-linux; pyarrow for the tables of packets (table4, figure4), tshark for figures 2 and 3, a control group for figures
7, 8 and 11, and aria2c for figure 12. If one of these is missing, its part is left out with a message.

The exit code is 1 if a run failed, or if a dilated run that kept pace differs from lock-step by more than the part allows.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

# Allowed difference of goodput from lock-step.
BOUND = 0.02


UNPACED = "  (did not keep pace)"


def pace(row: dict) -> str:
    """A remark on a run that did not keep pace."""
    return "" if row["kept_pace"] else UNPACED


@dataclass
class Network:
    """Flows over one bottleneck: groups of (flows, round trip in ms), senders and receivers on `machines` kernels each."""

    rate_mbit: float
    groups: list[tuple[int, float]]
    duration: float
    warmup: float
    machines: int = 1
    cc: str = "cubic"
    loss: str = ""
    queue: str = "1BDP"
    record: list[str] = field(default_factory=list)
    # Shares of a core of senders and receivers.
    shares: tuple[float | None, float | None] = (None, None)

    def toml(self, tdf: float | None) -> str:
        rtt = max(rtt for _, rtt in self.groups)
        flows = sum(count for count, _ in self.groups)
        # A single flow may have the whole link and a full queue.
        in_flight = self.rate_mbit * 1e6 / 8 * rtt / 1e3
        buffer = min(int(max(6 << 20, 4 * in_flight / max(1, flows / 8))), (1 << 31) - 1)
        sysctl = f'sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 {buffer}", "net.ipv4.tcp_wmem" = "4096 16384 {buffer}" }}'
        clock = "" if tdf is None else f'clock = {{ mode = "dilated", tdf = {tdf} }}\n'
        text = f'name = "time-warp"\nduration = "{self.duration}s"\nwarmup = "{self.warmup}s"\n{clock}'
        fast = f"{max(100_000, 10 * self.rate_mbit):.0f}Mbit/s"
        loss = f'loss = {self.loss}\n' if self.loss else ""
        record = f"record = {json.dumps(self.record)}\n" if self.record else ""
        # Nearly all of the delay is at the bottleneck; the additional delay of a group is before it.
        least = min(rtt for _, rtt in self.groups)
        text += (f'[[link]]\nbetween = ["left", "right"]\nrate = "{self.rate_mbit}Mbit/s"\ndelay = "{least * 0.45}ms"\n'
                 f'queue = {{ kind = "droptail", limit = "{self.queue}" }}\nreverse = {{ queue = {{ kind = "droptail", limit = "unlimited" }} }}\n'
                 f"{loss}{record}")
        for group, (count, rtt) in enumerate(self.groups):
            edge = (rtt - 0.9 * least) / 4
            for machine in range(self.machines):
                mine = count // self.machines + (machine < count % self.machines)
                pair = [f"{side}{group}-{machine}" for side in "sd"]
                for name, side, share in zip(pair, ("left", "right"), self.shares):
                    queue = 'queue = { kind = "droptail", limit = "unlimited" }'
                    text += f'[[link]]\nbetween = ["{name}", "{side}"]\nrate = "{fast}"\ndelay = "{edge:.6f}ms"\n{queue}\n'
                    given = f"cpu_share = {share}\n" if share and tdf is not None else ""
                    kernel = f"{side}-{machine}"
                    text += f'[[host]]\nname = "{name}"\nendpoint = "guest"\nmachine = "{kernel}"\ncc = "{self.cc}"\n{sysctl}\n{given}'
                text += f'[[flow]]\nname = "g{group}-{machine}"\nfrom = "{pair[0]}"\nto = "{pair[1]}"\ncount = {mine}\nstart = "0s..50ms"\n'
        return text


class Study:
    def __init__(self, warpline: str, out: Path, short: bool):
        self.warpline, self.out, self.short = str(Path(warpline).resolve()), out, short
        # For table 4: only these factors and losses, and this length with this warm-up, in seconds.
        self.factors: list[float] = []
        self.losses: list[str] = []
        self.seconds: tuple[float, float] | None = None
        # For figures 5 to 9 and 11: only these bottlenecks, in Mbit/s.
        self.rates: list[int] = []
        # For figure 12: only these numbers of clients.
        self.clients: list[int] = []
        self.wrong: list[str] = []
        self.results: dict[str, object] = {}

    def run(self, name: str, text: str, seed: int = 1) -> tuple[dict, Path]:
        scenario, directory = self.out / f"{name}.toml", self.out / name
        scenario.write_text(text)
        words = [self.warpline, "run", str(scenario), "--out", str(directory), "--force", "--no-report", "--quiet", "--seed", str(seed)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stderr.strip()[-600:]}")
        return json.loads((directory / "summary.json").read_text()), directory

    def flows(self, name: str, network: Network, tdf: float | None, seed: int = 1) -> dict:
        """Goodput per flow in Mbit/s by group, and how well the run kept pace."""
        summary, directory = self.run(name, network.toml(tdf), seed)
        groups: list[list[float]] = [[] for _ in network.groups]
        for flow in summary["flows"]:
            if flow["group"].startswith("g"):
                groups[int(flow["group"][1:].split("-")[0])].append(flow["goodput_bps"] / 1e6)
        live = summary.get("live")
        return {
            "tdf": tdf, "mean": [statistics.mean(group) for group in groups],
            "stdev": [statistics.stdev(group) if len(group) > 1 else 0.0 for group in groups],
            "sum": sum(map(sum, groups)), "kept_pace": live["kept_pace"] if live else True,
            "late_us": live["audit"]["lateness"]["p99_us"] if live else 0.0,
            "wall_s": live["audit"]["duration_s"] if live else None, "directory": str(directory),
        }  # fmt: skip

    def judge(self, what: str, seen: float, exact: float, pace: bool, bound: float = BOUND) -> str:
        off = seen / exact - 1 if exact else math.nan
        if abs(off) > bound and pace:
            self.wrong.append(f"{what}: {off:+.1%} from lock-step")
        return f"{off:+7.2%}" + ("" if pace else UNPACED)

    def compare(self, name: str, network: Network, factors: list[float], bound: float = BOUND) -> list[dict]:
        """The total goodput at each factor beside that in lock-step."""
        exact = self.flows(f"{name}-exact", network, None)
        rows = [exact]
        print(f"  {'lock-step':>10} {exact['sum']:10.2f} Mbit/s; per flow {exact['mean'][0]:8.3f} (stdev {exact['stdev'][0]:.3f})")
        for tdf in factors:
            row = self.flows(f"{name}-tdf{tdf:g}", network, tdf)
            off = self.judge(f"{name}, TDF {tdf:g}", row["sum"], exact["sum"], row["kept_pace"], bound)
            print(f"  {f'TDF {tdf:g}':>10} {row['sum']:10.2f} Mbit/s; per flow {row['mean'][0]:8.3f} (stdev {row['stdev'][0]:.3f}) {off}")
            rows.append(row)
        return rows

    # The parts.

    def table3(self) -> object:
        paper = {1: (9.39, 1.91), 2: (9.57, 1.76), 5: (9.70, 2.04), 50: (9.25, 2.20)}
        factors = [2, 5] if self.short else [1, 2, 5, 50]
        span = (6.0, 2.0) if self.short else (20.0, 5.0)
        print("  50 flows, RTT 80 ms, 500 Mbit/s. The paper, per flow:",
              ", ".join(f"TDF {tdf}: {mean} (stdev {stdev})" for tdf, (mean, stdev) in paper.items()))
        return self.compare("table3", Network(500, [(50, 80)], *span), factors)

    def traces(self, loss: str, name: str) -> object:
        """Time-sequence graphs of the first second of a flow."""
        if not shutil.which("tshark"):
            return "left out: tshark is not installed"
        series = {}
        for tdf in [None, 10] if self.short else [None, 1, 10, 100]:
            network = Network(100, [(1, 20)], 1.0, 0.0, loss=loss, record=["pcap"])
            _, directory = self.run(f"{name}-{tdf or 'exact'}", network.toml(tdf))
            capture = next(iter(directory.glob("left*right*.pcapng")))
            fields = ["frame.time_epoch", "ip.src", "tcp.seq", "tcp.ack", "tcp.len"]
            words = ["tshark", "-r", str(capture), "-Y", "tcp", "-T", "fields"] + [w for f in fields for w in ("-e", f)]
            lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
            rows = [line.split("\t") for line in lines]
            first = float(rows[0][0])
            series[str(tdf or "lock-step")] = [(float(t) - first, int(seq), int(length)) for t, _, seq, _, length in rows]
            data = [row for row in series[str(tdf or "lock-step")] if row[2] > 0]
            print(f"  {f'TDF {tdf}' if tdf else 'lock-step':>10} {len(data)} data packets in the first second, the last at sequence number {data[-1][1]}")
        self.plot(name, "time in s", "sequence number / 1e6",
                  {tdf: ([t for t, _, _ in rows], [seq / 1e6 for _, seq, _ in rows]) for tdf, rows in series.items()}, points=True)
        return {tdf: len(rows) for tdf, rows in series.items()}

    def figure2(self) -> object:
        return self.traces("", "figure2")

    def figure3(self) -> object:
        return self.traces('{ kind = "every", n = 100 }', "figure3")

    def span(self, tdf: float, loss: str) -> tuple[float, float]:
        """Seconds of a run of table 4, and of its warm-up."""
        if self.seconds:
            return self.seconds
        if tdf >= 1000:
            return (1.5, 0.3) if loss else (0.6, 0.3)
        return (5.0, 1.0) if self.short or tdf >= 100 else (11.0, 1.0)

    def table4(self) -> object:
        """Inter-packet transmission times: mean, coefficient of variation, interquartile range over the median."""
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            return "left out: pyarrow is not installed"
        paper = {("no loss", 1): (0.458, 0.242, 0.294), ("no loss", 10): (0.451, 0.218, 0.248), ("no loss", 100): (0.448, 0.206, 0.239),
                 ("1% loss", 1): (0.912, 0.298, 0.202), ("1% loss", 10): (1.002, 0.304, 0.238), ("1% loss", 100): (0.896, 0.301, 0.238)}
        found, curves = [], {}
        factors = self.factors or ([1, 10] if self.short else [1, 10, 100, 1000])
        for label, loss in (("no loss", ""), ("1% loss", '{ kind = "every", n = 100 }')):
            if self.losses and label not in self.losses:
                continue
            # Each factor is compared with lock-step over the same time, which is shorter for larger factors.
            spans = {tdf: self.span(tdf, loss) for tdf in factors}
            exacts: dict[tuple[float, float], tuple[float, float, float]] = {}
            runs = [(None, span) for span in sorted(set(spans.values()), reverse=True)] + list(spans.items())
            for tdf, (long, warmup) in runs:
                network = Network(100, [(1, 20)], long, warmup, loss=loss, record=["packets"])
                name = f"table4-{label[:2].strip()}-{tdf or f'exact-{long:g}'}"
                row = self.flows(name, network, tdf)
                table = parquet.read_table(Path(row["directory"]) / "packets.parquet", columns=["time_ns", "event", "size"]).to_pydict()
                sent = [t for t, event, size in zip(table["time_ns"], table["event"], table["size"])
                        if event == "enqueue" and size > 1000 and t > warmup * 1e9]
                gaps = sorted((b - a) / 1e6 for a, b in zip(sent, sent[1:]))
                mean, median = statistics.mean(gaps), statistics.median(gaps)
                quarter = gaps[len(gaps) * 3 // 4] - gaps[len(gaps) // 4]
                curves[f"{label}, {tdf or f'lock-step, {long:g} s'}"] = (gaps, [n / len(gaps) for n in range(len(gaps))])
                row |= {"loss": label, "gap_ms": mean, "cov": statistics.pstdev(gaps) / mean, "iqr": quarter / median}
                found.append(row)
                off = ""
                if tdf is None:
                    # A few seconds have only some tens of losses, so lock-step itself differs from seed to seed.
                    seeds = [row["sum"]] + [self.flows(f"{name}-seed{seed}", network, None, seed)["sum"] for seed in range(2, 7)]
                    exact, spread = statistics.mean(seeds), statistics.stdev(seeds) / statistics.mean(seeds)
                    exacts[long, warmup] = exact, spread, mean
                    off = f", {long - warmup:g} s; over six seeds {exact:.2f} (stdev {spread:.1%})"
                else:
                    exact, spread, gap = exacts[long, warmup]
                    bound = BOUND + 2 * spread
                    off = (self.judge(f"table4, {label}, TDF {tdf}, goodput", row["sum"], exact, row["kept_pace"], bound)
                           + self.judge(f"table4, {label}, TDF {tdf}, gap", mean, gap, row["kept_pace"], bound))
                told = paper.get((label, tdf))
                print(f"  {label}, {f'TDF {tdf}' if tdf else 'lock-step':>10}: {row['sum']:7.2f} Mbit/s, gap {mean:.4f} ms, CoV {row['cov']:.3f}, "
                      f"IQR {row['iqr']:.3f} {off}" + (f"; the paper: {told[0]} ms, {told[1]}, {told[2]}" if told else ""))
        self.plot("figure4", "time between packets in ms", "share", curves, xmax=1.0)
        return found

    def bottlenecks(self, few: list[int], every: list[int]) -> list[int]:
        return [rate for rate in (few if self.short else every) if not self.rates or rate in self.rates]

    def figure5(self) -> object:
        rates = self.bottlenecks([50, 300], [10, 50, 100, 200, 300, 400, 500, 600])
        count = 5 if self.short else 20
        found, curves = [], {}
        for rate in rates:
            network = Network(rate, [(count, 20), (count, 40), (count, 60)], 10.0 if not self.short else 5.0, 1.0)
            for tdf in [None, 10] if self.short else [None, 1, 10]:
                row = self.flows(f"figure5-{rate}-{tdf or 'exact'}", network, tdf)
                found.append(row | {"rate": rate})
                means = ", ".join(f"{mean:.2f}" for mean in row["mean"])
                print(f"  {rate:4} Mbit/s, {f'TDF {tdf}' if tdf else 'lock-step':>10}: per flow at 20, 40, 60 ms: {means} Mbit/s{pace(row)}")
                for group, rtt in enumerate((20, 40, 60)):
                    xs, ys = curves.setdefault(f"{rtt} ms, {tdf or 'lock-step'}", ([], []))
                    xs.append(rate)
                    ys.append(row["mean"][group])
        self.plot("figure5", "bottleneck in Mbit/s", "Mbit/s per flow", curves)
        return found

    def figure6(self) -> object:
        found, curves = [], {}
        for rate in self.bottlenecks([200], [500, 1000, 2000, 4000]):
            for machines in [1, 2] if self.short else [1, 2, 5, 10]:
                span = (4.0, 1.0) if self.short else (10.0, 3.0)
                row = self.flows(f"figure6-{rate}-{machines}", Network(rate, [(50, 80)], *span, machines=machines), 10 if not self.short else 5)
                found.append(row | {"rate": rate, "machines": machines})
                print(f"  {rate:5} Mbit/s over {machines:2} machines: {row['mean'][0]:7.3f} Mbit/s per flow (stdev {row['stdev'][0]:.3f}){pace(row)}")
                xs, ys = curves.setdefault(f"{machines} machines", ([], []))
                xs.append(rate)
                ys.append(row["mean"][0])
            one, *others = (row["mean"][0] for row in found if row["rate"] == rate)
            for other in others:
                self.judge(f"figure6, {rate} Mbit/s, on more machines than one", other, one, found[-1]["kept_pace"], 0.05)
        self.plot("figure6", "bottleneck in Mbit/s", "Mbit/s per flow", curves)
        return found

    def scaled(self, name: str, who: int) -> object:
        """A share of a core at one factor, and a tenth of it at ten times the factor."""
        found, curves = [], {}
        flows = 10 if self.short else 50
        for rate in self.bottlenecks([200], [50, 100, 200, 400, 800]):
            for tdf, share in [(1, 0.5), (10, 0.05)]:
                shares = tuple(share if side == who else None for side in (0, 1))
                span = (3.0, 1.0) if self.short else (10.0, 3.0)
                row = self.flows(f"{name}-{rate}-{tdf}", Network(rate, [(flows, 80)], *span, shares=shares), tdf)
                found.append(row | {"rate": rate, "share": share})
                print(f"  {rate:5} Mbit/s, TDF {tdf:2} with {share:.0%} of a core: {row['sum']:8.2f} Mbit/s{pace(row)}")
                xs, ys = curves.setdefault(f"TDF {tdf}, {share:.0%}", ([], []))
                xs.append(rate)
                ys.append(row["mean"][0])
        self.plot(name, "bottleneck in Mbit/s", "Mbit/s per flow", curves)
        return found

    def figure7(self) -> object:
        return self.scaled("figure7", 0)

    def figure8(self) -> object:
        return self.scaled("figure8", 1)

    def figure9(self) -> object:
        """Reno, the paper's TCP, against BIC. The factor is the one that this machine needs."""
        found, curves = [], {}
        factors = {100: 5, 500: 5 if self.short else 10, 1000: 20, 4000: 50, 10_000: 100, 40_000: 400, 100_000: 1000}
        for rate in self.bottlenecks([500], list(factors)):
            tdf = factors[rate]
            span = (4.0, 1.0) if self.short else (8.0, 3.0)
            for cc in ("reno", "bic"):
                row = self.flows(f"figure9-{rate}-{cc}", Network(rate, [(50, 80)], *span, cc=cc), tdf)
                found.append(row | {"rate": rate, "cc": cc})
                print(f"  {rate:6} Mbit/s, TDF {tdf:4}, {cc:>4}: {row['mean'][0]:9.3f} Mbit/s per flow (stdev {row['stdev'][0]:.3f}), "
                      f"{row['sum'] / rate:.1%} of the link{pace(row)}")
                xs, ys = curves.setdefault(cc, ([], []))
                xs.append(rate)
                ys.append(row["mean"][0])
        self.plot("figure9", "bottleneck in Mbit/s", "Mbit/s per flow", curves, log=True)
        return found

    def figure10(self) -> object:
        found, curves = [], {}
        for rtt in [20, 200] if self.short else [10, 50, 100, 200, 400, 800]:
            for cc in ("reno", "bic"):
                span = (5.0, 1.0) if self.short else (30.0, 10.0)
                network = Network(150, [(10 if self.short else 50, rtt)], *span, cc=cc)
                # Lock-step is exact at any rate; the paper had to use dilation.
                row = self.flows(f"figure10-{rtt}-{cc}", network, None)
                found.append(row | {"rtt": rtt, "cc": cc})
                xs, ys = curves.setdefault(cc, ([], []))
                xs.append(rtt)
                ys.append(row["sum"] / 150)
                print(f"  RTT {rtt:3} ms, {cc:>4}: {row['sum'] / 150:.1%} of 150 Mbit/s")
        self.plot("figure10", "RTT in ms", "normalised throughput", curves)
        return found

    def figure11(self) -> object:
        """Throughput for several shares of CPU, at a factor of 10."""
        found, curves = [], {}
        for rate in self.bottlenecks([1000], [500, 1000, 2000, 4000]):
            for share in [0.1, 0.4] if self.short else [0.1, 0.2, 0.4, 0.6, 0.8]:
                span = (3.0, 1.0) if self.short else (8.0, 3.0)
                network = Network(rate, [(10 if self.short else 50, 80)], *span, shares=(share, None))
                row = self.flows(f"figure11-{rate}-{share}", network, 10)
                found.append(row | {"rate": rate, "share": share})
                print(f"  {rate:5} Mbit/s with {share:.0%} of a core at the sender: {row['sum'] / rate:.1%} of the link{pace(row)}")
                xs, ys = curves.setdefault(f"{share:.0%}", ([], []))
                xs.append(rate)
                ys.append(row["mean"][0])
        self.plot("figure11", "bottleneck in Mbit/s", "Mbit/s per flow", curves)
        return found

    def figure12(self) -> object:
        """BitTorrent: aria2 clients that fetch a file from each other and from a seeder, with our own tracker in the scenario."""
        if not shutil.which("aria2c"):
            return "left out: aria2c is not installed (apt install aria2)"
        import bittorrent

        return bittorrent.study(self)

    def plot(self, name: str, x: str, y: str, curves: dict, points: bool = False, log: bool = False, xmax: float | None = None) -> None:
        try:
            import matplotlib

            matplotlib.use("svg")
            import matplotlib.pyplot as plot
        except ImportError:
            return
        figure, axes = plot.subplots(figsize=(7, 4.5))
        for label, (xs, ys) in curves.items():
            axes.plot(xs, ys, "." if points else "-" if len(xs) > 50 else "o-", markersize=2 if points else 5, label=label, rasterized=points)
        axes.set(xlabel=x, ylabel=y, title=name)
        if log:
            axes.set(xscale="log", yscale="log")
        if xmax:
            axes.set_xlim(0, xmax)
        axes.legend(fontsize="small")
        figure.savefig(self.out / f"{name}.svg", metadata={"Date": None})
        plot.close(figure)


PARTS = ["table3", "figure2", "figure3", "table4", "figure5", "figure6", "figure7", "figure8", "figure9", "figure10", "figure11", "figure12"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline")
    parser.add_argument("--out", type=Path, help="directory for scenarios, runs, numbers and plots")
    parser.add_argument("--short", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--tdf", nargs="+", type=float, default=[], help="for table 4: only these factors")
    parser.add_argument("--losses", nargs="+", choices=["no loss", "1% loss"], default=[], help="for table 4: only these losses")
    parser.add_argument("--seconds", nargs=2, type=float, metavar=("ALL", "WARMUP"), help="for table 4: length of each run and of its warm-up")
    parser.add_argument("--rates", nargs="+", type=int, default=[], metavar="MBIT", help="for figures 5 to 9 and 11: only these bottlenecks")
    parser.add_argument("--clients", nargs="+", type=int, default=[], metavar="N", help="for figure 12: only these numbers of clients")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as scratch:
        out = args.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        study = Study(args.warpline, out, args.short)
        study.factors, study.losses = [int(tdf) if tdf == int(tdf) else tdf for tdf in args.tdf], args.losses
        study.rates, study.clients = args.rates, args.clients
        study.seconds = tuple(args.seconds) if args.seconds else None
        for part in args.only:
            print(f"{part}: {(getattr(Study, part).__doc__ or '').strip()}", flush=True)
            try:
                study.results[part] = getattr(study, part)()
            except RuntimeError as error:
                study.wrong.append(str(error))
                study.results[part] = f"failed: {error}"
            if isinstance(study.results[part], str):
                print(f"  {study.results[part]}")
            (out / "results.json").write_text(json.dumps(study.results, indent=1))
    for wrong in study.wrong:
        print(f"WRONG: {wrong}", file=sys.stderr)
    return 1 if study.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
