"""Vectorised Python plugins in a profile over 5,000 nodes: what a pod costs with them and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from bench import plugin_pods as pods

from moorage import Scheduler
from moorage.engine.framework import (
    CycleState,
    FilterPlugin,
    NodesView,
    Plugin,
    PostBindPlugin,
    Profile,
    ScorePlugin,
)
from moorage.engine.plugins.registry import default_profile
from moorage.kube import Pod

SINGLE = 50


class GpuPack(ScorePlugin):
    """Rather nodes that have few GPUs left."""

    name = "GpuPack"

    def score_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.NDArray[np.int64]:
        free = nodes.allocatable[pods.GPU] - nodes.requested[pods.GPU]
        return 100 - np.minimum(free, 100)


class NoGpu(FilterPlugin):
    """Only nodes without GPUs."""

    name = "NoGpu"

    def filter_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> npt.NDArray[np.bool_]:
        return nodes.allocatable[pods.GPU] == 0


class Nothing(PostBindPlugin):
    """Nothing: but for it the core would do the whole cycle, and nobody would bind."""

    name = "Nothing"

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


def scheduler_with(plugin: type[Plugin] | None, percentage: int) -> Scheduler:
    plugins = (*default_profile().plugins, *([plugin()] if plugin else []))
    return Scheduler(
        pods.cluster(loaded=True),
        profile=Profile(plugins=plugins),
        percentage_of_nodes_to_score=percentage,
    )


PLUGINS = GpuPack, NoGpu, Nothing


@pytest.mark.parametrize("percentage", [0, 100], ids=["adaptive", "all"])
@pytest.mark.parametrize("plugin", [*PLUGINS, None])
def test_schedule_one(benchmark: Any, report: Any, plugin: type[Plugin] | None, percentage: int) -> None:
    """Pods that are in the store. The twin is the default profile: the core's cycle, and no binding."""
    scheduler, batch = scheduler_with(plugin, percentage), pods.copies(pods.plain(), SINGLE)

    def again() -> None:
        for pod in batch:
            if scheduler.cache.is_assumed_pod(pod):
                scheduler.cache.forget_pod(scheduler.cache.get_pod(pod))
            if pod.key in stored:
                scheduler.client.delete(Pod, pod.name, pod.namespace)
        scheduler.client.create_many(batch)
        stored.update(pod.key for pod in batch)
        scheduler.sync()
        scheduler.placer.decider.start = 0

    def schedule() -> None:
        nodes[:] = [scheduler.schedule_one(pod).node for pod in batch]

    stored: set[str] = set()
    nodes: list[str | None] = []
    share = "100 %" if percentage else "adaptive"
    for one in PLUGINS if plugin is None else (plugin,):
        report(f"schedule_one, plugin {one.name}, {share}", SINGLE, twin=plugin is None)
    benchmark.pedantic(schedule, setup=again, rounds=15)
    assert None not in nodes
    gpus = dict(zip(scheduler.table.names, scheduler.table.allocatable[pods.GPU].tolist(), strict=True))
    assert plugin is not NoGpu or not any(gpus[str(name)] for name in nodes)
