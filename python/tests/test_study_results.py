"""The results of a study, claims about them, and their pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpline import study
from warpline.study._pictures import TablePicture, markdown, svg
from warpline.study._results import Cell

from studies import PURE, declare, simple

RESULTS = study.Results(Cell({"x": x, "line": line}, {"y": [x * k, x * k + 0.2]}) for x in (1, 2, 4) for line, k in (("a", 1.0), ("b", 3.0)))


def test_results_are_chosen_by_values_collections_and_functions() -> None:
    assert RESULTS.mean("y", x=2, line="a") == pytest.approx(2.1)
    assert RESULTS.means("y", x=[1, 4], line="b") == pytest.approx([3.1, 12.1])
    assert RESULTS.max("y", x=lambda x: x < 4) == pytest.approx(6.1)
    assert RESULTS.rising("y", "x", line="a") == pytest.approx(4.1 / 1.1)
    assert RESULTS.rising("y", "x") == pytest.approx((4.1 + 12.1) / (1.1 + 3.1)), "of both lines"
    with pytest.raises(study.NoResultsError, match="one value of x"):
        RESULTS.where(x=4).rising("y", "x")
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


def test_lines_of_a_measure_are_compared_each_with_itself() -> None:
    cells = [Cell({"cc": cc, "x": 1, "line": line}, {"y": [value]}) for cc, line, value in (("nice", "A", 5.0), ("nice", 2, 7.0), ("reno", "A", 4.0), ("reno", 2, 3.0))]
    results = study.Results(cells)

    def found(name: str) -> list[Any]:
        paired = results.paired("y", "cc", {name: ("nice", "reno")}, lambda ours, theirs: ours - theirs, "more")
        return [(dict(cell.where), cell.samples["more"]) for cell in paired.cells]

    assert found("Nice - Reno") == [({"x": 1, "line": "A, Nice - Reno"}, [1.0]), ({"x": 1, "line": "2, Nice - Reno"}, [4.0])]
    assert found("") == [({"x": 1, "line": "A"}, [1.0]), ({"x": 1, "line": 2}, [4.0])]


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


def test_paths_weigh_alike_however_many_seeds_they_have() -> None:
    results = study.Results([Cell({"path": "a"}, {"y": [4.0, 1.0, 3.0, 2.0]}), Cell({"path": "b"}, {"y": [10.0]}), Cell({"path": "b", "k": 2}, {"y": [20.0]})])
    assert results.distribution("y")[-2:] == [(10.0, 5 / 6), (20.0, 1.0)]
    assert results.distribution("y", alike="path") == [(1.0, 1 / 8), (2.0, 1 / 4), (3.0, 3 / 8), (4.0, 1 / 2), (10.0, 3 / 4), (20.0, 1.0)]
    assert (results.quantile("y", 0.5), results.quantile("y", 0.6, alike="path")) == (3.0, 10.0)
    assert (results.share_up_to(4, "y", alike="path"), results.share_up_to(0, "y"), results.share_up_to(99, "y", path="a")) == (0.5, 0.0, 1.0)
    with pytest.raises(study.NoResultsError, match="no results of z"):
        results.distribution("z")

    for share in (2, -1, math.nan, "half"):
        with pytest.raises(ValueError, match=f"quantile.'y', {share!r}.: the share is a number from 0 to 1"):
            results.quantile("y", share)  # type: ignore[arg-type]
    assert (results.quantile("y", 0), results.quantile("y", 1)) == (1.0, 20.0)


def test_what_is_no_number_has_no_place_in_an_order() -> None:
    results = study.Results([Cell({"x": 1}, {"y": [3.0, math.nan]}), Cell({"x": 2}, {"y": [1.0, 2.0]}), Cell({"x": 3}, {"y": [9.0, math.inf]}), Cell({"x": 4}, {"z": [1.0]})])
    for ask in (lambda: results.distribution("y"), lambda: results.quantile("y", 0.5), lambda: results.share_up_to(1, "y", alike="x")):
        with pytest.raises(ValueError, match=r"y is nan at {'x': 1}, seed 2, .* return None"):
            ask()
    assert all(math.isnan(value) for value in (results.min("y"), results.max("y"), results.min("y", x=[2, 1]), results.max("y", x=[2, 1])))
    assert (results.min("y", x=[2, 3]), results.max("y", x=[2, 3])) == (1.5, math.inf)
    # Infinity has one.
    assert results.quantile("y", 1, x=[2, 3, 4]) == math.inf
    verdict = study.Claim(text="", ours=lambda results: results.quantile("y", 0.5), theirs=1, bound=study.within(0.1)).judge(results)
    assert verdict.state == "no results" and "y is nan" in verdict.why


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
    assert study.Claim(text="", ours=lambda _: math.nan, theirs=1, bound=study.at_most()).judge(RESULTS).state == "no results"
    # A regression must not hide behind the reason for a difference.
    lost = study.Claim(text="", ours=lambda _: math.nan, theirs=1, bound=study.at_most(), differs="ours is slower").judge(RESULTS)
    assert (lost.state, lost.good) == ("no results", False)
    # As a mean, so an interval: one of them alone has no value.
    with pytest.raises(study.NoResultsError, match="z at"):
        RESULTS.half_width("z", x=1, line="a")


def test_a_claim_that_does_not_look_at_the_results_is_found() -> None:
    blind = study.Claim(text="", ours=lambda _: 2.0, theirs=2, bound=study.within(0.1))
    assert blind.judge(RESULTS).state == "cannot fail"
    assert not blind.judge(RESULTS).good
    # It looks at them, but what it finds is always the same, or no number.
    for same in (lambda results: results.mean("y") / results.mean("y"), lambda results: results.rising("y", "x", line="a") / results.rising("y", "x", line="a")):
        assert study.Claim(text="", ours=same, theirs=1, bound=study.within(0.1)).judge(RESULTS).state == "cannot fail"


@pytest.mark.parametrize(("value", "theirs"), [(0.0, 10), (1e-3, 50), (0.0, 1e12)])
def test_a_claim_that_is_met_by_far_can_fail(value: float, theirs: float) -> None:
    few = study.Results([Cell({"x": x}, {"y": [value]}) for x in (1, 2, 3)])
    for ours in (lambda results: results.max("y"), lambda results: results.mean("y", x=2) / 5):
        assert study.Claim(text="", ours=ours, theirs=theirs, bound=study.at_most()).judge(few).state == "met"


@pytest.mark.parametrize("bound", [study.within(0.5), study.at_least(0.01), study.at_most(100)])
def test_a_ratio_of_two_measures_or_cells_can_fail(bound: study.Bound) -> None:
    alone = study.Results([Cell({"x": 1}, {"y": [3.0], "z": [3.1]})])
    assert study.Claim(text="", ours=lambda results: results.mean("y") / results.mean("z"), theirs=1, bound=bound).judge(alone).state == "met"
    pair = study.Results(Cell({"x": x}, {"y": [3.0]}) for x in range(100, 102))
    assert study.Claim(text="", ours=lambda results: results.mean("y", x=100) / results.mean("y", x=101), theirs=1, bound=bound).judge(pair).state == "met"


def test_a_claim_waits_for_missing_runs_only_if_it_reads_them() -> None:
    points = study.grid(x=[1, 2, 4, 8])

    def waits(ours: Any, *lacking: int) -> bool:
        claim = study.Claim(text="", ours=ours, theirs=1, bound=study.within(0.1))
        # Whatever the unit is.
        scaled = [RESULTS.changed(lambda _, __, values, unit=unit: [unit * value for value in values]) for unit in (1e-9, 1.0, 1e12)]  # type: ignore[misc]
        (answer,) = {claim.waits_for([{"x": x} for x in lacking], points, results) for results in scaled}
        return answer

    for ours in (
        lambda results: results.mean("y", x=2, line="a"),
        lambda results: results.max("y", x=lambda x: x < 4) / results.min("y", x=[1, 2]),
        lambda results: results.cells[0].mean("y"),
    ):
        assert not waits(ours, 8) and not waits(ours, 4, 8), "x = 4 has some of its runs"
    for ours in (
        lambda results: results.mean("y", line="a"),
        lambda results: results.max("y"),
        lambda results: results.min("y"),
        lambda results: results.rising("y", "x", line="b"),
        lambda results: results.share_up_to(results.min("y"), "y"),
        lambda results: results.mean("y", x=[8, 1], line="a") / results.mean("y", x=[8, 1], line="b"),
        lambda results: results.quantile("y", 0.5),
        lambda results: results.cells[-1].mean("y"),
        lambda results: len(results.cells),
        lambda results: max(results.values("x")),
        lambda results: results.mean("y", x=8),
    ):
        assert waits(ours, 8) and waits(ours, 1, 8)
    assert waits(lambda results: results.mean("y", x=4), 4) and not waits(lambda results: results.mean("y", x=4), 8)


def test_claims_of_a_table() -> None:
    claims = study.values("y", {(1, "a"): 1.1, (2, "b"): 9.0}, by=("x", "line"), bound=study.within(0.1), text="y", differs={(2, "b"): "why"})
    assert [one.judge(RESULTS).state for one in claims] == ["met", "differs"]
    with pytest.raises(ValueError, match="named by x, line"):
        study.values("y", {1: 1.0}, by=("x", "line"), bound=study.within(0.1), text="y")


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


def test_scales_are_of_the_axes_that_there_are() -> None:
    with pytest.raises(ValueError, match="log='both': it names the axes with a logarithmic scale, of x and y"):
        study.lines("x", "y", log="both")
    with pytest.raises(ValueError, match="log='y': it names the axes with a logarithmic scale, of x; for example 'x'"):
        study.cdf("y", log="y")


@pytest.mark.parametrize("xs", [[1, "two", 3.5], ["one", "two", "three"]])
def test_words_and_numbers_of_an_axis_stand_side_by_side(xs: list[Any]) -> None:
    from matplotlib.figure import Figure as Drawing

    results = study.Results(Cell({"x": x}, {"y": [place + 1.0]}) for place, x in enumerate(xs))
    axes = Drawing().subplots()
    study.lines("x", "y", log="xy").draw(axes, results, simple(points=study.grid(x=xs)))
    line: Any = axes.get_lines()[0]
    assert [*line.get_xdata()] == [0, 1, 2] and [*line.get_ydata()] == [1, 2, 3]
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(x) for x in xs]
    # A word has no logarithm.
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


@pytest.mark.parametrize("low", [0.0, -3.0])
def test_what_has_no_logarithm_is_drawn_all_the_same(low: float) -> None:
    from matplotlib.figure import Figure as Drawing

    results = study.Results(Cell({"x": x}, {"y": [y]}) for x, y in ((1, low), (2, 0.5), (3, 200.0)))
    for picture, axis in ((study.lines("x", "y", log="y"), "yaxis"), (study.cdf("y", log="x"), "xaxis")):
        axes = Drawing().subplots()
        picture.draw(axes, results, simple(points=study.grid(x=[1, 2, 3])))
        transform = getattr(axes, axis).get_transform()
        assert getattr(axes, axis).get_scale() == "symlog" and transform.linthresh == 0.5
        assert transform.transform([low, 0.5, 200.0]).tolist() == sorted(transform.transform([low, 0.5, 200.0]).tolist())


def test_a_table_names_each_axis_of_its_rows() -> None:
    points = study.grid(a=["left", "right"], b=[1], c=["u", "v"])
    results = study.Results(Cell(point, {"y": [1.0]}) for point in points)
    lines = markdown(simple(points=points, picture=study.table("c", "y"), labels={"a": "Side"}), results).splitlines()
    assert lines == ["| y, by Side | b | u | v |", "|---|---|--:|--:|", "| left | 1 | 1 | 1 |", "| right | 1 | 1 | 1 |"]


def test_a_distribution_leaves_out_lines_without_the_measure() -> None:
    from matplotlib.figure import Figure as Drawing

    axes = Drawing().subplots()
    results = study.Results([Cell({"a": 1, "line": "few"}, {"z": [1.0]}), Cell({"a": 1, "line": "many"}, {"y": [1.0, 2.0]})])
    figure = simple(points=study.grid(a=[1]))
    study.cdf("y").draw(axes, results, figure)
    assert [line.get_label() for line in axes.get_lines()] == ["many"]
    assert not study.cdf("none").has_results(results)


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


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (study.lines(x="x", y="latt"), "no measure 'latt'; there are y"),
        (study.lines(x="flowz", y="y"), "no axis 'flowz'; there are x"),
        (study.lines(x="x", y="y", by="ccc"), "no axis 'ccc'; there are x"),
        (study.lines(x="x", y="y", only={"xx": 1}), "no axis 'xx'; there are x"),
        (study.bars(x="flowz", y="y"), "no axis 'flowz'"),
        (study.bars(x="x", y="latt"), "no measure 'latt'"),
        (study.cdf("latt"), "no measure 'latt'"),
        (study.cdf("y", alike="path"), "no axis 'path'"),
        (study.surface("x", "k", "y"), "no axis 'k'"),
        (study.surface("x", "x", "z"), "no measure 'z'"),
        (study.table(y="latt"), "no measure 'latt'"),
        (study.table(x="flowz"), "no axis 'flowz'"),
        (study.lines(x="x", y="y", of=lambda results: study.Results([Cell({"k": 1}, {"z": [1.0]})])), "no axis 'x'; there are k"),
    ],
)
def test_a_picture_of_a_name_that_is_not_there_is_refused(picture: study.Picture, told: str) -> None:
    results = study.Results([Cell({"x": 1}, {"y": [1.0]}), Cell({"x": 2}, {"y": [2.0]})])
    draw = markdown if isinstance(picture, TablePicture) else svg
    with pytest.raises(ValueError, match=told):
        draw(simple(picture=picture), results)


def test_a_picture_of_a_measure_without_results_is_left_out_where_it_is_declared_or_the_form_is_quick() -> None:
    results = study.Results([Cell({"x": 1}, {"y": [1.0]})])
    options: dict[str, Any] = {"picture": study.cdf("later")}
    declared = simple(**options, model=None, scenario="two.toml", measures={"y": "totals.jain", "later": lambda run: None})
    assert svg(declared, results) is None and svg(simple(**options).quickly(), results) is None
    with pytest.raises(ValueError, match="no measure 'later'"):
        svg(simple(**options), results)


@pytest.mark.parametrize("others", ["", ', "z": 1'])
@pytest.mark.parametrize(("value", "told"), [("'a'", "the measure y has texts, such as 'a'"), ("None", "the measure y has None only")])
@pytest.mark.parametrize("picture", ["lines('x', 'y')", "cdf('y')", "bars('x', 'y')", "table('x', 'y')"])
def test_a_picture_of_a_measure_without_numbers_is_told(tmp_path: Path, others: str, value: str, told: str, picture: str) -> None:
    part = "table" if "table" in picture else "picture"
    text = PURE.replace('study.lines(x="x", y="y")', f"study.{picture}").split("claims=")[0] + f"picture=study.{picture}, quick=study.quick())\n"
    text = text.replace('at["slope"] * at["x"] + 0.1 * (at["seed"] % 3)}', f"{value}{others}}}")
    (done,) = study.run(declare(tmp_path, PURE), jobs=1)
    assert done.good and (tmp_path / "results/line.svg").exists()
    (done,) = study.run(declare(tmp_path, text), jobs=1)
    assert done.not_drawn == f"mine/line, {part}: ValueError: {told}; what is shown are numbers" + ("; those with numbers are z" if others else "") and not done.good
    # Where it would be, there is none of other results.
    assert not (tmp_path / f"results/line.{'svg' if part == 'picture' else 'md'}").exists()
    # In the quick form a None may stand for a number of the full one.
    (quick,) = study.run(tmp_path / "mine.py", jobs=1, quick=True)
    assert (quick.not_drawn == "") == (value == "None")


def test_runs_that_could_not_be_made_say_nothing_of_measures(tmp_path: Path) -> None:
    study.run(declare(tmp_path, PURE), jobs=1)
    (done,) = study.run(declare(tmp_path, PURE.replace("return {", "raise study.Unable('too slow')\n        return {")), jobs=1)
    assert done.judged.kept.unable and not done.judged.kept.no_numbers and done.not_drawn == ""


def test_a_figure_without_numbers_and_pictures_has_a_table_that_says_so(tmp_path: Path) -> None:
    text = PURE.split("claims=")[0] + "quick=study.quick())\n"
    (done,) = study.run(declare(tmp_path, text.replace('at["slope"] * at["x"] + 0.1 * (at["seed"] % 3)}', "'a'}")), jobs=1)
    assert done.good and (tmp_path / "results/line.md").read_text() == "# A line\n\nNo measure has a number.\n"


def test_a_claim_about_an_axis_or_measure_that_is_not_there_says_what_there_is() -> None:
    results = study.Results([Cell({"x": 1, "line": "a"}, {"y": [1.0]})])
    cases: list[tuple[Callable[[], float], str]] = [
        (lambda: results.mean("y", flow=3), "no axis 'flow'; there are x, line"),
        (lambda: results.mean("y", x=3), "no run with x=3"),
        (lambda: results.mean("z", x=1), "no results of z; there are y"),
        (lambda: results.half_width("z"), "no results of z at {'x': 1, 'line': 'a'}; there are y"),
        (lambda: results.quantile("z", 0.5), "no results of z; there are y"),
    ]
    for read, told in cases:
        with pytest.raises(study.NoResultsError) as caught:
            read()
        assert str(caught.value) == told


def test_a_figure_without_axes_has_a_table_and_a_picture(tmp_path: Path) -> None:
    text = PURE.replace("x=[1, 2, 3]", "").replace("{at['x']}", "1").replace('at["x"]', "1").replace('results.rising("y", "x")', 'results.mean("y")').replace("theirs=3", "theirs=10")
    (done,) = study.run(str(declare(tmp_path, text.replace('study.lines(x="x", y="y")', 'study.cdf("y")'))), jobs=1)
    assert done.good and done.not_drawn == ""
    assert (tmp_path / "results/line.md").read_text() == "# A line\n\n| y |  |\n|---|--:|\n|  | 10.15 |\n" and (tmp_path / "results/line.svg").exists()
