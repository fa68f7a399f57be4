"""Image states through the cache: who has an image, and how large it is said to be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.core.make import node, pod
from tests.doors.compat import BinderCache, CacheHandler

from moorage.cache import ImageStateSummary, NodeInfoClone, SchedulerCache, Snapshot

Images = list[tuple[Sequence[str], int]]


def holding(**images: Images) -> SchedulerCache:
    """A cache with these nodes and the images that they report."""
    one = SchedulerCache()
    for name, reported in images.items():
        one.add_node(node(name, images=reported))
    return one


def states(one: SchedulerCache, name: str) -> dict[str, tuple[int, int]]:
    """Image name to (size, nodes that have it)."""
    info = one.node_info(name)
    assert info is not None
    return {image: (state.size, state.num_nodes) for image, state in info.image_states.items()}


def test_an_image_that_is_new_has_the_size_of_its_first_node() -> None:
    one = holding(a=[(["i"], 5), (["j"], 6)])
    assert states(one, "a") == {"i": (5, 1), "j": (6, 1)}


def test_an_image_that_is_known_gains_a_node_and_keeps_its_size() -> None:
    one = holding(a=[(["i"], 5)], b=[(["i"], 9), (["j"], 6)])
    assert states(one, "b") == {"i": (5, 2), "j": (6, 1)}


def test_every_name_of_an_image_counts() -> None:
    one = holding(a=[(["i:1"], 5)], b=[(["i:1", "i@sha256:0"], 5)])
    assert states(one, "b") == {"i:1": (5, 2), "i@sha256:0": (5, 1)}


def test_a_name_that_a_node_repeats_counts_once() -> None:
    assert states(holding(a=[(["i", "i"], 5), (["i"], 9)]), "a") == {"i": (5, 1)}


def test_a_node_that_is_added_again_gives_up_its_old_images_first() -> None:
    one = holding(a=[(["i"], 5), (["j"], 6)], b=[(["i"], 5)])
    one.add_node(node("a", images=[(["j"], 7)]))
    one.add_node(node("b", images=[(["i"], 5)]))
    assert (states(one, "a"), states(one, "b")) == ({"j": (7, 1)}, {"i": (5, 1)})


def test_an_update_replaces_the_images_of_a_node() -> None:
    one = holding(a=[(["i"], 5)], b=[(["i"], 5)])
    one.update_node(node("a", images=[(["i"], 5)]), node("a", images=[(["j"], 6)]))
    one.update_node(node("b"), node("b", images=[(["i"], 5)]))
    assert (states(one, "a"), states(one, "b")) == ({"j": (6, 1)}, {"i": (5, 1)})


def test_an_image_goes_with_its_last_node() -> None:
    one = holding(a=[(["i"], 5)], b=[(["i"], 9)])
    one.remove_node(node("a"))
    one.update_node(node("b"), node("b", images=[(["i"], 9)]))
    assert states(one, "b") == {"i": (9, 1)}
    one.remove_node(node("b"))
    one.add_node(node("c", images=[(["i"], 9)]))
    assert states(one, "c") == {"i": (9, 1)}


def test_what_a_node_shows_of_its_images_is_summed_up_when_it_is_set() -> None:
    one = holding(a=[(["i"], 5)], b=[(["i"], 5)])
    first, both = {"i": ImageStateSummary(5, 1)}, {"i": ImageStateSummary(5, 2)}
    infos = dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    one.add_pod(pod("p", on="a"))
    one.remove_node(node("b"))
    one.update_node_name_to_info_map(infos)
    assert states(one, "a") == {"i": (5, 1)}
    assert one.snapshot().nodes["a"].image_states == infos["a"].image_states == first
    one.add_node(node("b", images=[(["i"], 5)]))
    one.add_node(node("a", images=[(["i"], 5)]))
    one.remove_node(node("b"))
    one.update_node_name_to_info_map(infos)
    assert states(one, "a") == {"i": (5, 2)}
    assert one.snapshot().nodes["a"].image_states == infos["a"].image_states == both


def test_a_binder_sees_the_summary_of_the_time_when_a_node_was_set() -> None:
    one = BinderCache(CacheHandler())
    for name in "ab":
        one.add_node(node(name, images=[(["i"], 5)]))
    found = {name: info.image_states["i"].num_nodes for name, info in one.dump().nodes.items()}
    assert found == {"a": 1, "b": 2}


def test_what_a_snapshot_shows_of_images_is_frozen_until_its_node_changes() -> None:
    one = holding(a=[(["i"], 5)])
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
    one = holding(a=[(["i"], 5)], b=[(["i"], 5)])
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
