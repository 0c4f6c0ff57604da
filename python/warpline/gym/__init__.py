"""Environments for Gymnasium in which an agent learns to control congestion, and its policy as a congestion control.

    import gymnasium
    import warpline.gym

    env = gymnasium.make("Warpline/Congestion-v0", scenario="dumbbell.toml")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step([0.5])

    run = scenario.run(cc={"learnt": warpline.gym.deploy(policy)})    # for flows with cc = {kind = "custom", name = "learnt"}
    warpline.gym.transfer(policy, scenario).polars()

An `Interface` says what the agent sees and what it sets. The environment and `deploy` share it and the code behind it, so a policy sees in a
simulation, against Linux in lock-step and on a live network what it saw in training. It needs `pip install 'warpline[gym]'`.
"""

from __future__ import annotations

from warpline._frames import require

require("gymnasium", "gym", "warpline.gym")

import gymnasium

from warpline.gym._env import CongestionEnv, CongestionVectorEnv, ScenarioSource
from warpline.gym._interface import Interface, Policy, Utility, deploy, features
from warpline.gym._transfer import transfer
from warpline.gym._vary import vary

__all__ = [
    "CongestionEnv",
    "CongestionVectorEnv",
    "Interface",
    "Policy",
    "ScenarioSource",
    "Utility",
    "deploy",
    "features",
    "transfer",
    "vary",
]

gymnasium.register(
    id="Warpline/Congestion-v0",
    entry_point="warpline.gym:CongestionEnv",
    vector_entry_point="warpline.gym:CongestionVectorEnv",
)
