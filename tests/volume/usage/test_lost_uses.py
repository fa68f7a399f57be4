"""Uses of claims that v1.37 loses count of when a node is replaced between two attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.make import node, pod
from tests.volume.make import claim, uses, volume

from moorage.objects import Cluster, Node, Pod
from moorage.scheduler import Scheduler

ONCE_POD = ("ReadWriteOncePod",)


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


def replaced(one: Scheduler, name: str = "a") -> None:
    one.client.delete(Node, name)
    one.sync()
    one.client.create(node(name))
    one.sync()


@pytest.mark.parametrize(("version", "expected"), [("1.34", True), ("1.36", True), ("1.37", False)])
def test_a_claim_on_a_replaced_node_is_in_use_until_v1_37(version: str, expected: bool) -> None:
    one = scheduler(version)
    replaced(one)
    assert is_in_use(one) == expected
    assert is_in_use(one) == expected


def test_an_attempt_while_the_node_is_gone_counts_anew() -> None:
    one = scheduler()
    one.client.delete(Node, "a")
    one.sync()
    assert not is_in_use(one)  # pods of nodes that are gone do not count
    one.client.create(node("a"))
    one.sync()
    assert is_in_use(one)


def twice(one: Scheduler) -> None:
    """The count would fall below 0."""
    replaced(one)


def another_node(one: Scheduler) -> None:
    one.client.create(node("c"))
    one.sync()


def its_pod_made_again(one: Scheduler) -> None:
    held = one.client.get(Pod, "holder", "default")
    one.client.delete(Pod, "holder", "default", grace_period_seconds=0)
    one.sync()
    assert not is_in_use(one)
    one.client.create(pod(held.name, on="a", volumes=held.spec.volumes))
    one.sync()


@pytest.mark.parametrize("change", [twice, another_node, its_pod_made_again])
def test_a_lost_use_is_found_again(change: Callable[[Scheduler], None]) -> None:
    one = scheduler()
    replaced(one)
    assert not is_in_use(one)
    change(one)
    assert is_in_use(one)


def test_nodes_that_come_in_the_same_interval_have_the_list_made_anew() -> None:
    one = scheduler()
    replaced(one)
    another_node(one)
    assert is_in_use(one)


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
