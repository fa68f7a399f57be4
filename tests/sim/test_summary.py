"""What a run comes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage import Scheduler
from moorage.kube import Cluster, Node, Pod
from moorage.sim import Summary, summarize
from tests import make


def node(name: str, zone: str, pods: int, **resources: str) -> Node:
    return make.node(name, zone, **{"cpu": "2", "memory": "1Gi", "pods": str(pods)} | resources)


def pod(name: str, cpu: str, on: str = "") -> Pod:
    return make.pod(name, on, {"cpu": cpu, "memory": "256Mi"})


def summary(nodes: list[Node], pods: list[Pod]) -> Summary:
    cluster = Cluster(nodes=nodes, pods=pods)
    scheduler = Scheduler(cluster)
    return summarize([], scheduler, scheduler.run(), cluster.pods)


def by_name(use: Iterable[Any]) -> dict[str, tuple[int, int]]:
    """What is requested of each resource, and what is allocatable."""
    return {one.resource: (one.requested, one.allocatable) for one in use}


def test_counts_and_use() -> None:
    nodes = [node("a", "z2", 1), node("b", "z1", 1), node("c", "", 1, **{"example.com/gpu": "4"})]
    pods = [pod("old", "500m", "a"), *(pod(f"p{index}", "1") for index in range(4))]
    total = summary(nodes, pods)
    assert (total.nodes, total.running, total.placed, total.unschedulable) == (3, 1, 2, 2)
    assert total.reasons == {"Too many pods": 2}
    assert total.skipped == {}
    use = by_name(total.use)
    assert list(use) == ["cpu", "memory", "pods", "example.com/gpu"]
    assert use["cpu"] == (2500, 6000)
    assert use["memory"] == (3 << 28, 3 << 30)
    assert use["pods"] == (3, 3)
    assert use["example.com/gpu"] == (0, 4)
    assert [(zone.name, zone.nodes) for zone in total.zones] == [("(no zone)", 1), ("z1", 1), ("z2", 1)]
    assert by_name(total.zones[2].use)["cpu"] == (500, 2000)
    assert by_name(total.zones[0].use)["example.com/gpu"] == (0, 4)


def test_reasons_are_counted_in_pods_the_most_frequent_first() -> None:
    total = summary([node("a", "z", 110)], [pod("p0", "9"), pod("p1", "2"), pod("p2", "1"), pod("p3", "1")])
    assert total.placed == 1
    assert total.reasons == {"Insufficient cpu": 3}


def test_an_empty_cluster() -> None:
    total = summary([], [])
    assert total == Summary(0, 0, 0, 0, 0, {}, {}, (), ())


def test_zones_add_up() -> None:
    nodes = [node(f"n{index}", f"z{index % 3}", 10) for index in range(10)]
    total = summary(nodes, [pod(f"p{index}", "100m") for index in range(30)])
    assert sum(zone.nodes for zone in total.zones) == total.nodes
    for name, use in by_name(total.use).items():
        parts = [by_name(zone.use)[name] for zone in total.zones]
        assert tuple(map(sum, zip(*parts, strict=True))) == use
