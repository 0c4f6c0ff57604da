"""Congestion controls written in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from warpline._warpline import AckSample, CcConfig, CongestionEvent


class CongestionControl:
    """A congestion control. Derive from it and override what differs; unchanged, it is Reno (RFC 5681).

    One object controls the window of one connection. After every call, the connection reads its `cwnd`, `ssthresh` and
    `pacing_rate`. An algorithm only says how large the window is: the connection detects losses, and in recovery it brings the
    data in flight down to the window. Times are in seconds, amounts in bytes.

        class Gentle(warpline.CongestionControl):
            def on_congestion_event(self, event):
                self.reduce(0.8 * self.cwnd)

        scenario.run(cc={"gentle": Gentle})    # for flows with cc = {kind = "custom", name = "gentle"}

    An exception stops the run; `run` then raises it.

    Attributes:
        cwnd: Congestion window in bytes; at least 1, may be below one segment.
        ssthresh: Slow-start threshold in bytes; `math.inf` for none.
        pacing_rate: Pacing rate in bit/s; None leaves pacing to the flow's options.
        mss: Payload of a full segment in bytes.
    """

    cwnd: float
    ssthresh: float
    pacing_rate: float | None = None
    mss: int

    def __init__(self, config: CcConfig) -> None:
        """Starts the algorithm for a new connection."""
        self.mss = config.mss
        self.cwnd = config.initial_window
        self.ssthresh = config.initial_ssthresh
        self._initial_window = config.initial_window
        self._credit = 0.0
        self._before: tuple[float, float] | None = None

    def on_sent(self, now: float, sent: int, in_flight: int) -> None:
        """`sent` bytes were sent, perhaps again; `in_flight` includes them. Does nothing."""

    def on_ack(self, ack: AckSample) -> None:
        """New data was acknowledged. Grows the window: slow start below the threshold, one segment per acknowledged window above it."""
        if not ack.cwnd_limited or ack.phase in ("cwr", "recovery"):
            return
        acked: float = ack.acked
        if self.cwnd < self.ssthresh:
            step = min(acked, self.ssthresh - self.cwnd)
            self.cwnd += step
            acked -= step
        if acked > 0:
            self._credit += acked
            while self._credit >= self.cwnd:
                self._credit -= self.cwnd
                self.cwnd += self.mss

    def on_congestion_event(self, event: CongestionEvent) -> None:
        """Losses or ECN echoes begin a new congestion episode. Halves the window, to two segments at least."""
        self.reduce(self.cwnd / 2)

    def on_rto(self, event: CongestionEvent) -> None:
        """The retransmission timer expired for the first time in an episode. Sets the threshold to half the window, the window to one segment."""
        self.reduce(self.cwnd / 2)
        self.cwnd = min(self.cwnd, self.mss)

    def on_recovery_exit(self, now: float) -> None:
        """Recovery ended: all lost data was acknowledged. Does nothing."""

    def undo(self, now: float) -> None:
        """The last reduction proved spurious. Restores the window and threshold from before it."""
        if self._before is not None:
            cwnd, ssthresh = self._before
            self.cwnd = max(self.cwnd, cwnd)
            self.ssthresh = max(self.ssthresh, ssthresh)
            self._before = None

    def on_idle(self, now: float, idle: float, rto: float) -> None:
        """Sending resumes after `idle` seconds. Halves the window for each `rto` seconds of them, down to the initial window."""
        halvings = min(int(idle / rto), 63) if rto > 0 else 63
        if halvings > 0:
            self.ssthresh = max(self.ssthresh, self.cwnd * 3 / 4)
            self.cwnd = max(self.cwnd / 2**halvings, min(self._initial_window, self.cwnd))
            self._credit = 0.0

    def reduce(self, window: float) -> None:
        """Sets the threshold to `window` bytes (at least two segments), lowers the window to it, and keeps the old values for `undo`."""
        self._before = (self.cwnd, self.ssthresh)
        self.ssthresh = max(window, 2 * self.mss)
        self.cwnd = min(self.cwnd, self.ssthresh)
        self._credit = 0.0


CcFactory: TypeAlias = Callable[[CcConfig], CongestionControl]
"""A class derived from CongestionControl, or a function that returns such an object for a new connection."""

CcFactories: TypeAlias = Mapping[str, CcFactory]
"""Congestion controls, by the names that scenarios use."""
