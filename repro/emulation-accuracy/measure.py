"""Runs the scenarios of this directory and prints measured values beside expected ones: delay, bandwidth, loss.

    python3 repro/emulation-accuracy/measure.py target/release/warpline

Needs Linux. The exit code is 1 if a value is out of bounds. Values of a run that did not keep pace do not count, and its table says so.
Load comes from `warpline load`, whose times are the kernel's timestamps.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# The seed's table of delays: round trip, its deviation, and the error after subtracting the round trip over 0 ms.
SEED = {
    (0, 64): (0.238, 0.004, math.nan), (0, 1518): (1.544, 0.025, math.nan),
    (5, 64): (10.251, 0.295, 0.13), (5, 1518): (11.586, 0.067, 0.32),
    (10, 64): (20.255, 0.014, 0.09), (10, 1518): (21.675, 0.093, 0.61),
    (50, 64): (100.474, 0.029, 0.24), (50, 1518): (102.394, 3.440, 0.84),
    (300, 64): (601.690, 0.546, 0.24), (300, 1518): (602.999, 0.093, 0.24),
}  # fmt: skip


def run(warpline: str, name: str, out: Path) -> tuple[dict, list[dict]]:
    """The summary of a run, and the output of the programs on its source: JSON objects, one after another."""
    words = [warpline, "run", str(HERE / f"{name}.toml"), "--out", str(out / name), "--no-report", "--quiet"]
    environment = {**os.environ, "WARPLINE": str(Path(warpline).resolve())}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
    summary = json.loads((out / name / "summary.json").read_text())
    printed = [path.read_text() for path in sorted((out / name / "programs").glob("source.*.stdout"))]
    return summary, [json.loads(line) for text in printed for line in text.splitlines() if line.strip()]


def head(title: str, summary: dict) -> bool:
    pace = summary["live"]["kept_pace"]
    lateness = summary["live"]["audit"]["lateness"]
    print(f"\n{title}: {'kept pace' if pace else 'DID NOT KEEP PACE'}, lateness {lateness['median_us']:.0f} us (median), "
          f"{lateness['p99_us']:.0f} us (99 %)")
    return pace


def delay(summary: dict, told: list[dict]) -> bool:
    pace = head("Delay", summary)
    right = len(told) == len(SEED)
    print(f"{'set ms':>7} {'bytes':>6} {'RTT ms':>9} {'stddev':>7} {'less base':>10} {'error %':>8}   "
          f"{'seed: RTT':>9} {'stddev':>7} {'error %':>8}")
    base = {}
    for ((one_way, size), seed), trips in zip(SEED.items(), told):
        rtts = [nanos / 1e6 for nanos in trips["stamped"]]
        median = statistics.median(rtts)
        base.setdefault(size, median)
        adjusted = median - base[size]
        error = 100 * (adjusted / (2 * one_way) - 1) if one_way else math.nan
        print(f"{one_way:7} {size:6} {median:9.3f} {statistics.pstdev(rtts):7.3f} {adjusted:10.3f} {error:8.3f}   "
              f"{seed[0]:9.3f} {seed[1]:7.3f} {seed[2]:8.2f}")
        # Never early, and late at most by the time of two interfaces and two wake-ups; the kernel takes some 0.05 ms.
        right &= min(rtts) >= 2 * one_way and median - 2 * one_way < 0.25
    return right or not pace


def rate(summary: dict, told: list[dict]) -> bool:
    pace = head("Bandwidth", summary)
    right = len(told) == 4
    print(f"{'set Mbit/s':>10} {'seen Mbit/s':>12} {'error':>9} {'queue ms':>9} {'seen ms':>9}")
    for (mbit, queue), sent in zip(((1, 20), (10, 50), (100, 200), (1000, 1000)), told):
        seen = 12_000 / sent["sunk"]["spacing_ns"] * 1e3
        full = queue * 0.012 / mbit * 1e3
        under_way = sent["sunk"]["under_way_us"][1] / 1e3
        print(f"{mbit:10} {seen:12.6f} {seen / mbit - 1:9.1e} {full:9.3f} {under_way:9.3f}")
        # The delay of a full queue, plus at most one packet and the time of interfaces and wake-ups.
        right &= abs(seen / mbit - 1) < 2e-5 and abs(under_way - full) < 12 / mbit + 0.25
    return right or not pace


def loss(summary: dict, told: list[dict]) -> bool:
    pace = head("Loss", summary)
    right = len(told) == 3
    print(f"{'set %':>6} {'sent':>6} {'lost %':>8} {'noise %':>8}")
    for share, sent in zip((0.001, 0.01, 0.1), told):
        packets = sent["packets"]
        lost = 1 - sent["sunk"]["packets"] / packets
        noise = math.sqrt(share * (1 - share) / packets)
        print(f"{100 * share:6} {packets:>6} {100 * lost:8.3f} {100 * noise:8.3f}")
        right &= abs(lost - share) < 4 * noise
    return right or not pace


def main() -> int:
    warpline = sys.argv[1] if len(sys.argv) > 1 else shutil.which("warpline") or "warpline"
    right = True
    with tempfile.TemporaryDirectory() as scratch:
        for name, table in (("delay", delay), ("rate", rate), ("loss", loss)):
            right &= table(*run(warpline, name, Path(scratch)))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
