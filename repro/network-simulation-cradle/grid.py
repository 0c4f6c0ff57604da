"""Compares Linux with the TCP model over the same kinds of paths: goodput over a grid of rates, round-trip times and loss rates.

    python3 repro/network-simulation-cradle/grid.py target/release/warpline            # the grid: 27 cells, five controls, three seeds
    python3 repro/network-simulation-cradle/grid.py target/release/warpline --short    # 8 cells, one seed, minutes

Writes results/grid.csv, results/grid.md and, with matplotlib, plots of the congestion windows in single cells (results/windows-*.svg). Fails
if a cell differs by more than 10 % and by more than chance. Warpline's Python package makes the scenarios.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import os
import random
import statistics
import sys
from pathlib import Path

import nsc
import stacks
import warpline

HERE = Path(__file__).parent
CONTROLS = ["reno", "cubic", "vegas", "bic", "westwood"]
BOUND = 0.10
PACKET = 1500 * 8
# How many packets of reno a run should have, and how many losses if there are any: enough for a meaningful mean. And the limits.
PACKETS, LOSSES, MOST = 40_000, 200, 400_000
LONGEST = 3000.0


def queue(rate: float, rtt: float) -> int:
    """Queue limit at the bottleneck in packets: the path's bandwidth-delay product, and at least twenty."""
    return max(20, math.ceil(rate * rtt / PACKET))


def duration(rate: float, rtt: float, loss: float, scale: float) -> float:
    """Seconds in which reno has enough packets and losses (its mean window is sqrt(1.5 / loss): Mathis et al. 1997)."""
    expected = rate / PACKET
    if loss:
        expected = min(expected, math.sqrt(1.5 / loss) / rtt)
        seconds = max(LOSSES / loss, PACKETS / 4) / expected
    else:
        # A sawtooth of reno lasts as many round trips as the path and the queue hold packets.
        period = (rate * rtt / PACKET + queue(rate, rtt)) / 2 * (rtt + queue(rate, rtt) * PACKET / rate)
        seconds = min(max(PACKETS / expected, 4 * period), MOST / expected)
    return min(max(seconds * scale, 40 * rtt, 20.0), LONGEST)


def losses(probability: float, seed: int, packets: int) -> list[int]:
    """The packets that are lost, each with the same probability."""
    draw = random.Random(seed)
    return [number for number in range(1, packets + 1) if draw.random() < probability]


def scenario(rate: float, rtt: float, loss: float, controls: list[str], seed: int, seconds: float, samples: float) -> warpline.Scenario:
    """The scenario of a cell: for each congestion control a path between two guests and one between two models. All paths lose the same packets."""
    lost = losses(loss, seed, int(rate * seconds / PACKET))
    dropped = {"loss": warpline.ListLoss(packets=lost), "reverse": {"loss": warpline.NoLoss()}} if lost else {}
    links, hosts, flows = [], [], []
    for kind, cc in itertools.product(("linux", "model"), controls):
        ends = f"{kind}-{cc}-a", f"{kind}-{cc}-b"
        stack = stacks.Stack(kind, kind, cc)
        links.append(stacks.link(*ends, rate, rtt * 500, queue(rate, rtt), **dropped))
        hosts += [host for end in ends for host in stack.host(end, "linux")]
        flows.append(stack.flow(f"{kind}-{cc}", *ends))
    return warpline.Scenario(
        name="grid", duration=f"{seconds:.3f}s", warmup=f"{min(20 * rtt, seconds / 4):.3f}s", seed=seed, sample_interval=f"{samples}s", link=links, host=hosts, flow=flows
    )


def goodputs(summary: dict, _: Path) -> dict[str, dict]:
    """The values of each flow that the table needs."""
    keys = ("goodput_bps", "sent_packets", "retransmitted_packets", "lost_packets", "rtos", "recoveries")
    return {flow["group"]: {key: flow[key] for key in keys} for flow in summary["flows"]}


def windows(summary: dict, run: Path) -> dict[str, list[tuple[float, float]]]:
    """Congestion windows over time, in segments of 1448 bytes."""
    import pyarrow.parquet as parquet

    names = {flow["flow"]: flow["group"] for flow in summary["flows"]}
    series: dict[str, list[tuple[float, float]]] = {name: [] for name in names.values()}
    for row in parquet.read_table(run / "series_flows.parquet", columns=["time_s", "flow", "cwnd_bytes"]).to_pylist():
        if row["cwnd_bytes"] is not None:
            series[names[row["flow"]]].append((row["time_s"], row["cwnd_bytes"] / 1448))
    return series


def table(cells: list[tuple], controls: list[str], found: dict) -> list[dict]:
    """Rows of the table: mean goodputs and their difference, and whether it is more than chance."""
    rows = []
    for cell, cc in itertools.product(cells, controls):
        rate, rtt, loss = cell
        of = {kind: [one[f"{kind}-{cc}"]["goodput_bps"] / 1e6 for one in found[cell]] for kind in ("linux", "model")}
        linux, model = (statistics.mean(of[kind]) for kind in ("linux", "model"))
        difference = model / linux - 1
        chance = nsc.half_width([m / l - 1 for m, l in zip(of["model"], of["linux"])])
        verdict = "" if abs(difference) <= BOUND else "chance" if abs(difference) <= chance else "DIFFERS"
        total = lambda kind, key: sum(one[f"{kind}-{cc}"][key] for one in found[cell])
        again = {kind: total(kind, "retransmitted_packets") / max(total(kind, "sent_packets"), 1) for kind in ("linux", "model")}
        rows.append({
            "cc": cc, "rate_mbps": rate / 1e6, "rtt_ms": rtt * 1e3, "loss": loss, "queue_packets": queue(rate, rtt),
            "linux_mbps": nsc.significant(linux), "model_mbps": nsc.significant(model), "difference": round(difference, 4),
            "chance": "" if math.isnan(chance) else round(chance, 4),
            "linux_retransmitted": nsc.significant(again["linux"], 3), "model_retransmitted": nsc.significant(again["model"], 3), "verdict": verdict,
        })
    return rows


def merged(path: Path, rows: list[dict]) -> list[dict]:
    """These rows, and those of other cells that the table has already."""
    key = lambda row: (float(row["rate_mbps"]), float(row["rtt_ms"]), float(row["loss"]), CONTROLS.index(row["cc"]))
    number = lambda text: float(text) if text not in ("", "DIFFERS", "chance") else text
    old = []
    if path.exists():
        with path.open(newline="") as file:
            old = [{name: text if name in ("cc", "verdict") else number(text) for name, text in row.items()} for row in csv.DictReader(file)]
    new = {key(row) for row in rows}
    return sorted([row for row in old if key(row) not in new] + rows, key=key)


def markdown(rows: list[dict]) -> str:
    """The table, with a line for each cell and a column for each congestion control."""
    controls = list(dict.fromkeys(row["cc"] for row in rows))
    lines = ["| Mbit/s | RTT ms | loss | " + " | ".join(controls) + " |", "|--:|--:|--:|" + "--:|" * len(controls)]
    for (rate, rtt, loss), own in itertools.groupby(sorted(rows, key=lambda r: (r["rate_mbps"], r["rtt_ms"], r["loss"])), lambda r: (r["rate_mbps"], r["rtt_ms"], r["loss"])):
        by = {row["cc"]: row for row in own}
        show = lambda row: f"{row['linux_mbps']:.3g} / {row['model_mbps']:.3g} ({row['difference'] * 100:+.1f} %{' ' + row['verdict'] if row['verdict'] else ''})"
        lines.append(f"| {rate:g} | {rtt:g} | {loss:g} | " + " | ".join(show(by[cc]) for cc in controls) + " |")
    return "\n".join(lines)


def draw(out: Path, name: str, title: str, series: dict, controls: list[str]) -> None:
    """Windows side by side."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return
    drawing = Figure(figsize=(10, 2.1 * len(controls)), layout="constrained")
    for ax, cc in zip(drawing.subplots(len(controls), 1, sharex=True, squeeze=False)[:, 0], controls):
        for kind in ("linux", "model"):
            points = series[f"{kind}-{cc}"]
            ax.plot([t for t, _ in points], [w for _, w in points], label=kind, linewidth=0.9)
        ax.set(ylabel=f"{cc}: cwnd")
        ax.legend(fontsize="small", loc="upper right")
    drawing.suptitle(title)
    drawing.savefig(out / f"{name}.svg")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline", help="the program")
    parser.add_argument("--short", action="store_true", help="fewer cells, one seed, shorter runs")
    parser.add_argument("--seeds", type=int, help="how many seeds (default 3, or 1 with --short)")
    parser.add_argument("--controls", default=",".join(CONTROLS), help="which congestion controls")
    parser.add_argument("--cells", help="only these cells (RATE/RTT/LOSS in Mbit/s, ms and a number from 0 to 1, separated by commas); the table keeps the others")
    parser.add_argument("--scale", type=float, help="factor for the length of runs (default 1, or 0.25 with --short)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--no-windows", action="store_true", help="do not plot windows")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    controls = options.controls.split(",")
    seeds = range(1, 1 + (options.seeds or (1 if options.short else 3)))
    scale = options.scale or (0.25 if options.short else 1.0)
    rates, rtts, parts = ([2, 20], [20, 100], [0, 0.01]) if options.short else ([2, 10, 50], [10, 50, 200], [0, 0.001, 0.01])
    cells = list(itertools.product((r * 1e6 for r in rates), (r / 1e3 for r in rtts), parts))
    if options.cells:
        numbers = [[float(number) for number in cell.split("/")] for cell in options.cells.split(",")]
        cells = [(rate * 1e6, rtt / 1e3, loss) for rate, rtt, loss in numbers]
    options.out.mkdir(parents=True, exist_ok=True)
    laboratory = nsc.Laboratory(options.warpline, options.jobs)
    try:
        started = {}
        for cell in sorted(cells, key=lambda c: -c[0]):
            # Without random losses, the seed changes nothing.
            for seed in seeds if cell[2] else seeds[:1]:
                seconds = duration(*cell, scale)
                started[cell, seed] = laboratory.start(scenario(*cell, controls, seed, seconds, seconds), goodputs)
        # The windows show best with long round trips.
        shown = [(10e6, 0.05, 0.0, 60.0), (10e6, 0.05, 0.001, 60.0)]
        traces = [] if options.no_windows else [
            (cell, laboratory.start(scenario(*cell, controls, 1, seconds, 0.1), windows)) for *cell, seconds in shown
        ]
        found = {}
        for cell in cells:
            found[cell] = [started[cell, seed].result() for seed in seeds if (cell, seed) in started]
            print(markdown(table([cell], controls, found)).splitlines()[-1], flush=True)
        rows = table(cells, controls, found)
        rows = merged(options.out / "grid.csv", rows) if options.cells else rows
        nsc.write_csv(options.out / "grid.csv", rows)
        (options.out / "grid.md").write_text(markdown(rows) + "\n")
        for (rate, rtt, loss), future in traces:
            name = f"windows-{rate / 1e6:g}-{rtt * 1e3:g}-{loss:g}"
            draw(options.out, name, f"{rate / 1e6:g} Mbit/s, {rtt * 1e3:g} ms, loss {loss:g}: cwnd in segments", future.result(), controls)
    finally:
        laboratory.close()
    worst = max(rows, key=lambda row: abs(row["difference"]))
    within = sum(abs(row["difference"]) <= BOUND for row in rows)
    differing = [row for row in rows if row["verdict"] == "DIFFERS"]
    print(f"{within} of {len(rows)} within {BOUND:.0%}, {len(differing)} differ by more than that and by more than chance; "
          f"the largest difference is {worst['difference']:+.1%} ({worst['cc']}, {worst['rate_mbps']:g} Mbit/s, {worst['rtt_ms']:g} ms, {worst['loss']:g})")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
