"""The columns of results in Python agree with their declarations."""

from __future__ import annotations

import generate_summary
import pytest

import warpline
from warpline._warpline import result_tables, show


def test_the_generated_summary_is_up_to_date() -> None:
    assert generate_summary.TARGET.read_text(encoding="utf-8") == generate_summary.generate(result_tables()), (
        "python/warpline/_summary.py is stale: run make schema"
    )


def test_columns_are_described(finished: warpline.Run) -> None:
    flows = warpline.columns("flows")
    assert list(flows) == finished.flows.column_names
    goodput = flows["goodput_bps"]
    assert (goodput.type, goodput.unit, goodput.heading, goodput.optional) == ("number", "bit/s", "Goodput", False)
    assert "application data" in goodput.about
    assert finished.flows.descriptions["goodput_bps"] == goodput.about
    assert (flows["ce_marks"].fold, flows["rtt_mean_ms"].fold) == ("sum", None)
    # The groups have the columns of flows that are summed or averaged.
    assert [group["ce_marks"] for group in finished.summary["groups"]] == [0, 0]
    assert list(warpline.columns("groups")) == list(finished.summary["groups"][0])
    with pytest.raises(KeyError, match="flows, transfers, links"):
        warpline.columns("nonsense")


def test_values_are_shown_with_their_units() -> None:
    assert [show("bit/s", 9.57e6), show("1", 0.0123), show("packets", 274_112)] == ["9.57 Mbit/s", "1.23 %", "274 112"]
    with pytest.raises(ValueError, match="parsec"):
        show("parsec", 1.0)
