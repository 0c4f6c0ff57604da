"""Runs: determinism, the interpreter's lock, interruption, results."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow
import pyarrow.parquet
import pytest

import warpline
from warpline import _notebook, _summary
from warpline._progress import ProgressLine

from conftest import child_environment, dumbbell


NAMES = ("flows", "links", "transfers", "series_flows", "series_links", "tcp", "packets")


def contents(run: warpline.Run) -> dict[str, Any]:
    """All results of a run; how rows are grouped into batches does not count."""
    tables: dict[str, warpline.Table] = {name: getattr(run, name) for name in NAMES}
    columns = {name: {column: table[column] for column in table.column_names} for name, table in tables.items()}
    return {**columns, "summary": run.summary_json}


def test_same_seed_same_bytes_and_another_seed_differs(scenario: warpline.Scenario, finished: warpline.Run) -> None:
    again = scenario.run(progress=False)
    assert contents(again) == contents(finished)
    other = scenario.run(seed=2, progress=False)
    assert other.summary["seed"] == 2
    assert contents(other)["series_flows"] != contents(finished)["series_flows"]


def test_another_process_gets_the_same_bytes(scenario: warpline.Scenario, finished: warpline.Run, tmp_path: Path) -> None:
    scenario.save(tmp_path / "s.toml")
    code = "import sys, warpline; sys.stdout.write(warpline.run(sys.argv[1], progress=False).summary_json)"
    command = [sys.executable, "-c", code, str(tmp_path / "s.toml")]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True)
    assert done.stdout == finished.summary_json


def test_a_run_directory_has_the_same_results_as_a_run_in_memory(scenario: warpline.Scenario, finished: warpline.Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = scenario.run(out=out, progress=False)
    assert run.directory == out
    assert (out / "summary.json").read_text() == finished.summary_json
    assert contents(run) == contents(finished)
    opened = warpline.Run.open(out)
    assert contents(opened) == contents(finished)
    assert pyarrow.parquet.read_table(out / "flows.parquet") == finished.flows.pyarrow()
    with pytest.raises(warpline.RunError, match="earlier run"):
        scenario.run(out=out, progress=False)
    digest = hashlib.sha256((out / "series_flows.parquet").read_bytes()).digest()
    scenario.run(out=out, force=True, progress=False)
    assert hashlib.sha256((out / "series_flows.parquet").read_bytes()).digest() == digest


def test_other_threads_go_on_during_a_run() -> None:
    """A thread counts while the run goes on and calls no Python: the interpreter's lock must be free."""
    counted = 0
    begun, over = threading.Event(), threading.Event()

    def count() -> None:
        nonlocal counted
        begun.set()
        while not over.is_set():
            counted += 1
            time.sleep(0)  # Gives up the lock, so that the other thread can always take it.

    switch = sys.getswitchinterval()
    # A thread that waits for the lock asks for it only after this long. If the run did not release it, the thread would hardly ever get it.
    sys.setswitchinterval(3600)
    thread = threading.Thread(target=count, daemon=True)
    try:
        thread.start()
        begun.wait()
        before = counted
        dumbbell(duration="60s").run(progress=False)
        during = counted - before
    finally:
        over.set()
        sys.setswitchinterval(switch)
        thread.join()
    assert during > 100


def test_two_runs_at_once_do_not_disturb_each_other(scenario: warpline.Scenario, finished: warpline.Run) -> None:
    runs: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: runs.setdefault(seed, scenario.run(seed=seed, progress=False).summary_json))
        for seed in (1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs[1] == finished.summary_json
    assert runs[2] == scenario.run(seed=2, progress=False).summary_json


def test_the_summary_matches_its_types(finished: warpline.Run) -> None:
    summary = finished.summary
    # The fixture has transfers, hence sizes; it reads no files and has no guests.
    assert set(summary) == _summary.Summary.__required_keys__ | {"sizes"}
    for rows, kind in (
        ([summary["totals"]], _summary.Totals),
        (summary["groups"], _summary.GroupSummary),
        (summary["sizes"], _summary.SizeSummary),
        (summary["flows"], _summary.FlowRow),
        (summary["links"], _summary.LinkRow),
    ):
        assert rows
        for row in rows:
            hints = get_type_hints(kind)
            assert set(row) == set(hints)
            for key, value in row.items():
                allowed = (int, float) if hints[key] is float else getattr(hints[key], "__args__", hints[key])
                if allowed != (int, float) and isinstance(allowed, tuple) and float in allowed:
                    allowed = (*allowed, int)
                assert isinstance(value, allowed), (key, value)
    assert finished.complete
    assert summary["scenario"] == "two-flows"


def test_rates_and_delays_are_possible(finished: warpline.Run) -> None:
    """Two Reno flows and some files fill a 10 Mbit/s bottleneck and do not exceed it."""
    (bottleneck,) = [link for link in finished.summary["links"] if link["name"] == "r1>r2"]
    assert bottleneck["utilisation"] is not None
    assert 0.8 < bottleneck["utilisation"] <= 1.0
    assert 6e6 < finished.summary["totals"]["goodput_bps"] < 10e6
    assert all(row["rtt_min_ms"] is not None and row["rtt_min_ms"] >= 40 for row in finished.summary["flows"])
    completed = [row for row in finished.transfers["complete"] if row]
    assert len(completed) == 4


def test_a_function_sees_the_progress_and_can_stop_the_run() -> None:
    seen: list[warpline.Progress] = []

    def stop_at_half(progress: warpline.Progress) -> bool:
        seen.append(progress)
        return progress.fraction < 0.5

    run = dumbbell(duration="60s").run(progress=stop_at_half)
    assert not run.complete
    assert run.summary["stopped"]
    assert 30 <= run.summary["simulated_s"] < 60
    times = [progress.simulated_s for progress in seen]
    assert times == sorted(times)
    assert len(times) > 2
    assert max(run.series_flows["time_s"]) <= run.summary["simulated_s"]
    assert "stopped at" in repr(run)


def test_an_exception_of_the_function_stops_the_run() -> None:
    class Full(Exception):
        pass

    def fail(progress: warpline.Progress) -> None:
        raise Full("enough")

    with pytest.raises(Full, match="enough") as caught:
        dumbbell().run(progress=fail)
    assert caught.traceback[-1].name == "fail"


def test_none_goes_on() -> None:
    assert dumbbell().run(progress=lambda progress: None).complete


def test_ctrl_c_stops_the_run_and_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupt(progress: warpline.Progress) -> None:
        if progress.simulated_s >= 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        dumbbell(duration="600s").run(progress=interrupt, out=tmp_path / "run")
    error = caught.value
    assert isinstance(error, warpline.RunInterrupted)
    assert error.run is not None
    assert not error.run.complete
    assert 2 <= error.run.summary["simulated_s"] < 600
    assert "of 600 s" in str(error)
    assert warpline.Run.open(tmp_path / "run").summary == error.run.summary


def test_ctrl_c_from_outside_ends_the_program() -> None:
    code = (
        "import warpline, sys\n"
        "from conftest import dumbbell\n"
        "def seen(progress):\n"
        "    print('running', flush=True)\n"
        "dumbbell(duration='100000s').run(progress=seen)\n"
    )
    environment = {**child_environment(), "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "RunInterrupted" in errors


def test_tables_are_arrow(finished: warpline.Run) -> None:
    table = finished.series_flows
    frame = table.polars()
    assert frame.shape == (len(table), len(table.column_names))
    assert frame.columns == table.column_names
    assert frame["goodput_bps"].to_list() == table["goodput_bps"]
    assert list(table) == table.column_names
    assert table.pandas()["cwnd_bytes"].notna().sum() == sum(value is not None for value in table["cwnd_bytes"])
    assert pyarrow.schema(table) == table.pyarrow().schema
    assert table.units["cwnd_bytes"] == "B"
    assert "goodput_bps" in table
    assert "nonsense" not in table
    with pytest.raises(KeyError, match="goodput_bps"):
        table["nonsense"]
    assert str(len(table)) in repr(table)


def test_every_column_reads_as_arrow_reads_it(finished: warpline.Run) -> None:
    for name in NAMES:
        table: warpline.Table = getattr(finished, name)
        arrow = table.pyarrow()
        assert table.num_rows == arrow.num_rows > 0, name
        for column in table.column_names:
            assert table[column] == arrow.column(column).to_pylist(), (name, column)


def test_columns_become_a_table_and_come_back() -> None:
    columns: dict[str, list[bool | int | float | str | None]] = {
        "n": [1, None, 3],
        "z": [-1, 2, None],
        "x": [1, 2.5, None],
        "s": ["a", None, "c"],
        "b": [True, None, False],
        "empty": [None, None, None],
    }
    table = warpline.Table.from_columns(columns)
    assert {name: table[name] for name in table.column_names} == columns
    assert table.polars().height == 3
    assert [str(warpline.Table.from_columns({"a": [None]}, text=text).polars()["a"].dtype) for text in ([], ["a"])] == ["Float64", "String"]
    assert warpline.Table.from_columns({}).num_rows == 0
    with pytest.raises(TypeError, match="mixes"):
        warpline.Table.from_columns({"a": [1, "x"]})
    with pytest.raises(TypeError, match="mixes"):
        warpline.Table.from_columns({"a": [1]}, text=["a"])
    with pytest.raises(ValueError, match="length"):
        warpline.Table.from_columns({"a": [1], "b": [1, 2]})
    wrong: Any = {"a": [[1]]}
    with pytest.raises(TypeError, match="list"):
        warpline.Table.from_columns(wrong)


def test_a_missing_library_is_named_with_how_to_install_it(finished: warpline.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, extra, convert in (
        ("polars", "polars", finished.flows.polars),
        ("pyarrow", "pandas", finished.flows.pyarrow),
        ("pandas", "pandas", finished.flows.pandas),
        ("matplotlib.pyplot", "plot", lambda: warpline.plot.cwnd(finished)),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(warpline.MissingDependencyError, match=rf"pip install 'warpline\[{extra}\]'") as caught:
                convert()
            assert isinstance(caught.value, ImportError)


def test_errors_of_runs(tmp_path: Path) -> None:
    with pytest.raises(warpline.RunError, match="does not exist"):
        warpline.Run.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(warpline.RunError, match="left alone"):
        dumbbell().run(out=tmp_path / "file", progress=False)
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(ValueError, match="from 0 to 9223372036854775807"):
        dumbbell().run(seed=2**63, progress=False)


def test_a_report_of_a_run_in_memory_and_of_two(finished: warpline.Run, scenario: warpline.Scenario, tmp_path: Path) -> None:
    path = finished.report(tmp_path / "one.html")
    page = path.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "two-flows" in page
    other = scenario.run(seed=2, progress=False, out=tmp_path / "other", report=True)
    assert (tmp_path / "other" / "report.html").stat().st_size > 10_000
    both = finished.report(tmp_path / "two.html", beside=[other])
    assert both.stat().st_size > path.stat().st_size
    with pytest.raises(warpline.RunError, match="nowhere"):
        finished.report(tmp_path / "nowhere" / "one.html")


def test_a_notebook_shows_a_table(finished: warpline.Run) -> None:
    page = finished._repr_html_()
    assert page.count("<tr>") == 1 + len(finished.summary["groups"])
    assert "two-flows" in page
    assert "files" in page
    assert "Mbit/s" in page
    assert "seed 1" in repr(finished)


def test_a_notebook_draws_the_goodput(finished: warpline.Run) -> None:
    page = finished._repr_html_()
    assert page.count("<svg") == page.count("</svg>") == 1
    # A line for each group.
    assert page.count("<polyline") == len(finished.summary["groups"])
    assert "<script" not in page
    assert len(page) < 20_000


def test_long_lines_are_thinned_in_notebooks() -> None:
    line = {float(time): 1e6 + time for time in range(100_000)}
    page = _notebook.drawing({"<b>": line, "one point": {0.0: 1.0}}, "Goodput", str)
    assert page.count(",") < 2 * _notebook.POINTS
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert _notebook.drawing({}, "Goodput", str) == ""


def test_long_tables_are_cut_in_notebooks() -> None:
    page = _notebook.table("t", ["a"], [[str(row)] for row in range(100)])
    assert page.count("<tr>") == 1 + _notebook.ROWS
    assert "and 89 more" in page


def test_names_are_escaped_in_notebooks() -> None:
    flow = {"from": "left", "to": "right", "cc": {"kind": "custom", "name": "a<b"}}
    run = dumbbell(flow=[flow], duration="2s").run(progress=False, cc={"a<b": warpline.CongestionControl})
    assert "<td>a&lt;b</td>" in run._repr_html_()


def test_the_progress_line_overwrites_itself() -> None:
    stream, now = io.StringIO(), [0.0]
    line = ProgressLine(stream, clock=lambda: now[0])
    line(warpline.Progress(0.0, 10.0))
    now[0] = 0.05
    line(warpline.Progress(1.0, 10.0))
    now[0] = 2.0
    line(warpline.Progress(5.0, 10.0))
    line.close()
    written = stream.getvalue().split("\r")
    assert len([text for text in written if "of 10.0 s" in text]) == 2
    assert "50%  5.0 of 10.0 s  2 s left" in written[2]
    assert written[-2].strip() == ""


def test_web_objects_and_messages_have_their_metrics() -> None:
    run = dumbbell(
        flow=[{"from": "left", "to": "right", "app": "poisson", "message_rate": 50.0}], duration="3s"
    ).run(progress=False)
    (flow,) = run.summary["flows"]
    assert flow["message_latency_mean_ms"] is not None
    assert flow["message_latency_mean_ms"] > 20
    assert json.loads(run.summary_json) == run.summary


def test_importing_warpline_loads_no_optional_library() -> None:
    code = "import sys, warpline; print(sorted({'polars', 'pandas', 'pyarrow', 'matplotlib', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_example_runs(tmp_path: Path) -> None:
    example = Path(__file__).parent.parent.parent / "examples" / "first_steps.py"
    command = [sys.executable, str(example), str(tmp_path / "out")]
    environment = {**child_environment(), "MPLBACKEND": "Agg", "POLARS_FMT_TABLE_FORMATTING": "ASCII_FULL"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (tmp_path / "out" / "first-run.png").read_bytes().startswith(b"\x89PNG")
    assert "gentle" in done.stdout
    assert "ledbat" in done.stdout
    assert (tmp_path / "out" / "report.html").stat().st_size > 100_000


def test_runs_and_tables_go_to_other_processes(scenario: warpline.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expecting = scenario.replace(expect=["total.goodput > 100Gbit/s"])
    for run in (expecting.run(progress=False), expecting.run(out="run", progress=False)):
        data = pickle.dumps(run)
        monkeypatch.chdir("/")
        copy: warpline.Run = pickle.loads(data)
        monkeypatch.chdir(tmp_path)
        assert copy.summary_json == run.summary_json
        assert copy.failures == run.failures != []
        assert copy.directory == (run.directory and run.directory.absolute())
        for name in NAMES:
            theirs: warpline.Table = getattr(run, name)
            ours: warpline.Table = getattr(copy, name)
            assert ours.pyarrow().equals(theirs.pyarrow(), check_metadata=True), name
    # The directory is named, and not copied.
    assert len(data) < 50_000
    table = warpline.Table.from_columns({})
    assert pickle.loads(pickle.dumps(table)).column_names == []


def test_a_run_whose_directory_has_another_or_is_gone_says_so(scenario: warpline.Scenario, tmp_path: Path) -> None:
    first = scenario.run(out=tmp_path / "run", progress=False)
    data = pickle.dumps(first)
    again = scenario.run(out=tmp_path / "run", force=True, progress=False)
    assert len(first.flows) == len(again.flows), "the same run"
    scenario.run(seed=99, out=tmp_path / "run", force=True, progress=False)
    for use in (lambda: first.links, lambda: first.recordings, lambda: pickle.dumps(first), lambda: pickle.loads(data)):
        with pytest.raises(warpline.RunError, match="now holds another run"):
            use()
    shutil.rmtree(tmp_path / "run")
    for use in (lambda: first.links, lambda: again.recordings, lambda: pickle.dumps(first), lambda: pickle.loads(data)):
        with pytest.raises(warpline.RunError, match="is not a run directory: it does not exist"):
            use()


def test_unknown_tables_are_refused(finished: warpline.Run, tmp_path: Path) -> None:
    for run in (finished, dumbbell(duration="2s").run(out=tmp_path / "run", progress=False)):
        with pytest.raises(KeyError, match="series_links"):
            run._native.table("nonsense")


def test_what_failed_is_told(scenario: warpline.Scenario, finished: warpline.Run) -> None:
    failed = scenario.replace(expect=["total.goodput > 100Gbit/s"]).run(progress=False)
    assert len(failed.failures) == 1 and "100" in failed.failures[0], failed.failures
    assert finished.failures == []
