"""Several seeds of one scenario: tables with a column of seeds, directories, reports."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import warpline

from conftest import dumbbell

SHORT = dumbbell(duration="2s", warmup="0s")


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(scope="module")
def runs() -> warpline.RunSet:
    return SHORT.run(seeds=[3, 1, 2], progress=False)


def test_frames_have_a_column_of_seeds(runs: warpline.RunSet) -> None:
    assert runs.seeds == [3, 1, 2]
    flows = runs.flows.polars()
    assert flows.columns[0] == "seed"
    assert flows["seed"].to_list() == [3] * 3 + [1] * 3 + [2] * 3
    alone = SHORT.run(seed=1, progress=False)
    assert flows.filter(flows["seed"] == 1).drop("seed").equals(alone.flows.polars(), null_equal=True)
    assert runs.series_flows.units["goodput_bps"] == "bit/s"
    for table in (runs.links, runs.transfers, runs.series_links, runs.tcp, runs.packets):
        assert table.column_names[0] == "seed"
        assert set(table["seed"]) == {1, 2, 3}
    assert len(runs.dilation) == 0
    assert runs.dilation.column_names[0] == "seed"


def test_one_run_of_a_scenario_that_plans_several_warns() -> None:
    planned = SHORT.replace(replications={"seeds": [4, 5, 6]})
    assert (planned.seeds, SHORT.seeds) == ([4, 5, 6], [SHORT.seed])
    assert planned.run(seeds=planned.seeds, progress=False).seeds == [4, 5, 6]
    assert planned.run(seed=4, progress=False).summary["seed"] == 4
    with pytest.warns(UserWarning, match=r"plans 3 runs \(replications\), and one is made, with its seed 1: seeds=scenario.seeds") as told:
        assert planned.run(progress=False).summary["seed"] == SHORT.seed
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="plans 3 runs") as told:
        assert warpline.sweep(planned, {"duration": ["2s"]}, jobs=1)["seed"] == [SHORT.seed]
    assert (told[0].filename, len(told)) == (__file__, 1)


def test_a_set_is_a_sequence_of_runs(runs: warpline.RunSet) -> None:
    assert len(runs) == 3
    assert [run.summary["seed"] for run in runs] == [3, 1, 2]
    assert runs[1].summary["seed"] == 1
    assert runs[1:].seeds == [1, 2]
    assert repr(runs) == "<warpline.RunSet two-flows: seeds 3, 1, 2>"


def test_a_set_goes_to_other_processes(runs: warpline.RunSet, tmp_path: Path) -> None:
    for before in (runs, SHORT.run(seeds=[2, 1], out=tmp_path / "set", progress=False)):
        after: warpline.RunSet = pickle.loads(pickle.dumps(before))
        assert (after.seeds, after.directory) == (before.seeds, before.directory)
        assert after.flows.pyarrow().equals(before.flows.pyarrow())


def test_a_directory_of_seeds_is_written_opened_and_replaced_if_allowed(tmp_path: Path, runs: warpline.RunSet) -> None:
    out = tmp_path / "set"
    written = SHORT.run(seeds=[1, 2, 3], out=out, report=True, progress=False)
    assert written.directory == out
    assert names(out) == ["replications.json", "report.html", "seed-1", "seed-2", "seed-3"]
    assert "Across seeds" in (out / "report.html").read_text()
    opened = warpline.RunSet.open(out)
    assert opened.seeds == [1, 2, 3]
    assert opened[0].summary_json == runs[1].summary_json
    with pytest.raises(warpline.RunError, match="earlier set of seeds"):
        SHORT.run(seeds=[1], out=out, progress=False)
    SHORT.run(seeds=[2, 4], out=out, force=True, progress=False)
    assert warpline.RunSet.open(out).seeds == [2, 4]
    # Neither the report nor the estimates of the earlier set stay.
    assert names(out) == ["replications.json", "seed-2", "seed-4"]
    assert json.loads((out / "replications.json").read_text())["seeds"] == [2, 4]
    with pytest.raises(warpline.RunError, match="no runs of seeds"):
        warpline.RunSet.open(tmp_path)


def test_a_set_has_the_estimates_that_show_that_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "set"
    runs = SHORT.run(seeds=iter([2, 1]), out=out, progress=False)
    estimates = json.loads((out / "replications.json").read_text())
    assert (estimates["scenario"], estimates["seeds"], estimates["incomplete"]) == ("two-flows", [2, 1], [])
    total = next(measure for measure in estimates["measures"] if measure["n"] == 2)
    assert total["min"] <= total["mean"] <= total["max"]
    # Runs stay without them, too: earlier versions wrote none.
    (out / "replications.json").unlink()
    with pytest.raises(warpline.RunError, match="earlier set of seeds"):
        SHORT.run(seeds=[3], out=out, progress=False)
    assert names(out) == ["seed-1", "seed-2"]
    SHORT.run(seeds=[3], out=out, force=True, progress=False)
    assert names(out) == ["replications.json", "seed-3"]
    assert runs.seeds == [2, 1]


def test_what_is_kept_of_one_run_makes_one_run_again(tmp_path: Path) -> None:
    out = tmp_path / "one"
    planned = SHORT.replace(replications={"seeds": [4, 5]})
    assert planned.run(seed=5, out=out, progress=False).summary["seed"] == 5
    kept = warpline.Scenario.load(out / "scenario.toml").to_dict()
    assert (kept["seed"], kept.get("replications")) == (5, None)


def test_a_call_that_cannot_be_meant_removes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "set"
    SHORT.run(seeds=[1, 2], out=out, progress=False)
    before = names(out)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"seeds": []}, "at least one"),
        ({"seeds": iter(())}, "at least one"),
        ({"seeds": [1, 1]}, "twice"),
        ({"seeds": [3, -1]}, "seeds has -1: a seed is a whole number from 0"),
        ({"seeds": [2**64]}, "a seed is a whole number from 0"),
        ({"seeds": [3], "cores": 0}, "cores=0: a run uses at least one core"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            SHORT.run(**options, out=out, force=True, progress=False)
        assert names(out) == before
    texts: Any = ["three"]
    with pytest.raises(TypeError):
        SHORT.run(seeds=texts, out=out, force=True, progress=False)
    nobody = SHORT.set('flow.bulk.cc={kind="custom", name="nobody"}')
    with pytest.raises(warpline.RunError, match="nobody"):
        nobody.run(seeds=[3], out=out, force=True, progress=False)
    assert names(out) == before
    with pytest.raises(warpline.RunError, match="nobody"):
        nobody.run(seeds=[3], out=tmp_path / "new", progress=False)
    assert not (tmp_path / "new").exists()


def test_what_is_no_set_is_left_alone(tmp_path: Path) -> None:
    one = tmp_path / "one"
    SHORT.run(out=one, progress=False)
    out = tmp_path / "set"
    SHORT.run(seeds=[1, 7], out=out, progress=False)
    shutil.copytree(out / "seed-7", out / "seed-007")
    assert warpline.RunSet.open(out).seeds == [1, 7]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = [names(directory) for directory in (one, out, other)]
    words = {(one, False): "holds one run", (one, True): "holds one run", (out, False): "earlier set of seeds"}
    for directory in (one, out, other, tmp_path / "file"):
        for force in (False, True):
            with pytest.raises(warpline.RunError, match=words.get((directory, force), "left alone")):
                SHORT.run(seeds=[1], out=directory, force=force, progress=False)
    assert [names(directory) for directory in (one, out, other)] == before


def test_seeds_that_run_are_kept_where_another_fails(tmp_path: Path) -> None:
    out = tmp_path / "set"

    def spoil(progress: warpline.Progress) -> None:
        (out / "seed-2" / "taken").mkdir(parents=True, exist_ok=True)

    with pytest.raises(warpline.RunError, match=r"1 of 3 seeds failed:\nseed 2: .*seed-2"):
        SHORT.run(seeds=[1, 2, 3], jobs=1, out=out, report=True, progress=spoil)
    assert names(out) == ["replications.json", "report.html", "seed-1", "seed-2", "seed-3"]
    assert json.loads((out / "replications.json").read_text())["seeds"] == [1, 3]
    assert (out / "seed-2" / "taken").exists()


def test_options_that_would_do_nothing_are_refused() -> None:
    idle: list[tuple[dict[str, Any], str]] = [
        ({"report": True}, r"report=True writes report\.html .* name it \(out="),
        ({"force": True}, r"force=True .* name it \(out="),
        ({"report": True, "seeds": [1]}, "report=True"),
        ({"force": True, "seeds": [1]}, "force=True"),
        ({"jobs": 2}, r"jobs=2 .* name them \(seeds="),
    ]
    for options, message in idle:
        with pytest.raises(ValueError, match=message):
            SHORT.run(**options)


def test_a_report_of_runs_in_memory(tmp_path: Path, runs: warpline.RunSet) -> None:
    page = runs.report(tmp_path / "report.html").read_text()
    assert "two-flows, 3 seeds" in page


def test_wrong_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        SHORT.run(seeds=[])
    with pytest.raises(ValueError, match="twice"):
        SHORT.run(seeds=[1, 1])
    both: dict[str, object] = {"seed": 1, "seeds": [1, 2]}
    with pytest.raises(ValueError, match="both given"):
        SHORT.run(**both)  # type: ignore[call-overload]


def test_failing_seeds_are_named() -> None:
    scenario = SHORT.set('flow.bulk.cc={kind="custom", name="nobody"}')
    with pytest.raises(warpline.RunError, match=r"2 of 2 seeds failed:\nseed 1, 2: .*nobody"):
        scenario.run(seeds=[1, 2], progress=False)


def test_a_function_sees_all_runs_and_stops_them() -> None:
    seen: set[str] = set()

    def stop(progress: warpline.Progress) -> bool:
        seen.add(threading.current_thread().name)
        return progress.simulated_s < 0.5

    runs = SHORT.run(seeds=[1, 2], jobs=2, progress=stop)
    assert seen
    assert not all(run.complete for run in runs)


def test_plots_draw_the_mean_and_a_band(runs: warpline.RunSet) -> None:
    axes = warpline.plot.bands({"reno": runs, "again": runs[:2]}, "goodput")
    assert [line.get_label() for line in axes.get_lines()] == ["reno", "again"]
    assert len(axes.collections) == 2
    assert axes.get_ylabel() == "Goodput (Mbit/s)"
    links = warpline.plot.bands(runs, "delay", of="r1>r2")
    assert links.get_ylabel() == "Queueing delay of r1>r2 (ms)"
    single = warpline.plot.bands(runs[0], "cwnd", of="bulk")
    assert len(single.collections) == 0
    with pytest.raises(KeyError, match="nobody"):
        warpline.plot.bands(runs, "goodput", of="nobody")
    with pytest.raises(ValueError, match="quantity"):
        warpline.plot.bands(runs, "colour")
