"""Runs of a study: their scenarios, executors, failures, and a study that is stopped."""

from __future__ import annotations

import dataclasses
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import study
from warpline.study import _registry, _report, _runner, _scratch, _store, _study, _worker
from warpline.study.__main__ import main

from conftest import child_environment, dumbbell
from studies import PURE, declare, ran, simple, NETWORK, MANY, Counting


def test_a_run_that_fails_or_kills_its_process_does_not_end_the_study(tmp_path: Path) -> None:
    text = PURE.replace("return {", "at['x'] == 2 and os.kill(os.getpid(), 9)\n        1 / (at['x'] - 3)\n        return {")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=2)
    errors = {(failure.point["x"], failure.seed): failure.error for failure in done.failures}
    assert sorted(errors) == [(2, 1), (2, 2), (3, 1), (3, 2)]
    assert "SIGKILL" in errors[2, 1] and errors[3, 2] == "ZeroDivisionError: division by zero (mine.py:11, in model)"
    assert not done.good and done.judged.kept.missing == 2
    assert [line for line in ran(tmp_path) if line[0] == "1"] == ["1 1", "1 2"]
    # What failed is tried again, and nothing else.
    study.run(str(declare(tmp_path)), jobs=2, keep=True)
    assert "1 1" in ran(tmp_path), "another measure runs all again"


def test_a_figure_of_which_runs_are_missing_is_not_met(tmp_path: Path) -> None:
    text = PURE.replace("return {", "1 / (at['x'] - 2)\n        return {")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    # The claim does not read what is missing.
    assert not done.good and done.judged.short == "1 met; 1 of 3 points lack runs; there are 4 runs so far"
    text = text.replace('results.rising("y", "x"), theirs=3', 'results.mean("y") / results.mean("y", x=1), theirs=2')
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    (verdict,) = done.judged.verdicts
    assert (verdict.state, verdict.why, verdict.good) == ("incomplete", "met so far", False) and verdict.ours == pytest.approx(1.99, abs=0.01)
    assert not done.good and done.judged.short == "1 incomplete; 1 of 3 points lack runs; there are 4 runs so far"
    declared = _registry.load(tmp_path / "mine.py")
    page = _report.book([declared])
    assert "| 1 | 1 incomplete |\n" in page and "**incomplete**: met so far |" in page
    declare(tmp_path, text.replace("theirs=2", "differs='a steeper line', theirs=5"))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [verdict.why for verdict in done.judged.verdicts] == ["differs so far: a steeper line"]
    declare(tmp_path, text.replace("- 2)", "- 9)").replace("x=[1, 2, 3]", "x=[9]"))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [verdict.state for verdict in done.judged.verdicts] == ["no results"]


def test_an_error_of_a_run_is_told_with_its_line_and_with_what_it_came_of(tmp_path: Path) -> None:
    helper = """\
        import json

        def received(text):
            try:
                return json.loads(text)
            except ValueError as error:
                raise KeyError("sum_received") from error
    """
    declare(tmp_path, helper, "helper.py")
    text = PURE.replace("import os", "import os\n    from .helper import received").replace("return {", "received('')\n        return {")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1, only={"x": 1})
    told = "KeyError: 'sum_received' (helper.py:7, in received); it came of JSONDecodeError: Expecting value: line 1 column 1 (char 0) (helper.py:5, in received)"
    assert [failure.error for failure in done.failures] == [told, told]


def test_an_executor_of_ones_own_and_one_that_loses_work(tmp_path: Path) -> None:
    class Lossy(ThreadPoolExecutor):
        count = 0

        def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
            Lossy.count += 1
            if Lossy.count == 3:
                lost: Future[Any] = Future()
                lost.set_exception(ConnectionError("gone"))
                return lost
            return super().submit(fn, *args, **more)

    with Lossy(2) as executor:
        (done,) = study.run(str(declare(tmp_path)), executor=executor)
        assert [failure.error for failure in done.failures] == ["ConnectionError: gone"]
        (again,) = study.run(str(tmp_path / "mine.py"), executor=executor)
    assert again.good and len(ran(tmp_path)) == 6


def test_scenarios_files_templates_and_functions(tmp_path: Path) -> None:
    dumbbell(duration="3s", warmup="0s").save(tmp_path / "two.toml")
    (tmp_path / "one.toml.in").write_text((tmp_path / "two.toml").read_text().replace('"10Mbit/s"', '"${rate}Mbit/s"'))
    options = dict(points=study.grid(rate=[2, 8]), measures={"goodput": "group.bulk.goodput_bps", "jain": "totals.jain"}, model=None)
    path = "topology.bottleneck.rate"
    named = simple(scenario=study.file("two.toml", lambda at: {path: f"{at['rate']}Mbit/s"}), **options)
    filled = simple(scenario=study.template("one.toml.in"), **options)
    made = simple(scenario=lambda at: dumbbell(duration="3s", warmup="0s").set(f'{path}="{at["rate"]}Mbit/s"'), **options)
    hashes = [[figure.built(point, 1, tmp_path).hash for point in figure.points] for figure in (named, filled, made)]
    assert hashes[0] == hashes[1] == hashes[2] and hashes[0][0] != hashes[0][1]
    run = made.built({"rate": 8}, 1, tmp_path).run(progress=False)
    assert made.measure(run, {"rate": 8}) == {"goodput": run.summary["groups"][0]["goodput_bps"], "jain": run.summary["totals"]["jain"]}
    with pytest.raises(KeyError, match="no group 'bulky'; there are bulk, files"):
        study.column(run, "group.bulky.goodput_bps")
    with pytest.raises(KeyError, match=r"\$rate names no axis"):
        simple(scenario=study.template("one.toml.in"), model=None, measures={"jain": "totals.jain"}).built({"x": 1}, 1, tmp_path)


@pytest.mark.parametrize("part", ["model=lambda at: RETURNED", "scenario='two.toml', measures=lambda run: RETURNED"])
@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("3", " returned 3; let the function return values by their names, such as {'y': 1.5}"),
        ("None", " returned None; let the function"),
        ("{'': 3}", "'' cannot be the name of a measure"),
        ("{2: 3}", "2 cannot be the name of a measure"),
    ],
)
def test_a_function_that_returns_no_measures_is_told(tmp_path: Path, part: str, returned: str, told: str) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    text = f"from warpline import study\nFIGURE = study.Figure(name='f', title='F', {part}, points=study.grid(x=[1]), quick=study.quick())"
    (done,) = study.run(declare(tmp_path, text.replace("RETURNED", returned)), jobs=1)
    (failure,) = done.failures
    assert told in failure.error and (returned[0] == "{" or failure.error.startswith("the model" if "model" in part else "the measures"))


LIMITS = """\
    from warpline import study

    FIGURE = study.Figure(
        name="limits",
        title="The same scenario, measured in several ways",
        scenario="two.toml",
        points=study.grid(limit=[10, 50, 100]),
        settings={"more": 1},
        measures={"mine": lambda run, at: at["limit"] + at["more"], "bps": "totals.goodput_bps"},
        quick=study.quick(),
    )
"""


def test_points_of_one_scenario_have_their_own_results_where_measures_read_the_point(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")

    def kept() -> _study.Kept:
        declared = _registry.load(tmp_path / "mine.py")
        return declared.study(declared.figures[0]).kept()

    study.run(str(declare(tmp_path, LIMITS)), jobs=1)
    assert kept().results.means("mine") == [11, 51, 101] and (kept().missing, kept().others) == (0, 0)
    # A setting that only a measure reads.
    declare(tmp_path, LIMITS.replace('"more": 1', '"more": 2'))
    assert (kept().missing, kept().others) == (3, 3)
    study.run(str(tmp_path / "mine.py"), jobs=1)
    assert kept().results.means("mine") == [12, 52, 102]


def made(file: Path, **options: Any) -> tuple[int, study.Done]:
    """How many runs were made, and what came out."""
    with Counting(2) as executor:
        (done,) = study.run(str(file), executor=executor, **options)
    return executor.count, done


def test_points_of_one_scenario_share_its_run_and_each_is_measured(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    file = declare(tmp_path, LIMITS.replace("quick=study", "seeds=2, quick=study"))

    def numbers() -> set[tuple[Any, ...]]:
        table = warpline.Table.read(tmp_path / "results/limits.parquet")
        return set(zip(table["limit"], table["seed"], table["scenario"], table["measured"], strict=True))

    # One alone, as a study that was killed has left it: the others share what is run now.
    assert made(file, only={"limit": 50})[0] == 2
    alone = numbers()
    runs, done = made(file)
    assert (runs, done.judged.kept.missing, done.judged.kept.runs) == (2, 0, 6)
    assert done.judged.kept.results.means("mine") == [11, 51, 101] and len({*done.judged.kept.results.means("bps")}) == 1
    # Each has the hashes that it has by itself.
    assert alone < numbers() and len(numbers()) == 6
    assert made(file)[0] == 0
    before = numbers()
    assert made(file, force=True)[0] == 2 and numbers() == before
    # They find each other among the runs that wait, in whichever order the points are.
    file = declare(tmp_path, LIMITS.replace("limit=[10, 50, 100]", "limit=[10, 50], delay=[20, 30]").replace('scenario="two.toml"', 'scenario=lambda at: (HERE / "two.toml").read_text().replace("20ms", f"{at[\'delay\']}ms")').replace("from warpline import study", "from pathlib import Path\n    from warpline import study\n\n    HERE = Path(__file__).parent"))
    runs, done = made(file)
    assert (runs, done.judged.kept.missing) == (2, 0)
    assert done.judged.kept.results.means("mine") == [11, 11, 51, 51] and len({*done.judged.kept.results.means("bps")}) == 2


@pytest.mark.parametrize(("text", "seconds", "looked_at"), [(LIMITS, 60.0, 3), (LIMITS, -1.0, 1), (PURE, 60.0, 1)], ids=["gathered", "waited", "model"])
def test_processes_do_not_stand_idle_while_runs_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float, looked_at: int) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    monkeypatch.setattr(_runner, "GATHER_S", seconds)
    start = _runner._Pass._start
    looked = 0
    first: list[int] = []

    def counted(self: Any, *args: Any) -> None:
        nonlocal looked
        looked += 1
        start(self, *args)

    class Watched(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
            first.append(looked)
            return super().submit(fn, *args, **more)

    monkeypatch.setattr(_runner._Pass, "_start", counted)
    with Watched(2) as executor:
        (done,) = study.run(str(declare(tmp_path, text)), executor=executor)
    assert first[0] == looked_at and not done.failures and done.judged.kept.missing == 0


def test_a_measure_that_fails_or_changes_what_it_reads_spoils_no_other_point_of_its_run(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    text = LIMITS.replace('at["limit"] + at["more"]', 'run.summary.pop("seed") + 0 / (at["limit"] - 50)')
    runs, done = made(declare(tmp_path, text))
    assert runs == 1 and [(failure.point["limit"], failure.error.partition(":")[0]) for failure in done.failures] == [(50, "ZeroDivisionError")]
    assert done.judged.kept.results.values("limit") == [10, 100] and done.judged.kept.results.means("mine") == [1, 1]


def test_an_error_of_a_run_that_points_share_is_that_of_each(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").set('expect=["total.goodput > 1Gbit/s"]').save(tmp_path / "two.toml")
    runs, done = made(declare(tmp_path, LIMITS))
    assert runs == 1 and [failure.point["limit"] for failure in done.failures] == [10, 50, 100] and done.judged.kept.runs == 0
    assert all("goodput" in failure.error for failure in done.failures)


def test_runs_that_need_the_machine_are_not_shared(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    runs, done = made(declare(tmp_path, LIMITS.replace("quick=study", "alone=True, quick=study")))
    assert (runs, done.judged.kept.missing) == (3, 0)
    # Nor where no measure reads the point: an axis repeats the run.
    count = """
    from pathlib import Path

    def number(run):
        with (Path(__file__).parent / "ran.txt").open("a+") as out:
            out.write("x")
            return out.tell()

    FIGURE"""
    text = LIMITS.replace("    FIGURE", count).replace('lambda run, at: at["limit"] + at["more"]', "number").replace("quick=study", "alone=True, quick=study")
    runs, done = made(declare(tmp_path, text))
    assert (runs, done.judged.kept.missing, done.judged.kept.runs) == (3, 0, 3) and done.judged.kept.results.means("mine") == [1, 2, 3]
    assert made(tmp_path / "mine.py")[0] == 0
    # A row that was kept by its scenario alone, as such runs once were, counts at the point whose values it has.
    declared = _registry.load(tmp_path / "mine.py")
    of = declared.study(declared.figures[0])
    identity = of.identity({"limit": 10}, 1)
    with of.store() as store:
        rows = of.find(store, identity, {"limit": 10}, 1)
    of.results_path.unlink()
    with of.store() as store:
        store.put([[{**row, "scenario": _store.number(identity.run)} for row in rows]])
    kept = of.kept()
    assert (kept.runs, kept.missing, kept.others) == (1, 2, 0) and kept.results.values("limit") == [10]


def test_points_of_one_scenario_share_its_run_where_no_measure_reads_the_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    runs, done = made(declare(tmp_path, LIMITS.replace('at["limit"] + at["more"]', "1").replace("run, at", "run")))
    assert runs == 1 and len(_store.Store(tmp_path / "results/limits.parquet")) == 1
    monkeypatch.setattr("warpline.study._study.MANY", 0)
    declared = _registry.load(tmp_path / "mine.py")
    many = declared.study(declared.figures[0]).kept()
    assert done.judged.kept.missing == many.missing == 0 and many.results.values("limit") == [10, 50, 100]
    # A keyword is no point, and neither is what has a value already.
    assert not simple(model=None, scenario="x.toml", measures={"y": lambda run, *, more=1: more}).reads_point
    bound = simple(model=None, scenario="x.toml", measures={"y": lambda run, more=1: more})
    nothing: Any = None
    assert not bound.reads_point and bound.measure(nothing, {"x": 1}) == {"y": 1}


def test_an_axis_of_numbers_and_words_lacks_nothing_with_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PURE.replace("x=[1, 2, 3]", "x=[1, 'two', 3]").replace('at["x"] + 0.1', '(2 if at["x"] == "two" else at["x"]) + 0.1')
    text = text.replace('results.rising("y", "x")', 'results.mean("y", x=3) / results.mean("y", x=1)').replace('study.lines(x="x", y="y")', "study.table()")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    assert done.good
    monkeypatch.setattr("warpline.study._study.MANY", 0)
    declared = _registry.load(tmp_path / "mine.py")
    kept = declared.study(declared.figures[0]).kept()
    assert kept.missing == 0 and kept.results.values("x") == [1, "two", 3]


def test_a_judgement_draws_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path)
    study.run(str(file))
    for ending in ("md", "svg"):
        (tmp_path / f"results/line.{ending}").unlink()
    assert main(["judge", str(file)]) == 0
    assert not (tmp_path / "results/line.svg").exists()
    assert main(["judge", str(file), "--draw"]) == 0
    assert "line.svg" in capsys.readouterr().out
    assert "| 10.15 |" in (tmp_path / "results/line.md").read_text() and b"</svg>" in (tmp_path / "results/line.svg").read_bytes()


def test_a_judgement_of_very_many_runs_makes_some_of_their_scenarios_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpline.study._study.MANY", 4)
    monkeypatch.setattr("warpline.study._study.CHECKED", 3)
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    assert "20ms" in (tmp_path / "two.toml").read_text()
    file = declare(tmp_path, MANY)
    runs: list[int] = []

    def made_by(act: Any) -> tuple[int, Any]:
        (tmp_path / "made.txt").write_text("")
        found = act()
        return len((tmp_path / "made.txt").read_text()), found

    def judged() -> _report.Judged:
        declared = _registry.load(file)
        return _report.judge(declared, declared.figures[0])

    def run() -> study.Done:
        with Counting(2) as executor:
            done = study.run(str(file), executor=executor)[0]
        runs.append(executor.count)
        return done

    made, done = made_by(run)
    assert (made, sum(runs), done.judged.kept.missing) == (12 + 3, 12, 0)
    made, one = made_by(judged)
    assert made == 3 and one.good and len(one.kept.results.samples("bps")) == 12
    # What the declaration does not know of is found by these.
    before = (tmp_path / "two.toml").read_text()
    (tmp_path / "two.toml").write_text(before.replace("10Mbit/s", "11Mbit/s"))
    assert judged().kept.missing == 6 and judged().short.endswith("6 of 6 points lack runs; there are 0 runs so far")
    # With results of both kinds, each judgement has its own.
    run()
    assert sum(runs) == 24
    faster = judged().kept
    (tmp_path / "two.toml").write_text(before)
    slower = judged().kept
    assert (faster.missing, slower.missing, faster.others, slower.others) == (0, 0, 12, 12)
    assert faster.results.mean("bps") > slower.results.mean("bps") == one.kept.results.mean("bps")
    # Other words for the same scenarios: all are made, until a study has noted that.
    declare(tmp_path, MANY.replace("at['delay'] * at['factor']", "at['factor'] * at['delay']"))
    made, one = made_by(judged)
    assert made >= 12 and one.kept.missing == 0
    run()
    assert sum(runs) == 24, "nothing is run again"
    made, one = made_by(judged)
    assert made == 3 and one.kept.missing == 0
    # Another scenario.
    declare(tmp_path, MANY.replace("at['delay'] * at['factor']", "at['delay'] * at['factor'] * 2"))
    assert judged().kept.missing > 0


def test_a_failure_that_is_allowed_is_a_result() -> None:
    lost = dumbbell(duration="3s", warmup="0s").set('expect=["total.goodput > 1Gbit/s"]')
    task = pickle.dumps(_worker.Task([{"x": 1}], 1, lost))
    figure = simple(model=None, scenario="unused.toml", measures={"y": "totals.jain"})
    refused, allowed, other = (_worker.perform(pickle.dumps(dataclasses.replace(figure, quick=study.Quick(), allowed=texts)), task)[0] for texts in ([], ["goodput"], ["refused"]))
    assert refused.error and "goodput" in refused.error and other.error == refused.error
    assert allowed.error is None and allowed.lines[None]["y"] is not None


def test_a_run_whose_program_is_missing_fails_before_it_begins() -> None:
    task = pickle.dumps(_worker.Task([{"x": 1}], 1, dumbbell(duration="3s", warmup="0s")))
    figure = simple(model=None, scenario="unused.toml", measures={"y": "totals.jain"}, quick=study.Quick())
    missing, there = (_worker.perform(pickle.dumps(dataclasses.replace(figure, needs=needs)), task)[0] for needs in (["sh", "no-such-program"], ["sh"]))
    assert missing.error == "it needs no-such-program, which this machine does not have on its PATH" and not missing.unable
    assert there.error is None


def test_a_run_with_a_failure_that_is_no_longer_allowed_is_made_again(tmp_path: Path) -> None:
    dumbbell(duration="3s", warmup="0s").save(tmp_path / "two.toml")
    expect = """lambda at: {"expect": ["total.goodput > 1Gbit/s"] if at["delay"] == 2 else []}"""
    text = MANY.replace("scenario=scenario", f'scenario=study.file("two.toml", {expect})').replace("range(1, 7)", "[1, 2]").replace("seeds=2", "seeds=2, allowed=[]")

    def run(allowed: str) -> tuple[int, study.Done]:
        with Counting(2) as executor:
            (done,) = study.run(str(declare(tmp_path, text.replace("allowed=[]", f"allowed={allowed}"))), executor=executor)
        return executor.count, done

    made, done = run("['goodput']")
    assert (made, len(done.failures), done.judged.kept.missing) == (4, 0, 0)
    assert {*done.judged.kept.results.cells[0].samples} == {"bps"}, "the failure is no measure"
    assert run("['refused', 'total.']")[0] == 0, "another word that allows it"
    made, done = run("['refused']")
    assert (made, len(done.failures), done.judged.kept.missing, done.judged.kept.runs) == (2, 2, 1, 2)
    made, done = run("['goodput']")
    assert (made, done.judged.kept.missing) == (0, 0)


def test_measures_with_lines(tmp_path: Path) -> None:
    dumbbell(duration="12s", warmup="4s").save(tmp_path / "two.toml")
    (done,) = study.run(str(declare(tmp_path, NETWORK)), jobs=1)
    assert done.good, _report.text(done.judged)
    assert done.judged.kept.results.values("line") == ["bulk.0", "bulk.1"]
    assert done.judged.kept.results.mean("rate_seen", rate=8) == 8


@pytest.mark.parametrize("name", ["seed", "x"])
def test_a_measure_does_not_take_the_name_of_another_column(tmp_path: Path, name: str) -> None:
    (done,) = study.run(str(declare(tmp_path, PURE.replace('return {"y"', f'return {{"{name}": 7, "y"'))), jobs=1)
    assert {failure.error for failure in done.failures} == {f"{name} cannot be the name of a measure: results have such a column already"}
    assert done.judged.kept.runs == 0


def test_a_text_among_numbers_is_a_failed_run_and_leaves_the_others_numbers(tmp_path: Path) -> None:
    (done,) = study.run(str(declare(tmp_path, PURE.replace('return {"y":', 'return {"none": None, "y": "n/a" if (at["x"], at["seed"]) == (2, 2) else'))), jobs=1)
    (failure,) = done.failures
    assert failure.error == "the measure y returned text ('n/a'), and a number before; all its values are of one kind, or None"
    assert (failure.point["x"], failure.seed) == (2, 2) and done.judged.kept.results.means("y", x=[1, 2]) == pytest.approx([10.15, 20.1])
    # Neither beside the runs that are kept.
    (again,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [failure.error for failure in again.failures] == [failure.error]
    # Nor among the lines of a run.
    (lines,) = study.run(str(declare(tmp_path, PURE.replace('return {"y":', 'return {"y": {"a": True, "b": 1}, "z":'))), jobs=1, only={"x": 1})
    assert {failure.error for failure in lines.failures} == {"the measure y returned a number (1), and true or false before; all its values are of one kind, or None"}


def test_a_point_may_say_how_many_seeds_it_gets(tmp_path: Path) -> None:
    (done,) = study.run(str(declare(tmp_path, PURE.replace("seeds=2", "seeds=lambda at: at['x']"))), jobs=1)
    assert ran(tmp_path) == ["1 1", "2 1", "2 2", "3 1", "3 2", "3 3"] and done.good
    with pytest.raises(ValueError, match="0 seeds at {'x': 1}"):
        simple(seeds=lambda at: at["x"] - 1)


SLOW = PURE.replace("import os", "import os, time").replace('return {"y"', 'time.sleep(0.3)\n        return {"y"').replace("x=[1, 2, 3]", "x=list(range(1, 13))").replace("seeds=2", "seeds=1")


def started(file: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "warpline.study", "run", str(file), "--jobs", "2", *words]
    return subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def await_runs(directory: Path, count: int) -> None:
    end = time.monotonic() + 60
    log = directory / "results/line.jsonl"
    while time.monotonic() < end:
        if log.exists() and len(log.read_text().splitlines()) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"fewer than {count} runs in a minute")


def test_a_killed_study_goes_on_and_loses_no_more_than_what_ran(tmp_path: Path) -> None:
    file = declare(tmp_path, SLOW)
    child = started(file)
    await_runs(tmp_path, 3)
    child.kill()
    child.communicate()
    # A kill may cut the last line off.
    journal = tmp_path / "results/line.jsonl"
    kept = len(journal.read_text().splitlines())
    with journal.open("a") as out:
        out.write('[{"key": "12')
    (before,) = [one for one in [_store.Store(tmp_path / "results/line.parquet")]]
    assert len(before) >= kept
    time.sleep(1)  # The workers notice that the study is gone.
    ran(tmp_path)
    study.run(str(file), jobs=2)
    assert len(ran(tmp_path)) <= 12 - kept
    assert not journal.exists()
    assert len(_store.Store(tmp_path / "results/line.parquet")) == 12


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    # The resource tracker of multiprocessing leaves a moment later.
    return [child for child in found if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.skipif(sys.platform != "linux", reason="linux: processes in /proc")
@pytest.mark.parametrize("times", [1, 10])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_has_run_and_leaves_no_process(tmp_path: Path, number: signal.Signals, times: int) -> None:
    file = declare(tmp_path, SLOW.replace("sleep(0.3)", "sleep(0.5 if at['x'] < 5 else 300)"))
    child = started(file)
    await_runs(tmp_path, 2)
    workers = children(child.pid)
    for _ in range(times):
        child.send_signal(number)
        # The others come while it tidies up.
        time.sleep(0.1)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130 and "the same command goes on" in errors
    assert not (tmp_path / "results/line.jsonl").exists()
    assert len(_store.Store(tmp_path / "results/line.parquet")) >= 2
    assert len(workers) == 2 and not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_two_studies_do_not_write_the_same_results(tmp_path: Path) -> None:
    path = tmp_path / "results/f.parquet"
    with _store.Store(path), pytest.raises(warpline.RunError, match="another study is running"), _store.Store(path):
        pass


def test_the_directory_of_a_killed_run_is_removed_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    text = "from warpline.study._scratch import scratch\nwith scratch() as directory:\n    print(directory, flush=True)\n    input()\n"
    environment = {**child_environment(), "TMPDIR": str(tmp_path)}
    children = [subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    killed, running = (Path((child.stdout or pytest.fail()).readline().strip()) for child in children)
    children[0].kill()
    children[0].communicate()
    _scratch.remove_left_over(tmp_path)
    assert (killed.exists(), running.exists()) == (False, True)
    children[1].communicate("\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="unix: locks of files")
def test_a_directory_that_another_study_takes_for_one_left_over_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        """Between opening and locking, another study begins."""
        monkeypatch.setattr(fcntl, "flock", lock)
        _scratch.remove_left_over(tmp_path)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with _scratch.scratch() as directory:
        assert directory.exists()
        _scratch.remove_left_over(tmp_path)
        assert directory.exists(), "it has the lock"
    assert list(tmp_path.iterdir()) == []
