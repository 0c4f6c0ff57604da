"""Network experiments at any speed of time.

    import warpline

    run = warpline.Scenario.load("dumbbell.toml").run()
    run.flows.polars()
    warpline.plot.cwnd(run)

`Scenario` builds or reads an experiment. Its method `run` returns a `Run` with a summary and tables, or a `RunSet` for several seeds.
`plot` draws them; `sweep` runs a grid of settings. Derive from `CongestionControl` or `IntervalControl` to write a congestion control in Python, and
`evaluate` holds it, or a built-in one, against the questions of RFC 9743. `quic` transfers data in the background, between real machines.
`warpline.gym`, `warpline.study` and `warpline.convert` are imported by their names: environments in which agents learn to control congestion, experiments that are
declared, kept and judged, and other programs' formats.
"""

from __future__ import annotations

from warpline import _model, plot, quic
from warpline._columns import Column, columns
from warpline._congestion import CcFactories, CcFactory, CongestionControl, IntervalControl
from warpline._errors import (
    Diagnostic,
    MissingDependencyError,
    RunError,
    RunInterrupted,
    ScenarioError,
    SweepError,
    WarplineError,
)
from warpline._evaluate import Evaluation, evaluate
from warpline._model import *
from warpline._progress import Observer
from warpline._run import Run
from warpline._runs import RunSet
from warpline._scenario import Scenario, run
from warpline._summary import (
    AuditedMeasure,
    FastForwardSummary,
    FlowRow,
    GroupSummary,
    InputFile,
    LinkRow,
    SizeSummary,
    Stretch,
    Summary,
    Totals,
)
from warpline._sweep import sweep
from warpline._warpline import (
    AckSample,
    CcConfig,
    CongestionEvent,
    Interval,
    Progress,
    Table,
    __version__,
    json_schema,
)

__all__ = [
    "AckSample",
    "AuditedMeasure",
    "CcConfig",
    "CcFactories",
    "CcFactory",
    "Column",
    "CongestionControl",
    "CongestionEvent",
    "Diagnostic",
    "Evaluation",
    "FastForwardSummary",
    "FlowRow",
    "GroupSummary",
    "InputFile",
    "Interval",
    "IntervalControl",
    "LinkRow",
    "MissingDependencyError",
    "Observer",
    "Progress",
    "Run",
    "RunError",
    "RunInterrupted",
    "RunSet",
    "Scenario",
    "ScenarioError",
    "SizeSummary",
    "Stretch",
    "Summary",
    "SweepError",
    "Table",
    "Totals",
    "WarplineError",
    "__version__",
    "columns",
    "evaluate",
    "json_schema",
    "plot",
    "quic",
    "run",
    "sweep",
]
__all__ += _model.__all__
