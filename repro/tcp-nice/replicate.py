"""Repeats figure 10 of the paper (the Tivoli case): how long a push takes, and how it affects other traffic.

    sudo python3 repro/tcp-nice/replicate.py target/release/warpline                 # four paths; 8 min
    sudo python3 repro/tcp-nice/replicate.py target/release/warpline --short         # smaller trees, fewer rates; 3 min
    sudo python3 repro/tcp-nice/replicate.py target/release/warpline --only modem,London

`warpline replicate push` sends a tree through `warpline shell`: with Reno at a limited rate (`--limit`, the parameter by which the paper's server is tuned), with
Reno without a limit, and with Nice without a limit. Pings take the same path meanwhile. Then the same beside a foreground transfer (iperf3, the kernel's Reno, ten
seconds), to measure how much of its rate that keeps. Each push has its own link; on slow paths, pushes run side by side. Nice is the
library's, over QUIC, so nothing is needed in the kernel. Needs root and iperf3.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

import live
from kernel import PATHS, sender, write

# Limits for Reno, as shares of the path's rate; 0 for no limit.
LIMITS = [0.125, 0.25, 0.5, 0.75, 0.9, 0]
# Those of the short form, and those that are tried beside a foreground transfer.
SHORT_LIMITS = [0.25, 0.75, 0]
# How many pushes run at the same time on each path, which depends on how much its packets cost the emulator.
AT_ONCE = {"modem": 8, "cable modem": 8, "London": 3, "Delaware": 1}
# How long the tree takes at the path's rate, in seconds. The modem needs longer, because the ten initial segments take two seconds there.
LENGTH = {"modem": 40, "cable modem": 10, "London": 10, "Delaware": 4}
# Longer pushes, in seconds, are left out.
LONGEST = 180
# How long the foreground transfer lasts, in seconds, and how long before it the push begins.
FRONT, BEFORE = 10, 3


def tree(directory: Path, size: int) -> Path:
    """Makes a directory of four files with this total size."""
    rng, root = random.Random(1), directory / "tree"
    root.mkdir()
    for number in range(4):
        (root / f"file{number}").write_bytes(rng.randbytes(size // 4))
    return root


def cases(path: str, limits: list[float]) -> dict[str, str]:
    """The options of `replicate push` for each case."""
    rate = float(PATHS[path][0])
    held = {f"Reno, {limit:g} of the rate": f"--cc reno --limit {rate * limit * 1e3:.1f}kbit/s" for limit in limits if limit}
    return {**held, "Reno": "--cc reno", "Nice": "--cc nice"}


class Bench:
    """A tree, a key, and a directory and two ports for each job."""

    def __init__(self, warpline: str, path: str, size: int, directory: Path) -> None:
        self.warpline, self.path, self.directory = warpline, path, directory
        subprocess.run([warpline, "replicate", "keygen", directory / "key"], check=True, stdout=subprocess.DEVNULL)
        self.root = tree(directory, size)
        self.files: list[Path] = []

    def job(self, words: str, front: bool, port: int):
        """The script of a push, or of none without `words`: beside a foreground transfer, after which the push is ended, or with pings until it is done."""
        here = self.directory / f"job{len(self.files)}"
        here.mkdir()
        self.files.append(here)
        serve = f"{self.warpline} replicate serve {here}/store --key {self.directory}/key --listen 0.0.0.0:{port} >/dev/null 2>&1"
        push = f"{self.warpline} replicate push {self.root} $WARPLINE_BASE:{port} --key {self.directory}/key --json --patience 300 {words} > push"
        script = f"cd {here}; sleep 1; "
        if front:
            serve = f"iperf3 -s -p {port + 1} >/dev/null & exec {serve}"
            begin, end = (f"{push} & push=$!; sleep {BEFORE}; ", "; kill $push; wait") if words else ("", "")
            script += begin + sender(self.warpline, "reno", port + 1, FRONT, 1, "front") + end
        else:
            script += f"ping -n -q -c 5 -i 0.2 $WARPLINE_BASE > idle; ping -n -q -i 0.2 $WARPLINE_BASE > during & ping=$!; {push}; code=$?; kill -INT $ping; wait; exit $code"
        return lambda: live.behind(self.warpline, PATHS[self.path], serve, script)

    def run(self, jobs: dict[str, tuple[str, bool]]) -> dict[str, Path]:
        """Runs all jobs, and returns the directory of each."""
        first = live.ports(2 * len(jobs))
        made = {case: self.job(*job, first + 2 * number) for number, (case, job) in enumerate(jobs.items())}
        list(live.gather(made, AT_ONCE[self.path]))
        found, self.files = dict(zip(jobs, self.files)), []
        return found


def ping(file: Path) -> float:
    """The mean in ms; NaN without an answer."""
    found = re.search(r" = [\d.]+/([\d.]+)/", file.read_text())
    return float(found.group(1)) if found else float("nan")


def study(warpline: str, path: str, limits: list[float], seconds: float) -> list[dict]:
    size = int(float(PATHS[path][0]) * 1e6 / 8 * seconds)
    words = cases(path, [limit for limit in limits if not limit or seconds / limit <= LONGEST])
    with tempfile.TemporaryDirectory(prefix="replicate-") as name:
        bench = Bench(warpline, path, size, Path(name))
        rows = []
        for case, files in bench.run({case: (words[case], False) for case in words}).items():
            push = json.loads((files / "push").read_text())
            rows.append({"path": path, "case": case, "bytes": size, "completion_s": round(push["wall_clock_s"], 2), "ping_ms": round(ping(files / "during"), 2),
                         "idle_ping_ms": round(ping(files / "idle"), 2)})
    with tempfile.TemporaryDirectory(prefix="replicate-") as name:
        # Large enough to last until the foreground transfer ends.
        bench = Bench(warpline, path, int(float(PATHS[path][0]) * 1e6 / 8 * 2 * (FRONT + BEFORE)), Path(name))
        jobs = {"": ("", True), **{case: (words, True) for case, words in cases(path, SHORT_LIMITS).items()}}
        rates = {case: json.loads((files / "front").read_text())["end"]["sum_received"]["bits_per_second"] for case, files in bench.run(jobs).items()}
    for row in rows:
        row["front_kept"] = round(rates[row["case"]] / rates[""], 4) if row["case"] in rates else ""
    return rows


def show(path: str, rows: list[dict]) -> None:
    print(f"\n### {path}: {rows[0]['bytes'] / 1e6:.3g} MB\n\n| pushed with | completion | ping meanwhile (before) | a transfer in front keeps |\n|---|--:|--:|--:|")
    for row in rows:
        kept = f"{row['front_kept'] * 100:.0f} %" if row["front_kept"] != "" else ""
        print(f"| {row['case']} | {row['completion_s']:.1f} s | {row['ping_ms']:.0f} ms ({row['idle_ping_ms']:.0f}) | {kept} |", flush=True)


def draw(rows: list[dict], out: Path) -> None:
    drawing, ax = live.axes("replication", "completion, s", "ping meanwhile / before")
    if not drawing:
        return
    for path in dict.fromkeys(row["path"] for row in rows):
        mine = [row for row in rows if row["path"] == path]
        held = sorted((row["completion_s"], row["ping_ms"] / row["idle_ping_ms"]) for row in mine if row["case"] != "Nice")
        line = ax.plot(*zip(*held), marker="o", markersize=4, label=f"{path}, Reno")[0]
        nice = next(row for row in mine if row["case"] == "Nice")
        ax.plot(nice["completion_s"], nice["ping_ms"] / nice["idle_ping_ms"], marker="*", markersize=13, linestyle="", color=line.get_color(), label=f"{path}, Nice")
    ax.set(xscale="log", yscale="log")
    ax.set_xticks([5, 10, 20, 50, 100], labels=["5", "10", "20", "50", "100"])
    ax.set_yticks([1, 2, 4, 8], labels=["1", "2", "4", "8"])
    ax.minorticks_off()
    ax.legend(fontsize="x-small", ncols=2)
    drawing.savefig(out / "fig10.svg")


def merge(file: Path, rows: list[dict]) -> list[dict]:
    """These rows, with those of other paths that are there already."""
    old = live.read(file) if file.exists() else []
    new = {row["path"] for row in rows}
    return sorted([row for row in old if row["path"] not in new] + rows, key=lambda row: list(PATHS).index(row["path"]))


def main() -> int:
    parser = live.arguments(__doc__, "trees of four seconds of the path, fewer rates")
    parser.add_argument("--only", default="", help="paths, separated by commas: " + ", ".join(AT_ONCE))
    options = parser.parse_args()
    lacks = live.missing("iperf3", "ping")
    if lacks:
        raise SystemExit("missing: " + ", ".join(lacks))
    paths = [path for path in AT_ONCE if not options.only or path in options.only.split(",")]
    if not paths:
        raise SystemExit(f"--only takes: {', '.join(AT_ONCE)}")
    live.ends_on_request()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for path in paths:
        rows += study(str(options.warpline.resolve()), path, SHORT_LIMITS if options.short else LIMITS, 4 if options.short else LENGTH[path])
        show(path, [row for row in rows if row["path"] == path])
    rows = merge(options.out / "fig10.csv", rows)
    write(options.out / "fig10.csv", rows)
    draw(rows, options.out)
    return 0


if __name__ == "__main__":
    live.run(main)
