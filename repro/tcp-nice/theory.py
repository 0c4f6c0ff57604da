"""Repeats section 3 of the paper: its bound on the interference, its fluid model integrated, and the simulator on the same network.

    python3 repro/tcp-nice/theory.py target/release/warpline                 # over the queue; then sweeps of l, threshold and gamma; 4 min
    python3 repro/tcp-nice/theory.py target/release/warpline --only queue

m long Reno flows and l long Nice flows share one drop-tail queue of B packets at a link of mu packets per second. tau is the round trip
without queueing, gamma the factor by which a loss reduces a window, and q_t the queue at which Nice begins to halve. All flows lose at the same time.
Interference is the share of their throughput that the Reno flows lose because of the Nice flows.

The model (equations 1 to 3), with W = W_r + W_n and a round trip of tau or W / mu, whichever is longer:

    the link is not full:      dW_r/dt = m / tau        dW_n/dt = l / tau
    a queue shorter than q_t:  dW_r/dt = m mu / W       dW_n/dt = -l mu / W    (at most what W_r gains, so the queue does not become empty; 0
                                                                               once W_n is l: Vegas's decrease ends at a window of one)
    a longer one:              dW_r/dt = m mu / W       dW_n/dt = -min(W_n mu / (2 W), m mu / W)
    W = mu tau + B:            both are multiplied by gamma

Equation 4, delta <= m / gamma * exp(-(1 + (B - q_t) / m) * gamma), is not quite what the paper derives (section 9.2, for gamma = 1/2): there it is
exp(-(1 + (B - q_t) / (2 m))), which leaves out delta itself. The model's own is delta = 2 m exp(-(1 + (B - q_t - delta) / (2 m))). Equation 4 is above both, by
exp(1/2) above the former, so it holds. Its gamma is what Nice's window loses in a round trip (`backoff` here), that of equation 5 what a loss leaves of
Reno's: two numbers, both one half in the paper. The sweep of gamma changes the second, which in the simulator is Reno's `beta`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Network:
    """The network and its flows."""

    mu: float  # packets per second
    tau: float  # seconds
    buffer: float  # packets
    reno: int
    nice: int
    gamma: float = 0.5  # what a loss leaves of a window
    threshold: float = 0.2
    backoff: float = 0.5  # what Nice takes from its windows in a round trip in which the queue was long

    @property
    def pipe(self) -> float:
        """Packets in flight that fill the link but not the queue."""
        return self.mu * self.tau

    @property
    def q_t(self) -> float:
        """Queue in packets at which Nice halves."""
        return self.threshold * self.buffer


def residual_bound(p: Network) -> float:
    """Equation 4: the largest number of Nice packets outstanding just before a loss."""
    return p.reno / p.backoff * math.exp(-(1 + (p.buffer - p.q_t) / p.reno) * p.backoff)


def interference_bound(p: Network) -> float:
    """Equation 5 (theorem 1)."""
    return min(1.0, 2 * residual_bound(p) / ((p.pipe + p.buffer) * (1 - p.gamma**2)))


def derivative(p: Network, reno: float, nice: float) -> tuple[float, float]:
    """Equations 1 to 3."""
    total = reno + nice
    if total < p.pipe:
        return p.reno / p.tau, p.nice / p.tau
    round_rate = p.mu / total
    gain = p.reno * round_rate
    if total < p.pipe + p.q_t:
        return gain, -min(p.nice, p.reno) * round_rate if nice > p.nice else 0.0
    return gain, -min(nice * p.backoff * round_rate, gain)


def fluid(p: Network, periods: int = 40) -> tuple[float, float]:
    """Integrates the model (fourth-order Runge-Kutta) until periods repeat. Returns the Nice packets outstanding just before a loss, and the
    Reno flows' throughput in packets per second over the last period."""
    reno, nice = p.gamma * p.pipe * 0.5, p.gamma * p.pipe * 0.5 if p.nice else 0.0
    step, residual, rate = p.tau / 100, 0.0, 0.0
    for _ in range(periods):
        sent, span = 0.0, 0.0
        while reno + nice < p.pipe + p.buffer and span < 1e5 * p.tau:
            a = derivative(p, reno, nice)
            b = derivative(p, reno + a[0] * step / 2, nice + a[1] * step / 2)
            c = derivative(p, reno + b[0] * step / 2, nice + b[1] * step / 2)
            d = derivative(p, reno + c[0] * step, nice + c[1] * step)
            sent += step * reno / max(p.tau, (reno + nice) / p.mu)
            reno += step * (a[0] + 2 * b[0] + 2 * c[0] + d[0]) / 6
            nice = max(0.0, nice + step * (a[1] + 2 * b[1] + 2 * c[1] + d[1]) / 6)
            span += step
        residual, rate = nice, sent / span
        reno, nice = reno * p.gamma, nice * p.gamma
    return residual, rate


def simulated(warpline: str, p: Network, cc: dict[str, str]) -> float:
    """Goodput of the Reno flows in the simulator, in bit/s. `cc`: the congestion control of each group."""
    sets = {
        "topology.bottleneck.queue.limit": f"{p.buffer:.0f}p",
        "flow.demand.count": p.reno,
        "flow.background.count": max(p.nice, 1),
        **{f"flow.{group}.cc": kind for group, kind in cc.items()},
    }
    if not p.nice:
        sets["flow.background.stop"] = "6.1s"
    with tempfile.TemporaryDirectory() as directory:
        words = [warpline, "run", str(HERE / "long.toml"), "--json", "--no-report", "--out", f"{directory}/run"]
        for path, value in sets.items():
            words += ["--set", f"{path}={value}"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return next(g["goodput_bps"] for g in json.loads(done.stdout)["summary"]["groups"] if g["group"] == "demand")


# Nice in the simulator: as it is, and the paper's.
FORMS = {"nice": "nice", "paper": "{{ kind = \"nice\", variant = \"paper\", threshold = {threshold} }}"}


def compare(warpline: str, p: Network) -> dict[str, float]:
    """The bound, the fluid model and the simulator on one network. The gain by Nice flows that a rounding makes is no interference."""
    alone = replace(p, nice=0)
    residual, rate = fluid(p)
    reno = {"demand": f"{{ kind = \"reno\", beta = {p.gamma} }}"}
    base = simulated(warpline, alone, reno)
    row = {"buffer": p.buffer, "reno": p.reno, "nice": p.nice, "gamma": p.gamma, "threshold": p.threshold, "delta_fluid": residual,
           "delta_bound": residual_bound(p), "interference_fluid": 1 - rate / fluid(alone)[1], "interference_bound": interference_bound(p)}
    for name, form in FORMS.items():
        cc = {**reno, "background": form.format(threshold=p.threshold)}
        row[f"interference_{name}"] = 1 - simulated(warpline, p, cc) / base
    return row


def sweeps() -> dict[str, list[Network]]:
    """The networks of each table. Beside what a sweep changes: four Reno and sixteen Nice flows, 60 packets."""
    base = Network(mu=10e6 / 8 / 1024, tau=0.1, buffer=60, reno=4, nice=16)
    pairs, buffers = ((4, 2), (4, 16), (16, 8)), (10, 20, 40, 60, 80, 100, 120)
    return {
        "queue": [replace(base, reno=reno, nice=nice, buffer=buffer) for reno, nice in pairs for buffer in buffers],
        "l": [replace(base, nice=nice) for nice in (1, 2, 4, 8, 16, 32, 64, 100)],
        "threshold": [replace(base, threshold=t) for t in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)],
        # Up to the gamma with which the queue never becomes empty, 0.67.
        "gamma": [replace(base, gamma=gamma) for gamma in (0.3, 0.4, 0.5, 0.6, 0.65)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline")
    parser.add_argument("--only", choices=list(sweeps()), help="one of the tables")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="directory for CSV and plot")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, networks in sweeps().items():
        if options.only in (None, name):
            table(options.warpline, name, networks, options.out)
    return 0


def table(warpline: str, name: str, networks: list[Network], out: Path) -> None:
    """Prints a table and writes it."""
    print(f"\n### over {name}\n\n| B | m | l | gamma | threshold | delta, fluid | delta, bound | I, fluid | I, bound | I, simulator | the paper's form |\n|"
          + "--:|" * 11)
    rows = []
    for p in networks:
        row = compare(warpline, p)
        rows.append(row)
        part = lambda key, row=row: f"{row['interference_' + key] * 100:.2f} %"
        print(f"| {p.buffer:g} | {p.reno} | {p.nice} | {p.gamma:g} | {p.threshold:g} | {row['delta_fluid']:.3g} | {row['delta_bound']:.3g} | "
              + " | ".join(part(key) for key in ("fluid", "bound", *FORMS)) + " |", flush=True)
    file_name = "theory" if name == "queue" else f"theory-{name}"
    with (out / f"{file_name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: value if isinstance(value, int) else f"{value:.6g}" for key, value in row.items()} for row in rows)
    if name == "queue":
        draw(out, rows)


def draw(out: Path, rows: list[dict]) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    drawing = Figure(figsize=(10, 3.4), layout="constrained")
    cases = sorted({(row["reno"], row["nice"]) for row in rows})
    for ax, (reno, nice) in zip(drawing.subplots(1, len(cases)), cases):
        mine = [row for row in rows if (row["reno"], row["nice"]) == (reno, nice)]
        for key in ("bound", "fluid", *FORMS):
            ax.plot([row["buffer"] for row in mine], [100 * row[f"interference_{key}"] for row in mine], marker="o", label=key)
        ax.set(xlabel="buffer, packets", ylabel="interference, %", title=f"{reno} Reno, {nice} Nice")
        ax.legend()
    drawing.savefig(out / "theory.svg")


if __name__ == "__main__":
    sys.exit(main())
