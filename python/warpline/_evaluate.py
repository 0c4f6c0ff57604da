"""Evaluating a congestion control by the questions of RFC 9743."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from warpline._congestion import CcFactory
from warpline._warpline import NativeEvaluation
from warpline._warpline import evaluate as _evaluate

Verdict = Literal["met", "open", "missed"]
"""Within the bound; not known with so few seeds; beyond the bound."""

_ORDER: list[Verdict] = ["met", "open", "missed"]


class Evaluation:
    """The verdicts on a congestion control. `print` shows them; a notebook shows a table."""

    def __init__(self, native: NativeEvaluation) -> None:
        """For warpline's own use: `evaluate` makes evaluations."""
        self._native = native

    @cached_property
    def data(self) -> dict[str, Any]:
        """Everything that is known, as in the JSON of `warpline evaluate --json`: questions, trials, figures, bounds and scenarios."""
        data: dict[str, Any] = json.loads(self._native.to_json())
        return data

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each question: the worst of its figures."""
        worst = {}
        for answer in self.data["criteria"]:
            found: list[Verdict] = [figure["verdict"] for figure in answer["figures"]]
            worst[answer["name"]] = max(found, key=_ORDER.index)
        return worst

    @property
    def figures(self) -> list[dict[str, Any]]:
        """All figures: question, trial, figure, unit, mean, ci95, baseline, bound and verdict. `polars.DataFrame(evaluation.figures)` is a frame."""
        return [{"question": answer["name"], **figure} for answer in self.data["criteria"] for figure in answer["figures"]]

    def text(self, *, all: bool = False) -> str:
        """The verdicts as text, and the figures that are not within their bounds, or all of them."""
        return self._native.render(all)

    def write(self, directory: str | os.PathLike[str]) -> Path:
        """Writes a page with plots, the figures as JSON, and all scenarios into a directory, and returns the path of the page.

        Raises:
            RunError: If it cannot be written.
        """
        return Path(self._native.write(os.fspath(directory)))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        missed = [name for name, verdict in self.verdicts.items() if verdict != "met"]
        return f"<warpline.Evaluation {self.data['cc']}: {len(self.verdicts)} questions, not met: {', '.join(missed) or 'none'}>"

    def _repr_markdown_(self) -> str:
        return self._native.to_markdown()


def evaluate(
    cc: str | CcFactory,
    *,
    quick: bool = False,
    seeds: int | None = None,
    only: Sequence[str] = (),
    guests: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
    """Evaluates a congestion control by the questions of RFC 9743, on all cores.

        warpline.evaluate("htcp", quick=True)
        warpline.evaluate(Gentle).write("evaluation-of-gentle")    # a class derived from CongestionControl

    A class runs in Python at every acknowledgement, so it takes some minutes where a built-in algorithm takes seconds.

    Args:
        cc: The congestion control as scenarios write it ("bbr", "nice:threshold=0.1"), or a class of your own.
        quick: Whether to run only the trials that differ most.
        seeds: Each trial is run with so many seeds. Default: 5, or 1 if `quick`.
        only: The names of the questions to ask. Default: all that are for every algorithm.
        guests: Whether to evaluate the algorithm of this name in Linux guests.
        progress: Called with the number of runs that have ended, and of all; the evaluation stops if it returns False.

    Raises:
        ValueError: If there is no such congestion control or question.
        RunError: If a run fails, or the evaluation was stopped.
    """
    classes: dict[str, CcFactory] = {}
    algorithm = cc if isinstance(cc, str) else f"custom:name={getattr(cc, '__name__', 'own')}"
    if not isinstance(cc, str):
        classes[algorithm.removeprefix("custom:name=")] = cc
    count = seeds if seeds is not None else 1 if quick else 5
    return Evaluation(
        _evaluate(algorithm, quick=quick, seeds=count, only=list(only), guests=guests, observer=progress, cc=classes)
    )
