"""Reservations: what deleted pods leave on their nodes, and the pods that take their place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.kube import placeholder_of, placeholder_pod
from tests.make import node
from tests.multi.binder_cache.binder_kit import TAKES, WANTS, Kit, pod
from tests.words import RESERVATION

from moorage.kube import Deployment, ObjectMeta, OwnerReference, Pod


def gone() -> Pod:
    """The pod that is deleted."""
    return pod("a", "n", WANTS)


@pytest.fixture
def kit() -> Kit:
    one = Kit(resource_reservation=True, pod_assumed_ttl=10, reservation_ttl=5)
    one.cache.add_node(node("n"))
    return one


def test_a_deployment_asks_for_its_pods(kit: Kit) -> None:
    store = kit.cache.reservations
    assert store is not None
    owner = OwnerReference(kind="ReplicaSet", name="d-57b", uid="rs", controller=True)
    one = replace(gone(), metadata=replace(gone().metadata, annotations={}, owner_references=(owner,)))
    assert placeholder_of(one) == "d"
    meta = ObjectMeta(name="d", namespace="default", annotations={RESERVATION: "true"})
    store.set_deployment(Deployment(metadata=meta))
    kit.cache.add_pod(one)
    kit.cache.delete_pod(one)
    assert kit.has(placeholder_pod(one))
    kit.clean(6)
    store.set_deployment(Deployment(metadata=replace(meta, annotations={})))
    kit.cache.add_pod(one)
    kit.cache.delete_pod(one)
    assert not kit.has(placeholder_pod(one))


def test_a_fork_has_reservations_of_its_own(kit: Kit) -> None:
    kit.cache.add_pod(gone())
    kit.cache.delete_pod(gone())
    fork = kit.cache.fork()
    kit.clean(6)
    assert kit.cache.state.pods() == []
    assert fork.get_available_placeholder_pod(pod("b", "n", TAKES)).name == "a-placeholder"
    fork.clean(6)
    assert fork.state.pods() == []
