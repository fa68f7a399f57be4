"""SchedulerCache: nodes that come, change and go, with and without pods, and what they show of images."""

from __future__ import annotations

import pytest
from tests.make import node, pod

from moorage.compat import NodeTree, update_node_name_to_info_map
from moorage.compat.binder_cache import BinderCache, CacheHandler
from moorage.engine.cache import ImageStateSummary, NodeInfo, NodeInfoClone, SchedulerCache, Snapshot
from moorage.kube import Taint


def info(one: SchedulerCache, name: str) -> NodeInfo:
    found = one.node_info(name)
    assert found is not None
    return found


def test_a_known_node_that_is_added_is_updated_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    one, taint = SchedulerCache(), Taint(key="k", effect="NoExecute")
    one.add_node(node("a", images=[(["i"], 5)]))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    changed = node("a", cpu="9", taints=[taint], images=[(["j"], 6)])
    one.add_node(changed)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "node a already exist in the NodeTree")
    ]
    assert (NodeTree.of_cache(one).list(), info(one, "a").node, info(one, "a").taints) == (
        ["a"],
        changed,
        (taint,),
    )
    assert (info(one, "a").allocatable.milli_cpu, info(one, "a").requested.milli_cpu) == (9000, 1000)
    assert list(info(one, "a").image_states) == ["j"]


# ---- images ----------------------------------------------------------------------------------------------


def holding(**images: int) -> SchedulerCache:
    """A cache with these nodes, each with the image i of a size."""
    one = SchedulerCache()
    for name, size in images.items():
        one.add_node(node(name, images=[(["i"], size)]))
    return one


def states(one: SchedulerCache, name: str) -> dict[str, tuple[int, int]]:
    """Image name to (size, nodes that have it)."""
    return {image: (state.size, state.num_nodes) for image, state in info(one, name).image_states.items()}


def test_an_image_gains_nodes_keeps_its_size_and_goes_with_its_last_node() -> None:
    one = holding(a=5, b=9)
    assert states(one, "b") == {"i": (5, 2)}
    for name in "ab":
        one.remove_node(node(name))
    one.add_node(node("c", images=[(["i", "i", "j"], 9), (["i"], 7)]))
    assert states(one, "c") == {"i": (9, 1), "j": (9, 1)}


def test_what_a_node_shows_of_its_images_is_summed_up_when_it_is_set() -> None:
    one = holding(a=5, b=5)
    first, both = {"i": ImageStateSummary(5, 1)}, {"i": ImageStateSummary(5, 2)}
    infos = dict[str, NodeInfoClone]()
    update_node_name_to_info_map(one, infos)
    one.add_pod(pod("p", on="a"))
    one.remove_node(node("b"))
    update_node_name_to_info_map(one, infos)
    assert states(one, "a") == {"i": (5, 1)}
    assert one.snapshot().nodes["a"].image_states == infos["a"].image_states == first
    one.add_node(node("b", images=[(["i"], 5)]))
    one.add_node(node("a", images=[(["i"], 5)]))
    one.remove_node(node("b"))
    update_node_name_to_info_map(one, infos)
    assert states(one, "a") == {"i": (5, 2)}
    assert one.snapshot().nodes["a"].image_states == infos["a"].image_states == both


def test_a_binder_sees_the_summary_of_the_time_when_a_node_was_set() -> None:
    one = BinderCache(CacheHandler())
    for name in "ab":
        one.add_node(node(name, images=[(["i"], 5)]))
    found = {name: info.image_states["i"].num_nodes for name, info in one.dump().nodes.items()}
    assert found == {"a": 1, "b": 2}


def test_what_a_snapshot_shows_of_images_is_frozen_until_its_node_changes() -> None:
    one = holding(a=5)
    snapshot = Snapshot()
    one.update_snapshot(snapshot)
    one.add_node(node("b", images=[(["i"], 5)]))
    one.update_snapshot(snapshot)
    assert snapshot.get("a").image_states == {"i": ImageStateSummary(5, 1)}
    assert snapshot.get("b").image_states == {"i": ImageStateSummary(5, 2)}
    one.add_pod(pod("p", on="a"))
    one.update_snapshot(snapshot)
    assert snapshot.get("a").image_states == {"i": ImageStateSummary(5, 2)}


@pytest.mark.parametrize("reads_inside", [False, True])
@pytest.mark.parametrize("is_fork", [False, True])
def test_a_transaction_leaves_image_counts_to_the_next_cycle(reads_inside: bool, is_fork: bool) -> None:
    """What is pending is read once, before the transaction; the counts of that row may still change."""
    one = holding(a=5, b=5)
    one.state.view.refresh()
    one.add_pod(pod("p", on="a"))
    for _ in range(2):
        with one.transaction():
            assert one.state.view.cursor == one.state.log.head
            if reads_inside:
                one.state.view.refresh()
            one.add_node(node("d", images=[(["i"], 5)]))
    one = one.fork() if is_fork else one
    assert one.state.view.images_of(0) == {"i": (5, 2)}
    one.add_node(node("c", images=[(["i"], 5)]))
    one.state.view.refresh()
    counts = [one.state.view.images_of(row)["i"][1] for row in range(3)]
    assert counts == [3, 2, 3], "the node with the new pod shows the new node, the other one does not"
