"""Repeats the study of BTC tools: kernel TCP, cap and TReno over the emulated paths of profiles.csv.

    python3 repro/btc-tools/study.py target/release/warpline            # the whole study, in guests under the virtual clock
    python3 repro/btc-tools/study.py target/release/warpline --live     # on live hosts under the real clock: two and a half hours
    python3 repro/btc-tools/study.py target/release/warpline --short    # what CI runs: two paths, short transfers

On each path, all methods transfer one after another, in random order. Three run as programs on the same two hosts: kernel TCP (Linux, iperf3),
twice with each congestion control, cap with the same ones, and TReno. cap and TReno also run as apps of the simulation. By default
the hosts are guests, Linux kernels in simulated time, so the result depends on the seed alone, however busy the machine is. With --live they are
network namespaces of this machine's kernel. A path on which the emulator did not keep pace is then run again, at most twice, and marked if that fails.

Prints the throughput of each method, its difference from kernel TCP with the same congestion control, and the distributions of the differences.
Writes transfers and distributions to --out as CSV, and plots with matplotlib. Paths that are not run this time (--only) and other seeds keep their
rows there. So rounds with several seeds add up, which is needed for paths with random losses.

Needs Linux and iperf3; Debian's user-mode-linux, or with --live root (or user namespaces).

The exit code is 1 if a tool failed, or if, after a whole study, cap is not within 5 % of kernel TCP in the median and 10 % at the 90th percentile.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import Template

HERE = Path(__file__).parent
# Pause between two transfers, in which the queue drains and iperf3's server becomes ready again.
GAP = 1.5
SHORT = {"country", "campus-small-queue"}
# What is drawn and counted, in this order.
TOOLS = ["tcp", "cap", "cap-app", "treno", "treno-app"]
COLUMNS = ["profile", "tool", "cc", "seed", "repetition", "order", "goodput_bps", "difference", "valid", "recoveries", "timeouts",
           "lost", "rtt_mean_ms", "remarks"]


def methods(short: bool, live: bool) -> list[tuple[str, str, int]]:
    """Tool, congestion control, repetition."""
    pairs = [("tcp", cc, n) for cc in ("reno", "cubic") for n in ((0,) if short else (0, 1))]
    programs = [*pairs, ("cap", "reno", 0), ("cap", "cubic", 0), ("treno", "reno", 0)]
    return programs if live else [*programs, ("cap-app", "reno", 0), ("cap-app", "cubic", 0), ("treno-app", "reno", 0)]


def command(warpline: str, tool: str, cc: str, seconds: float) -> list[str]:
    if tool == "tcp":
        return ["iperf3", "-c", "{b}", "-C", cc, "-t", f"{seconds:g}", "-J"]
    if tool == "cap":
        return [warpline, "cap", "{b}", "--cc", cc, "-t", f"{seconds:g}s", "--json"]
    # Linux acknowledges every second segment, so TReno takes answers in pairs.
    return [warpline, "treno", "{b}", "-t", f"{seconds:g}s", "--delayed-ack", "40ms", "--initial-rto", "1s",
            "--min-rto", "200ms", "--initial-window", "10", "--json", "--anyway"]


def app(name: str, tool: str, cc: str, start: float, seconds: float) -> str:
    """The same as a flow between simulated hosts."""
    flow = f'[[flow]]\nname = "{name}"\nfrom = "m"\nto = "n"\nstart = "{start * 1e3:.0f}ms"\nstop = "{(start + seconds) * 1e3:.0f}ms"\n'
    if tool == "cap-app":
        return flow + f'app = "cap"\ncc = "{cc}"\ntcp = {{ quick_acks = 16, receive_buffer = "16MiB" }}\n'
    return flow + 'app = "treno"\ntcp = { delayed_ack = "40ms", initial_rto = "1s", min_rto = "200ms", initial_window = "10p" }\n'


def cross(kind: str, rate_bps: float) -> str:
    """Cross traffic: a fifth of the link, or half of it for half of the time."""
    flow = '[[flow]]\nname = "cross"\nfrom = "c"\nto = "d"\n'
    return {
        "none": "",
        "cbr": flow + f'app = "cbr"\nrate = "{rate_bps / 5:.0f}bit/s"\n',
        "onoff": flow + f'app = "onoff"\nrate = "{rate_bps / 2:.0f}bit/s"\nmean_on = "500ms"\nmean_off = "500ms"\n',
        "poisson": flow + f'app = "poisson"\ntransport = "udp"\nmessage_size = "1000B"\nmessage_rate = {rate_bps / 5 / 8224:.3f}\n',
    }[kind]


def read(tool: str, text: str) -> dict:
    """The result of a tool, with what it says about the reasons."""
    answer = json.loads(text)
    if tool == "tcp":
        sent, streams = answer["end"]["sum_sent"], answer["end"]["streams"][0]["sender"]
        return {"goodput_bps": answer["end"]["sum_received"]["bits_per_second"], "lost": sent.get("retransmits"),
                "rtt_mean_ms": streams.get("mean_rtt", 0) / 1e3 or None}
    if tool.startswith("cap"):
        report = answer["tests"][0] if tool == "cap" else answer
        clock = report["preservation_of_self_clock"]
        remarks = [] if report["outcome"] == "complete" else [report["outcome"]]
        return {"goodput_bps": report["throughput_bps"] or 0.0, "recoveries": clock["fast_recoveries"], "timeouts": clock["timeouts"],
                "lost": clock["lost_segments"], "rtt_mean_ms": report["flow_based_path_properties"]["rtt_mean_ms"],
                "remarks": "; ".join(remarks + report["host_limited"])}
    results = answer["results"]
    return {"goodput_bps": answer["throughput_bps"] or 0.0, "recoveries": results["recoveries"], "timeouts": results["timeouts"],
            "lost": results["lost"], "rtt_mean_ms": answer["rtt_ms"] and answer["rtt_ms"][1], "remarks": "; ".join(answer["alarms"])}


def run_profile(args: argparse.Namespace, profile: dict, work: Path, seed: int) -> tuple[list[dict], bool]:
    rng = random.Random(seed)
    order = methods(args.short, args.live)
    rng.shuffle(order)
    programs, flows, places, start = [], [], [], 0.5
    # Setting up takes a few round trips, and the end of cap another.
    rtt = float(profile["rtt_ms"]) / 1e3
    slack = GAP + 10 * rtt + 2.5 * float(profile["queue_packets"]) * 12e-3 / float(profile["rate_mbit"])
    rate = float(profile["rate_mbit"]) * 1e6
    for number, (tool, cc, _) in enumerate(order):
        # Not synchronous with anything.
        begin = start + rng.random() * rtt
        if tool.endswith("-app"):
            name = f"{tool}-{number}"
            flows.append(app(name, tool, cc, begin, args.seconds))
            places.append(Path(f"btc-{name}.0.json"))
        else:
            words = json.dumps(command(str(args.warpline), tool, cc, args.seconds))
            # Alarms are part of the results. The output shows whether a tool failed.
            programs.append(f'  {{ command = {words}, start = "{begin * 1e3:.0f}ms", expect = "any" }},')
            places.append(Path("programs") / f"a.{len(programs)}.stdout")
        start += args.seconds + slack + rtt
    loss = float(profile["loss_percent"]) / 100
    scenario = Template((HERE / "path.toml.in").read_text()).substitute(
        name=profile["name"], duration=math.ceil(start + 1), seed=seed, rate=f"{rate:.0f}", clock="real" if args.live else "virtual",
        endpoint="live" if args.live else "guest", delay=f"{rtt * 5e5:.0f}", queue=profile["queue_packets"],
        loss=f'loss = {{ kind = "bernoulli", probability = {loss} }}' if loss else "",
        warpline=args.warpline, programs="\n".join(programs), flows=cross(profile["cross"], rate) + "\n".join(flows),
    )
    path = work / f"{profile['name']}.toml"
    path.write_text(scenario)
    out = work / f"{profile['name']}-{seed}"
    done = subprocess.run([args.warpline, "run", path, "--out", out, "--no-report", "--quiet"], capture_output=True, text=True)
    if not (out / "summary.json").exists():
        raise SystemExit(f"{profile['name']}: {done.stderr}")
    summary = json.loads((out / "summary.json").read_text())
    valid = summary["live"]["kept_pace"] if args.live else summary["guests"]["reproducible"]
    rows = []
    for number, ((tool, cc, again), place) in enumerate(zip(order, places, strict=True)):
        row = {"profile": profile["name"], "tool": tool, "cc": cc, "repetition": again, "order": number, "valid": valid, "seed": args.seed}
        try:
            row |= read(tool, (out / place).read_text())
        except (OSError, ValueError, KeyError, IndexError) as problem:
            error = (out / place).with_suffix(".stderr")
            row |= {"goodput_bps": None, "remarks": f"failed: {problem!r} {error.read_text() if error.exists() else ''}".strip()}
        rows.append(row)
    return rows, valid


def compare(rows: list[dict]) -> None:
    """How far each transfer of one path is from kernel TCP with the same congestion control."""
    for cc in ("reno", "cubic"):
        tcp = [r["goodput_bps"] for r in rows if r["tool"] == "tcp" and r["cc"] == cc and r["goodput_bps"]]
        for row in rows:
            if row["cc"] == cc and row["goodput_bps"] is not None:
                # A transfer of kernel TCP is compared with the mean of its other transfers, the other methods with the mean of all.
                others = list(tcp)
                if row["tool"] == "tcp" and len(tcp) > 1:
                    others.remove(row["goodput_bps"])
                row["difference"] = row["goodput_bps"] * len(others) / sum(others) - 1 if others else math.nan


def of_paths(rows: list[dict], tool: str, cc: str) -> list[float]:
    """For each path, the difference between the mean of a tool's transfers and the mean of kernel TCP's."""
    means = []
    for name in dict.fromkeys(r["profile"] for r in rows):
        mine, tcp = ([r["goodput_bps"] for r in rows if r["profile"] == name and r["cc"] == cc and r["valid"] and r["goodput_bps"]
                      and r["tool"] == which] for which in (tool, "tcp"))
        if mine and tcp:
            means.append(sum(mine) / len(mine) * len(tcp) / sum(tcp) - 1)
    return means


def show(rows: list[dict]) -> None:
    for row in sorted(rows, key=lambda r: (r["cc"] != "reno", TOOLS.index(r["tool"]), r["repetition"])):
        name = f"{row['profile']:22} {row['tool'] + ' ' + row['cc']:15}"
        if row["goodput_bps"] is None:
            print(f"{name} {row['remarks']}")
            continue
        told = [f"{row[key]} {key}" for key in ("recoveries", "timeouts", "lost") if row.get(key) is not None]
        told += [f"rtt {row['rtt_mean_ms']:.0f} ms"] if row.get("rtt_mean_ms") else []
        told += [row["remarks"]] if row.get("remarks") else []
        print(f"{name} {row['goodput_bps'] / 1e6:8.3f} {100 * row['difference']:+7.1f}%  {', '.join(told)}")
    sys.stdout.flush()


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def differences(rows: list[dict], tool: str) -> list[float]:
    return [r["difference"] for r in rows if r["tool"] == tool and r.get("difference") is not None and r["valid"]]


def number(text: str) -> float | int | None:
    return None if text == "" else float(text) if "." in text or "e" in text else int(text)


def load(path: Path) -> list[dict]:
    """Rows of an earlier part of the study."""
    if not path.exists():
        return []
    with path.open() as file:
        return [{key: value == "True" if key == "valid" else value if key in ("profile", "tool", "cc", "remarks") else number(value)
                 for key, value in row.items()} for row in csv.DictReader(file)]


def save(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, restval="", extrasaction="ignore")
        table.writeheader()
        for row in rows:
            rounded = {key: float(f"{value:.8g}") if isinstance(value, float) else value for key, value in row.items()}
            table.writerow({key: "" if value is None else value for key, value in rounded.items()})


def draw(rows: list[dict], path: Path, title: str) -> None:
    """The distributions of throughput and of the differences."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no plots")
        return
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "btc-tools"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for tool in TOOLS:
        valid = [r for r in rows if r["tool"] == tool and r["valid"] and r["goodput_bps"]]
        if not valid:
            continue
        for axes, values in ((left, sorted(r["goodput_bps"] / 1e6 for r in valid)),
                             (right, sorted(100 * d for d in differences(rows, tool)))):
            shares = [(i + 1) / len(values) for i in range(len(values))]
            axes.step(values, shares, where="post", label=tool, linestyle="--" if tool.endswith("-app") else "-")
    left.set(xlabel="throughput, Mbit/s", ylabel="share of transfers", xscale="log", ylim=(0, 1))
    right.set(xlabel="difference to kernel TCP with the same algorithm, %", ylim=(0, 1), xlim=(-60, 30))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", frameon=False)
    figure.suptitle(title)
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline", type=lambda path: Path(path).resolve())
    parser.add_argument("--live", action="store_true", help="on live hosts under the real clock")
    parser.add_argument("--short", action="store_true", help="two paths, short transfers, TCP once, wide bounds")
    parser.add_argument("--seconds", type=float, help="length of a transfer [30; 5 with --short]")
    parser.add_argument("--only", nargs="+", help="names of profiles")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="paths at the same time, in guests [1]")
    parser.add_argument("--out", type=Path, help="directory for guest.csv or live.csv, and what is drawn")
    args = parser.parse_args()
    args.seconds = args.seconds or (5 if args.short else 30)
    kind = "live" if args.live else "guest"
    with (HERE / "profiles.csv").open() as file:
        profiles = list(csv.DictReader(file))
    names = [profile["name"] for profile in profiles]
    wanted = args.only or [name for name in names if not args.short or name in SHORT]
    if unknown := set(wanted) - set(names):
        parser.error(f"there is no profile {', '.join(sorted(unknown))}")
    known = {name: [] for name in names}
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        for row in load(args.out / f"{kind}.csv"):
            known[row["profile"]].append(row)
    print(f"{'path':22} {'method':15} {'Mbit/s':>8} {'to TCP':>8}  what the tool says")
    with tempfile.TemporaryDirectory() as work:

        def one(profile: dict) -> list[dict]:
            base = args.seed + 1000 * names.index(profile["name"])
            for attempt in range(3 if args.live and not args.short else 1):
                rows, valid = run_profile(args, profile, Path(work), base + 100 * attempt)
                if valid:
                    break
            return rows

        # Live paths share the machine, so they run one after another.
        with ThreadPoolExecutor(1 if args.live else args.jobs) as pool:
            for rows in pool.map(one, [p for p in profiles if p["name"] in wanted]):
                name = rows[0]["profile"]
                # There may be rows of other seeds already, which are kept: random losses need several.
                known[name] = [row for row in known[name] if row["seed"] != args.seed] + rows
                compare(known[name])
                show(rows)
                if args.out:
                    save(args.out / f"{kind}.csv", [row for name in names for row in known[name]])
    rows = [row for name in names for row in known[name]]
    print(f"\n{'difference to TCP':22} {'transfers':>9} {'median':>8} {'90 %':>8} {'largest':>8}   (absolute)")
    for tool in TOOLS:
        for cc in ("reno", "cubic", ""):
            values = [abs(d) for d in differences([r for r in rows if cc in ("", r["cc"])], tool)]
            if values:
                print(f"{tool + ' ' + cc:22} {len(values):9} {100 * percentile(values, 0.5):7.1f}% {100 * percentile(values, 0.9):7.1f}% "
                      f"{100 * max(values):7.1f}%")
    print(f"\n{'mean of each path':22} {'paths':>9} {'median':>8} {'90 %':>8} {'largest':>8}   (absolute)")
    means = {(tool, cc): [abs(d) for d in of_paths(rows, tool, cc)] for tool in TOOLS[1:] for cc in ("reno", "cubic")}
    for (tool, cc), values in means.items():
        if values:
            print(f"{tool + ' ' + cc:22} {len(values):9} {100 * percentile(values, 0.5):7.1f}% {100 * percentile(values, 0.9):7.1f}% "
                  f"{100 * max(values):7.1f}%")
    late = [name for name in names if any(not row["valid"] for row in known[name])]
    if late:
        print(f"\nNot counted, since {'the emulator did not keep pace' if args.live else 'a guest was pushed on'}: {', '.join(late)}.")
    if args.out:
        save_distributions(args.out / f"{kind}-cdf.csv", rows)
        draw(rows, args.out / f"{kind}.svg", "Live hosts, real clock" if args.live else "Guests, virtual clock")
    failed = any(row["goodput_bps"] is None for row in rows)
    cap = means["cap", "reno"] + means["cap", "cubic"]
    # Two short transfers only show whether a tool is broken.
    median, high = (0.2, 0.3) if args.short else (0.05, 0.1)
    whole = args.short or all(known[name] for name in names)
    bad = whole and (not cap or percentile(cap, 0.5) > median or percentile(cap, 0.9) > high)
    return 1 if failed or bad else 0


def save_distributions(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["tool", "difference", "cdf"])
        for tool in TOOLS:
            values = sorted(differences(rows, tool))
            table.writerows([tool, f"{value:.6f}", f"{(i + 1) / len(values):.6f}"] for i, value in enumerate(values))


if __name__ == "__main__":
    sys.exit(main())
