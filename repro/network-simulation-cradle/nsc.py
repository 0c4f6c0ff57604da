"""What grid.py needs: runs of scenarios, and means with confidence intervals."""

from __future__ import annotations

import concurrent.futures
import csv
import json
import math
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import warpline

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

    def __init__(self, program: str, jobs: int) -> None:
        self.program = program
        self.pool = concurrent.futures.ThreadPoolExecutor(max(jobs, 1))

    def run(self, made: warpline.Scenario, read: Callable[[dict, Path], object] | None = None) -> object:
        """Runs a scenario. Returns its summary, or the result of `read` for the summary and the run directory."""
        with tempfile.TemporaryDirectory() as directory:
            scenario = Path(directory, "scenario.toml")
            made.save(scenario)
            words = [self.program, "run", str(scenario), "--json", "--no-report", "--out", f"{directory}/run"]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(words)}\n{done.stderr}\n{made.to_toml()}")
            summary = json.loads(done.stdout)["summary"]
            guests = summary.get("guests")
            if guests and not guests["reproducible"]:
                raise RuntimeError(f"a guest had to be pushed on: the result depends on the machine\n{made.to_toml()}")
            return read(summary, Path(directory, "run")) if read else summary

    def start(self, made: warpline.Scenario, read: Callable[[dict, Path], object] | None = None) -> concurrent.futures.Future:
        """The same in the background; returns a future."""
        return self.pool.submit(self.run, made, read)

    def close(self) -> None:
        """Starts no more runs."""
        self.pool.shutdown(wait=False, cancel_futures=True)


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
