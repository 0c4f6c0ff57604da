"""The declarations of the papers in `repro`, and the page of the book about them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from warpline import study
from warpline.study import _registry, _report
from warpline.study.__main__ import main

from conftest import needs_guests

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
    knee = sys.modules[f"{accuracy.package.__name__}.bed"].knee
    tried: list[int] = []

    def holds(number: int) -> bool:
        tried.append(number)
        # Other work of the machine spoils every other try.
        return number <= most and tried.count(number) == 2

    found = knee(holds, 150, 1.05)
    assert found <= most <= max(1.05 * found, found + 1 if found else 0)
    assert len(set(tried)) < 25


@pytest.mark.skipif(sys.platform == "win32", reason="unix: who may read a file")
def test_the_log_of_web_users_can_be_read_by_all_and_is_tried_again_if_it_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nice,) = [paper for paper in _registry.papers(REPRO) if paper.name == "tcp-nice"]
    surge = sys.modules[f"{nice.package.__name__}.surge"]
    monkeypatch.setattr(surge, "log", lambda *_: [surge.Request(1.0, 2.0, 3, 4, 5)])
    (tmp_path / "results").write_text("")
    with pytest.raises(OSError):
        surge.written(tmp_path / "results/access.log")
    (tmp_path / "results").unlink()
    before = os.umask(0o022)
    try:
        surge.written(tmp_path / "results/access.log")
    finally:
        os.umask(before)
    (log,) = (tmp_path / "results").iterdir()
    assert log.read_text().startswith("2.000 1000 10.0.0.4 TCP_MISS/200 5 GET") and log.stat().st_mode & 0o777 == 0o644


def test_the_log_of_another_seed_replaces_the_one_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nice,) = [paper for paper in _registry.papers(REPRO) if paper.name == "tcp-nice"]
    surge = sys.modules[f"{nice.package.__name__}.surge"]
    monkeypatch.setattr(surge, "log", lambda seed, *_: [surge.Request(1.0, 2.0, 3, 4, seed)])
    path = tmp_path / "access.log"
    for seed in (1, 2, 2, 1):
        surge.written(path, seed)
        assert f" TCP_MISS/200 {seed} GET " in path.read_text()


def claims_of(name: str, words: str) -> tuple[list[study.Claim], study.Results]:
    """The claims of a figure whose text has these words, and the results that are kept of it."""
    ((declared, (figure,)),) = _registry.find([name], REPRO)
    found = [claim for claim in figure.claims if words in claim.text]
    assert found, words
    return found, declared.study(figure).kept().results


def test_fairness_does_not_depend_on_which_flow_is_the_first() -> None:
    claims, results = claims_of("network-simulation-cradle/fig4", "the ratio farthest from 1")
    turned = results.changed(lambda _, __, values: [1 / value for value in values])
    assert [claim.ours(turned) for claim in claims] == pytest.approx([claim.ours(results) for claim in claims])


def test_interference_that_does_not_fall_is_not_said_to_fall() -> None:
    claims, results = claims_of("tcp-nice/theory", "the slope of its logarithm, 16 Reno flows and 8 Nice")
    steady = results.changed(lambda cell, _, values: [10 if cell.where["nice"] == 0 else 9.84 for _ in values])
    assert [(claim.judge(results).state, claim.judge(steady).state) for claim in claims] == [("met", "not met")]


def test_each_kind_that_slows_the_foreground_less_than_nice_counts() -> None:
    (claim,), results = claims_of("tcp-nice/fig2", "all others slow the foreground more than Nice does")
    for kind in ("reno", "vegas(1,3)", "vegas(0,0)", "ledbat", "ledbat++", "lp"):
        halved = results.changed(lambda cell, _, values, kind=kind: [value / (2 if cell.where["background"] == kind else 1) for value in values])  # type: ignore[misc]
        assert claim.ours(halved) < 0.7 < claim.ours(results), kind


def test_cpu_that_carries_less_step_by_step_is_noticed() -> None:
    claims, results = claims_of("time-warped-emulation/fig11", "more CPU carries more")
    lines = results.values("line")
    falling = results.changed(lambda cell, _, values: [0.97 - 0.01 * lines.index(cell.where["line"]) for _ in values])
    assert [claim.judge(falling).state for claim in claims] == 4 * ["not met"]


def test_a_bound_of_chance_is_for_runs_of_its_length() -> None:
    ((_, (figure,)),) = _registry.find(["emulation-accuracy/table3"], REPRO)
    by_chance = [[claim for claim in form.claims if "of chance" in claim.bound.text] for form in (figure, figure.quickly())]
    assert by_chance[0] and not by_chance[1]


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
