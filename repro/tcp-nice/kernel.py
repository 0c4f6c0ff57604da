"""TCP Nice in this machine's kernel, over emulated paths under the real clock: figure 6 of the paper, and whether kernel and simulator agree.

Real programs (iperf3, ping) send. Transfers of Nice run under `warpline nice`; Nice is loaded into the kernel meanwhile, which needs root and Linux 6.4.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .paths import ACTIONS, BESIDE, KEPT, PATHS, SHARED_AT_MOST, each

HERE = Path(__file__).parent
FRONT, BEHIND = 5202, 5201
"""Ports of the transfer in front, and of those behind it."""
BEFORE, AFTER = 3, 2
"""How many seconds the transfers behind begin before the one in front, and end after it."""
BUFFERS = {"modem": "32K", "cable modem": "128K"}
"""Buffers for slow paths, somewhat more than path and queue hold, so that little data waits before them. On the others the kernel chooses."""


def program() -> str:
    """Warpline's own program."""
    return os.environ.get("WARPLINE_PROGRAM", "warpline")


@contextlib.contextmanager
def nice_in_kernel() -> Iterator[None]:
    """Keeps TCP Nice in the kernel meanwhile. What was there before stays there.

    Raises:
        study.Unable: If that is not possible.
    """
    status = subprocess.run([program(), "nice", "status", "--json"], capture_output=True, text=True, check=False)
    loaded = json.loads(status.stdout or "{}").get("loaded")
    done = subprocess.run([program(), "nice", "load"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise study.Unable(f"Nice cannot be loaded into the kernel: {done.stderr.strip()}")
    try:
        yield
    finally:
        if not (loaded and loaded["stays"]):
            subprocess.run([program(), "nice", "unload"], capture_output=True, check=False)


def ran(scenario: warpline.Scenario, seed: int, names: list[str]) -> list[str]:
    """What these programs print in a run under the real clock.

    Raises:
        study.Unable: If the machine is too busy.
    """
    with tempfile.TemporaryDirectory(prefix="nice-") as directory:
        run = scenario.run(seed=seed, out=Path(directory) / "run", progress=False)
        assert run.directory is not None
        if not run.summary["live"]["kept_pace"]:
            raise study.Unable("the emulator did not keep pace, since the machine was too busy")
        return [(run.directory / "programs" / f"{name}.stdout").read_text(encoding="utf-8") for name in names]


def sender(cc: str, to: str, port: int, seconds: float, flows: int, buffer: str) -> str:
    """The command of some transfers, with buffers of this size; without a size the kernel chooses it."""
    words = f"iperf3 -c {to} -p {port} -J -t {seconds:g} -P {flows} -l 1400{f' -w {buffer}' if buffer else ''}"
    return f"{program()} nice --strict -- {words}" if cc == "nice" else f"{words} -C {cc}"


def script(to: str, front: str | None, behind: str | None, count: int, seconds: float, before: float = BEFORE, buffer: str = "") -> str:
    """Transfers behind and one in front, with pings while the latter is there. Prints JSON."""
    start = f"{sender(behind, to, BEHIND, before + seconds + AFTER, count, buffer)} > $dir/behind & sleep {before:g}; " if behind else "echo null > $dir/behind; "
    ahead = f"{sender(front, to, FRONT, seconds, 1, buffer)} > $dir/front" if front else f"sleep {seconds:g}; echo null > $dir/front"
    return (
        f"dir=$(mktemp -d); trap 'rm -r $dir' EXIT; {start}ping -n -q -i 0.2 {to} > $dir/ping & ping=$!; {ahead}; kill -INT $ping; wait; "
        'printf \'{"ping": "%s", "behind": %s, "front": %s}\' "$(tail -n 1 $dir/ping)" "$(cat $dir/behind)" "$(cat $dir/front)"'
    )


def pinged(told: Mapping[str, Any]) -> float:
    """The mean round trip of the pings in ms: the second of "rtt min/avg/max/mdev = ..."."""
    return float(told["ping"].rsplit(" = ", 1)[1].split("/")[1])


def received(told: Mapping[str, Any]) -> float:
    """The rate of some transfers in Mbit/s, at their receiver."""
    return float(told["end"]["sum_received"]["bits_per_second"]) / 1e6


def behind_links(path: tuple[str, str, str], scripts: list[Callable[[str], str]], seconds: float) -> warpline.Scenario:
    """A server, a link and a client with one of the scripts, for each: they do not meet."""
    rate, delay, queue = path
    hosts, links = [], []
    for number, told in enumerate(scripts):
        server, client = f"s{number}", f"c{number}"
        serve = [warpline.Program(name=f"iperf{port}", command=["iperf3", "-s", "-p", str(port)], expect="running") for port in (FRONT, BEHIND)]
        hosts += [
            warpline.Host(name=server, endpoint="live", program=serve),
            warpline.Host(name=client, endpoint="live", program=[warpline.Program(name="send", command=["sh", "-c", told(f"{{{server}}}")], start="1s")]),
        ]
        links.append(warpline.Link(between=[server, client], rate=f"{rate}Mbit/s", delay=delay, queue=warpline.Droptail(limit=queue)))
    until = [f"c{number}.send exits" for number in range(len(scripts))]
    return warpline.Scenario(name="nice-kernel", duration=f"{seconds:g}s", until=until, clock=warpline.Clock(mode="real"), link=links, host=hosts)


# Figure 6 --------------------------------------------------------------------------------------------------------------


def large(at: study.Point) -> dict[str, dict[str, float]]:
    """A probe: each action once, beside each other and each over a path of its own."""

    def of(front: str, behind: str | None, count: int) -> Callable[[str], str]:
        return lambda to: script(to, front, behind, count, at["seconds"], buffer=BUFFERS.get(at["path"], ""))

    with nice_in_kernel():
        scenario = behind_links(PATHS[at["path"]], [of(*action) for action in ACTIONS.values()], at["seconds"] + 60)
        told = [json.loads(text) for text in ran(scenario, at["seed"], [f"c{number}.send" for number in range(len(ACTIONS))])]
    return {
        "front_mbps": {action: received(one["front"]) for action, one in zip(ACTIONS, told, strict=True)},
        "behind_mbps": {action: received(one["behind"]) if one["behind"] else 0.0 for action, one in zip(ACTIONS, told, strict=True)},
        "ping_ms": {action: pinged(one) for action, one in zip(ACTIONS, told, strict=True)},
    }


def over_alone(action: str, path: str) -> Callable[[Results], float]:
    """What the transfer in front gets, over what Reno gets alone."""
    return lambda results: results.mean("front_mbps", line=action, path=path) / results.mean("front_mbps", line="Reno/NULL", path=path)


FEW = "ten seconds are 47 packets there, and six or seven round trips of the mean ping (1.5 s): the first windows, of ten packets each, decide who gets what, whatever the congestion control"
"""Why a transfer over the modem differs."""


def kept(path: str) -> list[Claim]:
    """What Reno keeps beside Nice on a path."""
    quick = {"Reno/Nice": ["cable modem"]}
    return [
        claim
        for action in BESIDE
        for claim in each([path], f"Reno beside {BESIDE[action]} keeps what it gets alone", partial(over_alone, action), KEPT, study.within(0.05), quick=quick.get(action, ()), differs={"modem": FEW})
    ]


FIG6 = Figure(
    name="fig6",
    source="Figure 6",
    title="Nice over four kinds of paths: a transfer of ten seconds, alone and with background transfers",
    note="The paths are emulated; `Reno/Nice8` is Reno in front of eight transfers of Nice. A probe is one of each. The paper's bars have no numbers; 97 % is what its text says.",
    model=large,
    points=study.grid(path=list(PATHS)),
    settings={"seconds": 10},
    seeds=10,
    alone=True,
    labels={"front_mbps": "Goodput of the transfer in front (Mbit/s)", "behind_mbps": "Goodput of those behind (Mbit/s)", "ping_ms": "Round trip of pings meanwhile (ms)"},
    picture=[study.bars(x="path", y="front_mbps", by="line"), study.bars(x="path", y="ping_ms", by="line")],
    claims=[
        *each(PATHS, "Nice alone gets a significant part of what Reno gets alone", partial(over_alone, "Nice/NULL"), 0.5, study.at_least()),
        *(claim for path in PATHS for claim in kept(path)),
        *each(
            PATHS,
            "eight transfers of Reno leave it a ninth, if they share",
            partial(over_alone, "Reno/Reno8"),
            SHARED_AT_MOST,
            study.at_most(),
            quick=["cable modem"],
            differs={"modem": FEW},
        ),
    ],
    quick=study.quick(points=study.grid(path=["cable modem"]), seeds=1),
)

# Kernel and simulator --------------------------------------------------------------------------------------------------

SIMULATOR, KERNEL = "simulator", "kernel"
FLOWS = {1: "1 flow", 8: "8 flows"}
LEAD = 4
"""How many seconds Nice is there before CUBIC, as in agreement.toml."""


def both(at: study.Point) -> dict[str, dict[str, float]]:
    """The same path with model hosts under the virtual clock, and with the kernel's TCP under the real one."""
    front = "cubic" if at["front"] == "CUBIC" else None
    changes = [f"flow.nice.count={at['flows']}", *([] if front else ["flow.front.stop=4.01s"])]
    model = warpline.Scenario.load(HERE / "agreement.toml", *changes).run(seed=at["seed"], progress=False)
    groups = {group["group"]: group for group in model.summary["groups"]}
    with nice_in_kernel():
        scenario = behind_links(("20", "20ms", "67p"), [lambda to: script(to, front, "nice", at["flows"], at["seconds"], LEAD)], at["seconds"] + 60)
        told = json.loads(ran(scenario, at["seed"], ["c0.send"])[0])
    # Whole seconds in which the other was there.
    spans = [span["sum"]["bits_per_second"] for span in told["behind"]["intervals"]][LEAD + 1 : LEAD + int(at["seconds"]) - 1]
    return {
        "nice_mbps": {SIMULATOR: groups["nice"]["goodput_bps"] / 1e6, KERNEL: sum(spans) / len(spans) / 1e6},
        "front_mbps": {SIMULATOR: groups["front"]["goodput_bps"] / 1e6 if front else 0.0, KERNEL: received(told["front"]) if front else 0.0},
        "delay_ms": {SIMULATOR: groups["ping"]["latency_mean_ms"], KERNEL: pinged(told)},
    }


def kernel_over_simulator(measure: str, front: str, flows: int) -> Callable[[Results], float]:
    """The kernel's value over the simulator's."""
    return lambda results: results.mean(measure, line=KERNEL, front=front, flows=flows) / results.mean(measure, line=SIMULATOR, front=front, flows=flows)


AGREEMENT = study.Table(
    name="agreement",
    source="Not in the paper",
    title="Nice in the simulator and in this machine's kernel: 20 Mbit/s, 40 ms, a queue of one BDP",
    model=both,
    points=study.grid(front=["nobody", "CUBIC"], flows=[1, 8]),
    settings={"seconds": 10},
    seeds=3,
    alone=True,
    labels={"nice_mbps": "Goodput of Nice (Mbit/s)", "front_mbps": "Goodput of CUBIC (Mbit/s)", "delay_ms": "Round trip of pings (ms)"},
    claims=[
        *(
            Claim(
                text=f"{FLOWS[flows]} of Nice alone: {what} in the kernel, divided by that in the simulator",
                ours=kernel_over_simulator(measure, "nobody", flows),
                theirs=1,
                bound=study.within(0.05),
                quick=flows == 1,
            )
            for flows in (1, 8)
            for what, measure in (("goodput of Nice", "nice_mbps"), ("delay", "delay_ms"))
        ),
        *(
            Claim(
                text=f"CUBIC in front of {FLOWS[flows]} of Nice: {what} in the kernel, divided by that in the simulator",
                ours=kernel_over_simulator(measure, "CUBIC", flows),
                theirs=1,
                bound=study.within(0.05),
                quick=False,
            )
            for flows in (1, 8)
            for what, measure in (("goodput of CUBIC", "front_mbps"), ("delay", "delay_ms"))
        ),
    ],
    quick=study.quick(points=study.grid(front=["nobody"], flows=[1]), seeds=1),
)
