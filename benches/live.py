#!/usr/bin/env python3
"""Compares emulation with other emulators: for each figure the bar, the value measured now, and the values of the peers.

`warpline calibrate --floors` measures Warpline, and what the machine carries without an emulated network. The figures of the peers were measured
once, with the same kinds of load, on two shared cores of a virtual machine with source and sink on both (medians). They show what is usual, and not
what these programs would do on this machine now. If mahimahi is installed (mm-delay and mm-link), it is measured now, too: round trips and one
TCP stream.

Compare only figures of the same session; differences of capacity below 15 % are noise. Run it on a machine that does nothing else.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """A line of the table: the quantity, the bar, Warpline's value, and whether it is better than the bar."""

    what: str
    bar: str
    seen: float | None
    shown: str
    reached: bool | None
    peers: str = ""


def below(what: str, bar: float, seen: float | None, unit: str, digits: int, peers: str = "") -> Line:
    shown = "not measured" if seen is None else f"{seen:.{digits}f} {unit}"
    return Line(what, f"< {bar:g} {unit}", seen, shown, None if seen is None else abs(seen) < bar, peers)


def above(what: str, bar: float, seen: float | None, unit: str, digits: int, peers: str = "") -> Line:
    shown = "not measured" if seen is None else f"{seen:.{digits}f} {unit}"
    return Line(what, f"> {bar:g} {unit}", seen, shown, None if seen is None else seen > bar, peers)


def held(points: list[dict]) -> int | None:
    """The largest number of links up to which the stream kept its throughput."""
    links = None
    for point in points:
        if point["share"] < 0.95:
            break
        links = point["links"]
    return links


def lines(calibration: dict) -> list[Line]:
    """The lines of the table."""
    accuracy, capacity = calibration["accuracy"], calibration["capacity"]
    small = {row["delay_ms"]: row for row in accuracy["delay"] if row["bytes"] == 64}
    base = small[0.0]["rtt_ms"]["median"]
    found = [below("RTT at 0 ms, 64 B", 0.1, base, "ms", 3, "Rattan 0.130, mahimahi 0.146, ns-3 0.161")]
    peers = {5: "1.71, 2.29, 2.07", 10: "0.67, 1.31, 1.19", 50: "0.15, 0.20, 0.38", 300: "0.02, 0.05, 0.04"}
    for delay, others in peers.items():
        row = small.get(float(delay))
        error = None if row is None else 100 * ((row["rtt_ms"]["median"] - base) / (2 * delay) - 1)
        found.append(below(f"adjusted RTT error at {delay} ms", 0.1, error, "%", 3, others))
    five = small.get(5.0)
    if five is not None:
        over = five["rtt_ms"]["median"] - 10
        # The other side of the adjusted error: a delayed packet leaves when it is due, so it can hardly be faster than the base.
        found.append(Line("the same without adjustment: RTT above 10 ms", "", over, f"{over:.3f} ms", None))
    deviation = max(row["rtt_ms"]["stddev"] for row in accuracy["delay"])
    found.append(below("RTT standard deviation, largest", 0.05, deviation, "ms", 3, "0.05-0.32, 0.05-0.53, 0.06-0.83"))
    rates = accuracy["rate"]
    worst = max(rates, key=lambda row: abs(row["error"]))
    found.append(
        below(
            f"rate error, 1-1000 Mbit/s, largest ({worst['mbps']:g})", 20, worst["error"] * 1e6, "ppm", 2, "40, 400, 60 (1 Gbit/s: half)"
        )
    )
    gigabit = next((row for row in rates if row["mbps"] == 1000 and row["bytes"] == 1518), None)
    queueing = None if gigabit is None else gigabit["under_way_ms"]
    right = None if queueing is None else abs(queueing - gigabit["full_queue_ms"]) < 0.1
    shown = "not measured" if queueing is None else f"{queueing:.2f} ms"
    found.append(Line("queueing at 1 Gbit/s, 1000 packets", "12 ms", queueing, shown, right, "24.8, 12.0, 542"))
    deviations = max((row["deviations"] for row in accuracy["loss"]), key=abs)
    found.append(below("loss, in binomial deviations, largest", 3, deviations, "", 2))

    def median(name: str) -> float | None:
        value = capacity[name]["median"]
        return value if math.isfinite(value) else None

    thousands = {"one_way_pps": (300, "212 (AF_XDP 287), 188, -"), "flooded_pps": (330, "171, 320, -"),
                 "round_trips_ps": (165, "102 (AF_XDP 161), 115, 45")}  # fmt: skip
    names = {"one_way_pps": "one way, under 0.1 % lost", "flooded_pps": "delivered when flooded", "round_trips_ps": "round trips"}
    for name, (bar, others) in thousands.items():
        found.append(above(names[name], bar, median(name) / 1e3, "k/s", 0, others))
    found.append(above("TCP without a limit", 3, median("stream_bps") / 1e9, "Gbit/s", 2, "1.5, 2.6, -"))
    fat = calibration.get("long_fat")
    steady = fat and fat["steady_bps"]
    found.append(above("BBR, 1 Gbit/s and 80 ms, median second", 0.96, steady and steady / 1e9, "Gbit/s", 3, "0.77, 0.96, -"))
    mean = fat and fat["bps"] / 1e9
    shown = "not measured" if mean is None else f"{mean:.3f} Gbit/s"
    found.append(Line("the same with its start, mean", "", mean, shown, None))
    for name, kind, bar, seed in (("cbr", "CBR", 1500, 150), ("tcp", "TCP", 800, 80)):
        links = held(calibration["keep_pace"][name])
        reached = None if links is None else links >= bar
        found.append(Line(f"{kind} links beside a live 2 Mbit/s", f">= {bar}", links, str(links), reached, f"the seed {seed}"))
    return found


def ping(command: list[str], delay: int) -> str:
    """The median round trip of ping in a shell of mahimahi."""
    words = [*command, str(delay), "sh", "-c", "ping -n -c 100 -i 0.02 $MAHIMAHI_BASE"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    times = sorted(float(time) for time in re.findall(r"time=([\d.]+)", text))
    return f"{times[len(times) // 2]:.3f} ms" if times else "no answers"


def mahimahi() -> list[str]:
    """Measures mahimahi, if it is installed."""
    delay = shutil.which("mm-delay")
    if delay is None:
        return ["mahimahi is not installed: its figures above were measured elsewhere"]
    if os.geteuid() == 0:
        return ["mahimahi refuses to run as root: run this as an ordinary user to measure it too"]
    try:
        return [f"mahimahi now: RTT over {ms} ms each way {ping([delay], ms)}" for ms in (0, 5, 10, 50)]
    except (OSError, subprocess.CalledProcessError) as error:
        return [f"mahimahi could not be measured: {error}"]


def table(calibration: dict) -> str:
    """The table as text."""
    rows = lines(calibration)
    text = [f"{'':<44}{'bar':>14}{'measured now':>18}  {'reached':<8} peers elsewhere: Rattan, mahimahi, ns-3"]
    for row in rows:
        reached = {True: "yes", False: "NO", None: ""}[row.reached]
        text.append(f"{row.what:<44}{row.bar:>14}{row.shown:>18}  {reached:<8} {row.peers}")
    text.append("")
    text.append(f"{'floors, measured now':<44}{'RTT ms':>10}{'one way k/s':>14}{'flooded k/s':>14}{'trips k/s':>12}{'TCP Gbit/s':>12}")
    for floor in calibration["floors"]:
        c = {name: value["median"] for name, value in floor["capacity"].items()}
        text.append(
            f"{floor['name']:<44}{c['rtt_ms']:>10.3f}{c['one_way_pps'] / 1e3:>14.0f}{c['flooded_pps'] / 1e3:>14.0f}"
            f"{c['round_trips_ps'] / 1e3:>12.0f}{c['stream_bps'] / 1e9:>12.2f}"
        )
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warpline", default="target/release/warpline", help="the program (a release build)")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--json", metavar="FILE", help="also write the calibration to this file")
    parser.add_argument("--from", dest="source", metavar="FILE", help="show an earlier calibration (warpline calibrate --floors --json)")
    options = parser.parse_args()
    if options.source:
        calibration = json.loads(Path(options.source).read_text())
    else:
        words = [options.warpline, "calibrate", "--floors", "--json", "--no-report"] + ["--quick"] * options.quick
        print("Measuring: some eight minutes; leave the machine alone meanwhile ...", file=sys.stderr)
        ended = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            return ended.returncode
        calibration = json.loads(ended.stdout)
        if options.json:
            Path(options.json).write_text(json.dumps(calibration, indent=2) + "\n")
    for doubt in calibration["doubts"]:
        print(f"Doubtful: {doubt}")
    print(table(calibration))
    print("\n".join(mahimahi()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
