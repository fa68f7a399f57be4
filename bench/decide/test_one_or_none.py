"""Pods that one node alone may take (those of DaemonSets), and pods that fit nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bench.batch import Batch, room
from bench.cluster import filled_scheduler, placer_of
from bench.decide.test_scan import twin_of
from bench.plugin_pods import copies, pod
from msgspec.structs import replace

from moorage import Scheduler
from moorage._core.decide.pod_batch import PodBatch
from moorage.kube import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    ObjectMeta,
    Pod,
)

NODES = 15_000
PODS = 1000
LARGE = "node-large"
CALLS = 1000
UNSCHEDULABLE = "unschedulable pod, nothing changed, 5,000 nodes"


@pytest.fixture(scope="module")
def daemons() -> Scheduler:
    """15,000 nodes, one of which is large, came last and is empty."""
    scheduler = filled_scheduler(NODES - 1)
    like = scheduler.client.list(Node)[0][0]
    labels = like.metadata.labels | {"kubernetes.io/hostname": LARGE}
    resources: dict[str, Any] = {"cpu": "1000", "memory": "4000Gi", "pods": "5000"}
    large = Node(
        metadata=ObjectMeta(name=LARGE, uid=LARGE, labels=labels),
        status=NodeStatus(capacity=resources, allocatable=resources),
    )
    scheduler.client.create(large)
    scheduler.sync()
    return scheduler


def on_node(daemon: Pod, node: str) -> Pod:
    """As the DaemonSet controller writes it."""
    wanted = NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", (node,)),))
    affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector((wanted,))))
    return replace(daemon, spec=replace(daemon.spec, affinity=affinity))


def daemon_pods(nodes: list[str]) -> list[Pod]:
    requests: dict[str, Any] = {"cpu": "1m", "memory": "1Mi"}
    batch = copies(pod("daemon", {"app": "daemon"}, requests=requests), len(nodes))
    return [on_node(one, node) for one, node in zip(batch, nodes, strict=True)]


def one_node(scheduler: Scheduler) -> list[str]:
    return [LARGE] * PODS


def every_node(scheduler: Scheduler) -> list[str]:
    return [node.name for node in scheduler.client.list(Node)[0]]


CASES = {
    "daemonset pods, 15,000 nodes, one node": one_node,
    "daemonset pods, 15,000 nodes, each another": every_node,
}
cases = pytest.mark.parametrize(("line", "nodes_of"), CASES.items(), ids=["one", "each"])


@cases
def test_daemons(
    benchmark: Any, report: Any, daemons: Scheduler, line: str, nodes_of: Callable[[Scheduler], list[str]]
) -> None:
    nodes = nodes_of(daemons)
    batch = Batch(daemons, placer_of(daemons, 0), daemon_pods(nodes))
    twin, position = twin_of(daemons, batch.pods[0]), twin_positions(daemons)
    expected = [at if twin.has_room(at) else -1 for at in map(position.__getitem__, nodes)]
    batch.place()
    rows = daemons.context.view_rows()
    assert batch.rows.tolist() == [-1 if at < 0 else rows[at] for at in expected]
    assert np.sum(batch.rows >= 0) > 0.6 * len(nodes)
    report(line, len(nodes))
    benchmark.pedantic(batch.place, setup=batch.again, rounds=10)
    batch.again()


def twin_positions(scheduler: Scheduler) -> dict[str, int]:
    return {name: at for at, name in enumerate(scheduler.context.view_order())}


@cases
def test_daemons_twin(
    benchmark: Any, report: Any, daemons: Scheduler, line: str, nodes_of: Callable[[Scheduler], list[str]]
) -> None:
    """A dictionary of positions, and the columns of one of them."""
    nodes, pods = nodes_of(daemons), daemon_pods([LARGE])
    position = twin_positions(daemons)

    def fresh() -> tuple[Any, dict[str, Any]]:
        return (twin_of(daemons, pods[0]),), {}

    def run(twin: Any) -> None:
        for node in nodes:
            at = position[node]
            if twin.has_room(at):
                twin.add(at)

    report(line, len(nodes), twin=True)
    benchmark.pedantic(run, setup=fresh, rounds=5)


# ---- a pod that fits nowhere


class Unschedulable:
    """Equal pods that fit nowhere, and have been tried before."""

    def __init__(self, scheduler: Scheduler) -> None:
        huge = pod("huge", {"app": "huge"}, requests={"cpu": "1000", "memory": "1Gi"})
        self.placer = placer_of(scheduler, 0)
        self.out, rows = room(scheduler.cache.state, CALLS)
        self.batch = PodBatch(scheduler.cache.state, [huge] * CALLS)
        self.place()
        assert (rows < 0).all()

    def place(self) -> None:
        self.placer.place(self.batch, self.out)

    def place_each(self) -> None:
        for at in range(CALLS):
            self.placer.place(self.batch, self.out, at, at + 1)


def test_unschedulable(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    """One call per pod."""
    pods = Unschedulable(scheduler)
    report(f"{UNSCHEDULABLE}, one call each", CALLS)
    benchmark.pedantic(pods.place_each, rounds=10)


def test_unschedulable_run(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    """The same in one call."""
    pods = Unschedulable(scheduler)
    report(f"{UNSCHEDULABLE}, one call for 1,000", CALLS)
    benchmark.pedantic(pods.place, rounds=50)
