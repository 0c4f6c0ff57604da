"""The accuracy of emulated links: where it is measured."""

from __future__ import annotations

from warpline.study import Elsewhere, Paper

PAPER = Paper(
    title="The report on the first simulator that carried live traffic (nse): delay, bandwidth and loss of emulated links",
    figures=[
        Elsewhere(
            name="table1",
            source="Tables 1 to 3",
            title="Delay, bandwidth and loss as programs see them",
            how="sudo python3 repro/emulation-accuracy/measure.py target/release/warpline",
            why="it runs under the real clock, on an idle machine; the program judges itself, and `warpline calibrate` measures the same",
        )
    ],
)
