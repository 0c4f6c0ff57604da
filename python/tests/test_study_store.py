"""What is kept of a study, and what runs again."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import study
from warpline._warpline import Table
from warpline.study import _registry, _report, _store
from warpline.study.__main__ import main

from conftest import dumbbell
from studies import PURE, declare, ran, MANY, Counting


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    file = declare(tmp_path)
    (done,) = study.run(str(file), jobs=2)
    assert done.good and [verdict.state for verdict in done.judged.verdicts] == ["met"]
    assert ran(tmp_path) == ["1 1", "1 2", "2 1", "2 2", "3 1", "3 2"]
    kept = (tmp_path / "results/line.parquet").read_bytes()
    assert b"</svg>" in (tmp_path / "results/line.svg").read_bytes()
    assert "| 10.15 |" in (tmp_path / "results/line.md").read_text()

    (again,) = study.run(str(file))
    assert again.good and ran(tmp_path) == [] and (tmp_path / "results/line.parquet").read_bytes() == kept
    # Another point: only that is run. What is left out is kept, and not judged.
    declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=[1, 3, 4]"))
    (more,) = study.run(str(file))
    assert ran(tmp_path) == ["4 1", "4 2"]
    assert more.judged.kept.results.values("x") == [1, 3, 4] and more.judged.kept.others == 2
    assert [verdict.state for verdict in more.judged.verdicts] == ["not met"]
    # Another measure: everything is run.
    declare(tmp_path, PURE.replace("% 3", "% 2"))
    study.run(str(file))
    assert len(ran(tmp_path)) == 6
    study.run(str(file), force=True)
    assert len(ran(tmp_path)) == 6
    # The quick form is kept apart.
    (quick,) = study.run(str(file), quick=True)
    assert ran(tmp_path) == ["1 1", "3 1"] and (tmp_path / "results/quick/line.parquet").exists() and quick.good


def test_another_build_runs_again_unless_its_results_are_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(tmp_path)
    study.run(str(file))
    monkeypatch.setattr("warpline.study._build.build", lambda: "warpline-9.9.9-0123456789ab")
    ran(tmp_path)
    study.run(str(file), keep=True)
    assert ran(tmp_path) == []
    # In this process, which has that build.
    with ThreadPoolExecutor(1) as executor:
        (done,) = study.run(str(file), executor=executor)
    assert len(ran(tmp_path)) == 6 and done.judged.kept.builds == ["warpline-9.9.9-0123456789ab"] and done.judged.kept.others == 0


def test_a_run_for_another_measure_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")

    def run(text: str) -> tuple[int, int]:
        """How many runs are kept, and how many of them are not declared any more."""
        (done,) = study.run(declare(tmp_path, text), jobs=1)
        return len(_store.Store(tmp_path / f"results/{done.judged.figure.name}.parquet")), done.judged.kept.others

    many = MANY.replace("range(1, 7)", "[1]")
    assert run(many) == (2, 0) == run(many.replace("goodput_bps", "jain"))
    # The text of a model is a part of what tells its runs apart.
    assert run(PURE) == (6, 0) and run(PURE.replace("% 3", "% 2")) == (12, 6)


def test_results_of_another_kernel_or_stack_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    file = declare(tmp_path, MANY)

    def run(builds: list[str] | None, **options: Any) -> tuple[int, list[str]]:
        """How many runs are made on a machine with these, and what then has made the results. Without any, it lacks what the scenarios need."""

        def found(_: warpline.Scenario) -> list[str]:
            if builds is None:
                raise warpline.RunError("no guest kernel")
            return builds

        monkeypatch.setattr(warpline.Scenario, "builds", property(found))
        with Counting(2) as executor:
            (done,) = study.run(str(file), executor=executor, **options)
        return executor.count, list(done.judged.kept.builds)

    old, new = ["linux-6.1.0-0123456789ab", "lwip-ba9876543210"], ["linux-6.1.0-0123456789ab", "lwip-000000000000"]
    made, before = run(old)
    assert made == 12 and [one.partition(" with ")[2] for one in before] == [" ".join(old)]
    assert run(old) == (0, before)
    assert run(None) == (0, before), "a machine without these has no others"
    made, after = run(new, keep=True)
    assert made == 12 and [one.partition(" with ")[2] for one in after] == [" ".join(new)]


def test_results_that_do_not_say_with_what_they_were_made_count(tmp_path: Path) -> None:
    with _store.Store(tmp_path / "f.parquet") as store:
        row: dict[str, int | float | str | None] = {"ran": "w", "measured": "m", "seed": 1, "y": 1}
        store.put([[{**row, "scenario": 7}], [{**row, "scenario": 8, "builds": "linux-6.1.0-0123456789ab"}]])
    store = _store.Store(tmp_path / "f.parquet")
    first, second = (f"sha256:{scenario:015x}" for scenario in (7, 8))
    assert [len(store.find(first, 1, "m", "w", builds)) for builds in (None, "", "linux-6.1.0-0123456789ab")] == [1, 1, 1]
    assert [len(store.find(second, 1, "m", "w", builds)) for builds in (None, "", "linux-6.1.0-0123456789ab")] == [1, 0, 1]
    assert store.builds([(7, 1), (8, 1)]) == ["w", "w with linux-6.1.0-0123456789ab"]


def test_seeds_go_on_until_the_interval_is_narrow(tmp_path: Path) -> None:
    text = PURE.replace("seeds=2", "seeds=study.until(0.005, of='y', least=3, most=9)").replace("x=[1, 2, 3]", "x=[1, 100]")
    study.run(str(declare(tmp_path, text)), jobs=2)
    lines = ran(tmp_path)
    assert [line.split()[1] for line in lines if line.startswith("100 ")] == ["1", "2", "3"]
    assert len([line for line in lines if line.startswith("1 ")]) == 9
    study.run(str(tmp_path / "mine.py"))
    assert ran(tmp_path) == []


def test_a_point_whose_interval_is_too_wide_lacks_seeds(tmp_path: Path) -> None:
    def until(most: int) -> Path:
        return declare(tmp_path, PURE.replace("seeds=2", f"seeds=study.until(0.005, of='y', least=3, most={most})").replace("x=[1, 2, 3]", "x=[1, 100]"))

    (done,) = study.run(str(until(3)), jobs=1)
    assert done.judged.kept.missing == 0
    declared = _registry.load(until(9))
    assert _report.judge(declared, declared.figures[0]).kept.missing == 1
    (done,) = study.run(str(until(9)), jobs=1)
    assert done.judged.kept.missing == 0
    # Where more seeds are kept than are needed, they count, and none is lacking.
    declared = _registry.load(until(5))
    kept = declared.study(declared.figures[0]).kept()
    assert kept.missing == 0 and len(kept.results.where(x=1).samples("y")) == 5


def test_a_measure_that_is_no_number_gets_the_most_seeds(tmp_path: Path) -> None:
    text = PURE.replace("seeds=2", "seeds=study.until(0.5, of='y', least=2, most=4)").replace('return {"y":', 'return {"y": float("nan") if at["x"] == 1 else')
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    assert not done.failures and done.judged.kept.missing == 0
    assert [line for line in ran(tmp_path) if line.startswith(("1 ", "2 "))] == ["1 1", "1 2", "1 3", "1 4", "2 1", "2 2"]


def test_a_point_without_a_number_gets_the_least_seeds_and_the_others_go_on(tmp_path: Path) -> None:
    text = PURE.replace("seeds=2", "seeds=study.until(0.001, of='y', least=2, most=4)").replace('return {"y":', 'return {"z": 1, "y": None if at["x"] == 1 else')
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    assert not done.failures and done.judged.kept.missing == 0
    assert [line for line in ran(tmp_path) if line.startswith(("1 ", "2 "))] == ["1 1", "1 2", "2 1", "2 2", "2 3", "2 4"]
    # These points only, too.
    (some,) = study.run(str(tmp_path / "mine.py"), jobs=1, force=True, only={"x": 1})
    assert not some.failures
    # None has one: the name is wrong. The figure after it runs.
    both = text.replace("of='y'", "of='why'") + "\n    OTHER = study.Figure(name='other', title='', model=lambda at: {'y': 1}, points=study.grid(x=[1]), quick=study.quick())\n"
    said: list[study.Done] = []
    with pytest.raises(study.StudyError, match="mine/line: seeds are run until 'why' is known well enough, but no run has a number of that name; there are z, y"):
        study.run(str(declare(tmp_path, both)), jobs=1, said=said.append)
    assert [done.judged.name for done in said] == ["mine/other"]


def test_a_line_without_a_number_at_one_seed_gets_more_seeds(tmp_path: Path) -> None:
    line = '{"y": {"a": 0.1 * (at["seed"] % 3), "b": None if at["seed"] == 2 else 1 + at["x"]}}'
    text = PURE.replace("seeds=2", "seeds=study.until(0.001, of='y', least=3, most=7)").replace('{"y": at["slope"] * at["x"] + 0.1 * (at["seed"] % 3)}', line)
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    assert len(ran(tmp_path)) == 3 * 7 and done.judged.kept.missing == 0
    assert [len(values) for values in (done.judged.kept.results.where(x=1, line=line).samples("y") for line in "ab")] == [7, 6]


@pytest.mark.parametrize(("seeds", "judged"), [("4", [1, 3, 4]), ("study.until(0.001, of='y', least=4, most=9)", [1])])
def test_seeds_after_one_that_failed_are_declared_and_count_where_none_depends_on_it(tmp_path: Path, seeds: str, judged: list[int]) -> None:
    text = PURE.replace("seeds=2", f"seeds={seeds}").replace("x=[1, 2, 3]", "x=[1]").replace("return {", "1 / (at['seed'] - 2)\n        return {")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    kept = done.judged.kept
    assert (len(done.failures), kept.missing, kept.runs, kept.others) == (1, 1, 3, 0)
    assert list(kept.results.where(x=1).cells[0].by_seed("y")) == judged
    # One that is left out is not declared any more.
    declared = _registry.load(declare(tmp_path, text.replace(f"seeds={seeds}", "seeds=3")))
    assert (again := declared.study(declared.figures[0]).kept()).runs == 2 and again.others == 1


def test_every_point_is_run_with_one_seed_before_any_with_two(tmp_path: Path) -> None:
    study.run(str(declare(tmp_path)), jobs=1)
    assert (tmp_path / "ran.txt").read_text().splitlines() == ["1 1", "2 1", "3 1", "1 2", "2 2", "3 2"]


def test_few_runs_are_handed_out_ahead_and_the_figure_is_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpline.study._runner.AHEAD", 2)

    class Watched(ThreadPoolExecutor):
        open = most = 0
        figures: set[int] = set()

        def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
            Watched.open += 1
            Watched.most = max(Watched.most, Watched.open)
            Watched.figures.add(id(args[0]))
            future = super().submit(fn, *args, **more)
            future.add_done_callback(lambda _: setattr(Watched, "open", Watched.open - 1))
            return future

    with Watched(2) as executor:
        (done,) = study.run(str(declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=list(range(1, 31))"))), executor=executor)
    assert not done.failures and len(ran(tmp_path)) == 60
    assert Watched.most == 2 and len(Watched.figures) == 1


def test_the_order_of_a_file_does_not_depend_on_which_run_ended_first(tmp_path: Path) -> None:
    head: dict[str, Any] = {"declared": "d", "ran": "r", "builds": "", "measured": "m", "x": 1}
    rows = [{**head, "scenario": 7, "seed": seed, "y": y} for seed, y in enumerate([math.nan, 2.0, 1.0, math.nan, 0.5], 1)]

    def seeds(order: Sequence[int]) -> list[Any]:
        path = tmp_path / f"{order[0]}.parquet"
        with _store.Store(path) as store:
            store.put([[rows[place]] for place in order])
        return warpline.Table.read(path)["seed"]

    assert seeds([0, 1, 2, 3, 4]) == seeds([4, 2, 3, 1, 0]) == [5, 3, 2, 1, 4]


def test_results_of_earlier_versions_are_read(tmp_path: Path) -> None:
    file = declare(tmp_path)
    study.run(str(file))
    ran(tmp_path)
    path = tmp_path / "results/line.parquet"
    table = warpline.Table.read(path)
    columns = {name: table[name] for name in table.column_names}
    # They kept the hash as text, and a key.
    declared = _registry.load(file)
    of = declared.study(declared.figures[0])
    hashes = {_store.number(text): text for point in declared.figures[0].points for text in [of.hash_of(point, 1)]}
    columns["scenario"] = [hashes[number] for number in columns["scenario"]]
    columns["key"] = ["0123456789abcdef"] * len(table)
    warpline.Table.from_columns(columns).write(path)
    (done,) = study.run(str(file))
    assert ran(tmp_path) == [] and done.good
    assert "key" not in warpline.Table.read(path).column_names


@pytest.mark.parametrize("measures", ['{"bps": "totals.goodput_bps"}', 'lambda run: {"bps": run.summary["totals"]["goodput_bps"]}'])
def test_what_was_an_axis_is_no_measure(tmp_path: Path, measures: str) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    text = f"""\
        from warpline import study

        FIGURE = study.Figure(
            name="f", title="F", scenario="two.toml", points=study.grid(limit=[10, 50]), settings={{"more": 1}}, measures={measures}, quick=study.quick()
        )
    """

    def run(text: str) -> tuple[int, study.Done, list[str]]:
        with Counting(2) as executor:
            (done,) = study.run(str(declare(tmp_path, text)), executor=executor)
        return executor.count, done, warpline.Table.read(tmp_path / "results/f.parquet").column_names

    made, _, columns = run(text)
    assert made == 1 and "limit" in columns
    # The hash of the scenario is the same, and so nothing runs again.
    made, done, _ = run(text.replace("limit=", "most="))
    assert (made, done.judged.kept.missing) == (0, 0)
    assert {name for cell in done.judged.kept.results.cells for name in cell.samples} == {"bps"} and done.judged.kept.results.values("most") == [10, 50]
    assert "limit" not in (tmp_path / "results/f.md").read_text()
    # What is kept for another declaration has its axes.
    made, _, columns = run(text.replace("limit=", "most=").replace('"more": 1', '"more": 2'))
    assert made == 0 and "limit" not in columns and "most" in columns


def test_numbers_stay_numbers_beside_earlier_results_of_another_kind(tmp_path: Path) -> None:
    def run(measured: str) -> study.Done:
        return study.run(str(declare(tmp_path, PURE.replace('return {"y":', f'return {{"y": {measured}, "z":'))), jobs=1)[0]

    run('at["x"] > 1')
    done = run('at["x"] * 1.5')
    assert done.good and done.judged.kept.others == 6
    rows = [row for rows in _store.Store(tmp_path / "results/line.parquet")._runs.values() for row in rows]
    values = [row["y"] for row in rows]
    assert {type(value) for value in values} == {bool, float} and sorted(float(value or 0) for value in values) == [0, 0, *[1] * 4, 1.5, 1.5, 3, 3, 4.5, 4.5]
    # The first declaration has what it has measured, too.
    ran(tmp_path)
    assert run('at["x"] > 1').judged.kept.results.means("y") == [0, 1, 1] and ran(tmp_path) == []


def test_lines_and_axes_of_several_kinds_stay_what_they_are(tmp_path: Path) -> None:
    text = PURE.replace("x=[1, 2, 3]", "x=[1, 'two', False]").replace('{"y": at["slope"] * at["x"] + 0.1 * (at["seed"] % 3)}', '{"y": {1: 1.0, 2: 5.0, "all": 6.0}}')
    text = text.replace('results.rising("y", "x"), theirs=3', 'results.mean("y", line=2), theirs=5').replace('study.lines(x="x", y="y")', "study.table()")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    assert done.good and done.judged.kept.results.values("line") == [1, 2, "all"]
    rows = [row for rows in _store.Store(tmp_path / "results/line.parquet")._runs.values() for row in rows]
    assert {repr(row["x"]) for row in rows} == {"1", "'two'", "False"}
    assert {repr(row["line"]) for row in rows} == {"1", "2", "'all'"}


def test_a_column_whose_name_is_like_that_of_a_packed_one_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    name = f"y{_store.JSON}"
    with _store.Store(path) as store:
        store.put([[{**kept_row(1), name: "[1"}]])
    (rows,) = _store.Store(path)._runs.values()
    assert rows[0][name] == "[1"


@pytest.mark.parametrize(("measured", "told"), [("2**70", "the measure y returned a whole number of 71 bits"), ('{2**70: 1}', "the measure y has as a line a whole number of 71 bits"), ("{(1, 2): 3}", "as a line tuple")])
def test_what_cannot_be_kept_is_a_failed_run_and_the_next_study_goes_on(tmp_path: Path, measured: str, told: str) -> None:
    (done,) = study.run(str(declare(tmp_path, PURE.replace('return {"y":', f'return {{"y": {measured}, "z":'))), jobs=1, only={"x": 1})
    assert len(done.failures) == 2 and all(told in failure.error for failure in done.failures)
    (again,) = study.run(str(declare(tmp_path)), jobs=1)
    assert again.good


def test_a_journal_with_a_number_that_a_column_cannot_have_does_not_stop_a_study(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.with_suffix(".jsonl").write_text(json.dumps([{**kept_row(1), "y": 2**70}]) + "\n")
    with _store.Store(path):
        pass
    (rows,) = _store.Store(path)._runs.values()
    assert rows[0]["y"] == 2**70


@pytest.mark.parametrize(
    ("journal", "told"),
    [
        (b"garbage\n", "line 1 is none that a study has written"),
        (b'[{"ran": "w\n}\n', "line 2 is none that a study has written"),
        (b"7\n", "line 1 is none that a study has written"),
        (b"[7]\n", "line 1 is none that a study has written"),
        (b'[{"y": 1}]\n', "a row without scenario"),
        (b"\xff\xfe", "decode"),
    ],
)
def test_a_journal_that_no_study_has_written_is_named_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str], journal: bytes, told: str) -> None:
    file, path = str(declare(tmp_path)), tmp_path / "results/line.jsonl"
    path.parent.mkdir()
    path.write_bytes(journal)
    for command in ("run", "judge"):
        assert main([command, file]) == 3
        said = capsys.readouterr().err
        assert f"{path} has no results of a study that can be read (" in said and told in said
    assert path.read_bytes() == journal and ran(tmp_path) == []


@pytest.mark.parametrize("cut", ["", "[", '[{"ran": "w", "scen', '[{"ran": "w"}, {"ran": '])
def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "f.parquet"
    whole = [json.dumps([kept_row(seed)]) for seed in (1, 2)]
    path.with_suffix(".jsonl").write_text(f"{whole[0]}\n{cut}\n{whole[1]}\n{cut}")
    with _store.Store(path):
        pass
    assert warpline.Table.read(path)["y"] == [1, 2] and not path.with_suffix(".jsonl").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="unix: a fifo")
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    file = str(declare(tmp_path))
    for name in ("line.jsonl", "line.parquet", "line.imported.parquet"):
        for make in (os.mkfifo, os.mkdir):
            make(tmp_path / "results" / name)
            for command in ("run", "judge"):
                assert main([command, file]) == 3
                assert f"results/{name} is not a regular file" in capsys.readouterr().err
            (tmp_path / "results" / name).rename(tmp_path / f"{name}-{make.__name__}")
    # Nor is it a scenario, or a declaration.
    os.mkfifo(tmp_path / "a.fifo")
    for source in ("'a.fifo'", "study.file('a.fifo')", "study.template('a.fifo')", "study.file('results')"):
        figure = f"name='f', title='F', scenario={source}, measures={{'y': 'totals.jain'}}, points=study.grid(x=[1]), quick=study.quick()"
        assert main(["run", str(declare(tmp_path, f"from warpline import study\nFIGURE = study.Figure({figure})"))]) == 2
        assert "is not a regular file, so that it is not read; name another file" in capsys.readouterr().err
    os.mkfifo(tmp_path / "a.py")
    assert main(["judge", str(tmp_path / "a.py")]) == 2
    assert "a.py cannot be read: it is not a regular file" in capsys.readouterr().err


def test_a_run_that_is_in_the_journal_twice_counts_once(tmp_path: Path) -> None:
    row = {"ran": "w", "scenario": 7, "measured": "m", "seed": 1, "x": 1}
    path = tmp_path / "f.parquet"
    path.with_suffix(".jsonl").write_text("".join(f'[{json.dumps({**row, "y": y})}]\n' for y in (1, 2)))
    with _store.Store(path) as store:
        assert [found["y"] for found in store.find("sha256:000000000000007f", 1, "m")] == [2]
    assert warpline.Table.read(path)["y"] == [2]


def kept_row(seed: int) -> dict[str, Any]:
    return {"ran": "w", "scenario": 7, "measured": "m", "seed": seed, "y": seed}


def test_what_another_study_writes_while_one_begins_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    late = _store.Store(path)
    with _store.Store(path) as early:
        early.put([[kept_row(1)]])
    with late:
        late.put([[kept_row(2)]])
    assert warpline.Table.read(path)["y"] == [1, 2]


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_result_is_found_while_the_study_that_has_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_first: bool) -> None:
    """The journal becomes the table just before or after somebody reads the journal."""
    path = tmp_path / "f.parquet"
    writing = _store.Store(path)
    writing.__enter__()
    writing.put([[kept_row(1)]])
    read = Path.read_text

    def meanwhile(file: Path, *args: Any, **more: Any) -> str:
        monkeypatch.undo()
        text = "" if ends_first else read(file, *args, **more)
        writing.__exit__(None, None, None)
        return read(file, *args, **more) if ends_first else text

    monkeypatch.setattr(Path, "read_text", meanwhile)
    assert len(_store.Store(path)) == 1 and not path.with_suffix(".jsonl").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="unix: locks of files")
def test_a_lock_of_a_journal_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    path = tmp_path / "f.parquet"
    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        """Between opening and locking, another study ends."""
        monkeypatch.undo()
        path.with_suffix(".jsonl").unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with _store.Store(path) as store:
        assert path.with_suffix(".jsonl").exists()
        with pytest.raises(warpline.RunError, match="another study is running"), _store.Store(path):
            pass
        store.put([[kept_row(1)]])
        assert len(_store.Store(path)) == 1


def test_the_journal_is_removed_where_no_open_file_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.parquet"
    unlink = Path.unlink

    def as_windows(file: Path, missing_ok: bool = False) -> None:
        if file == path.with_suffix(".jsonl") and store._journal is not None and not store._journal.closed:
            raise PermissionError("another process has it open")
        unlink(file, missing_ok)

    monkeypatch.setattr(_store, "fcntl", None)
    monkeypatch.setattr(Path, "unlink", as_windows)
    with _store.Store(path) as store:
        store.put([[kept_row(1)]])
    assert warpline.Table.read(path)["y"] == [1] and not path.with_suffix(".jsonl").exists()


def test_a_ctrl_c_while_a_run_is_written_does_not_lose_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "f.parquet"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), _store.Store(path) as store:
        patch.setattr("warpline.study._store.os.fsync", interrupted)
        store.put([[{"ran": "w", "scenario": 7, "measured": "m", "seed": 1, "y": 1}]])
    assert warpline.Table.read(path)["y"] == [1] and not path.with_suffix(".jsonl").exists()


def test_two_declarations_in_one_directory_do_not_share_the_results_of_a_figure(tmp_path: Path) -> None:
    study.run(str(declare(tmp_path)), jobs=1)
    other = declare(tmp_path, PURE.replace('"slope": 10', '"slope": 11').replace("it rises", "'line' rises"), "other.py")
    picture = (tmp_path / "results/line.svg").read_bytes()
    ran(tmp_path)
    with pytest.raises(study.StudyError, match=r"^other/line: .*line.parquet has results of mine.py, which declares a figure 'line', too: .* give one of the two another name"):
        study.run(str(other), jobs=1)
    assert ran(tmp_path) == [] and (tmp_path / "results/line.svg").read_bytes() == picture
    # The other one goes on.
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert done.good and ran(tmp_path) == []
    # A file that has another name now, or whose figure has one.
    declare(tmp_path, PURE.replace('name="line"', 'name="straight"'))
    (done,) = study.run(str(other), jobs=1)
    assert done.good and len(ran(tmp_path)) == 6
    other.rename(tmp_path / "third.py")
    (done,) = study.run(str(tmp_path / "third.py"), jobs=1)
    assert done.good and ran(tmp_path) == []


def test_a_figure_of_a_module_beside_the_declaration_has_its_results_by_either_name(tmp_path: Path) -> None:
    declare(tmp_path, "from .helper import FIGURE\n")
    helper = declare(tmp_path, name="helper.py")
    declared = _registry.load(tmp_path / "mine.py")
    assert declared.study(declared.figures[0]).files == ["mine.py", "helper.py"]
    for file in (helper, tmp_path / "mine.py", helper):
        (done,) = study.run(str(file), jobs=1, force=True)
        assert done.good and len(ran(tmp_path)) == 6


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("line.parquet", b""),
        ("line.parquet", None),
        ("line.jsonl", b"\xff\xfe\n"),
        ("line.jsonl", b"5\n"),
        ("line.jsonl", b'[{"seed": 1}]\n'),
        ("line.imported.parquet", None),
    ],
)
def test_a_file_without_results_is_named_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None) -> None:
    file = declare(tmp_path)
    spoilt = tmp_path / "results" / name
    spoilt.parent.mkdir()
    if content is None:
        Table.from_columns({"a": [1]}).write(spoilt)
    else:
        spoilt.write_bytes(content)
    before = spoilt.read_bytes()
    for words in (["run", str(file), "--jobs", "1", "--force"], ["judge", str(file)]):
        assert main(words) == 3
        said = capsys.readouterr().err
        assert f"{spoilt} has no results of a study that can be read (" in said and "delete it" in said and "run the scenario again" not in said
    assert spoilt.read_bytes() == before
    spoilt.unlink()
    assert main(["run", str(file), "--jobs", "1"]) == 0
