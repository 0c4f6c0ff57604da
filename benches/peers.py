#!/usr/bin/env python3
"""Compares the speed and memory of Warpline with ns-2 and ns-3, on the workloads of `warpline bench`.

The programs alternate: in each round, each of them runs every workload, one after another, so that other work on the machine
affects all of them. The figure of a program is the median over the rounds. Only ratios are valid on other machines too.

What is counted: a packet-hop is one packet, data or ACK, that crosses one link. Warpline counts each. For ns-2 they are computed
from packets sent and ACKs received; a retransmitted packet stands for one dropped at the bottleneck, which crossed one
link of three. For ns-3 they are computed from bytes delivered, with one ACK for two segments; its dropped packets are not counted.

What differs: Warpline runs its default TCP (SACK, timestamps, RACK-TLP, PRR, delayed ACKs) with Reno in place of CUBIC;
ns-2 runs Sack1 with timestamps and delayed ACKs; ns-3 runs NewReno with SACK, timestamps and PRR, and serialises real headers.
Debian's ns-3 is built with logging, which makes it 1.3 to 1.7 times slower. The wall time of ns-2 and ns-3 is that of
the run alone, without loading and set-up; Warpline's includes building the network. Memory is the peak of the process.
ns-2 has no fat-tree; ns-3's runs for fewer milliseconds, because its speed hardly depends on them.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PEERS = Path(__file__).resolve().parent / "peers"
NS3_LIBRARIES = (
    "core", "network", "internet", "point-to-point", "applications", "traffic-control", "nix-vector-routing", "bridge", "stats",
)  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """A workload of `warpline bench`, and the arguments with which the peers run the same."""

    name: str
    # None where ns-2 has no counterpart.
    ns2: tuple[str, ...] | None
    ns3: tuple[str, ...]


def dumbbell(name: str, flows: int, mbits: int, seconds: int, ns3_seconds: int | None = None) -> Workload:
    """N flows over a dumbbell. ns-3 may run for fewer seconds, because its speed does not depend on them."""
    arguments = (str(flows), str(mbits))
    return Workload(
        name,
        ("dumbbell.tcl", *arguments, str(seconds)),
        ("dumbbell", *arguments, str(ns3_seconds or seconds)),
    )


WORKLOADS = (
    dumbbell("dumbbell-1", 1, 100, 100),
    dumbbell("dumbbell-10", 10, 100, 100),
    dumbbell("dumbbell-100", 100, 100, 100),
    dumbbell("dumbbell-100-fast", 100, 1000, 20, ns3_seconds=5),
    dumbbell("dumbbell-1000", 1000, 100, 100, ns3_seconds=10),
    Workload("chain", ("chain.tcl", "15"), ("chain", "15")),
    Workload("fat-tree-8", None, ("fat-tree", "8", "0.005")),
    Workload("fat-tree-16", None, ("fat-tree", "16", "0.001")),
)


@dataclass
class Samples:
    """The results of one program on one workload."""

    speeds: list[float] = field(default_factory=list)
    memories: list[float] = field(default_factory=list)

    def add(self, run: dict[str, float]) -> None:
        self.speeds.append(run["packet_hops"] / run["wall_s"])
        self.memories.append(run["peak_memory_bytes"])

    def summary(self) -> dict[str, float | list[float]]:
        return {
            "packet_hops_per_s": statistics.median(self.speeds),
            "slowest": min(self.speeds),
            "fastest": max(self.speeds),
            "peak_memory_bytes": statistics.median(self.memories),
        }


def measure(command: list[str]) -> dict[str, float]:
    """Runs a peer, which prints one line of JSON, and adds its peak memory."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, cwd=PEERS)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"error: {' '.join(command)} ended with {process.returncode}")
        output.seek(0)
        run = json.loads(output.read().splitlines()[-1])
    run["peak_memory_bytes"] = usage.ru_maxrss * 1024
    return run


def measure_warpline(program: str, workload: Workload) -> dict[str, float]:
    """Runs one workload of `warpline bench`."""
    command = [program, "bench", "--only", workload.name, "--json"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for run in document["workloads"]:
        if run["name"] == workload.name:
            return run
    raise SystemExit(f"error: {program} has no workload {workload.name}")


def build_ns3(directory: str) -> str | None:
    """Compiles the ns-3 program; None if ns-3 or a compiler is missing."""
    compiler = shutil.which("g++")
    if compiler is None or not Path("/usr/include/ns3").exists():
        return None
    program = f"{directory}/ns3"
    libraries = [f"-lns3-{library}" for library in NS3_LIBRARIES]
    options = ["-std=c++17", "-O3", "-DNDEBUG", "-march=native"]
    print("Compiling the program for ns-3 ...", file=sys.stderr)
    built = subprocess.run([compiler, *options, str(PEERS / "ns3.cc"), "-o", program, *libraries])
    return program if built.returncode == 0 else None


def table(results: dict[str, dict[str, Samples]], names: list[str]) -> str:
    """Speeds, ratios and memory as text."""
    lines = []
    head = f"{'million packet-hops/s':<22}" + "".join(f"{name:>12}" for name in names)
    lines.append(head + "".join(f"{'x ' + name:>10}" for name in names[1:]))
    for workload, row in results.items():
        speeds = [statistics.median(row[name].speeds) if name in row else None for name in names]
        cells = "".join(f"{'-':>12}" if speed is None else f"{speed / 1e6:>12.2f}" for speed in speeds)
        ratios = "".join(f"{'-':>10}" if speed is None else f"{speeds[0] / speed:>10.1f}" for speed in speeds[1:])
        lines.append(f"{workload:<22}{cells}{ratios}")
    lines.append("")
    lines.append(f"{'peak memory, MB':<22}" + "".join(f"{name:>12}" for name in names))
    for workload, row in results.items():
        present = [statistics.median(row[name].memories) if name in row else None for name in names]
        memories = "".join(f"{'-':>12}" if memory is None else f"{memory / 1e6:>12.1f}" for memory in present)
        lines.append(f"{workload:<22}{memories}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--warpline", default="target/release/warpline", help="the program (a release build)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each program runs")
    parser.add_argument("--only", default="", help="only workloads with this in their name")
    parser.add_argument("--without", action="append", default=[], choices=["ns-2", "ns-3"], help="leave a peer out")
    parser.add_argument("--json", metavar="FILE", help="also write all figures to this file")
    options = parser.parse_args()
    workloads = [workload for workload in WORKLOADS if options.only in workload.name]
    if not workloads or options.rounds < 1:
        parser.error("nothing to measure; workloads are " + ", ".join(workload.name for workload in WORKLOADS))

    with tempfile.TemporaryDirectory() as directory:
        names = ["warpline"]
        if "ns-2" not in options.without and shutil.which("ns"):
            names.append("ns-2")
        ns3 = None if "ns-3" in options.without else build_ns3(directory)
        if ns3 is not None:
            names.append("ns-3")
        for peer in ("ns-2", "ns-3"):
            if peer not in names and peer not in options.without:
                print(f"notice: {peer} is not installed and is left out", file=sys.stderr)

        results: dict[str, dict[str, Samples]] = {
            workload.name: {name: Samples() for name in names if name != "ns-2" or workload.ns2} for workload in workloads
        }
        for turn in range(options.rounds):
            for workload in workloads:
                for name in results[workload.name]:
                    print(f"round {turn + 1} of {options.rounds}: {workload.name}, {name}", file=sys.stderr)
                    if name == "warpline":
                        run = measure_warpline(options.warpline, workload)
                    elif name == "ns-2":
                        run = measure(["ns", *(workload.ns2 or ())])
                    else:
                        run = measure([str(ns3), *workload.ns3])
                    results[workload.name][name].add(run)
        print(table(results, names))
        if options.json:
            document = {
                workload: {name: samples.summary() for name, samples in row.items()}
                for workload, row in results.items()
            }
            Path(options.json).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
