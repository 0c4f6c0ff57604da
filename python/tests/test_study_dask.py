"""Studies on a Dask cluster: a scheduler and two workers, of which one is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpline.study import StudyError, _store, dask
from warpline.study.__main__ import main

from conftest import child_environment

#: Each run says which process makes it, and waits until it may go on.
SLOW = """\
    import os, time
    from pathlib import Path
    from warpline import study

    def model(at):
        with (Path(__file__).parent / "ran.txt").open("a") as out:
            out.write(f"{os.getpid()} {at['x']}\\n")
        while not (Path(__file__).parent / "go").exists():
            time.sleep(0.05)
        return {"y": 2 * at["x"]}

    FIGURE = study.Figure(
        name="line",
        title="A line",
        model=model,
        points=study.grid(x=list(range(1, 17))),
        claims=[study.Claim(text="it rises", ours=lambda results: results.rising("y", "x"), theirs=16, bound=study.within(0.01))],
        quick=study.quick(),
    )
"""


def await_(what: str, found: Any, seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds} s")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its two workers, of one thread each."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    log = (tmp_path / "dask.log").open("wb")
    begun: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-m", "dask", *words], env=child_environment(), cwd=tmp_path, stdout=log, stderr=log))
        return begun[-1]

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        await_("scheduler", file.exists)
        address: str = await_("address", lambda: json.loads(file.read_text() or "{}").get("address"))
        workers = [start("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", f"worker-{number}") for number in (1, 2)]
        await_("workers", lambda: (tmp_path / "dask.log").read_bytes().count(b"Registered to") >= 2)
        yield address, workers
    finally:
        for process in begun[::-1]:
            process.kill()
            process.wait()
        log.close()


def test_a_worker_that_is_killed_costs_no_results(tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]) -> None:
    address, workers = cluster
    file = tmp_path / "mine.py"
    file.write_text(textwrap.dedent(SLOW))
    log = tmp_path / "ran.txt"
    study = subprocess.Popen(
        [sys.executable, "-m", "warpline.study", "run", str(file), "--dask", address], env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def makers() -> set[int]:
        return {int(line.split()[0]) for line in log.read_text().splitlines()} if log.exists() else set()

    # Both work; then one dies in the middle of a run, and the other goes on.
    await_("runs by both workers", lambda: len(makers()) == 2)
    victim = workers[0]
    assert victim.pid in makers()
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    (tmp_path / "go").touch()
    out, errors = study.communicate(timeout=240)
    assert study.returncode == 0, out + errors
    assert "1 met" in out
    assert len(_store.Store(tmp_path / "results/line.parquet")._runs) == 16
    lines = log.read_text().splitlines()
    made = [int(line.split()[1]) for line in lines]
    assert sorted(set(made)) == list(range(1, 17)) and len(made) > 16, "what the killed worker had begun was made again"
    assert int(lines[-1].split()[0]) == workers[1].pid


def test_a_scheduler_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("warpline.study._work.PATIENCE_S", 1)
    file = tmp_path / "mine.py"
    file.write_text(textwrap.dedent(SLOW))
    assert main(["run", str(file), "--dask", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler at tcp://127.0.0.1:9" in capsys.readouterr().err
    assert main(["run", str(file), "--dask", "nonsense:"]) == 2
    assert "no Dask scheduler at nonsense:" in capsys.readouterr().err


def test_a_server_that_is_no_scheduler_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("warpline.study._work.PATIENCE_S", 1)
    file = tmp_path / "mine.py"
    file.write_text(textwrap.dedent(SLOW))
    # One that takes calls, and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["run", str(file), "--dask", address]) == 2
    assert f"no Dask scheduler at {address}: nothing answers as one does" in capsys.readouterr().err


def test_a_scheduler_without_workers_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster: tuple[str, list[subprocess.Popen[bytes]]]) -> None:
    address, workers = cluster
    with dask(address):
        assert capsys.readouterr().err == ""
    distributed: Any = pytest.importorskip("distributed")
    with distributed.Client(address) as client:
        (worker, _) = client.scheduler_info()["workers"]
        with pytest.raises(StudyError, match=f"no Dask scheduler at {worker}: it is a worker"), dask(worker):
            pass
        for process in workers:
            process.kill()
            process.wait()
        await_("no workers", lambda: not client.scheduler_info()["workers"])
    with dask(address):
        assert capsys.readouterr().err == f"the Dask scheduler at {address} has no workers; runs wait until there are some\n"
