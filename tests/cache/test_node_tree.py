"""NodeTree: the stateful iteration, what additions and removals do to it, and the texts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cache.threads import LIMIT, running
from tests.make import ZONE, node

from moorage.compat import NodeTree
from moorage.engine.cache import SchedulerCache
from moorage.errors import CacheError
from moorage.kube import Node

OLD, NEW = "failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/"


def tree(**zones: str) -> NodeTree:
    """A tree of one-letter nodes by zone."""
    return NodeTree([node(name, zone=zone) for zone, names in zones.items() for name in names])


def turns(one: NodeTree, count: int) -> str:
    return "".join(one.next() for _ in range(count))


class Twin:
    """The iteration of v1.13, written out: arrays of nodes that remember how far they were read."""

    def __init__(self) -> None:
        self.arrays: dict[str, list[str]] = {}
        self.last_index: dict[str, int] = {}
        self.zone_index = 0

    def add(self, zone: str, name: str) -> None:
        self.arrays.setdefault(zone, []).append(name)
        self.last_index.setdefault(zone, 0)

    def remove(self, zone: str, name: str) -> None:
        self.arrays[zone].remove(name)
        if not self.arrays[zone]:
            del self.arrays[zone], self.last_index[zone]

    def reset(self) -> None:
        self.last_index = dict.fromkeys(self.arrays, 0)
        self.zone_index = 0

    def next(self) -> str:
        exhausted = 0
        while self.arrays:
            zones = list(self.arrays)
            self.zone_index = 0 if self.zone_index >= len(zones) else self.zone_index
            zone = zones[self.zone_index]
            self.zone_index += 1
            if self.last_index[zone] < len(self.arrays[zone]):
                self.last_index[zone] += 1
                return self.arrays[zone][self.last_index[zone] - 1]
            exhausted += 1
            if exhausted >= len(zones):
                self.reset()
        return ""


# ---- the iteration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zones", "order"), [({"z1": "abc", "z2": "d"}, "adbc"), ({"": "ab", "z1": "c"}, "acb")]
)
def test_next_goes_round_the_zones_and_inside_them(zones: dict[str, str], order: str) -> None:
    assert turns(tree(**zones), 3 * len(order)) == 3 * order


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("anrx"), st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_iteration_while_nodes_come_and_go(steps: list[tuple[str, int, int]]) -> None:
    one, twin = NodeTree(), Twin()
    for number, (step, zone_number, at) in enumerate(steps):
        zone = f":\x00:z{zone_number}"
        there = twin.arrays.get(zone, [])
        if step == "a":
            one.add_node(node(f"n{number}", zone=f"z{zone_number}"))
            twin.add(zone, f"n{number}")
        elif step == "r" and there:
            name = there[at % len(there)]
            one.remove_node(node(name, zone=f"z{zone_number}"))
            twin.remove(zone, name)
        elif step == "x":
            one.reset_exhausted()
            twin.reset()
        assert one.next() == twin.next()
        assert (one.zones, one.num_nodes) == (list(twin.arrays), sum(map(len, twin.arrays.values())))


# ---- additions, removals, updates ------------------------------------------------------------------------


def test_what_is_said_of_nodes_that_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    one = tree(z1="a")
    with caplog.at_level(logging.DEBUG, "moorage.cache"):
        one.add_node(node("b", zone="z2"))
        one.add_node(node("a", zone="z1"))
        one.add_node(node("a", zone="z2"))  # another node
        one.remove_node(node("b", zone="z2"))
    assert (one.num_nodes, one.zones, one.list()) == (2, [":\x00:z1", ":\x00:z2"], ["a", "a"])
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("DEBUG", "Added node b in group :\x00:z2 to NodeTree"),
        ("WARNING", "node a already exist in the NodeTree"),
        ("DEBUG", "Added node a in group :\x00:z2 to NodeTree"),
        ("DEBUG", "Removed node b in group :\x00:z2 from NodeTree"),
    ]


@pytest.mark.parametrize("gone", [node("b", zone="z1"), node("a", zone="z2"), node("a")])
def test_a_removal_looks_in_the_zone_that_the_labels_name(gone: Node) -> None:
    one = tree(z1="a", z2="b")
    zone = ":\x00:" + gone.metadata.labels[ZONE] if gone.metadata.labels else ""
    with pytest.raises(CacheError) as refusal:
        one.remove_node(gone)
    assert refusal.value.args == (f"node {gone.name} in group {zone} was not found",)
    assert (one.list(), one.num_nodes) == (["a", "b"], 2)


@pytest.mark.parametrize(
    ("old", "new", "listed"),
    [
        (node("a", zone="z1"), node("a", zone="z2"), "bcda"),  # to the end of its new zone
        (node("a", zone="z1"), node("a", zone="z1", cpu="9"), "acbd"),
        (node("new", zone="z1"), node("new", zone="z1"), "acbd"),
        (None, node("new"), "acbd"),
        (None, node("new", zone="z1"), "acbdn"),
        (node("new"), node("new", zone="z3"), "acnbd"),
    ],
)
def test_an_update_counts_where_the_zone_is_another(old: Node | None, new: Node, listed: str) -> None:
    one = tree(z1="ab", z2="cd")
    one.update_node(old, new)
    assert ("".join(name[0] for name in one.list()), one.num_nodes) == (listed, len(listed))


@pytest.mark.parametrize(
    ("labels", "then", "today"),
    [
        ({"zone": "z"}, "", ""),
        ({OLD + "region": "r", OLD + "zone": "z"}, "r:\x00:z", "r:\x00:z"),
        ({NEW + "region": "r", NEW + "zone": "z"}, "", "r:\x00:z"),
        ({OLD + "zone": "old", NEW + "zone": "new", NEW + "region": "r"}, ":\x00:old", "r:\x00:old"),
    ],
)
def test_zone_keys_of_then_and_of_today(labels: dict[str, str], then: str, today: str) -> None:
    nodes = [node("a", labels=labels)]
    assert NodeTree(nodes, zone_keys="1.13").zones == [then]
    assert NodeTree(nodes).zones == [today]


# ---- the tree of a cache, and threads --------------------------------------------------------------------


def test_the_tree_of_a_cache_is_live_and_changes_through_the_cache_alone() -> None:
    cache = SchedulerCache()
    one = NodeTree.of_cache(cache)
    assert one.next() == ""
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        cache.add_node(node(name, zone=zone))
    assert (one.num_nodes, turns(one, 2), one.list()) == (3, "ac", ["a", "c", "b"])
    assert turns(NodeTree.of_cache(cache), 2) == "ba"
    cache.update_node(node("a", zone="z1"), node("a", zone="z2"))
    cache.remove_node(node("b"))
    assert (one.list(), one.zones) == (["c", "a"], [":\x00:z2"])
    for change in (one.add_node, one.remove_node, lambda which: one.update_node(which, which)):
        with pytest.raises(CacheError, match=r"^the node tree of a cache changes through the cache$"):
            change(node("c", zone="z2"))


def test_several_threads_share_one_iteration() -> None:
    one = tree(z1="abc", z2="d", z3="ef")
    seen: list[Sequence[str]] = []
    with running(*[lambda: seen.append(turns(one, 600))] * 4):
        pass
    counts = {name: sum(part.count(name) for part in seen) for name in "abcdef"}
    assert counts == dict.fromkeys("abcdef", 400)


def test_several_threads_add_to_one_tree(caplog: pytest.LogCaptureFixture) -> None:
    one = NodeTree()
    nodes = [node(f"n{number}", zone=f"z{number % 3}") for number in range(200)]

    def add() -> None:
        for each in nodes:
            one.add_node(each)

    with running(add, add, add):
        pass
    assert (one.num_nodes, sorted(one.list())) == (200, sorted(each.name for each in nodes))
    assert len(caplog.messages) == 400


@pytest.mark.parametrize(("read", "answer"), [(NodeTree.next, "a"), (NodeTree.list, ["a"])])
def test_the_tree_of_a_cache_is_under_the_cache_s_lock(
    read: Callable[[NodeTree], str | list[str]], answer: str | list[str]
) -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    asks = threading.Event()
    order: list[str | list[str]] = []

    def ask() -> None:
        asks.set()
        order.append(read(NodeTree.of_cache(cache)))

    cache.lock.acquire()
    with running(ask):
        assert asks.wait(LIMIT)
        for _ in range(1000):  # time for a thread that would not wait
            order.append("")
        cache.lock.release()
    assert order[-1] == answer
