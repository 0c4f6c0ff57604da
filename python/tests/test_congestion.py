"""Congestion controls written in Python."""

from __future__ import annotations

import math
import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
from warpline import AckSample, CcConfig, CongestionControl, CongestionEvent

from conftest import dumbbell, needs_guests

MINE = {"kind": "custom", "name": "mine"}


def bulk(cc: Any, **changes: Any) -> warpline.Scenario:
    """One flow over 10 Mbit/s and 40 ms, long enough for many losses."""
    flow = {"name": "bulk", "from": "left", "to": "right", "cc": cc, "record": ["tcp"]}
    return dumbbell(flow=[flow], duration="30s", warmup="2s").replace(**changes)


def run(factory: Any, **changes: Any) -> warpline.Run:
    return bulk(MINE, **changes).run(cc={"mine": factory}, progress=False)


def test_reno_in_python_behaves_as_the_built_in_reno() -> None:
    for queue in ("1BDP", "20p"):
        change = f'topology.bottleneck.queue.limit="{queue}"'
        mine = bulk(MINE).set(change).run(cc={"mine": CongestionControl}, progress=False).summary["flows"][0]
        built_in = bulk("reno").set(change).run(progress=False).summary["flows"][0]
        assert built_in["recoveries"] > 3
        assert mine["goodput_bps"] == pytest.approx(built_in["goodput_bps"], rel=0.02)
        assert mine["recoveries"] == pytest.approx(built_in["recoveries"], abs=1)
        assert mine["rtt_mean_ms"] == pytest.approx(built_in["rtt_mean_ms"], rel=0.05)


def test_the_name_is_in_the_results() -> None:
    row = run(CongestionControl, duration="3s").summary["flows"][0]
    assert row["cc"] == "mine"


def test_the_window_of_the_class_sets_the_rate() -> None:
    """A fixed window of 4 segments over an RTT of about 42 ms gives one window per RTT."""

    class Fixed(CongestionControl):
        def on_ack(self, ack: AckSample) -> None:
            self.cwnd = 4 * self.mss

        def on_sent(self, now: float, sent: int, in_flight: int) -> None:
            sizes.append((sent, in_flight))

    sizes: list[tuple[int, int]] = []
    found = run(Fixed, duration="10s")
    (flow,) = found.summary["flows"]
    assert flow["rtt_mean_ms"] is not None
    mss = max(sent for sent, _ in sizes)
    assert flow["goodput_bps"] == pytest.approx(4 * mss * 8 / (flow["rtt_mean_ms"] / 1e3), rel=0.1)
    assert max(in_flight for _, in_flight in sizes[100:]) <= 4 * mss
    assert set(found.series_flows["cwnd_bytes"][20:]) == {4 * mss}


def test_a_pacing_rate_holds() -> None:
    class Paced(CongestionControl):
        pacing_rate = 2e6

    (flow,) = run(Paced, duration="10s").summary["flows"]
    assert 1.5e6 < flow["goodput_bps"] < 2.1e6


def test_windows_below_one_segment_still_send_slowly() -> None:
    class Timid(CongestionControl):
        def on_ack(self, ack: AckSample) -> None:
            self.cwnd = self.mss / 4

    (flow,) = run(Timid, duration="20s").summary["flows"]
    assert 0 < flow["goodput_bps"] < 0.2e6


def test_samples_make_sense() -> None:
    acks: list[AckSample] = []
    events: list[CongestionEvent] = []
    configs: list[CcConfig] = []

    class Watch(CongestionControl):
        def __init__(self, config: CcConfig) -> None:
            super().__init__(config)
            configs.append(config)

        def on_ack(self, ack: AckSample) -> None:
            acks.append(ack)
            super().on_ack(ack)

        def on_congestion_event(self, event: CongestionEvent) -> None:
            events.append(event)
            super().on_congestion_event(event)

    found = run(Watch)
    assert events
    assert all(event.trigger in ("dup_acks", "rack") and event.in_flight > 0 for event in events)
    assert [ack.now for ack in acks] == sorted(ack.now for ack in acks)
    assert acks[-1].now <= 30
    assert all(ack.min_rtt <= ack.rtt for ack in acks if ack.rtt is not None)
    assert all(0.04 <= ack.min_rtt < 0.06 for ack in acks if ack.min_rtt > 0)
    # The bytes acknowledged are the bytes delivered, except for those that the last ACKs on their way cover.
    assert sum(ack.acked for ack in acks) <= acks[-1].delivered
    assert {ack.phase for ack in acks} >= {"open", "recovery"}
    assert configs[0].mss > 1000
    assert configs[0].initial_window == 10 * configs[0].mss
    assert math.isinf(configs[0].initial_ssthresh)
    assert found.complete


def test_an_exception_stops_the_run_and_is_raised_with_its_traceback() -> None:
    class Broken(Exception):
        pass

    calls = 0

    class Raises(CongestionControl):
        def on_ack(self, ack: AckSample) -> None:
            nonlocal calls
            calls += 1
            if ack.now > 1:
                self.give_up()

        def give_up(self) -> None:
            raise Broken("no more")

    with pytest.raises(Broken, match="no more") as caught:
        run(Raises, duration="600s")
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["on_ack", "give_up"]
    # It was not called again, and the run did not go on to its end.
    assert calls < 2000


@pytest.mark.parametrize("method", ["__init__", "on_sent", "on_congestion_event"])
def test_an_exception_anywhere_is_raised(method: str) -> None:
    def fail(self: object, *args: object) -> None:
        raise LookupError(method)

    with pytest.raises(LookupError, match=method):
        run(type("Fails", (CongestionControl,), {method: fail}))


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("cwnd", math.nan, r"Odd\.cwnd is not a number \(NaN\); it must be a finite number of bytes"),
        ("cwnd", -5, r"Odd\.cwnd is -5; .* 1 or more"),
        ("cwnd", 0, r"Odd\.cwnd is 0"),
        ("cwnd", math.inf, r"Odd\.cwnd is inf"),
        ("ssthresh", -1.0, r"Odd\.ssthresh is -1; it must be a number of bytes from 0 up"),
        ("ssthresh", math.nan, r"Odd\.ssthresh is not a number"),
        ("pacing_rate", 0, r"Odd\.pacing_rate is 0; it must be None or a finite number of bits per second"),
        ("pacing_rate", math.inf, r"Odd\.pacing_rate is inf"),
    ],
)
def test_an_invalid_window_is_refused(attribute: str, value: float, message: str) -> None:
    class Odd(CongestionControl):
        def on_ack(self, ack: AckSample) -> None:
            setattr(self, attribute, value)

    with pytest.raises(ValueError, match=message):
        run(Odd)


@pytest.mark.parametrize("value", ["big", None, [1]])
def test_a_window_of_another_type_is_refused(value: object) -> None:
    class Odd(CongestionControl):
        def on_ack(self, ack: AckSample) -> None:
            setattr(self, "cwnd", value)  # noqa: B010

    with pytest.raises(TypeError, match=rf"Odd\.cwnd is of type {type(value).__name__}; it must be a finite number"):
        run(Odd)


def test_only_derived_classes_and_known_names_are_accepted() -> None:
    with pytest.raises(TypeError, match=r"derive its class from warpline\.CongestionControl"):
        run(lambda config: object())
    with pytest.raises(warpline.RunError, match="mine"):
        bulk(MINE).run(progress=False)


def test_the_same_class_gives_the_same_bytes() -> None:
    assert run(CongestionControl).summary_json == run(CongestionControl).summary_json


@needs_guests
@pytest.mark.parametrize("every", ["often", 10, None])
def test_what_is_no_interval_is_refused(every: Any) -> None:
    class Wrong(warpline.IntervalControl):
        def on_interval(self, interval: warpline.Interval) -> None:
            """Changes nothing."""

    Wrong.every = every
    with pytest.raises(ValueError, match=f"`every` is \"{every}\"; it is \"ack\", a time above 0"):
        bulk(MINE, duration="1s", warmup="0s").run(cc={"mine": Wrong}, progress=False)


@pytest.mark.parametrize("base", [CongestionControl, warpline.IntervalControl])
def test_it_is_told_of_another_segment_size(base: Any) -> None:
    """Linux without timestamps leaves 12 more bytes for the payload than the connection had planned for."""
    told: list[tuple[int, int, float]] = []

    class Watch(base):  # type: ignore[misc]
        def on_mss(self, before: CcConfig, after: CcConfig) -> None:
            super().on_mss(before, after)
            told.append((before.mss, after.mss, self.cwnd / self.mss))

        def on_interval(self, interval: warpline.Interval) -> None:
            told.append((0, interval.mss, self.cwnd / self.mss))

    data = bulk(MINE, duration="1s", warmup="0s").to_dict()
    receiver = {"name": "right.0", "endpoint": "guest", "sysctl": {"net.ipv4.tcp_timestamps": "0"}}
    warpline.Scenario.from_dict({**data, "host": [receiver]}).run(cc={"mine": Watch}, progress=False)
    assert told[0] == (1448, 1460, 10.0)
    assert base is CongestionControl or told[1:4] == [(0, 1460, 10.0)] * 3


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(windows=st.lists(numbers | st.integers(), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_no_window_breaks_a_run(windows: list[float]) -> None:
    """Any sequence of windows ends in a complete run, or in an error that names the window."""

    class Wild(CongestionControl):
        calls = 0

        def on_ack(self, ack: AckSample) -> None:
            self.cwnd = windows[self.calls % len(windows)]
            self.calls += 1

    good = all(math.isfinite(window) and window >= 1 for window in windows)
    scenario = bulk(MINE, duration="200ms", warmup="0s")
    if good:
        assert scenario.run(cc={"mine": Wild}, progress=False).complete
    else:
        # The first bad window is reached unless the run ends before it.
        try:
            finished = scenario.run(cc={"mine": Wild}, progress=False)
        except (ValueError, OverflowError, TypeError) as error:
            assert "cwnd" in str(error)
        else:
            assert finished.complete


class TestReno:
    """The base class alone, compared with RFC 5681."""

    def fresh(self, segments: int = 10) -> CongestionControl:
        return CongestionControl(CcConfig(mss=1000, initial_window=1000 * segments))

    def test_slow_start_doubles_per_window(self) -> None:
        reno = self.fresh()
        for _ in range(10):
            reno.on_ack(AckSample(acked=1000, mss=1000))
        assert reno.cwnd == 20_000

    def test_avoidance_adds_a_segment_per_window(self) -> None:
        reno = self.fresh()
        reno.on_congestion_event(CongestionEvent(in_flight=10_000, mss=1000))
        assert (reno.cwnd, reno.ssthresh) == (5000, 5000)
        for _ in range(5):
            reno.on_ack(AckSample(acked=1000, mss=1000))
        assert reno.cwnd == 6000

    def test_nothing_grows_in_recovery_or_when_the_window_is_not_the_limit(self) -> None:
        reno = self.fresh()
        reno.on_ack(AckSample(acked=1000, phase="recovery"))
        reno.on_ack(AckSample(acked=1000, cwnd_limited=False))
        assert reno.cwnd == 10_000

    def test_a_time_out_leaves_one_segment_and_undo_restores_once(self) -> None:
        reno = self.fresh()
        reno.on_rto(CongestionEvent(in_flight=10_000, mss=1000, trigger="rto"))
        assert (reno.cwnd, reno.ssthresh) == (1000, 5000)
        reno.undo(1.0)
        assert (reno.cwnd, reno.ssthresh) == (10_000, math.inf)
        reno.cwnd = 7000
        reno.undo(2.0)
        assert reno.cwnd == 7000

    def test_idle_time_halves_down_to_the_initial_window(self) -> None:
        reno = self.fresh()
        reno.cwnd, reno.ssthresh = 80_000, 30_000
        reno.on_idle(9.0, 0.45, 0.2)
        assert (reno.cwnd, reno.ssthresh) == (20_000, 60_000)
        reno.on_idle(99.0, 60.0, 0.2)
        assert reno.cwnd == 10_000

    def test_another_segment_size_leaves_as_many_segments(self) -> None:
        before, after = (CcConfig(mss=mss, initial_window=10 * mss) for mss in (1000, 500))
        reno = self.fresh()
        reno.on_mss(before, after)
        assert (reno.mss, reno.cwnd, reno.ssthresh) == (500, 5000, math.inf)
        reno.on_congestion_event(CongestionEvent(mss=500))
        reno.on_mss(after, before)
        assert (reno.mss, reno.cwnd, reno.ssthresh) == (1000, 5000, 5000)
        reno.undo(1.0)
        assert reno.cwnd == 10_000

    @given(st.lists(st.tuples(st.sampled_from(["ack", "loss", "rto", "undo", "idle"]), st.integers(1, 10_000)), max_size=60))
    @settings(deadline=None)
    def test_the_window_stays_within_bounds(self, operations: list[tuple[str, int]]) -> None:
        reno = self.fresh()
        for operation, amount in operations:
            match operation:
                case "ack":
                    reno.on_ack(AckSample(acked=amount, mss=1000))
                case "loss":
                    reno.on_congestion_event(CongestionEvent(mss=1000))
                case "rto":
                    reno.on_rto(CongestionEvent(mss=1000))
                case "undo":
                    reno.undo(0.0)
                case _:
                    reno.on_idle(0.0, amount / 1000, 0.2)
            assert 1000 <= reno.cwnd < math.inf
            assert reno.ssthresh >= 2000

    def test_samples_refuse_unknown_words(self) -> None:
        wrong: Any = "asleep"
        with pytest.raises(ValueError, match="open, disorder, cwr, recovery, loss"):
            AckSample(phase=wrong)
        with pytest.raises(ValueError, match="dup_acks, rack, rto, ecn"):
            CongestionEvent(trigger=wrong)
