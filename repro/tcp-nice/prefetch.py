"""Repeats figures 8 and 9 of the paper: how long people wait if their browsers prefetch, over a cable modem and over a modem.

    sudo python3 repro/tcp-nice/prefetch.py target/release/warpline                  # both paths, each queue, three seeds each; 18 min
    sudo python3 repro/tcp-nice/prefetch.py target/release/warpline --short          # one seed, a minute each
    sudo python3 repro/tcp-nice/prefetch.py target/release/warpline --only modem --queues 60

Sixteen clients replay a trace against nginx behind `warpline shell`. nginx sends requested objects with Reno, and prefetched objects with Reno or
Nice. As in the paper, requests are pipelined: a connection has up to eight under way, and the server suggests what to prefetch in a header. The paper does not say how long the queues of its paths were, so there
are several. All policies and seeds of a path and a queue run at the same time, each behind its own link. Needs root, nginx, and Nice in the kernel,
which is loaded meanwhile; without Nice, its lines are left out.

The paper's trace, requests to CNN in January 2001, is not public. A generated trace (`warpline prefetch`) takes its place; the server has
learnt from an hour of it before. Demand is about a tenth of the cable modem's capacity, as in the paper, and about a third of the modem's, for which the paper says nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import live
from kernel import PATHS, write

# The policy, and the congestion control for prefetched objects.
CASES = {
    "none": ("none", "reno"),
    "conservative, Reno": ("conservative", "reno"),
    "conservative, Nice": ("conservative", "nice"),
    "aggressive, Reno": ("aggressive", "reno"),
    "aggressive, Nice": ("aggressive", "nice"),
}
# For each path: the figure, and options of the trace that give the wanted demand.
TRACES = {
    "cable modem": ("fig8", ["--think", "7"]),
    "modem": ("fig9", ["--think", "30", "--object-bytes", "2000"]),
}
# The queue's length in packets.
QUEUES = (60, 240, 1000)
# Requests under way on a connection.
PIPELINE = 8
# How much of the trace the server has learnt from before, in seconds.
LEARNT = 3600


def job(warpline: str, path: str, queue: int, case: str, seed: int, seconds: int, port: int):
    policy, cc = CASES[case]
    trace = " ".join(["--duration", str(LEARNT + seconds), "--seed", str(seed), *TRACES[path][1]])
    server = f"exec {warpline} prefetch serve --listen 0.0.0.0 --port {port} --cc {cc} --strict --hints {policy} --learn {LEARNT} {trace}"
    # nginx gets the sockets before it can answer, so early connections wait.
    script = f"sleep 3; exec {warpline} prefetch run --server $WARPLINE_BASE:{port} --policy {policy} --pipeline {PIPELINE} --hints --learn {LEARNT} --json {trace}"
    rate, delay, _ = PATHS[path]
    return lambda: live.behind(warpline, (rate, delay, f"{queue}p"), server, script)


def measure(warpline: str, path: str, queue: int, cases: list[str], seeds: int, seconds: int) -> list[dict]:
    keys = [(case, seed) for seed in range(1, seeds + 1) for case in cases]
    first = live.ports(2 * len(keys))
    jobs = {key: job(warpline, path, queue, *key, seconds, first + 2 * number) for number, key in enumerate(keys)}
    reports = {key: json.loads(output)["report"] for key, output in live.gather(jobs, len(jobs))}
    rate = float(PATHS[path][0]) * 1e6
    rows = []
    for case, seed in keys:
        report = reports[case, seed]
        share = lambda key, report=report: round(report[key] * 8 / report["seconds"] / rate, 4)
        rows.append({"path": path, "queue": queue, "case": case, "seed": seed, "requests": report["requests"], "failures": report["failures"],
                     "response_ms": round(report["mean_response_s"] * 1e3, 2), "p90_ms": round(report["response_quantiles_s"][1] * 1e3, 2),
                     "hit_rate": round(report["hit_rate"], 4), "demand_share": share("demand_bytes"), "prefetched_share": share("prefetch_bytes"), "useful": round(report["useful"], 4)})
    if any(row["failures"] for row in rows):
        print("Requests failed: do not trust these figures.", file=sys.stderr)
    return rows


def show(name: str, path: str, queue: int, rows: list[dict], out: Path) -> None:
    rows = [row for row in rows if row["queue"] == queue]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    print(f"\n### {name}: {path}, queue of {queue} packets, {len(rows) // len(cases)} seed(s)\n")
    print("| fetched ahead | response | against none | 90 % below | answered by the cache | demand on the link | fetched ahead | of use |\n|---|" + "--:|" * 7)
    alone = {row["seed"]: row["response_ms"] for row in rows if row["case"] == "none"}
    bars = {}
    for case in cases:
        mine = [row for row in rows if row["case"] == case]
        mean = lambda key, mine=mine: statistics.mean(row[key] for row in mine)
        bars[case] = [row["response_ms"] for row in mine]
        # Each seed gives another trace, so it is compared with itself.
        ratio = statistics.geometric_mean(row["response_ms"] / alone[row["seed"]] for row in mine)
        print(f"| {case} | {mean('response_ms'):.0f} ms ({min(bars[case]):.0f} to {max(bars[case]):.0f}) | x {ratio:.2f} | {mean('p90_ms'):.0f} ms "
              f"| {mean('hit_rate') * 100:.0f} % | {mean('demand_share') * 100:.0f} % | {mean('prefetched_share') * 100:.0f} % | {mean('useful') * 100:.0f} % |", flush=True)
    drawing, ax = live.axes(f"prefetching over a {path}, {queue} packets", "", "mean response time, ms")
    if drawing:
        means = [statistics.mean(bars[case]) for case in cases]
        ends = [[mean - min(bars[case]) for mean, case in zip(means, cases)], [max(bars[case]) - mean for mean, case in zip(means, cases)]]
        ax.bar([case.replace(", ", "\n") for case in cases], means, yerr=ends, capsize=4)
        drawing.savefig(out / f"{name}-{queue}.svg")


def main() -> int:
    parser = live.arguments(__doc__, "one seed, a minute")
    parser.add_argument("--only", default="", help="cable modem or modem")
    parser.add_argument("--queues", type=int, nargs="+", default=list(QUEUES), metavar="PACKETS", help="lengths of the queue (default 60 240 1000)")
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds, in place of three or one")
    parser.add_argument("--seconds", type=int, default=0, help="seconds of the trace to replay, in place of 150 or 60")
    parser.add_argument("--show", action="store_true", help="measure nothing: print and plot what is in --out")
    options = parser.parse_args()
    paths = [path for path in TRACES if options.only in ("", path)]
    if not paths:
        raise SystemExit(f"--only takes one of: {', '.join(TRACES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.show:
        for path in paths:
            name = TRACES[path][0]
            rows = live.read(options.out / f"{name}.csv")
            for queue in dict.fromkeys(int(row["queue"]) for row in rows):
                show(name, path, queue, rows, options.out)
        return 0
    lacks = live.missing("nginx")
    if lacks:
        raise SystemExit("missing: " + ", ".join(lacks))
    live.ends_on_request()
    warpline = str(options.warpline.resolve())
    with live.nice(warpline) as reason:
        cases = list(CASES)
        if reason:
            print(f"Nice is left out: {reason}", file=sys.stderr)
            cases = [case for case in cases if CASES[case][1] != "nice"]
        for path in paths:
            name, seeds = TRACES[path][0], options.seeds or (1 if options.short else 3)
            rows = []
            for queue in options.queues:
                rows += measure(warpline, path, queue, cases, seeds, options.seconds or (60 if options.short else 150))
                show(name, path, queue, rows, options.out)
            write(options.out / f"{name}.csv", rows)
    return 0


if __name__ == "__main__":
    live.run(main)
