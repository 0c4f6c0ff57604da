"""Tests of network programs over a link of one's choice: fixtures for pytest, which finds them once the package is installed.

    def test_upload_over_a_bad_line(warpline_link):
        line = warpline_link(rate="5Mbit/s", delay="40ms", loss="1%")
        exchange = line.run(server="python3 server.py 8000", ready=8000, client="python3 upload.py {server} 8000")
        assert "done" in exchange.client.stdout
        assert exchange.seconds < 20

The two commands run on hosts of their own, named "client" and "server", and `{server}` is the server's address. The clock is the machine's, on network
namespaces, or, with `pytest --warpline-clock virtual`, that of Linux guests in simulated time: there the same seed gives the same packets however busy
the machine is. What was captured and printed is deleted after a test that passes, and kept after one that fails, which says where.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import warpline

if TYPE_CHECKING:
    from warpline._run import Run

_Clock = Literal["real", "virtual"]
CLOCKS: Mapping[_Clock, Literal["live", "guest"]] = {"real": "live", "virtual": "guest"}
"""The clocks, and what the hosts are under each of them."""
CLIENT, SERVER = "client", "server"
KEEP = "warpline-failed"
"""Where the runs of failed tests are kept, below pytest's root."""

Command = str | Sequence[str]


@dataclass(frozen=True)
class Output:
    """What a program has printed.

    Attributes:
        stdout: Its standard output.
        stderr: Its standard error.
    """

    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        """The last lines of both, for a message."""
        return [f"  {line}" for text in (self.stdout, self.stderr) for line in text.splitlines()[-10:]]


@dataclass(frozen=True)
class Exchange:
    """A server and a client that have run over a link.

    Attributes:
        client: What the client has printed.
        server: What the server has printed.
        run: The results of the run: flows, the link's tables, captures.
        seconds: How long it took by the run's clock, from the start of the server to the end of the client.
    """

    client: Output
    server: Output
    run: Run
    seconds: float

    @property
    def captures(self) -> list[Path]:
        """The captures of the link (.pcapng), which are there until the test has passed."""
        return self.run.recordings


class Link:
    """A link between a client and a server. The fixture `warpline_link` makes it."""

    def __init__(self, options: Mapping[str, Any], clock: _Clock, directory: Callable[[], Path], files: Path) -> None:
        """For the fixture's own use."""
        self._options = options
        self._clock = clock
        self._directory = directory
        self._files = files

    def run(
        self,
        *,
        server: Command,
        client: Command,
        ready: Any = None,
        timeout: str = "60s",
        seed: int = 1,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> Exchange:
        """Runs a server and a client, and ends the server when the client has ended.

        Args:
            server: The server's command: a list of words, or text for the shell. It runs in the directory of the test's file.
            client: The client's command. In both, `{server}` and `{client}` are the hosts' addresses.
            ready: How to tell that the server is ready, before which the client does not start: a port, or as in a scenario's `ready`.
                Without it the client starts at the same time.
            timeout: After how long, by the run's clock, the run ends even though the client has not.
            seed: Of what is random on the link.
            check: Whether it is an error if the client does not end with code 0, or the server ends before the client.
            environment: Further environment variables of both.

        Raises:
            AssertionError: If a program did not end as it should; the message has the last lines that the programs printed.
            ScenarioError: If the link or a command is not as it must be.
            RunError: If this machine cannot run it.
        """
        out = self._directory()

        def host(name: str, command: Command, **more: Any) -> warpline.Host:
            words = command if isinstance(command, str) else list(command)
            program = warpline.Program(command=words, environment=environment, **more)
            return warpline.Host(name=name, endpoint=CLOCKS[self._clock], program=[program])

        end = {} if check else {"expect": "any"}
        scenario = warpline.Scenario(
            name="test",
            duration=timeout,
            until=f"{CLIENT} exits",
            seed=seed,
            clock=warpline.Clock(mode=self._clock),
            link=[warpline.Link(between=[CLIENT, SERVER], **{"record": ["pcap"], **self._options})],
            host=[host(SERVER, server, ready=ready, expect="running" if check else "any"), host(CLIENT, client, **end)],
            directory=self._files,
        )
        run = scenario.run(out=out, progress=False)
        printed = {name: Output(*((out / "programs" / f"{name}.0.{stream}").read_text(errors="replace") for stream in ("stdout", "stderr"))) for name in (CLIENT, SERVER)}
        exchange = Exchange(client=printed[CLIENT], server=printed[SERVER], run=run, seconds=run.summary["simulated_s"])
        if check and run.failures:
            said = [line for name, output in printed.items() for line in (f"{name} printed:", *output.lines()) if output.lines()]
            raise AssertionError("\n".join([*run.failures, *said]))
        return exchange


@pytest.fixture
def warpline_link(request: pytest.FixtureRequest) -> Iterator[Callable[..., Link]]:
    """A function that makes a link between a client and a server: `warpline_link(rate="5Mbit/s", delay="40ms", loss="1%")`.

    Its arguments are those of `warpline.Link`: `queue`, `jitter`, `reverse` and so on. Without a `rate` it is 1Gbit/s.
    """
    place = _place(request.node)
    shutil.rmtree(place, ignore_errors=True)
    count = 0

    def directory() -> Path:
        nonlocal count
        count += 1
        place.parent.mkdir(parents=True, exist_ok=True)
        return place / str(count)

    def make(**options: Any) -> Link:
        rated = {"rate", "schedule", "trace", "radio"} & options.keys()
        return Link({**({} if rated else {"rate": "1Gbit/s"}), **options}, request.config.getoption("--warpline-clock"), directory, request.path.parent)

    yield make
    if not getattr(request.node, "_warpline_failed", False):
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):  # Others are kept there.
            place.parent.rmdir()


def _place(item: pytest.Item) -> Path:
    """The directory of a test's runs, by the test's name."""
    return item.config.rootpath / str(item.config.getoption("--warpline-keep")) / re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("warpline", "tests over links of Warpline")
    group.addoption("--warpline-clock", choices=list(CLOCKS), default="real", help="the machine's clock, or simulated time in Linux guests (default: real)")
    group.addoption("--warpline-keep", metavar="DIR", default=KEEP, help=f"where runs of failed tests are kept (default: {KEEP})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes that a test has failed, and says where its runs are."""
    report = yield
    if report.failed:
        item._warpline_failed = True  # type: ignore[attr-defined]
        place = _place(item)
        if place.is_dir():
            report.sections.append(("warpline", f"captures, output and results: {place}"))
    return report
