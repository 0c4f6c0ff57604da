"""containerlab's topologies: nodes and links, with impairments that commands of its nodes or of a script set.

What runs in a container is not carried: network operating systems and images cannot run here. Nodes are simulated hosts and routers; with
`guests`, those of kind linux are Linux guests, and forward if they have several links.

https://containerlab.dev/manual/topo-def-file/
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from warpline.convert import _traffic, _units, tc
from warpline.convert._draft import ConvertError, Draft, Names, differences
from warpline.convert._source import Options, Reader, Source
from warpline.convert._tc_device import REPLACED
from warpline.convert._yaml import Map, load

OUTSIDE = ("host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy")
"""Ends and types of links that lead out of the lab, or nowhere."""
BRIDGES = ("bridge", "ovs-bridge")


@dataclass
class _Link:
    """A link, with the interfaces at its ends."""

    ends: tuple[str, str]
    interfaces: list[tuple[str, str]]
    mtu: int | None


def _read(source: Source, options: Options) -> Draft:
    config = load(source)
    topology = config.map("topology")
    draft = Draft(f"{source.name} (containerlab)", config.text("name") or source.stem)
    draft.head["duration"] = options.run_time
    names = Names()
    nodes = {name: node for name, node in topology.map("nodes").maps()}
    called = {name: names.of(name) for name in nodes}
    links = list(_links(topology, nodes, draft))
    if not links:
        raise ConvertError(f"{topology.at('links')}: links: has no link between two nodes, and so there is no network")
    if rest := [key for key in config if key not in ("name", "prefix", "topology")]:
        draft.left_out.add(f"of the lab: {', '.join(rest)}")
    impaired = _impairments(topology, nodes, config, draft, options)
    ways: dict[str, dict[str, Fraction]] = {}
    for link in _merged(links, draft):
        one, other = (called[end] for end in link.ends)
        forward, backward = (_together([(at, impaired.pop(at, {})) for at in link.interfaces if at[0] == end], draft, options) for end in link.ends)
        draft.link(one, other, mtu=None if link.mtu is None else _units.size(link.mtu), **forward, reverse=differences(forward, backward))
        ways.setdefault(one, {})[other] = _delay(forward)
        ways.setdefault(other, {})[one] = _delay(backward)
    for node, interface in impaired:
        draft.left_out.add("impairments of interfaces that no link has", f"{node}:{interface}")
    draft.assumed.add(f"links have {_units.rate(_units.read_rate(options.rate))} where nothing says another rate (--rate); containerlab's have as much as the machine can")
    for name in nodes:
        if called[name] not in ways:
            draft.left_out.add("nodes without a link", name)
    _hosts(draft, topology, nodes, called, ways, options)
    # Traffic is between hosts rather than routers and bridges.
    edge = {name: ways[called[name]] for name in nodes if called[name] in ways and _kind(topology, nodes[name]) == "linux" and len(ways[called[name]]) == 1}
    if len(edge) > 1 and not options.flow:
        one, other = _traffic.far_apart(draft.source, ways)
        ends = {called[name] for name in edge}
        if not {one, other} <= ends:
            one, *_, other = [called[name] for name in edge]
        draft.assumed.add("the source has no traffic, so there is one TCP flow that sends as much as it can, between two hosts (--flow FROM:TO)")
        draft.flow(one, other)
    else:
        _traffic.add(draft, options, ways, called)
    return draft


def _kind(topology: Map, node: Map) -> str:
    """A node's kind: its own, its group's, or the default."""
    return node.text("kind") or _group(topology, node).text("kind") or topology.map("defaults").text("kind") or ""


def _group(topology: Map, node: Map) -> Map:
    """What holds for a node's group; empty if it is in none."""
    return topology.map("groups").map(node.text("group") or "")


def _commands(topology: Map, node: Map) -> list[tuple[Map, str]]:
    """The lines of `exec` that a node runs, each with the mapping that it stands in: those for all nodes, for its kind and for its group come before its own."""
    kind = topology.map("kinds").map(_kind(topology, node))
    found: list[tuple[Map, str]] = []
    for settings in (topology.map("defaults"), kind, _group(topology, node), node):
        for command in settings.list("exec"):
            if isinstance(command, (dict, list)):
                # What has ": " in it is a mapping in YAML, such as "handle 1: htb".
                raise settings.wrong("exec", "has a line that is not text; write quotation marks around a command with a colon and a space")
            found.append((settings, str(command)))
    return found


def _links(topology: Map, nodes: dict[str, Map], draft: Draft) -> Iterator[_Link]:
    for entry in topology.entries("links"):
        kind = entry.text("type") or "veth"
        if kind in OUTSIDE:
            draft.left_out.add(f"links of type {kind}, which lead out of the lab", entry.at())
            continue
        ends = [_end(entry, end) for end in entry.list("endpoints")]
        if len(ends) != 2:
            raise ConvertError(f"{entry.at('endpoints')}: endpoints: has {len(ends)} ends; a link has two, such as [\"a:eth1\", \"b:eth1\"]")
        if any(node in OUTSIDE and node not in nodes for node, _ in ends):
            draft.left_out.add("links to host, mgmt-net and macvlan, which lead out of the lab", ", ".join(":".join(end) for end in ends))
            continue
        for node, interface in ends:
            if node not in nodes:
                raise ConvertError(f"{entry.at('endpoints')}: endpoints: {node}:{interface}: there is no node {node}; there are {', '.join(list(nodes)[:12]) or 'none'}")
        if ends[0][0] == ends[1][0]:
            draft.left_out.add("links from a node to itself", ends[0][0])
            continue
        if rest := [key for key in entry if key not in ("type", "endpoints", "mtu")]:
            draft.left_out.add(f"of links: {', '.join(rest)}")
        if rest := [key for end in entry.list("endpoints") if isinstance(end, Map) for key in end if key not in ("node", "interface")]:
            draft.left_out.add(f"of links' ends: {', '.join(dict.fromkeys(rest))}")
        yield _Link((ends[0][0], ends[1][0]), ends, entry.take("mtu", int, "a number of bytes"))


def _end(entry: Map, end: Any) -> tuple[str, str]:
    if isinstance(end, Map):
        return end.text("node") or "", end.text("interface") or ""
    node, colon, interface = str(end).partition(":")
    if not colon:
        raise ConvertError(f"{entry.at('endpoints')}: endpoints: {end!r} is not NODE:INTERFACE, such as \"a:eth1\"")
    return node, interface


def _merged(links: list[_Link], draft: Draft) -> list[_Link]:
    """The links, with one in place of several between the same nodes."""
    found: dict[frozenset[str], _Link] = {}
    for link in links:
        first = found.setdefault(frozenset(link.ends), link)
        if first is not link:
            first.interfaces += link.interfaces
            if link.mtu != first.mtu:
                draft.left_out.add("the mtu of links beside the first one between the same nodes", "-".join(first.ends))
            draft.assumed.add("several links between two nodes are one, with the sum of their rates and the shortest of their delays", "-".join(first.ends))
    return list(found.values())


def _together(ways: list[tuple[tuple[str, str], dict[str, Any]]], draft: Draft, options: Options) -> dict[str, Any]:
    """What the links between two nodes are like one way, as one link: with all their rates together, and the rest of the one with the shortest delay.

    `ways` has the interface that each begins at, with what commands say of it.
    """
    _, shortest = min(ways, key=lambda way: _delay(way[1]))
    rest = _without_rate(shortest)
    for at, keys in ways:
        # Two queues are not one with the same settings: a shaper has a rate of its own.
        if keys is not shortest and (other := _without_rate(keys)) and (other != rest or "queue" in other):
            draft.left_out.add("what commands say of links beside the one with the shortest delay between the same nodes, apart from rates", ":".join(at))
    return {**shortest, "rate": _units.rate(sum((_units.read_rate(keys.get("rate", options.rate)) for _, keys in ways), Fraction(0)))}


def _without_rate(keys: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key != "rate"}


def _delay(keys: dict[str, Any]) -> Fraction:
    return _units.read_time(keys.get("delay", "0s"))


def _impairments(topology: Map, nodes: dict[str, Map], config: Map, draft: Draft, options: Options) -> dict[tuple[str, str], dict[str, Any]]:
    """What commands of tc and netem say of interfaces: keys of what they send."""
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def take(node: str, lines: Source) -> None:
        for device, queues in tc.parse(lines).items():
            made = queues.fold(None)
            at = (node, str(device))
            for notes, more in ((draft.assumed, made.assumed), (draft.left_out, made.left_out)):
                for line in more.lines():
                    notes.add(line, ":".join(at))
            if at in found:
                draft.left_out.add(REPLACED, ":".join(at))
            found[at] = made.keys

    for name, node in nodes.items():
        commands = [(settings, command) for settings, command in _commands(topology, node) if tc.SETS.search(command)]
        if commands:
            lines = [re.sub(r"^(\S*/)?(ba|a|da)?sh -l?c\s+(['\"])(.*)\3\s*$", r"\4", command, flags=re.DOTALL) for _, command in commands]
            take(name, Source(f"{commands[0][0].at('exec')}: exec", "\n".join(lines)))
    if options.script is not None:
        script = Source.file(Path(options.script))
        lab, given = config.text("name") or "", config.text("prefix")
        # With this word, containers are called after the lab alone.
        prefix = f"{lab}-" if given == "__lab-name" else f"{'clab' if given is None else given}-{lab}-"
        for number, line in enumerate(script.text.splitlines(), 1):
            words = _words(script, number, line) if re.search(r"\bnetem\s+set\b", line) else []
            at = next((at for at in range(len(words)) if words[at : at + 2] == ["netem", "set"]), None)
            if at is not None:
                container, device, words = _netem_set(script, number, words[at + 2 :])
                name = container.removeprefix(prefix)
                if name not in nodes:
                    raise ConvertError(f"{script.at(number)}: there is no node {name}; there are {', '.join(list(nodes)[:12])}")
                take(name, Source(script.at(number), "", ("qdisc", "add", "dev", device, "root", "netem", *words)))
            elif any(re.search(r"\bnetem\s+set\b", word) for word in words):
                draft.left_out.add("netem set within quotation marks", script.at(number))
            elif tc.SETS.search(line.partition("#")[0]):
                draft.left_out.add("commands of tc in the script; write them among the `exec` lines of nodes", script.at(number))
    return found


def _words(script: Source, number: int, line: str) -> list[str]:
    """The words of a line, without its comment."""
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise ConvertError(f"{script.at(number)}: {error}") from error


def _netem_set(script: Source, number: int, words: list[str]) -> tuple[str, str, list[str]]:
    """The node, the interface and netem's words, of the words behind `containerlab tools netem set`."""
    given: dict[str, str] = {}
    waiting = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    names = {"-n": "node", "-i": "interface"}
    while waiting:
        flag = waiting.pop(0)
        name = names.get(flag, flag.removeprefix("--"))
        if name not in ("node", "interface", "delay", "jitter", "loss", "rate", "corruption") or not waiting:
            raise ConvertError(f"{script.at(number)}: {flag} is not known, or has no value; there are -n NODE, -i INTERFACE, --delay, --jitter, --loss, --rate, --corruption")
        given[name] = waiting.pop(0)
    if not {"node", "interface"} <= given.keys():
        raise ConvertError(f"{script.at(number)}: netem set needs -n NODE and -i INTERFACE")
    if "jitter" in given and "delay" not in given:
        raise ConvertError(f"{script.at(number)}: --jitter needs --delay, as in containerlab; write --delay 10ms --jitter 2ms")
    netem: list[str] = []
    if "delay" in given:
        netem += ["delay", given["delay"], *([given["jitter"]] if "jitter" in given else [])]
    for name, word, unit in (("loss", "loss", "%"), ("corruption", "corrupt", "%"), ("rate", "rate", "kbit")):
        if name in given:
            netem += [word, given[name] + unit]
    return given["node"], given["interface"], netem


def _hosts(draft: Draft, topology: Map, nodes: dict[str, Map], called: dict[str, str], ways: dict[str, dict[str, Fraction]], options: Options) -> None:
    kinds: dict[str, list[str]] = {}
    shared = [("all nodes", topology.map("defaults"))]
    shared += [(f"{word} {name}", settings) for word in ("kind", "group") for name, settings in topology.map(f"{word}s").maps()]
    for whose, settings in [*nodes.items(), *shared]:
        if rest := _not_carried(settings):
            draft.left_out.add(f"of nodes: {', '.join(sorted(rest))}", whose)
    for name, node in nodes.items():
        kind = _kind(topology, node)
        kinds.setdefault(kind or "no kind", []).append(name)
        if options.guests and kind == "linux" and called[name] in ways:
            forwards = len(ways[called[name]]) > 1
            draft.host(called[name], endpoint="guest", forwards=True if forwards else None)
    for kind, of_it in kinds.items():
        if options.guests and kind == "linux":
            text = "nodes of kind linux are Linux guests of this machine's files, not of their images; with several links they forward"
        elif kind == "linux":
            text = "nodes of kind linux are simulated hosts (--guests makes them Linux guests)"
        elif kind in BRIDGES:
            text = f"nodes of kind {kind} are simulated routers, which pass packets on as a bridge does"
        else:
            text = f"nodes of kind {kind} are simulated hosts and routers: their system cannot run here"
        draft.assumed.add(text, ", ".join(of_it[:6]) + (f" and {len(of_it) - 6} more" if len(of_it) > 6 else ""))


def _not_carried(settings: Map) -> list[str]:
    """The keys of a node, a kind or a group of which something is left out."""
    all_taken = all(tc.SETS.search(str(command)) for command in settings.list("exec"))
    return [key for key in settings if key not in ("kind", "group") and not (key == "exec" and all_taken)]


def _claims(source: Source) -> bool:
    return source.words is None and re.search(r"^topology\s*:", source.text, re.MULTILINE) is not None


READER = Reader("containerlab", "a topology of containerlab: nodes and links, with netem's impairments", _claims, _read, ("duration", "rate", "flow", "guests", "script"))
