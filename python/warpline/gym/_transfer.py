"""The same policy in a simulation, against Linux in lock-step, and on a live network: how far apart the results are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from warpline._congestion import CcFactories, CcFactory
from warpline._errors import WarplineError
from warpline._scenario import Scenario
from warpline._summary import FlowRow, Summary
from warpline._warpline import Table
from warpline.gym._interface import Interface, Policy, deploy

World = Literal["simulation", "linux", "live"]

#: The name of the policy's congestion control.
_NAME = "policy"
#: The port of the first flow to a live host.
_PORT = 5001

#: What receives on live hosts: it accepts any number of connections on each of its ports, and reads.
_SINK = """
import socketserver, sys, threading
class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(1 << 18):
            pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer.daemon_threads = True
for port in sys.argv[1:]:
    server = socketserver.ThreadingTCPServer(("", int(port)), Sink)
    threading.Thread(target=server.serve_forever).start()
"""


def _linux(data: dict[str, Any], rows: list[FlowRow], agent: str) -> dict[str, Any]:
    """All ends of flows but the agent's are Linux, on one machine in lock-step."""
    nodes = {row["from"] for row in rows} | {row["to"] for row in rows}
    guests = {node: {"endpoint": "guest", "machine": "linux"} for node in sorted(nodes - {agent})}
    return {**data, "host": _hosts(data, guests)}


def _live(data: dict[str, Any], rows: list[FlowRow], agent: str) -> dict[str, Any]:
    """All that receive are namespaces of this machine, with a program; time is the machine's."""
    ports = [str(_PORT + place) for place in range(len(data["flow"]))]
    sink = {"command": [sys.executable, "-c", _SINK, *ports], "expect": "running"}
    receivers = {row["to"]: {"endpoint": "live", "program": [sink]} for row in rows if row["to"] != agent}
    flows = [{**flow, "port": int(port)} for flow, port in zip(data["flow"], ports, strict=True)]
    return {**data, "host": _hosts(data, receivers), "flow": flows, "clock": {"mode": "real"}}


def _hosts(data: dict[str, Any], entries: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The scenario's hosts, some of them of another kind."""
    kept = {host["name"]: host for host in data.get("host", [])}
    return list({**kept, **{name: {**kept.get(name, {}), "name": name, **entry} for name, entry in entries.items()}}.values())


_WORLDS: dict[World, Callable[[dict[str, Any], list[FlowRow], str], dict[str, Any]]] = {
    "simulation": lambda data, rows, agent: data,
    "linux": _linux,
    "live": _live,
}


def transfer(
    policy: Policy,
    scenario: Scenario,
    *,
    flow: str | int = 0,
    interface: Interface | None = None,
    seeds: Iterable[int] = (1,),
    worlds: Iterable[World] = ("simulation", "linux", "live"),
) -> Table:
    """Runs a policy in several worlds, and says how far the others are from the simulation.

    In each world the policy controls our TCP, at one end of its flow. In the simulation, all else is simulated, too. In `linux`, all other ends of flows are a Linux kernel, in
    lock-step with the simulation: the policy's receiver, and senders and receivers of cross traffic. In `live`, all receivers are programs in
    network namespaces of this machine, and time is the machine's.

    The table has a row for each world and seed: `goodput_bps`, from the flow's start on; `queueing_ms`, the mean of the RTT above the smallest one; `retransmitted`, the share of
    packets; the distance from the simulation with the same seed, `goodput_gap` and `queueing_gap` in percent and `retransmitted_gap` in
    percentage points; and `note`, which says why a world has no figures, for example because this machine has no kernel for guests, or that this machine was too
    busy for the live run to keep pace, so that its figures say little.

    Args:
        policy: From an observation to an action.
        scenario: One in which all is simulated.
        flow: The flow that the policy controls, by its name or its number from 0.
        interface: The one that the policy was trained with; by default `Interface()`.
        seeds: The seeds of the runs.
        worlds: Which worlds. The simulation is always among them.

    Raises:
        ScenarioError: If there is no such flow.
        RunError: If the simulation fails.
        ValueError: If not all of the scenario is simulated.
    """
    return _table(deploy(policy, interface), scenario, flow, list(seeds), ["simulation", *(w for w in worlds if w != "simulation")])


def _table(factory: CcFactory, scenario: Scenario, flow: str | int, seeds: list[int], worlds: list[World]) -> Table:
    cc: CcFactories = {_NAME: factory}
    ours = scenario.set(f"flow.{flow}.cc={{ kind = 'custom', name = '{_NAME}' }}")
    data = ours.to_dict()
    others = [host["name"] for host in data.get("host", []) if host.get("endpoint", "model") != "model"]
    if others or data.get("clock", {}).get("mode", "virtual") != "virtual":
        what = f"the host {others[0]!r} is not simulated" if others else "its clock is not virtual"
        raise ValueError(f"transfer makes the other worlds of a scenario in which all is simulated; {what}")
    table: list[dict[str, Any]] = []
    for seed in seeds:
        simulated = ours.run(seed=seed, cc=cc, progress=False)
        rows = simulated.summary["flows"]
        base = _figures(simulated.summary)
        agent = next(row["from"] for row in rows if row["cc"] == _NAME)
        for world in worlds:
            run = simulated
            try:
                if world != "simulation":
                    changed = Scenario.from_dict(_WORLDS[world](data, rows, agent), directory=ours.directory)
                    run = changed.run(seed=seed, cc=cc, progress=False)
            except WarplineError as error:
                none = dict.fromkeys([*base, *_gaps(base, base)])
                table.append({"world": world, "seed": seed, **none, "note": str(error)})
                continue
            found = _figures(run.summary)
            live = run.summary.get("live")
            note = "" if live is None or live["kept_pace"] else "this machine was too busy to keep pace"
            table.append({"world": world, "seed": seed, **found, **_gaps(found, base), "note": note})
    return Table.from_columns({name: [row[name] for row in table] for name in table[0]})


def _figures(summary: Summary) -> dict[str, float]:
    """The figures of the policy's flow."""
    row = next(row for row in summary["flows"] if row["cc"] == _NAME)
    mean, least = row["rtt_mean_ms"] or 0.0, row["rtt_min_ms"] or 0.0
    # To a live host, the flow waits until its program listens.
    span = (row["end_s"] or summary["simulated_s"]) - max(row["start_s"], summary["warmup_s"])
    return {
        "goodput_bps": row["delivered_bytes"] * 8 / span if span > 0 else 0.0,
        "queueing_ms": mean - least,
        "retransmitted": row["retransmitted_packets"] / max(row["sent_packets"], 1),
    }


def _gaps(found: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float | None]:
    """How far figures are from those of the simulation."""

    def percent(name: str) -> float | None:
        return 100 * (found[name] / base[name] - 1) if base[name] > 0 else None

    return {
        "goodput_gap": percent("goodput_bps"),
        "queueing_gap": percent("queueing_ms"),
        "retransmitted_gap": 100 * (found["retransmitted"] - base["retransmitted"]),
    }
