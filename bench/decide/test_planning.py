"""Questions of planning, 5,000 nodes with 50,000 pods."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from bench.cluster import NODES
from bench.state.drains import drained, objects

from moorage import Scheduler, synthetic
from moorage.kube import Pod, build_cluster

NODES_EMPTIED, REPLICAS, DRAINS = 10, 1_000, 200


@pytest.fixture(scope="module")
def planned() -> Scheduler:
    one = Scheduler(synthetic(nodes=NODES, pods=10 * NODES, seed=1))
    one.run()
    return one


@pytest.fixture(scope="module")
def template() -> Pod:
    return synthetic(nodes=0, pods=1).pods[0]


def test_capacity(benchmark: Any, report: Any, planned: Scheduler, template: Pod) -> None:
    report("capacity of one template, 5,000 nodes")
    found = benchmark(planned.capacity, template)
    assert found.failure is not None


def test_nodes_needed(benchmark: Any, report: Any, template: Pod) -> None:
    one = Scheduler(synthetic(nodes=NODES, seed=1))
    like = one.context.view_order()[0]
    with one.transaction():
        count = one.ask.capacity(template).count
        one.schedule_by_template(template, count)
        report("nodes_needed by 1,000 pods, 5,000 full nodes")
        found = benchmark.pedantic(one.nodes_needed, ((template, REPLICAS),), {"like": like}, rounds=3)
    assert found.status == "found"
    assert found.nodes > 0


def test_drain_plan(benchmark: Any, report: Any, planned: Scheduler) -> None:
    report("drain_plan of ten of 5,000 nodes, by node", NODES_EMPTIED)
    found = benchmark.pedantic(planned.drain_plan, (NODES_EMPTIED,), {"force": True}, rounds=3)
    assert len(found.nodes) == NODES_EMPTIED


def test_drain(benchmark: Any, report: Any) -> None:
    """Owners make new pods, which are placed; then all of it is undone."""
    one = Scheduler(build_cluster(objects()))
    one.run()
    nodes = itertools.cycle(range(NODES))

    def drains() -> None:
        for _ in range(DRAINS):
            assert drained(one, f"n{next(nodes)}")

    report("drain of a node, its pods placed anew, and all undone, 5,000 nodes, 50,000 pods", DRAINS)
    benchmark.pedantic(drains, rounds=5, warmup_rounds=1)
