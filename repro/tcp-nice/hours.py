"""Repeats figure 7 of the paper in the simulator: what a transfer gets at each hour of the day, alone or with background transfers of ours.

    python3 repro/tcp-nice/hours.py target/release/warpline             # every hour, five seeds; 6 min
    python3 repro/tcp-nice/hours.py target/release/warpline --short     # every fourth hour, two seeds

The paper measured real paths over five days; their load is not known. Here the load is web sessions of other people, which follow a cosine over the day, from
a tenth of the path at four in the morning to nine tenths at four in the afternoon. The question is the paper's: is there spare capacity that
Nice can use at every hour, and does the foreground transfer keep its rate at every hour? The modem is left out: nobody else uses its line.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import live
from kernel import ACTIONS, PATHS, write

HERE = Path(__file__).parent

# Demand of one web session per second, in bit/s on the wire; see load().
PER_SESSION = 2.06e6
LEAST, MOST, BUSIEST = 0.1, 0.9, 16


def load(hour: int) -> float:
    """The share of the path that other people demand."""
    return (LEAST + MOST) / 2 + (MOST - LEAST) / 2 * math.cos((hour - BUSIEST) / 24 * 2 * math.pi)


def run(warpline: str, path: str, hour: int, action: str, seed: int) -> tuple[float, float]:
    """What the primary transfer gets in its ten seconds, and what other people get meanwhile, in Mbit/s."""
    rate, delay, queue = PATHS[path]
    front, behind, count = ACTIONS[action]
    settings = {
        "seed": str(100 * hour + seed), "topology.bottleneck.rate": f"{rate}Mbit/s", "topology.bottleneck.queue.limit": queue,
        "topology.rtt": f"{2 * float(delay.removesuffix('ms')):g}ms", "flow.others.web.session_rate": f"{load(hour) * float(rate) * 1e6 / PER_SESSION:.5f}",
        "flow.primary.cc": front, "flow.secondary.count": str(max(1, count)), "flow.secondary.cc": behind or "nice",
        **({} if behind else {"flow.secondary.stop": "58.001s"}),
    }
    with tempfile.TemporaryDirectory() as directory:
        words = [warpline, "run", str(HERE / "hours.toml"), "--json", "--no-report", "--out", f"{directory}/run"]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
        groups = {group["group"]: group for group in json.loads(done.stdout)["summary"]["groups"]}
    # Both are means over the twelve seconds after the warm-up.
    return groups["primary"]["goodput_bps"] * 12 / 10 / 1e6, groups["others"]["throughput_bps"] / 1e6


def show(rows: list[dict], out: Path) -> None:
    hours = sorted({int(row["hour"]) for row in rows})
    for path in dict.fromkeys(row["path"] for row in rows):
        print(f"\n### {path}: Mbit/s of the transfer in front\n\n| hour | asked for by others | " + " | ".join(ACTIONS) + " |\n|--:|--:|" + "--:|" * len(ACTIONS))
        for hour in hours:
            mine = {row["action"]: row["primary_mbps"] for row in rows if (row["path"], row["hour"]) == (path, hour)}
            print(f"| {hour} | {load(hour) * 100:.0f} % | " + " | ".join(f"{mine[action]:.2f}" for action in ACTIONS) + " |")
        total = {action: sum(row["primary_mbps"] for row in rows if (row["path"], row["action"]) == (path, action)) for action in ACTIONS}
        print("| all | | " + " | ".join(f"{total[action] / total['Reno/NULL'] * 100:.0f} %" for action in ACTIONS) + " |", flush=True)
        drawing, ax = live.axes(f"a transfer of ten seconds: {path}", "hour", "Mbit/s")
        if drawing:
            for action in ACTIONS:
                ax.plot(hours, [row["primary_mbps"] for row in rows if (row["path"], row["action"]) == (path, action)], marker="o", markersize=3, label=action)
            ax.legend(fontsize="x-small")
            drawing.savefig(out / f"fig7-{path.replace(' ', '-')}.svg")


def main() -> int:
    parser = live.arguments(__doc__, "every fourth hour, two seeds")
    parser.add_argument("--only", default="", help="paths, separated by commas: cable modem, London, Delaware")
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds, in place of five or two")
    parser.add_argument("--show", action="store_true", help="run nothing: print and plot what is in --out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.show:
        show(live.read(options.out / "fig7.csv"), options.out)
        return 0
    warpline = str(options.warpline.resolve())
    hours = list(range(0, 24, 4 if options.short else 1))
    seeds = range(1, 1 + (options.seeds or (2 if options.short else 5)))
    paths = [path for path in PATHS if path != "modem" and (not options.only or path in options.only.split(","))]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        started = {(path, hour, action): [pool.submit(run, warpline, path, hour, action, seed) for seed in seeds] for path in paths for hour in hours for action in ACTIONS}
        try:
            for (path, hour, action), futures in started.items():
                got = [future.result() for future in futures]
                rows.append({"path": path, "hour": hour, "others_asked": round(load(hour), 3), "action": action, "primary_mbps": round(statistics.mean(rate for rate, _ in got), 4),
                             "others_mbps": round(statistics.mean(rate for _, rate in got), 4)})
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    write(options.out / "fig7.csv", rows)
    show(rows, options.out)
    return 0


if __name__ == "__main__":
    live.run(main)
