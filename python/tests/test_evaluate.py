"""Evaluations by the questions of RFC 9743."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warpline
from conftest import code_of_chapter, needs_guests


class Stubborn(warpline.CongestionControl):
    """Takes no notice of losses."""

    def on_congestion_event(self, event: warpline.CongestionEvent) -> None:
        self.cwnd = max(self.cwnd, 200 * self.mss)


def test_a_class_is_evaluated_as_a_built_in_algorithm(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    evaluation = warpline.evaluate(
        Stubborn, quick=True, only=["losses"], progress=lambda count, of: done.append((count, of))
    )
    assert evaluation.verdicts == {"losses": "missed"}
    assert done and done[-1][0] == done[-1][1]
    [figure] = evaluation.figures
    assert figure["question"] == "losses" and figure["mean"] > figure["baseline"]
    assert "custom:name=Stubborn" in str(evaluation)
    page = evaluation.write(tmp_path / "out")
    assert page.name == "report.html" and "<svg" in page.read_text()
    assert (tmp_path / "out" / "evaluation.json").exists()


def test_an_unknown_algorithm_or_question_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="did you mean `reno`"):
        warpline.evaluate("renno", quick=True, only=["losses"])
    with pytest.raises(ValueError, match="full-use"):
        warpline.evaluate("reno", only=["fulness"])


def test_an_exception_of_an_algorithm_is_passed_on() -> None:
    class Broken(warpline.CongestionControl):
        def on_ack(self, ack: warpline.AckSample) -> None:
            raise ZeroDivisionError("own mistake")

    with pytest.raises(ZeroDivisionError, match="own mistake"):
        warpline.evaluate(Broken, quick=True, only=["slow-path"])


def test_an_evaluation_that_is_stopped_is_a_run_error() -> None:
    with pytest.raises(warpline.RunError, match="stopped"):
        warpline.evaluate("reno", quick=True, only=["losses", "itself"], progress=lambda count, of: False)


@needs_guests
def test_the_chapter_from_an_idea_to_a_verdict_finds_what_it_says() -> None:
    namespace: dict[str, Any] = {"__name__": "chapter"}
    exec(compile(code_of_chapter("idea-to-verdict.md"), "idea-to-verdict.md", "exec"), namespace)
    verdicts = namespace["evaluation"].verdicts
    missed = sorted(name for name, verdict in verdicts.items() if verdict == "missed")
    assert (missed, len(verdicts)) == (["coexistence", "reordering", "short-flows", "varying-delay"], 25)
