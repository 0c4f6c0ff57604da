"""What an agent sees of a connection and what it sets: the same in training and wherever its policy runs afterwards."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from warpline._congestion import CcFactory, IntervalControl
from warpline._warpline import CcConfig, Interval

Array: TypeAlias = NDArray[np.float32]

Policy: TypeAlias = Callable[[Array], Any]
"""From an observation to an action: a number from -1 to 1, or an array with one."""

#: Rate that does not hold anything back, in bit/s: before the first decision.
_UNPACED = 1e12
#: Least window, in segments.
_LEAST = 2
#: Largest window, in bytes.
_LARGEST = 2.0**40


def features(interval: Interval) -> tuple[float, ...]:
    """What an agent sees of an interval, by default. Everything is relative to the connection's own path, so that one policy suits many.

    The queue (binary logarithm of the mean RTT over the smallest one); throughput over the largest delivery rate; the shares of bytes that were
    lost and marked; the window, or what the pacing rate sends in the smallest RTT, over the path's capacity (logarithm); the same in segments (a
    quarter of the logarithm); and whether there was a time-out.
    """
    rtt = interval.rtt or interval.srtt
    queue = math.log2(rtt / interval.min_rtt) if rtt > 0 and interval.min_rtt > 0 else 0.0
    largest = interval.max_delivery_rate
    capacity = largest * interval.min_rtt / 8
    window: float = interval.cwnd
    if interval.pacing_rate is not None and interval.number > 0:
        window = max(interval.pacing_rate * interval.min_rtt / 8, 1.0)
    return (
        queue,
        interval.throughput / largest if largest > 0 else 0.0,
        interval.loss,
        interval.ce / interval.acked if interval.acked else 0.0,
        math.log2(window / capacity) if capacity > 0 else 0.0,
        math.log2(window / interval.mss) / 4,
        float(interval.timeout),
    )


@dataclass(frozen=True)
class Interface:
    """What an agent sees of its connection, how often it acts, and what it sets.

    An action is a number `a` from -1 to 1. It multiplies the window or the rate by `2 ** (step * a)`. After a time-out it multiplies one segment (per
    round trip). The window is never below two segments, and does not grow while something else limits sending; the rate is at most four
    times the largest delivery rate so far, and the window then leaves room for two round trips.

    Attributes:
        control: Whether the agent sets the window or the pacing rate.
        every: When it acts: "ack", after a time such as "10ms", or after so many smoothed round-trip times, such as "1rtt".
        features: What it sees of an interval, as a list of numbers, always as many.
        history: How many intervals it sees at once, the newest last.
        limit: Features are cut off at plus and minus this.
        step: Largest change in one action, as a power of two.
    """

    control: Literal["window", "rate"] = "window"
    every: str = "1rtt"
    features: Callable[[Interval], Sequence[float]] = features
    history: int = 2
    limit: float = 10.0
    step: float = 1.0

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: If one is out of its range.
        """
        if self.control not in ("window", "rate"):
            raise ValueError(f'`control` is {self.control!r}; it is "window" or "rate"')
        if self.history < 1:
            raise ValueError(f"`history` is {self.history}; it is 1 or more")
        for name, value in (("limit", self.limit), ("step", self.step)):
            if not 0 < value < math.inf:
                raise ValueError(f"`{name}` is {value}; it is a finite number above 0")

    @cached_property
    def observation_space(self) -> Box[np.float32]:
        """The space of observations."""
        size = self.history * len(self.features(Interval()))
        return Box(-self.limit, self.limit, (size,), np.float32)

    @cached_property
    def action_space(self) -> Box[np.float32]:
        """The space of actions."""
        return Box(-1.0, 1.0, (1,), np.float32)

    @property
    def initial_pacing_rate(self) -> float | None:
        """The pacing rate before the first decision, in bit/s."""
        return _UNPACED if self.control == "rate" else None

    def decide(self, action: Any, interval: Interval) -> tuple[float, float | None]:
        """The window in bytes and the pacing rate in bit/s (None for none) that an action sets at the end of an interval.

        Raises:
            ValueError: If the action is not a number.
        """
        (value,) = np.asarray(action, dtype=np.float64).reshape(-1)
        if math.isnan(value):
            raise ValueError("the action is not a number (NaN); it must be from -1 to 1")
        factor = 2.0 ** (self.step * float(min(max(value, -1.0), 1.0)))
        least = _LEAST * interval.mss
        if self.control == "window":
            if not interval.cwnd_limited:
                factor = min(factor, 1.0)
            base = interval.mss if interval.timeout else interval.cwnd
            return min(max(base * factor, least), _LARGEST), None
        # Before the first sample, a guess.
        rtt = interval.srtt or 0.1
        if interval.timeout:
            base_rate = interval.mss * 8 / rtt
        elif interval.number == 0 or interval.pacing_rate is None:
            base_rate = interval.cwnd * 8 / rtt
        else:
            base_rate = interval.pacing_rate
        rate = min(base_rate * factor, 4 * interval.max_delivery_rate or math.inf)
        rate = max(rate, interval.mss * 8 / rtt)
        return min(max(2 * rate * rtt / 8, 2 * least), _LARGEST), rate


class Observer:
    """The observations of one agent: what it sees after each interval."""

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._seen: deque[Sequence[float]] = deque(maxlen=interface.history)

    def see(self, interval: Interval) -> Array:
        """The observation after an interval. A new connection has no history: its first interval stands for those before it, too."""
        found = self._interface.features(interval)
        if interval.number == 0 or not self._seen:
            self._seen.extend([found] * self._interface.history)
        else:
            self._seen.append(found)
        limit = self._interface.limit
        # Cut off first: a number may be too large for 32 bits.
        seen = np.array(self._seen, dtype=np.float64).reshape(-1)
        return np.clip(seen, -limit, limit).astype(np.float32)


@dataclass(frozen=True)
class Utility:
    """The default reward: the binary logarithm of the throughput, less that of the delay, less a multiple of the losses.

    A difference of 1 is twice the throughput at the same delay. The reward of an interval is multiplied by its length in seconds, so
    that the sum over an episode is an integral over time, and an agent gains nothing from longer or shorter intervals. Throughput and
    delay are as in the objective of Remy (Winstein and Balakrishnan, "TCP ex Machina", SIGCOMM 2013; `src/utility.hh` of its program). That
    losses count, too, is as in the reward of Aurora (Jay et al., "A Deep Reinforcement Learning Perspective on Internet Congestion Control", ICML 2019;
    `src/gym/network_sim.py` of PCC-RL), which is linear in all three. Intervals should not be much shorter than a round trip: the logarithm of a
    rate that varies from one acknowledgement to the next is below that of its mean.

    Attributes:
        delay: Weight of the delay. With 1, twice the delay costs as much as half the throughput.
        loss: Weight of the share of bytes lost. With 10, one byte in ten costs as much as half the throughput.
    """

    delay: float = 1.0
    loss: float = 10.0

    def __call__(self, interval: Interval) -> float:
        """The reward of an interval."""
        rtt = interval.rtt or interval.srtt or 1.0
        return interval.duration * self.of(interval.throughput, rtt, interval.loss)

    def of(self, throughput: float, rtt: float, loss: float) -> float:
        """The utility per second of a throughput in bit/s (less than 10 kbit/s counts as that), an RTT in seconds and a share of bytes lost."""
        return math.log2(max(throughput, 1e4) / 1e6) - self.delay * math.log2(rtt / 0.1) - self.loss * loss


class _Deployed(IntervalControl):
    """A policy as the congestion control of a connection."""

    def __init__(self, config: CcConfig, policy: Policy, interface: Interface) -> None:
        super().__init__(config)
        self.every = interface.every
        self.pacing_rate = interface.initial_pacing_rate
        self._policy = policy
        self._interface = interface
        self._observer = Observer(interface)

    def on_interval(self, interval: Interval) -> None:
        action = self._policy(self._observer.see(interval))
        self.cwnd, self.pacing_rate = self._interface.decide(action, interval)


@dataclass(frozen=True)
class _Deploy:
    """Makes the congestion control of each connection. Processes of a sweep get a copy of it."""

    policy: Policy
    interface: Interface

    def __call__(self, config: CcConfig) -> IntervalControl:
        return _Deployed(config, self.policy, self.interface)


def deploy(policy: Policy, interface: Interface | None = None) -> CcFactory:
    """A policy as a congestion control, for `Scenario.run(cc=...)`, `sweep` and `evaluate`.

    Args:
        policy: From an observation to an action. It must not draw random numbers, if runs are to be repeatable.
        interface: The one that it was trained with; by default `Interface()`.
    """
    return _Deploy(policy, interface or Interface())
