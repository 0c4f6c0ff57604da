# %% [markdown]
# # A congestion control that is learnt
#
# An evolution strategy (CMA-ES, of the package `cma`) trains a small policy in minutes: how much the window grows or shrinks at each round trip.
# It is then compared with built-in algorithms on paths that it has not met, and run against Linux and on a live network.
#
#     pip install '.[gym,polars]' cma
#     python examples/gym_train.py                                    # trains, and writes policy.json
#     python examples/gym_train.py --policy examples/gym_policy.json  # only compares: the policy that this file has made

# %%
from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import cma
import gymnasium
import numpy as np
import polars
from numpy.typing import NDArray

import warpline
import warpline.gym

# %% [markdown]
# ## The paths
#
# One bulk transfer over a bottleneck that differs from episode to episode. Those of the comparison are drawn with other seeds.

# %%
SCENARIO = warpline.Scenario(
    name="learning",
    duration="20s",
    topology=warpline.Dumbbell(rtt="50ms", bottleneck=warpline.DuplexOptions(rate="10Mbit/s", queue="1BDP")),
    flow=[warpline.Flow(name="bulk", from_="left", to="right")],
)
PATHS = warpline.gym.vary(
    SCENARIO,
    {
        "topology.bottleneck.rate": ("2Mbit/s", "50Mbit/s"),
        "topology.rtt": ("20ms", "200ms"),
        "topology.bottleneck.queue.limit": ("0.5BDP", "4BDP"),
        "topology.bottleneck.loss": ["0%", "0.1%", "1%"],
    },
)
INTERFACE = warpline.gym.Interface(every="1rtt", history=2)
HELD_OUT = range(1_000_000, 1_000_030)

Weights = NDArray[np.float64]

# %% [markdown]
# ## The policy
#
# One layer: a weight for each feature of the last two round trips, and a constant.

# %%
SIZE = INTERFACE.observation_space.shape[0] + 1


def act(weights: Weights, observation: NDArray[np.float32]) -> float:
    """The change of the window, from -1 (half of it) to 1 (twice it)."""
    return float(np.tanh(weights[:-1] @ observation + weights[-1]))


# %% [markdown]
# ## The training
#
# All candidates of a generation meet the same paths, and each generation meets others. Candidates run in processes, one per core.


# %%
def episode(weights: Weights, seed: int) -> float:
    """The sum of rewards over one run."""
    env = gymnasium.make("Warpline/Congestion-v0", disable_env_checker=True, scenario=PATHS, interface=INTERFACE)
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(np.array([act(weights, observation)], dtype=np.float32))
        total += float(reward)
        over = terminated or truncated
    env.close()
    return total


def value(weights: Weights, seeds: list[int]) -> float:
    """The mean over several paths."""
    return sum(episode(weights, seed) for seed in seeds) / len(seeds)


def train(generations: int, paths: int, jobs: int | None) -> Weights:
    """Returns the weights in the centre of the last generation."""
    strategy: Any = cma.CMAEvolutionStrategy(SIZE * [0.0], 0.3, {"seed": 1, "verbose": -9})
    begun = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for generation in range(generations):
            candidates = strategy.ask()
            seeds = list(range(generation * paths, (generation + 1) * paths))
            values = list(pool.map(value, candidates, repeat(seeds)))
            strategy.tell(candidates, [-found for found in values])
            if generation % 10 == 0 or generation == generations - 1:
                print(f"generation {generation:3}: mean {np.mean(values):7.2f}, {time.monotonic() - begun:4.0f} s", flush=True)
    return np.array(strategy.result.xfavorite)


# %% [markdown]
# ## The comparison
#
# Utility of whole runs, from their summaries, so that it is the same measure for all: a difference of 1 is twice the goodput at the same delay.


# %%
def run(name: str, weights: Weights, seed: int) -> dict[str, float | str]:
    """One algorithm on one path."""
    scenario = PATHS(np.random.default_rng(seed))
    learnt = name in ("learnt", "before training")
    scenario = scenario.set("flow.bulk.cc=" + ("{ kind = 'custom', name = 'learnt' }" if learnt else name))
    policy = warpline.gym.deploy(partial(act, weights if name == "learnt" else 0 * weights), INTERFACE)
    flow = scenario.run(seed=seed, cc={"learnt": policy} if learnt else None, progress=False).summary["flows"][0]
    rtt = flow["rtt_mean_ms"] or 1000.0
    loss = flow["lost_packets"] / max(flow["sent_packets"], 1)
    return {
        "algorithm": name,
        "utility": warpline.gym.Utility().of(flow["goodput_bps"], rtt / 1000, loss),
        "goodput_mbps": flow["goodput_bps"] / 1e6,
        "queueing_ms": rtt - (flow["rtt_min_ms"] or rtt),
        "retransmitted": flow["retransmitted_packets"] / max(flow["sent_packets"], 1),
    }


def compare(weights: Weights, paths: int) -> polars.DataFrame:
    """The means over held-out paths."""
    names = ("before training", "learnt", "cubic", "bbr", "bbr3", "vegas")
    rows = [run(name, weights, seed) for name in names for seed in HELD_OUT[:paths]]
    return polars.DataFrame(rows).group_by("algorithm", maintain_order=True).mean().sort("utility", descending=True)


# %% [markdown]
# ## The other worlds
#
# The same policy against Linux in lock-step, and on a live network: how far the figures are from those of the simulation.


# %%
def other_worlds(weights: Weights) -> polars.DataFrame:
    """Three of the held-out paths in all worlds."""
    frames = []
    for seed in HELD_OUT[:3]:
        scenario = PATHS(np.random.default_rng(seed))
        topology = scenario.to_dict()["topology"]
        path = polars.lit(f"{topology['bottleneck']['rate']}, {topology['rtt']}").alias("path")
        table = warpline.gym.transfer(partial(act, weights), scenario, interface=INTERFACE, seeds=[seed]).polars()
        frames.append(table.select(path, polars.exclude("seed")))
    return polars.concat(frames)


# %%
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a congestion control, and compares it.")
    parser.add_argument("--policy", type=Path, help="compare this one, without training")
    parser.add_argument("--out", type=Path, default=Path("policy.json"), help="where to write the policy")
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--paths", type=int, default=6, help="paths that each candidate meets in a generation")
    parser.add_argument("--jobs", type=int, help="processes; by default one per core")
    parser.add_argument("--quick", action="store_true", help="one generation, two paths, and no other worlds: to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.generations, options.paths = 1, 1
    if options.policy is not None:
        weights = np.array(json.loads(options.policy.read_text()), dtype=np.float64)
    else:
        weights = np.round(train(options.generations, options.paths, options.jobs), 4)
        options.out.write_text(json.dumps(weights.tolist()) + "\n")
    polars.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_cols=-1, tbl_width_chars=160, float_precision=3)
    print(compare(weights, 2 if options.quick else len(HELD_OUT)))
    if not options.quick:
        print(other_worlds(weights))
