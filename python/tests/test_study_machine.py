"""Runs of a study that need the machine, and what it cannot run."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import study
from warpline._pool import cloud_dumps
from warpline.study import _machine, _registry, _report, _runner, _store

from conftest import child_environment, dumbbell, needs_guests
from studies import PURE, declare, ran, NETWORK


@pytest.fixture(autouse=True)
def other_studies(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests do not wait for studies of this machine that are no tests: their lock is elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


ALONE = PURE.replace("        return {", "        with (Path(__file__).parent / 'ran.txt').open('a') as out:\n            out.write('end\\n')\n        return {").replace(
    "seeds=2", "seeds=2, alone=True"
)


def test_runs_that_need_the_machine_are_made_one_at_a_time_and_say_which_it_was(tmp_path: Path) -> None:
    (done,) = study.run(str(declare(tmp_path, ALONE)), jobs=4)
    assert [line == "end" for line in (tmp_path / "ran.txt").read_text().splitlines()] == [False, True] * 6
    (machine,) = done.judged.kept.machines
    assert machine.startswith(_machine.name()) and "other work kept" in machine
    assert f"on {machine}" in _report.text(done.judged)
    table = warpline.Table.read(tmp_path / "results/line.parquet")
    assert set(table["machine"]) == {_machine.name()} and all(isinstance(value, float) for column in _machine.COLUMNS[1:] for value in table[column])
    # It is no measure.
    assert {*done.judged.kept.results.cells[0].samples} == {"y"}
    (plain,) = study.run(str(declare(tmp_path, PURE.replace('name="line"', 'name="plain"'), "other.py")), jobs=1)
    assert plain.judged.kept.machines == []


def test_runs_that_need_the_machine_are_made_at_once_where_they_leave_room(tmp_path: Path) -> None:
    # Each waits until another one has begun.
    meet = "import time\n        began = Path(__file__).parent / f'began-{at[\"seed\"]}-{at[\"x\"]}'\n        began.touch()\n        until = time.monotonic() + 20\n        while len(list(began.parent.glob('began-*'))) < 2:\n            assert time.monotonic() < until, 'alone'\n            time.sleep(0.01)\n        "
    text = PURE.replace("        return {", f"        {meet}return {{").replace("seeds=2", "seeds=2, alone=True, cpus=0.1")
    (done,) = study.run(str(declare(tmp_path, text)))
    assert not done.failures
    assert done.judged.kept.machines


#: A machine that can do it is one where the file `able` is.
UNABLE = PURE.replace("        return {", "        if at['x'] == 2 and not (Path(__file__).parent / 'able').exists():\n            raise study.Unable('too slow')\n        return {")


@pytest.mark.parametrize("seeds", ["seeds=2, alone=True", "seeds=2"])
def test_what_a_machine_cannot_run_is_a_result_and_is_tried_again(tmp_path: Path, seeds: str) -> None:
    declare(tmp_path, UNABLE.replace("seeds=2", seeds))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [(failure.point, failure.seed, failure.error) for failure in done.failures] == [({"x": 2}, seed, "too slow") for seed in (1, 2)]
    assert not done.good
    # Nothing is missing, so that the verdict is final.
    assert done.judged.kept.missing == 0 and [verdict.state for verdict in done.judged.verdicts] == ["met"]
    assert done.judged.kept.unable == ["2 runs could not be made (x 2): too slow"]
    assert "2 runs could not be made (x 2): too slow" in _report.text(done.judged)
    paper = _registry.Declared("mine", tmp_path / "mine.py", study.Paper(title="A paper", figures=[done.judged.figure]), sys.modules[__name__])
    assert "\n\n2 runs could not be made (x 2): too slow.\n" in _report.book([paper])
    assert {"x": 2} not in [cell.where for cell in done.judged.kept.results.cells]
    ran(tmp_path)
    (again,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert ran(tmp_path) == ["2 1", "2 2"] and len(again.failures) == 2
    # A machine that can do it has the last word,
    (tmp_path / "able").touch()
    (able,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert not able.failures and not able.judged.kept.unable and ran(tmp_path) == ["2 1", "2 2"]
    # also where it cannot do it on another day.
    (tmp_path / "able").unlink()
    (busy,) = study.run(str(tmp_path / "mine.py"), jobs=1, force=True)
    assert len(busy.failures) == 2 and not busy.judged.kept.unable
    assert {"x": 2} in [cell.where for cell in busy.judged.kept.results.cells]


def test_seeds_are_not_widened_where_the_machine_is_unable(tmp_path: Path) -> None:
    text = UNABLE.replace("at['x'] == 2", "at['x'] == 2 and at['seed'] == 3")
    declare(tmp_path, text.replace("seeds=2", "seeds=study.until(0.0001, of='y', least=3, most=8)"))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [(failure.point, failure.seed) for failure in done.failures] == [({"x": 2}, 3)]
    assert done.judged.kept.missing == 0 and done.judged.kept.unable == ["1 run could not be made (x 2): too slow"]


def test_runs_that_did_not_have_the_machine_for_themselves_are_made_again(tmp_path: Path) -> None:
    study.run(str(declare(tmp_path)), jobs=1)
    assert len(ran(tmp_path)) == 6
    declared = _registry.load(declare(tmp_path, PURE.replace("seeds=2", "seeds=2, alone=True")))
    assert (kept := declared.study(declared.figures[0]).kept()).missing == 3 and not kept.machines
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert len(ran(tmp_path)) == 6 and done.judged.kept.missing == 0 and done.judged.kept.machines
    study.run(str(tmp_path / "mine.py"), jobs=1)
    assert ran(tmp_path) == []


def test_a_run_that_shared_a_busy_machine_is_made_again_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_machine.Watch, "had_enough", False)
    declared = _registry.load(declare(tmp_path, PURE.replace("seeds=2", "seeds=1, alone=True, cpus=0.2")))
    dumps = cloud_dumps(declared.package)
    assert dumps is not None
    with ThreadPoolExecutor(4) as here:
        assert not _runner.run_missing(declared.study(declared.figures[0], quick=False), here, dumps, here=here, at_once=4)
    assert sorted(ran(tmp_path)) == ["1 1", "1 1", "2 1", "2 1", "3 1", "3 1"]


unix = pytest.mark.skipif(sys.platform == "win32", reason="unix: locks of files")


@unix
def test_two_studies_do_not_make_runs_that_need_the_machine_at_once(tmp_path: Path) -> None:
    environment = {**child_environment(), "TMPDIR": tempfile.gettempdir()}

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, *words], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    first = start("-c", "from warpline.study import _machine\nwith _machine.alone(print):\n    print('has', flush=True)\n    input()")
    assert first.stdout is not None and first.stdout.readline() == "has\n"
    # Runs that need no machine do not wait.
    (plain,) = study.run(str(declare(tmp_path, PURE.replace("return {", "(Path(__file__).parent / 'plain').touch()\n        return {"))), jobs=1)
    assert plain.good and (tmp_path / "plain").exists()
    ran(tmp_path)
    second = start("-m", "warpline.study", "run", str(declare(tmp_path, ALONE.replace('"line"', '"alone"'), "alone.py")))
    assert second.stderr is not None
    waits = second.stderr.readline()
    assert waits == f"alone/alone: waits, because another study on this machine makes runs that need it, or waits to make some, and has the lock of {_machine.lock_path()}\n"
    assert ran(tmp_path) == [] and second.poll() is None
    # However the first one ends.
    first.kill()
    first.communicate()
    out, errors = second.communicate(timeout=60)
    assert second.returncode == 0 and errors == "" and "1 met" in out
    assert len(ran(tmp_path)) == 12


#: Once it has begun, a run takes two seconds to stop.
STUBBORN = ALONE.replace("import os", "import os, time").replace(
    "        with (Path(__file__).parent / 'ran.txt')",
    """        (Path(__file__).parent / 'begun').touch()
        try:
            time.sleep(300)
        finally:
            time.sleep(2)
            (Path(__file__).parent / 'stopped').touch()
        with (Path(__file__).parent / 'ran.txt')""",
    1,
)


@unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_machine_is_free_when_the_runs_of_a_study_have_stopped_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "warpline.study", "run", str(declare(tmp_path, STUBBORN))]
    with subprocess.Popen(command, env={**child_environment(), "TMPDIR": tempfile.gettempdir()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "begun").exists():
                assert time.monotonic() < until and child.poll() is None
                time.sleep(0.02)
            child.send_signal(number)
            said: list[str] = []
            with _machine.alone(said.append):
                assert (tmp_path / "stopped").exists()
            # After Ctrl-C the study has the lock until its runs have stopped; after a kill only they have one.
            last = _machine.lock_path() if number == signal.SIGINT else _machine.runs_lock_path()
            assert said and said[-1].startswith("waits, because ") and said[-1].endswith(f" has the lock of {last}")
        finally:
            child.kill()


#: The first figure cannot keep what its first run has measured, while its second one is under way.
BESIDE = """\
    import time
    from pathlib import Path
    from warpline import study

    HERE = Path(__file__).parent

    def note(word):
        with (HERE / "ran.txt").open("a") as out:
            out.write(word + "\\n")

    def model(at):
        if at["x"] == "slow":
            note("begins")
            time.sleep(2)
            note("ends")
        while not (HERE / "ran.txt").exists():
            time.sleep(0.01)
        return {"y": 1}

    def after(at):
        note("next")
        return {"y": 1}

    FIRST = study.Figure(name="first", title="", model=model, points=study.grid(x=["fast", "slow"]), quick=study.quick())
    SECOND = study.Figure(name="second", title="", model=after, points=study.grid(x=[1]), alone=True, quick=study.quick())
"""


def test_the_next_figure_waits_for_runs_of_one_that_an_error_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: _store.Store, runs: Any) -> None:
        raise OSError("no space left")

    # However busy the machine is, the fast run is not made again after the slow one.
    monkeypatch.setattr(_machine.Watch, "had_enough", True)
    declared = _registry.load(declare(tmp_path, BESIDE))
    dumps = cloud_dumps(declared.package)
    assert dumps is not None
    first, second = map(declared.study, declared.figures)
    with ThreadPoolExecutor(4) as here:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"):
            patch.setattr(_store.Store, "put", full)
            _runner.run_missing(first, here, dumps, here=here, at_once=4)
        assert not _runner.run_missing(second, here, dumps, here=here, at_once=4)
    assert (tmp_path / "ran.txt").read_text().split() == ["begins", "ends", "next"]


@unix
def test_a_study_that_waits_for_the_machine_can_be_stopped(tmp_path: Path) -> None:
    with _machine.alone(print):
        command = [sys.executable, "-m", "warpline.study", "run", str(declare(tmp_path, ALONE))]
        waiting = subprocess.Popen(command, env={**child_environment(), "TMPDIR": tempfile.gettempdir()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None and "waits" in waiting.stderr.readline()
        waiting.terminate()
        _, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 130 and "the same command goes on" in errors and ran(tmp_path) == []


@unix
def test_the_lock_of_the_machine_may_be_a_file_of_another_user() -> None:
    said: list[str] = []
    path = _machine.lock_path()
    before = os.umask(0o077)
    try:
        with _machine.alone(said.append):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644, "the others can open it"
    path.chmod(0o444)
    path.parent.chmod(0o1777)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    with _machine.alone(said.append):
        pass
    assert said == [] and path.exists()
    path.unlink()
    path.symlink_to("elsewhere")
    with _machine.alone(said.append):
        pass
    assert len(said) == 1 and f"{path} cannot be opened: " in said[0]


@unix
def test_a_lock_of_a_removed_file_keeps_nobody_out_and_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        """Between opening and locking, somebody tidies up."""
        monkeypatch.setattr(fcntl, "flock", lock)
        _machine.lock_path().unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with _machine.alone(print), _machine.lock_path().open() as file, pytest.raises(BlockingIOError):
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_clock_of_a_scenario_says_whether_it_needs_the_machine(tmp_path: Path) -> None:
    text = NETWORK.replace("rate=[2, 8]", "rate=[2, 8], clock=['real', 'virtual', 'dilated']").replace("Mbit/s\"}", "Mbit/s\", 'clock': {'mode': at['clock'], **({'tdf': 2} if at['clock'] == 'dilated' else {})}}")
    text = text.replace("lambda run, at: {", "lambda run, at: noted(at) or {").replace(
        "    FIGURE", "    from pathlib import Path\n\n    def noted(at):\n        with (Path(__file__).parent / 'ran.txt').open('a') as out:\n            out.write(at['clock'] + '\\n')\n\n    FIGURE"
    )
    dumbbell(duration="1200ms", warmup="0s").save(tmp_path / "two.toml")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=2)
    assert not done.failures
    # Those that share the machine come first.
    assert (tmp_path / "ran.txt").read_text().split() == ["virtual"] * 2 + ["real", "dilated"] * 2
    table = warpline.Table.read(tmp_path / "results/rates.parquet")
    assert {(clock, machine is not None) for clock, machine in zip(table["clock"], table["machine"])} == {("real", True), ("dilated", True), ("virtual", False)}


DILATED = """\
    import warpline
    from warpline import study

    def two(at):
        hosts = [warpline.Host(name=name, endpoint="guest", machine="both") for name in "ab"]
        link = warpline.Link(between=["a", "b"], rate="2Mbit/s", delay="5ms")
        flow = warpline.Flow(name="flow", from_="a", to="b")
        clock = None if at["tdf"] == 0 else warpline.Clock(mode="dilated", tdf=at["tdf"])
        return warpline.Scenario(name="two", duration="500ms", clock=clock, link=[link], host=hosts, flow=[flow])

    FIGURE = study.Figure(
        name="factors",
        title="Two guests",
        scenario=two,
        points=study.grid(tdf=[0, 2]),
        measures={"sent": "totals.goodput_bps"},
        quick=study.quick(),
    )
"""


@needs_guests
def test_guests_in_dilated_time_have_results_of_their_machine(tmp_path: Path) -> None:
    (done,) = study.run(str(declare(tmp_path, DILATED)), jobs=1)
    assert not done.failures
    table = warpline.Table.read(tmp_path / "results/factors.parquet")
    assert [(tdf, machine) for tdf, machine in zip(table["tdf"], table["machine"])] == [(0, None), (2, _machine.name())]


def test_the_work_of_others_is_what_is_not_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 3 s of work within 2 s, 1 s is our own.
    for name, values in (("_busy", [100.0, 103.0]), ("_own", [10.0, 11.0]), ("time.monotonic", [50.0, 52.0])):
        monkeypatch.setattr(f"warpline.study._machine.{name}", lambda values=iter(values): next(values))
    with _machine.Watch() as watch:
        pass
    monkeypatch.undo()
    assert watch.columns["other_work"] == 1.0
    rows: list[dict[str, Any]] = [{"machine": "a", "other_work": 1.0}, {"machine": "a", "other_work": 2.0}, {"machine": "b", "other_work": None}, {"x": 1}]
    assert _machine.told(rows) == ["a; other work kept 1.50 of its CPUs busy on average, and 2.00 in the busiest run", "b"]


@unix
def test_a_study_inside_a_run_that_needs_the_machine_does_not_wait_for_itself(tmp_path: Path) -> None:
    inner = declare(tmp_path, ALONE.replace('"line"', '"inner"'), "inner.py")
    outer = f"""\
        import subprocess, sys
        from warpline import study

        def model(at):
            done = subprocess.run([sys.executable, "-m", "warpline.study", "run", {str(inner)!r}], timeout=100, capture_output=True, text=True)
            return {{"y": done.returncode, "waited": "waits" in done.stderr}}

        OUTER = study.Figure(name="outer", title="", model=model, points=study.grid(x=[1]), alone=True, quick=study.quick())
    """
    (done,) = study.run(str(declare(tmp_path, outer)), jobs=1)
    (cell,) = done.judged.kept.results.cells
    assert (cell.mean("y"), cell.mean("waited")) == (0, 0)


@unix
def test_a_process_that_a_run_leaves_behind_does_not_keep_the_lock(tmp_path: Path) -> None:
    read, write = os.pipe()
    with _machine.in_use():
        child = os.fork()
        if child == 0:
            os.read(read, 1)
            os._exit(0)
    try:
        said: list[str] = []
        with _machine.alone(said.append):
            pass
        assert said == []
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
