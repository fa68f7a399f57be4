"""Measures of GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from moorage import Timeline, replay
from moorage.kube import decode_object
from moorage.sim.measures import evaluate, gpu_allocation, summary
from moorage.sim.scheduling_policies import policies
from tests.core.twins import gpu_share_twin as twin
from tests.doors.sim import GpuShare
from tests.sim.measures.histories import State, moments, state_at, timelines
from tests.sim.policies.test_gpu_share import MODEL_LABEL, RESOURCE, node, pod

CLASSES = ("lack_both", "lack_gpu", "lack_cpu", "no_gpu", "no_gpu_lack_cpu", "no_access")


def timeline(*requests: int) -> Timeline:
    """A node of two GPUs and pods that ask for shares, one each ten seconds."""
    made = Timeline()
    made.create(0, decode_object(node("a", 2)))
    for at, request in enumerate(requests, start=1):
        made.create(10 * at, decode_object(pod(f"p{at}", request, cpu="16")))
    return made


def test_allocation_at_demand() -> None:
    # Demand 30, 80, 130 %; the last one fits nowhere.
    found = gpu_allocation(replay(timeline(600, 1000, 1000), on_failure="drop"))
    assert found == pytest.approx(
        {"gpu_allocation_at_30": 30, "gpu_allocation_at_80": 80, "gpu_allocation_at_130": 80}
    )


def test_arrivals_of_one_demand_count_with_their_mean() -> None:
    # Demand 50, 50 (a pod without GPUs), 100, 100.
    found = gpu_allocation(replay(timeline(1000, 0, 1000, 1), on_failure="drop"))
    assert found == pytest.approx({"gpu_allocation_at_50": 50, "gpu_allocation_at_100": 100})


def test_a_cluster_without_gpus_has_no_allocation_of_them() -> None:
    made = Timeline()
    made.create(0, decode_object(node("a", 0)))
    assert gpu_allocation(replay(made)) == {}


def test_utilization_is_weighted_by_time() -> None:
    made = timeline(0, 0)
    made.measure(40, "end")
    history = replay(made)
    # Of 64 cpu: nothing for 10 s, 16 for 10 s, 32 for 20 s.
    assert evaluate(history, "utilization")["utilization"].numbers == pytest.approx(
        {"cpu_utilization": 100 * (0.25 * 10 + 0.5 * 20) / 40, "memory_utilization": 0}
    )
    assert summary(history) == history.summary()


TYPICAL: list[dict[str, Any]] = [
    {"cpu": 1000, "gpuMilli": 500, "share": 0.5},
    {"cpu": 6000, "gpuMilli": 2000, "share": 0.25},
    {"cpu": 1000, "gpuMilli": 1000, "models": ["model-a"], "share": 0.125},
    {"cpu": 1000, "gpuMilli": 0, "share": 0.125},
]
SHAPES: twin.Shapes = [
    (twin.Demand(1000, 500, 1), 0.5),
    (twin.Demand(6000, 1000, 2), 0.25),
    (twin.Demand(1000, 1000, 1, ("model-a",)), 0.125),
    (twin.Demand(1000, 0, 0), 0.125),
]


def twin_node(state: State, name: str, chosen: dict[str, Any]) -> twin.Node:
    """The node with the GPUs that its pods hold."""
    obj: Any = state.nodes[name]
    free = [1000] * (int(obj.status.allocatable.get(RESOURCE, 0)) // 1000)
    for number, _ in state.pods.get(name, []):
        if (held := chosen.get(f"replay-{number}")) is not None:
            for gpu in held[2]:
                free[gpu] -= held[1]
    return twin.Node(state.free(name, "cpu"), tuple(free), obj.metadata.labels[MODEL_LABEL])


@settings(max_examples=60, deadline=None)
@given(timelines())
def test_fragmentation_is_that_of_the_gpus_that_the_plugin_has_chosen(timeline: Timeline) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}]}},
                "pluginConfig": [{"name": "GpuShare", "args": {"gpuSelection": "worst"}}],
            }
        ],
    }
    history = replay(timeline, config=config, registry=policies(), checkpoints=0)
    (engine,) = history.scheduler.engines.values()
    (plugin,) = (one for one in engine.profile.plugins if isinstance(one, GpuShare))
    table = evaluate(history, {"gpu_fragmentation": {"pods": TYPICAL}})["gpu_fragmentation"].over_time
    assert table is not None
    found = table.to_dict()
    assert found["time"] == moments(history)
    for at, time in enumerate(found["time"]):
        state = state_at(history, time)
        nodes = [twin_node(state, name, plugin.allocations) for name in state.nodes]
        room, free = 1000 * sum(len(one.free) for one in nodes), sum(sum(one.free) for one in nodes)
        classes = [
            sum(parts) for parts in zip(*(twin.fragment_classes(one, SHAPES) for one in nodes), strict=True)
        ]
        total = sum(classes)
        assert found["gpu_fragmentation"][at] == pytest.approx(100 * total / room if room else 0)
        assert found["gpu_fragmentation_of_free"][at] == pytest.approx(100 * total / free if free else 0)
        for name, part in zip(CLASSES, classes or [0.0] * len(CLASSES), strict=True):
            assert found[f"gpu_fragmentation_{name}"][at] == pytest.approx(100 * part / room if room else 0)


def test_without_the_plugin_gpus_are_those_of_the_best_fit() -> None:
    # GPU 0 takes 600 and then 400 more, so that 1000 of 2000 are free; half of the pods want two GPUs.
    typical = [{"cpu": 0, "gpuMilli": 1000, "share": 0.5}, {"cpu": 0, "gpuMilli": 2000, "share": 0.5}]
    found = evaluate(replay(timeline(600, 400)), {"gpu_fragmentation": {"pods": typical}})[
        "gpu_fragmentation"
    ]
    assert found.over_time is not None
    assert found.over_time.to_dict()["gpu_fragmentation"] == pytest.approx([0, 45, 25])
