"""Results as the files of other programs: Flent and OpenMetrics; and the code of the chapter on formats."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import warpline
from warpline import convert
from warpline.convert import ConvertError, flent, openmetrics

from conftest import code_of_chapter, dumbbell, write
from converters import IPERF


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


def test_the_chapters_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: warpline.Run) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "Abilene.graphml", "")
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "Abilene.graphml")
    (tmp_path / "client.json").write_text(json.dumps(IPERF))
    exec(compile(code_of_chapter("formats.md"), "formats.md", "exec"), {"run": run, "networkx": networkx})
    assert (tmp_path / "run.flent.gz").exists()
