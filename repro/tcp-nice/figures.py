"""Repeats the paper's simulations: figures 2 to 5 and 11 to 16, and some questions that it leaves open. Prints tables, and writes CSV and (with matplotlib) plots.

    python3 repro/tcp-nice/figures.py target/release/warpline            # the short form: two minutes of traffic, fewer points
    python3 repro/tcp-nice/figures.py target/release/warpline --full     # the paper's 15 minutes, all points, ten seeds
    python3 repro/tcp-nice/figures.py target/release/warpline --only fig3,fig5

The foreground of figures 2 to 5 and 11 to 13 is a log that is replayed (surge.py makes one for each seed), as the paper's; with --sessions, it is the web
sessions of web.toml, which wait for answers, as in the other questions.

Latency is the mean over foreground packets, from first transmission to acknowledgement, retransmissions included (UDP: one way). The share
beside it is what background flows sent, as a share of the capacity that the mean demand leaves.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import surge

HERE = Path(__file__).parent
# web.toml with a log in place of its sessions.
LOG = "log"

# Kinds of background flows: settings by path.
BACKGROUNDS = {
    "priority": {"topology.bottleneck.queue.kind": "priority", "flow.background.cc": "reno"},
    "nice": {"flow.background.cc": "nice"},
    "nice (paper)": {"flow.background.cc": '{ kind = "nice", variant = "paper" }'},
    "nice W>=1": {"flow.background.cc": '{ kind = "nice", floor = 1.0 }'},
    "vegas(1,3)": {"flow.background.cc": '{ kind = "vegas", alpha = 1.0, beta = 3.0 }'},
    "vegas(0,0)": {"flow.background.cc": '{ kind = "vegas", alpha = 0.0, beta = 0.0 }'},
    "reno": {"flow.background.cc": "reno"},
    "ledbat": {"flow.background.cc": "ledbat"},
    "ledbat++": {"flow.background.cc": "ledbat++"},
    "lp": {"flow.background.cc": "lp"},
    "lp (linux)": {"flow.background.cc": '{ kind = "lp", variant = "linux" }'},
}
MAIN = ["priority", "nice", "nice (paper)", "vegas(1,3)", "vegas(0,0)", "reno", "ledbat", "ledbat++", "lp"]


class Study:
    """Runs points, each once, on all cores."""

    def __init__(self, warpline: str, full: bool, seconds: int, seeds: int, logs: Path | None) -> None:
        self.warpline, self.full, self.logs = warpline, full, logs
        self.seconds = seconds or (900 if full else 120)
        self.duration = f"{self.seconds}s"
        self.seeds = list(range(1, 1 + (seeds or (10 if full else 1))))
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self.known: dict[str, concurrent.futures.Future] = {}

    def log(self, seed: int) -> Path:
        """The log of this seed, in the directory for logs."""
        file = self.logs / f"{seed}.log"
        if not file.exists():
            part = file.with_suffix(f".{threading.get_ident()}")
            part.write_text(surge.text(surge.log(seed, self.seconds, surge.CLIENTS)))
            part.rename(file)
        return file

    def one(self, scenario: str, settings: dict[str, str], seed: int) -> dict[str, dict]:
        if scenario == LOG:
            scenario, settings = "web.toml", {**settings, "flow.demand.web": f'{{ access_log = "{self.log(seed)}" }}'}
        with tempfile.TemporaryDirectory() as directory:
            words = [self.warpline, "run", str(HERE / scenario), "--json", "--no-report", "--out", f"{directory}/run"]
            for path, value in {"duration": self.duration, "seed": str(seed), **settings}.items():
                words += ["--set", f"{path}={value}"]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
            return {group["group"]: group for group in json.loads(done.stdout)["summary"]["groups"]}

    def start(self, scenario: str, settings: dict[str, str]) -> list[concurrent.futures.Future]:
        futures = []
        for seed in self.seeds:
            key = json.dumps([scenario, settings, seed], sort_keys=True)
            if key not in self.known:
                self.known[key] = self.pool.submit(self.one, scenario, settings, seed)
            futures.append(self.known[key])
        return futures

    def demand(self, scenario: str) -> float:
        """The mean rate of the foreground on the wire when nothing limits it, in bit/s."""
        free = {"topology.bottleneck.rate": "100Mbit/s", "flow.background.stop": "5.1s", "flow.background.count": "1"}
        return statistics.mean(f.result()["demand"]["throughput_bps"] for f in self.start(scenario, free))


def settings(demand: float, spare: float, count: int, background: dict[str, str]) -> dict[str, str]:
    rate = f"{demand * (1 + spare) / 1e6:.4f}Mbit/s"
    return {"topology.bottleneck.rate": rate, "flow.background.count": str(count), **background}


def collect(futures: list[concurrent.futures.Future]) -> tuple[float, float, float]:
    """Mean latency of foreground packets in ms, background goodput and throughput in bit/s, over the seeds."""
    groups = [future.result() for future in futures]
    latency = statistics.mean(group["demand"]["latency_mean_ms"] for group in groups)
    of = lambda key: statistics.mean(group["background"][key] for group in groups)
    return latency, of("goodput_bps"), of("throughput_bps")


def figure(study: Study, out: Path, name: str, title: str, scenario: str, demand: float, axis: str, points: list, lines: dict) -> list[dict]:
    """One figure. `lines[line](point)` gives the settings for each line and point. Every point is compared with router priority."""
    started = {(line, point): study.start(scenario, make(point)) for line, make in lines.items() for point in points}
    rows = []
    for point in points:
        ideal = collect(started["priority", point])
        for line in lines:
            latency, goodput, throughput = collect(started[line, point])
            spare = float(lines[line](point)["topology.bottleneck.rate"].removesuffix("Mbit/s")) * 1e6 - demand
            rows.append({axis: point, "background": line, "latency_ms": round(latency, 2), "latency_vs_priority": round(latency / ideal[0], 3),
                         "goodput_mbps": round(goodput / 1e6, 4), "share_of_spare": round(throughput / spare, 3)})
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"\n### {name}: {title}\n\n| {axis} | " + " | ".join(lines) + " |\n|---|" + "--:|" * len(lines))
    for point in points:
        cells = [row for row in rows if row[axis] == point]
        print(f"| {point} | " + " | ".join(f"{c['latency_ms']:.0f} ms ({(c['latency_vs_priority'] - 1) * 100:+.0f} %), {c['share_of_spare'] * 100:.0f} %" for c in cells) + " |", flush=True)
    draw(out, name, title, axis, rows, list(lines))
    return rows


def draw(out: Path, name: str, title: str, axis: str, rows: list[dict], lines: list[str]) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    drawing = Figure(figsize=(9, 3.6), layout="constrained")
    for ax, value, label in zip(drawing.subplots(1, 2), ("latency_ms", "goodput_mbps"), ("foreground latency, ms", "background goodput, Mbit/s")):
        for line in lines:
            mine = [row for row in rows if row["background"] == line]
            ax.plot([str(row[axis]) for row in mine], [row[value] for row in mine], marker="o", label=line)
        ax.set(xlabel=axis, ylabel=label, title=title)
        if value == "latency_ms":
            ax.set_yscale("log")
    ax.legend(fontsize="small")
    drawing.savefig(out / f"{name}.svg")


def figures(study: Study, out: Path, only: set[str]) -> None:
    full = study.full
    counts = [1, 2, 4, 8, 16, 32, 64, 100] if full else [1, 4, 16, 64]
    web = LOG if study.logs else "web.toml"
    for scenario, numbers, title, spared in ((web, ("fig2", "fig3", "fig5"), "web", 1), ("onoff.toml", ("fig14", "fig15", "fig16"), "on/off UDP", 2)):
        if only and not only & {*numbers, "fig11", "fig12", "fraction", "conditions"}:
            continue
        demand = study.demand(scenario)
        print(f"\n{title}: mean demand {demand / 1e6:.2f} Mbit/s on the wire")

        def at(spare: float = 1, count: int = 16, more: dict | None = None, **_: object):
            return settings(demand, spare, count, more or {})

        spares = [0.1, 0.2, 0.5, 1, 2, 5] if full else [0.2, 0.5, 1, 2]
        if not only or numbers[0] in only:
            lines = {b: (lambda s, b=b: at(spare=s, count=8, more=BACKGROUNDS[b])) for b in MAIN}
            figure(study, out, numbers[0], f"spare capacity, 8 background flows, {title}", scenario, demand, "spare", spares, lines)
        if not only or numbers[1] in only:
            # Appendix B has S = 2 for the flows of figures 15 and 16.
            lines = {b: (lambda n, b=b: at(spared, count=n, more=BACKGROUNDS[b])) for b in [*MAIN, "nice W>=1"]}
            figure(study, out, numbers[1], f"background flows, S = {spared}, {title} (the next figure: throughput)", scenario, demand, "flows", counts, lines)
        if not only or numbers[2] in only:
            thresholds = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0] if full else [0.1, 0.2, 0.5, 0.9]
            nice = lambda t: {"flow.background.cc": f'{{ kind = "nice", threshold = {t} }}'}
            paper = lambda t: {"flow.background.cc": f'{{ kind = "nice", variant = "paper", threshold = {t} }}'}
            lines = {"priority": lambda t: at(more=BACKGROUNDS["priority"]), "nice": lambda t: at(more=nice(t)), "nice (paper)": lambda t: at(more=paper(t))}
            figure(study, out, numbers[2], f"threshold, 16 background flows, {title}", scenario, demand, "threshold", thresholds, lines)
        if scenario != web:
            continue
        if not only or "fraction" in only:
            fraction = lambda f: {"flow.background.cc": f'{{ kind = "nice", fraction = {f} }}'}
            lines = {"priority": lambda f: at(more=BACKGROUNDS["priority"]), "nice": lambda f: at(more=fraction(f))}
            figure(study, out, "fraction", "trigger fraction, 16 background flows", scenario, demand, "fraction", [0.1, 0.3, 0.5, 0.7, 0.9], lines)
        limited = {f"reno, window {w}": {"flow.background.cc": "reno", "flow.background.max_window": f"{w}p"} for w in (1, 2, 4, 8)}
        rivals = {**{b: BACKGROUNDS[b] for b in ("priority", "nice")}, **limited}
        if not only or "fig11" in only:
            lines = {b: (lambda s, more=more: at(spare=s, count=8, more=more)) for b, more in rivals.items()}
            figure(study, out, "fig11", "rate-limited Reno over the spare capacity, 8 background flows", scenario, demand, "spare", spares, lines)
        if not only or "fig12" in only:
            lines = {b: (lambda n, more=more: at(count=n, more=more)) for b, more in rivals.items()}
            figure(study, out, "fig12", "rate-limited Reno (with fig13: throughput)", scenario, demand, "flows", counts, lines)
        if not only or "conditions" in only:
            conditions = {
                "as in the paper": {},
                "all start at once": {"flow.background.start": "0s..0.1s"},
                "latecomers": {"flow.background.start": "0s..60s"},
                "CUBIC in front": {"flow.demand.cc": "cubic"},
                "today's TCP": {"tcp.preset": "modern", "flow.demand.cc": "cubic"},
                "CoDel": {"topology.bottleneck.queue.kind": "codel"},
                # After a tenth of the measured time the path becomes half as long again; after half of it, it is as before.
                "a longer route meanwhile": {"topology.bottleneck.delays": f'[{{ at = "{study.seconds / 10}s", delay = "98ms" }}, {{ at = "{study.seconds / 2}s", delay = "48ms" }}]'},
            }
            lines = {b: (lambda c, b=b: at(more={**conditions[c], **BACKGROUNDS[b]})) for b in ("priority", "nice", "nice (paper)", "ledbat", "ledbat++", "lp", "lp (linux)", "reno")}
            figure(study, out, "conditions", "16 background flows, S = 1", scenario, demand, "condition", list(conditions), lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline")
    parser.add_argument("--full", action="store_true", help="15 minutes of traffic, all points, ten seeds")
    parser.add_argument("--sessions", action="store_true", help="web sessions in the foreground, not a log")
    parser.add_argument("--seconds", type=int, default=0, help="seconds of traffic, in place of 120 or 900")
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds, in place of one or ten")
    parser.add_argument("--only", default="", help="figures, separated by commas: fig2, fig3, fig5, fraction, fig11, fig12, conditions, fig14, fig15, fig16")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="directory for CSV and plots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as logs:
        study = Study(options.warpline, options.full, options.seconds, options.seeds, None if options.sessions else Path(logs))
        figures(study, options.out, {name for name in options.only.split(",") if name})
    return 0


if __name__ == "__main__":
    sys.exit(main())
