"""Congestion controls written in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from warpline._warpline import AckSample, CcConfig, CongestionEvent, Interval


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
    _credit: float = 0.0
    _before: tuple[float, float] | None = None

    def __init__(self, config: CcConfig) -> None:
        """Starts the algorithm for a new connection."""
        self.mss = config.mss
        self.cwnd = config.initial_window
        self.ssthresh = config.initial_ssthresh
        self._initial_window = config.initial_window

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

    def on_mss(self, before: CcConfig, after: CcConfig) -> None:
        """A full segment carries another payload: the handshake has settled it, or the path takes less. Keeps windows of as many segments."""
        factor = after.mss / before.mss
        self.mss = after.mss
        self._initial_window = after.initial_window
        self.cwnd = _resized(self.cwnd, before, after)
        self.ssthresh *= factor
        self._credit *= factor
        if self._before is not None:
            self._before = (self._before[0] * factor, self._before[1] * factor)

    def reduce(self, window: float) -> None:
        """Sets the threshold to `window` bytes (at least two segments), lowers the window to it, and keeps the old values for `undo`."""
        self._before = (self.cwnd, self.ssthresh)
        self.ssthresh = max(window, 2 * self.mss)
        self.cwnd = min(self.cwnd, self.ssthresh)
        self._credit = 0.0


class IntervalControl:
    """A congestion control that decides once per interval, in place of once per acknowledgement. Derive from it and write `on_interval`.

    What packets and acknowledgements tell is gathered without Python, so it is much faster than a `CongestionControl`. The first
    acknowledgement after the interval's time ends it, and so does a retransmission time-out. The window is the object's alone, in recovery,
    too: nothing lowers it after a loss or a time-out but `on_interval`.

        class Steady(warpline.IntervalControl):
            every = "1rtt"

            def on_interval(self, interval):
                self.cwnd *= 0.7 if interval.timeout or interval.loss > 0.02 else 1.05

        scenario.run(cc={"steady": Steady})    # for flows with cc = {kind = "custom", name = "steady"}

    Attributes:
        every: "ack", a time such as "10ms", or a number of smoothed round-trip times such as "1rtt".
        cwnd: Congestion window in bytes; at least 1, may be below one segment.
        pacing_rate: Pacing rate in bit/s of payload; None leaves pacing to the flow's options. If it is to be set later, it must not be
            None at the beginning.
        mss: Payload of a full segment in bytes.
    """

    every: str = "1rtt"
    cwnd: float
    pacing_rate: float | None = None
    mss: int

    def __init__(self, config: CcConfig) -> None:
        """Starts the algorithm for a new connection."""
        self.mss = config.mss
        self.cwnd = config.initial_window

    @property
    def ssthresh(self) -> float:
        """The window: there is no slow start but that of `on_interval`."""
        return self.cwnd

    def on_interval(self, interval: Interval) -> None:
        """An interval is over: set `cwnd`, or `pacing_rate`."""
        raise NotImplementedError(f"{type(self).__name__} has no method on_interval(self, interval)")

    def on_mss(self, before: CcConfig, after: CcConfig) -> None:
        """A full segment carries another payload: the handshake has settled it, or the path takes less. Keeps a window of as many segments."""
        self.mss = after.mss
        self.cwnd = _resized(self.cwnd, before, after)


def _resized(cwnd: float, before: CcConfig, after: CcConfig) -> float:
    """A window of as many segments; one that is still the initial one is the initial one of now."""
    return after.initial_window if cwnd == before.initial_window else max(cwnd * after.mss / before.mss, 1.0)


CcFactory: TypeAlias = Callable[[CcConfig], "CongestionControl | IntervalControl"]
"""A class derived from CongestionControl or IntervalControl, or a function that returns such an object for a new connection."""

CcFactories: TypeAlias = Mapping[str, CcFactory]
"""Congestion controls, by the names that scenarios use."""
