"""Pictures and tables of results. The same results give the same bytes: SVG that matplotlib draws, with text as text, and Markdown."""

from __future__ import annotations

import io
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpline._frames import require
from warpline._sweep import Scalar
from warpline.study._declare import Figure, Of, Picture
from warpline.study._points import is_number
from warpline.study._results import LINE, NoResultsError, Results, rising

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE = {"svg.hashsalt": "warpline", "svg.fonttype": "none", "axes.grid": True, "grid.alpha": 0.3, "axes.titlesize": "medium", "legend.fontsize": "x-small"}
_TICKS = 10
"""Up to so many values of an axis are named, in place of powers of ten."""

_MARKS = "osv^D<>ph*x+"

NONE: Mapping[str, Scalar] = {}
"""Where each measure has numbers."""

_STEPS = 500
"""Steps of a distribution that has more values: more than can be seen."""


def _named(results: Results, by: str | None) -> list[tuple[str, Results]]:
    """The results of each line, by its name."""
    if by is None:
        return [("", results)]
    return [(str(value), results.where(**{by: value})) for value in results.values(by)]


def _explain(axes: Axes, figure: Figure, results: Results, by: str | None) -> None:
    """A legend, if there are lines to tell apart. Numbers alone say nothing, so the name of their axis stands above them."""
    if len(axes.get_legend_handles_labels()[1]) > 1:
        numbers = by is not None and not any(isinstance(value, str) for value in results.values(by))
        axes.legend(title=figure.label(by) if by is not None and numbers else None, title_fontsize="x-small")


def _default_by(results: Results, x: str) -> str | None:
    """What tells the lines of a picture apart if it does not say: the lines of the measures, or the last other axis."""
    if results.values(LINE):
        return LINE
    others = [name for name in (results.cells[0].where if results.cells else ()) if name != x]
    return others[-1] if others else None


def _check_log(log: str, axes: str) -> None:
    """Refuses a `log` that names anything but these axes.

    Raises:
        ValueError: If it does.
    """
    if not (isinstance(log, str) and set(log) <= set(axes)):
        raise ValueError(f"log={log!r}: it names the axes with a logarithmic scale, of {' and '.join(axes)}; for example {axes!r}")


def _are_ends(bounds: object) -> bool:
    """Whether these are the ends of an axis: two finite numbers in their order."""
    if not (isinstance(bounds, Sequence) and len(bounds) == 2 and all(is_number(end) and math.isfinite(end) for end in bounds)):
        return False
    return bool(bounds[0] < bounds[1])


@dataclass(frozen=True)
class Lines(Picture):
    """A measure over an axis, a line for each value of another, with 95 % intervals."""

    x: str
    y: str
    by: str | None = None
    log: str = ""
    only: Mapping[str, Any] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        """Checks what it is made of."""
        super().__post_init__()
        _check_log(self.log, "xy")

    @property
    def reads(self) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """The axes and the measures that it names."""
        return (self.x, self.by, *(self.only or {})), (self.y,)

    def has_results(self, results: Results) -> bool:
        """Whether there is something to draw."""
        try:
            return bool(results.where(**(self.only or {})).cells)
        except NoResultsError:
            return False

    def draw(self, axes: Axes, results: Results, figure: Figure) -> None:
        """Draws it."""
        results = results.where(**(self.only or {}))
        values = results.values(self.x)
        # With a word among them, all stand side by side.
        words = values if any(isinstance(value, str) for value in values) else []
        by = self.by or _default_by(results, self.x)
        ys = [mean for _, mean, _ in results.series(self.y, self.x)]
        for number, (name, mine) in enumerate(_named(results, by)):
            series = mine.series(self.y, self.x)
            if not words:
                series.sort()
            axes.errorbar(
                [words.index(x) if words else x for x, _, _ in series],
                [mean for _, mean, _ in series],
                [half for _, _, half in series],
                label=name,
                linewidth=1,
                markersize=4,
                capsize=2,
                marker=_MARKS[number % len(_MARKS)],
                linestyle="-" if number < 10 else "--",
            )
        if words:
            axes.set_xticks(range(len(words)), [str(word) for word in words])
            axes.tick_params(axis="x", labelrotation=30)
        _scales(axes, self.log.replace("x", "") if words else self.log, [x for x in values if isinstance(x, (int, float))], ys)
        axes.set(xlabel=figure.label(self.x), ylabel=figure.label(self.y), title=self.title)
        _explain(axes, figure, results, by)


def _set_log(set_scale: Callable[..., object], values: Sequence[float]) -> None:
    """Makes a scale logarithmic. With values at 0 or below, which have no logarithm and would not be drawn, it is linear about 0, up to the smallest value
    above."""
    if any(value <= 0 for value in values):
        set_scale("symlog", linthresh=min((value for value in values if value > 0), default=1.0))
    else:
        set_scale("log")


def _scales(axes: Axes, log: str, xs: Sequence[float], ys: Sequence[float]) -> None:
    if "x" in log:
        _set_log(axes.set_xscale, xs)
        if len(xs) <= _TICKS:
            axes.set_xticks(xs, [f"{x:g}" for x in xs])
            axes.set_xticks([], minor=True)
    if "y" in log:
        _set_log(axes.set_yscale, ys)


@dataclass(frozen=True)
class Bars(Picture):
    """A measure as bars: a group for each value of an axis, a bar for each of another."""

    x: str
    y: str
    by: str | None = None
    title: str = ""

    @property
    def reads(self) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """The axes and the measures that it names."""
        return (self.x, self.by), (self.y,)

    def draw(self, axes: Axes, results: Results, figure: Figure) -> None:
        """Draws it."""
        groups = results.values(self.x)
        by = self.by or _default_by(results, self.x)
        lines = _named(results, by)
        width = 0.8 / max(len(lines), 1)
        for number, (name, mine) in enumerate(lines):
            series = mine.series(self.y, self.x)
            at = [groups.index(x) + (number - (len(lines) - 1) / 2) * width for x, _, _ in series]
            axes.bar(at, [mean for _, mean, _ in series], width, yerr=[half for _, _, half in series], label=name)
        axes.set_xticks(range(len(groups)), [str(group) for group in groups])
        axes.set(xlabel=figure.label(self.x), ylabel=figure.label(self.y), title=self.title)
        _explain(axes, figure, results, by)


@dataclass(frozen=True)
class Cdf(Picture):
    """The distribution of a measure over points and seeds, a curve for each value of an axis."""

    y: str
    by: str | None = None
    log: str = ""
    alike: str | None = None
    title: str = ""
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Checks what it is made of."""
        super().__post_init__()
        _check_log(self.log, "x")
        if self.bounds is not None and not _are_ends(self.bounds):
            raise ValueError(f"bounds={self.bounds!r}: write two numbers, the lower one first: bounds=(0, 10)")

    @property
    def reads(self) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """The axes and the measures that it names."""
        return (self.by, self.alike), (self.y,)

    def has_results(self, results: Results) -> bool:
        """Whether there is something to draw."""
        return any(self.y in cell.samples for cell in results.cells)

    def draw(self, axes: Axes, results: Results, figure: Figure) -> None:
        """Draws it."""
        results = Results(cell for cell in results.cells if self.y in cell.samples)
        by = self.by or _default_by(results, "")
        for name, mine in _named(results, by):
            curve = mine.distribution(self.y, alike=self.alike)
            count = len(curve)
            if count > _STEPS:
                curve = [*(curve[count * step // _STEPS] for step in range(_STEPS)), curve[-1]]
            values, shares = zip(*curve, strict=True)
            axes.step([values[0], *values], [0, *shares], where="post", label=name)
        if "x" in self.log:
            _set_log(axes.set_xscale, results.samples(self.y))
        axes.set(xlabel=figure.label(self.y), ylabel="Cumulative share", ylim=(0, 1.02), xlim=self.bounds, title=self.title)
        _explain(axes, figure, results, by)


@dataclass(frozen=True)
class Surface(Picture):
    """The mean of a measure over two axes, as colours."""

    x: str
    y: str
    z: str
    title: str = ""

    @property
    def reads(self) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """The axes and the measures that it names."""
        return (self.x, self.y), (self.z,)

    def draw(self, axes: Axes, results: Results, figure: Figure) -> None:
        """Draws it."""
        xs, ys = (sorted(results.values(axis), key=lambda value: (isinstance(value, str), value)) for axis in (self.x, self.y))
        known = {(cell.where[self.x], cell.where[self.y]): cell.mean(self.z) for cell in results.averaged(self.x, self.y).cells if self.z in cell.samples}
        image = axes.imshow([[known.get((x, y), math.nan) for x in xs] for y in ys], origin="lower", aspect="auto")
        axes.set_xticks(range(len(xs)), [str(x) for x in xs])
        axes.set_yticks(range(len(ys)), [str(y) for y in ys])
        axes.grid(visible=False)
        axes.set(xlabel=figure.label(self.x), ylabel=figure.label(self.y), title=self.title)
        axes.get_figure().colorbar(image, label=figure.label(self.z))  # type: ignore[union-attr]


@dataclass(frozen=True)
class TablePicture(Picture):
    """A table: the lines below each other, the values of the axis `x` beside each other."""

    x: str | None = None
    y: str | None = None

    @property
    def reads(self) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """The axes and the measures that it names."""
        return (self.x,), (self.y,)

    def draw(self, axes: Axes, results: Results, figure: Figure) -> None:
        """A table is not drawn."""


def lines(
    x: str, y: str, by: str | None = None, *, log: str = "", only: Mapping[str, Any] | None = None, title: str = "", of: Of | None = None
) -> Lines:
    """A measure over an axis, a line for each value of another (by default the lines of the measures, or the last other axis), with 95 % intervals.

    `log` is "x", "y" or "xy": a logarithmic scale, which is linear about 0 where there are values at 0 or below. `only` chooses results, as in `Results.where`.
    `of`, of this and all other pictures, is a function of the results that returns those that are shown: `lambda results: results.averaged("x", "cc")`.
    """
    return Lines(x, y, by, log, only, title, of=of)


def bars(x: str, y: str, by: str | None = None, *, title: str = "", of: Of | None = None) -> Bars:
    """A measure as bars: a group for each value of an axis, a bar for each of another."""
    return Bars(x, y, by, title, of=of)


def cdf(
    y: str,
    by: str | None = None,
    *,
    log: str = "",
    alike: str | None = None,
    title: str = "",
    bounds: tuple[float, float] | None = None,
    of: Of | None = None,
) -> Cdf:
    """The distribution of a measure over points and seeds, a curve for each value of an axis. `bounds` are the ends of the axis of values.

    With `alike`, the name of an axis, each value of that axis weighs the same, however many seeds it has. `log` is "x" or nothing, as for `lines`.
    """
    return Cdf(y, by, log, alike, title, bounds, of=of)


def surface(x: str, y: str, z: str, *, title: str = "", of: Of | None = None) -> Surface:
    """A measure over two axes, as colours. Where there are further axes, the mean over them."""
    return Surface(x, y, z, title, of=of)


def table(x: str | None = None, y: str | None = None, *, of: Of | None = None) -> TablePicture:
    """A table in Markdown and no drawing: the values of the axis `x` beside each other, the measure `y` in the cells."""
    return TablePicture(x, y, of=of)


def Table(**options: Any) -> Figure:
    """A figure that the paper has as a table: a `Figure` whose picture is a table, unless another is given."""
    return Figure(**{"picture": TablePicture(), **options})


def _refuse_unknown(picture: Picture, shown: Results, figure: Figure) -> None:
    """Refuses axes and measures that there are not, as they would leave a picture or a table empty without a word. A quick form may leave measures out."""
    if not shown.cells:
        return
    axes, measures = picture.reads
    # The results of a part of the points may lack measures that the declaration has.
    declared = figure.measures if picture.of is None and isinstance(figure.measures, Mapping) else {}
    checked = [("axis", axes, shown.axes), ("measure", () if figure.is_quick else measures, [*dict.fromkeys([*shown.measures, *declared])])]
    for kind, named, known in checked:
        for name in named:
            if name is not None and name not in known:
                raise ValueError(f"no {kind} {name!r}; there are {', '.join(known) or 'none'}")


def _shown(picture: Picture, results: Results, figure: Figure, no_numbers: Mapping[str, Scalar]) -> Results:
    """What a picture shows of the results.

    Raises:
        ValueError: If there is no axis or measure of a name; or if a measure has no number, as the picture would be empty or not there, without a word.
    """
    # A text in the quick form is one in the full form, too. None may be a number there.
    texts = {measure: text for measure, text in no_numbers.items() if text is not None or not figure.is_quick}
    shown = picture.shown(results) if results.cells else results
    named = [measure for measure in picture.reads[1] if measure in texts and measure not in shown.measures]
    for measure in named if results.cells else named or texts:
        text = texts[measure or ""]
        has = "None only" if text is None else f"texts, such as {reprlib.repr(text)}"
        others = f"; those with numbers are {', '.join(shown.measures)}" if shown.measures else ""
        raise ValueError(f"the measure {measure} has {has}; what is shown are numbers{others}")
    _refuse_unknown(picture, shown, figure)
    return shown


def svg(figure: Figure, results: Results, no_numbers: Mapping[str, Scalar] = NONE) -> bytes | None:
    """The pictures of a figure as SVG; None if there is nothing to draw. `no_numbers` are those of `Kept`.

    Raises:
        MissingDependencyError: If matplotlib is not installed.
        ValueError: If there is no axis or measure of a name, or if a measure has no number.
    """
    every = [(picture, _shown(picture, results, figure, no_numbers)) for picture in figure.pictures if not isinstance(picture, TablePicture)]
    drawn = [(picture, mine) for picture, mine in every if picture.has_results(mine)]
    if not drawn:
        return None
    matplotlib = require("matplotlib", "study", "a picture")
    Drawing = require("matplotlib.figure", "study", "a picture").Figure
    with matplotlib.rc_context(_STYLE):
        drawing = Drawing(figsize=(6.4 * len(drawn), 4.4), layout="constrained")
        for axes, (picture, mine) in zip(drawing.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
            picture.draw(axes, mine, figure)
        drawing.suptitle(figure.title, fontsize="medium")
        out = io.BytesIO()
        drawing.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def markdown(figure: Figure, results: Results, no_numbers: Mapping[str, Scalar] = NONE) -> str:
    """The results as a table in Markdown: of each measure, unless a table of the figure chooses one. `no_numbers` are those of `Kept`.

    Raises:
        ValueError: If there is no axis or measure of a name, or if a measure of a table of the figure has no number.
    """
    chosen = next((picture for picture in figure.pictures if isinstance(picture, TablePicture)), None)
    if chosen is None and no_numbers and not results.cells:
        return "No measure has a number.\n"
    chosen = chosen or TablePicture()
    results = _shown(chosen, results, figure, no_numbers)
    if not results.cells:
        return ""
    axes = [axis for axis in figure.axes if results.values(axis)]
    measures = [chosen.y] if chosen.y else results.measures
    # By default the axis that the first lines or bars have below, else the last one.
    below = chosen.x or next((picture.x for picture in figure.pictures if isinstance(picture, (Lines, Bars)) and picture.x in axes), None) or next(reversed(axes), None)
    others = [axis for axis in axes if axis != below] + ([LINE] if results.values(LINE) else [])
    tables = []
    for measure in measures:
        columns: list[Scalar] = [None] if below is None else rising(results.values(below))
        # The first column has the values of the first axis, and the heading of it is that of the table, too.
        first = ", by ".join(map(figure.label, (measure, *others[:1])))
        head = [first, *map(figure.label, others[1:]), *map(_short, columns)]
        text = [f"| {' | '.join(head)} |", "|---" * max(len(others), 1) + "|--:" * len(columns) + "|"]
        seen: dict[tuple[Any, ...], dict[Any, float]] = {}
        for cell in results.cells:
            if measure in cell.samples:
                seen.setdefault(tuple(cell.where.get(axis) for axis in others), {})[None if below is None else cell.where[below]] = cell.mean(measure)
        for names, values in seen.items():
            words = [_short(name) for name in names] or [""]
            text.append(f"| {' | '.join(words)} | " + " | ".join(f"{values[x]:.4g}" if x in values else "" for x in columns) + " |")
        tables.append("\n".join(text))
    return "\n\n".join(tables) + "\n"


def _short(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
