"""The tools that are compared: what starts each, and what it says of a transfer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

WINDOW = "200K"
"""The socket buffers of the study of 2000, as iperf3 has it: 200 KiB."""


@dataclass(frozen=True)
class Tool:
    """A program that transfers data to the host b.

    Attributes:
        name: What figures call it.
        command: The program and its arguments, for a transfer of some seconds.
        patience: Seconds that it may wait in addition, before its transfer begins.
    """

    name: str
    command: Callable[[float], list[str]]
    patience: float = 0


def tcp(name: str, cc: str, *more: str) -> Tool:
    """The kernel's TCP."""
    return Tool(name, lambda seconds: ["iperf3", "-c", "{b}", "-C", cc, "-t", f"{seconds:g}", "-J", *more])


def cap(name: str, *more: str, patience: float = 0) -> Tool:
    """cap, with or without `capd` at the far end."""
    return Tool(name, lambda seconds: ["warpline", "cap", "{b}", "-t", f"{seconds:g}s", "--json", *more], patience)


def treno(name: str, *more: str, patience: float = 0) -> Tool:
    """TReno. Its alarms do not matter here: nobody rations answers on these paths."""
    return Tool(name, lambda seconds: ["warpline", "treno", "{b}", "-t", f"{seconds:g}s", "--json", "--anyway", *more], patience)


# As in 2000: Reno with windows of 200 KiB. The preset has that window, too.
TCP_2000 = tcp("TCP", "reno", "-w", WINDOW)
CAP_2000 = cap("cap", "--preset", "classic")
TRENO_2000 = treno("TReno", "--max-window", "200KiB")

# As today.
RENO, CUBIC = tcp("TCP reno", "reno"), tcp("TCP cubic", "cubic")
CAP_RENO, CAP_CUBIC = cap("cap reno", "--cc", "reno"), cap("cap cubic", "--cc", "cubic")
ALONE = cap("cap reno, sender only", "--cc", "reno", "--sender-only")
# Its timers are Linux's. Linux acknowledges every second segment, so it takes answers in pairs.
TRENO = treno("TReno", "--delayed-ack", "40ms", "--initial-rto", "1s", "--min-rto", "200ms", "--initial-window", "10")
UNTUNED = treno("TReno, untuned")


def said(text: str) -> Mapping[str, float | None]:
    """What a tool says of its transfer: throughput in Mbit/s, and the number of time-outs, which iperf3 does not tell.

    Raises:
        ValueError: If it has not measured.
    """
    try:
        bps, timeouts = _read(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{error!r}; it printed {text[-300:]!r}") from error
    if not bps:
        raise ValueError(f"it has measured nothing; it printed {text[-300:]!r}")
    return {"mbps": bps / 1e6, "timeouts": timeouts}


def _read(answer: Any) -> tuple[float, int | None]:
    if "end" in answer:  # iperf3
        return answer["end"]["sum_received"]["bits_per_second"], None
    if "tests" in answer:  # cap
        (test,) = answer["tests"]
        if test["outcome"] != "complete":
            raise ValueError(test["outcome"])
        return test["throughput_bps"], test["preservation_of_self_clock"]["timeouts"]
    return answer["throughput_bps"], answer["results"]["timeouts"]  # TReno
