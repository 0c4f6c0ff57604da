"""Experiments that are declared, run once, kept, and judged.

    from warpline import study

    DELAY = study.Figure(
        name="delay",
        title="Latency of web traffic beside background flows",
        scenario=study.file("web-and-background.toml", lambda at: {"flow.background.cc": at["cc"], "flow.background.count": at["flows"]}),
        points=study.grid(cc=["nice", "reno"], flows=[1, 4, 16, 64]),
        seeds=study.until(0.05, of="latency_ms", least=5, most=30),
        measures={"latency_ms": "group.web.latency_mean_ms"},
        claims=[
            study.Claim(
                text="64 flows of Nice delay it less than half as much as 64 of Reno",
                ours=lambda results: results.mean("latency_ms", cc="nice", flows=64) / results.mean("latency_ms", cc="reno", flows=64),
                theirs=0.5,
                bound=study.at_most(),
            ),
        ],
        picture=study.lines(x="flows", y="latency_ms", log="xy"),
        quick=study.quick(points=study.grid(cc=["nice", "reno"], flows=[64]), seeds=1),
    )

`warpline study run FILE.py` runs it on all cores and judges it. The results stay beside the file, so that only what is missing or has changed is run. A
`repro/PAPER/declarations.py` with a `PAPER = study.Paper(...)` is found by name: `warpline reproduce PAPER/FIGURE`.
"""

from __future__ import annotations

from warpline.study._bounds import Bound, at_least, at_most, between, within, within_absolute
from warpline.study._claims import Claim, Verdict, values
from warpline.study._declare import Elsewhere, Figure, File, Paper, Picture, Quick, Template, column, file, quick, template
from warpline.study._pictures import Table, bars, cdf, lines, surface, table
from warpline.study._points import Point, Range, choice, grid, integers, log, points, random, sample, sobol, uniform
from warpline.study._results import Cell, NoResultsError, Results
from warpline.study._runner import Failure
from warpline.study._seeds import Until, until
from warpline.study._told import StudyError
from warpline.study._work import Done, dask, run
from warpline.study._worker import Unable

__all__ = [
    "Bound",
    "Cell",
    "Claim",
    "Done",
    "Elsewhere",
    "Failure",
    "Figure",
    "File",
    "NoResultsError",
    "Paper",
    "Picture",
    "Point",
    "Quick",
    "Range",
    "Results",
    "StudyError",
    "Table",
    "Template",
    "Unable",
    "Until",
    "Verdict",
    "at_least",
    "at_most",
    "bars",
    "between",
    "cdf",
    "choice",
    "column",
    "dask",
    "file",
    "grid",
    "integers",
    "lines",
    "log",
    "points",
    "quick",
    "random",
    "run",
    "sample",
    "sobol",
    "surface",
    "table",
    "template",
    "uniform",
    "until",
    "values",
    "within",
    "within_absolute",
]
