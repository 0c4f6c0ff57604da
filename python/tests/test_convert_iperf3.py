"""The converter of iperf3's results."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import convert
from warpline.convert import ConvertError
from warpline.convert.__main__ import main

from conftest import write
from converters import IPERF, STREAM, taken_or_refused


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
