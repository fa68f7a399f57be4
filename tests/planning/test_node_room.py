"""Room on nodes: what is free on several of them together, and the largest pod that fits."""

from __future__ import annotations

from moorage import Scheduler
from moorage.kube import Cluster
from tests.make import node, pod


def test_a_node_that_is_overcommitted_takes_no_room_of_the_others() -> None:
    nodes = [node("a", "z", cpu="2"), node("b", "z", cpu="4")]
    scheduler = Scheduler(Cluster(nodes=nodes, pods=[pod("p", on="a", requests={"cpu": 5})]))
    (room,) = scheduler.ask.node_room(by="zone")
    assert (room.allocatable["cpu"], room.requested["cpu"], room.free["cpu"]) == (6000, 5000, 4000)


def test_the_largest_pod_is_that_of_the_node_with_both_cpu_and_memory() -> None:
    pods = [
        pod("p", on="a", requests={"memory": "8Gi"}),
        pod("q", on="b", requests={"cpu": 4}),
        pod("r", on="c", requests={"cpu": 2, "memory": "4Gi"}),
    ]
    nodes = [node(name, "z", cpu="4", memory="8Gi") for name in "abc"]
    (room,) = Scheduler(Cluster(nodes=nodes, pods=pods)).ask.node_room(by="zone")
    assert room.largest == {"cpu": 2000, "memory": 4 << 30}


def test_nodes_without_the_label_have_a_row_of_their_own() -> None:
    nodes = [node("a", "z"), node("b"), node("c", ""), node("d", "y")]
    nodes[2].metadata.labels["topology.kubernetes.io/zone"] = ""
    rooms = Scheduler(Cluster(nodes=nodes)).ask.node_room(by="zone")
    assert [(room.name, room.nodes) for room in rooms] == [("(empty)", 1), ("y", 1), ("z", 1), ("(none)", 1)]
    assert [room.name for room in Scheduler(Cluster(nodes=nodes)).ask.node_room(["b"], by="zone")] == [
        "(none)"
    ]


def test_nodes_that_are_named_have_all_of_their_workloads() -> None:
    pods = [pod(name, on="a", requests={"cpu": 1}) for name in "pqrs"]
    scheduler = Scheduler(Cluster(nodes=[node("a", cpu="8")], pods=pods))
    holders = [[one.workload for one in scheduler.ask.node_room(names)[0].holders] for names in (None, ["a"])]
    assert holders == [["pod/p", "pod/q", "pod/r"], ["pod/p", "pod/q", "pod/r", "pod/s"]]


def test_a_row_has_the_zone_and_the_pool_that_its_nodes_share() -> None:
    nodes = [node("a", "z"), node("b", "y"), node("c", "y")]
    for one, pool in zip(nodes, ("new", "new", "old"), strict=True):
        one.metadata.labels["karpenter.sh/nodepool"] = pool
    scheduler = Scheduler(Cluster(nodes=nodes))
    assert [(room.zone, room.pool) for room in scheduler.ask.node_room()] == [
        ("z", "new"),
        ("y", "new"),
        ("y", "old"),
    ]
    assert [(room.zone, room.pool) for room in scheduler.ask.node_room(by="pool")] == [
        ("", "new"),
        ("y", "old"),
    ]
    assert [room.zone for room in Scheduler(Cluster(nodes=[node("d")])).ask.node_room()] == [""]
