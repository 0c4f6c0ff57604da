"""Which runs that need the machine are under way at once, and what part of it each takes."""

from __future__ import annotations

from typing import Any

import pytest

import warpline
from warpline import study
from warpline.study._turns import Turns


def test_as_many_runs_are_under_way_as_leave_each_other_enough_of_the_machine() -> None:
    turns: Turns[str] = Turns(10)
    for run, takes in (("real", 1), ("tdf 10", 0.5), ("tdf 100", 0.05), ("another", 0.05), ("slow", 0.5)):
        turns.add(run, takes)
    # The light ones first, and then as much as there is room for.
    assert [turns.begin() for _ in range(4)] == ["tdf 100", "another", "tdf 10", None]
    assert not turns.end("tdf 100", good=True)
    assert turns.begin() is None and turns.under_way == 2
    # It is not good, maybe because of the other: it has another turn, with the machine for itself, after those that wait.
    assert turns.end("another", good=False)
    assert turns.begin() == "slow" and turns.begin() is None
    assert not turns.end("tdf 10", good=True) and not turns.end("slow", good=True)
    assert turns.begin() == "real" and turns.begin() is None
    assert not turns.end("real", good=False)
    assert turns.begin() == "another"
    assert not turns.end("another", good=False) and not turns


def test_no_more_are_under_way_than_there_are_processes() -> None:
    turns: Turns[str] = Turns(1)
    turns.add("a", 0.1)
    turns.add("b", 0.1)
    assert turns.begin() == "a" and turns.begin() is None
    # It had the machine for itself.
    assert not turns.end("a", good=False)
    assert turns.begin() == "b"


@pytest.mark.parametrize(
    ("clock", "hosts", "of_two", "of_twenty"),
    [
        ({}, {}, 0, 0),
        ({"mode": "real"}, {}, 1, 1),
        ({"mode": "dilated", "tdf": 1}, {}, 1, 1),
        ({"mode": "dilated", "tdf": 2}, {}, 1, 0.25),
        ({"mode": "dilated", "tdf": 50}, {}, 0.1, 0.01),
        ({"mode": "dilated", "tdf": 50}, {"tdf": 10}, 0.5, 0.05),
        ({"mode": "dilated", "tdf": "auto"}, {}, 1, 1),
    ],
)
def test_what_a_run_takes_of_the_machine_follows_from_the_factors_and_the_cpus(
    monkeypatch: pytest.MonkeyPatch, clock: dict[str, Any], hosts: dict[str, Any], of_two: float, of_twenty: float
) -> None:
    ends = [warpline.Host(name=name, endpoint="guest", machine=name, **(hosts if name == "a" else {})) for name in "ab"]
    scenario = warpline.Scenario(
        name="two",
        duration="1s",
        clock=warpline.Clock(**clock) if clock else None,
        link=[warpline.Link(between=["a", "b"], rate="2Mbit/s", delay="5ms")],
        host=ends,
        flow=[warpline.Flow(name="flow", from_="a", to="b")],
    )
    figure = study.Figure(name="two", title="Two", points=[{"x": 1}], scenario=lambda at: scenario, measures={"jain": "totals.jain"}, quick=study.quick())
    for cores, takes in ((2, of_two), (20, of_twenty)):
        monkeypatch.setattr("warpline.study._declare.cores", lambda cores=cores: cores)
        assert figure.takes(scenario) == takes
