"""What the tests share: a small network, a run of it, and no windows on the screen."""

from __future__ import annotations

import os
from collections.abc import Iterator

import matplotlib
import pytest

import warpline

matplotlib.use("Agg")


def dumbbell(**changes: object) -> warpline.Scenario:
    """Two flows over a bottleneck of 10 Mbit/s and 40 ms, for a few seconds."""
    return warpline.Scenario(
        name="two-flows",
        duration="4s",
        warmup="1s",
        topology=warpline.Dumbbell(
            bottleneck=warpline.DuplexOptions(
                rate="10Mbit/s", delay="20ms", queue=warpline.Droptail(limit="1BDP"), record=["packets"]
            ),
        ),
        flow=[
            warpline.Flow(from_="left", to="right", count=2, cc="reno", start="0s..1s", record=["tcp"]),
            warpline.Flow(
                name="files", from_="left", to="right", app="transfer", size="50kB", transfers=4, start="1s", pause="50ms"
            ),
        ],
    ).replace(**changes)


@pytest.fixture(scope="session")
def scenario() -> warpline.Scenario:
    return dumbbell()


@pytest.fixture(scope="session")
def finished(scenario: warpline.Scenario) -> warpline.Run:
    """A run of the scenario, in memory."""
    return scenario.run(progress=False)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Figures do not pile up."""
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def child_environment() -> dict[str, str]:
    """For tests that start an interpreter of their own."""
    return {**os.environ, "PYTHONHASHSEED": "random"}
