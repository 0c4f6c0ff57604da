"""Repeats tables 3 and 4 and figures 2 to 12 of "To Infinity and Beyond: Time-Warped Network Emulation", with Linux guests.

    python3 repro/time-warped-emulation/study.py target/release/warpline --out runs/time-warp         # the whole study: hours
    python3 repro/time-warped-emulation/study.py target/release/warpline --short                      # every part, small: some 15 minutes
    python3 repro/time-warped-emulation/study.py target/release/warpline --only table3 figure9

For each part, it prints the results at each time dilation factor, beside those of the same scenario in lock-step (the virtual clock, which is
exact), and beside the paper's figure if there is one. Writes a table of each part as CSV to --out, all of it as JSON, and plots as SVG with matplotlib.
Needs Debian's user-mode-linux; iperf3 for the native row of table 3, pyarrow for the tables of packets (table4, figure4), tshark for figures 2
and 3, a control group for table 3 and figures 7, 8 and 11, and aria2c for figure 12. If one of these is missing, its part is left out with a message.

The exit code is 1 if a run failed, if nothing could be judged because the machine did not keep pace, if a dilated run that kept pace differs from lock-step by more than the part allows, or if what a figure
shows in the paper does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cpu
import figures
from network import Network

# Allowed difference of goodput from lock-step.
BOUND = 0.02


UNPACED = "  (did not keep pace)"


def pace(row: dict) -> str:
    """A remark on a run that did not keep pace."""
    return "" if row["kept_pace"] else UNPACED


def label(tdf: float | None) -> str:
    return f"TDF {tdf:g}" if tdf else "lock-step"


class Study:
    def __init__(self, warpline: str, out: Path, short: bool):
        self.warpline, self.out, self.short = str(Path(warpline).resolve()), out, short
        # For tables 3 and 4 and figures 2, 3, 5, 7 and 8: only these factors; for figures 6 and 9: points at these factors. For table 4: only these losses. And the length of a run with its
        # warm-up, in seconds, in place of each part's own.
        self.factors: list[float] = []
        self.losses: list[str] = []
        self.seconds: tuple[float, float] | None = None
        # For figures 5 to 9 and 11: only these bottlenecks, in Mbit/s.
        self.rates: list[int] = []
        # For figure 12: only these numbers of clients.
        self.clients: list[int] = []
        # Runs of each configuration of tables 3 and 4, with seeds of their own.
        self.runs = 1 if short else 10
        self.wrong: list[str] = []
        # Comparisons that were made, and those that were not because a run did not keep pace.
        self.judged = self.left_out = 0
        self.results: dict[str, object] = {}

    def run(self, name: str, text: str, seed: int = 1) -> tuple[dict, Path]:
        scenario, directory = self.out / f"{name}.toml", self.out / name
        scenario.write_text(text)
        words = [self.warpline, "run", str(scenario), "--out", str(directory), "--force", "--no-report", "--quiet", "--seed", str(seed)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
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
            "flows": groups, "cpu": {row["machine"]: row["cpu"] for row in (summary.get("guests") or {}).get("machines", []) if "cpu" in row},
        }  # fmt: skip

    def native(self, name: str, network: Network, seed: int = 1) -> dict:
        """The same between this machine's own kernels."""
        summary, _ = self.run(name, network.native(), seed)
        forward = [flow["goodput_bps"] / 1e6 for flow in summary["flows"] if flow["from"] == "sender" and flow["delivered_bytes"] > 10_000]
        forward = sorted(forward)[-network.groups[0][0]:]
        return {"tdf": None, "flows": [forward], "sum": sum(forward), "kept_pace": summary["live"]["kept_pace"],
                "late_us": summary["live"]["audit"]["lateness"]["p99_us"]}  # fmt: skip

    def span(self, *own: float) -> tuple[float, float]:
        """The length of a run and of its warm-up, in seconds: the part's own, unless others were given."""
        return self.seconds or (own[0], own[1])

    def check(self, holds: bool, what: str, trusted: bool = True) -> str:
        """Notes what does not hold, if the runs that it is about kept pace. Returns a word on it."""
        self.judged += trusted
        self.left_out += not trusted
        if not holds and trusted:
            self.wrong.append(what)
        return "" if holds else ("  WRONG" if trusted else "")

    def spread(self, name: str, network: Network, seeds: int = 6) -> tuple[list[float], list[float]]:
        """The mean of each group in lock-step over several seeds, and its standard deviation from seed to seed."""
        rows = [self.flows(f"{name}-exact-seed{seed}", network, None, seed)["mean"] for seed in range(1, seeds + 1)]
        by_group = list(zip(*rows))
        return [statistics.mean(group) for group in by_group], [figures.deviation(list(group)) for group in by_group]

    # The parts.

    def table3(self) -> object:
        """50 flows over 500 Mbit/s and 80 ms, with CPU and rate scaled: the slower the machine, the larger its factor."""
        paper = {1: (9.39, 1.91), 2: (9.57, 1.76), 5: (9.70, 2.04), 50: (9.25, 2.20)}
        factors = self.factors or ([2, 5] if self.short else [1, 2, 5, 50])
        network = Network(500, [(50, 80)], *self.span(*((6.0, 2.0) if self.short else (20.0, 5.0))))
        print("  The paper, per flow:", ", ".join(f"TDF {tdf}: {mean} (stdev {stdev})" for tdf, (mean, stdev) in paper.items()))
        seeds = range(1, self.runs + 1)
        exact = [self.flows(f"table3-exact-{seed}", network, None, seed) for seed in seeds]
        # What two sets of runs in lock-step differ by is no error of dilation.
        others = [self.flows(f"table3-exact-{self.runs + seed}", network, None, self.runs + seed) for seed in seeds]
        pooled = [rate for row in exact for rate in row["flows"][0]]
        noise = figures.ks_distance(pooled, [rate for row in others for rate in row["flows"][0]])
        sets: list[tuple[str, float | None, list[dict]]] = [("lock-step", None, exact), ("lock-step, other seeds", None, others)]
        if shutil.which("iperf3"):
            sets.append(("native", None, [self.native(f"table3-native-{seed}", network, seed) for seed in seeds]))
        for tdf in factors:
            # As in the paper, a machine whose factor is twice as large has half the CPU: the guests perceive the same one.
            network.shares = (1 / tdf, 1 / tdf)
            sets.append((f"TDF {tdf:g}", tdf, [self.flows(f"table3-tdf{tdf:g}-{seed}", network, tdf, seed) for seed in seeds]))
        found = []
        for name, tdf, rows in sets:
            rates = [rate for row in rows for rate in row["flows"][0]]
            distance, bound = figures.ks_distance(rates, pooled), max(2 * noise, figures.ks_critical(len(rates), len(pooled)))
            kept, total = all(row["kept_pace"] for row in rows), statistics.mean(row["sum"] for row in rows)
            off = total / statistics.mean(row["sum"] for row in exact) - 1
            wrong = self.check(abs(off) <= BOUND, f"table3, {name}: {off:+.1%} from lock-step", kept and name != "native")
            wrong += self.check(distance <= bound, f"table3, {name}: KS distance {distance:.3f} from lock-step, above {bound:.3f}", kept and name != "native")
            first, median, third = figures.quartiles(rates)
            told = paper.get(int(tdf), (None, None)) if tdf else (None, None)
            found.append({"configuration": name, "runs": len(rows), "mean_mbit": statistics.mean(rates), "stdev_mbit": figures.deviation(rates),
                          "q1_mbit": first, "median_mbit": median, "q3_mbit": third, "ks_from_lock_step": distance, "ks_bound": bound,
                          "total_mbit": total, "total_off": off, "kept_pace": kept, "paper_mean_mbit": told[0], "paper_stdev_mbit": told[1]})  # fmt: skip
            print(f"  {name:>22}: {statistics.mean(rates):7.3f} Mbit/s per flow, stdev {figures.deviation(rates):.3f}, quartiles "
                  f"{first:.3f} {median:.3f} {third:.3f}; total {off:+.2%}, KS {distance:.3f} (bound {bound:.3f}){'' if kept else UNPACED}{wrong}")
        return found

    def traces(self, loss: str, name: str) -> object:
        """Time-sequence graphs of the first second of a flow."""
        if not shutil.which("tshark"):
            return "left out: tshark is not installed"
        series = {}
        for tdf in [None, *(self.factors or ([10] if self.short else [1, 10, 100]))]:
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
        return [{"configuration": tdf, "data_packets": len([row for row in rows if row[2] > 0])} for tdf, rows in series.items()]

    def figure2(self) -> object:
        return self.traces("", "figure2")

    def figure3(self) -> object:
        return self.traces('{ kind = "every", n = 100 }', "figure3")

    def span4(self, tdf: float, loss: str) -> tuple[float, float]:
        """Seconds of a run of table 4, and of its warm-up."""
        if self.seconds:
            return self.seconds
        if tdf >= 1000:
            return (1.5, 0.3) if loss else (0.6, 0.3)
        return (5.0, 1.0) if self.short or tdf >= 100 else (11.0, 1.0)

    @staticmethod
    def gaps(directory: Path, warmup: float) -> list[float]:
        """Times between the data packets that entered the bottleneck after the warm-up, in ms."""
        from pyarrow import parquet

        table = parquet.read_table(directory / "packets.parquet", columns=["time_ns", "event", "size"]).to_pydict()
        sent = [t for t, event, size in zip(table["time_ns"], table["event"], table["size"]) if event == "enqueue" and size > 1000 and t > warmup * 1e9]
        return [(b - a) / 1e6 for a, b in itertools.pairwise(sent)]

    def table4(self) -> object:
        """Times between packets: mean, deviation, quartiles, and the KS distance of their distribution from that in lock-step."""
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            return "left out: pyarrow is not installed"
        paper = {("no loss", 1): (0.458, 0.242, 0.294), ("no loss", 10): (0.451, 0.218, 0.248), ("no loss", 100): (0.448, 0.206, 0.239),
                 ("1% loss", 1): (0.912, 0.298, 0.202), ("1% loss", 10): (1.002, 0.304, 0.238), ("1% loss", 100): (0.896, 0.301, 0.238)}
        found: list[dict] = []
        curves: dict[str, tuple] = {}
        factors = self.factors or ([1, 10] if self.short else [1, 10, 100, 1000])
        for label_, loss in (("no loss", ""), ("1% loss", '{ kind = "every", n = 100 }')):
            if self.losses and label_ not in self.losses:
                continue
            # Each factor is compared with lock-step over the same time, which is shorter for larger factors.
            exacts: dict[tuple[float, float], tuple[list[float], float, float]] = {}
            spans = {tdf: self.span4(tdf, loss) for tdf in factors}
            for tdf, span in [(None, span) for span in sorted(set(spans.values()), reverse=True)] + list(spans.items()):
                network = Network(100, [(1, 20)], *span, loss=loss, record=["packets"])
                name = f"table4-{label_[:2].strip()}-{f'{tdf:g}' if tdf else f'exact-{span[0]:g}'}"
                rows, all_gaps, means = [], [], []
                for seed in range(1, self.runs + 1):
                    rows.append(self.flows(f"{name}-{seed}", network, tdf, seed))
                    gaps = self.gaps(Path(rows[-1]["directory"]), span[1])
                    means.append(statistics.mean(gaps))
                    all_gaps += gaps
                sums = [row["sum"] for row in rows]
                goodput, spread = statistics.mean(sums), figures.deviation(sums) / statistics.mean(sums)
                first, median, third = figures.quartiles(all_gaps)
                mean, deviation = statistics.mean(all_gaps), statistics.pstdev(all_gaps)
                kept = all(row["kept_pace"] for row in rows)
                if tdf is None:
                    exacts[span] = all_gaps, goodput, spread
                exact_gaps, exact, own_spread = exacts[span]
                off, gap_off = goodput / exact - 1, mean / statistics.mean(exact_gaps) - 1
                # A few seconds have only some tens of losses, so lock-step itself differs from seed to seed.
                bound = BOUND + 2 * own_spread / math.sqrt(self.runs) + 2 * spread / math.sqrt(self.runs)
                distance = figures.ks_distance(all_gaps, exact_gaps)
                what = f"table4, {label_}, {label(tdf)}"
                wrong = self.check(abs(off) <= bound, f"{what}: goodput {off:+.1%} from lock-step", kept)
                wrong += self.check(abs(gap_off) <= bound, f"{what}: gap {gap_off:+.1%} from lock-step", kept)
                curves[f"{label_}, {f'{tdf:g}' if tdf else f'lock-step, {span[0]:g} s'}"] = (
                    sorted(all_gaps)[:: max(1, len(all_gaps) // 5000)], [n / 5000 for n in range(len(sorted(all_gaps)[:: max(1, len(all_gaps) // 5000)]))])
                told = paper.get((label_, tdf), (None, None, None))
                found.append({"loss": label_, "configuration": label(tdf), "runs": self.runs, "seconds": span[0] - span[1], "goodput_mbit": goodput,
                              "goodput_stdev_mbit": figures.deviation(sums), "goodput_off": off, "gap_ms": mean, "gap_off": gap_off,
                              "gap_stdev_ms": deviation, "gap_stdev_between_runs_ms": figures.deviation(means), "gap_q1_ms": first,
                              "gap_median_ms": median, "gap_q3_ms": third, "ks_from_lock_step": distance, "cov": deviation / mean,
                              "kept_pace": kept, "paper_gap_ms": told[0]})  # fmt: skip
                print(f"  {label_}, {label(tdf):>9}: {goodput:7.2f} Mbit/s ({off:+.2%}), gap {mean:.4f} ms ({gap_off:+.2%}), stdev {deviation:.4f}, quartiles "
                      f"{first:.4f} {median:.4f} {third:.4f}, KS {distance:.3f}{'' if kept else UNPACED}{wrong}", flush=True)
        self.plot("figure4", "time between packets in ms", "share", curves, xmax=1.0)
        return found

    def bottlenecks(self, few: list[int], every: list[int]) -> list[int]:
        return [rate for rate in (few if self.short else every) if not self.rates or rate in self.rates]

    def figure5(self) -> object:
        """Flows of three round trips at one bottleneck: each group's goodput at each factor."""
        rates = self.bottlenecks([50, 300], [10, 50, 100, 200, 300, 400, 500, 600])
        count = 5 if self.short else 20
        found: list[dict] = []
        curves: dict[str, tuple] = {}
        for rate in rates:
            network = Network(rate, [(count, 20), (count, 40), (count, 60)], *self.span(*((5.0, 1.0) if self.short else (10.0, 1.0))))
            # Single losses decide who gets more: lock-step differs from seed to seed, too.
            means, spreads = self.spread(f"figure5-{rate}", network)
            rows = [(None, {"mean": means, "stdev": spreads, "kept_pace": True})]
            rows += [(tdf, self.flows(f"figure5-{rate}-{tdf}", network, tdf)) for tdf in self.factors or ([10] if self.short else [1, 10])]
            for tdf, row in rows:
                wrong = ""
                for group, rtt in enumerate((20, 40, 60)):
                    most = BOUND * means[group] + 3 * spreads[group]
                    off = row["mean"][group] - means[group]
                    wrong += self.check(abs(off) <= most, f"figure5, {rate} Mbit/s, {label(tdf)}, {rtt} ms: {off:+.2f} Mbit/s per flow from lock-step, "
                                        f"more than {most:.2f}", row["kept_pace"])  # fmt: skip
                    found.append({"rate_mbit": rate, "configuration": label(tdf), "rtt_ms": rtt, "flow_mbit": row["mean"][group], "lock_step_mbit": means[group],
                                  "lock_step_stdev_mbit": spreads[group], "allowed_mbit": most, "kept_pace": row["kept_pace"]})  # fmt: skip
                    xs, ys = curves.setdefault(f"{rtt} ms, {label(tdf)}", ([], []))
                    xs.append(rate)
                    ys.append(row["mean"][group])
                print(f"  {rate:4} Mbit/s, {label(tdf):>10}: per flow at 20, 40, 60 ms: {', '.join(f'{mean:.2f}' for mean in row['mean'])} Mbit/s{pace(row)}{wrong}")
        self.plot("figure5", "bottleneck in Mbit/s", "Mbit/s per flow", curves)
        return found

    def fast(self, name: str, rate: int, found: list[dict], cc: str = "cubic", machines: int = 1) -> dict:
        """50 flows over 80 ms in lock-step for 1,000 round trips, and points at the given factors beside lock-step over the same, shorter time."""
        flows, cards = (10 if self.short else 50), rate >= 1000
        long = self.span(*((4.0, 1.0) if self.short else (85.0, 5.0)))
        network = Network(rate, [(flows, 80)], *long, machines=machines, cc=cc, offloads=cards)
        exact = self.flows(f"{name}-exact", network, None)
        shared = {"rate_mbit": rate, "cc": cc, "machines": machines}
        rows = [(None, long, exact, exact)]
        for tdf in self.factors:
            short = (4.0, 1.0) if tdf >= 100 else (8.0, 3.0)
            network = Network(rate, [(flows, 80)], *short, machines=machines, cc=cc, offloads=cards)
            beside = self.flows(f"{name}-exact-short-{tdf:g}", network, None)
            rows.append((tdf, short, self.flows(f"{name}-tdf{tdf:g}", network, tdf), beside))
        for tdf, span, row, beside in rows:
            off = row["sum"] / beside["sum"] - 1
            wrong = self.check(abs(off) <= 2 * BOUND, f"{name}, {label(tdf)}: {off:+.1%} from lock-step", row["kept_pace"])
            found.append(shared | {"configuration": label(tdf), "seconds": span[0] - span[1], "flow_mbit": row["mean"][0], "flow_stdev_mbit": row["stdev"][0],
                                   "of_link": row["sum"] / rate, "off": off, "kept_pace": row["kept_pace"]})  # fmt: skip
            print(f"  {rate:6} Mbit/s, {cc:>5}, {machines} + {machines} machines, {label(tdf):>9} ({span[0] - span[1]:g} s): {row['mean'][0]:9.3f} Mbit/s per flow "
                  f"(stdev {row['stdev'][0]:.3f}), {row['sum'] / rate:.1%} of the link, {off:+.2%}{pace(row)}{wrong}", flush=True)
        return exact

    def figure6(self) -> object:
        """50 flows over one link, from one machine or several."""
        found: list[dict] = []
        curves: dict[str, tuple] = {}
        for rate in self.bottlenecks([200], [500, 1000, 2000, 4000, 10_000, 100_000]):
            means = {}
            for machines in [1, 2] if self.short else [1, 2, 5, 10]:
                means[machines] = self.fast(f"figure6-{rate}-{machines}", rate, found, machines=machines)["mean"][0]
                xs, ys = curves.setdefault(f"{machines} machines", ([], []))
                xs.append(rate)
                ys.append(means[machines])
            for machines, mean in means.items():
                self.check(abs(mean / means[1] - 1) <= 0.05, f"figure6, {rate} Mbit/s: {mean / means[1] - 1:+.1%} on {machines} machines from one")
        self.plot("figure6", "bottleneck in Mbit/s", "Mbit/s per flow", curves)
        return found

    def figure7(self) -> object:
        """The CPU of the senders as the limit."""
        return cpu.scaled(self, "figure7", 0)

    def figure8(self) -> object:
        """The CPU of the receivers as the limit."""
        return cpu.scaled(self, "figure8", 1)

    def figure9(self) -> object:
        """Reno, the paper's TCP, against BIC."""
        found: list[dict] = []
        curves: dict[str, tuple] = {}
        for rate in self.bottlenecks([500], [100, 500, 1000, 4000, 10_000, 100_000]):
            shares = {}
            for cc in ("reno", "bic"):
                row = self.fast(f"figure9-{rate}-{cc}", rate, found, cc)
                shares[cc] = row["sum"] / rate
                xs, ys = curves.setdefault(cc, ([], []))
                xs.append(rate)
                ys.append(row["mean"][0])
            # The paper: as good as TCP where TCP fills the link, and better where it does not.
            self.check(shares["bic"] >= shares["reno"] - 0.01, f"figure9, {rate} Mbit/s: BIC has {shares['bic']:.1%} of the link and TCP {shares['reno']:.1%}")
        self.plot("figure9", "bottleneck in Mbit/s", "Mbit/s per flow", curves, log=True)
        return found

    def figure10(self) -> object:
        """Reno and BIC at growing round trips. The queue is the same everywhere, so that a window that was halved shows."""
        found: list[dict] = []
        curves: dict[str, tuple] = {}
        shares: dict[tuple[str, int], float] = {}
        rtts = [20, 200] if self.short else [10, 50, 100, 200, 400, 800]
        for rtt in rtts:
            for cc in ("reno", "bic"):
                # 1,000 round trips, and 80 s at least. Lock-step is exact at any rate; the paper had to use dilation.
                long = max(80.0, rtt)
                network = Network(150, [(10, rtt)], *self.span(*((5.0, 1.0) if self.short else (1.1 * long, 0.1 * long))), cc=cc, queue="100p")
                row = self.flows(f"figure10-{rtt}-{cc}", network, None)
                shares[cc, rtt] = row["sum"] / 150
                found.append({"rtt_ms": rtt, "cc": cc, "seconds": network.duration - network.warmup, "flow_mbit": row["mean"][0],
                              "flow_stdev_mbit": row["stdev"][0], "of_link": shares[cc, rtt]})  # fmt: skip
                xs, ys = curves.setdefault(cc, ([], []))
                xs.append(rtt)
                ys.append(shares[cc, rtt])
                print(f"  RTT {rtt:3} ms, {cc:>4}: {shares[cc, rtt]:.1%} of 150 Mbit/s", flush=True)
        for rtt in rtts:
            reno, bic = shares["reno", rtt], shares["bic", rtt]
            self.check(bic >= reno - 0.01, f"figure10, RTT {rtt} ms: BIC has {bic:.1%} of the link and TCP {reno:.1%}")
        self.check(shares["reno", rtts[-1]] < shares["reno", rtts[0]] - 0.02, "figure10: the round trip has no effect on TCP")
        self.plot("figure10", "RTT in ms", "normalised throughput", curves)
        return found

    def figure11(self) -> object:
        """Throughput for several shares of the senders' CPU, at a factor of 10."""
        return cpu.shares(self)

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
    parser.add_argument("--tdf", nargs="+", type=float, default=[],
                        help="for tables 3 and 4 and figures 2, 3, 5, 7 and 8: only these factors; for figures 6 and 9: points at these factors beside lock-step")
    parser.add_argument("--runs", type=int, metavar="N", help="for tables 3 and 4 and figure 12: runs of each configuration (default: 10, with --short 1)")
    parser.add_argument("--losses", nargs="+", choices=["no loss", "1% loss"], default=[], help="for table 4: only these losses")
    parser.add_argument("--seconds", nargs=2, type=float, metavar=("ALL", "WARMUP"), help="length of each run and of its warm-up, in place of the part's own")
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
        study.runs = args.runs or study.runs
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
            else:
                figures.write(out / f"{part}.csv", study.results[part])
            (out / "results.json").write_text(json.dumps(study.results, indent=1))
    print(f"{study.judged} comparisons made; {study.left_out} not, since a run did not keep pace")
    for wrong in study.wrong:
        print(f"WRONG: {wrong}", file=sys.stderr)
    # A study of which nothing could be judged has shown nothing.
    return 1 if study.wrong or (study.left_out and not study.judged) else 0


if __name__ == "__main__":
    sys.exit(main())
