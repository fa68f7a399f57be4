"""Volumes in a scheduler's own store: nobody else binds claims there, and nothing waits."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from tests.doors.cluster import ClusterOptions, ExternalController, SimulatedController, volume_controller
from tests.make import node, pod
from tests.plugins.volume_binding_kit import LATE, MADE, asking, disk, waiting
from tests.volume.make import claim, storage_class, uses
from tests.words import BIND_CONFLICT, UNBOUND_IMMEDIATE

import moorage as mo
from moorage import Scheduler
from moorage.kube import (
    Cluster,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    build_cluster,
)
from moorage.store import ObjectStore

NODES = [node("a", "z1"), node("b", "z2")]
AT_ONCE = storage_class("at-once", "storage.example.com")
BY_HAND = storage_class("by-hand", "kubernetes.io/no-provisioner")


@pytest.fixture(autouse=True)
def _no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError(f"sleeps for {seconds} s")

    monkeypatch.setattr(time, "sleep", sleep)


def scheduler(pods: list[Pod], *objects: Object) -> Scheduler:
    return Scheduler(Cluster(nodes=NODES, pods=pods, others=list(objects)))


def bound(one: Scheduler) -> dict[str, str]:
    """Claim to its volume, of those that are bound; both agree."""
    out = {}
    for held in one.client.list(PersistentVolumeClaim)[0]:
        if held.status.phase == "Bound":
            volume = one.client.get(PersistentVolume, held.spec.volume_name)
            assert volume.status.phase == "Bound"
            assert volume.spec.claim_ref is not None
            assert volume.spec.claim_ref.name == held.name
            out[held.name] = volume.name
    return out


@pytest.mark.parametrize("its_class", [AT_ONCE, MADE])
def test_volumes_are_made(its_class: StorageClass) -> None:
    pods = [asking(f"p{at}", f"c{at}", f"d{at}") for at in range(3)]
    claims = [waiting(f"{kind}{at}", its_class.name, size=f"{at + 1}Gi") for at in range(3) for kind in "cd"]
    one = scheduler(pods, its_class, *claims)
    assert set(one.run().placements) == {"default/p0", "default/p1", "default/p2"}
    assert bound(one) == {held.name: f"pvc-{held.metadata.uid}" for held in claims}
    sizes = {held.name: held.spec.capacity for held in one.client.list(PersistentVolume)[0]}
    assert sizes[f"pvc-{claims[-1].metadata.uid}"] == {"storage": "3Gi"}


def test_volumes_that_are_there_are_chosen_with_the_node() -> None:
    pods = [asking("p", "c"), asking("q", "d"), asking("r", "e")]
    claims = [waiting(name) for name in "cde"]
    one = scheduler(pods, LATE, disk("v1", on="z1"), disk("v2", on="z2", size="5Gi"), *claims)
    result = one.run()
    at = {"a": "v1", "b": "v2"}
    names = {"default/p": "c", "default/q": "d", "default/r": "e"}
    assert sorted(result.placements.values()) == ["a", "b"]
    assert bound(one) == {names[key]: at[where] for key, where in result.placements.items()}
    (failure,) = result.unschedulable.values()
    assert f"2 {BIND_CONFLICT}" in failure.message


def test_immediate_claims_are_bound_before_their_pods_are_tried() -> None:
    volume = disk("v", on="z2", its_class="by-hand")
    one = scheduler([asking("p", "c"), asking("q", "d")], BY_HAND, volume, waiting("c", "by-hand"))
    one.client.create(waiting("d", "by-hand", size="20Gi"))
    result = one.run()
    assert (result.placements, bound(one)) == ({"default/p": "b"}, {"c": "v"})
    assert UNBOUND_IMMEDIATE in result.unschedulable["default/q"].message
    one.client.create(disk("w", its_class="by-hand", size="30Gi"))
    assert set(one.run().placements) == {"default/q"}


def test_classes_that_come_later() -> None:
    one = scheduler(
        [asking("p", "c"), asking("q", "d")], AT_ONCE, waiting("c", "at-once"), waiting("d", "new")
    )
    first = one.run()
    assert set(first.placements) == {"default/p"}
    assert UNBOUND_IMMEDIATE in first.unschedulable["default/q"].message
    one.client.create(storage_class("new", "another.example.com"))
    assert set(one.run().placements) == {"default/q"}
    assert set(bound(one)) == {"c", "d"}
    # What the first controller made is the second one's to delete.
    made = bound(one)["c"]
    for kind, name in ((Pod, "p"), (PersistentVolumeClaim, "c")):
        one.client.delete(kind, name, "default")
    one.run()
    released = [held for held in one.client.list(PersistentVolume)[0] if held.name == made]
    assert all(held.status.phase != "Bound" for held in released)


def test_without_claims_nobody_works_on_volumes() -> None:
    one = scheduler([pod("p"), pod("q", volumes=(uses(csi="d"),))], AT_ONCE, disk("v"))
    before = one.client.get(PersistentVolume, "v")
    assert set(one.run().placements) == {"default/p", "default/q"}
    assert one.client.get(PersistentVolume, "v") is before


def test_volumes_of_the_last_claims_are_reclaimed() -> None:
    claims = [waiting("c", "made"), waiting("d")]
    pods = [asking("p", "c"), asking("q", "d")]
    one = Scheduler(build_cluster([*NODES, *pods, MADE, LATE, disk("v", on="z1"), *claims]))
    one.run()
    assert len(bound(one)) == 2
    one.change.delete("pod/p", "pod/q", "pvc/c", "pvc/d")
    one.run()
    held = one.client.list(PersistentVolume)[0]
    assert [(each.name, each.status.phase) for each in held] == [("v", "Released")]


def test_a_claim_that_is_applied_again_does_not_get_the_released_volume() -> None:
    held = waiting("c", "by-hand")
    manifest = replace(held, metadata=replace(held.metadata, uid=""))
    one = Scheduler(build_cluster([*NODES, BY_HAND, disk("v", its_class="by-hand"), manifest]))
    one.run()
    assert bound(one) == {"c": "v"}
    one.change.delete("pvc/c")
    one.run()
    one.change.apply(manifest)
    one.run()
    assert bound(one) == {}
    assert one.client.get(PersistentVolume, "v").status.phase == "Released"


def test_a_claim_that_is_never_bound_takes_no_time() -> None:
    """Ten minutes go by in thought; then the controller finishes what was begun."""
    one = scheduler([asking("p", "c")], LATE, disk("v", on="z1"), waiting("c"))
    work, began = one.volumes._work, one.volumes.now()
    waits: list[float] = []
    one.volumes._work = lambda: waits.append(one.volumes.now())  # nobody is at work
    result = one.run()
    assert result.placements == {}
    text = "binding volumes: context deadline exceeded"
    assert text in result.unschedulable["default/p"].message
    assert waits[-1] - began == 600
    one.volumes._work = work
    assert one.run().placements == {"default/p": "a"}


def test_who_sees_to_the_volumes() -> None:
    one, heard, waits = Scheduler(mo.load([])).context, list[str](), list[float]()

    def sync(**_: bool) -> bool:
        heard.append(f"after {len(waits)}")
        return False

    one.sync = sync  # type: ignore[method-assign]
    assert isinstance(volume_controller(one, ClusterOptions(owns_store=True)), SimulatedController)
    for owns_store in (True, False):
        others = volume_controller(one, ClusterOptions(owns_store=owns_store, wait=waits.append))
        assert isinstance(others, ExternalController)
        others.settle()
        assert (heard, waits) == ([], [])
        others.wait(1.5)
        assert (heard, waits) == (["after 1"], [1.5])
        heard.clear()
        waits.clear()


def test_time_passes_over_somebody_elses_store(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    volume_controller(Scheduler(ObjectStore()).context, ClusterOptions()).wait(2.0)
    assert slept == [2.0]


def test_claims_of_somebody_elses_store_are_left_alone() -> None:
    store = ObjectStore()
    for obj in (*NODES, AT_ONCE, waiting("c", "at-once"), claim("d"), asking("p", "c")):
        store.create(obj)
    one = Scheduler(store)
    assert UNBOUND_IMMEDIATE in one.run().unschedulable["default/p"].message
    assert store.list(PersistentVolume)[0] == []
