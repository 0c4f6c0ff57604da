"""What the tests share: a small network, a run of it, and plots without windows."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import textwrap
from collections.abc import Generator, Iterator
from typing import Any

import matplotlib
import pytest

import warpline

matplotlib.use("Agg")

# A job in the background of a shell ignores this signal, and so would its children: tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Features whose absence may skip a test even with CI=true; the tests in Rust use the same list.
MAY_SKIP = frozenset(
    line.split(":")[0]
    for line in (pathlib.Path(__file__).parents[2] / "crates/skip/may-skip.txt").read_text().splitlines()
    if not line.startswith("#")
)


#: Tests with a Linux kernel in lock-step, and with network namespaces.
needs_guests = pytest.mark.skipif(
    shutil.which("linux.uml") is None and "WARPLINE_GUEST_KERNEL" not in os.environ, reason="guests: a Linux kernel for them"
)
needs_live = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="live: network namespaces")


def code_of_chapter(name: str) -> str:
    """The Python code of a chapter of the book, its blocks one after the other."""
    chapter = (pathlib.Path(__file__).parents[2] / "docs" / "src" / name).read_text(encoding="utf-8")
    return "\n".join(part.partition("```")[0] for part in chapter.split("```python\n")[1:])


def skip_fails(report: pytest.TestReport | pytest.CollectReport, ci: bool) -> None:
    """With CI=true, turns a skipped test into a failed one, unless the reason begins with a name on the list."""
    if not (ci and report.skipped) or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if reason.removeprefix("Skipped: ").split(":")[0] not in MAY_SKIP:
        report.outcome = "failed"
        report.longrepr = f"with CI=true no test may be skipped for this reason (the list is crates/skip/may-skip.txt): {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Checks the outcome of a test."""
    report = yield
    skip_fails(report, os.environ.get("CI") == "true")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Checks the outcome of collecting a file of tests."""
    report = yield
    skip_fails(report, os.environ.get("CI") == "true")
    return report


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


def write(directory: pathlib.Path, name: str, text: str) -> pathlib.Path:
    """Writes a text without its indentation to a file."""
    file = directory / name
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return file


def links(scenario: warpline.Scenario) -> dict[str, dict[str, Any]]:
    """The links of a scenario by their ends."""
    return {"-".join(link.get("between") or [link["from"], link["to"]]): link for link in scenario.to_dict()["link"]}


@pytest.fixture(scope="session")
def scenario() -> warpline.Scenario:
    return dumbbell()


@pytest.fixture(scope="session")
def finished(scenario: warpline.Scenario) -> warpline.Run:
    """A run of the scenario, in memory."""
    return scenario.run(progress=False)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Closes all figures after each test."""
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def child_environment() -> dict[str, str]:
    """For tests that start an interpreter of their own."""
    return {**os.environ, "PYTHONHASHSEED": "random"}
