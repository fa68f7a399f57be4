"""Uses of claims that v1.37 loses count of when a node is replaced between two attempts."""

from __future__ import annotations

import copy
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.engine import LostUses
from tests.make import node, pod
from tests.volume.make import claim, uses, volume

from moorage import Scheduler
from moorage.kube import Cluster, Node, Pod

ONCE_POD = ("ReadWriteOncePod",)
NODES = "abcdef"
CLAIMS = "vw"
KEYS = [f"default/{each}" for each in CLAIMS]


def scheduler(version: str = "1.37") -> Scheduler:
    """One with a pod on node a that uses claim once, after its first attempt."""
    held = pod("holder", on="a", volumes=(uses(claim="once"),))
    bound = claim("once", "v", modes=ONCE_POD)
    others = [bound, volume("v", ("d", "v"))]
    cluster = Cluster(nodes=[node("a"), node("b")], pods=[held], others=others)
    one = Scheduler(cluster, kubernetes_version=version, controllers=False)
    assert is_in_use(one)
    return one


def is_in_use(one: Scheduler) -> bool:
    """Whether VolumeRestrictions has something against a pod that asks for the claim."""
    return "VolumeRestrictions" not in one.examine(pod("p", volumes=(uses(claim="once"),))).skipped_filter


def replaced(one: Scheduler, name: str = "a", zone: str = "") -> None:
    one.client.delete(Node, name)
    one.sync()
    one.client.create(node(name, zone=zone))
    one.sync()


@pytest.mark.parametrize(("version", "expected"), [("1.34", True), ("1.36", True), ("1.37", False)])
def test_a_claim_on_a_replaced_node_is_in_use_until_v1_37(version: str, expected: bool) -> None:
    one = scheduler(version)
    replaced(one)
    assert is_in_use(one) == expected
    assert is_in_use(one) == expected


def another_node(one: Scheduler) -> None:
    one.client.create(node("c"))
    one.sync()


@pytest.mark.parametrize(("version", "order"), [("1.36", "abc"), ("1.37", "cba")])
def test_the_nodes_are_listed_anew_when_a_pod_of_a_node_that_went_goes_too(version: str, order: str) -> None:
    """In v1.37 its claim would be used less than never."""
    nodes = [node(name, zone=zone) for name, zone in (("d", "z"), ("a", "x"), ("b", "y"), ("c", "x"))]
    held = pod("holder", on="d", volumes=(uses(claim="v"),))
    one = Scheduler(Cluster(nodes=nodes, pods=[held]), kubernetes_version=version, controllers=False)

    def attempt() -> str:
        one.schedule_one(pod("big", requests={"cpu": 999}))
        return "".join(one.cache.state.view.node_names())

    assert attempt() == "dabc"
    one.client.delete(Node, "d")
    one.sync()
    assert attempt() == "abc"
    replaced(one, "a", zone="x")
    assert attempt() == "abc"
    one.client.delete(Pod, "holder", "default", grace_period_seconds=0)
    one.sync()
    assert attempt() == order


def test_the_nodes_are_listed_anew_after_a_transaction_that_stays() -> None:
    nodes = [node(name, zone=zone) for name, zone in (("d", "z"), ("a", "x"), ("b", "y"), ("c", "x"))]
    held = pod("holder", on="a", volumes=(uses(claim="v"),))
    one = Scheduler(Cluster(nodes=nodes, pods=[held]), kubernetes_version="1.37", controllers=False)
    one.client.delete(Node, "d")
    one.sync()
    one.schedule_one(pod("big", requests={"cpu": 999}))
    replaced(one, "a", zone="x")
    with one.transaction() as transaction:
        one.client.delete(Pod, "holder", "default", grace_period_seconds=0)
        one.sync()
        one.schedule_one(pod("big", requests={"cpu": 999}))
        transaction.commit()
    assert one.cache.state.view.node_names() == [*"abc"]
    one.schedule_one(pod("big", requests={"cpu": 999}))
    assert one.cache.state.view.node_names() == [*"cba"]


def test_a_transaction_gives_a_lost_use_back() -> None:
    one = scheduler()
    with one.transaction():
        replaced(one)
        assert not is_in_use(one)
    assert is_in_use(one)


def test_a_fork_has_lost_the_same_uses() -> None:
    one = scheduler()
    replaced(one)
    fork = one.fork()
    assert not is_in_use(fork)
    another_node(fork)
    assert is_in_use(fork)
    assert not is_in_use(one)


# ---- against upstream's bookkeeping, written out -----------------------------------------------------------


class Twin:
    """Nodes with their uses of claims, ghosts among them; the changes of counts; and the last snapshot."""

    def __init__(self) -> None:
        self.zones: dict[str, str] = {}  # of nodes that are there
        self.tree: dict[str, list[str]] = {}
        self.uses: dict[str, Counter[str]] = {}
        self.delta: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.order: list[str] = []

    def set_node(self, name: str, zone: str) -> None:
        before = self.zones.get(name)
        if before != zone:
            if before is not None:
                self._leave(name)
            self.zones[name] = zone
            self.tree.setdefault(zone, []).append(name)

    def remove_node(self, name: str) -> None:
        self.delta.subtract(self.uses.get(name, Counter()))
        self._leave(name)

    def _leave(self, name: str) -> None:
        zone = self.zones.pop(name)
        self.tree[zone].remove(name)
        if not self.tree[zone]:
            del self.tree[zone]

    def use(self, name: str, claim: str, sign: int) -> None:
        self.uses.setdefault(name, Counter())[claim] += sign
        self.delta[claim] += sign

    def snapshot(self) -> None:
        is_anew = set(self.order) != self.zones.keys()
        if not is_anew:
            self.counts.update(self.delta)
            is_anew = any(count < 0 for count in self.counts.values())
        if is_anew:
            turns = range(max(map(len, self.tree.values()), default=0))
            self.order = [names[at] for at in turns for names in self.tree.values() if at < len(names)]
            self.counts = sum((self.uses.get(name, Counter()) for name in self.zones), Counter[str]())
        self.delta = Counter()


class Pair:
    """A scheduler and its twin, after the same random changes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.one = Scheduler(kubernetes_version="1.37", controllers=False)
        self.twin = Twin()
        self.pods: dict[str, tuple[str, str]] = {}  # node and claim
        self.made = 0
        for name in NODES[:4]:
            self.set_node(name)
        self.one.sync()

    def set_node(self, name: str) -> None:
        zone = self.random.choice("xyz")
        (self.one.client.update if name in self.twin.zones else self.one.client.create)(node(name, zone=zone))
        self.twin.set_node(name, zone)

    def change(self) -> None:
        name, what = self.random.choice(NODES), self.random.randrange(8)
        if what < 2:
            self.set_node(name)
        elif what < 4 and name in self.twin.zones:
            self.one.client.delete(Node, name)
            self.twin.remove_node(name)
            if self.random.random() < 0.7:
                self.set_node(name)
        elif what < 6 and (name in self.twin.zones or any(self.twin.uses.get(name, Counter()).values())):
            self.made += 1
            key, its = f"p{self.made}", self.random.choice(CLAIMS)
            self.pods[key] = name, its
            self.one.client.create(pod(key, on=name, volumes=(uses(claim=its),)))
            self.twin.use(name, f"default/{its}", 1)
        elif self.pods:
            key = self.random.choice(sorted(self.pods))
            name, its = self.pods.pop(key)
            self.one.client.delete(Pod, key, "default", grace_period_seconds=0)
            self.twin.use(name, f"default/{its}", -1)
        self.one.sync()

    def attempt(self) -> None:
        """A cycle of a pod that fits nowhere."""
        self.one.schedule_one(pod("big", requests={"cpu": 99}))
        self.twin.snapshot()

    def check(self) -> None:
        assert self.one.cache.state.view.node_names() == self.twin.order
        counts = self.one.handle.shared(LostUses).counts_of(KEYS)
        assert counts == [self.twin.counts[key] for key in KEYS]

    def copied(self) -> Pair:
        out = copy.copy(self)
        out.one, out.twin, out.pods = self.one.fork(), copy.deepcopy(self.twin), self.pods.copy()
        return out

    def some_changes(self, undoes: bool = True) -> None:
        """Changes and cycles, and some that are undone."""
        for _ in range(self.random.randint(1, 12)):
            if self.random.random() < 0.3:
                self.attempt()
                self.check()
            elif self.random.random() < 0.1 and undoes:
                before = self.twin, self.pods
                self.twin, self.pods = copy.deepcopy(self.twin), self.pods.copy()
                with self.one.transaction():
                    for _ in range(self.random.randint(1, 4)):
                        self.change()
                    self.one.schedule_one(pod("big", requests={"cpu": 99}))
                self.twin, self.pods = before
            else:
                self.change()


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**64))
def test_counts_and_the_order_of_nodes_are_upstreams(seed: int) -> None:
    pair = Pair(Random(seed))
    pair.some_changes()
    fork = pair.copied()
    for each in (pair, fork):
        each.some_changes()
        each.attempt()
        each.check()
