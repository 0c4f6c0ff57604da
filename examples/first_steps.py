# %% [markdown]
# # First steps with Warpline in Python
#
# Run this file as a script, or cell by cell in an editor that knows `# %%` cells. It needs `pip install '.[all]'`.

# %%
from __future__ import annotations

import math
import sys
from pathlib import Path

import polars
from matplotlib import pyplot

import warpline

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "first-steps")

# %% [markdown]
# ## A scenario
#
# Two bulk transfers share a bottleneck of 10 Mbit/s. One is TCP Nice, which should use only what the other leaves.

# %%
scenario = warpline.Scenario(
    name="first-steps",
    duration="20s",
    warmup="2s",
    topology=warpline.Dumbbell(
        rtt="50ms",
        bottleneck=warpline.DuplexOptions(rate="10Mbit/s", queue=warpline.Droptail(limit="1BDP")),
    ),
    flow=[
        warpline.Flow(name="front", from_="left", to="right", cc="cubic", record=["tcp"]),
        warpline.Flow(name="back", from_="left", to="right", cc="nice", start="5s"),
    ],
)

# %% [markdown]
# ## A run, its tables and its plots


# %%
def first_run() -> None:
    """Runs the scenario and draws it."""
    run = scenario.run()
    print(run)
    print(run.flows.polars().select("name", "cc", "goodput_bps", "retransmitted_packets", "rtt_mean_ms"))
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), layout="constrained")
    warpline.plot.throughput(run, axes[0, 0])
    warpline.plot.cwnd(run, axes[0, 1])
    warpline.plot.queue(run, axes[1, 0])
    # Slow start and the first losses, close up.
    warpline.plot.time_sequence(run, "front", axes[1, 1]).set(xlim=(0, 1.2), ylim=(0, 1.2))
    figure.savefig(OUT / "first-run.png", dpi=120)
    run.report(OUT / "report.html")


# %% [markdown]
# ## A congestion control of your own
#
# Derive it from `warpline.CongestionControl`, which is Reno, and override what differs.


# %%
class Gentle(warpline.CongestionControl):
    """Above the threshold, adds a fifth of a segment per round trip. After a loss, reduces the window by a fifth only."""

    def on_ack(self, ack: warpline.AckSample) -> None:
        """Grows a fifth as fast as Reno in congestion avoidance."""
        if math.isinf(self.ssthresh) or self.cwnd < self.ssthresh:
            super().on_ack(ack)
        elif ack.cwnd_limited and ack.phase not in ("cwr", "recovery"):
            self.cwnd += 0.2 * self.mss * ack.acked / self.cwnd

    def on_congestion_event(self, event: warpline.CongestionEvent) -> None:
        """Keeps four fifths."""
        self.reduce(0.8 * self.cwnd)


def own_congestion_control() -> None:
    """Runs it beside CUBIC."""
    run = scenario.set('flow.back.cc={kind="custom", name="gentle"}').run(cc={"gentle": Gentle})
    for flow in run.summary["flows"]:
        print(f"{flow['name']:8} {flow['cc']:8} {flow['goodput_bps'] / 1e6:5.2f} Mbit/s")


# %% [markdown]
# ## A sweep
#
# Every combination of parameters, three seeds each, on all cores, into one table.


# %%
def grid() -> None:
    """Measures how much the background flow gets, for three algorithms and two queues."""
    jittered = scenario.set('flow.back.start="0s..5s"')
    table = warpline.sweep(
        jittered,
        {"flow.back.cc": ["nice", "ledbat", "cubic"], "topology.bottleneck.queue.limit": ["0.5BDP", "2BDP"]},
        seeds=range(3),
        by="group",
    )
    shares = (
        table.polars()
        .filter(polars.col("group") == "back")
        .group_by("flow.back.cc", "topology.bottleneck.queue.limit", maintain_order=True)
        .agg((polars.col("goodput_bps").mean() / 1e6).alias("goodput_mbps"))
    )
    print(shares)


# %%
if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    first_run()
    own_congestion_control()
    grid()
    print(f"the plot and the report are in {OUT}")
