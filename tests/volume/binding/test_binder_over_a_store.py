"""The binder of v1.14 over a store and its informers, with somebody who does the controller's part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import is_fully_bound
from tests.volume.binding.binder_kit import (
    CLASSES,
    NODE1,
    NODE2,
    PROVISIONED,
    PV_1A,
    PV_2,
    UNBOUND,
    at,
    finished,
    pod,
)
from tests.words import SELECTED_NODE

from moorage.compat import CachingVolumeBinder, new_volume_binder
from moorage.engine.volume import VolumeError
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.store import InformerFactory, ObjectStore

Step = Callable[[], None]


class World:
    """Time passes only when somebody sleeps; then the next step is done."""

    def __init__(self, *steps: Step) -> None:
        self.store, self.now = ObjectStore(), 0.0
        self.informers = InformerFactory(self.store)
        self.steps = list(steps)
        objects = [*CLASSES, NODE1, NODE2, at(PV_1A, ""), at(PV_2, ""), at(UNBOUND, ""), at(PROVISIONED, "")]
        self.store.create_many([*objects, pod(UNBOUND, PROVISIONED)])

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()
        self.informers.run_once()

    def finish(self) -> None:
        """What the controller and the provisioner do."""
        assert self.claim(PROVISIONED).metadata.annotations[SELECTED_NODE] == "node1"
        made = at(replace(PV_1A, metadata=replace(PV_1A.metadata, name="made")), "")
        self.store.create(made)
        for one, name in ((UNBOUND, "pv-node1a"), (PROVISIONED, "made")):
            held = self.claim(one)
            self.store.update(finished(held, name, int(held.metadata.resource_version)))

    def claim(self, one: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return self.store.get(PersistentVolumeClaim, one.name, "testns")


def test_the_calls_of_v1_14_one_after_the_other() -> None:
    """Find, assume and bind with one and the same pod, which has no node: the binder knows for which node its
    volumes are assumed."""
    world = World()
    world.steps.append(world.finish)
    binder, its = binder_of(world), pod(UNBOUND, PROVISIONED, node="")
    decisions = binder.get_bindings_cache()
    assert binder.find_pod_volumes(its, NODE2) != (True, True)
    bind(binder, its)
    assert (decisions.assumed_node(its), world.now) == ("node1", 1.0)
    assert is_fully_bound(world.claim(UNBOUND))
    assert world.claim(PROVISIONED).metadata.annotations[SELECTED_NODE] == "node1"
    assert binder.find_pod_volumes(its, NODE1) == (True, True)
    decisions.delete_bindings(its)
    assert decisions.assumed_node(its) == ""
    with pytest.raises(VolumeError, match="failed to get cached bindings"):
        binder.bind_pod_volumes(its)


READ: dict[str, Any] = {
    "node": Node,
    "pvc": PersistentVolumeClaim,
    "pv": PersistentVolume,
    "storage_class": StorageClass,
}


def binder_of(world: World, timeout: float = 10.0, **others: Any) -> CachingVolumeBinder:
    """A binder of v1.14, with other informers in place of some of the world's."""
    informers: dict[str, Any] = {name: world.informers.informer(kind) for name, kind in READ.items()} | others
    binder = new_volume_binder(
        world.store, *(informers[name] for name in READ), timeout, clock=lambda: world.now, sleep=world.sleep
    )
    world.informers.run_once()
    return binder


def bind(binder: CachingVolumeBinder, its: Pod) -> None:
    """Find, assume and bind a pod's volumes on the first node."""
    assert binder.find_pod_volumes(its, NODE1) == (True, True)
    binder.assume_pod_volumes(its, NODE1.name)
    binder.bind_pod_volumes(its)


@pytest.mark.parametrize("timeout", [3.0, 7.0])
def test_binding_takes_no_longer_than_the_timeout_that_a_binder_is_made_with(timeout: float) -> None:
    world = World()
    binder = binder_of(world, timeout)
    with pytest.raises(VolumeError, match="timed out waiting for the condition"):
        bind(binder, pod(UNBOUND, PROVISIONED))
    assert timeout <= world.now <= timeout + 1.0


@pytest.mark.parametrize(
    ("without", "text"),
    [
        ("pvc", "could not find v1.PersistentVolumeClaim"),
        ("storage_class", r"^pod has unbound immediate PersistentVolumeClaims$"),
        ("node", r'^failed to get node "node1"'),
        ("pv", None),
    ],
)
def test_a_binder_reads_what_it_is_given(without: str, text: str | None) -> None:
    """With an informer of an empty store in place of one of its own it misses just that."""
    nothing = InformerFactory(ObjectStore())
    empty = nothing.informer(READ[without])
    nothing.run_once()
    world = World()
    world.steps.append(world.finish)
    binder, its = binder_of(world, **{without: empty}), pod(UNBOUND, PROVISIONED)
    if text is None:
        assert binder.find_pod_volumes(pod(UNBOUND), NODE1) == (False, True)
        return
    with pytest.raises(VolumeError, match=text):
        bind(binder, its)
