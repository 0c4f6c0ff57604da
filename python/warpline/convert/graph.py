"""Graphs: GraphML, GML and node-link JSON by NetworkX, and NetworkX's own graphs.

An edge is a link. These attributes of edges are known, however their names are spelled (`Link Speed`, `link_speed`):

- rates, delays and losses by the names in `RATES`, `DELAYS` and `LOSSES`, with a unit ("10 Mbit/s", "5ms", "1%");
- the keys of a link (`queue`, `jitter`, `mtu` and so on) as text, or as tables.

A bare number has no unit. So it is refused, and for rates, delays and losses until the options name one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline import _toml
from warpline._frames import require
from warpline._part import encode
from warpline.convert import _traffic, _units, _zoo
from warpline.convert._draft import ConvertError, Draft, File, Imported, Names, differences
from warpline.convert._source import Options, Reader, Source

if TYPE_CHECKING:
    import networkx

    Graph = networkx.Graph[Any]

RATES = ("rate", "bandwidth", "bw", "capacity", "speed", "linkspeed", "datarate")
DELAYS = ("delay", "latency", "propagationdelay", "linkdelay")
LOSSES = ("loss", "packetloss", "lossrate", "plr")
TEXTS = {
    "queue": "100p", "jitter": "uniform,max=5ms", "mtu": "9000B", "framing": "38B", "duplicate": "1%", "corrupt": "1%", "trace": "up.trace",
    "radio": "wifi,rate=65Mbit/s",
}  # fmt: skip
"""Keys of a link that an edge can have as they are, each with an example."""
NONE_IF_ZERO = ("jitter", "framing", "duplicate", "corrupt")
"""Those of which a bare 0 says that there is none."""

LARGEST = 20_000
"""Graphs with more edges are refused: that is not a network that anybody runs."""


def from_networkx(graph: Graph, name: str = "", **options: Any) -> Imported:
    """A scenario of a NetworkX graph: its edges are links, and its nodes the hosts and routers at their ends.

        imported = warpline.convert.from_networkx(networkx.petersen_graph(), rate="100Mbit/s", delay="5ms")
        run = imported.scenario.run()

    Directed edges are links in one direction. The options are those of `warpline import`.

    Raises:
        ConvertError: If an attribute cannot be understood.
    """
    known = _zoo.translated(graph) if _zoo.is_of_it(graph) else graph
    return draft(known, "a NetworkX graph", name or str(graph.graph.get("name") or "graph"), READER.options(options)).imported(Path())


def draft(graph: Graph, source: str, name: str, options: Options) -> Draft:
    """The scenario of a graph.

    Raises:
        ConvertError: If an attribute cannot be understood, or the graph has no edges between two nodes.
    """
    made = Draft(source, name)
    made.head["duration"] = options.run_time
    if graph.number_of_edges() > LARGEST:
        raise ConvertError(f"{source}: has {graph.number_of_edges()} edges; at most {LARGEST} are taken. Take a part of it with NetworkX, and convert.from_networkx")
    if graph.is_directed() and graph.number_of_nodes() == require("networkx", "convert", "reading graphs").number_strongly_connected_components(graph):
        graph = graph.to_undirected()
        made.assumed.add("edges have a direction, and no two nodes reach each other that way, so links are in both directions")
    names = Names()
    called = {node: names.of(node, _label(node, data)) for node, data in graph.nodes(data=True)}
    by_word = {str(node): name for node, name in called.items()}
    links = _links(graph, called, made, options)
    place = {ends: number for number, ends in enumerate(links)}
    ways: dict[str, dict[str, Fraction]] = {}
    for one, other, keys in _merged(links, made):
        both = graph.is_directed() and (other, one) in links
        if both and place[other, one] < place[one, other]:
            continue
        if graph.is_directed() and not both:
            made.link(one, other, oneway=True, **keys)
        elif both:
            back = _one(links[(other, one)], (other, one), made)
            made.link(one, other, **keys, reverse=differences(keys, back))
            ways.setdefault(other, {})[one] = _seconds(back)
        else:
            made.link(one, other, **keys)
            ways.setdefault(other, {})[one] = _seconds(keys)
        ways.setdefault(one, {})[other] = _seconds(keys)
        ways.setdefault(other, {})
    if not made.links:
        raise ConvertError(f"{source}: has no edge between two nodes, and so no link")
    for node, name in called.items():
        if name not in ways:
            made.left_out.add("nodes without a link", name)
        if name != str(_label(node, graph.nodes[node])):
            made.assumed.add("names have letters, digits, -, _ and . only, and are different from each other; other characters became dashes, and numbers were added")
    _unused(graph, made, options)
    _traffic.add(made, options, ways, by_word)
    return made


def _label(node: object, data: dict[str, Any]) -> object:
    label = data.get("label")
    return node if label is None or not str(label).strip() else label


def _plain(name: object) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _links(graph: Graph, called: dict[Any, str], made: Draft, options: Options) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The keys of every link, by its ends; several where edges are parallel."""
    links: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one, other, data in graph.edges(data=True):
        ends = called[one], called[other]
        if one == other:
            made.left_out.add("edges from a node to itself", ends[0])
            continue
        if not graph.is_directed() and (ends[1], ends[0]) in links:
            ends = ends[1], ends[0]
        links.setdefault(ends, []).append(_keys(data, made, options, "-".join(ends)))
    return links


def _keys(data: dict[str, Any], made: Draft, options: Options, place: str) -> dict[str, Any]:
    def read(what: str, named: str | None, usual: tuple[str, ...], parse: Callable[[str], Fraction], units: dict[str, Any], unit: str | None) -> Fraction | None:
        found = [(name, value) for name, value in data.items() if (str(name) == named if named else _plain(name) in usual) and str(value).strip() not in ("", "None")]
        if not found:
            return None
        name, value = found[0]
        if further := [str(other) for other, said in found[1:] if str(said).strip() != str(value).strip()]:
            made.left_out.add(f"{', '.join(further)} of edges, where {name} says the {what}", place)
        where = f"{made.source}: edge {place}: {name} = {value!r}"
        bare = isinstance(value, (int, float)) or _is_number(str(value))
        try:
            if bare and _is_zero(value):
                return Fraction(0)
            if bare and unit is None:
                raise ConvertError(f"{where} has no unit; name it with --{what}-unit ({', '.join(units)})")
            return _units.number(_text(value)) * units[unit] if bare and unit is not None else parse(str(value))
        except ValueError as error:
            raise error if isinstance(error, ConvertError) else ConvertError(f"{where}: {error}") from error

    keys: dict[str, Any] = {}
    as_they_are = _as_they_are(data, made, place)
    rate = read("rate", options.rate_from, RATES, _units.read_rate, dict(_units.RATES), options.rate_unit)
    if rate is not None:
        if not 1 <= rate <= _units.MOST_RATE:
            raise ConvertError(f"{made.source}: edge {place}: a rate of {float(rate):g} bit/s is none that a link can have")
        keys["rate"] = _units.rate(rate)
    elif not as_they_are.keys() & {"trace", "radio"}:
        made.assumed.add(f"rate {options.link_rate} where the source has none (--rate)", place)
        keys["rate"] = options.link_rate
    delay = read("delay", options.delay_from, DELAYS, _units.read_time, dict(_units.TIMES), options.delay_unit)
    if delay is None:
        made.assumed.add(f"delay {options.link_delay} where the source has none (--delay)", place)
    elif not 0 <= delay <= 3600:
        raise ConvertError(f"{made.source}: edge {place}: a delay of {float(delay):g} s is none that a link can have")
    keys["delay"] = options.link_delay if delay is None else _units.time(delay)
    loss = read("loss", None, LOSSES, _percent, {"%": Fraction(1, 100), "share": Fraction(1)}, options.loss_unit)
    if loss is not None and not 0 <= loss <= 1:
        raise ConvertError(f"{made.source}: edge {place}: a loss of {float(loss) * 100:g} % is not from 0 to 100 %")
    if loss:
        keys["loss"] = _units.percent(loss)
    return {**keys, **as_they_are}


def _as_they_are(data: dict[str, Any], made: Draft, place: str) -> dict[str, Any]:
    """The keys of a link that an edge has as they are."""
    keys: dict[str, Any] = {}
    for name, value in data.items():
        key = _plain(name)
        if key not in TEXTS or str(value).strip() in ("", "None"):
            continue
        bare = isinstance(value, (int, float)) or _is_number(str(value))
        if bare and _is_zero(value) and key in NONE_IF_ZERO:
            continue
        if isinstance(value, dict):
            keys[key] = _table(value, f"{made.source}: edge {place}: {name}")
        elif isinstance(value, str) and (key == "trace" or not bare):
            keys[key] = File(value.strip()) if key == "trace" else value.strip()
        else:
            wrong = "has no unit" if bare and key not in ("trace", "radio") else "is not text"
            raise ConvertError(f"{made.source}: edge {place}: {name} = {value!r} {wrong}; write {TEXTS[key]!r}, for example")
    return keys


def _table(value: dict[str, Any], where: str) -> Any:
    """A table as plain data, of what a scenario can have."""
    try:
        plain = encode(value)
        _toml.text(plain)
    except (TypeError, ValueError) as error:
        raise ConvertError(f"{where}: {error}") from error
    return plain


def _is_zero(value: object) -> bool:
    """Whether a number, or the text of one, is 0."""
    return value == 0 if isinstance(value, (int, float)) else _units.number(str(value)) == 0


def _is_number(text: str) -> bool:
    try:
        _units.number(text)
    except ValueError:
        return False
    return True


def _text(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number")
    return str(value)


def _percent(text: str) -> Fraction:
    value, unit = _units.split(text)
    if unit != "%":
        raise ValueError(f"{text!r} is not a percentage with its sign, such as \"1%\"")
    return value / 100


def _seconds(keys: dict[str, Any]) -> Fraction:
    return _units.read_time(keys["delay"])


def _merged(links: dict[tuple[str, str], list[dict[str, Any]]], made: Draft) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for (one, other), parallel in links.items():
        yield one, other, _one(parallel, (one, other), made)


def _one(parallel: list[dict[str, Any]], ends: tuple[str, str], made: Draft) -> dict[str, Any]:
    """One link of several between two nodes, which have at most one: with all their rates together if all have one, and the shortest delay."""
    if len(parallel) == 1:
        return parallel[0]
    shortest = min(parallel, key=_seconds)
    if not all("rate" in keys for keys in parallel):
        made.left_out.add("parallel edges beside the one with the shortest delay, where one has a trace or a radio, which cannot be added up", "-".join(ends))
        return shortest
    rest = _without_rate(shortest)
    for keys in parallel:
        # Two queues are not one with the same settings.
        if keys is not shortest and (other := _without_rate(keys)) and (other != rest or "queue" in other):
            made.left_out.add("what parallel edges beside the one with the shortest delay say, apart from rates and delays", "-".join(ends))
    made.assumed.add("parallel edges are one link, with the sum of their rates and the shortest of their delays", "-".join(ends))
    return {**shortest, "rate": _units.rate(sum((_units.read_rate(keys["rate"]) for keys in parallel), Fraction(0)))}


def _without_rate(keys: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key not in ("rate", "delay")}


def _unused(graph: Graph, made: Draft, options: Options) -> None:
    """Says which attributes nothing was made of."""
    # Where an option names an attribute, the usual names mean nothing.
    known = {*(() if options.rate_from else RATES), *(() if options.delay_from else DELAYS), *LOSSES, *TEXTS}
    named = (options.rate_from, options.delay_from)
    for what, attributes in (
        ("edges", {str(name): None for *_, data in graph.edges(data=True) for name in data if _plain(name) not in known and str(name) not in named}),
        ("nodes", {str(name): None for _, data in graph.nodes(data=True) for name in data if name != "label"}),
        ("the graph", {str(name): None for name in graph.graph if name not in ("name", "label", "node_default", "edge_default")}),
    ):
        if attributes:
            made.left_out.add(f"attributes of {what} that a scenario has no place for: {', '.join(sorted(attributes))}")


# Files -----------------------------------------------------------------------------------------------------------------


def is_graphml(source: Source) -> bool:
    """Whether it is GraphML."""
    return source.words is None and re.match(r"\s*<", source.text) is not None and "<graphml" in source.text[:100_000]


def is_gml(source: Source) -> bool:
    """Whether it is GML: a `graph`, with comments and lines `Name value` before it."""
    if source.words is not None:
        return False
    for line in source.text[:100_000].splitlines():
        if re.match(r"\s*graph\s*(\[|$)", line):
            return True
        if not re.match(r"\s*($|#|[A-Za-z]\w*\s+\S)", line):
            return False
    return False


def is_node_link(source: Source) -> bool:
    """Whether it is NetworkX's node-link data in JSON."""
    return source.words is None and source.text.lstrip().startswith("{") and re.search(r'"nodes"\s*:', source.text) is not None and re.search(r'"source"\s*:', source.text) is not None


def parse(source: Source) -> Graph:
    """The graph of a file.

    Raises:
        ConvertError: With the place and what is wrong.
        MissingDependencyError: If NetworkX is not installed.
    """
    networkx = require("networkx", "convert", "reading graphs")
    if is_graphml(source):
        return _parsed(source, lambda: networkx.parse_graphml(_checked(source)))
    if is_gml(source):
        return gml(source.text, source.name)
    return _parsed(source, lambda: _node_link(networkx, source))


def gml(text: str, name: str) -> Graph:
    """The graph of GML text, which errors call `name`. Parallel edges are taken also where the file does not announce them.

    Raises:
        ConvertError: With the place and what is wrong.
    """
    networkx = require("networkx", "convert", "reading graphs")
    source = Source(name, text)

    def read() -> Graph:
        try:
            found: Graph = networkx.parse_gml(text, label="id")
        except networkx.NetworkXError as error:
            if "is duplicated" not in str(error):
                raise
            found = networkx.parse_gml(re.sub(r"(?m)^(\s*graph\s*\[)", r"\1 multigraph 1 ", text, count=1), label="id")
        return found

    return _parsed(source, read)


def _parsed(source: Source, read: Callable[[], Graph]) -> Graph:
    """What `read` gives; all that NetworkX can raise for a bad file as one kind of error."""
    try:
        return read()
    except ConvertError:
        raise
    except (Exception, RecursionError) as error:
        # NetworkX raises errors of many kinds for files that are not as it expects.
        text = str(error).strip() or type(error).__name__
        found = re.search(r"line (\d+)|\((\d+), \d+\)", text)
        place = source.at(int(found[1] or found[2])) if found else source.name
        raise ConvertError(f"{place}: cannot be read as a graph: {text}; it has to be GraphML, GML, or node-link data in JSON, as NetworkX writes them") from error


def _checked(source: Source) -> str:
    """The text, unless it has entities: those can make a small file large."""
    if "<!ENTITY" in source.text:
        line = source.text[: source.text.index("<!ENTITY")].count("\n") + 1
        raise ConvertError(f"{source.at(line)}: has entities (<!ENTITY ...>), which are not read; write the text in their place")
    # The XML declaration names an encoding, and this is text already.
    return re.sub(r"^\s*<\?xml[^>]*\?>", "", source.text)


def _node_link(networkx: Any, source: Source) -> Graph:
    data = json.loads(source.text)
    edges = "links" if "links" in data else "edges"
    if not isinstance(data.get("graph", {}), dict):
        raise ValueError("`graph` is not a mapping of attributes")
    graph: Graph = networkx.node_link_graph(data, edges=edges)
    return graph


def _read(source: Source, options: Options) -> Draft:
    graph = parse(source)
    return draft(graph, source.name, str(graph.graph.get("name") or source.stem), options)


def _claims(source: Source) -> bool:
    return is_graphml(source) or is_gml(source) or is_node_link(source)


TAKES = ("duration", "rate", "delay", "flow", "rate_from", "delay_from", "rate_unit", "delay_unit", "loss_unit")
READER = Reader("graph", "a graph as GraphML, GML or NetworkX's node-link JSON: edges are links", _claims, _read, TAKES)
