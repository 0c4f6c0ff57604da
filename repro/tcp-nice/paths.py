"""The paths of figures 6 to 10, and what is transferred over them in figures 6 and 7.

The paths are assumptions: the paper gives only the kinds of networks.
"""

from __future__ import annotations

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
