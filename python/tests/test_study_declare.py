"""Points, seeds and declarations of a study, and the digests of what they do."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import study
from warpline.study import _registry

from studies import PURE, declare, simple


def test_an_axis_that_is_a_text_is_no_list_of_its_letters() -> None:
    with pytest.raises(TypeError, match=r"^cc='nice': an axis is a list of values, even of one: cc=\['nice'\]$"):
        study.grid(flows=[1], cc="nice")


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


def test_whole_numbers_below_zero_are_as_likely_as_those_above() -> None:
    numbers = study.integers(-2, 2)
    assert [numbers.at(share / 10) for share in range(11)] == [-2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 2]
    assert {numbers.at(share / 1000) for share in range(1000)} == {-2, -1, 0, 1, 2}


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


def test_seeds_are_added_until_the_interval_is_narrow() -> None:
    wanted = study.until(0.05, of="y", least=3, most=20)
    assert wanted.wanted([], 0) == 3
    assert wanted.wanted([[10.0, 10.1, 9.9]], 3) == 3
    assert wanted.wanted([[10.0, 10.1, 9.9], [10.0, 14.0, 6.0]], 3) == 6
    assert wanted.wanted([[float(n % 5) for n in range(18)]], 18) == 20
    assert wanted.wanted([[0.0, 0.0, 0.0]], 3) == 3
    # Of a line that lacks values, those that are there count.
    assert wanted.wanted([[10.0, 10.1, 9.9], [10.0, 14.0]], 3) == 6
    assert wanted.wanted([[10.0, 10.1, 9.9, 10.0], [10.0, 10.1, 9.9]], 4) == 4
    assert wanted.wanted([], 3) == 3
    # What is no number is not known any better with more of them, and ends at the most.
    assert wanted.wanted([[math.nan, 1.0, 1.0]], 3) == wanted.wanted([[1.0, 1.0, 1.0], [math.inf, 1.0, -math.inf]], 3) == 20
    with pytest.raises(ValueError, match="at least 2"):
        study.until(0.05, of="y", least=1)


def test_a_declaration_with_an_error_says_what() -> None:
    with pytest.raises(ValueError, match="either a scenario or a model"):
        simple(scenario="x.toml")
    with pytest.raises(ValueError, match="same axes"):
        simple(points=[{"x": 1}, {"y": 2}])
    with pytest.raises(ValueError, match="twice"):
        simple(points=[{"x": 1}, {"x": 1}])
    with pytest.raises(ValueError, match="twice"):
        simple(points=[{"x": 0}, {"x": False}])
    with pytest.raises(ValueError, match="seed cannot be"):
        simple(points=study.grid(seed=[1]))
    with pytest.raises(ValueError, match="x cannot be"):
        simple(model=None, scenario="x.toml", measures={"x": "totals.jain"})
    with pytest.raises(ValueError, match="no points"):
        simple(points=[])


def test_a_bound_that_refuses_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot fail"):
        study.Claim(text="anything goes", ours=lambda _: 1.0, theirs=1.0, bound=study.Bound("anything", lambda ours, theirs: True))
    # However large theirs is.
    for theirs in (1e10, -1e10, 1e300):
        for bound in (study.at_most(), study.at_least(), study.within(0.1)):
            study.Claim(text="a rate in bit/s", ours=lambda _: 1.0, theirs=theirs, bound=bound)


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


WITH_VALUES = """\
    import re
    from datetime import timedelta
    from decimal import Decimal
    import numpy
    import warpline
    from warpline import study

    QUEUE = warpline.Droptail(limit="10p")
    NUMBER = re.compile("[0-9]+")
    KNOWN = {1, 2}
    SIZES = numpy.array([10, 20])
    LONG = timedelta(seconds=3)
    EXACT = Decimal("0.1")

    def model(at):
        return {"y": len(KNOWN) if NUMBER.match(QUEUE.limit) else float(SIZES[0] + LONG.total_seconds()) + float(EXACT)}

    FIGURE = study.Figure(name="f", title="F", model=model, points=study.grid(x=[1]), quick=study.quick())
"""


@pytest.mark.parametrize(("before", "after"), [("10p", "20p"), ("[0-9]+", "[0-9]"), ("{1, 2}", "{1, 3}"), ("[10, 20]", "[10, 21]"), ("[10, 20]", "[10.0, 20]"), ("seconds=3", "seconds=4"), ('"0.1"', '"0.2"')])
def test_what_values_of_other_packages_hold_is_in_a_digest(tmp_path: Path, before: str, after: str) -> None:
    first = _registry.load(declare(tmp_path, WITH_VALUES)).figures[0].measured
    assert _registry.load(declare(tmp_path, WITH_VALUES.replace(before, after))).figures[0].measured != first


def test_a_digest_is_the_same_under_all_versions_of_python(tmp_path: Path) -> None:
    """If this fails after a change of how digests are made, the results of the papers need to be written with the new ones."""
    declare(tmp_path, HELPER, "helper.py")
    text = WITH_HELPERS.replace("class Net", "from dataclasses import dataclass\n\n    @dataclass\n    class Net").replace("rate = 5", "rate: int = 5")
    # What Python writes in several ways, and what it compiles in several.
    text = text.replace("return helper", "one, two = (f\"{run['a']}\" for _ in [[SINK for one in [by]]])\n        return helper")
    assert _registry.load(declare(tmp_path, text)).figures[0].measured == "76cc14f1c9434294"


def test_a_digest_does_not_depend_on_the_process_where_a_module_is_closed_over(tmp_path: Path) -> None:
    text = """\
        from warpline import study

        def make(share):
            import json, statistics
            return lambda at: {"y": len(json.dumps(share)) + statistics.fmean([share])}

        FIGURE = study.Figure(name="f", title="F", model=make(99), points=study.grid(x=[1]), quick=study.quick())
        """
    file = declare(tmp_path, text)
    script = f"from pathlib import Path; from warpline.study import _registry; print(_registry.load(Path({str(file)!r})).figures[0].measured)"
    found = {subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout for _ in range(2)}
    assert found == {_registry.load(file).figures[0].measured + "\n"}


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
