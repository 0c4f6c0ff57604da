"""The environments: one connection of a run, which an agent controls, and several such runs at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from warpline._errors import RunError
from warpline._scenario import Scenario
from warpline._warpline import Interval, NativeSteps
from warpline.gym._interface import Array, Interface, Observer, Utility

ScenarioSource: TypeAlias = "Scenario | str | os.PathLike[str] | Callable[[np.random.Generator], Scenario]"
"""A scenario, the path of one, or a function that draws one for each episode, such as `vary` returns."""

Reward: TypeAlias = Callable[[Interval], float]

#: The name of the agent's congestion control within its scenario.
_AGENT = "agent"


class CongestionEnv(gymnasium.Env[Array, Array]):
    """An agent controls the congestion window or the pacing rate of one flow; an episode is a run of the scenario.

    The run is the one that `Scenario.run` makes, with the same hosts: simulated ones, Linux guests in lock-step, or live ones under the
    real clock. Under the virtual clock, the same seed and actions give the same observations. `info` has the `seed` of the run and, of the last interval, its end (`time`, in
    seconds), `throughput` (bit/s), `rtt` (s), `loss` (share) and `cwnd` (B). An episode is truncated when the run has lasted its duration, and terminated if its
    `until` came true before.

        env = gymnasium.make("Warpline/Congestion-v0", scenario="dumbbell.toml", interface=warpline.gym.Interface(every="10ms"))
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        scenario: ScenarioSource,
        *,
        flow: str | int = 0,
        interface: Interface | None = None,
        reward: Reward | None = None,
        episode: str | None = None,
    ) -> None:
        """Makes the environment. The first run begins with `reset`.

        Args:
            scenario: A scenario, the path of one, or a function from a random generator to one, which is called for each episode.
            flow: The agent's flow, by its name or its number from 0. It must be one connection (`count = 1`); its `cc` does not matter.
            interface: What the agent sees and sets; by default `Interface()`.
            reward: The reward of an interval; by default `Utility()`.
            episode: Duration of a run such as "20s", in place of the scenario's.

        Raises:
            ScenarioError: If the scenario has errors, or no such flow.
        """
        self.interface = interface or Interface()
        self.observation_space = self.interface.observation_space
        self.action_space = self.interface.action_space
        self._reward = reward or Utility()
        self._changes = [f"flow.{flow}.cc={{ kind = 'custom', name = '{_AGENT}' }}"]
        if episode is not None:
            self._changes += ["warmup=0s", f"duration={episode}"]
        self._source: Callable[[np.random.Generator], Scenario] | None = None
        #: The scenario of the episode, and the seed of its run.
        self.scenario: Scenario | None = None
        self.run_seed = 0
        if callable(scenario):
            self._source = scenario
        else:
            given = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
            self.scenario = given.set(*self._changes)
        self._observer = Observer(self.interface)
        self._steps: NativeSteps | None = None
        self._interval: Interval | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins a run, and goes on to its first decision. The seed determines the scenario, if it is drawn, and the run's seed.

        Raises:
            RunError: If the run fails, or ends before the first decision.
        """
        self.begin(seed)
        return self.arrive_first()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Sets the window or rate, and goes on to the next decision, or to the end of the run.

        Raises:
            RunError: If the run fails.
        """
        self.act(action)
        return self.arrive()

    def close(self) -> None:
        """Ends the run, if one is going on."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    # The halves of `reset` and `step`: between them, runs of other environments can begin to go on, too.

    def begin(self, seed: int | None = None) -> None:
        """The first half of `reset`: starts the run."""
        super().reset(seed=seed)
        self.close()
        if self._source is not None:
            self.scenario = self._source(self.np_random).set(*self._changes)
        assert self.scenario is not None
        self.run_seed = int(self.np_random.integers(2**32))
        self._steps = NativeSteps(
            self.scenario._native,
            name=_AGENT,
            every=self.interface.every,
            seed=self.run_seed,
            pacing_rate=self.interface.initial_pacing_rate,
        )

    def arrive_first(self) -> tuple[Array, dict[str, Any]]:
        """The second half of `reset`: waits for the first decision."""
        interval, end = self._running().receive()
        if interval is None or end is not None:
            self.close()
            raise RunError("the run ended before the agent's flow had received an acknowledgement; see its start, and the duration")
        self._interval = interval
        return self._observer.see(interval), self._info(interval)

    def act(self, action: Any) -> None:
        """The first half of `step`: sets the window or rate, and lets the run go on."""
        steps = self._running()
        assert self._interval is not None
        steps.send(*self.interface.decide(action, self._interval))

    def arrive(self) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """The second half of `step`: waits for the next decision, or the end of the run."""
        steps = self._running()
        interval, end = steps.receive()
        if end is not None:
            self.close()
        # A connection that has taken a decision leaves the rest of its last interval.
        assert interval is not None
        self._interval = interval
        terminated = end is not None and end < steps.duration
        truncated = end is not None and not terminated
        return self._observer.see(interval), float(self._reward(interval)), terminated, truncated, self._info(interval)

    def _running(self) -> NativeSteps:
        if self._steps is None:
            raise gymnasium.error.ResetNeeded("no run is going on: call reset first")
        return self._steps

    def _info(self, interval: Interval) -> dict[str, Any]:
        return {
            "seed": self.run_seed,
            "time": interval.end,
            "throughput": interval.throughput,
            "rtt": interval.rtt or interval.srtt,
            "loss": interval.loss,
            "cwnd": interval.cwnd,
        }


class CongestionVectorEnv(VectorEnv[Array, Array, Array]):
    """Several environments at once, each with a run of its own, on several cores in one process.

    A run needs no Python between two decisions, so that all of them go on while this waits for them. Every episode that has ended begins anew
    with the next step (`AutoresetMode.NEXT_STEP`).

        envs = gymnasium.make_vec(
            "Warpline/Congestion-v0", num_envs=8, vectorization_mode="vector_entry_point", scenario="dumbbell.toml"
        )
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        """Makes `num_envs` environments, each with the `options` of `CongestionEnv`."""
        self.num_envs = num_envs
        self.envs = [CongestionEnv(**options) for _ in range(num_envs)]
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._over = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins a run in each environment. Of one seed, the environments get it and those after it."""
        seeds = seed if isinstance(seed, list) else [None if seed is None else seed + place for place in range(self.num_envs)]
        for env, own in zip(self.envs, seeds, strict=True):
            env.begin(own)
        self._over[:] = False
        observations = []
        infos: dict[str, Any] = {}
        for place, env in enumerate(self.envs):
            observation, info = env.arrive_first()
            observations.append(observation)
            infos = self._add_info(infos, info, place)
        return np.stack(observations), infos

    def step(self, actions: Any) -> tuple[Array, Any, Any, Any, dict[str, Any]]:
        """One step in each environment; of one whose episode has ended, the first observation of the next."""
        for env, action, over in zip(self.envs, actions, self._over, strict=True):
            if over:
                env.begin()
            else:
                env.act(action)
        observations = []
        rewards = np.zeros(self.num_envs)
        terminations = np.zeros(self.num_envs, dtype=np.bool_)
        truncations = np.zeros(self.num_envs, dtype=np.bool_)
        infos: dict[str, Any] = {}
        for place, (env, over) in enumerate(zip(self.envs, self._over, strict=True)):
            if over:
                observation, info = env.arrive_first()
            else:
                observation, rewards[place], terminations[place], truncations[place], info = env.arrive()
            observations.append(observation)
            infos = self._add_info(infos, info, place)
        self._over = terminations | truncations
        return np.stack(observations), rewards, terminations, truncations, infos

    def close_extras(self, **_options: Any) -> None:
        """Ends all runs."""
        for env in self.envs:
            env.close()
