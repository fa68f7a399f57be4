"""Deleting and recycling volumes: the tables of upstream's delete_test.go and recycle_test.go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    CHOSEN,
    DP,
    DP_EXTERNAL,
    NS,
    PLUGIN,
    Case,
    Recycler,
    World,
    check_sync_volume,
    free,
    make_world,
    pv,
    pvc,
)
from tests.doors.controllers import VolumeInUseError, VolumeOptions

from moorage.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
)


def failing(call: Any, error: Exception | str, times: int = 1) -> dict[str, Any]:
    plugin = Recycler(PLUGIN)
    plugin.fail(call, error, times)
    return {"plugins": [plugin]}


def released(phase: str, policy: str, marks: dict[str, str] = BBC, **more: Any) -> PersistentVolume:
    return pv("v", "1Gi", "uid", "c", phase, policy, "", marks, **more)


def pod(name: str, phase: str) -> Pod:
    volume = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
    return Pod(
        metadata=ObjectMeta(name=name, namespace=NS),
        spec=PodSpec(volumes=(volume,)),
        status=PodStatus(phase=phase),
    )


def plugins() -> dict[str, Any]:
    return {"plugins": [Recycler(PLUGIN)]}


def remove(world: World) -> None:
    world.store.delete(PersistentVolume, "v")


def make_available(world: World) -> None:
    held = world.store.get(PersistentVolume, "v")
    new = replace(held.status, phase="Available")
    world.store.update(replace(held, spec=replace(held.spec, claim_ref=None), status=new))


USED = "Normal VolumeFailedRecycle Volume is used by pods: default/p"
NO_RECYCLER = "No recycler plugin found for the volume!"

RECYCLE = [
    Case(
        "6-1 bound by the controller",
        [released("Bound", "Recycle")],
        (),
        [free("v", persistent_volume_reclaim_policy="Recycle")],
        events=("Normal VolumeRecycled Volume recycled",),
        world=plugins(),
    ),
    Case(
        "6-2 bound by the user",
        [released("Bound", "Recycle", {})],
        (),
        [pv("v", "1Gi", "", "c", "Available", "Recycle")],
        world=plugins(),
    ),
    Case(
        "6-3 no plugin",
        [released("Bound", "Recycle")],
        (),
        [released("Failed", "Recycle", message=NO_RECYCLER)],
        events=(f"Warning VolumeFailedRecycle {NO_RECYCLER}",),
        world={"plugins": []},
    ),
    Case(
        "6-5 the plugin fails",
        [released("Bound", "Recycle")],
        (),
        [released("Failed", "Recycle", message="Recycle failed: Mock recycle error")],
        events=("Warning VolumeFailedRecycle Recycle failed: Mock recycle error",),
        world=failing("recycle", "Mock recycle error"),
    ),
    Case(
        "6-9 another claim of that name",
        [released("Bound", "Recycle")],
        [pvc("c", "other", "1Gi")],
        [free("v", persistent_volume_reclaim_policy="Recycle")],
        world=plugins(),
    ),
    Case(
        "6-11 a running pod",
        [released("Bound", "Recycle")],
        (),
        [released("Released", "Recycle")],
        events=(USED,),
        others=[pod("p", "Running")],
        world=plugins(),
    ),
    Case(
        "6-12 pending pods",
        [released("Bound", "Recycle")],
        (),
        [released("Released", "Recycle")],
        events=("Normal VolumeFailedRecycle Volume is used by pods: default/p,default/q",),
        others=[pod("q", "Pending"), pod("p", "Pending")],
        world=plugins(),
    ),
    Case(
        "6-13 a pod that has ended",
        [released("Bound", "Recycle")],
        (),
        [free("v", persistent_volume_reclaim_policy="Recycle")],
        others=[pod("p", "Succeeded")],
        world=plugins(),
    ),
    Case(
        "6-14 a pod of another claim of that name",
        [released("Released", "Recycle")],
        [pvc("c", "other", "1Gi")],
        [free("v", persistent_volume_reclaim_policy="Recycle")],
        others=[pod("p", "Running")],
        world=plugins(),
    ),
]

DELETE = [
    Case(
        "8-1 bound by the controller",
        [released("Bound", "Delete")],
        (),
        [],
        events=None,
        world=plugins(),
    ),
    Case("8-2 bound by the user", [released("Bound", "Delete", {})], (), [], events=None, world=plugins()),
    Case(
        "8-3 no plugin",
        [released("Bound", "Delete")],
        (),
        [
            released(
                "Failed",
                "Delete",
                message='Error getting deleter volume plugin for volume "v": no volume plugin matched',
            )
        ],
        events=("Warning VolumeFailedDelete Error getting deleter volume plugin for volume",),
        world={"plugins": []},
    ),
    Case(
        "8-4 no deleter",
        [released("Bound", "Delete")],
        (),
        [released("Failed", "Delete", message='Failed to create deleter for volume "v": Mock deleter error')],
        events=("Warning VolumeFailedDelete Failed to create deleter for volume",),
        world=failing("new_deleter", "Mock deleter error"),
    ),
    Case(
        "8-5 the plugin fails",
        [released("Bound", "Delete")],
        (),
        [released("Failed", "Delete", message="Mock delete error")],
        events=("Warning VolumeFailedDelete Mock delete error",),
        world=failing("delete", "Mock delete error"),
    ),
    Case(
        "in use",
        [released("Bound", "Delete")],
        (),
        [released("Released", "Delete")],
        events=("Normal VolumeDelete attached to a node",),
        world=failing("delete", VolumeInUseError("attached to a node")),
    ),
    Case(
        "8-9 another claim of that name",
        [released("Bound", "Delete")],
        [pvc("c", "other", "10Gi")],
        [],
        world=plugins(),
    ),
    Case(
        "8-10 made outside",
        [released("Bound", "Delete", BBC | DP_EXTERNAL)],
        (),
        [released("Released", "Delete", BBC | DP_EXTERNAL)],
        events=None,
        world=plugins(),
    ),
    Case(
        "made by a plugin that is not there",
        [released("Bound", "Delete", BBC | DP)],
        (),
        [released("Failed", "Delete", BBC | DP, message=f"no volume plugin matched name: {PLUGIN}")],
        world={"plugins": []},
    ),
    *(
        Case(
            name,
            [
                pv("v1", "1Gi", "uid", "c", "Bound", "Delete", "", maker),
                pv("v2", "1Gi", "uid", "c", "Bound", "Delete", "", maker),
            ],
            [pvc("c", "uid", "10Gi", "v2", "Bound", None, CHOSEN)],
            [*left, pv("v2", "1Gi", "uid", "c", "Bound", "Delete", "", maker)],
            world=plugins(),
        )
        for name, maker, left in (
            ("8-11 two made for one claim", DP, []),
            (
                "8-12 two made outside for one claim",
                DP_EXTERNAL,
                [pv("v1", "1Gi", "uid", "c", "Released", "Delete", "", DP_EXTERNAL)],
            ),
        )
    ),
    Case(
        "8-13 being deleted",
        [released("Bound", "Delete", deletion="2026-01-01T00:00:00Z")],
        (),
        [released("Released", "Delete", deletion="2026-01-01T00:00:00Z")],
        events=None,
        world=plugins(),
    ),
]


@pytest.mark.parametrize("case", RECYCLE, ids=str)
def test_volumes_are_recycled_as_in_upstreams_cases(case: Case) -> None:
    check_sync_volume(case)


@pytest.mark.parametrize("case", DELETE, ids=str)
def test_volumes_are_deleted_as_in_upstreams_cases(case: Case) -> None:
    check_sync_volume(case)


@pytest.mark.parametrize("policy", ["Recycle", "Delete"])
@pytest.mark.parametrize(
    ("change", "then"), [(remove, 0), (make_available, 1)], ids=["6-6, 8-6 gone", "6-7, 6-8 available"]
)
def test_what_happens_before_an_operation(policy: str, change: Any, then: int) -> None:
    plugin = Recycler(PLUGIN)
    world = World(released("Released", policy), plugins=[plugin])
    world.before_operations(lambda: change(world))
    world.controller.settle()
    assert [volume.status.phase for volume in world.volumes()] == ["Available"] * then
    assert (plugin.calls, world.events()) == ([], [])


def test_a_claim_that_appears_before_the_deletion() -> None:
    """8-7"""
    plugin = Recycler(PLUGIN)
    volume = released("Released", "Delete")
    world = World(volume, plugins=[plugin])
    claim = pvc("c", "uid", "10Gi", "v", "Bound", None, CHOSEN)
    world.before_operations(lambda: world.controller._writer.claims.add(claim))
    world.informers.run_once()
    world.controller.run_once()
    assert (world.volumes(), plugin.calls) == ([volume], [])


def test_a_failed_deletion_is_tried_again() -> None:
    """9-1; after a pause, at the next resync."""
    case = Case("", [released("Bound", "Delete")], world=failing("delete", "Mock delete error"))
    world = make_world(case)
    world.controller.settle()
    assert [volume.status.phase for volume in world.volumes()] == ["Failed"]
    assert len(world.events()) == 1
    world.clock.now += 15.0
    world.controller.settle()
    assert (world.volumes(), len(world.events())) == ([], 1)


def test_a_failed_recycling_is_tried_again() -> None:
    """7-1"""
    world = make_world(Case("", [released("Bound", "Recycle")], world=failing("recycle", "no", 1)))
    world.controller.settle()
    assert [volume.status.phase for volume in world.volumes()] == ["Available"]
    texts = [event.partition(" ")[2].partition(" ")[0] for event in world.events()]
    assert texts == ["VolumeFailedRecycle", "VolumeRecycled"]


def test_a_recycler_reports_its_progress() -> None:
    class Talks(Recycler):
        def recycle(self, name: str, volume: PersistentVolume, recorder: Any) -> None:
            recorder("Normal", "scrubbing")

    world = World(released("Released", "Recycle"), plugins=[Talks(PLUGIN)])
    world.controller.settle()
    assert world.events()[0] == "Normal RecyclerPod Recycler pod: scrubbing"


def test_two_plugins_for_one_volume() -> None:
    world = World(released("Released", "Delete"), plugins=[Recycler("a"), Recycler("b")])
    world.controller.settle()
    assert world.volumes()[0].status.message == (
        'Error getting deleter volume plugin for volume "v": multiple volume plugins matched: a,b'
    )


def test_the_real_volume_goes() -> None:
    plugin = Recycler(PLUGIN)
    plugin.new_provisioner(VolumeOptions("v", pvc("c", "uid", "1Gi"), "Delete")).provision(None, ())
    world = World(released("Released", "Delete", BBC | DP), plugins=[plugin])
    assert plugin.volumes == {"v": 2**30}
    world.controller.settle()
    assert (plugin.volumes, world.volumes()) == ({}, [])


def test_the_plugin_leaves_a_volume_alone_that_is_being_deleted() -> None:
    """8-13"""
    plugin = Recycler(PLUGIN)
    world = World(released("Released", "Delete", deletion="2026-01-01T00:00:00Z"), plugins=[plugin])
    world.controller.settle()
    assert (plugin.calls, len(world.volumes())) == ([], 1)


def test_a_volume_that_nobody_made_for_its_claim_is_not_deleted() -> None:
    """The claim is bound elsewhere."""
    check_sync_volume(
        Case(
            "",
            [released("Bound", "Delete")],
            [pvc("c", "uid", "1Gi", "other", "Bound", None, CHOSEN)],
            [free("v", persistent_volume_reclaim_policy="Delete")],
            events=None,
            world=plugins(),
        )
    )
