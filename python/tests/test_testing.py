"""The fixtures for tests of network programs, in a pytest of their own."""

from __future__ import annotations

import pytest
from conftest import needs_guests, needs_live

pytest_plugins = ["pytester"]

SERVER = "python3 -u -m http.server --bind {server} 8000"

PASSES = f"""
def test_page(warpline_link):
    line = warpline_link(rate="2Mbit/s", delay="30ms")
    (path,) = __import__("pathlib").Path(__file__).parent.glob("*.py")
    exchange = line.run(server={SERVER!r}, ready=8000, client=["curl", "-sS", "http://{{server}}:8000/" + path.name])
    assert exchange.client.stdout == path.read_text()
    assert exchange.captures and all(capture.stat().st_size > 0 for capture in exchange.captures)
    # The handshake, the request and the end take three round trips of 60 ms at least.
    assert 0.12 < exchange.seconds < 30
"""

FAILS = f"""
def test_no_such_page(warpline_link):
    warpline_link(delay="5ms").run(server={SERVER!r}, ready=8000, client="curl -sS --fail http://{{server}}:8000/nothing")

def test_wrong_answer(warpline_link):
    exchange = warpline_link(delay="5ms").run(server={SERVER!r}, ready=8000, client="curl -sS http://{{server}}:8000/nothing", check=False)
    assert "404" not in exchange.client.stdout
"""


@pytest.mark.parametrize("clock", [pytest.param("real", marks=needs_live), pytest.param("virtual", marks=needs_guests)])
def test_a_test_that_passes_leaves_nothing(pytester: pytest.Pytester, clock: str) -> None:
    pytester.makepyfile(PASSES)
    pytester.runpytest_subprocess("--warpline-clock", clock).assert_outcomes(passed=1)
    assert not (pytester.path / "warpline-failed").exists()


@needs_live
def test_a_test_that_fails_says_what_was_printed_and_where_its_captures_are(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILS)
    result = pytester.runpytest_subprocess("--warpline-keep", "kept")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*client*exit*22*", "*The requested URL returned error: 404*", "*captures, output and results: *kept*test_no_such_page*"])
    kept = sorted(path.name for path in (pytester.path / "kept").iterdir())
    assert len(kept) == 2 and kept[0].endswith("test_no_such_page")
    assert list((pytester.path / "kept" / kept[1]).rglob("*.pcapng"))


def test_a_wrong_link_is_an_error_with_its_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(warpline_link):\n    warpline_link(delay='fast').run(server='true', client='true')\n")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ScenarioError*fast*"])
