"""Shadow's configuration: hosts with processes, which become guests with programs, on a graph in GML.

Shadow's network gives each pair of hosts a path: the bandwidths of the hosts, and the latency and the loss of the shortest way through the
graph. Here the paths are the same: a host has a link with its bandwidths, and the rest is links between nodes of the graph.

https://shadow.github.io/docs/guide/shadow_config_spec.html
"""

from __future__ import annotations

import heapq
import lzma
import math
import re
import shlex
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from warpline.convert import _traffic, _units, graph
from warpline.convert._draft import FAST, ConvertError, Draft, Entry, Names
from warpline.convert._source import LARGEST, Options, Reader, Source
from warpline.convert._yaml import Map, load

SWITCH = """\
graph [
  node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
  edge [ source 0 target 0 latency "1 ms" packet_loss 0.0 ]
]
"""
"""The built-in graph `1_gbit_switch`, as the specification has it."""
QUEUE = {"kind": "codel", "limit": "unlimited", "target": "10ms", "interval": "100ms"}
"""What waits for a host in Shadow (src/main/network/router/codel_queue.rs)."""
NAMES = "names"
"""The program that makes a guest know the hosts' names, which Shadow's own name service does."""
TGEN = "tgen"

DEFAULTS = ("host_option_defaults", "host_defaults")
"""The section of what holds for hosts that do not say otherwise, and its older name."""
HOST_OPTIONS = ("host_options", "options")
"""What a host itself says of it, and the older name."""
CAPTURES = "pcap_enabled"
"""The one of these options that is carried."""

SIGNALS = ("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM")


class _Net:
    """The graph: its nodes' bandwidths, and the best way between each two."""

    def __init__(self, config: Map, draft: Draft) -> None:
        network = config.map("network")
        self.where = network.at("graph")
        settings = network.map("graph")
        found = self._graph(settings, draft)
        self.nodes: dict[int, dict[str, Any]] = dict(found.nodes(data=True))
        self.edges: dict[int, dict[int, tuple[Fraction, float]]] = {node: {} for node in self.nodes}
        for one, other, data in found.edges(data=True):
            edge = self._edge(one, other, data)
            for here, there in {(one, other), (one, other) if found.is_directed() else (other, one)}:
                if there not in self.edges[here] or edge < self.edges[here][there]:
                    self.edges[here][there] = edge
            if data.get("jitter") not in (None, "0", "0 ms", "0ms"):
                draft.left_out.add("the jitter of edges, which Shadow itself does not use")
        self.shortest = network.get("use_shortest_path") is not False
        self._paths: dict[int, dict[int, tuple[Fraction, float]]] = {}

    def _graph(self, settings: Map, draft: Draft) -> Any:
        kind = settings.text("type")
        if kind == "1_gbit_switch":
            return graph.gml(SWITCH, "the graph 1_gbit_switch")
        if kind != "gml":
            raise settings.wrong("type", f"is {kind!r}; there are gml and 1_gbit_switch")
        inline = settings.text("inline")
        if inline is not None:
            return graph.gml(inline, f"{settings.at('inline')}: the graph")
        file = settings.map("file") if isinstance(settings.get("file"), Map) else None
        name = settings.text("path") if file is None else file.text("path")
        if name is None:
            raise settings.wrong("type", "gml needs the graph below `inline`, or `file` with its `path`")
        compression = None if file is None else file.text("compression")
        path = Path(name)
        try:
            path = settings.source.directory / path.expanduser()
            if compression == "xz" or path.suffix == ".xz":
                with lzma.open(path, "rb") as packed:
                    content = packed.read(LARGEST)
            else:
                content = path.read_bytes()
            return graph.gml(content.decode("utf-8"), str(path))
        except ConvertError:
            raise
        except (OSError, lzma.LZMAError, EOFError, ValueError, RuntimeError) as error:
            # The last two: it is not text, or it is not a name that a file can have, such as one below a home directory that there is not.
            raise ConvertError(f"{settings.at('file')}: {path}: the graph cannot be read: {error}") from error

    def _edge(self, one: int, other: int, data: Mapping[str, Any]) -> tuple[Fraction, float]:
        where = f"{self.where}: edge from {one} to {other}"
        try:
            latency = _units.read_time(str(data["latency"]), Fraction(1))
            loss = float(data.get("packet_loss", 0.0))
        except KeyError as error:
            raise ConvertError(f"{where}: has no latency, such as latency \"10 ms\"") from error
        except (OverflowError, TypeError, ValueError) as error:
            raise ConvertError(f"{where}: {error}") from error
        if not 0 <= loss <= 1:
            raise ConvertError(f"{where}: packet_loss {loss:g} is not a share from 0 to 1")
        return latency, loss

    def bandwidth(self, node: int, way: str) -> Fraction | None:
        """The bandwidth of the hosts at a node, up or down."""
        value = self.nodes[node].get(f"host_bandwidth_{way}")
        try:
            return None if value is None else _units.read_rate(str(value), 1)
        except ValueError as error:
            raise ConvertError(f"{self.where}: node {node}: host_bandwidth_{way}: {error}") from error

    def path(self, one: int) -> dict[int, tuple[Fraction, float]]:
        """Latency and loss of the best way from a node to each; to itself by the edge that it has to itself. They are found once."""
        if one not in self._paths:
            self._paths[one] = self._best(one)
        return self._paths[one]

    def _best(self, one: int) -> dict[int, tuple[Fraction, float]]:
        if not self.shortest:
            return dict(self.edges[one])
        found: dict[int, tuple[Fraction, float]] = {}
        waiting = [(Fraction(0), one, 0.0)]
        while waiting:
            latency, node, loss = heapq.heappop(waiting)
            if node in found:
                continue
            found[node] = (latency, loss)
            for other, (more, lost) in self.edges[node].items():
                if other not in found:
                    heapq.heappush(waiting, (latency + more, other, 1 - (1 - loss) * (1 - lost)))
        del found[one]
        if one in self.edges[one]:
            found[one] = self.edges[one][one]
        return found


def _read(source: Source, options: Options) -> Draft:
    config = load(source)
    draft = Draft(f"{source.name} (Shadow)", source.stem)
    _general(config, draft)
    net = _Net(config, draft)
    names = Names()
    hosts = _hosts(config, net, names)
    if not hosts:
        raise ConvertError(f"{config.at('hosts')}: hosts: has no hosts; an entry is a name with network_node_id and processes")
    _links(draft, net, hosts, names, _first(config, DEFAULTS))
    real = [_host(draft, name, host, config) for name, host, _ in hosts]
    if any(real):
        _name_service(draft, [name for name, _, _ in hosts])
    if options.flow or not any(real):
        ways: dict[str, dict[str, Fraction]] = {name: {} for name, _, _ in hosts}
        for one, _, node in hosts:
            path = net.path(node)
            for other, _, place in hosts:
                if one != other and place in path:
                    ways[one][other] = path[place][0]
        _traffic.add(draft, options, ways)
    return draft


def _general(config: Map, draft: Draft) -> None:
    general = config.map("general")
    stop = general.text("stop_time")
    if stop is None:
        raise ConvertError(f"{general.at()}: general: needs stop_time, such as stop_time: 10s")
    draft.head["duration"] = _time(general, "stop_time")
    if "seed" in general:
        draft.head["seed"] = general.take("seed", int, "a whole number")
    if general.text("bootstrap_end_time") and _time(general, "bootstrap_end_time") != "0s":
        draft.left_out.add("bootstrap_end_time: bandwidths and losses hold from the start")
    used = {"general": ("stop_time", "seed", "bootstrap_end_time"), "network": ("graph", "use_shortest_path"), **dict.fromkeys(DEFAULTS, (CAPTURES,))}
    for section, keys in used.items():
        if rest := [key for key in config.map(section) if key not in keys]:
            draft.left_out.add(f"{section}: {', '.join(rest)}")
    if rest := [key for key in config if key not in ("general", "network", "hosts", *DEFAULTS) and not key.startswith("x-")]:
        draft.left_out.add(f"{', '.join(rest)}: how Shadow itself runs")


def _time(settings: Map, key: str) -> str:
    try:
        return _units.time(_units.read_time(settings.text(key) or "0", Fraction(1)))
    except ValueError as error:
        raise settings.wrong(key, str(error)) from error


def _hosts(config: Map, net: _Net, names: Names) -> list[tuple[str, Map, int]]:
    """The hosts: names, what is said of each, and nodes."""
    found = []
    for name, host in config.map("hosts").maps():
        node = host.take("network_node_id", int, "the number of a node of the graph")
        if node is None:
            raise ConvertError(f"{host.at()}: {name}: needs network_node_id, a node of the graph; there are {_some(net.nodes)}")
        if node not in net.nodes:
            raise host.wrong("network_node_id", f"{node} is not a node of the graph; there are {_some(net.nodes)}")
        count = host.take("quantity", int, "a whole number") or host.take("count", int, "a whole number") or 1
        if not 1 <= count <= 10_000:
            raise host.wrong("quantity", f"is {count}; from 1 to 10000 hosts can be made of one entry")
        for number in range(count):
            called = name if count == 1 else f"{name}{number + 1}"
            found.append((names.of(called), host, node))
    return found


def _some(nodes: Mapping[int, Any]) -> str:
    shown = [str(node) for node in nodes]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")


def _links(draft: Draft, net: _Net, hosts: list[tuple[str, Map, int]], names: Names, defaults: Map) -> None:
    places = list(dict.fromkeys(node for _, _, node in hosts))
    rates = {name: {way: _bandwidth(net, host, node, way) for way in ("up", "down")} for name, host, node in hosts}
    record = {name: ["pcap"] if _captured(host, defaults) else None for name, host, _ in hosts}
    if len(places) == 1:
        # All paths are alike: half of it is on each host's link.
        node = places[0]
        own = net.path(node).get(node)
        if own is None and len(hosts) > 1:
            raise ConvertError(f"{net.where}: hosts are together at node {node}, which has no edge to itself; add edge [ source {node} target {node} latency ... ]")
        latency, loss = own or (Fraction(0), 0.0)
        switch = names.of(("node", node), f"node{node}")
        for name, _, _ in hosts:
            half = 1 - math.sqrt(1 - loss)
            draft.link(
                name, switch, rate=rates[name]["up"], delay=_units.time(latency / 2), loss=_units.percent(half) if half else None, record=record[name],
                reverse={"rate": rates[name]["down"], "queue": QUEUE},
            )  # fmt: skip
        if loss:
            draft.assumed.add("the loss of a path is shared by the two links that it has here: together they lose as much")
        return
    draft.assumed.add(f"a node of the graph is two here: paths begin in NODE.in and end in NODE.out, so that each pair of hosts has its own latency and loss; links between them are as fast as need be ({FAST})")
    into = {node: names.of(("in", node), f"node{node}.in") for node in places}
    out = {node: names.of(("out", node), f"node{node}.out") for node in places}
    for name, _, node in hosts:
        draft.link(name, into[node], oneway=True, rate=rates[name]["up"], record=record[name])
        draft.link(out[node], name, oneway=True, rate=rates[name]["down"], queue=QUEUE, record=record[name])
    shared = {node: sum(place == node for _, _, place in hosts) > 1 for node in places}
    for one in places:
        path = net.path(one)
        for other in places:
            if other not in path:
                if one != other or shared[one]:
                    raise ConvertError(f"{net.where}: no way leads from node {one} to node {other}, where hosts are; add an edge")
                continue
            if one == other and not shared[one]:
                continue
            latency, loss = path[other]
            draft.link(into[one], out[other], oneway=True, rate=FAST, delay=_units.time(latency), loss=_units.percent(loss) if loss else None)


def _bandwidth(net: _Net, host: Map, node: int, way: str) -> str:
    key = next((key for key in (f"bandwidth_{way}", f"host_bandwidth_{way}") if host.text(key) is not None), None)
    try:
        value = net.bandwidth(node, way) if key is None else _units.read_rate(host.text(key) or "", 1)
    except ValueError as error:
        raise error if isinstance(error, ConvertError) or key is None else host.wrong(key, str(error)) from error
    if not value:
        raise ConvertError(f"{host.at()}: has no bandwidth_{way}, and neither has node {node}; write bandwidth_{way}: 10 Mbit")
    return _units.rate(value)


def _first(settings: Map, names: tuple[str, ...]) -> Map:
    """The first of these sections that is there; else an empty one."""
    return settings.map(next((name for name in names if name in settings), names[0]))


def _captured(host: Map, defaults: Map) -> bool:
    """Whether a host's packets are captured, as it says itself or as the defaults say."""
    own = _first(host, HOST_OPTIONS).get(CAPTURES)
    return (defaults.get(CAPTURES) if own is None else own) is True


def _host(draft: Draft, name: str, host: Map, config: Map) -> bool:
    """A host with its programs, if it has any that can be carried; whether it has."""
    programs = [program for number, process in enumerate(host.entries("processes")) if (program := _program(draft, name, number, process)) is not None]
    known = ("network_node_id", "bandwidth_up", "bandwidth_down", "host_bandwidth_up", "host_bandwidth_down", "ip_addr", "processes", *HOST_OPTIONS, "quantity", "count")
    if rest := [key for key in host if key not in known]:
        draft.left_out.add(f"of hosts: {', '.join(rest)}", name)
    if rest := [key for key in _first(host, HOST_OPTIONS) if key != CAPTURES]:
        draft.left_out.add(f"of hosts' options: {', '.join(rest)}", name)
    if not programs:
        if address := host.text("ip_addr"):
            draft.left_out.add(f"ip_addr {address}, since nothing runs there that can be carried", name)
        return False
    entry = draft.host(name, endpoint="guest", address=host.text("ip_addr"))
    entry.programs = programs
    return True


def _program(draft: Draft, host: str, number: int, process: Map) -> Entry | None:
    path = process.text("path")
    if path is None:
        raise ConvertError(f"{process.at()}: a process of {host} needs path, its program")
    name = re.sub(r"[^\w.-]", "-", Path(path).name).lstrip(".-") or "program"
    if Path(path).name == TGEN:
        draft.left_out.add("tgen, Shadow's traffic generator: write [[flow]]s for what its file says", host)
        return None
    raw = process.get("args")
    try:
        args = [str(word) for word in raw] if isinstance(raw, list) else shlex.split(process.text("args") or "")
    except ValueError as error:
        raise process.wrong("args", str(error)) from error
    try:
        command = [str(Path(path).expanduser()) if path.startswith("~") else path, *args]
    except RuntimeError as error:
        raise process.wrong("path", f"{path!r}: there is no such home directory; write a path that begins with /") from error
    start = _units.read_time(_written(process, "start_time"), Fraction(1))
    if start >= _units.read_time(draft.head["duration"]):
        draft.left_out.add("processes that start when the run is over", f"{host}.{name}")
        return None
    expect = _expected(draft, host, process)
    if process.text("shutdown_time") is not None:
        signal = (process.text("shutdown_signal") or "SIGTERM").removeprefix("SIG")
        if signal not in SIGNALS and not re.fullmatch(r"\d{1,2}", signal):
            raise process.wrong("shutdown_signal", f"is {signal!r}; there are {', '.join('SIG' + one for one in SIGNALS)} and numbers")
        lasts = _units.read_time(_written(process, "shutdown_time"), Fraction(1)) - start
        if lasts <= 0:
            raise process.wrong("shutdown_time", "is not after start_time")
        command = ["timeout", "--preserve-status", "-s", signal, _seconds(lasts), *command]
        draft.assumed.add("shutdown_time is timeout(1) before the command", f"{host}.{name}")
        if isinstance(expect, int) and "expected_final_state" not in process:
            expect = "any"
    environment = process.get("environment")
    if isinstance(environment, str):
        environment = dict(pair.partition("=")[::2] for pair in environment.split(";") if "=" in pair)
    elif environment is not None and not isinstance(environment, Map):
        raise process.wrong("environment", "has to be a mapping of names and values")
    known = ("path", "args", "start_time", "shutdown_time", "shutdown_signal", "expected_final_state", "environment")
    if rest := [key for key in process if key not in known]:
        draft.left_out.add(f"of processes: {', '.join(rest)}", f"{host}.{name}")
    keys = {
        "name": f"{name}-{number}" if number else name,
        "command": command,
        "start": _units.time(start) if start else None,
        "expect": None if expect == 0 else expect,
        "environment": {str(key): str(value) for key, value in environment.items()} if environment else None,
    }
    return Entry({key: value for key, value in keys.items() if value is not None})


def _seconds(time: Fraction) -> str:
    """Seconds as timeout(1) takes them, to the nanosecond."""
    return f"{float(time):.9f}".rstrip("0").rstrip(".")


def _written(process: Map, key: str) -> str:
    """A time as text that can be read."""
    _time(process, key)
    return process.text(key) or "0"


def _expected(draft: Draft, host: str, process: Map) -> int | str:
    state = process.get("expected_final_state")
    if state is None or state == "exited":
        return 0
    if state == "running":
        return "running"
    if isinstance(state, Map) and isinstance(state.get("exited"), int):
        code: int = state["exited"]
        return code
    if isinstance(state, Map) and "signaled" in state:
        draft.assumed.add("a program that a signal is to end may end in any way", host)
        return "any"
    raise process.wrong("expected_final_state", "is not known; there are running, { exited: 0 } and { signaled: SIGTERM }")


def _name_service(draft: Draft, names: list[str]) -> None:
    """A first program on each guest that writes the hosts' names where the C library finds them."""
    draft.assumed.add(f"programs know hosts by name, as in Shadow: a program `{NAMES}` on each guest writes /etc/hosts, and the others wait for it")
    lines = "".join(f"{{{name}}} {name}\\n" for name in names)
    command = ["sh", "-c", f"printf '{lines}' >> /etc/hosts && echo known"]
    for host in draft.hosts:
        host.programs.insert(0, Entry({"name": NAMES, "command": command, "ready": "prints known"}))


def _claims(source: Source) -> bool:
    return source.words is None and all(re.search(rf"^{key}\s*:", source.text, re.MULTILINE) for key in ("general", "network", "hosts"))


READER = Reader("shadow", "Shadow's YAML with its graph in GML: hosts are Linux guests, processes their programs", _claims, _read, ("flow",))
