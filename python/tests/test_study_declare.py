"""Points, seeds and declarations of a study, and the digests of what they do."""

from __future__ import annotations

import enum
import math
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import study
from warpline.study import _registry

from conftest import dumbbell
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


NOTHING: Any = None
NETWORKED: dict[str, Any] = {"model": None, "scenario": "x.toml", "measures": {"y": "totals.jain"}}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"settings": {"duration": 9}, "quick": study.quick(durations=6)}, r"f: study.quick\(durations=...\): the figure has no such setting; .* duration$"),
        ({"quick": study.quick(durations=6)}, "there are none$"),
        ({"settings": {"x": 9}}, "f: x is the name of an axis and of a setting"),
        ({"measures": {"y": "totals.jain"}}, "f: measures are of a scenario"),
        ({"measures": lambda run: {}}, "f: measures are of a scenario"),
        ({**NETWORKED, "measures": {}}, "f: nothing is measured"),
        ({**NETWORKED, "measures": {"": "totals.jain"}}, "has the name ''"),
        ({**NETWORKED, "labels": {"Y": "Why"}}, "f: labels has 'Y', which is the name of no axis, setting or measure; there are x, y, line$"),
    ],
)
def test_a_name_that_nothing_reads_or_two_things_have_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        simple(**options)


@pytest.mark.parametrize(
    "options",
    [
        {**NETWORKED, "labels": dict.fromkeys("xysz", "a"), "settings": {"s": 1}, "quick": study.quick(points=study.grid(z=[1]), s=2)},
        {**NETWORKED, "labels": {"line": "Kind"}},
        {**NETWORKED, "labels": {"more": "M"}, "picture": study.lines("x", "more", of=lambda results: results)},
        {**NETWORKED, "labels": {"more": "M"}, "measures": lambda run: {"more": 1}},
        {"labels": {"more": "M"}},
    ],
)
def test_a_name_that_may_be_read_is_not_refused(options: dict[str, Any]) -> None:
    figure = simple(**options)
    assert figure.quickly().labels == figure.labels


def test_a_reason_for_a_value_that_the_table_does_not_have_is_refused() -> None:
    table: dict[str, Any] = {"by": "cc", "bound": study.within(0.1), "text": "t"}
    assert [claim.differs for claim in study.values("y", {"nice": 1, "reno": 2}, differs={"reno": "why"}, **table)] == ["", "why"]
    with pytest.raises(ValueError, match="^differs has 'Reno', which the table does not have; there are 'nice', 'reno'$"):
        study.values("y", {"nice": 1, "reno": 2}, differs={"Reno": "why"}, **table)


def test_a_bound_that_refuses_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot fail"):
        study.Claim(text="anything goes", ours=lambda _: 1.0, theirs=1.0, bound=study.Bound("anything", lambda ours, theirs: True))
    makers: list[tuple[Any, list[float]]] = [(study.between, [2, 1]), (study.within, [-0.1]), (study.within, [math.nan]), (study.within_absolute, [-1])]
    for make, given in makers:
        with pytest.raises(ValueError, match="no value is; give"):
            make(*given)
    with pytest.raises(ValueError, match="theirs is not a number"):
        study.Claim(text="nothing", ours=lambda _: 1.0, theirs=math.nan, bound=study.at_least())
    assert study.at_least().met(math.inf, 1) and study.at_most().met(-math.inf, 1)
    assert not any(bound.met(math.inf, 1) for bound in (study.at_most(), study.within(0.5), study.between(0, 1)))
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


ON_ONE_LINE = """\
    from warpline import study

    class Kept:
        __slots__ = ("size",)

        def __init__(self, size):
            self.size = size

    BOTH = [lambda run: 1.0, lambda run: 2.0 + KEPT.size]
    KEPT = Kept(1)
    FIGURE = study.Figure(name="f", title="F", scenario="two.toml", points=study.grid(x=[1]), measures={"y": BOTH[1]}, quick=study.quick())
"""


@pytest.mark.parametrize(("before", "after"), [("BOTH[1]", "BOTH[0]"), ("Kept(1)", "Kept(2)")])
@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n"])
def test_which_function_of_a_line_it_is_and_what_slots_hold_is_in_a_digest(tmp_path: Path, before: str, after: str, first: str) -> None:
    text = first + textwrap.dedent(ON_ONE_LINE)
    found = [_registry.load(declare(tmp_path, one)).figures[0].measured for one in (text, text, text.replace(before, after))]
    assert found[0] == found[1] != found[2]


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


BARE = """\
    from warpline import study
    IMPORT

    FIGURE = study.Figure(name="f", title="F", model=lambda at: {"g": CALL}, points=study.grid(x=[1]), quick=study.quick())
"""


@pytest.mark.parametrize("safe_path", [False, True])
@pytest.mark.parametrize(
    ("written", "call", "right"),
    [
        ("import helper", "helper.k()", "from . import helper"),
        ("import helper as h", "h.k()", "from . import helper as h"),
        ("from helper import k", "k()", "from .helper import k"),
        ("from parts.inner import k as kk", "kk()", "from .parts.inner import k as kk"),
        ("def load():\n        import helper\n        return helper", "load().k()", "from . import helper"),
    ],
)
def test_a_module_beside_the_declaration_is_not_imported_past_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, call: str, right: str, safe_path: bool
) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("helper.py", "parts/inner.py"):
        declare(tmp_path, "def k():\n    return 1.0\n", name)
    if not safe_path:
        monkeypatch.syspath_prepend(str(tmp_path))
    file = declare(tmp_path, BARE.replace("IMPORT", written).replace("CALL", call))
    with pytest.raises(study.StudyError) as caught:
        _registry.load(file)
    line = 3 if "def" in written else 2
    assert f"{file}:{line}: this module is beside the declaration: write `{right}`, so that" in str(caught.value)
    # Written so, a change of it is another digest.
    if "def" in written:
        return
    declare(tmp_path, BARE.replace("IMPORT", right).replace("CALL", call))
    before = _registry.load(file).figures[0].measured
    for name in ("helper.py", "parts/inner.py"):
        declare(tmp_path, "def k():\n    return 1000.0\n", name)
    assert _registry.load(file).figures[0].measured != before


def test_a_module_of_a_package_beside_the_declaration_is_in_the_digest_of_one_in_another(tmp_path: Path) -> None:
    found = []
    for number in (1, 2, 2):
        (tmp_path / "one").mkdir(exist_ok=True)
        declare(tmp_path, "from ..base import k\ndef speed():\n    return k()\n", "one/inner.py")
        declare(tmp_path, f"def k():\n    return {number}\n", "base.py")
        found.append(_registry.load(declare(tmp_path, BARE.replace("IMPORT", "from .one.inner import speed").replace("CALL", "speed()"))).figures[0].measured)
    assert found[0] != found[1] == found[2]


def test_what_a_declaration_never_imports_and_what_is_installed_is_not_refused(tmp_path: Path) -> None:
    for name in ("helper.py", "statistics.py", "mine.py"):
        declare(tmp_path, "def k():\n    return 1.0\n", name)
    text = """\
    import statistics
    from typing import TYPE_CHECKING
    if TYPE_CHECKING:
        import helper
    try:
        from . import helper
    except ImportError:
        import helper
    if __name__ == "__main__":
        import helper
    """
    (figure,) = _registry.load(declare(tmp_path, BARE.replace("    IMPORT\n", text).replace("CALL", "helper.k()"))).figures
    assert figure.model is not None and figure.model({}) == {"g": 1.0}


def test_numbers_of_other_libraries_become_pythons_own() -> None:
    import numpy

    class Colour(str, enum.Enum):
        RED = "red"

    axes: dict[str, Any] = {"x": numpy.arange(1, 3), "y": [numpy.float64(0.5)], "z": [numpy.str_("a")], "c": [Colour.RED], "b": [numpy.bool_(True)]}
    figure = simple(points=study.grid(**axes), settings={"s": numpy.int64(7), "l": [numpy.int64(1), 2]})
    assert [*figure.points[0].values()] == [1, 0.5, "a", "red", True]
    assert [type(value) for value in (*figure.points[0].values(), figure.settings["s"])] == [int, float, str, str, bool, int]
    assert repr(figure.settings["l"]) == "[1, 2]"
    assert repr(simple(points=study.points([{"x": numpy.int64(3)}]), seeds=numpy.int64(2)).points) == "[{'x': 3}]"


@pytest.mark.parametrize("value", [timedelta(seconds=1), warpline.Nice(threshold=0.1), {"kind": "nice"}, [1, 2]])
def test_values_that_cannot_be_kept_are_refused_with_their_axis(value: Any) -> None:
    allowed = rf"{type(value).__name__} \(.*\); what is kept is text, a number, true or false, or None"
    with pytest.raises(TypeError, match=f"^a value of the axis cc is a {allowed}"):
        study.grid(cc=[value])
    with pytest.raises(TypeError, match=f"^f: a value of the axis cc is a {allowed}"):
        simple(points=[{"cc": value}])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"claims": None}, "f: claims=None: write a list of study.Claim"),
        ({"claims": study.Claim(text="c", ours=lambda _: 1.0, theirs=1, bound=study.at_most())}, r"f: claims=Claim\(.*: write a list of study.Claim"),
        ({"measures": ["totals.jain"]}, r"measures=\['totals.jain'\]: write columns or functions by their names"),
        ({"measures": {"m": 3}}, r"measures={'m': 3}: write columns"),
        ({"settings": {"d": timedelta(1)}}, "f: the setting d is a timedelta"),
        ({"seeds": "2"}, "seeds='2': write a whole number"),
        ({"seeds": 2.0}, "seeds=2.0: write a whole number"),
        ({"seeds": True}, "seeds=True: a whole number"),
        ({"seeds": lambda at: 6 / 2}, r"3.0 seeds at {'x': 1}: a whole number"),
        ({"allowed": "Connection timed out"}, "allowed='Connection timed out': write a list of texts"),
        ({"allowed": [""]}, r"allowed=\[''\]: write a list of texts"),
        ({"needs": "aria2c"}, "needs='aria2c': write a list of programs"),
        ({"picture": None}, "picture=None: write study.lines"),
        ({"labels": None}, "labels=None: write texts"),
        ({"model": {"y": 1}}, "model={'y': 1}: write a function"),
        ({"quick": None}, "quick=None: write study.quick"),
    ],
)
def test_what_is_of_another_kind_is_refused_with_what_is_allowed(options: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        simple(**options)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda s: s.file("x", {"a": 1}), r"study.file\('x', {'a': 1}\): write a function of the point that returns the changes"),
        (lambda s: s.file(3), r"study.file\(3\): write the path of a file"),
        (lambda s: s.template(None), r"study.template\(None\): write the path"),
        (lambda s: s.within("x"), r"within\('x'\): write a number"),
        (lambda s: s.within_absolute("x"), r"within_absolute\('x'\): write a number"),
        (lambda s: s.at_least("x"), r"at_least\('x'\): write a number"),
        (lambda s: s.at_most(None), r"at_most\(None\): write a number"),
        (lambda s: s.between("a", "b"), r"between\('a'\): write a number"),
        (lambda s: s.choice(["nice", "reno"]), r"study.choice\(\['nice', 'reno'\]\): write the values without brackets"),
        (lambda s: s.choice("nice", {"a": 1}), "a value of study.choice is a dict"),
        (lambda s: s.points({"a": 1}), r"study.points\({'a': 1}\): write a list of points"),
        (lambda s: s.points(["ab"]), r"study.points\(\['ab'\]\): write a list"),
        (lambda s: s.points(3), r"study.points\(3\): write a list"),
        (lambda s: s.uniform("a", "b"), "a range from 'a' to 'b': write two numbers"),
        (lambda s: s.integers(1.5, 3), r"study.integers\(1.5, 3\): a whole number is needed"),
        (lambda s: s.random(2.5), r"study.random\(2.5\): a whole number is needed"),
        (lambda s: s.sample([{"x": 1}], 0.5), r"study.sample\(..., 0.5\): a whole number is needed"),
        (lambda s: s.lines("x", "y", of=3), "of=3: write a function of the results"),
        (lambda s: s.cdf("y", of=3), "of=3: write a function of the results"),
        (lambda s: s.table(of=3), "of=3: write a function of the results"),
        (lambda s: s.run(b"d.py"), "b'd.py': a name is a text"),
        (lambda s: s.run(quick="no"), "quick='no': write True or False"),
        (lambda s: s.run(jobs=True), "jobs=True: a whole number is needed"),
        (lambda _: simple(keep="x"), "f: keep='x': write True or False"),
        (lambda _: simple(alone="yes"), "f: alone='yes': write True or False"),
        (lambda _: simple(alone=True, cpus="1"), "f: cpus='1': write a number of CPUs"),
    ],
)
def test_what_is_of_another_kind_is_told_where_it_stands(make: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^{told}"):
        make(study)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda s: s.at_least(math.nan), r"at_least\(nan\): write a finite number"),
        (lambda s: s.at_most(math.inf), r"at_most\(inf\): write a finite number"),
        (lambda s: s.within(math.inf), r"within\(inf\): every value is; give a finite number"),
        (lambda s: s.uniform(0, math.inf), "a range from 0 to inf: write two finite numbers"),
        (lambda s: s.log(math.nan, 1), "a range from nan to 1: write two finite numbers"),
        (lambda s: s.random(-1, x=s.uniform(0, 1)), r"study.random\(-1\): at least one point is drawn"),
        (lambda s: s.sobol(0, x=s.uniform(0, 1)), r"study.sobol\(0\): at least one point is drawn"),
        (lambda s: s.until(0.05, of=""), "of='': write the name of a measure"),
        (lambda s: s.cdf("y", bounds=(3, 1)), r"bounds=\(3, 1\): write two numbers, the lower one first"),
        (lambda s: s.cdf("y", bounds=3), "bounds=3: write two numbers"),
        (lambda s: s.lines("x", "y", log=3), "log=3: it names"),
        (lambda _: simple(name="."), "'.': the name of a figure"),
        (lambda _: simple(name=".."), "'..': the name of a figure"),
        (lambda _: simple(name="ä" * 101), "'ä+': the name of a figure is .* in 200 bytes at most"),
    ],
)
def test_a_value_that_says_nothing_is_refused_where_it_stands(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        make(study)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (study.file("two.toml", lambda at: NOTHING), "the changes of two.toml are None; let the function return values by their paths"),
        (lambda at: 3, "the function returned 3; let it return a warpline.Scenario, or TOML as text"),
    ],
)
def test_a_function_that_returns_no_scenario_is_told(tmp_path: Path, source: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        simple(**{**NETWORKED, "scenario": source}).built({"x": 1}, 1, tmp_path)


@pytest.mark.parametrize(("options", "told"), [({"ours": 1.0}, "ours=1.0: write a function"), ({"theirs": "3"}, "theirs='3': write a number"), ({"bound": 0.1}, "bound=0.1: write study.within")])
def test_a_claim_of_other_kinds_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=f"^claim 'c': {told}"):
        study.Claim(**{"text": "c", "ours": lambda _: 1.0, "theirs": 1, "bound": study.at_most(), **options})


def test_numbers_of_until_are_refused_where_they_stand() -> None:
    usual: dict[str, Any] = {"width": 0.05, "of": "y"}
    for name, wrong, told in (("least", 2.0, "least=2.0: a whole number"), ("most", "9", "most='9': a whole number"), ("width", "5 %", "width='5 %': a share"), ("of", 3, "of=3: the name")):
        with pytest.raises(TypeError, match=told):
            study.until(**{**usual, name: wrong})


def test_points_that_are_drawn_twice_are_there_once() -> None:
    for draw in (study.random, study.sobol):
        drawn = draw(64, cc=study.choice("nice", "reno"), n=study.integers(1, 8))
        assert 12 <= len(drawn) <= 16 and len(simple(points=drawn).points) == len(drawn)


def test_a_template_has_true_and_false_as_toml(tmp_path: Path) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.in")
    with (tmp_path / "two.in").open("r+") as file:
        text = file.read().replace("[[flow]]", "[[flow]]\ntcp.sack = $sack", 1)
        assert "$sack" in text
        file.seek(0)
        file.write(text)
    figure = simple(model=None, scenario=study.template("two.in"), points=study.grid(sack=[True, False]), measures={"y": "totals.jain"})
    assert [figure.built(point, 1, tmp_path).to_dict()["flow"][0]["tcp"]["sack"] for point in figure.points] == [True, False]


def test_a_file_with_names_twice_or_an_empty_text_is_read_or_told(tmp_path: Path) -> None:
    text = PURE.replace("'''A line through the origin.'''", "''' '''") + "\n    SAME = FIGURE\n"
    declared = _registry.load(declare(tmp_path, text))
    assert [figure.name for figure in declared.figures] == ["line"] and declared.paper.title == "mine"
    with pytest.raises(study.StudyError, match=r"mine\.py: ValueError: .*line is declared twice"):
        _registry.load(declare(tmp_path, text.replace("SAME = FIGURE", "from dataclasses import replace\n    SAME = replace(FIGURE)")))
