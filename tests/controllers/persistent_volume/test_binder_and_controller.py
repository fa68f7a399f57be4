"""The scheduler's part and the controller's part of one workflow, over one store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import World
from tests.make import node
from tests.make import pod as make_pod
from tests.volume.make import uses

from moorage.compat import CachingVolumeBinder, new_volume_binder
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass

NODE = node("n")
PODS = [make_pod(f"p{number}", volumes=(uses(claim=f"c{number}"),)) for number in range(4)]


class Both(World):
    """Whoever sleeps has the controller work: each sleep is one second."""

    def __init__(self) -> None:
        claims = [f"c{number} 1Gi uid=uid{number} class=wait" for number in range(4)]
        super().__init__(NODE, *claims, *[f"v{number} 1Gi Available class=wait" for number in range(2)])
        self.lock = Lock()
        informers = self.informers
        self.binder: CachingVolumeBinder = new_volume_binder(
            self.store,
            informers.informer(Node),
            informers.informer(PersistentVolumeClaim),
            informers.informer(PersistentVolume),
            informers.informer(StorageClass),
            100.0,
            clock=self.clock,
            sleep=self.sleep,
        )
        self.settle()

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.clock.now += seconds
            self.settle()

    def place(self, one: Pod) -> Pod:
        """Find and assume; the pod as it is when it has its node."""
        assert self.binder.find_pod_volumes(one, NODE) == (True, True)
        assert not self.binder.assume_pod_volumes(one, NODE.name)
        return replace(one, spec=replace(one.spec, node_name=NODE.name))


def test_one_pod_after_the_other_is_placed_and_all_are_bound_at_once() -> None:
    """The first two find volumes, the others have theirs provisioned for the node; only the controller
    writes that a claim is bound."""
    world = Both()
    placed = [world.place(one) for one in PODS]
    assert all(claim.spec.volume_name == "" for claim in world.claims())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(world.binder.bind_pod_volumes, placed))
    assert [(claim.spec.volume_name, claim.status.phase) for claim in world.claims()] == [
        (name, "Bound") for name in ("v0", "v1", "pvc-uid2", "pvc-uid3")
    ]
    assert world.plugin.volumes.keys() == {"pvc-uid2", "pvc-uid3"}
    for one in placed:
        assert world.binder.assume_pod_volumes(one, NODE.name)


def test_searches_in_parallel_find_the_same() -> None:
    """Nothing is taken until somebody assumes it; who assumes second is told, and searches again."""
    world = Both()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda one: world.binder.find_pod_volumes(one, NODE), PODS * 8))
    assert set(found) == {(True, True)}
    cache = world.binder.get_bindings_cache()
    bindings = [cache.get_bindings(one, NODE.name) for one in PODS]
    assert [[one.pv.name for one in held or ()] for held in bindings] == [["v0"]] * 4
    assert not world.binder.assume_pod_volumes(PODS[0], NODE.name)
    world.binder.find_pod_volumes(PODS[1], NODE)
    again = cache.get_bindings(PODS[1], NODE.name)
    assert again is not None
    assert [one.pv.name for one in again] == ["v1"]
