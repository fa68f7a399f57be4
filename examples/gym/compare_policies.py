"""Compares two policies in an environment of Gymnasium: any feasible node at random, and the best fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import moorage as mo
from moorage.sim.gym import SchedulingEnv

Policy = Callable[[dict[str, Any], np.random.Generator], int]


def at_random(seen: dict[str, Any], random: np.random.Generator) -> int:
    """Any node that the mask allows; the last action, which leaves the pod pending, if there is none."""
    nodes = np.flatnonzero(seen["mask"][:-1])
    return int(random.choice(nodes)) if len(nodes) else len(seen["mask"]) - 1


def best_fit(seen: dict[str, Any], random: np.random.Generator) -> int:
    """The node that the mask allows with the least left of its resources."""
    nodes = np.flatnonzero(seen["mask"][:-1])
    if not len(nodes):
        return len(seen["mask"]) - 1
    left = (seen["nodes"][nodes] - seen["pod"]).sum(axis=1)
    return int(nodes[left.argmin()])


def timeline(seed: int) -> mo.Timeline:
    """Small and large pods on 20 nodes, more than fit at times."""
    out = mo.Timeline(mo.synthetic(nodes=20))
    small = mo.synthetic(nodes=1, pods=1).pods[0]
    requests = {"spec.containers[0].resources.requests": {"cpu": "14", "memory": "8Gi"}}
    large = mo.edit(small, requests)
    for name, pod, rate in (("small", small, 0.5), ("large", large, 0.04)):
        times = mo.poisson(rate=rate, until=1_200, seed=seed)
        out.add_pods(pod, times, mo.exponential(mean=400, count=len(times), seed=seed), name=name)
    return out


def waiting_seconds(policy: Policy, seed: int) -> float:
    """Seconds that pods were left pending by a policy, over an episode."""
    env = SchedulingEnv(timeline, reward=lambda step: -step.pending * step.elapsed)
    random = np.random.default_rng(seed)
    seen, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        seen, reward, ended, _, _ = env.step(np.int64(policy(seen, random)))
        total -= reward
    return total


def main() -> None:
    """Print the mean over three seeds."""
    for name, policy in (("random", at_random), ("best fit", best_fit)):
        mean = np.mean([waiting_seconds(policy, seed) for seed in (1, 2, 3)])
        print(f"{name:9} {mean:10.0f} s pending")


if __name__ == "__main__":
    main()
