"""Environments for Gymnasium, and policies as congestion controls."""

from __future__ import annotations

import importlib
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
import warpline.gym
from warpline import Interval
from warpline.gym import Interface, Utility
from warpline._sweep import cell
from warpline.gym._interface import Observer

from conftest import child_environment, code_of_chapter, dumbbell, needs_guests, needs_live

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ID = "Warpline/Congestion-v0"


def bulk(**changes: Any) -> warpline.Scenario:
    """One flow over 10 Mbit/s and 40 ms, with a queue of 50 packets."""
    flow = {"name": "bulk", "from": "left", "to": "right", "cc": "cubic"}
    bottleneck = {"rate": "10Mbit/s", "delay": "18ms", "queue": "50p"}
    changed = dumbbell(flow=[flow], duration="5s", warmup="0s", topology={"kind": "dumbbell", "bottleneck": bottleneck})
    return changed.replace(**changes)


def make(scenario: Any = None, **options: Any) -> warpline.gym.CongestionEnv:
    env = gymnasium.make(ID, scenario=scenario or bulk(), disable_env_checker=True, **options).unwrapped
    assert isinstance(env, warpline.gym.CongestionEnv)
    return env


def steady(observation: Any) -> float:
    """A policy that doubles the window where no queue is seen, and aims at one as long as the path."""
    return float(np.clip(1.0 - observation[-7], -1.0, 1.0))


def play(env: Any, policy: Any, seed: int | None = 1) -> list[tuple[Any, ...]]:
    """All of an episode."""
    observation, info = env.reset(seed=seed)
    steps: list[tuple[Any, ...]] = [(observation.tolist(), 0.0, False, False, info)]
    over = False
    while not over:
        observation, reward, terminated, truncated, info = env.step(np.array([policy(observation)], dtype=np.float32))
        steps.append((observation.tolist(), reward, terminated, truncated, info))
        over = terminated or truncated
    env.close()
    return steps


@pytest.mark.parametrize("control", ["window", "rate"])
def test_gymnasium_finds_no_fault(control: Any) -> None:
    check_env(make(interface=Interface(control=control)), skip_render_check=True)


@pytest.mark.parametrize("every", ["ack", "10ms", "1rtt"])
def test_the_same_seed_and_actions_give_the_same_episode(every: str) -> None:
    env = make(interface=Interface(every=every))
    first = play(env, steady)
    assert play(make(interface=Interface(every=every)), steady) == first
    assert play(env, steady, seed=2)[0][-1]["seed"] != first[0][-1]["seed"]
    times = [step[-1]["time"] for step in first]
    assert times == sorted(times)
    assert times[-1] == 5.0
    assert first[-1][2:4] == (False, True)
    least = {"ack": 0.0, "10ms": 0.010, "1rtt": 0.038}[every]
    assert all(later - earlier >= least for earlier, later in zip(times, times[1:-1]))


@pytest.mark.parametrize("control", ["window", "rate"])
def test_actions_do_what_the_interface_says(control: Any) -> None:
    """Of the same start, more is sent if the window or rate is doubled twice than if it is halved."""
    acked = {}
    for action in (-1.0, 0.0, 1.0):
        env = make(interface=Interface(control=control))
        env.reset(seed=1)
        found = [env.step([action])[-1] for _ in range(3)]
        acked[action] = found[-1]["throughput"]
        if control == "window":
            mss = 14480 // 10
            assert [info["cwnd"] for info in found] == [max(10 * mss * 2 ** (n * action), 2 * mss) for n in (1, 2, 3)]
        env.close()
    assert acked[-1.0] < 0.6 * acked[0.0] < 0.6 * 0.6 * acked[1.0]


def test_a_fixed_window_gives_a_window_per_round_trip() -> None:
    """Ten segments in an RTT of 40 ms and the time of a packet or two."""
    steps = play(make(), lambda observation: 0.0)
    info = steps[20][-1]
    assert 0.040 < info["rtt"] < 0.053
    assert info["throughput"] == pytest.approx(14480 * 8 / info["rtt"], rel=0.15)
    assert info["loss"] == 0.0


def test_a_deployed_policy_acts_as_in_its_environment() -> None:
    """The run of the environment and that of the same policy as a congestion control are the same."""
    seen: list[list[float]] = []

    def policy(observation: Any) -> float:
        seen.append(observation.tolist())
        return steady(observation)

    for control in ("window", "rate"):
        interface = Interface(control=control)
        steps = play(make(interface=interface), steady)
        seen.clear()
        scenario = bulk().set("flow.bulk.cc={ kind = 'custom', name = 'mine' }")
        run = scenario.run(seed=steps[0][-1]["seed"], cc={"mine": warpline.gym.deploy(policy, interface)}, progress=False)
        # The last interval is cut short by the end of the run, so that there is no decision.
        assert seen == [step[0] for step in steps[:-1]]
        assert run.summary["flows"][0]["goodput_bps"] > 7e6


def test_a_policy_is_told_of_time_outs_and_begins_again() -> None:
    """A link that is down for two seconds leaves nothing but time-outs."""
    flow = {"name": "bulk", "from": "a", "to": "b"}
    scenario = warpline.Scenario(
        duration="8s",
        link=[{"between": ["a", "b"], "rate": "10Mbit/s", "delay": "20ms", "down": [{"at": "2s", "for": "2s"}]}],
        flow=[flow],
    )
    intervals: list[Interval] = []

    class Watch(warpline.IntervalControl):
        def on_interval(self, interval: Interval) -> None:
            intervals.append(interval)
            self.cwnd = Interface().decide(0.0, interval)[0]

    scenario.set("flow.bulk.cc={ kind = 'custom', name = 'watch' }").run(cc={"watch": Watch}, progress=False)
    places = [place for place, interval in enumerate(intervals) if interval.timeout]
    assert places
    # What is taken for lost follows the time-out.
    assert intervals[places[0] + 1].lost > 0
    assert 2.0 < intervals[places[0]].end < 4.0
    assert intervals[places[0] + 1].cwnd == 2 * intervals[0].mss
    # Nothing of the time is left out.
    assert all(later.start == earlier.end for earlier, later in zip(intervals, intervals[1:]))


def test_intervals_account_for_all_bytes() -> None:
    intervals: list[Interval] = []

    class Grow(warpline.IntervalControl):
        every = "100ms"

        def on_interval(self, interval: Interval) -> None:
            intervals.append(interval)
            self.cwnd *= 0.5 if interval.loss > 0 else 1.3

    scenario = bulk().set("flow.bulk.cc={ kind = 'custom', name = 'grow' }")
    row = scenario.run(cc={"grow": Grow}, progress=False).summary["flows"][0]
    assert [interval.number for interval in intervals] == list(range(len(intervals)))
    assert sum(interval.acked for interval in intervals) == pytest.approx(row["delivered_bytes"], rel=0.03)
    mss = intervals[0].mss
    assert 0 < sum(interval.lost for interval in intervals) / mss == pytest.approx(row["lost_packets"], abs=5)
    assert all(0.1 <= interval.duration < 0.2 for interval in intervals)
    assert max(interval.max_delivery_rate for interval in intervals) == pytest.approx(10e6, rel=0.1)


def test_what_an_interval_control_lacks_is_said() -> None:
    scenario = bulk().set("flow.bulk.cc={ kind = 'custom', name = 'mine' }")
    with pytest.raises(NotImplementedError, match="IntervalControl has no method on_interval"):
        scenario.run(cc={"mine": warpline.IntervalControl}, progress=False)
    with pytest.raises(ValueError, match='`every` is "soon"; it is "ack", a time above 0'):
        scenario.run(cc={"mine": type("Odd", (warpline.IntervalControl,), {"every": "soon"})}, progress=False)
    for every in ("0s", "0rtt", "-1rtt", "nanrtt", ""):
        with pytest.raises(ValueError, match="`every` is"):
            make(interface=Interface(every=every)).reset(seed=1)


def test_a_finished_connection_ends_the_episode_at_the_end_of_the_run() -> None:
    flow = {"name": "file", "from": "left", "to": "right", "app": "transfer", "size": "100kB"}
    steps = play(make(bulk(flow=[flow])), lambda observation: 1.0)
    assert 3 < len(steps) < 15
    assert steps[-1][3]
    assert steps[-1][-1]["time"] == 5.0


def test_a_run_without_decisions_is_an_error() -> None:
    silent = bulk().set("topology.bottleneck.loss=100%")
    with pytest.raises(warpline.RunError, match="ended before the agent's flow had received an acknowledgement"):
        make(silent).reset(seed=1)
    with pytest.raises(warpline.ScenarioError, match="nobody"):
        make(flow="nobody")


def test_steps_need_a_run_and_numbers() -> None:
    env = make()
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset first"):
        env.step([0.0])
    env.reset(seed=1)
    with pytest.raises(ValueError, match="not a number"):
        env.step([math.nan])
    # The run still waits.
    env.step([0.0])
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0.0])


def threads() -> int:
    """Threads of this process, those of runs included."""
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_no_thread_outlives_its_environment() -> None:
    before = threads()
    closed, lost = make(bulk(duration="600s")), make(bulk(duration="600s"))
    for env in (closed, lost):
        env.reset(seed=1)
        env.step([0.0])
        env.reset(seed=2)
    assert threads() == before + 2
    closed.close()
    del env, lost
    assert threads() == before


@pytest.mark.skipif(sys.platform != "linux", reason="forks with threads")
def test_a_process_that_forks_does_not_wait_for_the_run() -> None:
    code = (
        "import os, gymnasium, warpline.gym\n"
        "env = gymnasium.make('Warpline/Congestion-v0', scenario='scenarios/dumbbell.toml')\n"
        "env.reset(seed=1)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    del env\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "env.close()\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent, env=child_environment(), check=True, timeout=300)
    assert done.stdout.strip() == "7"


def test_ctrl_c_ends_the_wait() -> None:
    """A run of 100 hours without a decision has nothing to hand over for a while."""
    env = make(bulk(duration="100h"), interface=Interface(every="100h"))
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        env.reset(seed=1)
    env.close()
    timer.join()


def test_varied_scenarios_follow_the_seed() -> None:
    source = warpline.gym.vary(
        bulk(),
        {
            "topology.bottleneck.rate": ("2Mbit/s", "50Mbit/s"),
            "topology.bottleneck.delay": ("0ms", "100ms"),
            "topology.bottleneck.queue": ["20p", "codel"],
        },
    )
    env = make(source, episode="1s")

    def drawn(seed: int) -> dict[str, Any]:
        env.reset(seed=seed)
        assert env.scenario is not None
        data = env.scenario.to_dict()
        assert data["duration"] == "1s"
        bottleneck: dict[str, Any] = data["topology"]["bottleneck"]
        return bottleneck

    found = [drawn(seed) for seed in range(12)]
    assert found == [drawn(seed) for seed in range(12)]
    assert len({bottleneck["rate"] for bottleneck in found}) == 12
    assert {bottleneck["queue"]["kind"] for bottleneck in found} == {"droptail", "codel"}
    env.close()


def test_listed_values_may_be_of_any_type_that_a_scenario_has() -> None:
    source = warpline.gym.vary(
        bulk(),
        {
            "fast_forward": [True, False],
            "flow.bulk.cc": [{"kind": "vegas"}, warpline.Vegas(alpha=np.float64(1.5)), "cubic", {"kind": "nice", "threshold": 0.25}],
            "flow.bulk.count": np.arange(1, 4).tolist(),
            "expect": [["flow.bulk.goodput > 1Mbit/s"], []],
        },
    )
    found = [source(np.random.default_rng(seed)).to_dict() for seed in range(60)]
    assert {one.get("fast_forward", False) for one in found} == {True, False}
    assert {cell(one["flow"][0]["cc"]) for one in found} == {"vegas", "vegas(alpha=1.5)", "cubic", "nice(threshold=0.25)"}
    assert {one["flow"][0].get("count", 1) for one in found} == {1, 2, 3}
    assert {len(one.get("expect", [])) for one in found} == {0, 1}


@pytest.mark.parametrize("unit", ["p", "B"])
def test_a_range_of_packets_or_bytes_has_whole_numbers(unit: str) -> None:
    source = warpline.gym.vary(bulk(), {"topology.bottleneck.queue": (f"2000{unit}", f"4000{unit}")})
    found = [source(np.random.default_rng(seed)).to_dict()["topology"]["bottleneck"]["queue"]["limit"] for seed in range(20)]
    # 2.5kB is 2500 bytes.
    assert len(set(found)) > 10
    assert all(float(limit.removesuffix("kB")) * 1000 % 1 == 0 if limit.endswith("kB") else limit.removesuffix(unit).isdecimal() for limit in found), found


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_listed_value_and_both_ends_are_checked_at_once(number: int) -> None:
    queues = ["20p", "30p", "40p"]
    queues[number] = "codell"
    with pytest.raises(warpline.ScenarioError, match="codell"):
        warpline.gym.vary(bulk(), {"topology.bottleneck.queue": queues, "topology.bottleneck.rate": ["2Mbit/s", "3Mbit/s"]})
    with pytest.raises(warpline.ScenarioError, match="150%"):
        warpline.gym.vary(bulk(), {"topology.bottleneck.loss": ("1%", "150%")})


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("topology.bottleneck.queue", ["20p", None], "None cannot be a value in a scenario"),
        ("topology.bottleneck.rate", ("2Mbit/s", "50kbit/s"), "both ends have the same unit"),
        ("topology.bottleneck.rate", ("50Mbit/s", "2Mbit/s"), "the lower end comes first"),
        ("topology.bottleneck.rate", ("2Mbit/s",), "it has two ends"),
        ("topology.bottleneck.rate", ("fast", "faster"), "numbers with a unit"),
        ("topology.bottleneck.rate", "2Mbit/s", "give a pair for a range, or a list"),
        ("topology.bottleneck.rate", [], "give a pair for a range, or a list"),
        ("topology.bottleneck.rat", ["2Mbit/s"], "rat"),
    ],
)
def test_odd_ranges_are_refused(key: str, values: Any, message: str) -> None:
    with pytest.raises((ValueError, warpline.ScenarioError), match=message):
        warpline.gym.vary(bulk(), {key: values})


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_vectors_play_what_single_environments_play(mode: str) -> None:
    """Two environments, through the end of their episodes into the next ones."""
    scenario = bulk(duration="600ms")
    envs = gymnasium.make_vec(ID, num_envs=2, vectorization_mode=mode, scenario=scenario)
    observations, _ = envs.reset(seed=7)
    rows = [observations.tolist()]
    rewards = [[0.0, 0.0]]
    ends = 0
    for _ in range(30):
        observations, reward, terminated, truncated, info = envs.step(np.array([[0.2], [-0.2]], dtype=np.float32))
        rows.append(observations.tolist())
        rewards.append(reward.tolist())
        ends += int((terminated | truncated).sum())
        assert info["throughput"].shape == (2,)
    envs.close()
    assert ends >= 2
    for place, action in enumerate((0.2, -0.2)):
        env = make(scenario)
        observation, _ = env.reset(seed=7 + place)
        expected: list[tuple[list[float], float]] = [(observation.tolist(), 0.0)]
        over = False
        while len(expected) < len(rows):
            if over:
                observation, _ = env.reset()
                gain, over = 0.0, False
            else:
                observation, gain, terminated, truncated, _ = env.step(np.array([action], dtype=np.float32))
                over = terminated or truncated
            expected.append((observation.tolist(), gain))
        env.close()
        assert [(row[place], gains[place]) for row, gains in zip(rows, rewards)] == expected


class TestInterface:
    """What is seen and set, without runs."""

    def test_values_out_of_range_are_refused(self) -> None:
        wrong: Any = "speed"
        with pytest.raises(ValueError, match='`control` is \'speed\'; it is "window" or "rate"'):
            Interface(control=wrong)
        with pytest.raises(ValueError, match="`history` is 0"):
            Interface(history=0)
        with pytest.raises(ValueError, match="`step` is 0"):
            Interface(step=0)

    def test_the_window_follows_the_action(self) -> None:
        interface = Interface()
        assert interface.decide(1, Interval(cwnd=20_000)) == (40_000, None)
        assert interface.decide([-0.5], Interval(cwnd=20_000))[0] == pytest.approx(20_000 / math.sqrt(2))
        assert interface.decide(7.0, Interval(cwnd=20_000)) == (40_000, None)
        assert interface.decide(-1, Interval(cwnd=3000, mss=1000)) == (2000, None)
        assert interface.decide(1, Interval(cwnd=90_000, mss=1000, timeout=True)) == (2000, None)
        assert interface.decide(1, Interval(cwnd=20_000, cwnd_limited=False)) == (20_000, None)

    def test_the_rate_begins_with_a_window_per_round_trip(self) -> None:
        interface = Interface(control="rate")
        first = Interval(number=0, cwnd=10_000, srtt=0.1, pacing_rate=1e12, max_delivery_rate=1e6)
        assert interface.decide(0, first) == (20_000, 800_000)
        assert interface.decide(1, Interval(number=5, srtt=0.1, pacing_rate=1e6, max_delivery_rate=1e6)) == (50_000, 2e6)
        assert interface.decide(1, Interval(number=5, srtt=0.1, pacing_rate=9e6, max_delivery_rate=1e6))[1] == 4e6
        timeout = Interval(number=5, mss=1000, srtt=0.1, pacing_rate=9e6, max_delivery_rate=1e6, timeout=True)
        assert interface.decide(0, timeout) == (4000, 80_000)

    def test_a_new_connection_has_no_history(self) -> None:
        observer = Observer(Interface(history=2, features=lambda interval: (interval.loss,)))
        assert observer.see(Interval(number=0, acked=1, lost=1)).tolist() == [0.5, 0.5]
        assert observer.see(Interval(number=1, acked=1)).tolist() == [0.5, 0.0]
        assert observer.see(Interval(number=0, acked=1)).tolist() == [0.0, 0.0]

    # Times are whole nanoseconds, and rates whole bits per second.
    @given(
        srtt=st.just(0.0) | st.floats(1e-9, 10),
        min_rtt=st.just(0.0) | st.floats(1e-9, 10),
        rate=st.just(0.0) | st.floats(1, 1e12),
        acked=st.integers(0, 10**9),
        lost=st.integers(0, 10**9),
        cwnd=st.integers(1, 2**50),
        end=st.just(0.0) | st.floats(1e-9, 100),
    )
    @settings(deadline=None)
    def test_any_interval_can_be_seen_and_answered(self, end: float, **values: Any) -> None:
        interval = Interval(end=end, max_delivery_rate=values.pop("rate"), **values)
        for control in ("window", "rate"):
            interface = Interface(control=control)
            assert interface.observation_space.contains(Observer(interface).see(interval))
            window, rate = interface.decide(1.0, interval)
            assert 2 * interval.mss <= window < math.inf
            assert rate is None or 0 < rate < math.inf
        assert math.isfinite(Utility()(interval))

    def test_the_reward_is_one_per_doubling(self) -> None:
        slow = Interval(end=2.0, acked=1_000_000, rtt=0.1)
        fast = Interval(end=2.0, acked=2_000_000, rtt=0.1)
        late = Interval(end=2.0, acked=2_000_000, rtt=0.2)
        lossy = Interval(end=2.0, acked=2_000_000, lost=222_222, rtt=0.1)
        reward = Utility()
        assert reward(fast) - reward(slow) == pytest.approx(2.0)
        assert reward(late) == pytest.approx(reward(slow))
        assert reward(lossy) == pytest.approx(reward(slow), abs=1e-4)
        assert reward(Interval(end=1.0)) == pytest.approx(math.log2(0.01) - math.log2(10))


def test_a_deployed_policy_goes_to_other_processes() -> None:
    factory = pickle.loads(pickle.dumps(warpline.gym.deploy(steady, Interface(every="10ms"))))
    assert factory(warpline.CcConfig()).every == "10ms"


def test_transfer_says_why_a_world_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLINE_GUEST_KERNEL", "/nowhere/linux")
    table = warpline.gym.transfer(steady, bulk(duration="2s"), worlds=["linux"])
    assert table["world"] == ["simulation", "linux"]
    assert table["goodput_bps"][0] > 1e6
    assert table["goodput_gap"] == [0.0, None]
    assert table["note"][0] == ""
    assert "/nowhere/linux" in table["note"][1]
    with pytest.raises(ValueError, match="its clock is not virtual"):
        warpline.gym.transfer(steady, bulk(clock={"mode": "real"}))


@needs_guests
def test_transfer_to_linux() -> None:
    """A Linux receiver acknowledges as ours does: the same goodput, within what its delayed acknowledgements change."""
    flows = [
        {"name": "bulk", "from": "left", "to": "right"},
        {"name": "cross", "from": "left", "to": "right", "cc": "cubic", "start": "2s"},
    ]
    scenario = bulk(flow=flows)
    table = warpline.gym.transfer(steady, scenario, worlds=["linux"])
    assert table["note"] == ["", ""]
    assert abs(table["goodput_gap"][1]) < 25
    again = warpline.gym.transfer(steady, scenario, worlds=["linux"])
    assert again["goodput_bps"] == table["goodput_bps"]


@needs_guests
def test_an_environment_can_have_linux_in_lock_step() -> None:
    data = bulk(duration="2s").to_dict()
    scenario = warpline.Scenario.from_dict({**data, "host": [{"name": "right.0", "endpoint": "guest"}]})
    first = play(make(scenario), steady)
    assert len(first) > 10
    assert play(make(scenario), steady) == first


@needs_live
def test_transfer_to_a_live_network() -> None:
    table = warpline.gym.transfer(steady, bulk(duration="3s"), worlds=["live"])
    # No bound on the gap: the time is the machine's, which may be busy.
    assert table["note"][1] in ("", "this machine was too busy to keep pace")
    assert table["goodput_bps"][1] > 1e5


def test_the_example_trains_and_compares(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "gym_train.py"), "--quick", "--out", str(tmp_path / "policy.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "learnt" in done.stdout
    assert (tmp_path / "policy.json").exists()


def test_the_trained_policy_is_better_than_cubic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("gym_train")
    weights = np.array(json.loads((EXAMPLES / "gym_policy.json").read_text(encoding="utf-8")))
    assert weights.shape == (example.SIZE,)
    found = dict(example.compare(weights, 5).select("algorithm", "utility").iter_rows())
    assert found["learnt"] > found["cubic"] + 0.5 > found["before training"] + 1


@needs_guests
@needs_live
def test_the_code_of_the_chapter_runs() -> None:
    # Short runs, since there is a live one among them.
    code = code_of_chapter("gym.md").replace('duration="20s"', 'duration="2s"').replace("seeds=range(3)", "seeds=[1]")
    namespace: dict[str, Any] = {"__name__": "chapter"}
    exec(compile(code, "gym.md", "exec"), namespace)
    assert None not in namespace["table"]["goodput_bps"]
    namespace["envs"].close()


def test_the_package_does_not_need_gymnasium() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None; import warpline\n"
        "try: import warpline.gym\n"
        "except warpline.MissingDependencyError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=child_environment(), check=True)
    assert "pip install 'warpline[gym]'" in done.stdout
