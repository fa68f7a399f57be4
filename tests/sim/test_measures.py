"""Measures of histories."""

from __future__ import annotations

import pytest

from moorage.objects.read.decode import decode_object
from moorage.sim.measures import gpu_allocation, summary, utilization
from moorage.sim.replay import replay
from moorage.sim.timeline import Timeline
from tests.sim.policies.test_gpu_share import node, pod


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
    assert utilization(history) == pytest.approx(
        {"cpu_utilization": 100 * (0.25 * 10 + 0.5 * 20) / 40, "memory_utilization": 0}
    )
    assert summary(history) == history.summary()
