"""The converter of mahimahi's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpline
from warpline import convert
from warpline.convert import ConvertError
from warpline.convert.__main__ import main

from conftest import links, write
from converters import lost, said


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
