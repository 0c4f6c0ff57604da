"""Converters: other programs' files and commands as scenarios, and results as theirs."""

from __future__ import annotations

import ast
import copy
import graphlib
import gzip
import heapq
import json
import math
import string
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import warpline
from warpline import convert
from warpline.convert import ConvertError, flent, openmetrics, shadow, tc
from warpline.convert.__main__ import main
from warpline.convert._formats import MEASURED, READERS, WRITERS
from warpline.convert._source import Options, Reader, Source

from conftest import code_of_chapter, dumbbell, links, needs_guests, write


def lost(share: float) -> dict[str, Any]:
    """Independent losses, as a scenario with its defaults has them."""
    return {"kind": "bernoulli", "probability": share}


def said(imported: convert.Imported) -> str:
    return "\n".join([*imported.assumed, *imported.left_out])


def test_no_module_is_needed_by_one_that_it_needs() -> None:
    """Imports within functions count, too."""
    needs: dict[str, set[str]] = {}
    for file in Path(convert.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("warpline.convert"):
                _, _, module = (node.module or "").partition("warpline.convert.")
                needs.setdefault(file.stem, set()).update([module] if module else [name.name for name in node.names])
    assert "_units" in needs["graph"]
    graphlib.TopologicalSorter(needs).prepare()


JUNK: tuple[Any, ...] = (None, [], {}, "", "x", "\0", "~nobody-of-this-name/x", 1, -1.5, True, [{}], [[1]], {"a": [None]}, 10**400, math.nan, math.inf)


def spoilt(data: Any) -> Iterator[Any]:
    """The data, with something else in place of each of its parts, or without it."""

    def places(part: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
            yield (*way, key)
            yield from places(part[key], (*way, key))

    for *way, last in places(data, ()):
        for junk in (*JUNK, ...):
            made = copy.deepcopy(data)
            part = made
            for key in way:
                part = part[key]
            if junk is ...:
                del part[last]
            else:
                part[last] = junk
            yield made


def taken_or_refused(read: Callable[[Path], object], file: Path, data: Any, text: Callable[[Any], str] = json.dumps) -> None:
    """Checks that data spoilt in any way is read, or refused with a `ConvertError`."""
    refused = 0
    for number, made in enumerate(spoilt(data)):
        file.write_text(text(made), encoding="utf-8")
        try:
            read(file)
        except ConvertError:
            refused += 1
    assert 0 < refused < number


# Graphs ---------------------------------------------------------------------------------------------------------------

GML = """\
    graph [
      node [ id 0 label "New York" Country "US" ]
      node [ id 1 label "Łódź" ]
      node [ id 2 label "New York" ]
      node [ id 3 label "alone" ]
      edge [ source 0 target 1 bandwidth "10 Mbit/s" latency "5 ms" packet_loss "0.5%" colour "red" ]
      edge [ source 1 target 2 speed "1 Gbit" ]
      edge [ source 1 target 2 speed "500 Mbps" delay "2ms" ]
      edge [ source 2 target 2 ]
    ]
"""


def test_an_edge_is_a_link(tmp_path: Path) -> None:
    imported = convert.read(write(tmp_path, "town.gml", GML))
    found = links(imported.scenario)
    assert set(found) == {"New-York-Łódź", "Łódź-New-York-2"}
    assert (found["New-York-Łódź"]["rate"], found["New-York-Łódź"]["delay"], found["New-York-Łódź"]["loss"]) == ("10Mbit/s", "5ms", lost(0.005))
    # Parallel edges: the sum of the rates, the shortest delay.
    assert (found["Łódź-New-York-2"]["rate"], found["Łódź-New-York-2"]["delay"]) == ("1.5Gbit/s", "1ms")
    notes = said(imported)
    assert "colour" in notes
    assert "Country" in notes
    assert "alone" in notes
    assert "itself" in notes
    assert "parallel" in notes
    (flow,) = imported.scenario.to_dict()["flow"]
    assert {flow["from"], flow["to"]} == {"New-York", "New-York-2"}


def test_a_graph_is_the_same_as_graphml_gml_and_json(tmp_path: Path) -> None:
    graph: networkx.Graph[int] = networkx.cycle_graph(5)
    networkx.set_edge_attributes(graph, {edge: {"rate": "20Mbit/s"} for edge in graph.edges})
    networkx.write_graphml(graph, tmp_path / "a.graphml")
    networkx.write_gml(graph, tmp_path / "a.gml")
    (tmp_path / "a.json").write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    made = [convert.read(tmp_path / name).scenario.to_dict()["link"] for name in ("a.graphml", "a.gml", "a.json")]
    assert made[0] == made[1] == made[2] == convert.from_networkx(graph).scenario.to_dict()["link"]
    assert convert.from_networkx(graph).scenario.run(progress=False).flows["goodput_bps"][0] > 10e6


def test_directed_edges_are_links_in_one_direction() -> None:
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_edge("a", "b", rate="8Mbit/s", delay="1ms", loss="1%")
    graph.add_edge("b", "a", rate="2Mbit/s", delay="3ms")
    graph.add_edge("b", "c", rate="1Mbit/s", delay="1ms")
    found = links(convert.from_networkx(graph).scenario)
    assert found["a-b"]["reverse"] == {"rate": "2Mbit/s", "delay": "3ms", "loss": {"kind": "none"}}
    assert found["b-c"]["to"] == "c"
    oneway: networkx.DiGraph[str] = networkx.DiGraph([("a", "b"), ("b", "c")])
    imported = convert.from_networkx(oneway)
    assert "both directions" in said(imported)
    assert all("between" in link for link in imported.scenario.to_dict()["link"])


def test_bare_numbers_need_a_unit() -> None:
    graph: networkx.Graph[str] = networkx.Graph()
    graph.add_edge("a", "b", bw=100, delay=10, loss=1)
    with pytest.raises(ConvertError, match="edge a-b: bw = 100 has no unit; name it with --rate-unit"):
        convert.from_networkx(graph)
    found = links(convert.from_networkx(graph, rate_unit="Mbit/s", delay_unit="ms", loss_unit="%").scenario)["a-b"]
    assert (found["rate"], found["delay"], found["loss"]) == ("100Mbit/s", "10ms", lost(0.01))
    graph.add_edge("a", "b", bw=1, delay=-1, loss=0)
    with pytest.raises(ConvertError, match="delay of -0.001 s"):
        convert.from_networkx(graph, rate_unit="Mbit/s", delay_unit="ms")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mtu", 9000, "mtu = 9000 has no unit; write '9000B'"),
        ("queue", 100, "queue = 100 has no unit; write '100p'"),
        ("queue", "100", "queue = '100' has no unit; write '100p'"),
        ("corrupt", 0.01, "corrupt = 0.01 has no unit; write '1%'"),
        ("jitter", 5, "jitter = 5 has no unit; write 'uniform,max=5ms'"),
        ("trace", 5, "trace = 5 is not text; write 'up.trace'"),
        ("queue", ["codel"], "queue = .'codel'. is not text; write '100p'"),
    ],
)
def test_keys_of_a_link_need_a_unit(name: str, value: Any, words: str) -> None:
    graph: networkx.Graph[str] = networkx.Graph()
    graph.add_edge("a", "b", **{name: value})
    with pytest.raises(ConvertError, match=f"edge a-b: {words}, for example"):
        convert.from_networkx(graph)


def test_keys_of_a_link_are_taken_as_they_are() -> None:
    graph: networkx.Graph[str] = networkx.Graph()
    graph.add_edge("a", "b", mtu="9000B", queue={"kind": "codel", "limit": "50p"}, corrupt="1%", jitter=0, duplicate=0.0)
    found = links(convert.from_networkx(graph).scenario)["a-b"]
    assert (found["mtu"], found["queue"]["kind"], found["queue"]["limit"], found["corrupt"]) == ("9kB", "codel", "50p", lost(0.01))
    assert not found.keys() & {"jitter", "duplicate"}
    graph.add_edge("a", "b", queue="fq_codel")
    assert links(convert.from_networkx(graph).scenario)["a-b"]["queue"]["kind"] == "fq_codel"


def test_a_trace_or_a_radio_is_in_place_of_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphs").mkdir()
    (tmp_path / "scenarios").mkdir()
    write(tmp_path, "graphs/up.trace", "10\n20\n")
    graph: networkx.MultiGraph[str] = networkx.MultiGraph()
    graph.add_edge("a", "b", trace="up.trace", delay="2ms")
    graph.add_edge("a", "b", rate="1Mbit/s", delay="7ms")
    graph.add_edge("b", "c", radio="wifi,rate=65Mbit/s")
    networkx.write_graphml(graph, tmp_path / "graphs/net.graphml")
    assert main(["import", "graphs/net.graphml", "--out", "scenarios/net.toml"]) == 0
    found = links(warpline.Scenario.load(tmp_path / "scenarios/net.toml"))
    assert (found["a-b"]["trace"], found["a-b"]["delay"]) == ("../graphs/up.trace", "2ms")
    assert found["b-c"]["radio"]["kind"] == "wifi"
    assert not any("rate" in link for link in found.values())
    # A trace and a rate have no sum.
    notes = said(convert.read(tmp_path / "graphs/net.graphml"))
    assert "cannot be added up: a-b" in notes
    assert "where the source has none (--rate)" not in notes
    both: networkx.DiGraph[str] = networkx.DiGraph()
    both.add_edge("a", "b", trace="graphs/up.trace")
    both.add_edge("b", "a", rate="3Mbit/s")
    link = links(convert.from_networkx(both).scenario)["a-b"]
    assert (link["trace"], link["reverse"]["rate"]) == ("graphs/up.trace", "3Mbit/s")


def test_units_are_those_that_there_are() -> None:
    with pytest.raises(ConvertError, match="--rate-unit furlong: it is the unit of rates that are bare numbers: Gbit/s, Mbit/s, kbit/s, bit/s"):
        convert.from_networkx(networkx.path_graph(2), rate_unit="furlong")


def test_attributes_of_other_names() -> None:
    graph: networkx.Graph[str] = networkx.Graph()
    graph.add_edge("a", "b", weight=3, km=100)
    imported = convert.from_networkx(graph, rate_from="weight", rate_unit="Gbit/s")
    assert links(imported.scenario)["a-b"]["rate"] == "3Gbit/s"
    assert "km" in said(imported)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("graph [\n node [ id 0\n edge [ ]", "bad.gml"),
        ("graph [\n node [ id 0 ]\n]", "no edge"),
        ("graph [\n node [ id 0 ]\n node [ id 1 ]\n edge [ source 0 target 1 bandwidth \"fast\" ]\n]", "bandwidth = 'fast'"),
        ('<graphml><!DOCTYPE x [<!ENTITY a "b">]></graphml>', "bad.gml:1: has entities"),
        ("<graphml><graph></graphml>", "cannot be read as a graph"),
        ('{"nodes": [], "links": [{"source": 1}]}', "cannot be read as a graph"),
    ],
)
def test_bad_graphs(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.gml"
    file.write_text(text)
    with pytest.raises(ConvertError, match=words.replace("[", r"\[")):
        convert.read(file)


def test_node_link_data_of_any_kind_is_taken_or_refused(tmp_path: Path) -> None:
    graph: networkx.MultiGraph[Any] = networkx.MultiGraph(name="town", Creator="me")
    graph.add_node("b", label="B", Latitude=1.0, Longitude=2.0)
    graph.add_edge("a", "b", rate="1Mbit/s", delay="1ms", loss="1%", queue={"kind": "codel", "limit": "5p"}, jitter=0, LinkSpeed="10", LinkSpeedUnits="G", LinkSpeedRaw=1e9)
    data = networkx.node_link_data(graph, edges="links")
    taken_or_refused(lambda file: convert.read(file, "graph").toml, tmp_path / "town.json", data)
    taken_or_refused(lambda file: convert.read(file, "topology-zoo", delay_unit="ms").toml, tmp_path / "town.json", data)


ZOO = """\
    graph [
      Creator "Topology Zoo Toolset"
      label "Small"
      node [ id 0 label "London" Latitude 51.50853 Longitude -0.12574 ]
      node [ id 1 label "Paris" Latitude 48.85341 Longitude 2.3488 ]
      node [ id 2 label "?" Internal 0 ]
      edge [ source 0 target 1 LinkSpeed "10" LinkSpeedUnits "G" LinkSpeedRaw 10000000000.0 ]
      edge [ source 0 target 1 LinkLabel "OC-48c" ]
      edge [ source 1 target 2 LinkSpeed "155" LinkSpeedUnits "M" ]
    ]
"""


def test_the_topology_zoo_has_speeds_and_distances(tmp_path: Path) -> None:
    imported = convert.read(write(tmp_path, "Small.gml", ZOO))
    found = links(imported.scenario)
    # 344 km as the crow flies, at 204 km per ms; OC-48 is 48 times 51.84 Mbit/s.
    assert 1.67 < float(found["London-Paris"]["delay"].removesuffix("ms")) < 1.70
    assert found["London-Paris"]["rate"] == "12488.32Mbit/s"
    assert found["Paris-node"]["rate"] == "155Mbit/s"
    assert found["Paris-node"]["delay"] == "1ms"
    assert imported.scenario.name == "Small"
    assert "Internal" in said(imported)
    assert links(convert.from_networkx(convert.graph.gml(textwrap.dedent(ZOO), "zoo")).scenario) == found


# Shadow ---------------------------------------------------------------------------------------------------------------

SHADOW = """\
    general:
      stop_time: 5 s
      seed: 7
      log_level: debug
    network:
      graph:
        type: gml
        inline: |
          graph [
            directed 0
            node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "50 Mbit" ]
            node [ id 1 host_bandwidth_down "10 Mbit" host_bandwidth_up "10 Mbit" ]
            edge [ source 0 target 0 latency "2 ms" packet_loss 0.0 ]
            edge [ source 0 target 1 latency "20 ms" packet_loss 0.25 ]
            edge [ source 1 target 1 latency "4 ms" packet_loss 0.0 ]
          ]
    hosts:
      server:
        network_node_id: 0
        ip_addr: 11.0.0.9
        processes:
        - path: python3
          args: -m http.server 80
          expected_final_state: running
      client: &client
        network_node_id: 1
        bandwidth_up: 5 Mbit
        host_options: { pcap_enabled: true }
        processes:
        - { path: curl, args: ["-s", "http://server/"], start_time: 1s, environment: { A: "b" } }
        - { path: tgen, args: x.graphml, start_time: 2 }
      idle: { network_node_id: 1, processes: [] }
"""


def test_shadows_paths_are_what_they_are_there(tmp_path: Path) -> None:
    imported = convert.read(write(tmp_path, "shadow.yaml", SHADOW))
    scenario = imported.scenario.to_dict()
    found = links(imported.scenario)
    assert scenario["duration"] == "5s"
    assert scenario["seed"] == 7
    assert (found["client-node1.in"]["rate"], found["node1.out-client"]["rate"]) == ("5Mbit/s", "10Mbit/s")
    assert (found["server-node0.in"]["rate"], found["node0.out-server"]["rate"]) == ("50Mbit/s", "100Mbit/s")
    assert (found["node0.in-node1.out"]["delay"], found["node0.in-node1.out"]["loss"]) == ("20ms", lost(0.25))
    # Two hosts are at node 1, and one at node 0.
    assert found["node1.in-node1.out"]["delay"] == "4ms"
    assert "node0.in-node0.out" not in found
    assert found["client-node1.in"]["record"] == ["pcap"]
    hosts = {host["name"]: host for host in scenario["host"]}
    assert set(hosts) == {"server", "client"}
    assert hosts["server"]["address"] == "11.0.0.9"
    names, curl = hosts["client"]["program"]
    assert names["name"] == "names"
    assert curl["command"] == ["curl", "-s", "http://server/"]
    assert curl["environment"] == {"A": "b"}
    assert curl["start"] == "1s"
    assert hosts["server"]["program"][1]["expect"] == "running"
    assert "tgen" in said(imported)
    assert "log_level" in said(imported)


@pytest.mark.parametrize("section", ["host_option_defaults", "host_defaults"])
def test_shadows_defaults_hold_for_hosts_that_do_not_say_otherwise(tmp_path: Path, section: str) -> None:
    text = textwrap.dedent(SHADOW).replace("hosts:\n", f"{section}: {{ pcap_enabled: true, log_level: debug }}\nhosts:\n", 1)
    text = text.replace("idle: { network_node_id: 1, processes: [] }", "idle: { network_node_id: 1, processes: [], host_options: { pcap_enabled: false, log_level: info } }")
    imported = convert.read(write(tmp_path, "shadow.yaml", text))
    recorded = {ends for ends, link in links(imported.scenario).items() if link.get("record") == ["pcap"]}
    assert recorded == {"server-node0.in", "node0.out-server", "client-node1.in", "node1.out-client"}
    assert f"{section}: log_level" in imported.left_out
    assert "of hosts' options: log_level: idle" in imported.left_out


def test_ways_through_shadows_graph_are_found_once_for_each_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = 5
    graph = "".join(f'node [ id {one} host_bandwidth_up "1 Mbit" host_bandwidth_down "1 Mbit" ]\n' for one in range(nodes))
    graph += "".join(f'edge [ source {one} target {other} latency "{one + other + 1} ms" ]\n' for one in range(nodes) for other in range(one, nodes))
    config = {
        "general": {"stop_time": "1s"},
        "network": {"graph": {"type": "gml", "inline": f"graph [\n{graph}]"}},
        "hosts": {f"h{number}": {"network_node_id": number % nodes, "processes": []} for number in range(4 * nodes)},
    }
    # JSON is YAML, too.
    file = write(tmp_path, "shadow.yaml", json.dumps(config))
    taken = 0

    def heappop(heap: list[Any]) -> Any:
        nonlocal taken
        taken += 1
        return heapq.heappop(heap)

    monkeypatch.setattr(shadow, "heapq", SimpleNamespace(heappop=heappop, heappush=heapq.heappush))
    imported = convert.read(file, "shadow")
    assert len(imported.scenario.to_dict()["link"]) == 2 * 4 * nodes + nodes * nodes
    # From each node, a node is taken once for each edge that leads to it at most, and the first one once more.
    assert nodes <= taken <= nodes * (nodes * nodes + 1)


def test_shadows_yaml_of_any_kind_is_taken_or_refused(tmp_path: Path) -> None:
    data = yaml.safe_load(textwrap.dedent(SHADOW))
    taken_or_refused(lambda file: convert.read(file, "shadow").toml, tmp_path / "shadow.yaml", data, yaml.safe_dump)
    for path in ("~nobody-of-this-name/x", "a\0b"):
        data["network"]["graph"] = {"type": "gml", "file": {"path": path}}
        (tmp_path / "shadow.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
        with pytest.raises(ConvertError, match="the graph cannot be read"):
            convert.read(tmp_path / "shadow.yaml")


@pytest.mark.parametrize("value", ['!!int ""', "!!bool x", "!!timestamp x", "!!float x", "2026-13-45"])
def test_a_value_that_is_not_what_its_tag_says_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConvertError, match="shadow.yaml: is not YAML that can be read"):
        convert.read(write(tmp_path, "shadow.yaml", f"general: {value}\nnetwork: {{}}\nhosts: {{}}\n"))


def test_shadows_switch_halves_its_latency(tmp_path: Path) -> None:
    text = "general: { stop_time: 1s }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n  a: { network_node_id: 0, processes: [] }\n  b: { network_node_id: 0, processes: [{ path: late, start_time: 9s }] }\n"
    imported = convert.read(write(tmp_path, "s.yaml", text))
    assert "when the run is over: b.late" in said(imported)
    assert {link["delay"] for link in links(imported.scenario).values()} == {"500us"}
    run = imported.scenario.run(progress=False)
    # 1 ms each way.
    assert 2.0 < run.flows["rtt_min_ms"][0] < 2.1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("stop_time: 5 s", "stop_time: soon", r"shadow.yaml:2: stop_time: 'soon'"),
        ("network_node_id: 0\n", "network_node_id: 9\n", r"shadow.yaml:19: network_node_id: 9 is not a node of the graph; there are 0, 1"),
        ("type: gml", "type: gexf", r"shadow.yaml:7: type: is 'gexf'; there are gml and 1_gbit_switch"),
        ("path: python3", "pat: python3", r"shadow.yaml:22: a process of server needs path"),
        ("expected_final_state: running", "expected_final_state: dead", r"shadow.yaml:24: expected_final_state"),
        ("latency \"20 ms\"", "latency \"x\"", r"edge from 0 to 1"),
        ("hosts:\n", "hosts: [1]\nmore:\n", r"shadow.yaml:17: hosts: is a list; it has to be a mapping"),
        ("start_time: 1s", "start_time: 1s, shutdown_time: 500ms", r"shadow.yaml:30: shutdown_time: is not after start_time"),
    ],
)
def test_errors_of_shadow_name_the_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = textwrap.dedent(SHADOW)
    assert old in text
    file = tmp_path / "shadow.yaml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ConvertError, match=words):
        convert.read(file)


@needs_guests
def test_shadows_programs_run_in_guests(tmp_path: Path) -> None:
    text = SHADOW.replace("packet_loss 0.25", "packet_loss 0.0").replace("python3", "sleep").replace("-m http.server 80", "100")
    text = text.replace('path: curl, args: ["-s", "http://server/"]', 'path: ping, args: ["-c", "2", "server"]')
    run = convert.read(write(tmp_path, "shadow.yaml", text)).scenario.run(out=tmp_path / "run", progress=False)
    assert run.failures == []
    assert "2 received" in (tmp_path / "run/programs/client.ping.stdout").read_text()
    assert "time=40" in (tmp_path / "run/programs/client.ping.stdout").read_text()


# containerlab ---------------------------------------------------------------------------------------------------------

LAB = """\
    name: lab
    topology:
      defaults: { kind: linux }
      kinds: { linux: { image: alpine } }
      nodes:
        r1: { kind: nokia_srlinux }
        pc1:
          exec:
            - ip link set eth1 up
            - tc qdisc add dev eth1 root netem delay 10ms rate 5mbit
        pc2:
      links:
        - endpoints: ["pc1:eth1", "r1:e1-1"]
        - endpoints: [{ node: r1, interface: e1-2 }, { node: pc2, interface: eth1 }]
          mtu: 1400
        - endpoints: ["r1:e1-3", "host:out"]
        - { type: macvlan, endpoint: { node: pc2, interface: eth9 } }
"""


def test_containerlabs_nodes_links_and_impairments(tmp_path: Path) -> None:
    file = write(tmp_path, "lab.clab.yml", LAB)
    script = write(tmp_path, "netem.sh", "containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms --jitter 1ms --loss 0.5 --rate 800\n")
    imported = convert.read(file, script=script)
    found = links(imported.scenario)
    assert (found["pc1-r1"]["rate"], found["pc1-r1"]["delay"]) == ("5Mbit/s", "10ms")
    assert (found["pc1-r1"]["reverse"]["rate"], found["pc1-r1"]["reverse"]["delay"]) == ("1Gbit/s", "0s")
    assert found["r1-pc2"]["mtu"] == "1.4kB"
    back = found["r1-pc2"]["reverse"]
    assert (back["rate"], back["loss"], back["delay"]) == ("800kbit/s", lost(0.005), "2ms")
    assert "nokia_srlinux" in said(imported)
    assert "out of the lab" in said(imported)
    guests = convert.read(file, guests=True).scenario.to_dict()["host"]
    assert {host["name"] for host in guests if host["endpoint"] == "guest"} == {"pc1", "pc2"}
    (flow,) = imported.scenario.to_dict()["flow"]
    assert {flow["from"], flow["to"]} == {"pc1", "pc2"}
    assert imported.scenario.run(progress=False).flows["goodput_bps"][0] > 0


def test_a_rate_that_commands_say_holds_whatever_is_assumed(tmp_path: Path) -> None:
    old = "- tc qdisc add dev eth1 root netem delay 10ms rate 5mbit"
    assert old in LAB
    text = LAB.replace(old, "- 'tc qdisc add dev eth1 root handle 1: netem loss 1% rate 10mbit'\n            - 'tc qdisc add dev eth1 parent 1: fq_codel'")
    imported = convert.read(write(tmp_path, "lab.clab.yml", text))
    link = links(imported.scenario)["pc1-r1"]
    assert (link["rate"], link["loss"], link["queue"]["kind"]) == ("10Mbit/s", lost(0.01), "fq_codel")
    assert "netem's losses and copies come behind the queue; in Linux its child has the packets that it leaves: pc1:eth1" in imported.assumed
    assert "the words do not say how fast" not in said(imported)


def test_parallel_links_of_containerlab_are_one(tmp_path: Path) -> None:
    text = """\
        name: lab
        topology:
          nodes:
            a:
              kind: linux
              exec:
                - tc qdisc add dev eth1 root netem delay 10ms rate 5mbit
                - tc qdisc add dev eth2 root netem delay 2ms loss 1% rate 3mbit
            b: { kind: linux, exec: [tc qdisc add dev eth2 root netem rate 7mbit] }
          links:
            - endpoints: ["a:eth1", "b:eth1"]
            - endpoints: ["b:eth2", "a:eth2"]
    """
    imported = convert.read(write(tmp_path, "lab.clab.yml", text), rate="100Mbit/s")
    link = links(imported.scenario)["a-b"]
    assert (link["rate"], link["delay"], link["loss"]) == ("8Mbit/s", "2ms", lost(0.01))
    # Nothing says how fast b:eth1 is.
    assert (link["reverse"]["rate"], link["reverse"]["delay"]) == ("107Mbit/s", "0s")
    assert "sum of their rates and the shortest of their delays: a-b" in said(imported)
    assert "beside the one with the shortest delay between the same nodes, apart from rates: a:eth1" in said(imported)


def test_a_later_netem_set_replaces_the_one_before(tmp_path: Path) -> None:
    script = write(tmp_path, "netem.sh", "".join(f"containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay {delay}\n" for delay in ("3ms", "4ms")))
    imported = convert.read(write(tmp_path, "lab.clab.yml", LAB), script=script)
    assert links(imported.scenario)["r1-pc2"]["reverse"]["delay"] == "4ms"
    assert "the earlier settings of a queue that a later command replaces: pc2:eth1" in imported.left_out


def test_netem_set_counts_as_a_command_only(tmp_path: Path) -> None:
    lines = ["# containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms", "ssh far 'containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms'"]
    imported = convert.read(write(tmp_path, "lab.clab.yml", LAB), script=write(tmp_path, "netem.sh", "\n".join(lines)))
    assert "reverse" not in links(imported.scenario)["r1-pc2"]
    assert f"netem set within quotation marks: {tmp_path / 'netem.sh'}:2" in imported.left_out
    with pytest.raises(ConvertError, match="netem.sh:1: netem set needs -n NODE"):
        convert.read(tmp_path / "lab.clab.yml", script=write(tmp_path, "netem.sh", "containerlab tools netem set"))


def test_the_command_takes_containerlabs_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lab.clab.yml", LAB)
    write(tmp_path, "netem.sh", "containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms\n")
    assert main(["import", "lab.clab.yml", "--script", "netem.sh", "--out", "lab.toml"]) == 0
    assert links(warpline.Scenario.load(tmp_path / "lab.toml"))["r1-pc2"]["reverse"]["delay"] == "3ms"
    assert main(["import", "lab.clab.yml", "--script", "nowhere.sh"]) == 2
    assert "nowhere.sh: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"pc1:eth1", "r1:e1-1"', '"pc1:eth1", "r9:e1-1"', r"lab.clab.yml:13: endpoints: r9:e1-1: there is no node r9; there are r1, pc1, pc2"),
        ('"pc1:eth1", "r1:e1-1"', '"pc1:eth1"', r"lab.clab.yml:13: endpoints: has 1 ends"),
        ("rate 5mbit", "rate fast", r"lab.clab.yml:8: exec:\d+: rate fast"),
        ("links:", "linkz:", "links: has no link between two nodes"),
        ("mtu: 1400", "mtu: much", r"lab.clab.yml:15: mtu: is 'much'; it has to be a number of bytes"),
        ("name: lab", "name: [", r"lab.clab.yml:3: is not YAML"),
    ],
)
def test_errors_of_containerlab_name_the_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    file = write(tmp_path, "lab.clab.yml", LAB.replace(old, new, 1))
    with pytest.raises(ConvertError, match=words):
        convert.read(file)


# mahimahi -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "up.trace", "10\n20\n")
    write(tmp_path, "down.trace", "1\n2\n2\n")
    return tmp_path


def test_mahimahis_shells_are_links_in_a_row(traces: Path) -> None:
    words = "mm-delay 20 mm-link --uplink-queue droptail --uplink-queue-args=packets=50 up.trace down.trace --downlink-queue=codel"
    imported = convert.read(f'{words} "--downlink-queue-args=packets=100, target=50, interval=100" -- mm-loss uplink 0.1 iperf -c $MAHIMAHI_BASE')
    found = links(imported.scenario)
    assert set(found) == {"inside-shell1", "shell1-outside"}
    assert found["inside-shell1"]["loss"] == lost(0.1)
    line = found["shell1-outside"]
    assert (line["trace"], line["queue"]["limit"], line["delay"]) == ("up.trace", "50p", "20ms")
    assert line["reverse"]["trace"] == "down.trace"
    assert line["reverse"]["queue"]["target"] == "50ms"
    assert "iperf" in said(imported)
    run = imported.scenario.run(progress=False)
    # 1500 bytes three times in 2 ms.
    assert 10e6 < run.flows["goodput_bps"][0] < 18e6
    assert run.flows["rtt_min_ms"][0] > 40


def test_mahimahis_command_can_be_a_program(traces: Path) -> None:
    hosts = {host["name"]: host for host in convert.read("mm-delay 5 iperf -c $MAHIMAHI_BASE", guests=True).scenario.to_dict()["host"]}
    assert hosts["inside"]["program"][0]["command"] == "iperf -c {outside}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--guests", "--flow", "outside:inside", "--", "mm-delay", "5", "iperf"], "--flow outside:inside: with --guests the traffic is that of the command"),
        (["--guests", "--", "mm-delay", "5"], "--guests: the shells have no command that could run on a guest"),
    ],
)
def test_mahimahis_options_that_exclude_each_other(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *words]) == 2
    assert message in capsys.readouterr().err


def test_paths_follow_the_file_that_is_written(traces: Path) -> None:
    (traces / "scenarios").mkdir()
    assert main(["import", "--out", "scenarios/line.toml", "--", "mm-link", "up.trace", "down.trace"]) == 0
    assert warpline.Scenario.load(traces / "scenarios/line.toml").to_dict()["link"][0]["trace"] == "../up.trace"
    assert main(["import", "down.trace", "--out", "scenarios/trace.toml"]) == 0
    assert warpline.Scenario.load(traces / "scenarios/trace.toml").to_dict()["link"][0]["reverse"]["trace"] == "../down.trace"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mm-link up.trace", "needs two traces"),
        ("mm-link up.trace nowhere.trace", "nowhere.trace: cannot be read"),
        ("mm-delay fast", "mm-delay fast"),
        ("mm-loss uplink 2", "from 0 to 1"),
        ("mm-loss sideways 0.1", "uplink or downlink"),
        ("mm-link --uplink-queue=red up.trace down.trace", "there is no queue 'red'"),
        ("mm-link --uplink-queue=codel up.trace down.trace", "target and interval"),
        ("mm-link --bogus up.trace down.trace", "no option --bogus"),
        ("mm-link up.trace bad.trace", r"bad.trace:2: '1' is not a line of a trace"),
    ],
)
def test_errors_of_mahimahi(traces: Path, words: str, message: str) -> None:
    write(traces, "bad.trace", "5\n1\n")
    with pytest.raises(ConvertError, match=message):
        convert.read(words)


# tc -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("netem delay 100ms", {"delay": "100ms"}),
        ("netem delay 100ms 10ms", {"delay": "90ms", "jitter": {"kind": "uniform", "max": "20ms", "reorder": True}}),
        ("netem delay 100ms 10ms distribution normal", {"delay": "70ms", "jitter": {"kind": "normal", "mean": "30ms", "stddev": "10ms", "reorder": True}}),
        ("netem delay 5ms 10ms", {"jitter": {"kind": "uniform", "max": "15ms", "reorder": True}}),
        ("netem loss 1%", {"loss": "1%"}),
        ("netem loss random 1", {"loss": "1%"}),
        ("netem loss 1% 25%", {"loss": {"kind": "correlated", "probability": "1%", "correlation": "25%", "form": "netem"}}),
        ("netem loss gemodel 1% 10%", {"loss": {"kind": "gilbert-elliott", "good_to_bad": "1%", "bad_to_good": "10%", "loss_bad": "100%", "loss_good": "0%"}}),
        ("netem loss state 1%", {"loss": {"kind": "four-state", "begin": "1%", "end": "99%", "pass": "0%", "lose": "100%", "alone": "0%"}}),
        ("netem duplicate 1% corrupt 0.1%", {"duplicate": "1%", "corrupt": "0.1%"}),
        ("netem delay 10ms reorder 25% 50% gap 5", {"jitter": {"kind": "overtaking", "delay": "10ms", "probability": "25%", "correlation": "50%", "form": "netem", "gap": 5}}),
        ("netem rate 10mbit 38 limit 500", {"rate": "10Mbit/s", "framing": "38B", "queue": "500p"}),
        ("netem rate 1mbps", {"rate": "8Mbit/s"}),
        ("pfifo limit 10", {"queue": {"kind": "droptail", "limit": "10p"}}),
        ("bfifo limit 10k", {"queue": {"kind": "droptail", "limit": "10240B"}}),
        # What a latency of 50 ms lets wait: 62500 bytes at 10 Mbit/s, and the burst.
        ("tbf rate 10mbit burst 32kb latency 50ms", {"queue": {"kind": "tbf", "rate": "10Mbit/s", "burst": "32768B", "limit": "95268B"}}),
        ("fq_codel limit 600 target 4ms noecn", {"queue": {"kind": "fq_codel", "limit": "600p", "target": "4ms", "ecn": False}}),
        ("cake bandwidth 20mbit besteffort metro", {"queue": {"kind": "cake", "bandwidth": "20Mbit/s", "diffserv": "besteffort", "rtt": "10ms"}}),
        ("pie alpha 2 beta 20", {"queue": {"kind": "pie", "alpha": 0.125, "beta": 1.25}}),
        ("prio bands 4", {"queue": {"kind": "priority", "classes": 4, "per_class": True}}),
    ],
)
def test_words_of_tc_are_keys_of_a_link(words: str, keys: dict[str, Any]) -> None:
    found = tc.link(words).keys
    assert {key: value for key, value in found.items() if key != "rate" or "rate" in keys} == keys
    convert.read(f"tc qdisc add dev eth0 root {words}").scenario.run(progress=False)


def test_a_shaper_of_several_commands(tmp_path: Path) -> None:
    script = """\
        #!/bin/sh
        tc qdisc del dev eth0 root; tc qdisc add dev eth0 root handle 1: htb default 20
        sudo tc class add dev eth0 parent 1: classid 1:1 htb rate 20mbit
        tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit ceil 20mbit \\
            prio 0 && tc class add dev eth0 parent 1:1 classid 1:20 htb rate 15mbit
        tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1mbit
        tc qdisc add dev eth0 parent 1:10 fq_codel limit 100
        tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 1:10
        tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 80 0xffff flowid 1:30
        tc qdisc add dev ifb0 root handle 1: tbf rate 100mbit burst 64kb latency 20ms
        tc qdisc add dev ifb0 parent 1:1 netem delay 10ms
    """
    imported = convert.read(write(tmp_path, "shape.sh", script))
    link = links(imported.scenario)["a-b"]
    assert link["queue"]["classes"] == [
        "c1-1 rate 20Mbit/s",
        "c1-10 parent c1-1 rate 5Mbit/s ceil 20Mbit/s prio 0 dscp 46 leaf fq_codel:limit=100p",
        "c1-20 parent c1-1 rate 15Mbit/s default",
        "c1-30 parent c1-1 rate 1Mbit/s class 1",
    ]
    assert link["reverse"]["queue"]["rate"] == "100Mbit/s"
    assert link["reverse"]["delay"] == "10ms"
    assert "filters" in said(imported)
    assert imported.scenario.run(progress=False).flows["goodput_bps"][0] < 15e6


def test_a_queue_inside_a_shaper() -> None:
    keys = tc.link("tc qdisc add dev e root handle 1: tbf rate 10mbit burst 10kb latency 50ms\ntc qdisc add dev e parent 1:1 fq_codel limit 100").keys
    assert keys["queue"] == {"kind": "htb", "classes": ["all rate 10Mbit/s burst 10240B cburst 10240B default leaf fq_codel:limit=100p"]}
    outer = tc.link("tc qdisc add dev e root handle 1: netem delay 5ms loss 1%\ntc qdisc add dev e parent 1: tbf rate 10mbit burst 10kb limit 30k")
    assert outer.keys["delay"] == "5ms"
    assert outer.keys["queue"]["kind"] == "tbf"
    assert outer.assumed.lines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("netem dalay 3ms", "'dalay' is not known here; there are limit, delay"),
        ("netem delay", "delay has no value behind it"),
        ("netem loss 300%", "not a percentage from 0 to 100"),
        ("netem delay 3parsec", "'3parsec' is not a time of tc, such as 20ms"),
        ("netem reorder 25%", "reorder needs a delay"),
        ("tbf rate $RATE burst 1k", "variable of a shell"),
        ("tbf rate 50%", "share of the device's speed"),
        ("tbf rate 1mbit", "needs a rate and a burst"),
        ("hfsc default 1", "the queue 'hfsc' has no counterpart"),
        ("prio bands 99", "from 2 to 16 bands"),
    ],
)
def test_errors_of_tc(words: str, message: str) -> None:
    with pytest.raises(ConvertError, match=message):
        convert.read(["tc", "qdisc", "add", "dev", "eth0", "root", *words.split()])


def test_errors_of_a_script_name_the_line(tmp_path: Path) -> None:
    file = write(tmp_path, "x.sh", "# first\ntc qdisc add dev eth0 root netem delay x\n")
    with pytest.raises(ConvertError, match=r"x.sh:2: delay x: 'x' does not begin with a number"):
        convert.read(file)
    with pytest.raises(ConvertError, match="is inside itself"):
        tc.link("tc qdisc add dev e root handle 1: tbf rate 1mbit burst 10k limit 10k\ntc qdisc add dev e parent 1: handle 1: netem delay 1ms\n" * 2)
    with pytest.raises(ConvertError, match="the devices a, b, c"):
        convert.read(write(tmp_path, "y.sh", "".join(f"tc qdisc add dev {dev} root netem delay 1ms\n" for dev in "abc")))


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("docker exec a tc qdisc", "docker exec b tc qdisc", ["docker exec a: eth0", "docker exec b: eth0"]),
        ("sudo ip netns exec h1 tc qdisc", "sudo tc -netns h2 qdisc", ["netns h1: eth0", "netns h2: eth0"]),
        ("tc qdisc", "/sbin/tc -n h1 qdisc", ["eth0", "netns h1: eth0"]),
    ],
)
def test_a_device_of_the_same_name_elsewhere_is_another(tmp_path: Path, one: str, other: str, shown: list[str]) -> None:
    text = f"{one} add dev eth0 root netem delay 10ms\n{other} add dev eth0 root netem delay 30ms loss 1%\n"
    assert list(map(str, tc.parse(Source("the file", text)))) == shown
    imported = convert.read(write(tmp_path, "two.sh", text))
    link = links(imported.scenario)["a-b"]
    assert (link["delay"], link["reverse"]["delay"], link["reverse"]["loss"]) == ("10ms", "30ms", lost(0.01))
    assert "later command" not in said(imported)
    with pytest.raises(ConvertError, match=f"the devices {', '.join(shown)}; give the words of one"):
        tc.link(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sudo -E tc", "tc"),
        ("if ! tc", "then tc"),
        ("do LANG=C sudo tc", "/usr/sbin/tc -s"),
        ("ip netns exec h1 sudo tc", "tc -net h1"),
        ("docker exec a ip netns exec h1 tc", "sudo docker exec a tc -n h1"),
    ],
)
def test_what_says_no_place_makes_no_other_device(one: str, other: str) -> None:
    text = f"{one} qdisc add dev e root handle 1: tbf rate 10mbit burst 10kb latency 50ms\n{other} qdisc add dev e parent 1: netem delay 7ms"
    keys = tc.link(text).keys
    assert (keys["queue"]["kind"], keys["delay"]) == ("tbf", "7ms")


@pytest.mark.parametrize("change", ["change dev eth0 root", "replace dev eth0 root handle 1:", "change dev eth0 handle 1:", "add dev eth0 root"])
def test_settings_that_are_replaced_are_left_out_with_a_note(tmp_path: Path, change: str) -> None:
    text = f"tc qdisc add dev eth0 root handle 1: netem delay 10ms loss 1%\ntc qdisc {change} netem delay 20ms\n"
    imported = convert.read(write(tmp_path, "phases.sh", text))
    link = links(imported.scenario)["a-b"]
    assert link["delay"] == "20ms"
    assert "loss" not in link
    place = tmp_path / "phases.sh"
    assert f"the earlier settings of a queue that a later command replaces: {place}:1" in imported.left_out


def test_a_class_that_is_changed_replaces_itself_only(tmp_path: Path) -> None:
    text = """\
        tc qdisc add dev eth0 root handle 1: htb default 2
        tc class add dev eth0 parent 1: classid 1:1 htb rate 20mbit
        tc class add dev eth0 parent 1: classid 1:2 htb rate 5mbit
        tc class change dev eth0 parent 1: classid 1:2 htb rate 7mbit
    """
    imported = convert.read(write(tmp_path, "htb.sh", text))
    lines = links(imported.scenario)["a-b"]["queue"]["classes"]
    assert [line.split(" rate ")[1].split()[0] for line in lines] == ["20Mbit/s", "7Mbit/s"]
    assert f"the earlier settings of a queue that a later command replaces: {tmp_path / 'htb.sh'}:3" in imported.left_out


_TIMES = st.builds(lambda value, unit: f"{value}{unit}", st.integers(0, 500), st.sampled_from(["ms", "us", "msec"]))
_SHARES = st.builds(lambda value, sign: f"{value / 100:g}{sign}", st.integers(0, 10_000), st.sampled_from(["%", "%"]))
_RATES = st.builds(lambda value, unit: f"{value}{unit}", st.integers(1, 900), st.sampled_from(["kbit", "mbit", "mbps", "Kibit", "000bit"]))


def _phrase(word: str, *values: st.SearchStrategy[str], least: int = 1) -> st.SearchStrategy[str]:
    return st.integers(least, len(values)).flatmap(lambda count: st.tuples(*values[:count]).map(lambda found: " ".join([word, *found])))


_NETEM = st.lists(
    st.one_of(
        _phrase("delay", _TIMES, _TIMES, _SHARES),
        _phrase("loss", _SHARES, _SHARES),
        _phrase("loss gemodel", _SHARES, _SHARES, _SHARES, _SHARES),
        _phrase("loss state", _SHARES, _SHARES, _SHARES, _SHARES, _SHARES),
        _phrase("duplicate", _SHARES, _SHARES),
        _phrase("corrupt", _SHARES, _SHARES),
        _phrase("rate", _RATES),
        _phrase("limit", st.integers(0, 10_000).map(str)),
        st.sampled_from(["distribution normal", "distribution pareto", "distribution paretonormal", "ecn"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=150)
@given(_NETEM)
def test_all_that_netem_takes_is_a_valid_link(phrases: list[str]) -> None:
    convert.read("tc qdisc add dev eth0 root netem " + " ".join(phrases)).scenario  # noqa: B018


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(["tc", "qdisc", "class", "filter", "add", "dev", "eth0", "root", "parent", "1:", "1:1", "handle", "netem", "htb", "tbf", "rate",
    "fq_codel", "delay", "10ms", "1%", "10mbit", "classid", "default", "1", "burst", "limit", "loss", "state", "gemodel", "ingress", ";", "\n", "$X", "-1", ""]), max_size=25))  # fmt: skip
def test_no_words_of_tc_break_the_parser(words: list[str]) -> None:
    for form in (" ".join(words), words):
        try:
            tc.link(form)
        except ConvertError as error:
            assert str(error)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(READERS), st.one_of(st.text(max_size=200), st.text(string.printable, max_size=300)), st.sampled_from(["", "graph [\n", "<graphml>", "general:\nnetwork:\nhosts:\n", "topology:\n", "mm-link ", "tc qdisc add ", "{\"nodes\": ", "1\n2\n"]))
def test_no_text_breaks_a_reader(reader: Any, text: str, start: str) -> None:
    source = Source("the file", start + text)
    reader.claims(source)
    try:
        reader.read(source, Options()).toml()
    except ConvertError as error:
        assert "the file" in str(error) or str(error)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=4), st.lists(st.text(min_size=1, max_size=12), min_size=2, max_size=4, unique=True))
def test_names_and_attributes_can_be_any_text(attributes: dict[str, str], names: list[str]) -> None:
    graph: networkx.Graph[str] = networkx.path_graph(names)
    networkx.set_node_attributes(graph, {names[0]: {name: value for name, value in attributes.items() if name != "label"}})
    graph.graph["name"] = names[0]
    assert len(convert.from_networkx(graph).scenario.to_dict()["link"]) == len(names) - 1


# iperf3 ---------------------------------------------------------------------------------------------------------------

STREAM = {"socket": 5, "start": 0, "end": 2.0, "seconds": 2.0, "bytes": 2_500_000, "bits_per_second": 1e7}
IPERF = {
    "start": {"connected": [{"socket": 5, "local_host": "10.0.0.1", "remote_host": "10.0.0.2"}], "test_start": {"protocol": "TCP", "reverse": 0}},
    "intervals": [{"streams": [{**STREAM, "end": 1.0, "retransmits": 2, "snd_cwnd": 14480, "rtt": 20500, "omitted": False}]}],
    "end": {
        "streams": [{"sender": {**STREAM, "retransmits": 3, "min_rtt": 20000, "mean_rtt": 21000, "max_rtt": 40000}, "receiver": {**STREAM, "bytes": 2_400_000, "bits_per_second": 9.6e6}}],
        "sender_tcp_congestion": "cubic",
    },
}


def test_iperf3_has_flows_as_results_have(tmp_path: Path) -> None:
    file = tmp_path / "iperf.json"
    file.write_text(json.dumps(IPERF))
    flows = convert.iperf3.flows(file)
    row = {name: flows[name][0] for name in flows.column_names}
    assert row["delivered_bytes"] == 2_400_000
    assert row["goodput_bps"] == 9.6e6
    assert (row["rtt_min_ms"], row["retransmitted_packets"], row["cc"], row["from"]) == (20.0, 3, "cubic", "10.0.0.1")
    known = warpline.columns("flows")
    assert list(row) == [name for name in known if name in row]
    assert flows.polars().shape == (1, len(row))
    series = convert.iperf3.series(file)
    assert (series["srtt_ms"], series["cwnd_bytes"], series["retransmits"]) == ([20.5], [14480], [2])
    lines = [{"event": "start", "data": IPERF["start"]}, *({"event": "interval", "data": one} for one in IPERF["intervals"]), {"event": "end", "data": IPERF["end"]}]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert convert.iperf3.flows(file)["goodput_bps"] == [9.6e6]
    assert main(["import", str(file), "--out", str(tmp_path / "flows.csv")]) == 0
    assert (tmp_path / "flows.csv").read_text().splitlines()[1].startswith("0,iperf3.0,iperf3,10.0.0.1")
    assert main(["import", str(file), "--out", str(tmp_path / "flows.parquet")]) == 0
    assert warpline.Table.read(tmp_path / "flows.parquet")["goodput_bps"] == [9.6e6]


def test_errors_of_iperf3(tmp_path: Path) -> None:
    for text, message in (
        ('{"error": "unable to connect", "start": {}}', "the test failed: unable to connect"),
        ('{"start": {}, "end": {"streams": []}}', "no streams"),
        ('{"start": 1}', "has no start"),
        ("nonsense", r"x.json:1: is not JSON"),
        ('{"start": {"connected": [{}]}, "end": {"streams": []}}', r"x.json: connected: \{\} has no socket, a whole number"),
        ('{"start": {}, "end": {"streams": [{"sender": 5}]}}', "x.json: sender is not the mapping that iperf3 writes"),
    ):
        file = write(tmp_path, "x.json", text)
        with pytest.raises(ConvertError, match=message):
            convert.iperf3.flows(file)


def test_iperf3s_json_of_any_kind_is_taken_or_refused(tmp_path: Path) -> None:
    data: dict[str, Any] = copy.deepcopy(IPERF)
    data["end"]["streams"].append({"udp": {**STREAM, "packets": 10, "lost_packets": 2}})
    events = [{"event": "start", "data": data["start"]}, {"event": "interval", "data": data["intervals"][0]}, {"event": "end", "data": data["end"]}]
    taken_or_refused(convert.iperf3.flows, tmp_path / "iperf.json", data)
    taken_or_refused(convert.iperf3.series, tmp_path / "iperf.json", data)
    taken_or_refused(convert.iperf3.series, tmp_path / "iperf.json", events, lambda made: "\n".join(map(json.dumps, made)))


# Writing --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> warpline.Run:
    flow = [
        {"name": "up", "from": "left", "to": "right", "count": 2},
        {"name": "down", "from": "right", "to": "left", "start": "1s"},
        {"name": "probe", "from": "left", "to": "right", "app": "cbr", "rate": "10kbit/s"},
    ]
    return dumbbell(flow=flow, duration="4s").run(progress=False)


def test_flent_opens_what_is_written(run: warpline.Run, tmp_path: Path) -> None:
    file = convert.write(run, "flent", tmp_path / "run.flent.gz")
    data = json.loads(gzip.decompress(file.read_bytes()))
    assert data["version"] == 4
    assert data["metadata"]["NAME"] == "rrul_be_nflows"
    assert data["metadata"]["TEST_PARAMETERS"] == {"upload_streams": "2", "download_streams": "1"}
    length = len(data["x_values"])
    assert all(len(values) == length for values in data["results"].values())
    total = sum(value or 0 for value in data["results"]["TCP upload sum"]) / length
    goodput = sum(goodput for name, goodput in zip(run.flows["name"], run.flows["goodput_bps"], strict=True) if name.startswith("up")) / 1e6
    assert total == pytest.approx(goodput, rel=0.05)
    assert min(value for value in data["results"]["Ping (ms) ICMP"] if value is not None) >= 20
    assert "smoothed" in data["metadata"]["NOTE"]
    assert convert.write(run, "flent", tmp_path / "again.flent.gz").read_bytes() == file.read_bytes()


def test_probes_in_both_directions_are_flents_ping(tmp_path: Path) -> None:
    probe = {"app": "cbr", "rate": "8kbit/s", "packet_size": "100B", "record": ["latency"]}
    flow = [{"from": "left", "to": "right"}, {"name": "there", "from": "left", "to": "right", **probe}, {"name": "back", "from": "right", "to": "left", **probe}]
    run = dumbbell(flow=flow, duration="4s").run(progress=False)
    data = json.loads(gzip.decompress(convert.write(run, "flent", tmp_path / "run.flent.gz").read_bytes()))
    pings = [value for value in data["results"]["Ping (ms) ICMP"] if value is not None]
    means = [mean for name, mean in zip(run.flows["name"], run.flows["latency_mean_ms"], strict=True) if name.startswith(("there", "back"))]
    assert sum(pings) / len(pings) == pytest.approx(sum(means), rel=0.05)
    assert "UDP flows in both" in data["metadata"]["NOTE"]


def test_only_tcp_is_tcp_for_flent_and_only_udp_its_ping() -> None:
    probes = {"app": "cbr", "rate": "8kbit/s", "packet_size": "100B", "record": ["latency"]}
    flow = [{"name": "ping", "from": "left", "to": "right", **probes}, {"name": "back", "from": "right", "to": "left", **probes}, {"from": "left", "to": "right"}]
    both = dumbbell(flow=flow, duration="4s").run(progress=False)

    def metadata_of(transport: str) -> dict[str, Any]:
        """Of a run whose first flow has this transport. Its flows have numbers like those of programs."""
        flows: dict[str, list[Any]] = {name: list(both.flows[name]) for name in both.flows.column_names}
        series: dict[str, list[Any]] = {name: list(both.series_flows[name]) for name in both.series_flows.column_names}
        flows["transport"][0] = transport
        flows["flow"] = [number + 2**31 for number in flows["flow"]]
        series["flow"] = [number + 2**31 for number in series["flow"]]
        changed: Any = SimpleNamespace(summary=both.summary, flows=flows, series_flows=series)
        metadata: dict[str, Any] = json.loads(gzip.decompress(flent.content(changed)))["metadata"]
        return metadata

    udp, icmp = metadata_of("udp"), metadata_of("icmp")
    assert udp["TEST_PARAMETERS"] == icmp["TEST_PARAMETERS"] == {"upload_streams": "1"}
    assert "UDP flows in both" in udp["NOTE"]
    assert "smoothed" in icmp["NOTE"]


def test_flent_itself_loads_it(run: warpline.Run, tmp_path: Path) -> None:
    resultset = pytest.importorskip("flent.resultset", reason="flent: the program")
    loaded = resultset.load(str(convert.write(run, "flent", tmp_path / "run.flent.gz")))
    assert loaded.meta("NAME") == "rrul_be_nflows"
    assert max(loaded.series("TCP upload BE::1")) > 0
    assert next(iter(loaded.raw_series("TCP upload BE::1", raw_key="tcp_cwnd")))[1] > 0


def test_a_run_without_tcp_has_nothing_for_flent(tmp_path: Path) -> None:
    run = dumbbell(flow=[{"from": "left", "to": "right", "app": "cbr", "rate": "10kbit/s"}], duration="2s").run(progress=False)
    with pytest.raises(ConvertError, match="no TCP flows"):
        convert.write(run, "flent", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConvertError, match="flent, openmetrics"):
        convert.write(run, "pdf", tmp_path / "x")


def test_openmetrics_is_what_its_parser_reads(run: warpline.Run, tmp_path: Path) -> None:
    text = convert.write(run, "openmetrics", tmp_path / "run.om").read_text()
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    goodput = families["warpline_flow_goodput_bits_per_second"]
    assert {sample.labels["flow"]: sample.value for sample in goodput.samples} == dict(zip(run.flows["name"], run.flows["goodput_bps"], strict=True))
    rtt = families["warpline_flow_rtt_min_seconds"]
    assert rtt.unit == "seconds"
    assert [sample.value for sample in rtt.samples] == [ms / 1000 for ms in run.flows["rtt_min_ms"] if ms is not None]
    series = families["warpline_link_sample_throughput_bits_per_second"].samples
    assert len(series) == len(run.series_links)
    assert families["warpline_run"].samples[0].labels["seed"] == str(run.summary["seed"])


class _Counted:
    """A table that counts how often each of its columns is asked for."""

    def __init__(self, table: warpline.Table) -> None:
        self._table = table
        self.asked: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> list[Any]:
        self.asked[name] += 1
        return self._table[name]


def test_openmetrics_takes_each_column_once_and_not_for_each_row(run: warpline.Run) -> None:
    tables = {name: _Counted(getattr(run, name)) for name in ("flows", "links", "series_flows", "series_links")}
    counted: Any = SimpleNamespace(summary=run.summary, **tables)
    assert openmetrics.content(counted) == openmetrics.content(run)
    assert len(tables["series_flows"]) > 50
    # `flows` and `links` also have the names for their series.
    assert max(max(table.asked.values()) for table in tables.values()) <= 3


# The command ----------------------------------------------------------------------------------------------------------

P2P = ("simple-p2p", "--delay=15ms", "--bandwidth=10Mbps", "--queue=25")


def test_the_command_writes_a_file_that_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write(tmp_path, "town.gml", GML), tmp_path / "town.toml"
    assert main(["import", str(file), "--out", str(out), "--flow", "1:0", "--duration", "3s"]) == 0
    assert "2 links, 1 flow" in capsys.readouterr().out
    scenario = warpline.Scenario.load(out)
    assert scenario.to_dict()["duration"] == "3s"
    assert scenario.to_dict()["flow"][0]["from"] == "Łódź"
    assert out.read_text(encoding="utf-8").startswith("# Made by `warpline import` of ")
    assert main(["import", str(file), "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["import", str(file), "--out", str(out), "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.gml"], "nowhere.gml: cannot be read"),
        (["some", "words"], "is in none of the formats"),
        (["tc", "qdisc", "add", "dev", "e", "root", "netem", "delay", "5"], ""),
        (["--rate", "fast", "tc", "qdisc", "add", "root", "netem", "delay", "5ms"], "--rate fast: 'fast' does not begin with a number"),
        (["--guests", "tc", "qdisc", "add", "root", "netem", "delay", "5ms"], "--guests means nothing to tc; it takes --duration, --rate, --flow"),
        (["--rate", "1Mbit/s", "--", *P2P], "--rate means nothing to quic-interop; it takes no options"),
        (["--duration", "60s", "--", *P2P], "--duration means nothing to quic-interop; it takes no options"),
        (["--duration", "60s", "--from", "shadow", "some", "words"], "--duration means nothing to shadow; it takes --flow"),
        ([], "name a file"),
    ],
)
def test_what_the_command_says(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *words]) == (2 if message else 0)
    assert message in capsys.readouterr().err


def test_python_refuses_options_that_mean_nothing_too() -> None:
    with pytest.raises(ConvertError, match="--duration means nothing to quic-interop; it takes no options"):
        convert.read(P2P, duration="60s")
    with pytest.raises(ConvertError, match="--guests means nothing to graph; it takes --duration, --rate"):
        convert.from_networkx(networkx.path_graph(2), guests=True)
    with pytest.raises(ConvertError, match="there are no words; name a file, or a command"):
        convert.read([])
    with pytest.raises(ConvertError, match="is not the name of a file"):
        convert.read("a\0b")
    # What is not given is not refused.
    assert convert.read(P2P, guests=False, script=None, rate=None, flow=()).toml


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_options_of_formats_are_options(reader: Reader) -> None:
    assert set(reader.takes) <= {one.name for one in fields(Options)}


def test_text_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.gml").write_bytes(b"graph [\n\xff\xfe")
    with pytest.raises(ConvertError, match=r"a.gml:2: is not text in UTF-8"):
        convert.read(tmp_path / "a.gml")


def test_every_format_stands_in_the_chapter() -> None:
    chapter = (Path(__file__).parents[2] / "docs/src/formats.md").read_text(encoding="utf-8")
    for name in [*(one.name for one in READERS), *(one.name for one in MEASURED), *(one.name for one in WRITERS)]:
        assert f"`{name}`" in chapter, name


def test_the_chapters_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: warpline.Run) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "Abilene.graphml", "")
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "Abilene.graphml")
    (tmp_path / "client.json").write_text(json.dumps(IPERF))
    exec(compile(code_of_chapter("formats.md"), "formats.md", "exec"), {"run": run, "networkx": networkx})
    assert (tmp_path / "run.flent.gz").exists()
