"""Measures TCP Nice in the kernel over emulated paths: figure 6 of the paper, and the agreement with the simulator.

    sudo python3 repro/tcp-nice/kernel.py target/release/warpline [--seconds 10] [--only modem,agreement]

Real programs (iperf3, ping) send through `warpline shell`; background transfers run under `warpline nice`. Needs root, Linux 6.4,
and a warpline that was built with clang (see warpline doctor). Takes about six minutes; the machine should have little else to do.

The paths are assumptions: the paper gives only the kinds of networks.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

# Rate in Mbit/s, one-way delay, queue in packets.
PATHS = {
    "modem": ("0.0566", "75ms", "16p"),
    "cable modem": ("3", "15ms", "60p"),
    "London": ("10", "55ms", "100p"),
    "Delaware": ("40", "25ms", "150p"),
}
# The foreground transfer, and the number and kind of background transfers.
ACTIONS = {
    "Reno/NULL": ("reno", None, 0),
    "Nice/NULL": ("nice", None, 0),
    "Reno/Reno": ("reno", "reno", 1),
    "Reno/Nice": ("reno", "nice", 1),
    "Reno/Reno8": ("reno", "reno", 8),
    "Reno/Nice8": ("reno", "nice", 8),
}


def shell(warpline: str, rate: str, delay: str, queue: str, script: str, directory: Path) -> None:
    file = directory / "script.sh"
    file.write_text(f"cd {directory}\nsleep 1\n{script}\n")
    servers = "iperf3 -s >/dev/null & iperf3 -s -p 5202 >/dev/null"
    words = [warpline, "shell", "--rate", f"{rate}Mbit/s", "--delay", delay, "--queue", queue, "--base", servers, "--", "sh", str(file)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def sender(warpline: str, kind: str, port: int, seconds: float, flows: int, out: str) -> str:
    # Small writes, so that little data waits before a slow path.
    words = f"iperf3 -c $WARPLINE_BASE -p {port} -J -t {seconds:g} -P {flows} -l 1400 -w 128K"
    return (f"{warpline} nice --strict -- {words} > {out}" if kind == "nice" else f"{words} -C {kind} > {out}") + " 2>&1"


def transfer(warpline: str, path: tuple[str, str, str], action: tuple, seconds: float) -> dict[str, float]:
    front, behind, count = action
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        script = ""
        if behind:
            # It starts before the foreground transfer, and ends after it.
            script += sender(warpline, behind, 5201, seconds + 5, count, "behind.json") + " &\nsleep 3\n"
        script += "ping -n -q -i 0.2 $WARPLINE_BASE > ping.txt & ping=$!\n"
        script += sender(warpline, front, 5202, seconds, 1, "front.json") + "\nkill -INT $ping; wait\n"
        shell(warpline, *path, script, directory)
        read = lambda file: json.loads((directory / file).read_text())["end"]
        rate = lambda file: read(file)["sum_received"]["bits_per_second"] / 1e6
        pings = (directory / "ping.txt").read_text().rsplit(" = ", 1)[1].split("/")
        return {"front_mbps": rate("front.json"), "behind_mbps": rate("behind.json") if behind else 0.0, "ping_ms": float(pings[1]),
                "rtt_ms": read("front.json")["streams"][0]["sender"]["mean_rtt"] / 1e3}


def figure6(warpline: str, seconds: float, only: set[str], out: Path) -> None:
    rows = []
    print("| path | " + " | ".join(ACTIONS) + " |\n|---|" + "--:|" * len(ACTIONS))
    for name, path in PATHS.items():
        if only and name not in only:
            continue
        cells, alone = [], 0.0
        for action, parts in ACTIONS.items():
            got = transfer(warpline, path, parts, seconds)
            alone = got["front_mbps"] if action == "Reno/NULL" else alone
            rows.append({"path": name, "action": action, **{key: round(value, 4) for key, value in got.items()}})
            cells.append(f"{got['front_mbps'] / alone * 100:.0f} %, ping {got['ping_ms']:.0f} ms")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    if rows:
        write(out / "fig6.csv", rows)


def agreement(warpline: str, seconds: float, out: Path) -> None:
    """The same path with model hosts under a virtual clock and with the kernel's TCP under the real one."""
    rows = []
    print("\n| 20 Mbit/s, 40 ms, 1 BDP | simulator | kernel |\n|---|---|---|")
    for front, count in ((None, 1), (None, 8), ("cubic", 1), ("cubic", 8)):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            script = sender(warpline, "nice", 5201, seconds + 5, count, "behind.json") + " &\n"
            script += "sleep 4\nping -n -q -i 0.1 $WARPLINE_BASE > ping.txt & ping=$!\n"
            script += (sender(warpline, front, 5202, seconds, 1, "front.json") if front else f"sleep {seconds:g}") + "\nkill -INT $ping; wait\n"
            shell(warpline, "20", "20ms", "1BDP", script, directory)
            read = lambda file: json.loads((directory / file).read_text())
            # Whole seconds in which the other was there.
            spans = [span["sum"]["bits_per_second"] for span in read("behind.json")["intervals"]][5 : int(seconds) + 3]
            kernel = {"nice": sum(spans) / len(spans) / 1e6,
                      "front": read("front.json")["end"]["sum_received"]["bits_per_second"] / 1e6 if front else 0.0,
                      "delay": float((directory / "ping.txt").read_text().rsplit(" = ", 1)[1].split("/")[1])}
            words = [warpline, "run", str(HERE / "agreement.toml"), "--json", "--no-report", "--out", f"{directory}/run"]
            words += ["--set", f"flow.nice.count={count}"] + ([] if front else ["--set", "flow.front.stop=4.01s"])
            groups = {g["group"]: g for g in json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["summary"]["groups"]}
            simulator = {"nice": groups["nice"]["goodput_bps"] / 1e6, "front": groups["front"]["goodput_bps"] / 1e6 if front else 0.0,
                         "delay": groups["ping"]["latency_mean_ms"]}
        case = f"{count} Nice" + (f" behind {front.upper()}" if front else " alone")
        say = lambda r: (f"{front.upper()} {r['front']:.2f}, " if front else "") + f"Nice {r['nice']:.2f} Mbit/s, delay {r['delay']:.1f} ms"
        print(f"| {case} | {say(simulator)} | {say(kernel)} |", flush=True)
        rows += [{"case": case, "where": where, **{k: round(v, 3) for k, v in r.items()}} for where, r in (("simulator", simulator), ("kernel", kernel))]
    write(out / "agreement.csv", rows)


def write(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline", type=Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default="", help="paths and \"agreement\", separated by commas")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    only = {name for name in options.only.split(",") if name}
    warpline = str(options.warpline.resolve())
    if not only or "agreement" in only:
        agreement(warpline, options.seconds, options.out)
    if only != {"agreement"}:
        figure6(warpline, options.seconds, only, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
