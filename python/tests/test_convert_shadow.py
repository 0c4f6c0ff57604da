"""The converter of Shadow's configurations."""

from __future__ import annotations

import heapq
import json
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from warpline import convert
from warpline.convert import ConvertError, shadow

from conftest import links, needs_guests, write
from converters import lost, said, taken_or_refused

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
