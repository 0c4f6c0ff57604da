"""Runs the scenarios of this directory and prints what came out beside what should: delay, bandwidth, loss.

    python3 repro/emulation-accuracy/measure.py target/release/warpline

Needs Linux, ping and iperf3. Exit code 1 if a value is out of its bounds and every run kept pace; where one did not, its table says so and
its values do not count.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def run(warpline: str, name: str, out: Path) -> tuple[dict, str]:
    """The summary of a run, and all that the programs on its source have printed."""
    words = [warpline, "run", str(HERE / f"{name}.toml"), "--out", str(out / name), "--no-report", "--quiet"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((out / name / "summary.json").read_text())
    printed = [path.read_text() for path in sorted((out / name / "programs").glob("source.*.stdout"))]
    return summary, "\n".join(printed)


def head(title: str, summary: dict) -> bool:
    pace = summary["live"]["kept_pace"]
    lateness = summary["live"]["audit"]["lateness"]
    print(f"\n{title}: {'kept pace' if pace else 'DID NOT KEEP PACE'}, lateness {lateness['median_us']:.0f} us (median), "
          f"{lateness['p99_us']:.0f} us (99 %)")
    return pace


def delay(summary: dict, text: str) -> bool:
    pace = head("Delay", summary)
    rtts = [tuple(map(float, found)) for found in re.findall(r"rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/[\d.]+/([\d.]+)", text)]
    right = True
    print(f"{'set ms':>7} {'bytes':>6} {'RTT ms':>9} {'stddev':>7} {'less base':>10} {'error %':>8}")
    for number, (least, mean, deviation) in enumerate(rtts):
        one_way, size = [0, 5, 10, 50, 300][number // 2], [64, 1500][number % 2]
        adjusted = mean - rtts[number % 2][1]
        error = 100 * (adjusted / (2 * one_way) - 1) if one_way else math.nan
        print(f"{one_way:7} {size:6} {mean:9.3f} {deviation:7.3f} {adjusted:10.3f} {error:8.3f}")
        # Never early, and what two interfaces and two wake-ups take, late: the kernel's part is some 0.05 ms.
        right &= least >= 2 * one_way and mean - 2 * one_way < 0.25
    return right or not pace


def rate(summary: dict, text: str) -> bool:
    pace = head("Bandwidth", summary)
    right = True
    print(f"{'set Mbit/s':>10} {'received':>9} {'error %':>8}")
    received = re.findall(r"([\d.]+) Kbits/sec.*receiver", text)
    for mbit, value in zip((1, 10, 100), received):
        expected = mbit * 1472 / 1500
        error = 100 * (float(value) / 1000 / expected - 1)
        print(f"{mbit:10} {float(value) / 1000:9.3f} {error:8.2f}")
        # iperf3 prints few digits, and the queue that fills at the start is in its count.
        right &= abs(error) < 2
    return (right and len(received) == 3) or not pace


def loss(summary: dict, text: str) -> bool:
    pace = head("Loss", summary)
    right = True
    print(f"{'set %':>6} {'sent':>6} {'lost %':>8} {'noise %':>8}")
    for share, (sent, got) in zip((0.001, 0.01, 0.1), re.findall(r"(\d+) packets transmitted, (\d+) received", text)):
        lost = 1 - int(got) / int(sent)
        noise = math.sqrt(share * (1 - share) / int(sent))
        print(f"{100 * share:6} {sent:>6} {100 * lost:8.3f} {100 * noise:8.3f}")
        right &= abs(lost - share) < 4 * noise
    return right or not pace


def main() -> int:
    warpline = sys.argv[1] if len(sys.argv) > 1 else "warpline"
    right = True
    with tempfile.TemporaryDirectory() as scratch:
        for name, table in (("delay", delay), ("rate", rate), ("loss", loss)):
            right &= table(*run(warpline, name, Path(scratch)))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
