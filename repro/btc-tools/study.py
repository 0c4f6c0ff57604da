"""The study of BTC tools again: kernel TCP, cap and TReno over the emulated paths of profiles.csv.

    python3 repro/btc-tools/study.py target/release/warpline                 # all of it: two hours
    python3 repro/btc-tools/study.py target/release/warpline --short         # what CI runs: three paths, under a minute

For each path all methods transfer one after another, in an order drawn at random: kernel TCP twice with either congestion control (Linux,
iperf3), cap with the same, TReno. Prints, for each, what it got and how far that is from kernel TCP; the distributions of the differences;
and writes them with all that cap and TReno reported to --out. Needs Linux, root (or user namespaces) and iperf3. Where the emulator did not
keep pace the path is run again, twice at most, and then marked.

Exit code 1 if a tool failed, or if in a whole study cap is not within 5 % of kernel TCP in the median and 10 % at the 90th percentile.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from string import Template

HERE = Path(__file__).parent
# Between two transfers: the queue drains, and iperf3's server is ready again.
GAP = 1.5
SHORT = {"country", "adsl", "campus-small-queue"}


def methods() -> list[tuple[str, str, int]]:
    """Tool, congestion control, repetition."""
    pairs = [("tcp", cc, n) for cc in ("reno", "cubic") for n in (0, 1)]
    return [*pairs, ("cap", "reno", 0), ("cap", "cubic", 0), ("treno", "reno", 0)]


def command(warpline: str, method: tuple[str, str, int], seconds: float) -> list[str]:
    tool, cc, _ = method
    if tool == "tcp":
        return ["iperf3", "-c", "{b}", "-C", cc, "-t", f"{seconds:g}", "-J"]
    if tool == "cap":
        return [warpline, "cap", "{b}", "--cc", cc, "-t", f"{seconds:g}s", "--json"]
    # Linux acknowledges every second segment; so do the pairs that TReno takes answers in.
    return [warpline, "treno", "{b}", "-t", f"{seconds:g}s", "--delayed-ack", "40ms", "--initial-rto", "1s",
            "--min-rto", "200ms", "--initial-window", "10", "--json", "--anyway"]


def cross(kind: str, rate_bps: float) -> str:
    """A fifth of the link, or a quarter of it for half of the time."""
    flow = '[[flow]]\nname = "cross"\nfrom = "c"\nto = "d"\n'
    return {
        "none": "",
        "cbr": flow + f'app = "cbr"\nrate = "{rate_bps / 5:.0f}bit/s"\n',
        "onoff": flow + f'app = "onoff"\nrate = "{rate_bps / 2:.0f}bit/s"\nmean_on = "500ms"\nmean_off = "500ms"\n',
        "poisson": flow + f'app = "poisson"\ntransport = "udp"\nmessage_size = "1000B"\nmessage_rate = {rate_bps / 5 / 8224:.3f}\n',
    }[kind]


def throughput(tool: str, text: str) -> tuple[float, dict]:
    """Bits per second, and the tool's own report."""
    answer = json.loads(text)
    if tool == "tcp":
        return answer["end"]["sum_received"]["bits_per_second"], {
            "retransmits": answer["end"]["sum_sent"].get("retransmits"),
        }
    report = answer["tests"][0] if tool == "cap" else answer
    report.pop("samples", None)
    return report["throughput_bps"] or 0.0, report


def run_profile(args: argparse.Namespace, profile: dict, work: Path, seed: int) -> tuple[list[dict], bool]:
    rng = random.Random(seed)
    order = methods()
    rng.shuffle(order)
    programs, start = [], 0.5
    # Setting up takes a few round trips, and the end of cap another.
    slack = GAP + 6 * float(profile["rtt_ms"]) / 1e3 + float(profile["queue_packets"]) * 12e-3 / float(profile["rate_mbit"])
    for method in order:
        words = json.dumps(command(str(args.warpline), method, args.seconds))
        # Alarms are part of the results; a tool that fails is seen by its output.
        programs.append(f'  {{ command = {words}, start = "{start * 1e3:.0f}ms", expect = "any" }},')
        start += args.seconds + slack
    rate = float(profile["rate_mbit"]) * 1e6
    loss = float(profile["loss_percent"]) / 100
    scenario = Template((HERE / "path.toml.in").read_text()).substitute(
        name=profile["name"], duration=math.ceil(start + 1), seed=seed, rate=f"{rate:.0f}",
        delay=f"{float(profile['rtt_ms']) * 500:.0f}", queue=profile["queue_packets"],
        loss=f'loss = {{ kind = "bernoulli", probability = {loss} }}' if loss else "",
        warpline=args.warpline, programs="\n".join(programs), cross=cross(profile["cross"], rate),
    )
    path = work / f"{profile['name']}.toml"
    path.write_text(scenario)
    out = work / f"{profile['name']}-{seed}"
    subprocess.run([args.warpline, "run", path, "--out", out, "--no-report", "--quiet"], stdout=subprocess.DEVNULL)
    summary = json.loads((out / "summary.json").read_text())
    rows = []
    for number, (tool, cc, again) in enumerate(order):
        row = {"profile": profile["name"], "tool": tool, "cc": cc, "again": again, "order": number}
        try:
            row["bps"], row["report"] = throughput(tool, (out / "programs" / f"a.{number}.stdout").read_text())
        except (OSError, ValueError, KeyError, IndexError) as problem:
            error = out / "programs" / f"a.{number}.stderr"
            row["bps"], row["report"] = None, {"failed": repr(problem), "stderr": error.read_text() if error.exists() else ""}
        rows.append(row)
    return rows, summary["live"]["kept_pace"]


def reasons(row: dict, tcp: float) -> str:
    """What the tools' own reports say of a difference."""
    report, told = row["report"], []
    if row["tool"] == "cap":
        clock, path = report["preservation_of_self_clock"], report["flow_based_path_properties"]
        told.append(f"{clock['fast_recoveries']} recoveries, {clock['timeouts']} time-outs, {clock['lost_segments']} lost")
        if path["rtt_mean_ms"]:
            told.append(f"rtt {path['rtt_mean_ms']:.0f} ms")
        told += report["host_limited"]
    elif row["tool"] == "treno":
        results = report["results"]
        told.append(f"{results['recoveries']} recoveries, {results['timeouts']} time-outs, {results['lost']} lost")
        told += report["alarms"]
    return "; ".join(told)


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline", type=lambda path: Path(path).resolve())
    parser.add_argument("--short", action="store_true", help="three paths, three seconds each, no bounds")
    parser.add_argument("--seconds", type=float, help="length of a transfer [30; 3 with --short]")
    parser.add_argument("--only", nargs="+", help="names of profiles")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="directory for results.csv, differences.csv and reports.json")
    args = parser.parse_args()
    args.seconds = args.seconds or (3 if args.short else 30)
    with (HERE / "profiles.csv").open() as file:
        profiles = list(csv.DictReader(file))
    if args.only:
        profiles = [p for p in profiles if p["name"] in args.only]
    elif args.short:
        profiles = [p for p in profiles if p["name"] in SHORT]
    rows, late, failed = [], [], False
    print(f"{'path':22} {'method':12} {'Mbit/s':>8} {'to TCP':>8}  reasons")
    with tempfile.TemporaryDirectory() as work:
        for index, profile in enumerate(profiles):
            for attempt in range(1 if args.short else 3):
                got, kept = run_profile(args, profile, Path(work), args.seed + 1000 * index + 100 * attempt)
                if kept:
                    break
            if not kept:
                late.append(profile["name"])
            for cc in ("reno", "cubic"):
                tcp = [r["bps"] for r in got if r["tool"] == "tcp" and r["cc"] == cc and r["bps"]]
                mean = sum(tcp) / len(tcp) if tcp else math.nan
                for row in sorted((r for r in got if r["cc"] == cc), key=lambda r: r["tool"] != "tcp"):
                    failed |= row["bps"] is None
                    if row["bps"] is None:
                        print(f"{profile['name']:22} {row['tool'] + ' ' + cc:12} failed: {row['report']}")
                        continue
                    # A transfer of TCP is compared with the other one, all else with the mean of both.
                    other = tcp[1 - row["again"]] if row["tool"] == "tcp" and len(tcp) == 2 else mean
                    row["difference"] = row["bps"] / other - 1
                    print(f"{profile['name']:22} {row['tool'] + ' ' + cc:12} {row['bps'] / 1e6:8.3f} {100 * row['difference']:+7.1f}%  "
                          f"{reasons(row, mean)}", flush=True)
            rows += got
    bad = False
    print(f"\n{'difference to TCP':22} {'paths':>5} {'median':>8} {'90 %':>8} {'largest':>8}   (absolute)")
    for tool in ("tcp", "cap", "treno"):
        values = [abs(r["difference"]) for r in rows if r["tool"] == tool and "difference" in r and r["profile"] not in late]
        if not values:
            continue
        median, high = percentile(values, 0.5), percentile(values, 0.9)
        print(f"{tool:22} {len(values):5} {100 * median:7.1f}% {100 * high:7.1f}% {100 * max(values):7.1f}%")
        bad |= tool == "cap" and (median > 0.05 or high > 0.1)
    if late:
        print(f"\nThe emulator did not keep pace on {', '.join(late)}: not counted.")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        with (args.out / "results.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["profile", "tool", "cc", "repetition", "order", "bps", "difference", "kept_pace"])
            for r in rows:
                table.writerow([r["profile"], r["tool"], r["cc"], r["again"], r["order"], r["bps"], r.get("difference"), r["profile"] not in late])
        with (args.out / "differences.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["tool", "difference", "cdf"])
            for tool in ("tcp", "cap", "treno"):
                values = sorted(r["difference"] for r in rows if r["tool"] == tool and "difference" in r)
                table.writerows([tool, value, (i + 1) / len(values)] for i, value in enumerate(values))
        (args.out / "reports.json").write_text(json.dumps(rows, indent=1))
    return 1 if failed or (bad and not args.short and not args.only) else 0


if __name__ == "__main__":
    sys.exit(main())
