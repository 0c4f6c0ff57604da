"""What is computed of several runs: means, deviations, quartiles, and the distance between two distributions."""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path
from typing import Any


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile."""
    if len(values) < 2:
        return (values[0],) * 3 if values else (math.nan,) * 3
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, median, third


def deviation(values: list[float]) -> float:
    """The sample's standard deviation; 0 for one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def ks_distance(ours: list[float], theirs: list[float]) -> float:
    """The largest difference between two empirical distribution functions (Kolmogorov and Smirnov)."""
    a, b = sorted(ours), sorted(theirs)
    i = j = 0
    most = 0.0
    while i < len(a) and j < len(b):
        at = min(a[i], b[j])
        while i < len(a) and a[i] == at:
            i += 1
        while j < len(b) and b[j] == at:
            j += 1
        most = max(most, abs(i / len(a) - j / len(b)))
    return most


def ks_critical(ours: int, theirs: int) -> float:
    """The distance that two samples of one distribution exceed once in a hundred times, if their values are independent."""
    return 1.628 * math.sqrt((ours + theirs) / (ours * theirs))


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rows of plain values as CSV; floats have six digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow([f"{row[name]:.6g}" if isinstance(row.get(name), float) else row.get(name, "") for name in names])
