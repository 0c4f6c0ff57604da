"""Verdicts as text for a terminal, and the page of the book."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from warpline.study._claims import State, Verdict
from warpline.study._declare import Elsewhere, Figure
from warpline.study._progress import runs
from warpline.study._registry import Declared
from warpline.study._runner import Failure
from warpline.study._study import Kept, Study
from warpline.study._told import naming


@dataclass(frozen=True)
class Judged:
    """A figure with its verdicts.

    Attributes:
        name: PAPER/FIGURE.
        figure: Its declaration.
        kept: What was measured.
        verdicts: One for each claim.
    """

    name: str
    figure: Figure
    kept: Kept
    verdicts: Sequence[Verdict]

    @property
    def good(self) -> bool:
        """Whether results and declaration agree. A reason why they differ belongs to the full form: the quick one may agree all the same."""
        return self.kept.missing == 0 and all(verdict.good or (self.figure.is_quick and verdict.state == "agrees after all") for verdict in self.verdicts)

    @property
    def short(self) -> str:
        """How it stands, in a few words."""
        words = count(self.verdicts)
        if self.kept.missing:
            words += f"; {self.missing_text}"
        return words

    @property
    def missing_text(self) -> str:
        """How much is missing, in words."""
        return f"{self.kept.missing} of {len(self.figure.points)} points lack runs; there {'is' if self.kept.runs == 1 else 'are'} {runs(self.kept.runs)} so far"


def judge(declared: Declared, figure: Figure, *, quick: bool = False) -> Judged:
    """Judges the results that are kept."""
    return judged(declared.study(figure, quick=quick))


def judged(study: Study) -> Judged:
    """Judges the results that are kept of a study.

    Raises:
        StudyError: If a scenario or a claim raises an error.
    """
    kept = study.kept()
    verdicts = []
    for claim in study.figure.claims:
        with naming(f"{study.name}, claim {claim.text!r}"):
            verdict = claim.judge(kept.results)
            waits = kept.missing and claim.waits_for(kept.lacking, study.figure.points, kept.results)
            verdicts.append(verdict.so_far if waits else verdict)
    return Judged(study.name, study.figure, kept, verdicts)


def count(verdicts: Sequence[Verdict]) -> str:
    """How many claims stand how: "3 met, 1 differs"."""
    states = [verdict.state for verdict in verdicts]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states, key=_ORDER.index))) or "nothing is claimed"


_ORDER = get_args(State)


def shown(value: float, unit: str = "") -> str:
    """A value with four digits and its unit; a share with unit "%" as it is."""
    if math.isnan(value):
        return "–"
    return f"{value:.4g}{' ' + unit if unit else ''}"


def text(one: Judged) -> str:
    """The verdicts of a figure for a terminal."""
    lines = [f"{one.name}: {one.figure.title}"]
    for verdict in one.verdicts:
        claim = verdict.claim
        lines.append(f"  {verdict.state:>10}  {claim.text}: ours {shown(verdict.ours, claim.unit)}, theirs {shown(claim.theirs, claim.unit)} ({claim.bound.text})")
        if verdict.why and one.kept.results.cells:
            lines.append(f"              {verdict.why}")
    lines += [f"  {unable}" for unable in one.kept.unable]
    lines += [f"  on {machine}" for machine in one.kept.machines]
    if one.kept.missing:
        lines.append(f"  {one.missing_text}")
    if one.kept.others:
        lines.append(f"  {runs(one.kept.others)} of what is not declared any more: kept, and not judged (`warpline study prune` drops them)")
    return "\n".join(lines)


TOLD = 3
"""At most so many failed runs are listed, each with its error."""


def failed(failures: Sequence[Failure]) -> list[str]:
    """The runs that failed as lines for a terminal: the first ones, and how many more there are."""
    lines = [f"failed: {dict(failure.point)}, seed {failure.seed}: {failure.error}" for failure in failures[:TOLD]]
    return lines + [f"and {len(failures) - TOLD} more failed"] if len(failures) > TOLD else lines


def book(papers: Sequence[Declared]) -> str:
    """The page of the book."""
    parts = [
        "# The papers, repeated",
        "Each table and figure of the papers that Warpline repeats: what they have, what we have, how far we may be, and whether we are. "
        "This page is made from the declarations in `repro/PAPER/declarations.py` and the results beside them, by `warpline study evidence`; "
        "`make test` checks that it is up to date.",
        "*Theirs* is the paper's value. Where the paper has words only, or the claim is ours, it is a number that we chose to judge against. The verdict is *met* if our value is within the bound. If it is not, the claim "
        "*differs*, and a line says why. It is *incomplete* as long as runs are missing that may change it, and has *no results* if no run has given it a value. A claim that no result could fail is refused. "
        "`warpline reproduce PAPER/FIGURE` runs a "
        "figure again and judges it, with `--quick` in a small form; `warpline reproduce --all` runs everything, which takes days on a small machine.",
    ]
    # The column of those that are not declarations is left out where all are.
    elsewhere = any(isinstance(figure, Elsewhere) for declared in papers for figure in declared.paper.figures)
    summary = ["| paper | figures judged | claims |" + " made by other programs |" * elsewhere, "|---|--:|---|" + "--:|" * elsewhere]
    sections = []
    for declared in papers:
        paper = declared.paper
        judgements = [judge(declared, figure) for figure in declared.figures]
        others = [figure for figure in paper.figures if isinstance(figure, Elsewhere)]
        all_verdicts = [verdict for one in judgements for verdict in one.verdicts]
        summary.append(f"| [{declared.name}](#{declared.name}) | {len(judgements)} | {count(all_verdicts)} |" + f" {len(others)} |" * elsewhere)
        section = [f"## {declared.name}", f"{paper.title}."]
        if paper.about:
            section.append(paper.about)
        by_name = {one.figure.name: one for one in judgements}
        for figure in paper.figures:
            section += _elsewhere(figure) if isinstance(figure, Elsewhere) else _figure(by_name[figure.name], declared.directory)
        sections.append("\n\n".join(section))
    return "\n\n".join([*parts, "\n".join(summary), *sections]) + "\n"


def _figure(one: Judged, directory: Path) -> list[str]:
    figure = one.figure
    source = f"{figure.source}: " if figure.source else ""
    parts = [f"### {source}{figure.title}"]
    if figure.note:
        parts.append(figure.note)
    if one.verdicts:
        rows = ["| the paper | theirs | ours | bound | verdict |", "|---|--:|--:|---|---|"]
        for verdict in one.verdicts:
            claim = verdict.claim
            state = verdict.state if verdict.state == "met" else f"**{verdict.state}**"
            why = f": {verdict.why}" if verdict.why and one.kept.results.cells else ""
            rows.append(f"| {claim.text} | {shown(claim.theirs, claim.unit)} | {shown(verdict.ours, claim.unit)} | {claim.bound.text} | {state}{why} |")
        parts.append("\n".join(rows))
    made = f"made by {', '.join(one.kept.builds)}" if one.kept.builds else "no results yet"
    missing = f"; {one.missing_text}" if one.kept.missing and one.kept.builds else ""
    drawn = directory / "results" / f"{figure.name}.svg"
    picture = f"; `repro/{directory.name}/results/{drawn.name}`" if drawn.exists() else ""
    parts.append(f"`warpline reproduce {one.name}` ({made}{missing}{picture})")
    if one.kept.machines:
        parts.append(f"Measured on {'; and on '.join(one.kept.machines)}.")
    parts += [f"{unable}." for unable in one.kept.unable]
    return parts


def _elsewhere(figure: Elsewhere) -> list[str]:
    source = f"{figure.source}: " if figure.source else ""
    return [f"### {source}{figure.title}", f"`{figure.how}`. Not judged here, because {figure.why}."]
