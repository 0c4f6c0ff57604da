"""The model's queues beside Linux's own, in a guest that is a router: goodput, queueing delay and losses with the same traffic.

    python3 repro/linux-queues/queues.py target/release/warpline [--short] [--jobs N] [--queues pie,red]

Four CUBIC flows of the TCP model and a small flow of 100-byte packets cross a bottleneck. Once its queue is a model, and once it is the kernel's of the
same kind, with the same parameters. The small flow's latency, less that of an empty path, is the queueing delay as a packet meets it.
"""

import argparse
import concurrent.futures
import csv
import json
import pathlib
import subprocess
import tempfile

# Ethernet's header, which Linux counts as part of every packet; the links count it, too.
FRAMING = 14
RATES = [5, 10, 20]
RTTS = [20, 80]
# How far a figure may be off: a share of Linux's, and so much besides, where figures are small.
NEAR = {"goodput": (0.03, 0.02), "delay mean": (0.10, 1.0), "delay 95 %": (0.10, 1.5), "again": (0.20, 10.0)}
# Full packets that wait in Linux's driver below its queue, at most (byte queue limits); the model has no driver.
DRIVER = 3

# By queue: that of the model, the command for Linux, and how much faster the link is than the rate under test. {r} is that rate in Mbit/s.
QUEUES = {
    "pfifo": ('{{ kind = "droptail", limit = "60p" }}', "pfifo limit 60", 1),
    "tbf": (
        '{{ kind = "tbf", rate = "{r}Mbit/s", burst = "10kB", limit = "90kB" }}',
        "tbf rate {r}mbit burst 10000 limit 90000",
        2,
    ),
    "red": (
        '{{ kind = "red", limit = "360kB", min_threshold = "30kB", max_threshold = "90kB", max_probability = 0.02, '
        "weight = 0.0078125, gentle = false }}",
        "red limit 360000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.02 bandwidth {r}mbit",
        1,
    ),
    "pie": ('{{ kind = "pie" }}', "pie", 1),
    "codel": ('{{ kind = "codel" }}', "codel limit 1000", 1),
    "fq_codel": ('{{ kind = "fq_codel" }}', "fq_codel", 1),
    "sfq": ('{{ kind = "sfq" }}', "sfq", 1),
}

SCENARIO = """duration = "{duration}s"
warmup = "10s"
seed = {seed}
framing = "{framing}B"
link = [
  {{ between = ["client", "r"], rate = "1Gbit/s", delay = "{delay}ms" }},
  {{ between = ["r", "server"], rate = "{rate}Mbit/s", delay = "{delay}ms", queue = {queue} }},
]
{router}
[[flow]]
name = "bulk"
from = "client"
to = "server"
count = 4
start = "0s..1s"

[[flow]]
name = "small"
from = "client"
to = "server"
app = "poisson"
transport = "udp"
message_rate = 50
message_size = "100B"
record = ["latency"]
"""

ROUTER = """[[host]]
name = "r"
endpoint = "guest"
forwards = true
tc = ["dev server root {command}"]
"""


def scenario(kind, rate, rtt, side, duration, seed):
    """The text of a scenario; `side` is "linux" or "model"."""
    model, command, faster = QUEUES[kind]
    return SCENARIO.format(
        duration=duration,
        seed=seed,
        framing=FRAMING,
        delay=rtt / 4,
        rate=rate * faster,
        queue=model.format(r=rate) if side == "model" else '"1000p"',
        router=ROUTER.format(command=command.format(r=rate)) if side == "linux" else "",
    )


def run(warpline, text):
    """The figures of a run."""
    with tempfile.TemporaryDirectory() as desk:
        file, out = pathlib.Path(desk, "s.toml"), pathlib.Path(desk, "out")
        file.write_text(text)
        done = subprocess.run([warpline, "run", file, "--out", out], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{text}\n{done.stdout}{done.stderr}")
        flows = json.loads((out / "summary.json").read_text())["flows"]
    bulk = [row for row in flows if row["name"].startswith("bulk")]
    small = next(row for row in flows if row["name"] == "small.0")
    return {
        "goodput": sum(row["goodput_bps"] for row in bulk) / 1e6,
        "delay mean": small["latency_mean_ms"],
        "delay 95 %": small["latency_p95_ms"],
        "again": sum(row["retransmitted_packets"] for row in bulk),
    }


def cell(warpline, kind, rate, rtt, side, duration, seeds):
    """The means over seeds."""
    runs = [run(warpline, scenario(kind, rate, rtt, side, duration, seed)) for seed in seeds]
    figures = {name: sum(one[name] for one in runs) / len(runs) for name in runs[0]}
    for name in ("delay mean", "delay 95 %"):
        figures[name] -= rtt / 2
    return figures


def is_near(name, place, linux, model):
    share, besides = NEAR[name]
    kind, rate, _ = place
    # A shaper slower than the link leaves the driver empty.
    driver = DRIVER * (1500 + FRAMING) * 8 / rate / 1e3 if QUEUES[kind][2] == 1 and "delay" in name else 0
    room = share * abs(linux) + besides
    return linux - driver - room <= model <= linux + room


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline")
    parser.add_argument("--short", action="store_true", help="one rate and round-trip time, 20 s, one seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--queues", default=",".join(QUEUES))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    rates, rtts, duration = ([10], [20], 20) if options.short else (RATES, RTTS, 30)
    seeds = range(1, 2 if options.short else options.seeds + 1)
    grid = [(kind, rate, rtt) for kind in options.queues.split(",") for rate in rates for rtt in rtts]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        sides = {
            (place, side): pool.submit(cell, options.warpline, *place, side, duration, seeds)
            for place in grid
            for side in ("linux", "model")
        }
        rows, far = [], []
        print("| queue | Mbit/s | RTT ms | goodput Mbit/s | delay mean ms | delay 95 % ms | sent again |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for place in grid:
            linux, model = (sides[place, side].result() for side in ("linux", "model"))
            shown = []
            for name in NEAR:
                one, other = linux[name], model[name]
                near = is_near(name, place, one, other)
                shown.append(f"{one:.3g} / {other:.3g}{'' if near else ' !'}")
                rows.append([*place, name, f"{one:.4g}", f"{other:.4g}", "yes" if near else "no"])
                if not near:
                    far.append((*place, name))
            print("|", " | ".join([place[0], str(place[1]), str(place[2]), *shown]), "|", flush=True)
    if not options.short:
        results = pathlib.Path(__file__).with_name("results")
        results.mkdir(exist_ok=True)
        with (results / "queues.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["queue", "rate_mbps", "rtt_ms", "figure", "linux", "model", "near"])
            writer.writerows(rows)
    print(f"\n{len(rows) - len(far)} of {len(rows)} figures agree (a figure that does not has a !)")


if __name__ == "__main__":
    main()
