"""Studies: declarations, points, seeds, results that are kept, judgements, and the command."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import study
from warpline.study import _machine, _registry, _report, _runner, _scratch, _store
from warpline.study.__main__ import main
from warpline.study._results import Cell

from conftest import child_environment, dumbbell, needs_guests

#: A figure without a network: ten times x, with chance that depends on the seed.
PURE = """\
    '''A line through the origin.'''

    import os
    from pathlib import Path
    from warpline import study

    def model(at):
        with (Path(__file__).parent / "ran.txt").open("a") as out:
            out.write(f"{at['x']} {at['seed']}\\n")
        return {"y": at["slope"] * at["x"] + 0.1 * (at["seed"] % 3)}

    FIGURE = study.Figure(
        name="line",
        title="A line",
        model=model,
        points=study.grid(x=[1, 2, 3]),
        settings={"slope": 10},
        seeds=2,
        claims=[study.Claim(text="it rises threefold", ours=lambda results: results.rising("y", "x"), theirs=3, bound=study.within(0.05))],
        picture=study.lines(x="x", y="y"),
        quick=study.quick(points=study.grid(x=[1, 3]), seeds=1),
    )
"""


def declare(directory: Path, text: str = PURE, name: str = "mine.py") -> Path:
    file = directory / name
    file.write_text(textwrap.dedent(text))
    return file


def ran(directory: Path) -> list[str]:
    """What ran, and empties the list."""
    log = directory / "ran.txt"
    lines = sorted(log.read_text().splitlines()) if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def simple(**options: Any) -> study.Figure:
    return study.Figure(**{"name": "f", "title": "F", "points": study.grid(x=[1, 2]), "quick": study.quick(), "model": lambda at: {"y": at["x"]}, **options})


# Points ---------------------------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination() -> None:
    assert study.grid(a=[1, 2], b=["x", "y"]) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize("draw", [study.random, study.sobol])
def test_drawn_points_are_in_their_ranges_and_the_same_each_time(draw: Any) -> None:
    axes = {"rate": study.log(1e6, 1e9), "share": study.uniform(0, 1), "flows": study.integers(1, 4), "cc": study.choice("reno", "cubic")}
    drawn = draw(64, seed=3, **axes)
    assert drawn == draw(64, seed=3, **axes) != draw(64, seed=4, **axes)
    assert all(1e6 <= point["rate"] <= 1e9 and 0 <= point["share"] <= 1 for point in drawn)
    assert {point["flows"] for point in drawn} == {1, 2, 3, 4}
    assert {point["cc"] for point in drawn} == {"reno", "cubic"}
    # Each factor is as likely: half of the rates are below the geometric mean.
    assert 20 <= sum(point["rate"] < math.sqrt(1e15) for point in drawn) <= 44


def test_a_sample_has_some_points_once_and_in_their_order() -> None:
    points = study.grid(a=range(10), b=range(10))
    drawn = study.sample(points, 30, seed=3)
    assert drawn == study.sample(points, 30, seed=3) != study.sample(points, 30, seed=4)
    places = [points.index(point) for point in drawn]
    assert len(places) == 30 and places == sorted(set(places)) != list(range(30))
    assert study.sample(points, 100) == points
    with pytest.raises(ValueError, match="101 of 100"):
        study.sample(points, 101)


def test_a_range_that_is_none_says_so() -> None:
    with pytest.raises(ValueError, match="empty"):
        study.uniform(2, 1)
    with pytest.raises(ValueError, match="above 0"):
        study.log(0, 1)
    with pytest.raises(TypeError, match="drawn from"):
        study.random(2, x=[1, 2])  # type: ignore[arg-type]


def test_sobol_without_scipy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats.qmc", None)
    with pytest.raises(warpline.MissingDependencyError, match=r"warpline\[study\]"):
        study.sobol(2, x=study.uniform(0, 1))


# Seeds ----------------------------------------------------------------------------------------------------------------


def test_seeds_are_added_until_the_interval_is_narrow() -> None:
    wanted = study.until(0.05, of="y", least=3, most=20)
    assert wanted.wanted([]) == 3
    assert wanted.wanted([[10.0, 10.1, 9.9]]) == 3
    assert wanted.wanted([[10.0, 10.1, 9.9], [10.0, 14.0, 6.0]]) == 6
    assert wanted.wanted([[float(n % 5) for n in range(18)]]) == 20
    assert wanted.wanted([[0.0, 0.0, 0.0]]) == 3
    # What is no number is not known any better with more of them, and ends at the most.
    assert wanted.wanted([[math.nan, 1.0, 1.0]]) == wanted.wanted([[1.0, 1.0, 1.0], [math.inf, 1.0, -math.inf]]) == 20
    with pytest.raises(ValueError, match="at least 2"):
        study.until(0.05, of="y", least=1)


# Declarations ---------------------------------------------------------------------------------------------------------


def test_a_declaration_with_an_error_says_what() -> None:
    with pytest.raises(ValueError, match="either a scenario or a model"):
        simple(scenario="x.toml")
    with pytest.raises(ValueError, match="same axes"):
        simple(points=[{"x": 1}, {"y": 2}])
    with pytest.raises(ValueError, match="twice"):
        simple(points=[{"x": 1}, {"x": 1}])
    with pytest.raises(ValueError, match="seed cannot be"):
        simple(points=study.grid(seed=[1]))
    with pytest.raises(ValueError, match="no points"):
        simple(points=[])


def test_a_bound_that_refuses_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot fail"):
        study.Claim(text="anything goes", ours=lambda _: 1.0, theirs=1.0, bound=study.Bound("anything", lambda ours, theirs: True))


def test_what_a_function_does_has_a_digest(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        declared = _registry.load(declare(tmp_path, text, f"d{len(list(tmp_path.iterdir()))}.py"))
        return declared.figures[0].measured

    base = digest(PURE)
    assert digest(PURE.replace("# none", "")) == base
    assert digest(PURE.replace("def model(at):", "def model(at):  # a comment\n")) == base
    assert digest(PURE.replace("A line\"", "Another title\"")) == base
    assert digest(PURE.replace("% 3", "% 4")) != base
    helper = PURE.replace("def model", "def helper(x):\n        return x\n\n    def model").replace("0.1 *", "helper(0.1) *")
    assert digest(helper) != digest(helper.replace("return x", "return 2 * x"))


WITH_HELPERS = """\
    from functools import partial
    from warpline import study
    from . import helper
    from .helper import Base

    class Net(Base):
        rate = 5

        @property
        def speed(self):
            return 2 * self.rate

        @staticmethod
        def plain():
            return 30

    def by(factor):
        return lambda run: factor * Net().speed

    SINK = "here"

    def watch(run, *, sink=SINK):
        return helper.seen(run)

    def given(run, share):
        return share

    FIGURE = study.Figure(
        name="f",
        title="F",
        scenario="two.toml",
        points=study.grid(x=[1]),
        measures={"a": by(1), "b": by(2), "c": by(1), "watch": watch, "given": partial(given, share=0.5)},
        quick=study.quick(),
    )
"""
HELPER = """\
    class Base:
        def load(self):
            return 70

    def seen(run):
        return 90
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rate = 5", "rate = 6"),
        ("2 * self", "3 * self"),
        ("return 30", "return 31"),
        ('"b": by(2), "c": by(1)', '"b": by(2), "c": by(2)'),
        ('"b": by(2)', '"b": by(3)'),
        ('SINK = "here"', 'SINK = "there"'),
        ("share=0.5", "share=0.6"),
        ("return 70", "return 71"),
        ("return 90", "return 91"),
    ],
)
def test_all_that_a_measure_uses_is_in_its_digest(tmp_path: Path, before: str, after: str) -> None:
    found = []
    for directory, change in (("one/same", False), ("two/same", False), ("three/same", True)):
        (tmp_path / directory).mkdir(parents=True)
        texts = [text.replace(before, after) if change else text for text in (WITH_HELPERS, HELPER)]
        declare(tmp_path / directory, texts[1], "helper.py")
        found.append(_registry.load(declare(tmp_path / directory, texts[0])).figures[0].measured)
    # The same in another place, and another one after a change; although the directories have the same name.
    assert found[0] == found[1] != found[2]


def test_a_digest_is_the_same_under_all_versions_of_python(tmp_path: Path) -> None:
    """If this fails after a change of how digests are made, the results of the papers need to be written with the new ones."""
    declare(tmp_path, HELPER, "helper.py")
    text = WITH_HELPERS.replace("class Net", "from dataclasses import dataclass\n\n    @dataclass\n    class Net").replace("rate = 5", "rate: int = 5")
    # What Python writes in several ways, and what it compiles in several.
    text = text.replace("return helper", "one, two = (f\"{run['a']}\" for _ in [[SINK for one in [by]]])\n        return helper")
    assert _registry.load(declare(tmp_path, text)).figures[0].measured == "76cc14f1c9434294"


def test_a_digest_is_of_the_code_that_was_read(tmp_path: Path) -> None:
    def of(declared: _registry.Declared) -> tuple[float, str]:
        measures: Any = declared.figures[0].measures
        return measures["watch"](None), declared.figures[0].measured

    declare(tmp_path, HELPER, "helper.py")
    before = _registry.load(declare(tmp_path, WITH_HELPERS))
    first = of(before)
    # An edit while a study runs, in the same second and of the same length.
    declare(tmp_path, HELPER.replace("90", "91"), "helper.py")
    declare(tmp_path, WITH_HELPERS.replace("2 * self", "3 * self"))
    assert of(before) == first
    after = of(_registry.load(tmp_path / "mine.py"))
    assert (first[0], after[0]) == (90, 91) and first[1] != after[1]
    assert not (tmp_path / "__pycache__").exists()


# Judgement ------------------------------------------------------------------------------------------------------------

RESULTS = study.Results(Cell({"x": x, "line": line}, {"y": [x * k, x * k + 0.2]}) for x in (1, 2, 4) for line, k in (("a", 1.0), ("b", 3.0)))


def test_results_are_chosen_by_values_collections_and_functions() -> None:
    assert RESULTS.mean("y", x=2, line="a") == pytest.approx(2.1)
    assert RESULTS.means("y", x=[1, 4], line="b") == pytest.approx([3.1, 12.1])
    assert RESULTS.max("y", x=lambda x: x < 4) == pytest.approx(6.1)
    assert RESULTS.rising("y", "x", line="a") == pytest.approx(4.1 / 1.1)
    assert RESULTS.values("line") == ["a", "b"]
    with pytest.raises(study.NoResultsError, match="x=3"):
        RESULTS.mean("y", x=3)


def test_values_of_an_axis_are_compared_seed_by_seed() -> None:
    cells = [
        Cell({"tcp": tcp, "x": x}, {"y": [factor * x + seed for seed in range(count)]})
        for tcp, factor, count in (("a", 3.0, 3), ("b", 1.0, 2), ("c", 0.0, 3))
        for x in (1, 2)
        if (tcp, x) != ("c", 2)
    ]
    found = study.Results(cells).paired("y", "tcp", {"a - b": ("a", "b"), "c - a": ("c", "a")}, lambda ours, theirs: ours - theirs, "more")
    assert [(dict(cell.where), dict(cell.samples)) for cell in found.cells] == [
        ({"x": 1, "line": "a - b"}, {"more": [2.0, 2.0]}),
        ({"x": 2, "line": "a - b"}, {"more": [4.0, 4.0]}),
        ({"x": 1, "line": "c - a"}, {"more": [-3.0, -3.0, -3.0]}),
    ]


def test_a_seed_without_a_value_does_not_shift_the_others() -> None:
    rows: list[dict[str, Any]] = [
        {"tcp": tcp, "x": x, "seed": seed, "y": None if (tcp, x, seed) == ("a", 1, 1) else 100 * x + 10 * seed + (tcp == "a")} for tcp in "ab" for x in (1, 2) for seed in (1, 2, 3)
    ]
    results = study.Results.of(rows, ["tcp", "x"], ["y"])
    paired = results.paired("y", "tcp", {"a - b": ("a", "b")}, lambda ours, theirs: ours - theirs, "more")
    assert [(cell.where["x"], cell.by_seed("more")) for cell in paired.cells] == [(1, {2: 1.0, 3: 1.0}), (2, {1: 1.0, 2: 1.0, 3: 1.0})]
    averaged = results.averaged("tcp")
    assert [cell.by_seed("y") for cell in averaged.cells] == [{2: 171.0, 3: 181.0}, {1: 160.0, 2: 170.0, 3: 180.0}]
    # Those without a seed in common have no pair and no mean.
    apart = study.Results([Cell({"x": x, "k": 1}, {"y": [1.0]}, seeds={"y": [x]}) for x in (1, 2)])
    assert apart.paired("y", "x", {"": (1, 2)}, lambda a, b: a - b, "more").cells == [] == apart.averaged("k").cells
    # Cells that have changed places have taken their seeds with them.
    assert [cell.by_seed("y") for cell in apart.shuffled().cells] == [{2: 1.0}, {1: 1.0}]


def test_means_are_matched_at_the_same_points_only() -> None:
    cells = [Cell({"tcp": tcp, "x": x}, {"y": [10.0 * x + (tcp == "a")]}) for tcp, xs in (("a", (1, 2)), ("b", (2, 1)), ("c", (2, 3))) for x in xs]
    results = study.Results(cells)
    assert results.matched("y", "tcp", "a", "b") == [(11.0, 10.0), (21.0, 20.0)]
    assert results.matched("y", "tcp", "a", "c", x=2) == [(21.0, 20.0)]
    # As many on both sides, but others.
    with pytest.raises(study.NoResultsError, match="for both tcp='a' and tcp='c'"):
        results.matched("y", "tcp", "a", "c")


def test_results_are_averaged_over_the_other_axes() -> None:
    cells = [Cell({"a": a, "b": b}, {"y": [10.0 * a + b, 10.0 * a + b + 1, 99.0][: 2 + (b == 3)]}) for a in (1, 2) for b in (1, 3)]
    found = study.Results(cells).averaged("a")
    assert [(dict(cell.where), cell.samples["y"]) for cell in found.cells] == [({"a": 1}, [12.0, 13.0]), ({"a": 2}, [22.0, 23.0])]
    assert found.half_width("y", a=1) == pytest.approx(12.706 / 2, rel=1e-3), "an interval over the seeds"
    mixed = study.Results(Cell({"tcp": tcp, "x": x}, {"y": [1.0]}) for x in (5, 1, 3) for tcp in ("z", "a"))
    assert [tuple(cell.where.values()) for cell in mixed.averaged("x", "tcp").cells] == [(x, tcp) for x in (1, 3, 5) for tcp in ("z", "a")]
    alone = study.Results([Cell({"a": 1, "b": 2}, {"y": [5.0]}, {"y": 0.5})]).averaged("a")
    assert alone.half_width("y", a=1) == 0.5


def claim(theirs: float, bound: study.Bound, differs: str = "") -> study.Verdict:
    return study.Claim(text="", ours=lambda results: results.mean("y", x=2, line="a"), theirs=theirs, bound=bound, differs=differs).judge(RESULTS)


def test_a_claim_is_met_or_not_and_a_difference_needs_its_reason() -> None:
    assert claim(2, study.within(0.1)).state == "met"
    assert claim(3, study.within(0.1)).state == "not met"
    differs = claim(3, study.within(0.1), "our flows are shorter")
    assert (differs.state, differs.why, differs.good) == ("differs", "our flows are shorter", True)
    assert not claim(2, study.within(0.1), "our flows are shorter").good, "a reason for what agrees is out of date"
    assert claim(2, study.at_least()).state == "met"
    assert claim(2, study.at_most()).state == "not met"
    assert claim(0, study.between(2, 3)).state == "met"
    assert claim(2, study.within_absolute(0.05)).state == "not met"


def test_no_results_and_no_numbers_are_never_met() -> None:
    assert study.Claim(text="", ours=lambda results: results.mean("z"), theirs=1, bound=study.at_least()).judge(RESULTS).state == "no results"
    assert study.Claim(text="", ours=lambda _: math.nan, theirs=1, bound=study.at_most()).judge(RESULTS).state == "not met"


def test_a_claim_that_does_not_look_at_the_results_is_found() -> None:
    blind = study.Claim(text="", ours=lambda _: 2.0, theirs=2, bound=study.within(0.1))
    assert blind.judge(RESULTS).state == "cannot fail"
    assert not blind.judge(RESULTS).good


def test_claims_of_a_table() -> None:
    claims = study.values("y", {(1, "a"): 1.1, (2, "b"): 9.0}, by=("x", "line"), bound=study.within(0.1), text="y", differs={(2, "b"): "why"})
    assert [one.judge(RESULTS).state for one in claims] == ["met", "differs"]
    with pytest.raises(ValueError, match="named by x, line"):
        study.values("y", {1: 1.0}, by=("x", "line"), bound=study.within(0.1), text="y")


# Runs -----------------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr("warpline.study._runner.build", lambda: "warpline-9.9.9-0123456789ab")
    ran(tmp_path)
    study.run(str(file), keep=True)
    assert ran(tmp_path) == []
    # In this process, which has that build.
    with ThreadPoolExecutor(1) as executor:
        (done,) = study.run(str(file), executor=executor)
    assert len(ran(tmp_path)) == 6 and done.judged.kept.builds == ["warpline-9.9.9-0123456789ab"] and done.judged.kept.others == 0


def test_results_of_another_kernel_or_stack_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    file = declare(tmp_path, MANY)

    def run(builds: list[str] | None, **options: Any) -> tuple[int, list[str]]:
        """How many runs are made on a machine with these, and what then has made the results. Without any, it lacks what the scenarios need."""

        def found(_: warpline.Scenario) -> list[str]:
            if builds is None:
                raise warpline.RunError("no guest kernel")
            return builds

        made: list[int] = []

        class Counting(ThreadPoolExecutor):
            def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
                made.append(1)
                return super().submit(fn, *args, **more)

        monkeypatch.setattr(warpline.Scenario, "builds", property(found))
        with Counting(2) as executor:
            (done,) = study.run(str(file), executor=executor, **options)
        return len(made), list(done.judged.kept.builds)

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


def test_the_same_results_give_the_same_picture(tmp_path: Path) -> None:
    file = declare(tmp_path)
    study.run(str(file), jobs=2)
    first = (tmp_path / "results/line.svg").read_bytes()
    table = (tmp_path / "results/line.parquet").read_bytes()
    study.run(str(file), force=True, jobs=1)
    assert (tmp_path / "results/line.svg").read_bytes() == first
    assert (tmp_path / "results/line.parquet").read_bytes() == table
    assert b"A line" in first, "text is text"


def test_every_picture_draws_and_one_without_results_is_left_out(tmp_path: Path) -> None:
    pictures = "[study.lines(x='x', y='y', log='xy'), study.lines(x='x', y='y', only={'x': 99}), study.bars(x='x', y='y'), study.cdf(y='y', log='x', alike='x'), study.surface(x='x', y='k', z='y')]"
    text = PURE.replace("study.lines(x=\"x\", y=\"y\")", pictures).replace("x=[1, 2, 3]", "k=[1, 2], x=[1, 2, 3]")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    picture = next(path for path in done.files if path.suffix == ".svg").read_text()
    # Four axes, and a colour bar.
    assert picture.count('id="axes_') == 5


def test_pictures_and_tables_of_what_is_made_of_the_results(tmp_path: Path) -> None:
    pictures = (
        "[study.lines(x='x', y='more', of=lambda results: results.paired('y', 'k', {'2 - 1': (2, 1)}, lambda a, b: a - b, 'more')), "
        "study.lines(x='x', y='y', of=lambda results: results.where(x=99)), "
        "study.table(x='x', y='y', of=lambda results: results.averaged('x'))]"
    )
    text = PURE.replace("study.lines(x=\"x\", y=\"y\")", pictures).replace("x=[1, 2, 3]", "k=[1, 2], x=[2, 1, 3]").replace('at["slope"] *', 'at["slope"] * at["k"] *')
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    picture = next(path for path in done.files if path.suffix == ".svg").read_text()
    assert picture.count('id="axes_') == 1 and "more" in picture, "what has nothing to show is left out"
    table = next(path for path in done.files if path.suffix == ".md").read_text()
    # The mean of k = 1 and 2, and of the seeds.
    assert "| y | 1 | 2 | 3 |" in table and "|  | 15.15 | 30.15 | 45.15 |" in table


def test_a_surface_has_the_means_over_the_other_axes() -> None:
    from matplotlib.figure import Figure as Drawing

    results = study.Results(Cell({"a": a, "b": b, "c": c}, {"y": [100.0 * a + 10 * b + c]}) for a in (1, 2) for b in (1, 2) for c in (0, 4))
    axes = Drawing().subplots()
    study.surface("a", "b", "y").draw(axes, results, simple(points=study.grid(a=[1], b=[1], c=[0])))
    image: Any = axes.get_images()[0]
    assert image.get_array().tolist() == [[112.0, 212.0], [122.0, 222.0]]


def test_a_distribution_of_very_many_values_is_drawn_in_fewer_steps() -> None:
    from matplotlib.figure import Figure as Drawing

    axes = Drawing().subplots()
    results = study.Results([Cell({"a": 1}, {"y": [value / 1e4 for value in range(10_000)]})])
    study.cdf("y", by="a", bounds=(0, 2)).draw(axes, results, simple(points=study.grid(a=[1])))
    line: Any = axes.get_lines()[0]
    xs, ys = line.get_data()
    assert len(xs) < 1000 and (xs[0], ys[0]) == (0, 0) and (xs[-1], ys[-1]) == (0.9999, 1)
    # A uniform distribution: the share of the values up to x is x.
    assert all(y == pytest.approx(x, abs=1e-3) for x, y in zip(xs, ys, strict=True)) and axes.get_xlim() == (0, 2)


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
    hashes = {_store.number(text): text for point in declared.figures[0].points for text in [of.identity(point, 1)[0]]}
    columns["scenario"] = [hashes[number] for number in columns["scenario"]]
    columns["key"] = ["0123456789abcdef"] * len(table)
    warpline.Table.from_columns(columns).write(path)
    (done,) = study.run(str(file))
    assert ran(tmp_path) == [] and done.good
    assert "key" not in warpline.Table.read(path).column_names


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


def test_a_ctrl_c_while_a_run_is_written_does_not_lose_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "f.parquet"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), _store.Store(path) as store:
        patch.setattr("warpline.study._store.os.fsync", interrupted)
        store.put([[{"ran": "w", "scenario": 7, "measured": "m", "seed": 1, "y": 1}]])
    assert warpline.Table.read(path)["y"] == [1] and not path.with_suffix(".jsonl").exists()


def test_a_run_that_fails_or_kills_its_process_does_not_end_the_study(tmp_path: Path) -> None:
    text = PURE.replace("return {", "at['x'] == 2 and os.kill(os.getpid(), 9)\n        1 / (at['x'] - 3)\n        return {")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=2)
    errors = {(failure.point["x"], failure.seed): failure.error for failure in done.failures}
    assert sorted(errors) == [(2, 1), (2, 2), (3, 1), (3, 2)]
    assert "SIGKILL" in errors[2, 1] and "ZeroDivisionError" in errors[3, 2]
    assert not done.good and done.judged.kept.missing == 2
    assert [line for line in ran(tmp_path) if line[0] == "1"] == ["1 1", "1 2"]
    # What failed is tried again, and nothing else.
    study.run(str(declare(tmp_path)), jobs=2, keep=True)
    assert "1 1" in ran(tmp_path), "another measure runs all again"


def test_a_figure_of_which_runs_are_missing_is_not_met(tmp_path: Path) -> None:
    text = PURE.replace("return {", "1 / (at['x'] - 2)\n        return {")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    (verdict,) = done.judged.verdicts
    assert (verdict.state, verdict.why, verdict.good) == ("incomplete", "met so far", False) and verdict.ours == pytest.approx(2.97, abs=0.01)
    assert not done.good and done.judged.short == "1 incomplete; 1 of 3 points lack results; there are 4 runs so far"
    declared = _registry.load(tmp_path / "mine.py")
    page = _report.book([declared])
    assert "| 1 | 1 incomplete | 0 |" in page and "**incomplete**: met so far |" in page
    declare(tmp_path, text.replace("theirs=3", "differs='a steeper line', theirs=5"))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [verdict.why for verdict in done.judged.verdicts] == ["differs so far: a steeper line"]
    declare(tmp_path, text.replace("- 2)", "- 9)").replace("x=[1, 2, 3]", "x=[9]"))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [verdict.state for verdict in done.judged.verdicts] == ["no results"]


ALONE = PURE.replace("        return {", "        with (Path(__file__).parent / 'ran.txt').open('a') as out:\n            out.write('end\\n')\n        return {").replace(
    "seeds=2", "seeds=2, alone=True"
)


def test_runs_that_need_the_machine_are_made_one_at_a_time_and_say_which_it_was(tmp_path: Path) -> None:
    (done,) = study.run(str(declare(tmp_path, ALONE)), jobs=4)
    assert [line == "end" for line in (tmp_path / "ran.txt").read_text().splitlines()] == [False, True] * 6
    (machine,) = done.judged.kept.machines
    assert machine.startswith(_machine.name()) and "other work took" in machine
    assert f"on {machine}" in _report.text(done.judged)
    table = warpline.Table.read(tmp_path / "results/line.parquet")
    assert set(table["machine"]) == {_machine.name()} and all(isinstance(value, float) for column in _machine.COLUMNS[1:] for value in table[column])
    # It is no measure.
    assert {*done.judged.kept.results.cells[0].samples} == {"y"}
    (plain,) = study.run(str(declare(tmp_path, name="other.py")), jobs=1)
    assert plain.judged.kept.machines == []


def test_runs_that_need_the_machine_are_made_at_once_where_their_factor_leaves_room(tmp_path: Path) -> None:
    # Each waits until another one has begun.
    meet = "import time\n        began = Path(__file__).parent / f'began-{at[\"seed\"]}-{at[\"x\"]}'\n        began.touch()\n        until = time.monotonic() + 20\n        while len(list(began.parent.glob('began-*'))) < 2:\n            assert time.monotonic() < until, 'alone'\n            time.sleep(0.01)\n        "
    text = PURE.replace("        return {", f"        {meet}return {{").replace("seeds=2", "seeds=2, alone=True, tdf=10")
    (done,) = study.run(str(declare(tmp_path, text)))
    assert not done.failures
    assert done.judged.kept.machines


def test_what_a_machine_cannot_run_is_a_result_and_is_tried_again(tmp_path: Path) -> None:
    text = PURE.replace("        return {", "        if at['x'] == 2:\n            raise study.Unable('too slow')\n        return {").replace("seeds=2", "seeds=2, alone=True")
    declare(tmp_path, text)
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [(failure.point, failure.seed, failure.error) for failure in done.failures] == [({"x": 2}, seed, "too slow") for seed in (1, 2)]
    assert not done.good
    # Nothing is missing, so that the verdict is final.
    assert done.judged.kept.missing == 0 and [verdict.state for verdict in done.judged.verdicts] == ["met"]
    assert done.judged.kept.unable == ["2 runs could not be made (x 2): too slow"]
    assert "2 runs could not be made (x 2): too slow" in _report.text(done.judged)
    assert {"x": 2} not in [cell.where for cell in done.judged.kept.results.cells]
    ran(tmp_path)
    (again,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert ran(tmp_path) == ["2 1", "2 2"] and len(again.failures) == 2
    # A machine that can do it has the last word.
    declare(tmp_path, text.replace("raise study.Unable('too slow')", "pass"))
    (able,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert not able.failures and not able.judged.kept.unable


def test_seeds_are_not_widened_where_the_machine_is_unable(tmp_path: Path) -> None:
    text = PURE.replace("        return {", "        if at['x'] == 2 and at['seed'] == 2:\n            raise study.Unable('too slow')\n        return {")
    declare(tmp_path, text.replace("seeds=2", "seeds=study.until(0.0001, of='y', least=2, most=4)"))
    (done,) = study.run(str(tmp_path / "mine.py"), jobs=1)
    assert [(failure.point, failure.seed) for failure in done.failures] == [({"x": 2}, 2)]
    assert done.judged.kept.missing == 0 and done.judged.kept.unable == ["1 run could not be made (x 2): too slow"]


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
    assert _machine.told(rows) == ["a; other work took 1.50 of its CPUs, at most 2.00", "b"]


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
        simple(scenario=study.template("one.toml.in"), model=None).built({"x": 1}, 1, tmp_path)


NETWORK = """\
    from warpline import study

    FIGURE = study.Figure(
        name="rates",
        title="Goodput",
        scenario=study.file("two.toml", lambda at: {"topology.bottleneck.rate": f"{at['rate']}Mbit/s"}),
        points=study.grid(rate=[2, 8]),
        measures=lambda run, at: {"mbps": {flow["name"]: flow["goodput_bps"] / 1e6 for flow in run.summary["flows"][:2]}, "rate_seen": at["rate"]},
        claims=[study.Claim(text="four times as fast", ours=lambda results: results.rising("mbps", "rate"), theirs=4, bound=study.at_least())],
        quick=study.quick(),
    )
"""


MANY = """\
    from pathlib import Path
    from warpline import study

    HERE = Path(__file__).parent

    def scenario(at):
        with (HERE / "made.txt").open("a") as out:
            out.write("x")
        return (HERE / "two.toml").read_text().replace("20ms", f"{at['delay'] * at['factor']}ms")

    FIGURE = study.Figure(
        name="many",
        title="Many runs",
        scenario=scenario,
        points=study.grid(delay=range(1, 7)),
        settings={"factor": 1},
        measures={"bps": "totals.goodput_bps"},
        seeds=2,
        quick=study.quick(),
    )
"""


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

    def kept() -> _runner.Kept:
        declared = _registry.load(tmp_path / "mine.py")
        return declared.study(declared.figures[0]).kept()

    study.run(str(declare(tmp_path, LIMITS)), jobs=1)
    assert kept().results.means("mine") == [11, 51, 101] and (kept().missing, kept().others) == (0, 0)
    # A setting that only a measure reads.
    declare(tmp_path, LIMITS.replace('"more": 1', '"more": 2'))
    assert (kept().missing, kept().others) == (3, 3)
    study.run(str(tmp_path / "mine.py"), jobs=1)
    assert kept().results.means("mine") == [12, 52, 102]


def test_points_of_one_scenario_share_its_run_where_no_measure_reads_the_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    (done,) = study.run(str(declare(tmp_path, LIMITS.replace('at["limit"] + at["more"]', "1").replace("run, at", "run"))), jobs=1)
    assert len(_store.Store(tmp_path / "results/limits.parquet")) == 1
    monkeypatch.setattr("warpline.study._runner.MANY", 0)
    declared = _registry.load(tmp_path / "mine.py")
    many = declared.study(declared.figures[0]).kept()
    assert done.judged.kept.missing == many.missing == 0 and many.results.values("limit") == [10, 50, 100]
    # A keyword is no point.
    assert not simple(measures={"y": lambda run, *, more=1: more}).reads_point


def test_an_axis_of_numbers_and_words_lacks_nothing_with_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PURE.replace("x=[1, 2, 3]", "x=[1, 'two', 3]").replace('at["x"] + 0.1', '(2 if at["x"] == "two" else at["x"]) + 0.1')
    text = text.replace('results.rising("y", "x")', 'results.mean("y", x=3) / results.mean("y", x=1)').replace('study.lines(x="x", y="y")', "study.table()")
    (done,) = study.run(str(declare(tmp_path, text)), jobs=1)
    assert done.good
    monkeypatch.setattr("warpline.study._runner.MANY", 0)
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
    monkeypatch.setattr("warpline.study._runner.MANY", 4)
    monkeypatch.setattr("warpline.study._runner.CHECKED", 3)
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    assert "20ms" in (tmp_path / "two.toml").read_text()
    file = declare(tmp_path, MANY)
    runs: list[int] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
            runs.append(1)
            return super().submit(fn, *args, **more)

    def made_by(act: Any) -> tuple[int, Any]:
        (tmp_path / "made.txt").write_text("")
        found = act()
        return len((tmp_path / "made.txt").read_text()), found

    def judged() -> _report.Judged:
        declared = _registry.load(file)
        return _report.judge(declared, declared.figures[0])

    def run() -> study.Done:
        with Counting(2) as executor:
            return study.run(str(file), executor=executor)[0]

    made, done = made_by(run)
    assert (made, len(runs), done.judged.kept.missing) == (12 + 3, 12, 0)
    made, one = made_by(judged)
    assert made == 3 and one.good and len(one.kept.results.samples("bps")) == 12
    # What the declaration does not know of is found by these.
    before = (tmp_path / "two.toml").read_text()
    (tmp_path / "two.toml").write_text(before.replace("10Mbit/s", "11Mbit/s"))
    assert judged().kept.missing == 6 and judged().short.endswith("6 of 6 points lack results; there are 0 runs so far")
    # With results of both kinds, each judgement has its own.
    run()
    assert len(runs) == 24
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
    assert len(runs) == 24, "nothing is run again"
    made, one = made_by(judged)
    assert made == 3 and one.kept.missing == 0
    # Another scenario.
    declare(tmp_path, MANY.replace("at['delay'] * at['factor']", "at['delay'] * at['factor'] * 2"))
    assert judged().kept.missing > 0


def test_a_failure_that_is_allowed_is_a_result() -> None:
    lost = dumbbell(duration="3s", warmup="0s").set('expect=["total.goodput > 1Gbit/s"]')
    task = pickle.dumps(_runner.Task({"x": 1}, 1, lost))
    figure = simple(model=None, scenario="unused.toml", measures={"y": "totals.jain"})
    refused, allowed, other = (_runner.perform(pickle.dumps(dataclasses.replace(figure, quick=study.Quick(), allowed=texts)), task) for texts in ([], ["goodput"], ["refused"]))
    assert refused.error and "goodput" in refused.error and other.error == refused.error
    assert allowed.error is None and allowed.lines[None]["y"] is not None


def test_measures_with_lines(tmp_path: Path) -> None:
    dumbbell(duration="12s", warmup="4s").save(tmp_path / "two.toml")
    (done,) = study.run(str(declare(tmp_path, NETWORK)), jobs=1)
    assert done.good, _report.text(done.judged)
    assert done.judged.kept.results.values("line") == ["bulk.0", "bulk.1"]
    assert done.judged.kept.results.mean("rate_seen", rate=8) == 8


def test_means_of_another_program_stand_in_until_the_figure_has_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path)
    table = tmp_path / "means.csv"
    table.write_text('"x, m",y value,half_width_95,seeds\n1,10,0.5,2\n2,20,,2\n3,30,0.5,2\n')
    words = ["import", f"{file}:line", str(table), "--column", "x, m=x", "--column", "y value=y", "--made-by", "another program 1.0"]
    assert main(words) == 0 and "3 means" in capsys.readouterr().out
    assert main(["judge", str(file)]) == 0
    assert "ours 3, theirs 3" in capsys.readouterr().out
    declared = _registry.load(file)
    kept = declared.study(declared.figures[0]).kept()
    assert (kept.missing, kept.builds, kept.results.half_width("y", x=1)) == (0, ["another program 1.0"], 0.5)
    # Not of another scenario, and not where the figure has run itself.
    declare(tmp_path, PURE.replace('"slope": 10', '"slope": 11'))
    assert main(["judge", str(file)]) == 1
    (done,) = study.run(str(declare(tmp_path)))
    assert done.judged.kept.results.mean("y", x=1) == pytest.approx(10.15) and len(done.judged.kept.builds) == 1
    table.write_text("x,y,half_width_95,seeds\n7,10,0.5,2\n")
    assert main([*words[:3], "--column", "x=x", "--column", "y=y", "--made-by", "a"]) == 2
    assert "means.csv:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (None, "means.csv cannot be read: No such file"),
        ("", "no column 'x'; there are none"),
        ("x,y,half_width_95,seeds\n", "no rows"),
        ("x,y,seeds\n1,10,2\n", "no column 'half_width_95'; there are x, y, seeds"),
        ("x,y,half_width_95,seeds\n1,10,0.5,2\n2,20,0.5,\n", "means.csv:3: invalid literal for int()"),
        ("x,y,half_width_95,seeds\n1,10,0.5\n", "means.csv:2: invalid literal for int()"),
        ("x,y,half_width_95,seeds\n1,ten,0.5,2\n", "means.csv:2: could not convert string to float: 'ten'"),
        ("x,y,half_width_95,seeds\n1,nan,0.5,2\n", "means.csv:2: 'nan' is no finite number"),
        ("x,y,half_width_95,seeds\n1,10,0.5,1\n", "means.csv:2: a mean over 1 seeds; at {'x': 1}, line has 2 at least"),
    ],
)
def test_a_table_that_cannot_be_taken_over_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str | None, told: str) -> None:
    file = declare(tmp_path)
    if table is not None:
        (tmp_path / "means.csv").write_text(table)
    assert main(["import", f"{file}:line", str(tmp_path / "means.csv"), "--column", "x=x", "--column", "y=y", "--made-by", "a"]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "results/line.imported.parquet").exists()


def test_means_over_too_few_seeds_count_no_more(tmp_path: Path) -> None:
    file = declare(tmp_path)
    (tmp_path / "means.csv").write_text("x,y,half_width_95,seeds\n1,10,0.5,2\n2,20,0.5,3\n3,30,0.5,3\n")
    assert main(["import", f"{file}:line", str(tmp_path / "means.csv"), "--column", "x=x", "--column", "y=y", "--made-by", "a"]) == 0
    declared = _registry.load(declare(tmp_path, PURE.replace("seeds=2", "seeds=3")))
    kept = declared.study(declared.figures[0]).kept()
    assert kept.missing == 1 and kept.results.values("x") == [2, 3]


# Distributions ----------------------------------------------------------------------------------------------------------


def test_paths_weigh_alike_however_many_seeds_they_have() -> None:
    results = study.Results([Cell({"path": "a"}, {"y": [4.0, 1.0, 3.0, 2.0]}), Cell({"path": "b"}, {"y": [10.0]}), Cell({"path": "b", "k": 2}, {"y": [20.0]})])
    assert results.distribution("y")[-2:] == [(10.0, 5 / 6), (20.0, 1.0)]
    assert results.distribution("y", alike="path") == [(1.0, 1 / 8), (2.0, 1 / 4), (3.0, 3 / 8), (4.0, 1 / 2), (10.0, 3 / 4), (20.0, 1.0)]
    assert (results.quantile("y", 0.5), results.quantile("y", 0.6, alike="path")) == (3.0, 10.0)
    assert (results.share_up_to(4, "y", alike="path"), results.share_up_to(0, "y"), results.share_up_to(99, "y", path="a")) == (0.5, 0.0, 1.0)
    with pytest.raises(study.NoResultsError, match="no results of z"):
        results.distribution("z")


def test_a_point_may_say_how_many_seeds_it_gets(tmp_path: Path) -> None:
    (done,) = study.run(str(declare(tmp_path, PURE.replace("seeds=2", "seeds=lambda at: at['x']"))), jobs=1)
    assert ran(tmp_path) == ["1 1", "2 1", "2 2", "3 1", "3 2", "3 3"] and done.good
    with pytest.raises(ValueError, match="0 seeds at {'x': 1}"):
        simple(seeds=lambda at: at["x"] - 1)


# Kills ----------------------------------------------------------------------------------------------------------------

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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_has_run_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    file = declare(tmp_path, SLOW.replace("sleep(0.3)", "sleep(0.5)"))
    child = started(file)
    await_runs(tmp_path, 2)
    workers = children(child.pid)
    child.send_signal(number)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130 and "the same command goes on" in errors
    assert not (tmp_path / "results/line.jsonl").exists()
    assert len(_store.Store(tmp_path / "results/line.parquet")) >= 2
    assert len(workers) == 2 and not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_two_studies_do_not_write_the_same_results(tmp_path: Path) -> None:
    path = tmp_path / "results/f.parquet"
    with _store.Store(path), pytest.raises(warpline.RunError, match="another study is running"), _store.Store(path):
        pass


# The command ----------------------------------------------------------------------------------------------------------


def test_the_command_runs_judges_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    paper = tmp_path / "repro/paper"
    paper.mkdir(parents=True)
    declare(paper, PURE + "\n    OTHER = study.Elsewhere(name='real', title='Real paths', how='make real', why='it needs the Internet')\n", "declarations.py")
    (paper / "declarations.py").write_text((paper / "declarations.py").read_text() + "\nPAPER = study.Paper('A. Author, \"Lines\"', [FIGURE, OTHER])\n")
    (tmp_path / "docs/src").mkdir(parents=True)
    monkeypatch.chdir(paper)
    monkeypatch.delenv(_registry.REPRO, raising=False)
    assert main(["judge"]) == 1, "no results yet"
    assert main(["reproduce", "paper/line", "--page", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().out
    assert "met  it rises threefold: ours 2.97" in said and "1 figure: 1 met" in said
    page = (tmp_path / "page.html").read_text()
    assert "6 of 6 runs done" in page and "Ended" in page and "refresh" not in page
    assert main(["judge"]) == 0
    assert main(["reproduce", "--list"]) == 0
    assert "paper/line" in capsys.readouterr().out
    assert main(["evidence"]) == 0 and main(["evidence", "--check"]) == 0
    book = (tmp_path / "docs/src/evidence.md").read_text()
    assert "| it rises threefold | 3 | 2.97" in book and "Not judged here, because it needs the Internet" in book
    (tmp_path / "docs/src/evidence.md").write_text(book.replace("threefold", "twofold"))
    assert main(["evidence", "--check"]) == 1
    assert main(["reproduce", "--all", "--quick"]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reproduce", "papers/line"], "is it paper?"),
        (["reproduce", "paper/lime"], "is it line?"),
        (["reproduce"], "--list"),
        (["reproduce", "paper", "--all"], "one of the two"),
        (["run", "nowhere.py"], "cannot be read"),
        (["judge", "--repro", "/nowhere"], "--repro DIR"),
        (["run", "wrong.py"], "wrong.py:2: ZeroDivisionError"),
        (["run", "empty.py"], "declares nothing"),
    ],
)
def test_wrong_words_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], told: str) -> None:
    (tmp_path / "repro/paper").mkdir(parents=True)
    declare(tmp_path / "repro/paper", name="declarations.py")
    (tmp_path / "wrong.py").write_text("import os\n1 / 0\n")
    (tmp_path / "empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_a_claim_that_is_not_met_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(declare(tmp_path, PURE.replace("theirs=3", "theirs=5")))]) == 1
    assert "not met" in capsys.readouterr().out
    assert main(["run", str(declare(tmp_path, PURE.replace("theirs=3", "differs='a steeper line', theirs=5")))]) == 0
    assert "a steeper line" in capsys.readouterr().out
    assert main(["run", str(declare(tmp_path, PURE.replace("theirs=3", "differs='a steeper line', theirs=3")))]) == 1
    assert "agrees after all" in capsys.readouterr().out
    # A reason belongs to the full form: the quick one may agree all the same, whichever command judges it.
    assert main(["run", str(tmp_path / "mine.py"), "--quick"]) == 0 == main(["judge", str(tmp_path / "mine.py"), "--quick"])
    assert main(["judge", str(tmp_path / "mine.py")]) == 1


# What is in the source ------------------------------------------------------------------------------------------------

REPRO = Path(__file__).parents[2] / "repro"


def test_every_declaration_of_the_papers_builds_its_scenarios() -> None:
    """Of both forms, the first and last point; whether the results are up to date is asked by `warpline study evidence --check`."""
    declared = _registry.papers(REPRO)
    assert declared
    for paper in declared:
        for full in paper.figures:
            for figure in (full, full.quickly()):
                for point in (figure.points[0], figure.points[-1]):
                    if figure.model is None:
                        figure.built(point, 1, paper.directory)
            assert full.claims, f"{paper.name}/{full.name} claims nothing"


@pytest.mark.parametrize("most", [0, 1, 3, 149, 150, 151, 4000, 123_457])
def test_the_search_for_what_is_carried_finds_the_most(most: int) -> None:
    (accuracy,) = [paper for paper in _registry.papers(REPRO) if paper.name == "emulation-accuracy"]
    knee = sys.modules[f"{accuracy.module.__name__}.bed"].knee
    tried: list[int] = []

    def holds(number: int) -> bool:
        tried.append(number)
        # Other work of the machine spoils every other try.
        return number <= most and tried.count(number) == 2

    found = knee(holds, 150, 1.05)
    assert found <= most <= max(1.05 * found, found + 1 if found else 0)
    assert len(set(tried)) < 25


def test_the_page_of_the_book_is_up_to_date() -> None:
    assert main(["evidence", "--check", "--repro", str(REPRO)]) == 0


PROGRAM = REPRO.parent / "target/debug/warpline"


@needs_guests
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="program: iperf3")
@pytest.mark.skipif(not PROGRAM.exists(), reason="program: target/debug/warpline, which `cargo build` makes")
def test_the_study_of_the_tools_finds_cap_near_the_kernels_tcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick form: Linux's TCP, cap and TReno as programs in guests."""
    monkeypatch.setenv("WARPLINE_PROGRAM", str(PROGRAM))
    shutil.copytree(REPRO / "btc-tools", tmp_path / "btc-tools", ignore=shutil.ignore_patterns("results", "__pycache__"))
    # On a busy machine a guest may have to be pushed on. Such a run has no result; the next study tries it again, and nothing else.
    for _ in range(3):
        (done,) = study.run("btc-tools/today", quick=True, jobs=1, repro=tmp_path)
        if not done.failures:
            break
    assert done.good, (done.failures, _report.text(done.judged))
    results = done.judged.kept.results
    assert len(results.cells) == 7, "seven pairs on a path"
    for pair in results.values("pair"):
        # Short transfers only show whether a tool is broken.
        assert results.max("size", pair=pair) < (0.5 if "TReno" in str(pair) else 0.3), pair


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
