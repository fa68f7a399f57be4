"""Bindings of the cluster's scheduler beside predictions from the state before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.doors.live import FollowedCluster, PredictedBindings
from tests.serve.conftest import client as client
from tests.serve.conftest import server as server
from tests.serve.conftest import slept as slept
from tests.serve.conftest import store as store
from tests.serve.test_live_scheduler import Clock, asking, machine
from tests.store.api.wire_server import LIMIT

from moorage import Scheduler
from moorage.kube import Node, Pod
from moorage.live.client import ApiClient
from moorage.store import ObjectStore


def ours(name: str, cpu: str = "1") -> Pod:
    """A pod, as an API server has set its defaults."""
    return asking(name, cpu, schedulerName="default-scheduler")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(client: ApiClient, store: ObjectStore, clock: Clock) -> FollowedCluster:
    store.create_many([machine("n0"), machine("n1"), machine("small", "1")])
    scheduler = Scheduler(client, clock=clock, synced=False)
    cluster = FollowedCluster(client, PredictedBindings(scheduler, clock, lambda: 0.0))
    seen(cluster, lambda: cluster.is_listed())
    return cluster


def seen(cluster: FollowedCluster, condition: Callable[[], bool]) -> None:
    while not condition():
        count = cluster.client.arrivals.count
        cluster.apply_news()
        if not condition():
            assert cluster.client.arrivals.wait(count, LIMIT) != count


def counts(cluster: FollowedCluster) -> dict[str, int]:
    assert cluster.bindings is not None
    return {match: count for match, count in cluster.bindings.counts.items() if count}


def bound(
    cluster: FollowedCluster, store: ObjectStore, clock: Clock, name: str, node: str, cpu: str = "1"
) -> Any:
    """Create a pod and bind it; both may arrive at once. Return the counts."""
    clock.now += 60.0
    store.create_many([ours(name, cpu)])
    store.bind(store.get("Pod", name, "default"), node)
    return settled(cluster, clock, name)


def settled(cluster: FollowedCluster, clock: Clock, name: str) -> Any:
    """See a pod bound, and what comes too late to explain it; return the counts."""
    pods = cluster.informers[Pod].indexer
    seen(cluster, lambda: name in {one.name for one in pods.values() if one.spec.node_name})
    clock.now += 60.0
    cluster.apply_news()
    return counts(cluster)


def test_bindings_are_compared_with_the_state_before(
    cluster: FollowedCluster, store: ObjectStore, clock: Clock
) -> None:
    bindings = cluster.bindings
    assert bindings is not None
    assert bound(cluster, store, clock, "a", "n0") == {"tie": 1}  # n0 or n1
    assert bound(cluster, store, clock, "b", "n1") == {"tie": 1, "same": 1}  # n0 has a
    assert bound(cluster, store, clock, "c", "small", "2") == {"tie": 1, "same": 1, "other": 1}
    (full,) = bindings.differences
    assert full["pod"] == "default/c"
    assert full["rejected"] == "Insufficient cpu"
    assert bound(cluster, store, clock, "d", "n1") == {"tie": 2, "same": 1, "other": 1}
    assert bound(cluster, store, clock, "e", "n1")["other"] == 2  # n0 has less
    worse = bindings.differences[-1]
    assert worse["predicted"] == ["n0"]
    assert worse["total"][0] < worse["total"][1]
    registry = CollectorRegistry()
    registry.register(bindings)
    assert registry.get_sample_value("moorage_predicted_bindings_total", {"match": "other"}) == 2


def empty(cluster: FollowedCluster, store: ObjectStore, clock: Clock) -> None:
    """Delete the pods, and begin to count anew."""
    for one in store.list(Pod)[0]:
        store.delete("Pod", one.name, "default")
    seen(cluster, lambda: not cluster.informers[Pod].indexer.values())
    clock.now += 60.0
    assert cluster.bindings is not None
    cluster.bindings.counts.clear()


def test_another_order_of_changes_may_explain_a_binding(
    cluster: FollowedCluster, store: ObjectStore, clock: Clock
) -> None:
    def create(*names: str) -> None:
        store.create_many([ours(name, "2" if name == "big" else "1") for name in names])

    def bind(name: str, node: str) -> None:
        store.bind(store.get("Pod", name, "default"), node)

    create("a", "b", "c")
    bind("a", "n0")
    bind("b", "n0")  # at once: it was decided for the empty node
    assert settled(cluster, clock, "b") == {"tie": 1, "raced": 1}
    clock.now += 60.0
    bind("c", "n0")  # too late
    assert settled(cluster, clock, "c") == {"tie": 1, "raced": 1, "other": 1}

    empty(cluster, store, clock)
    create("a", "b")
    assert bound(cluster, store, clock, "c", "n0") == {"tie": 1}
    bind("a", "n0")  # b was decided before, and takes n1
    bind("b", "n1")
    assert settled(cluster, clock, "b") == {"tie": 1, "raced": 1, "same": 1}

    empty(cluster, store, clock)
    create("a", "big")
    bind("a", "n0")
    create("b")
    bind("b", "n0")  # it came after a was bound
    create("c")
    bind("c", "n1")
    bind("big", "small")  # whatever is on the others
    assert settled(cluster, clock, "big") == {"tie": 1, "same": 1, "other": 2}

    empty(cluster, store, clock)
    store.patch("Node", "n1", "", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    nodes = cluster.informers[Node].indexer
    seen(cluster, lambda: any(one.spec.taints for one in nodes.values()))
    create("a")
    bind("a", "n1")  # nodes are watched apart from pods
    assert settled(cluster, clock, "a") == {"raced": 1}


@pytest.mark.nightly
def test_pods_of_other_schedulers_are_not_predicted(
    cluster: FollowedCluster, store: ObjectStore, clock: Clock
) -> None:
    store.create_many([asking("theirs", "1", schedulerName="other")])
    store.bind(store.get("Pod", "theirs", "default"), "n0")
    assert bound(cluster, store, clock, "a", "n1") == {"same": 1}


@pytest.mark.nightly
def test_predictions_take_a_share_of_the_processor(
    cluster: FollowedCluster, store: ObjectStore, clock: Clock
) -> None:
    bindings = cluster.bindings
    assert bindings is not None
    spent = iter(range(0, 1000, 100))
    bindings._work = lambda: float(next(spent))
    bound(cluster, store, clock, "a", "n0")
    store.create_many([ours("b")])
    store.bind(store.get("Pod", "b", "default"), "n1")
    registry = CollectorRegistry()
    registry.register(bindings)
    seen(cluster, lambda: registry.get_sample_value("moorage_skipped_predictions_total") == 1)
    assert bindings.counts.total() == 1
