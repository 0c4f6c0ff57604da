"""Tests that skip themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conftest import MAY_SKIP, skip_fails


@pytest.mark.parametrize(
    ("reason", "ci", "outcome"),
    [
        ("Skipped: tun: no device", True, "skipped"),
        ("Skipped: could not import 'nothing'", True, "failed"),
        ("Skipped: could not import 'nothing'", False, "skipped"),
    ],
)
def test_with_ci_only_listed_features_may_be_missing(reason: str, ci: bool, outcome: str) -> None:
    assert "tun" in MAY_SKIP
    report: Any = SimpleNamespace(skipped=True, longrepr=("file", 1, reason), outcome="skipped")
    skip_fails(report, ci)
    assert report.outcome == outcome
