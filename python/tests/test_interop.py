"""The network simulator of the QUIC interop runner: its scenarios, and its container's script between two namespaces."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_live

from warpline import convert

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "target/debug/warpline"
BASE = "--delay=15ms --bandwidth=10Mbps --queue=25"


def link(words: str) -> dict[str, Any]:
    """The bottleneck of a scenario."""
    found: dict[str, Any] = convert.read(words).scenario.to_dict()["link"][0]
    return found


def test_scenarios_of_the_runner() -> None:
    assert link(f"simple-p2p {BASE}") == link(f"blackhole {BASE} --on=1s --off=1s --repeat=0") == link(f"tcp-cross-traffic {BASE}")
    plain = link(f"simple-p2p {BASE}")
    assert (plain["rate"], plain["delay"]) == ("10Mbit/s", "15ms")
    lossy = link(f"drop-rate {BASE} --rate_to_client=10 --rate_to_server=0 --burst_to_client=3")
    assert "loss" not in lossy and lossy["reverse"]["loss"] == {"kind": "bernoulli", "probability": 0.1, "longest": 3}
    assert link(f"droplist {BASE} --drops_to_server=1,3,4")["loss"]["packets"] == [1, 3, 4]
    down = link(f"blackhole {BASE} --on=10s --off=3s --repeat=2 --direction=toserver")
    assert [one["at"] for one in down["down"]] == ["10s", "23s"] and down["reverse"].get("down", []) == []
    flows = convert.read(f"tcp-cross-traffic {BASE}").scenario.to_dict()["flow"]
    assert ("right", "left") in [(flow["from"], flow["to"]) for flow in flows]
    flows = convert.read(f"udp-cross-traffic {BASE} --crossdatarate=5.12Mbps").scenario.to_dict()["flow"]
    (cross,) = [flow for flow in flows if (flow["from"], flow["to"]) == ("left", "right")]
    assert (cross["transport"], cross["rate"], cross["packet_size"], cross["start"]) == ("udp", "5.4Mbit/s", "540B", "20s")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("simple-p2p --delay=15ms --queue=25", "--bandwidth is missing"),
        (f"simple-p2p {BASE} --loss=3", "has no option --loss"),
        (f"udp-cross-traffic {BASE}", "--crossdatarate is missing"),
        (f"drop-rate {BASE} --rate_to_client=101 --rate_to_server=1", "above 100"),
        (f"blackhole {BASE} --on=1s --off=1s --direction=up", "both, toclient or toserver"),
        ("simple-p2p --delay=fast --bandwidth=10Mbps --queue=25", "--delay=fast"),
    ],
)
def test_what_is_wrong_is_said(words: str, message: str) -> None:
    with pytest.raises(convert.ConvertError, match=message):
        convert.read(words)


def test_the_client_gets_a_nat_that_changes_its_bindings() -> None:
    def client(words: str) -> Any:
        read = convert.read(f"rebind {BASE} {words}", "quic-interop").scenario.to_dict()
        return next(host for host in read["host"] if host["name"] == "client")["rebind"]

    assert client("--first-rebind=1s") == {"first": "1s"}
    assert client("--first-rebind=1s --rebind-freq=5s --rebind-addr") == {"first": "1s", "every": "5s", "addresses": "193.167.0.128/25"}
    assert "addresses" not in client("--first-rebind=1s --rebind-addr=false")
    with pytest.raises(convert.ConvertError, match="--first-rebind is missing"):
        client("")
    with pytest.raises(convert.ConvertError, match="--rebind-addr=maybe: is neither true nor false"):
        client("--first-rebind=1s --rebind-addr=maybe")
    with pytest.raises(convert.ConvertError, match="options have the form --name=value"):
        client("--first-rebind")


def test_a_scenario_that_is_not_there_is_named() -> None:
    with pytest.raises(convert.ConvertError, match="there is no scenario 'satellite'; there are simple-p2p"):
        convert.read(f"satellite {BASE}", "quic-interop")


WAIT = ROOT / "containers/quic-interop/wait_for_quic.py"


def test_a_server_is_waited_for_until_it_answers_with_its_versions() -> None:
    # By RFC 8999, section 6: the identifiers come back exchanged. It begins a while after it is first asked, and first answers something else.
    serve = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
time.sleep(1)
s.bind(("127.0.0.1", int(sys.argv[1])))
data, place = s.recvfrom(2000)
s.sendto(b"?" * 40, place)
while True:
    data, place = s.recvfrom(2000)
    assert len(data) >= 1200 and data[0] >= 0xC0 and int.from_bytes(data[1:5], "big") & 0x0F0F0F0F == 0x0A0A0A0A
    ours = data[5 : 6 + data[5]]
    theirs = data[5 + len(ours) :][: 1 + data[5 + len(ours)]]
    s.sendto(bytes([0x80, 0, 0, 0, 0]) + theirs + ours + bytes([0, 0, 0, 1]), place)
"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", serve, str(port)]) as server:
        waited = subprocess.run([sys.executable, WAIT, f"127.0.0.1:{port}"], timeout=60, check=False)
        server.kill()
    assert waited.returncode == 0 and time.monotonic() - began >= 1


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("wait_for_quic", WAIT)
    assert spec is not None and spec.loader is not None
    waiting = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(waiting)
    monkeypatch.setattr(waiting, "PATIENCE", 1.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{mute.getsockname()[1]}"
        monkeypatch.setattr(sys, "argv", [str(WAIT), place])
        assert waiting.main() == 1
    assert f"{place} has not answered a QUIC packet within 1 s" in capsys.readouterr().err
    assert subprocess.run([sys.executable, WAIT, "server"], capture_output=True, timeout=60, check=False).returncode == 2


NAMES = {"sim": "wlqi-sim", "client": "wlqi-client", "server": "wlqi-server"}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def within(name: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", NAMES[name], *words]


@pytest.fixture
def network() -> Iterator[None]:
    """The runner's three machines, as namespaces: the simulator has eth0 and eth1."""
    for name in NAMES.values():
        ip("netns", "add", name)
    try:
        for name, device, third in (("client", "eth0", "0"), ("server", "eth1", "100")):
            ip("link", "add", f"wlqi{third}", "netns", NAMES["sim"], "type", "veth", "peer", "name", "eth0", "netns", NAMES[name])
            ip("-n", NAMES["sim"], "link", "set", f"wlqi{third}", "name", device, "up")
            ip("-n", NAMES["sim"], "address", "add", f"193.167.{third}.2/24", "dev", device)
            ip("-n", NAMES[name], "link", "set", "eth0", "up")
            ip("-n", NAMES[name], "address", "add", f"193.167.{third}.100/24", "dev", "eth0")
            ip("-n", NAMES[name], "route", "add", "default", "via", f"193.167.{third}.2")
        yield
    finally:
        for name in NAMES.values():
            ip("netns", "delete", name)


NAT = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
while socket.socket().connect_ex(("193.167.0.2", 57832)): time.sleep(0.2)
seen = []
while len(seen) < 3:
    s.sendto(b"who", ("193.167.100.100", 443))
    try:
        place = s.recv(2000)
    except TimeoutError:
        continue
    if place not in seen: seen.append(place)
    time.sleep(0.1)
print("ok")
"""
TELL = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 443)); print('up', flush=True)\nwhile True: data, place = s.recvfrom(2000); s.sendto(repr(place).encode(), place)"
ECHO = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 443)); print('up', flush=True)\nwhile True: s.sendto(*s.recvfrom(2000))"
ASK = """
import socket, time
while socket.socket().connect_ex(("193.167.0.2", 57832)): time.sleep(0.2)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
for number in range(10):
    began = time.monotonic()
    s.sendto(bytes([number]) * 1200, ("193.167.100.100", 443))
    assert s.recv(2000) == bytes([number]) * 1200
    assert time.monotonic() - began >= 0.03, "there and back, 15 ms each"
print("ok")
"""


@needs_live
@pytest.mark.skipif(shutil.which("dumpcap") is None, reason="program: dumpcap")
@pytest.mark.skipif(not PROGRAM.exists(), reason="program: target/debug/warpline, which `cargo build` makes")
@pytest.mark.parametrize(
    ("scenario", "serve", "ask"),
    [(f"simple-p2p {BASE}", ECHO, ASK), (f"rebind {BASE} --first-rebind=500ms --rebind-freq=1s --rebind-addr", TELL, NAT)],
    ids=["simple-p2p", "rebind"],
)
def test_the_containers_script_carries_datagrams_and_keeps_captures(network: None, tmp_path: Path, scenario: str, serve: str, ask: str) -> None:
    environment = {**os.environ, "SCENARIO": scenario, "LOGS": str(tmp_path), "WARPLINE_PYTHON": sys.executable}
    environment["PATH"] = f"{PROGRAM.parent}:{environment['PATH']}"
    script = within("sim", "bash", str(ROOT / "containers/quic-interop/run.sh"))
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(script, env=environment, stdout=log, stderr=log) as simulator:
        try:
            # Both captures have begun before anything is sent.
            captures = [tmp_path / f"trace_node_{side}.pcap" for side in ("left", "right")]
            end = time.monotonic() + 60
            while not all(capture.exists() for capture in captures):
                assert time.monotonic() < end and simulator.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.05)
            with subprocess.Popen(within("server", sys.executable, "-c", serve), stdout=subprocess.PIPE) as server:
                assert server.stdout is not None and server.stdout.readline() == b"up\n"
                asked = subprocess.run(within("client", sys.executable, "-c", ask), stdout=subprocess.PIPE, timeout=120, check=False)
                server.kill()
            assert asked.stdout == b"ok\n", (tmp_path / "log").read_text()
        finally:
            simulator.send_signal(signal.SIGTERM)
            assert simulator.wait(60) == 128 + signal.SIGTERM
    for name in ("trace_node_left.pcap", "trace_node_right.pcap", "run/summary.json"):
        assert (tmp_path / name).stat().st_size > 1000, name
