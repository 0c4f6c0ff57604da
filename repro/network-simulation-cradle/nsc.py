"""What grid.py needs: parts of scenarios as text, runs of them, and means with confidence intervals.

A host of a scenario is Linux (a guest) or the TCP model. Everything else is the same for both.
"""

from __future__ import annotations

import concurrent.futures
import csv
import dataclasses
import json
import math
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

# Options that make the model comparable with the guests' kernel: Linux 6.1 with HZ=100 and default settings.
LINUX_LIKE = "{ tick = \"10ms\", quick_acks = 16 }"
# The kernel's Westwood computes in jiffies.
MODEL_CC = {"westwood": '{ kind = "westwood", tick = "10ms" }'}
# Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond the table the normal distribution's.
STUDENT = [math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]


def quantile(degrees: float) -> float:
    """The two-sided 95 % quantile of Student's t."""
    index = int(degrees)
    return STUDENT[index] if index < len(STUDENT) else 1.96


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean of `values`; nan for fewer than two."""
    if len(values) < 2:
        return math.nan
    return quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


class Laboratory:
    """Runs scenarios, some at a time."""

    def __init__(self, warpline: str, jobs: int) -> None:
        self.warpline = warpline
        self.pool = concurrent.futures.ThreadPoolExecutor(max(jobs, 1))

    def run(self, text: str, read: Callable[[dict, Path], object] | None = None) -> object:
        """Runs a scenario. Returns its summary, or the result of `read` for the summary and the run directory."""
        with tempfile.TemporaryDirectory() as directory:
            scenario = Path(directory, "scenario.toml")
            scenario.write_text(text)
            words = [self.warpline, "run", str(scenario), "--json", "--no-report", "--out", f"{directory}/run"]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(words)}\n{done.stderr}\n{text}")
            summary = json.loads(done.stdout)["summary"]
            guests = summary.get("guests")
            if guests and not guests["reproducible"]:
                raise RuntimeError(f"a guest had to be pushed on: the result depends on the machine\n{text}")
            return read(summary, Path(directory, "run")) if read else summary

    def start(self, text: str, read: Callable[[dict, Path], object] | None = None) -> concurrent.futures.Future:
        """The same in the background; returns a future."""
        return self.pool.submit(self.run, text, read)

    def close(self) -> None:
        """Starts no more runs."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def guest(name: str, machine: str, cc: str | None = None, sysctl: dict[str, str] | None = None) -> str:
    """A host that is Linux."""
    lines = ["[[host]]", f'name = "{name}"', 'endpoint = "guest"', f'machine = "{machine}"']
    if cc:
        lines.append(f'cc = "{cc}"')
    if sysctl:
        lines.append("sysctl = { " + ", ".join(f'"{key}" = "{value}"' for key, value in sysctl.items()) + " }")
    return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Stack:
    """A TCP: Linux's ("linux"), the model's with the same features on and off ("model"), or that of a stack in the process ("stack:NAME")."""

    name: str
    kind: str
    cc: str = "cubic"
    off: str = ""
    # For the model only: options in place of those that make it comparable with Linux.
    tcp: str = ""

    def host(self, name: str, machine: str, **sysctl: str) -> str:
        """The entry of a host with this TCP: none for the model, which is the default."""
        if self.kind.startswith("stack:"):
            return f'[[host]]\nname = "{name}"\nendpoint = "{self.kind}"\n'
        if self.kind != "linux":
            return ""
        own = {f"net.ipv4.tcp_{self.off}": "0"} if self.off else {}
        return guest(name, machine, self.cc, {**own, **sysctl})

    def flow(self, name: str, source: str, sink: str, more: str = "", tcp: str = "") -> str:
        """A flow between two hosts with this TCP. `more` are lines of the flow; `tcp` are options for the model."""
        lines = ["[[flow]]", f'name = "{name}"', f'from = "{source}"', f'to = "{sink}"']
        if self.kind.startswith("stack:"):
            lines.append(f'cc = "{self.cc}"')
        # With Linux, it is set at the host.
        elif self.kind != "linux":
            options = self.tcp or LINUX_LIKE
            extra = ", ".join(part for part in (f"{self.off} = false" if self.off else "", tcp) if part)
            if extra:
                options = f"{options[:-2]}, {extra} }}"
            cc = self.cc if self.cc.startswith("{") else MODEL_CC.get(self.cc, f'"{self.cc}"')
            lines += [f"cc = {cc}", f"tcp = {options}"]
        return "\n".join(lines) + "\n" + more


def link(first: str, second: str, rate: float, delay_ms: float, packets: int, more: str = "") -> str:
    """A link with a queue limit in packets."""
    head = f'[[link]]\nbetween = ["{first}", "{second}"]\nrate = "{rate / 1e6:.6g}Mbit/s"\ndelay = "{delay_ms:.6g}ms"\n'
    return f'{head}queue = {{ kind = "droptail", limit = "{packets}p" }}\n{more}'


def write_csv(path: Path, rows: Iterable[dict]) -> None:
    """Writes a table."""
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def significant(value: float, digits: int = 4) -> float:
    """A number with a few digits, for tables."""
    return float(f"{value:.{digits}g}")
