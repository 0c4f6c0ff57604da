"""The scenarios of the study: flows over one bottleneck, between guests or between native hosts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass
class Network:
    """Flows over one bottleneck: groups of (flows, round trip in ms), senders and receivers on `machines` kernels each."""

    rate_mbit: float
    groups: list[tuple[int, float]]
    duration: float
    warmup: float
    machines: int = 1
    cc: str = "cubic"
    loss: str = ""
    queue: str = "1BDP"
    record: list[str] = field(default_factory=list)
    # Shares of a core of senders and receivers.
    shares: tuple[float | None, float | None] = (None, None)
    # Whether the guests' network cards have offloads.
    offloads: bool = False

    def head(self, clock: str) -> str:
        return f'name = "time-warp"\nduration = "{self.duration}s"\nwarmup = "{self.warmup}s"\n{clock}'

    def bottleneck(self) -> str:
        # Nearly all of the delay is at the bottleneck; the additional delay of a group is before it.
        least = min(rtt for _, rtt in self.groups)
        loss = f"loss = {self.loss}\n" if self.loss else ""
        record = f"record = {json.dumps(self.record)}\n" if self.record else ""
        return (
            f'[[link]]\nbetween = ["left", "right"]\nrate = "{self.rate_mbit}Mbit/s"\ndelay = "{least * 0.45}ms"\n'
            f'queue = {{ kind = "droptail", limit = "{self.queue}" }}\nreverse = {{ queue = {{ kind = "droptail", limit = "unlimited" }} }}\n'
            f"{loss}{record}"
        )

    def edge(self, name: str, side: str, rtt: float) -> str:
        delay = (rtt - 0.9 * min(rtt for _, rtt in self.groups)) / 4
        fast = f"{max(100_000, 10 * self.rate_mbit):.0f}Mbit/s"
        queue = 'queue = { kind = "droptail", limit = "unlimited" }'
        return f'[[link]]\nbetween = ["{name}", "{side}"]\nrate = "{fast}"\ndelay = "{delay:.6f}ms"\n{queue}\n'

    def toml(self, tdf: float | None) -> str:
        """Between guests, at this factor; in lock-step without one."""
        rtt = max(rtt for _, rtt in self.groups)
        flows = sum(count for count, _ in self.groups)
        # A single flow may have the whole link and a full queue.
        in_flight = self.rate_mbit * 1e6 / 8 * rtt / 1e3
        buffer = min(int(max(6 << 20, 4 * in_flight / max(1, flows / 8))), (1 << 31) - 1)
        sysctl = f'sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 {buffer}", "net.ipv4.tcp_wmem" = "4096 16384 {buffer}" }}'
        text = self.head("" if tdf is None else f'clock = {{ mode = "dilated", tdf = {tdf} }}\n') + self.bottleneck()
        for group, (count, rtt) in enumerate(self.groups):
            for machine in range(self.machines):
                mine = count // self.machines + (machine < count % self.machines)
                pair = [f"{side}{group}-{machine}" for side in "sd"]
                for name, side, share in zip(pair, ("left", "right"), self.shares):
                    given = f"cpu_share = {share}\n" if share and tdf is not None else ""
                    given += "offloads = true\n" if self.offloads else ""
                    text += self.edge(name, side, rtt)
                    text += f'[[host]]\nname = "{name}"\nendpoint = "guest"\nmachine = "{side}-{machine}"\ncc = "{self.cc}"\n{sysctl}\n{given}'
                text += f'[[flow]]\nname = "g{group}-{machine}"\nfrom = "{pair[0]}"\nto = "{pair[1]}"\ncount = {mine}\nstart = "0s..50ms"\n'
        return text

    def native(self) -> str:
        """Between this machine's own kernels (`endpoint = "live"`), under the real clock: iperf3 sends. The first group only."""
        (count, rtt), *_ = self.groups
        text = self.head('clock = { mode = "real" }\n') + self.bottleneck() + self.edge("sender", "left", rtt) + self.edge("receiver", "right", rtt)
        send = ["iperf3", "-c", "{receiver}", "-P", str(count), "-t", str(int(self.duration) + 1), "-C", self.cc]
        return text + (
            '[[host]]\nname = "receiver"\nendpoint = "live"\n[[host.program]]\ncommand = ["iperf3", "-s"]\nexpect = "running"\n'
            f'[[host]]\nname = "sender"\nendpoint = "live"\n[[host.program]]\ncommand = {json.dumps(send)}\nexpect = "running"\nstart = "0.2s"\n'
        )
