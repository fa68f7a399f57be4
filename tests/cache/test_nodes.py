"""SchedulerCache: nodes that come, change and go, with and without pods."""

from __future__ import annotations

import pytest
from tests.core.make import node, pod, port

from moorage.cache import NodeInfo, Resource, SchedulerCache, Snapshot
from moorage.objects import Taint


def info(one: SchedulerCache, name: str) -> NodeInfo:
    found = one.node_info(name)
    assert found is not None
    return found


def order(one: SchedulerCache) -> list[str]:
    """Node names as a cycle sees them."""
    snapshot = Snapshot()
    one.update_snapshot(snapshot)
    return [each.name for each in snapshot.node_info_list]


def test_a_node_that_is_added_is_known_whole() -> None:
    one = SchedulerCache()
    taint = Taint(key="k", value="v", effect="NoSchedule")
    added = node("a", zone="z", taints=[taint], images=[(["i"], 5)], cpu="2", memory="1Gi", pods="7")
    one.add_node(added)
    assert (info(one, "a").node, info(one, "a").taints) == (added, (taint,))
    assert info(one, "a").allocatable == Resource(2000, 1 << 30, 0, 7)
    assert set(info(one, "a").image_states) == {"i"}
    assert (one.node_tree().zones, one.node_tree().list(), order(one)) == ([":\x00:z"], ["a"], ["a"])


def test_a_node_that_is_not_known() -> None:
    assert SchedulerCache().node_info("a") is None


def test_a_known_node_that_is_added_is_updated_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    one = SchedulerCache()
    one.add_node(node("a", images=[(["i"], 5)]))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    one.add_node(node("a", cpu="9", images=[(["j"], 6)]))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "node a already exist in the NodeTree")
    ]
    assert (one.node_tree().list(), info(one, "a").allocatable.milli_cpu) == (["a"], 9000)
    assert (info(one, "a").requested.milli_cpu, list(info(one, "a").image_states)) == (1000, ["j"])


def test_an_update_replaces_what_a_node_says_of_itself() -> None:
    one = SchedulerCache()
    one.add_node(node("a", zone="z1", images=[(["i"], 5)]))
    one.add_node(node("b", zone="z1"))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    taint = Taint(key="k", effect="NoExecute")
    changed = node("a", zone="z2", cpu="8", taints=[taint], images=[(["j"], 6)])
    generation = info(one, "a").generation
    one.update_node(node("a", zone="z1"), changed)
    now = info(one, "a")
    assert (now.node, now.taints, now.allocatable.milli_cpu) == (changed, (taint,), 8000)
    assert (list(now.image_states), now.requested.milli_cpu) == (["j"], 1000)
    assert now.generation > generation
    assert (one.node_tree().zones, one.node_tree().list()) == ([":\x00:z1", ":\x00:z2"], ["b", "a"])


def test_an_update_of_an_unknown_node_adds_it(caplog: pytest.LogCaptureFixture) -> None:
    one = SchedulerCache()
    one.update_node(node("a"), node("a"))
    assert (one.node_tree().list(), order(one), caplog.messages) == (["a"], ["a"], [])


@pytest.mark.parametrize("operation", ["add_pod", "assume_pod"])
def test_pods_may_come_before_their_node(operation: str) -> None:
    one = SchedulerCache()
    getattr(one, operation)(pod("p", on="a", requests={"cpu": 1}, ports=[port(80)]))
    early = info(one, "a")
    assert (early.node, early.requested.milli_cpu, early.allocatable) == (None, 1000, Resource())
    assert (one.node_tree().list(), order(one), one.node_tree().next()) == ([], [], "")
    one.add_node(node("a"))
    assert (info(one, "a").requested.milli_cpu, info(one, "a").allocatable.milli_cpu) == (1000, 4000)
    assert ([held.name for held in info(one, "a").pods], order(one)) == (["p"], ["a"])
    assert info(one, "a").used_ports == {("0.0.0.0", "TCP", 80)}


def test_a_node_without_pods_goes_whole() -> None:
    one = SchedulerCache()
    one.add_node(node("a", zone="z", images=[(["i"], 5)]))
    one.remove_node(node("a"))
    assert (one.node_info("a"), one.node_tree().zones, one.snapshot().nodes, order(one)) == (None, [], {}, [])


def test_a_node_that_goes_before_its_pods_is_a_ghost_until_the_last_is_gone() -> None:
    one = SchedulerCache(ttl=1.0)
    taint = Taint(key="k", effect="NoSchedule")
    one.add_node(node("a", taints=[taint], images=[(["i"], 5)]))
    one.add_node(node("b", images=[(["i"], 7)]))
    for name in "pqr":
        one.assume_pod(pod(name, on="a", requests={"cpu": 1}, ports=[port(80)]))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}, ports=[port(80)]))
    one.remove_node(node("a"))
    ghost = info(one, "a")
    assert (ghost.node, ghost.allocatable, ghost.taints, ghost.image_states) == (None, Resource(), (), {})
    assert (ghost.requested.milli_cpu, ghost.used_ports) == (3000, {("0.0.0.0", "TCP", 80)})
    assert (one.node_tree().list(), order(one), set(one.snapshot().nodes)) == (["b"], ["b"], {"a", "b"})
    one.remove_pod(pod("p", on="a"))
    one.forget_pod(pod("q", on="a"))
    assert [held.name for held in info(one, "a").pods] == ["r"]
    one.finish_binding(pod("r"), 0.0)
    assert [held.name for held in one.cleanup_assumed_pods(2.0)] == ["r"]
    assert (one.node_info("a"), set(one.snapshot().nodes)) == (None, {"b"})


def test_a_ghost_can_be_given_pods() -> None:
    one = SchedulerCache()
    one.add_node(node("a"))
    one.add_pod(pod("p", on="a"))
    one.remove_node(node("a"))
    one.assume_pod(pod("q", on="a"))
    assert [held.name for held in info(one, "a").pods] == ["p", "q"]


def test_a_node_that_comes_back_revives_its_ghost() -> None:
    one = SchedulerCache()
    one.add_node(node("a", images=[(["i"], 5)]))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    one.remove_node(node("a"))
    one.add_node(node("a", cpu="9", images=[(["j"], 6)]))
    assert (info(one, "a").requested.milli_cpu, info(one, "a").allocatable.milli_cpu) == (1000, 9000)
    assert ([held.name for held in info(one, "a").pods], order(one)) == (["p"], ["a"])
    assert list(info(one, "a").image_states) == ["j"]
    one.remove_pod(pod("p", on="a"))
    assert info(one, "a").node is not None
