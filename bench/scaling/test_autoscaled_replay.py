"""A replay with cluster-autoscaler, whose cost grows linearly in pods; the twin has a tenth of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

import moorage as mo
from moorage.autoscalers.group_settings import NodeGroup
from moorage.sim.event_columns import AutoscalerSpec

Json = dict[str, Any]


def node(name: str) -> Json:
    room = {"cpu": "1000m", "memory": "5000", "pods": "100"}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str, memory: str) -> Json:
    box = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [box]}}


def timeline(count: int) -> mo.Timeline:
    """The pods of the estimator's benchmark in cluster-autoscaler, at once, on no node."""
    found, (template,) = mo.Timeline(), mo.load([node("template")]).nodes
    large, small = mo.load([pod("a", "95m", "190"), pod("b", "50m", "100")]).pods
    found.autoscale(AutoscalerSpec([NodeGroup("group", template, max_size=3000)]))
    found.add_pods(large, [0.0] * count, name="a")
    found.add_pods(small, [0.0] * (50 * count), name="b")
    return found


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("count", [1000, 100])
def test_autoscaled_replay(benchmark: Any, report: Any, count: int) -> None:
    report("a pod of a replay with cluster-autoscaler, 51,000 pods", 51 * count, twin=count == 100)
    events = timeline(count)
    history = benchmark.pedantic(mo.replay, args=(events,), rounds=2)
    assert history.summary()["pending"] == 0
