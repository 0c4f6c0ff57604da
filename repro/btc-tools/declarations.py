"""The study of BTC tools: where its parts are made."""

from __future__ import annotations

from warpline.study import Elsewhere, Paper

PAPER = Paper(
    title='M. Allman, "Preliminary Empirical Study of BTC Tools", IPPM, August 2000',
    figures=[
        Elsewhere(
            name="guest",
            title="cap and TReno beside TCP over 31 emulated paths, in guests",
            how="python3 repro/btc-tools/study.py target/release/warpline --out runs/btc-tools",
            why="it has not been made a declaration yet; its results are in `repro/btc-tools/README.md`",
        ),
        Elsewhere(
            name="live",
            title="The same on live hosts",
            how="sudo python3 repro/btc-tools/study.py target/release/warpline --out runs/btc-tools --live",
            why="it runs under the real clock, on an idle machine",
        ),
    ],
)
