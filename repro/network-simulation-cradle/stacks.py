"""What the figures share: TCPs of hosts, links with queues in packets, and goodputs.

A host is Linux (a guest), a stack in the process, or the TCP model. Everything else of a scenario is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warpline

HERE = Path(__file__).parent

LINUX_LIKE = {"tick": "10ms", "quick_acks": 16, "impatient": False, "receive_ssthresh": "65535B", "receive_autotuning": True, "receive_buffer": "3MiB"}
"""Options that make the model comparable with the guests' kernel: Linux 6.1 with HZ=100 and default settings. Of its receive buffer it advertises half."""

MODEL_CC = {"westwood": {"kind": "westwood", "tick": "10ms"}}
"""The kernel's Westwood computes in jiffies."""


@dataclass(frozen=True)
class Stack:
    """A TCP.

    Attributes:
        name: What the figures call it.
        kind: Linux ("linux"), the model with the same features ("model"), or a stack in the process ("stack:NAME").
        cc: Its congestion control.
        off: A feature that is off: "sack", "dsack" or "timestamps".
        tcp: For the model, options in place of those that make it comparable with Linux.
    """

    name: str
    kind: str
    cc: str | Mapping[str, Any] = "cubic"
    off: str = ""
    tcp: Mapping[str, Any] = field(default_factory=dict)

    @property
    def foreign(self) -> bool:
        """Whether it is a stack in the process."""
        return self.kind.startswith("stack:")

    def host(self, name: str, machine: str, **more: Any) -> list[warpline.Host]:
        """The entry of a host with this TCP: none for the model, which is the default. Guests of one machine share its memory."""
        if self.foreign:
            return [warpline.Host(name=name, endpoint=self.kind)]  # type: ignore[arg-type]
        if self.kind != "linux":
            return []
        sysctl = {f"net.ipv4.tcp_{self.off}": "0"} if self.off else None
        return [warpline.Host(name=name, endpoint="guest", machine=machine, cc=str(self.cc), sysctl=sysctl, **more)]

    def flow(self, name: str, source: str, sink: str, tcp: Mapping[str, Any] | None = None, **more: Any) -> warpline.Flow:
        """A flow between two hosts with this TCP. `tcp` are further options for the model."""
        if self.foreign:
            return warpline.Flow(name=name, from_=source, to=sink, cc=self.cc, tcp=tcp, **more)
        if self.kind == "linux":
            # Its congestion control is set at the host.
            return warpline.Flow(name=name, from_=source, to=sink, **more)
        options = {**(self.tcp or LINUX_LIKE), **({self.off: False} if self.off else {}), **(tcp or {})}
        cc = MODEL_CC.get(self.cc, self.cc) if isinstance(self.cc, str) else self.cc
        return warpline.Flow(name=name, from_=source, to=sink, cc=cc, tcp=options, **more)


def both(cc: str, off: str = "") -> list[Stack]:
    """Linux and the model, with a feature off."""
    without = f", no {off}" if off else ""
    return [Stack(f"{title} {cc}{without}", kind, cc, off) for title, kind in (("Linux", "linux"), ("model", "model"))]


def _ns2(name: str, **tcp: Any) -> Stack:
    return Stack(f"ns-2 {name} (model)", "model", {"kind": "reno", "counting": "acks"}, tcp={"preset": "ns2-sack1", **tcp})


NEWRENO = _ns2("Newreno", recovery="newreno", sack=False)
SACK = _ns2("Sack1")
TAHOE = _ns2("Tahoe", recovery="tahoe", sack=False)

FOREIGN = [
    Stack("lwIP reno", "stack:lwip", "reno"),
    Stack("smoltcp reno", "stack:smoltcp", "reno"),
    Stack("smoltcp cubic", "stack:smoltcp", "cubic"),
    Stack("netstack reno", "stack:netstack", "reno"),
    Stack("4.4BSD reno", "stack:bsd", "reno"),
]
"""The stacks in the process; `make stacks` builds those that are not part of the program."""


def named(stacks: list[Stack]) -> dict[str, Stack]:
    """Stacks by their names, which are values of an axis."""
    return {stack.name: stack for stack in stacks}


def link(first: str, second: str, rate: float, delay_ms: float, packets: int, **more: Any) -> warpline.Link:
    """A link of a rate in bit/s, with a queue limit in packets."""
    queue = warpline.Droptail(limit=f"{packets}p")
    return warpline.Link(between=[first, second], rate=f"{rate / 1e6:.6g}Mbit/s", delay=f"{delay_ms:.6g}ms", queue=queue, **more)



def scenario(name: str, seconds: float, seed: int, links: list[warpline.Link], hosts: list[warpline.Host], flows: list[warpline.Flow], warmup: float = 0) -> warpline.Scenario:
    """A scenario with a single sample in its time series."""
    return warpline.Scenario(
        name=name, duration=f"{seconds:g}s", warmup=f"{warmup:g}s", seed=seed, sample_interval=f"{seconds:g}s", link=links, host=hosts, flow=flows, directory=HERE
    )


def goodputs(run: warpline.Run) -> dict[str, float]:
    """The goodput of each group of flows, in Mbit/s."""
    found: dict[str, float] = {}
    for flow in run.summary["flows"]:
        found[flow["group"]] = found.get(flow["group"], 0.0) + flow["goodput_bps"] / 1e6
    return found
