"""Converters of graphs, as GML, GraphML, JSON and from networkx, and of the Internet Topology Zoo."""

from __future__ import annotations

import json
import textwrap
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
from warpline import convert
from warpline.convert import ConvertError, _units
from warpline.convert.__main__ import main

from conftest import links, write
from converters import GML, lost, said, taken_or_refused


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


def test_options_of_other_kinds_are_refused_by_name_and_one_flow_is_one() -> None:
    graph = networkx.path_graph(3)
    (flow,) = convert.from_networkx(graph, rate="1Mbit/s", flow="0:2").scenario.to_dict()["flow"]
    assert (flow["from"], flow["to"]) == ("0", "2")
    options: list[tuple[dict[str, Any], str]] = [({"rate": 100}, "--rate 100: write it as text, such as '1Gbit/s'"), ({"rate_unit": 3}, "--rate-unit 3: write it as text, such as 'Mbit/s'")]
    for wrong, told in options:
        with pytest.raises(ConvertError, match=told):
            convert.from_networkx(graph, **wrong)


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


def test_quantities_are_read_and_written_exactly() -> None:
    rates = [int(_units.read_rate(text)) for text in ("100 Mbps", "100 MBps", "100 Mbit/s", "100 MbPS")]
    assert rates == [10**8, 8 * 10**8, 10**8, 10**8]
    with pytest.raises(ValueError, match="'100 MBPS' may be bits or bytes"):
        _units.read_rate("100 MBPS")
    assert _units.time(Fraction(9_007_199_254_740_993, 10**9)) == "9007199254740.993us"
    assert [_units.time(seconds) for seconds in (Fraction(3, 2), Fraction(1, 20), Fraction(0))] == ["1.5s", "50ms", "0s"]


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
    in_capitals = convert.read(write(tmp_path, "Small.gml", ZOO.replace("OC-48c", "622 MBPS")))
    assert links(in_capitals.scenario)["London-Paris"]["rate"] == "10.622Gbit/s"


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=4), st.lists(st.text(min_size=1, max_size=12), min_size=2, max_size=4, unique=True))
def test_names_and_attributes_can_be_any_text(attributes: dict[str, str], names: list[str]) -> None:
    graph: networkx.Graph[str] = networkx.path_graph(names)
    networkx.set_node_attributes(graph, {names[0]: {name: value for name, value in attributes.items() if name != "label"}})
    graph.graph["name"] = names[0]
    assert len(convert.from_networkx(graph).scenario.to_dict()["link"]) == len(names) - 1
