"""Steps of 16 environments together: decisions per second, events, masks and observations included."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from moorage import Timeline, exponential, poisson, synthetic
from moorage.sim.gym import SchedulingVectorEnv

ENVIRONMENTS, STEPS = 16, 200
OPENB_NODES = 1_213  # as many as the nodes of the GPU trace of Alibaba


def arrivals(nodes: int) -> Timeline:
    """Pods that come and go on a made-up cluster, about 300 at a time."""
    timeline = Timeline(synthetic(nodes=nodes))
    times = poisson(rate=1, until=8_000, seed=1)
    template = synthetic(nodes=1, pods=1).pods[0]
    timeline.add_pods(template, times, exponential(mean=300, count=len(times), seed=1), name="web")
    return timeline


@pytest.mark.parametrize("nodes", [100, OPENB_NODES])
def test_steps(benchmark: Any, report: Any, nodes: int) -> None:
    """Whole steps: a pod is placed on the first node that the mask allows; others are created and deleted."""
    env = SchedulingVectorEnv(ENVIRONMENTS, arrivals(nodes))
    seen, _ = env.reset(seed=1)
    assert env.single_observation_space["nodes"].shape == (nodes, 4)
    report(f"a step of an environment, {nodes:,} nodes, {ENVIRONMENTS} environments", ENVIRONMENTS * STEPS)

    def chosen() -> tuple[tuple[npt.NDArray[np.int64]], dict[str, Any]]:
        return (env._seen["mask"].argmax(axis=1),), {}

    def steps(actions: npt.NDArray[np.int64]) -> None:
        for _ in range(STEPS):
            actions = env.step(actions)[0]["mask"].argmax(axis=1)

    benchmark.pedantic(steps, setup=chosen, rounds=5)
    assert seen["mask"].any()
