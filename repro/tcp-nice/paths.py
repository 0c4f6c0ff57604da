"""The paths of figures 6 to 10, and what is transferred over them in figures 6 and 7.

The paths are assumptions: the paper gives only the kinds of networks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from warpline import study
from warpline.study import Claim, Results

PATHS = {
    "modem": ("0.0566", "75ms", "16p"),
    "cable modem": ("3", "15ms", "60p"),
    "London": ("10", "55ms", "100p"),
    "Delaware": ("40", "25ms", "150p"),
}
"""Rate in Mbit/s, one-way delay, queue."""

ACTIONS = {
    "Reno/NULL": ("reno", None, 0),
    "Nice/NULL": ("nice", None, 0),
    "Reno/Reno": ("reno", "reno", 1),
    "Reno/Nice": ("reno", "nice", 1),
    "Reno/Reno8": ("reno", "reno", 8),
    "Reno/Nice8": ("reno", "nice", 8),
}
"""The congestion control of the transfer in front, and that of the transfers behind it with their number."""

BESIDE = {"Reno/Nice": "a transfer of Nice", "Reno/Nice8": "eight"}
"""The actions in which the transfer in front should keep what it gets alone, and what is behind it there."""
KEPT = 0.97
"""What it keeps of that by the paper's text on figure 6."""
SHARED_AT_MOST = 0.3
"""What it keeps beside eight of its kind at most, which would be a ninth if all were equal."""


def each(
    paths: Collection[str],
    text: str,
    ours: Callable[[str], Callable[[Results], float]],
    theirs: float,
    bound: study.Bound,
    *,
    quick: Collection[str] = (),
    differs: Mapping[str, str] | None = None,
) -> list[Claim]:
    """The same claim of each path: `quick` has the paths of which the quick form judges it, and `differs` why it is not so on some."""
    return [Claim(text=f"{path}: {text}", ours=ours(path), theirs=theirs, bound=bound, quick=path in quick, differs=(differs or {}).get(path, "")) for path in paths]
