"""Declarations: an experiment, what is measured, what the paper says of it, and its picture."""

from __future__ import annotations

import inspect
import os
import re
import reprlib
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from warpline._congestion import CcFactories
from warpline._errors import WarplineError
from warpline._pool import cores
from warpline._run import Run
from warpline._scenario import Scenario
from warpline._sweep import Scalar, toml_value
from warpline.study import _code, _machine
from warpline.study._claims import Claim
from warpline.study._paths import is_special
from warpline.study._points import Point, is_number, plain
from warpline.study._results import LINE, NoResultsError, Results, is_chosen
from warpline.study._seeds import Seeds, Until, most

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Measured: TypeAlias = "Scalar | Mapping[Any, Scalar]"
"""A value, or one for each line of the figure, by its name: a text or a number."""

Measure: TypeAlias = "str | Callable[..., Measured]"
"""Measures a run: a function of a `Run`, or of a `Run` and the point; or the name of a column, such as "group.bulk.goodput_bps" or "totals.jain"."""

Measures: TypeAlias = "Mapping[str, Measure] | Callable[..., Mapping[str, Measured]]"
"""Measures by name, or one function that returns all of them by name."""

UNABLE = "unable"
"""The column that says why a machine cannot make a run; such a run has no measures."""

ALLOWED = "allowed_failures"
"""The column with the failures of a run that its figure allowed, as JSON."""

DECLARED_IN = "declared_in"
"""The column with the name of the file of the declaration that made the run."""

DECLARED_AXES = "declared_axes"
"""The column with the names of the axes that the figure had when the run was made, as JSON."""

LONGEST = 200
"""Bytes that the name of a figure has at most. The name of a file has 255 on most systems, and those of the results add to it."""

ONE_CPU = 10
"""The time dilation factor at which a run takes one CPU at most, by what the networks of the time warp paper take."""

RESERVED = ("declared", "ran", "builds", "scenario", "seed", "measured", LINE, *_machine.COLUMNS, UNABLE, ALLOWED, DECLARED_IN, DECLARED_AXES)
"""Columns of the results that belong to no axis and no measure."""


@dataclass(frozen=True)
class File:
    """A scenario file, with changes for each point."""

    path: str
    changes: Callable[[Point], Mapping[str, Any]] | None = None

    def build(self, point: Point, directory: Path) -> Scenario:
        """The scenario of a point. The file's path is relative to `directory`."""
        changes = {} if self.changes is None else self.changes(point)
        return Scenario.load(directory / self.path, *(f"{path}={toml_value(value)}" for path, value in changes.items()))


@dataclass(frozen=True)
class Template:
    """A file whose places $axis are filled from the point."""

    path: str

    def build(self, point: Point, directory: Path) -> Scenario:
        """The scenario of a point. The file's path is relative to `directory`.

        Raises:
            KeyError: If the file names an axis that the point does not have.
        """
        text = string.Template((directory / self.path).read_text(encoding="utf-8"))
        # As TOML has them.
        words = {name: toml_value(value) if isinstance(value, bool) else value for name, value in point.items()}
        try:
            return Scenario.from_toml(text.substitute(words), name=self.path, directory=directory)
        except KeyError as error:
            raise KeyError(f"{self.path}: ${error.args[0]} names no axis or setting; there are {', '.join(point)}") from None


def file(path: str, changes: Callable[[Point], Mapping[str, Any]] | None = None) -> File:
    """A scenario file beside the declaration. `changes` returns values for a point by the paths of `Scenario.set`; TOML that is more than a value
    (a table with a kind) is a mapping.

    Raises:
        TypeError: If the path is none, or `changes` is no function.
    """
    _check_path("file", path)
    if changes is not None and not callable(changes):
        raise TypeError(f"study.file({path!r}, {reprlib.repr(changes)}): write a function of the point that returns the changes: lambda at: {{...}}")
    return File(path, changes)


def template(path: str) -> Template:
    """A file beside the declaration in which $axis or ${axis} stands for the point's value of an axis or setting.

    Raises:
        TypeError: If the path is none.
    """
    _check_path("template", path)
    return Template(path)


def _check_path(maker: str, path: object) -> None:
    """Refuses what is no path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"study.{maker}({reprlib.repr(path)}): write the path of a file, such as study.{maker}('web.toml')")


ScenarioSource: TypeAlias = "File | Template | str | Callable[[Point], Scenario | str]"
"""A scenario of each point: a file, a template, or a function of the point that returns a `Scenario` or TOML text."""


@dataclass(frozen=True, kw_only=True)
class Quick:
    """What is other in the quick form. `study.quick` makes one."""

    points: Sequence[Point] | None = None
    seeds: Seeds | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)


def quick(
    *, points: Sequence[Point] | None = None, seeds: Seeds | None = None, **settings: Scalar
) -> Quick:
    """The quick form of a figure: fewer points, fewer seeds, other settings. What is left out is as in the full form."""
    return Quick(points=points, seeds=seeds, settings=settings)


Of = Callable[[Results], Results]
"""Makes what is drawn of the results."""


@dataclass(frozen=True)
class Picture(ABC):
    """A picture, or a table. `lines`, `bars`, `cdf`, `surface` and `table` make the usual ones.

    Attributes:
        of: Makes what it shows of the results: averages, differences. By default it shows the results.
    """

    of: Of | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Checks `of`."""
        if self.of is not None and not callable(self.of):
            raise TypeError(f"of={reprlib.repr(self.of)}: write a function of the results that returns those that are shown")

    def shown(self, results: Results) -> Results:
        """What it shows of the results; nothing where they are not enough."""
        try:
            return results if self.of is None else self.of(results)
        except NoResultsError:
            return Results([])

    def has_results(self, results: Results) -> bool:
        """Whether there is something to draw: the quick form may leave a part out."""
        return bool(results.cells)

    @property
    def reads(self) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """The axes and the measures that it names. An axis or measure that the results do not have is a slip, and not a picture without results."""
        return (), ()

    @abstractmethod
    def draw(self, axes: Axes, results: Results, figure: Figure) -> None:
        """Draws it."""


class NoPointsError(WarplineError, ValueError):
    """Points were chosen that a figure does not have."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An experiment as a paper has it.

    Attributes:
        name: Short name: "fig3".
        title: What it shows.
        points: Where it is measured; `study.grid` and so on make them.
        measures: What is measured at each.
        quick: The quick form, some seconds to minutes.
        scenario: The scenario of each point. A function gets the point with the `settings` and `seed`.
        model: In place of a scenario, a function of the point that returns what is measured, by name: for computations without a network.
        seeds: How many seeds (1, 2 and so on) each point is run with, or a function of the point that says so, or `study.until(...)`.
        settings: What all points have in common, and the quick form may change: durations.
        claims: What the paper says.
        picture: The pictures, side by side.
        labels: What pictures and tables call an axis or measure, with its unit.
        source: Where it is in the paper: "Figure 3".
        note: What a reader must know beside the table, in a sentence or two.
        alone: Whether the runs need the machine for themselves, because what they measure is the machine's, and whether the results say which machine it
            was. A scenario under the real or a dilated clock does so by itself; a `model` that runs such scenarios has to say it.
        cpus: With `alone`, how many CPUs a run takes at most, if that is less than the machine has. What it leaves is for other runs.
        needs: Programs that the runs start and that the machine must have, by their names on the PATH: ["aria2c"]. Where one is missing, the runs fail at once,
            and say so.
        keep: Whether measures need the files of the run directory, such as what programs print. It is removed afterwards.
        cc: Congestion controls written in Python, as in `Scenario.run`.
        allowed: Failures of a run that are a result, by a part of their text: "Connection timed out". A run with others counts as failed. A run that was kept
            with such a failure is made again if that is no longer allowed.
    """

    name: str
    title: str
    points: Sequence[Point]
    measures: Measures = field(default_factory=dict)
    quick: Quick
    scenario: ScenarioSource | None = None
    model: Callable[[Point], Mapping[str, Measured]] | None = None
    seeds: Seeds = 1
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    picture: Picture | Sequence[Picture] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    note: str = ""
    alone: bool = False
    cpus: float | None = None
    needs: Sequence[str] = ()
    keep: bool = False
    cc: CcFactories | None = None
    allowed: Sequence[str] = ()
    is_quick: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "points", [_each(point, plain, f"{self.name}: a value of the axis") for point in self.points])
        object.__setattr__(self, "settings", _each(self.settings, _nested, f"{self.name}: the setting"))
        if (self.scenario is None) == (self.model is None):
            raise ValueError(f"{self.name}: a figure has either a scenario or a model")
        if not (re.fullmatch(r"[\w.-]+", self.name) and self.name.strip(".") and len(self.name.encode()) <= LONGEST):
            allowed = f"letters, digits, '-', '_' and '.', and not '.' alone, in {LONGEST} bytes at most"
            raise ValueError(f"{self.name!r}: the name of a figure is {allowed}, because its files are called so")
        if not self.points:
            raise ValueError(f"{self.name}: no points")
        if self.cpus is not None and not (self.alone and self.cpus > 0):
            raise ValueError(f"{self.name}: cpus is a positive number, and needs alone=True")
        if self.model is not None and self.measures:
            raise ValueError(f"{self.name}: measures are of a scenario; a model returns what is measured itself: leave out measures")
        if self.scenario is not None and not self.measures:
            raise ValueError(f"{self.name}: nothing is measured: name columns or functions in measures, such as {{'jain': 'totals.jain'}}")
        axes = self.axes
        for point in self.points:
            if tuple(point) != axes:
                raise ValueError(f"{self.name}: all points have the same axes in the same order; {dict(point)} has not those of the first, {', '.join(axes)}")
        # 0 and False are the same value of an axis to all that chooses points.
        if len({tuple(point.values()) for point in self.points}) < len(self.points):
            raise ValueError(f"{self.name}: a point is named twice")
        self._check_names()
        for point in self.points:
            most(self.seeds, point)

    def _check_names(self) -> None:
        """Refuses names that two things have, and those that nothing would read.

        Raises:
            ValueError: If there are some.
        """
        axes, named = self.axes, [*self.measures] if isinstance(self.measures, Mapping) else []
        if "" in (*axes, *self.settings, *named):
            raise ValueError(f"{self.name}: an axis, setting or measure has the name '': give it one that says something")
        taken = ({*RESERVED} & {*axes, *self.settings, *named}) | ({*axes} & {*named})
        if taken:
            raise ValueError(f"{self.name}: {', '.join(sorted(taken))} cannot be the name of an axis, setting or measure: results have such columns already")
        if both := [name for name in self.settings if name in axes]:
            raise ValueError(f"{self.name}: {both[0]} is the name of an axis and of a setting, which would never be read: leave out the setting, or rename it")
        if unknown := [name for name in self.quick.settings if name not in self.settings]:
            raise ValueError(f"{self.name}: study.quick({unknown[0]}=...): the figure has no such setting; there are {', '.join(self.settings) or 'none'}")
        # What `of` makes of results, what a function returns, and a picture that does not say what it reads may have names of their own. So may the full form
        # of a quick one.
        if self.is_quick or not named or not all(picture.of is None and any(picture.reads) for picture in self.pictures):
            return
        quick = self.quick.points if _are(self.quick.points, Mapping) else ()
        known = dict.fromkeys((*axes, *(axis for point in quick or () for axis in point), *self.settings, *named, LINE))
        if unknown := [name for name in self.labels if name not in known]:
            raise ValueError(f"{self.name}: labels has {unknown[0]!r}, which is the name of no axis, setting or measure; there are {', '.join(known)}")

    def _check_kinds(self) -> None:
        """Refuses what is of another kind than it must be: it would end the study much later, and without its place in the declaration.

        Raises:
            TypeError: If something is.
        """
        measures = self.measures
        for what, good, allowed in (
            ("name", isinstance(self.name, str), "a text"),
            ("title", isinstance(self.title, str), "a text"),
            ("points", _are(self.points, Mapping), "a list of points, as study.grid and the like make them"),
            ("scenario", self.scenario is None or isinstance(self.scenario, (str, File, Template)) or callable(self.scenario), "study.file, study.template, or a function of the point"),
            ("model", self.model is None or callable(self.model), "a function of the point"),
            (
                "measures",
                callable(measures) or (isinstance(measures, Mapping) and all(isinstance(name, str) and (isinstance(one, str) or callable(one)) for name, one in measures.items())),
                'columns or functions by their names, such as {"jain": "totals.jain"}, or a function of the run',
            ),
            ("quick", isinstance(self.quick, Quick), "study.quick(...)"),
            ("seeds", callable(self.seeds) or isinstance(self.seeds, (SupportsIndex, Until)), "a whole number, study.until(...), or a function of the point that returns a whole number"),
            ("settings", isinstance(self.settings, Mapping), "values by their names"),
            ("claims", _are(self.claims, Claim), "a list of study.Claim, even of one; study.values makes a list, and lists are added with `+`"),
            ("picture", isinstance(self.picture, Picture) or _are(self.picture, Picture), "study.lines and the like, or a list of these"),
            ("labels", isinstance(self.labels, Mapping) and _are([*self.labels.values()], str), "texts by the names of axes and measures"),
            ("alone", isinstance(self.alone, bool), "True or False"),
            ("keep", isinstance(self.keep, bool), "True or False"),
            ("cpus", self.cpus is None or is_number(self.cpus), "a number of CPUs"),
            ("needs", _are(self.needs, str), 'a list of programs, even of one: ["aria2c"]'),
            ("allowed", _are(self.allowed, str) and all(self.allowed), 'a list of texts that say something, even of one: ["Connection timed out"]'),
        ):
            if not good:
                raise TypeError(f"{self.name}: {what}={reprlib.repr(getattr(self, what))}: write {allowed}")

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.points[0])

    @property
    def pictures(self) -> list[Picture]:
        """The pictures, as a list."""
        return [self.picture] if isinstance(self.picture, Picture) else list(self.picture)

    def chosen(self, only: Mapping[str, Any]) -> list[Point]:
        """The points with certain values of the axes, as in `Results.where`.

        Raises:
            NoPointsError: If there are none, or no such axis.
        """
        unknown = [axis for axis in only if axis not in self.axes]
        if unknown:
            raise NoPointsError(f"{self.name} has no axis {unknown[0]!r}; there are {', '.join(self.axes) or 'none'}")
        found = [point for point in self.points if all(is_chosen(point[axis], wanted) for axis, wanted in only.items())]
        if not found:
            values = "; ".join(f"{axis} is {', '.join(map(str, dict.fromkeys(point[axis] for point in self.points)))}" for axis in only)
            raise NoPointsError(f"{self.name} has no such points: {values}")
        return found

    def quickly(self) -> Figure:
        """Its quick form."""
        form = self.quick
        return replace(
            self,
            points=self.points if form.points is None else form.points,
            seeds=self.seeds if form.seeds is None else form.seeds,
            settings={**self.settings, **form.settings},
            claims=[claim for claim in self.claims if claim.quick],
            is_quick=True,
        )

    def built(self, point: Point, seed: int, directory: Path) -> Scenario:
        """The scenario of a point and seed.

        Raises:
            ScenarioError: If it has errors.
            TypeError: If a function of the declaration returns something else than it must.
            ValueError: If there is something else than a regular file.
        """
        whole = {**self.settings, **point, "seed": seed}
        source = self.scenario
        if isinstance(source, str):
            source = File(source)
        if isinstance(source, File):
            source = replace(source, changes=_checked(source))
        if isinstance(source, (File, Template)):
            if is_special(directory / source.path):
                raise ValueError(f"{source.path} is not a regular file, so that it is not read; name another file")
            return source.build(whole, directory)
        assert source is not None
        made = source(whole)
        if not isinstance(made, (Scenario, str)):
            raise TypeError(f"the function returned {reprlib.repr(made)}; let it return a warpline.Scenario, or TOML as text")
        return made if isinstance(made, Scenario) else Scenario.from_toml(made, name=f"{self.name}, {dict(point)}", directory=directory)

    def takes(self, scenario: Scenario | None) -> float:
        """What part of the machine a run takes: 0 if it depends on the virtual clock only, and so shares the machine with whatever runs there; 1 if nothing
        else may run. In dilated time, little happens in a second of the machine, and several runs at once keep pace."""
        if self.alone:
            return 1 if self.cpus is None else min(1, self.cpus / cores())
        if scenario is None:
            return 0
        whole = scenario.to_dict()
        clock = whole["clock"]
        if clock["mode"] != "dilated":
            return 0 if clock["mode"] == "virtual" else 1
        return _part(*(one["tdf"] for one in (clock, *whole.get("host", ())) if one.get("tdf") is not None))

    def allows(self, failure: str) -> bool:
        """Whether a failure of a run is a result."""
        return any(text in failure for text in self.allowed)

    @property
    def declared(self) -> str:
        """A digest of what makes the scenarios, so far as it is in the declaration: Warpline's own part and files that are read are not in it."""
        return _code.digest(self.scenario, self.model, self.settings)

    @property
    def measured(self) -> str:
        """A digest of what measures it: results are out of date if that changes."""
        return _code.digest(self.measures, self.model, self.cc)

    @property
    def reads_point(self) -> bool:
        """Whether a measure reads the point or a setting itself, and not only the run."""
        measures = list(self.measures.values()) if isinstance(self.measures, Mapping) else [self.measures]
        return any(_takes_point(measure) for measure in measures if not isinstance(measure, str))

    def label(self, name: str) -> str:
        """What people call an axis or measure."""
        return self.labels.get(name, name.replace("_", " "))

    def measure(self, run: Run, point: Point) -> Mapping[str, Measured]:
        """What is measured of a run, by name."""
        whole = {**self.settings, **point}
        if not isinstance(self.measures, Mapping):
            every: Mapping[str, Measured] = _called(self.measures, run, whole)
            return every
        return {
            name: column(run, measure) if isinstance(measure, str) else _called(measure, run, whole)
            for name, measure in self.measures.items()
        }


def _checked(source: File) -> Callable[[Point], Mapping[str, Any]]:
    """The changes of a file, as a function that refuses another value than a mapping."""

    def changes(point: Point) -> Mapping[str, Any]:
        made = {} if source.changes is None else source.changes(point)
        if not isinstance(made, Mapping):
            raise TypeError(f"the changes of {source.path} are {reprlib.repr(made)}; let the function return values by their paths, or {{}} for none")
        return made

    return changes


def _are(values: object, kind: type) -> bool:
    """Whether these are several values of a kind, in an order. A text is one value, and no list of its letters."""
    return isinstance(values, Sequence) and not isinstance(values, str) and all(isinstance(value, kind) for value in values)


def _each(values: Mapping[str, Any], kept: Callable[[Any, str], Any], what: str) -> Mapping[str, Any]:
    """Values by name as they are kept. `what` is how an error begins."""
    made = {name: kept(value, f"{what} {name}") for name, value in values.items()}
    return values if all(made[name] is value for name, value in values.items()) else made


def _nested(value: Any, what: str) -> Any:
    """A setting as it is kept, which may be a list or a mapping, too."""
    if type(value) in (list, tuple):
        made = [_nested(one, what) for one in value]
        return value if all(one is other for one, other in zip(made, value, strict=True)) else made
    return _each(value, _nested, what) if type(value) is dict else plain(value, what)


def _part(*factors: float | str) -> float:
    """What part of the machine a run takes, by the factors of its clock and hosts. One with "auto" takes all that there is."""
    return max(1 if isinstance(tdf, str) or tdf <= 1 else min(1, ONE_CPU / tdf / cores()) for tdf in factors or (1,))


def _takes_point(measure: Callable[..., Any]) -> bool:
    """Whether a measure is a function of the run and the point, and not of the run alone."""
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    needed = [one for one in inspect.signature(measure).parameters.values() if one.kind not in named and one.default is one.empty]
    return len(needed) > 1


def _called(measure: Callable[..., Any], run: Run, point: Point) -> Any:
    return measure(run, point) if _takes_point(measure) else measure(run)


def column(run: Run, path: str) -> Scalar:
    """A value of a run's summary by its path: "totals.COLUMN", or "group.NAME.COLUMN", likewise with flow and link.

    Raises:
        KeyError: If there is no such value; the text says what there is.
    """
    summary: Any = run.summary
    kind, _, rest = path.partition(".")
    if kind in ("group", "flow", "link"):
        name, _, wanted = rest.rpartition(".")
        key = "group" if kind == "group" else "name"
        rows = [row for row in summary[f"{kind}s"] if row[key] == name]
        if not rows:
            raise KeyError(f"{path}: no {kind} {name!r}; there are {', '.join(row[key] for row in summary[f'{kind}s'])}")
        row = rows[0]
    else:
        row, wanted = (summary["totals"], rest) if kind == "totals" else (summary, path)
    if wanted not in row:
        raise KeyError(f"{path}: no column {wanted!r}; there are {', '.join(row)}")
    value: Scalar = row[wanted]
    return value


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A figure that another program makes, whose results are judged by people: the book names it, and does not pretend to judge it.

    Attributes:
        name: Short name.
        title: What it shows.
        how: The command that makes it.
        why: Why it is not a declaration.
        source: Where it is in the paper.
    """

    name: str
    title: str
    how: str
    why: str
    source: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper, and its figures in the order of the paper. A `declarations.py` has one as `PAPER`.

    Attributes:
        title: Authors, title, where and when.
        figures: The figures and tables.
        about: What a reader must know of the whole, in a sentence or two.
        name: The name in PAPER/FIGURE, if it is not that of the directory.
    """

    title: str
    figures: Sequence[Figure | Elsewhere]
    about: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{self.title}: {', '.join(twice)} is declared twice")
