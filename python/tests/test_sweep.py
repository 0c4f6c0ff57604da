"""Sweeps: grids of parameters and seeds into one table."""

from __future__ import annotations

import concurrent.futures
import enum
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
from warpline._sweep import _rows, cell, toml_value

from conftest import child_environment, dumbbell

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHORT = dumbbell(duration="2s", warmup="0s")
GRID: dict[str, list[Any]] = {"flow.bulk.cc": ["reno", "cubic"], "topology.bottleneck.rate": ["2Mbit/s", "4Mbit/s"]}


class Level(enum.IntEnum):
    """A number that has a name."""

    HIGH = 7


class Gentle(warpline.CongestionControl):
    """A congestion control that other processes can import."""

    def on_congestion_event(self, event: warpline.CongestionEvent) -> None:
        self.reduce(0.8 * self.cwnd)


def test_the_table_has_every_point_in_order() -> None:
    table = warpline.sweep(SHORT, GRID, seeds=range(2), jobs=1)
    assert table.column_names[:5] == ["point", "flow.bulk.cc", "topology.bottleneck.rate", "seed", "error"]
    frame = table.polars()
    assert frame["point"].to_list() == list(range(8))
    assert frame["flow.bulk.cc"].to_list() == ["reno"] * 4 + ["cubic"] * 4
    assert frame["topology.bottleneck.rate"].to_list() == ["2Mbit/s", "2Mbit/s", "4Mbit/s", "4Mbit/s"] * 2
    assert frame["seed"].to_list() == [0, 1] * 4
    assert frame["error"].null_count() == 8 and frame["error"].dtype == polars.String
    # The rows agree with runs made one by one.
    alone = SHORT.set('topology.bottleneck.rate="4Mbit/s"', "flow.bulk.cc=cubic").run(seed=1, progress=False)
    assert frame["goodput_bps"][7] == alone.summary["totals"]["goodput_bps"]
    slow = polars.col("topology.bottleneck.rate") == "2Mbit/s"
    assert frame.filter(slow)["goodput_bps"].max() < frame.filter(~slow)["goodput_bps"].min()  # type: ignore[operator]


def test_processes_threads_and_neither_give_the_same_table() -> None:
    alone = warpline.sweep(SHORT, GRID, seeds=[1, 2], jobs=1).polars()
    assert warpline.sweep(SHORT, GRID, seeds=[1, 2], jobs=2).polars().equals(alone, null_equal=True)
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        threads = warpline.sweep(SHORT, GRID, seeds=[1, 2], executor=executor).polars()
    assert threads.equals(alone, null_equal=True)


def test_rows_are_in_the_order_of_the_grid_whichever_point_finishes_first() -> None:
    """An executor that finishes its work in the reverse order."""

    class Backwards:
        def __init__(self) -> None:
            self.work: list[tuple[Any, Any]] = []

        def submit(self, fn: Any, /, *args: Any) -> concurrent.futures.Future[Any]:
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            self.work.append((future, lambda: fn(*args)))
            if len(self.work) == 4:
                threading.Thread(target=self.finish).start()
            return future

        def finish(self) -> None:
            for future, work in reversed(self.work):
                future.set_result(work())

    backwards = warpline.sweep(SHORT, GRID, executor=Backwards()).polars()
    assert backwards.equals(warpline.sweep(SHORT, GRID, jobs=1).polars(), null_equal=True)


def test_points_that_fail_stay_in_the_table_with_their_error() -> None:
    with pytest.warns(UserWarning, match="1 of 3 points of the sweep failed"):
        table = warpline.sweep(SHORT, {"flow.bulk.cc": ["reno", "renp", "cubic"]}, jobs=2)
    frame = table.polars()
    assert frame.height == 3
    assert frame["goodput_bps"].is_null().to_list() == [False, True, False]
    assert "renp" in frame["error"][1]
    assert "reno" in frame["error"][1]


def test_a_sweep_in_which_every_point_fails_raises() -> None:
    with pytest.raises(warpline.SweepError, match=r"(?s)all 2 points.*link\.0\.nonsense|nonsense"):
        warpline.sweep(SHORT, {"flow.bulk.nonsense": [1, 2]}, jobs=1)


def test_a_worker_that_dies_is_a_point_that_failed() -> None:
    class Dying:
        def submit(self, fn: Any, /, *args: Any) -> concurrent.futures.Future[Any]:
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            if args[0].seed == 1:
                future.set_exception(concurrent.futures.BrokenExecutor("gone"))
            else:
                future.set_result(fn(*args))
            return future

    with pytest.warns(UserWarning, match="BrokenExecutor: gone"):
        frame = warpline.sweep(SHORT, {}, seeds=[0, 1, 2], executor=Dying()).polars()
    assert frame["error"].to_list() == [None, "BrokenExecutor: gone", None]


@pytest.mark.parametrize(("by", "key", "rows"), [("group", "group", 2), ("flow", "name", 3), ("link", "name", None)])
def test_rows_may_be_groups_flows_or_links(by: Any, key: str, rows: int | None) -> None:
    frame = warpline.sweep(SHORT, {}, seeds=[1, 2], by=by, jobs=1).polars()
    run = SHORT.run(seed=1, progress=False)
    entries: Any = {"group": run.summary["groups"], "flow": run.summary["flows"], "link": run.summary["links"]}[by]
    assert frame.height == 2 * len(entries)
    assert rows is None or len(entries) == rows
    assert frame[key].to_list() == [entry[key] for entry in entries] * 2
    assert frame["throughput_bps"][0] == entries[0]["throughput_bps"]


def test_own_metrics_python_congestion_controls_and_run_directories(tmp_path: Path) -> None:
    def longest(run: warpline.Run) -> dict[str, float]:
        return {"queue_max": max(run.series_links["backlog_packets"])}

    table = warpline.sweep(
        SHORT,
        {"flow.bulk.cc": ["reno", warpline.CustomCc(name="gentle"), {"kind": "vegas", "alpha": 1.0}]},
        jobs=1,
        metrics=longest,
        out=tmp_path / "points",
        cc={"gentle": Gentle},
    )
    frame = table.polars()
    assert frame["flow.bulk.cc"].to_list() == ["reno", "gentle", "vegas(alpha=1.0)"]
    assert (frame["queue_max"] > 0).all()
    second = warpline.Run.open(tmp_path / "points" / "0001")
    assert second.summary["flows"][0]["cc"] == "gentle"
    assert second.summary["totals"]["goodput_bps"] == frame["goodput_bps"][1]


def test_python_congestion_controls_reach_other_processes() -> None:
    scenario = SHORT.set('flow.bulk.cc={kind="custom", name="gentle"}')
    here = warpline.sweep(scenario, {}, seeds=[1, 2], jobs=1, cc={"gentle": Gentle}).polars()
    there = warpline.sweep(scenario, {}, seeds=[1, 2], jobs=2, cc={"gentle": Gentle}).polars()
    assert there["error"].null_count() == 2
    assert there.equals(here, null_equal=True)


def test_progress_counts_to_the_end() -> None:
    counts: list[tuple[int, int]] = []
    warpline.sweep(SHORT, {}, seeds=range(3), jobs=1, progress=lambda done, all_of: counts.append((done, all_of)))
    assert counts == [(1, 3), (2, 3), (3, 3)]


def test_mixed_values_become_text() -> None:
    frame = warpline.sweep(SHORT, {"flow.bulk.tcp.initial_window": [2, "4p"]}, jobs=1).polars()
    assert frame["flow.bulk.tcp.initial_window"].to_list() == ["2", "4p"]


def test_metrics_of_several_kinds_become_text_with_a_warning() -> None:
    def odd(run: warpline.Run) -> dict[str, Any]:
        return {"odd": "none" if run.summary["seed"] == 2 else 0.1 + 0.2, "even": None if run.summary["seed"] == 2 else 1}

    with pytest.warns(UserWarning, match="metrics returned values of several kinds for odd, so that all of them are text"):
        frame = warpline.sweep(SHORT, {}, seeds=[1, 2], jobs=1, metrics=odd).polars()
    assert frame["odd"].to_list() == ["0.30000000000000004", "none"]
    assert frame["even"].to_list() == [1, None]


def test_a_metric_that_no_column_can_have_is_named_and_costs_its_point_only() -> None:
    found = {1: 2**64, 2: float("nan"), 3: float("inf"), 4: b"x", 5: np.float32(2.5), 6: -(2**63)}

    def odd(run: warpline.Run) -> dict[Any, Any]:
        seed = run.summary["seed"]
        return {7: 1} if seed == 7 else {"odd": found[seed]}

    with pytest.warns(UserWarning, match="3 of 7 points of the sweep failed"):
        frame = warpline.sweep(SHORT, {}, seeds=range(1, 8), jobs=1, metrics=odd).polars()
    assert "metrics returned for odd a whole number of 65 bits" in frame["error"][0]
    assert "metrics returned for odd bytes; return a number" in frame["error"][3]
    assert "metrics returned 7 as the name of a column; names are text" in frame["error"][6]
    assert str(frame["odd"].to_list()) == "[None, nan, inf, None, 2.5, -9.223372036854776e+18, None]"


@pytest.mark.parametrize("jobs", [0, -3, 1.5])
def test_numbers_of_jobs_that_mean_nothing_are_refused(jobs: Any) -> None:
    for run in (lambda: warpline.sweep(SHORT, {}, jobs=jobs), lambda: SHORT.run(seeds=[1], jobs=jobs, progress=False)):
        with pytest.raises((ValueError, TypeError), match=rf"^jobs={jobs}: .* or leave out jobs$"):
            run()


def test_a_sweep_may_replace_an_earlier_one(tmp_path: Path) -> None:
    warpline.sweep(SHORT, {}, jobs=1, out=tmp_path)
    with pytest.raises(warpline.SweepError, match="force=True"):
        warpline.sweep(SHORT, {}, jobs=1, out=tmp_path)
    assert warpline.sweep(SHORT, {}, jobs=1, out=tmp_path, force=True)["error"] == [None]
    with pytest.raises(ValueError, match="^force=True lets .* name it"):
        warpline.sweep(SHORT, {}, jobs=1, force=True)


@pytest.mark.parametrize(
    ("parameters", "by", "message"),
    [
        ({"seed": [3, 4]}, "run", r"the column with the seed of each run; give the seeds apart: seeds=\[3, 4\]"),
        ({"name": ["p", "q"]}, "flow", r"parameters has 'name', and so has each row of the table \(by='flow'\)"),
        ({"link": [[]]}, "link", "parameters has 'link', and so has each row"),
        ({"point": [1]}, "run", "parameters has 'point', and so has each row"),
    ],
)
def test_a_parameter_with_the_name_of_another_column_is_refused(parameters: Any, by: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        warpline.sweep(SHORT, parameters, by=by, jobs=1)


def test_values_and_seeds_that_give_no_run_or_letters_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^'flow.bulk.cc' has 'nice': a parameter has a list of values, even of one: \['nice'\]$"):
        warpline.sweep(SHORT, {"flow.bulk.cc": "nice"}, jobs=1)
    with pytest.raises(ValueError, match="'flow.bulk.cc' has no values"):
        warpline.sweep(SHORT, {"flow.bulk.cc": []}, jobs=1)
    for seeds, told in (([], "seeds is empty"), ([-1, 1], "seeds has -1: a seed is a whole number from 0"), ([1, 1], "named twice")):
        with pytest.raises(ValueError, match=told):
            warpline.sweep(SHORT, {}, seeds=seeds, jobs=1)
    with pytest.raises(ValueError, match="^seed is -3: a seed is a whole number from 0"):
        SHORT.run(seed=-3, progress=False)


def test_parameters_named_like_columns_of_other_rows_are_not_refused() -> None:
    assert warpline.sweep(SHORT, {"name": ["p", "q"]}, jobs=1)["name"] == ["p", "q"]


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("seed", "run"),
        ("error", "run"),
        ("flow.bulk.cc", "run"),
        ("goodput_bps", "run"),
        ("jain", "run"),
        ("loss_ratio", "run"),
        ("cc", "flow"),
        ("utilisation", "link"),
    ],
)
def test_metrics_may_not_have_the_name_of_another_column(name: str, by: Any) -> None:
    with pytest.raises(warpline.SweepError, match=f"metrics returned {name}, which the table has already; give it another name"):
        warpline.sweep(SHORT, {"flow.bulk.cc": ["reno"]}, jobs=1, by=by, metrics=lambda run: {name: 7})


def test_metrics_may_have_the_name_of_a_column_of_other_rows() -> None:
    assert warpline.sweep(SHORT, {}, jobs=1, metrics=lambda run: {"utilisation": 7})["utilisation"] == [7]


def test_the_utilisation_is_not_known_where_no_link_has_a_rate() -> None:
    run = SHORT.run(progress=False)
    known = [link["utilisation"] for link in run.summary["links"]]
    assert _rows(run, "run")[0]["utilisation_max"] == max(used for used in known if used is not None)
    for link in run.summary["links"][1:]:
        link["utilisation"] = None
    assert _rows(run, "run")[0]["utilisation_max"] == known[0]
    run.summary["links"][0]["utilisation"] = None
    assert _rows(run, "run")[0]["utilisation_max"] is None


def test_numbers_of_numpy_can_be_swept() -> None:
    frame = warpline.sweep(SHORT, {"flow.bulk.cc.beta": np.linspace(0.3, 0.7, 2), "flow.bulk.count": np.arange(1, 3)}, jobs=1).polars()
    assert frame["flow.bulk.cc.beta"].to_list() == [0.3, 0.3, 0.7, 0.7]
    assert frame["flow.bulk.count"].to_list() == [1, 2, 1, 2]
    assert frame["error"].null_count() == 4


def test_an_interrupted_sweep_cancels_what_an_executor_has_not_begun() -> None:
    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    class Waiting:
        """Does the first piece of work, and leaves the others to wait."""

        def __init__(self) -> None:
            self.futures: list[concurrent.futures.Future[Any]] = []

        def submit(self, fn: Any, /, *args: Any) -> concurrent.futures.Future[Any]:
            self.futures.append(concurrent.futures.Future())
            if len(self.futures) == 1:
                self.futures[0].set_result(fn(*args))
            return self.futures[-1]

    executor = Waiting()
    with pytest.raises(KeyboardInterrupt):
        warpline.sweep(SHORT, {}, seeds=range(10), executor=executor, progress=stop)
    assert [future.cancelled() for future in executor.futures] == [False] + 9 * [True]


def test_a_wrong_kind_of_row_is_refused() -> None:
    wrong: Any = "day"
    with pytest.raises(ValueError, match="a run, a group, a flow or a link"):
        warpline.sweep(SHORT, {}, by=wrong)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@settings(deadline=None)
def test_any_text_can_be_the_value_of_a_change(text: str) -> None:
    changed = SHORT.set(f"description={toml_value(text)}")
    assert changed.to_dict().get("description") == text


@given(st.one_of(st.booleans(), st.integers(0, 2**53), st.floats(0, 1e300, allow_nan=False)))
def test_numbers_are_toml(value: bool | int | float) -> None:
    read = tomllib.loads(f"x = {toml_value(value)}")["x"]
    assert read == value
    assert type(read) is type(value)


def test_numbers_of_other_types_are_toml() -> None:
    assert toml_value(np.float64(0.3)) == "0.3"
    assert toml_value([np.float64(0.5), np.int64(3), np.bool_(True)]) == "[0.5, 3, true]"
    assert toml_value(Level.HIGH) == "7"
    assert type(cell(np.float64(0.3))) is float
    assert (cell(True), toml_value(True)) == (True, "true")
    with pytest.raises(ValueError, match="None cannot be a value in a scenario"):
        toml_value([None])


def test_an_error_names_what_cannot_be_sent_to_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(warpline.SweepError, match="cannot be sent to another process.*cloudpickle"):
        warpline.sweep(SHORT, {}, seeds=[1, 2], jobs=2, metrics=lambda run: {"x": 1})


def test_functions_without_a_name_reach_processes() -> None:
    frame = warpline.sweep(SHORT, {}, seeds=[1, 2], jobs=2, metrics=lambda run: {"again": run.summary["seed"]}).polars()
    assert frame["again"].to_list() == [1, 2]


# As in a notebook or at a prompt: the main module is not a file that a worker could import.
NOTEBOOK = """
import sys
import warpline

class Gentle(warpline.CongestionControl):
    def on_congestion_event(self, event):
        self.reduce(0.8 * self.cwnd)

def longest(run):
    return {"longest": max(run.series_links["backlog_packets"])}

scenario = warpline.Scenario.from_toml('''
    duration = "1s"
    link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms" }]
    flow = [{ name = "bulk", from = "a", to = "b" }]
''')
controls = ["reno", warpline.CustomCc(name="gentle")]
table = warpline.sweep(scenario, {"flow.bulk.cc": controls}, seeds=[1, 2], jobs=2, metrics=longest, cc={"gentle": Gentle})
print(table["flow.bulk.cc"], table["error"], min(table["longest"]) > 0)
"""


def notebook(before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-"], input=before + NOTEBOOK, text=True, capture_output=True, timeout=300, env=child_environment()
    )


def test_controls_and_metrics_of_a_notebook_reach_processes() -> None:
    ran = notebook()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "['reno', 'reno', 'gentle', 'gentle'] [None, None, None, None] True\n"


def test_controls_of_a_notebook_are_refused_clearly_without_cloudpickle() -> None:
    ran = notebook("import sys\nsys.modules['cloudpickle'] = None\n")
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert "SweepError: Gentle, longest: defined in a notebook" in last, ran.stderr
    assert "pip install 'warpline[sweep]'" in last
    assert "WorkerDiedError" not in ran.stderr


def run_script(tmp_path: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(before + NOTEBOOK)
    return subprocess.run([sys.executable, script], text=True, capture_output=True, timeout=300, env=child_environment())


def test_a_script_with_its_own_congestion_control_needs_no_guard(tmp_path: Path) -> None:
    ran = run_script(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "['reno', 'reno', 'gentle', 'gentle'] [None, None, None, None] True\n"


def test_without_cloudpickle_the_error_says_that_a_script_needs_a_guard(tmp_path: Path) -> None:
    ran = run_script(tmp_path, "import sys\nsys.modules['cloudpickle'] = None\n")
    assert ran.returncode == 1
    assert 'script needs `if __name__ == "__main__":`' in ran.stderr


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (warpline.CustomCc(name="gentle"), "gentle"),
        ({"kind": "custom", "name": "gentle"}, "gentle"),
        (warpline.Vegas(alpha=1.5), "vegas(alpha=1.5)"),
        ({"kind": "codel", "limit": "100p", "ecn": True}, "codel(limit=100p, ecn=true)"),
        ({"kind": "reno"}, "reno"),
        ({"a": 1, "b c": [1.5]}, '{ a = 1, "b c" = [1.5] }'),
    ],
)
def test_points_have_readable_labels(value: Any, label: str) -> None:
    assert cell(value) == label


def test_the_error_for_a_class_in_a_scenario_says_what_to_write_instead() -> None:
    class Mine(warpline.CongestionControl):
        pass

    with pytest.raises(TypeError, match=r'CustomCc\(name="mine"\).*cc=\{"mine": Mine\}'):
        warpline.sweep(dumbbell(), {"flow.0.cc": [Mine]})
