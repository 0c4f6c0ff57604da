"""Intervals of means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from warpline._warpline import student_t_975


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean (Student's t); nan for fewer than two values, and where one is not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    return student_t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
