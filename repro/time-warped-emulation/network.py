"""The scenarios of the paper: flows over one bottleneck between guests, at a time dilation factor or in lock-step, and what is measured of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import warpline
from warpline import study

LOCK_STEP = 0
"""In place of a factor: the virtual clock, which is exact."""
UNLIMITED = warpline.Droptail(limit="unlimited")


@dataclass(frozen=True, kw_only=True)
class Network:
    """Flows over one bottleneck.

    Attributes:
        rate_mbps: Its rate.
        groups: Number of flows, and their round trip in ms.
        seconds: The length of a run, with the warm-up.
        warmup: What of it is not measured, in seconds.
        machines: On how many kernels the senders are, and the receivers.
        cc: The flows' congestion control.
        loss: What the bottleneck loses.
        queue: The bottleneck's queue.
        record: What is recorded at the bottleneck.
        shares: Shares of a core of senders and receivers, at a factor; None without a limit.
        offloads: Whether the guests' network cards have offloads.
    """

    rate_mbps: float
    groups: Sequence[tuple[int, float]]
    seconds: float
    warmup: float
    machines: int = 1
    cc: str = "cubic"
    loss: warpline.EveryLoss | None = None
    queue: str = "1BDP"
    record: Sequence[str] = ()
    shares: tuple[float | None, float | None] = (None, None)
    offloads: bool = False

    @property
    def bottleneck(self) -> warpline.Link:
        """Nearly all of the delay is here; the additional delay of a group is before it."""
        return warpline.Link(
            between=["left", "right"],
            rate=f"{self.rate_mbps}Mbit/s",
            delay=f"{self._least * 0.45}ms",
            queue=warpline.Droptail(limit=self.queue),
            reverse={"queue": UNLIMITED},
            record=list(self.record) or None,
            loss=self.loss,
        )

    @property
    def _least(self) -> float:
        return min(rtt for _, rtt in self.groups)

    def edge(self, name: str, side: str, rtt: float) -> warpline.Link:
        """The link of a host of a group."""
        delay = (rtt - 0.9 * self._least) / 4
        return warpline.Link(between=[name, side], rate=f"{max(100_000, 10 * self.rate_mbps):.0f}Mbit/s", delay=f"{delay:.6f}ms", queue=UNLIMITED)

    def scenario(self, tdf: float) -> warpline.Scenario:
        """Between guests, at this factor or in lock-step."""
        rtt, count = max(rtt for _, rtt in self.groups), sum(count for count, _ in self.groups)
        # A single flow may have the whole link and a full queue.
        in_flight = self.rate_mbps * 1e6 / 8 * rtt / 1e3
        buffer = min(int(max(6 << 20, 4 * in_flight / max(1, count / 8))), (1 << 31) - 1)
        sysctl = {"net.ipv4.tcp_rmem": f"4096 131072 {buffer}", "net.ipv4.tcp_wmem": f"4096 16384 {buffer}"}
        links, hosts, flows = [self.bottleneck], [], []
        for group, (count, rtt) in enumerate(self.groups):
            for machine in range(self.machines):
                pair = [f"{side}{group}-{machine}" for side in "sd"]
                for name, side, share in zip(pair, ("left", "right"), self.shares, strict=True):
                    links.append(self.edge(name, side, rtt))
                    hosts.append(
                        warpline.Host(
                            name=name,
                            endpoint="guest",
                            machine=f"{side}-{machine}",
                            cc=self.cc,
                            sysctl=sysctl,
                            cpu_share=None if tdf == LOCK_STEP else share,
                            offloads=self.offloads or None,
                        )
                    )
                mine = count // self.machines + (machine < count % self.machines)
                flows.append(warpline.Flow(name=f"g{group}-{machine}", from_=pair[0], to=pair[1], count=mine, start="0s..50ms"))
        clock = None if tdf == LOCK_STEP else warpline.Clock(mode="dilated", tdf=tdf)
        return self._whole(clock, links, hosts, flows)

    def native(self) -> warpline.Scenario:
        """Between this machine's own kernels, under the real clock: iperf3 sends. The first group only."""
        (count, rtt), *_ = self.groups
        send = ["iperf3", "-c", "{receiver}", "-P", str(count), "-t", str(int(self.seconds) + 1), "-C", self.cc]
        hosts = [
            warpline.Host(name=name, endpoint="live", program=[warpline.Program(command=command, expect="running", **more)])
            for name, command, more in (("receiver", ["iperf3", "-s"], {"ready": 5201}), ("sender", send, {}))
        ]
        links = [self.bottleneck, self.edge("sender", "left", rtt), self.edge("receiver", "right", rtt)]
        return self._whole(warpline.Clock(mode="real"), links, hosts, [])

    def _whole(self, clock: warpline.Clock | None, links: list[warpline.Link], hosts: list[warpline.Host], flows: list[warpline.Flow]) -> warpline.Scenario:
        return warpline.Scenario(
            name="time-warp", duration=f"{self.seconds}s", warmup=f"{self.warmup}s", clock=clock, link=links, host=hosts, flow=flows
        )


def paced(run: warpline.Run) -> warpline.Run:
    """The run, if the emulator kept pace.

    Raises:
        Unable: If it did not: its results are those of the machine.
    """
    live = run.summary.get("live")
    if live and not live["kept_pace"]:
        raise study.Unable("the emulator did not keep pace, since the machine was too busy or is too slow for this factor")
    return run


def rates(run: warpline.Run, group: int = 0) -> list[float]:
    """The goodput of each flow of a group, in Mbit/s."""
    return [flow["goodput_bps"] / 1e6 for flow in run.summary["flows"] if flow["group"].startswith(f"g{group}-")]


def mean_and_deviation(values: Sequence[float]) -> dict[str, float]:
    """The mean of flows, and the standard deviation from flow to flow."""
    return {"flow_mbps": statistics.fmean(values), "stdev_mbps": statistics.stdev(values) if len(values) > 1 else 0.0}


def ks_distance(ours: Sequence[float], theirs: Sequence[float]) -> float:
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
