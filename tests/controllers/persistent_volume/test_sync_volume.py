"""One synchronization of a volume: the tables of upstream's binder_test.go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    BC,
    CHOSEN,
    DP,
    Case,
    World,
    check_sync_volume,
    free,
    pv,
    pvc,
)

from moorage.store import NotFoundError

FILE: dict[str, Any] = {"volume_mode": "Filesystem"}
BLOCK: dict[str, Any] = {"volume_mode": "Block"}
MODE_EVENTS = (
    'Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" '
    "due to incompatible volumeMode.",
    'Warning VolumeMismatch Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim '
    "due to incompatible volumeMode.",
)

VOLUMES = [
    Case("4-1 unused", [pv("v", "10Gi")], (), [free("v", "10Gi")], events=None),
    Case(
        "4-2 bound beforehand by name",
        [pv("v", "10Gi", "", "c")],
        (),
        [pv("v", "10Gi", "", "c", "Available")],
    ),
    Case(
        "4-3 claim gone",
        [pv("v", "10Gi", "uid", "c", "Bound")],
        (),
        [pv("v", "10Gi", "uid", "c", "Released")],
    ),
    Case(
        "4-4 another claim of that name",
        [pv("v", "10Gi", "uid", "c", "Bound")],
        [pvc("c", "other", "10Gi", "v", "Bound", None, CHOSEN)],
        [pv("v", "10Gi", "uid", "c", "Released")],
    ),
    Case(
        "4-5-1 claim that is not bound, by the controller",
        [pv("v", "10Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "10Gi")],
        events=None,
    ),
    Case(
        "4-5-2 claim that is not bound, by the user",
        [pv("v", "10Gi", "uid", "c", "Bound")],
        [pvc("c", "uid", "10Gi")],
        events=None,
    ),
    Case(
        "4-6 bound, but not in its phase",
        [pv("v", "10Gi", "uid", "c", "Available")],
        [pvc("c", "uid", "10Gi", "v", "Bound")],
        [pv("v", "10Gi", "uid", "c", "Bound")],
    ),
    Case(
        "4-7 claim bound elsewhere, by the controller",
        [pv("v", "10Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "10Gi", "other", "Bound")],
        [free("v", "10Gi")],
    ),
    Case(
        "4-8 claim bound elsewhere, by the user",
        [pv("v", "10Gi", "uid", "c", "Bound")],
        [pvc("c", "uid", "10Gi", "other", "Bound")],
        [pv("v", "10Gi", "", "c", "Available")],
    ),
    *(
        Case(
            name,
            [pv("v", "10Gi", "uid", "c", phase, "Retain", "", marks, **volume_mode)],
            [pvc("c", "uid", "10Gi", **claim_mode)],
            events=events,
        )
        for name, phase, marks, volume_mode, claim_mode, events in (
            ("14-13 wrong mode", "Available", BBC, {}, BLOCK, MODE_EVENTS),
            ("14-13-1 wrong mode, other way", "Available", BBC, BLOCK, {}, MODE_EVENTS),
            ("14-14 right mode", "Available", BBC, BLOCK, BLOCK, None),
            ("14-14-1 right mode, file", "Available", BBC, {}, FILE, None),
        )
    ),
]


@pytest.mark.parametrize("case", VOLUMES, ids=str)
def test_volumes_become_what_upstreams_cases_say(case: Case) -> None:
    check_sync_volume(case)


@pytest.mark.parametrize("marks", [{}, BBC], ids=["user", "controller"])
def test_a_volume_has_its_unbound_claim_looked_at(marks: dict[str, str]) -> None:
    volume = pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", marks)
    world = check_sync_volume(Case("", [volume], [pvc("c", "uid", "1Gi")]))
    queue = world.controller._claim_queue
    assert (queue.take(), queue.take()) == ("default/c", None)


@pytest.mark.parametrize(
    ("marks", "phase", "then"),
    [(BBC, "Bound", "Bound"), (BBC, "Failed", "Failed"), ({}, "Bound", "Released")],
)
def test_a_claim_that_is_not_known_yet(marks: dict[str, str], phase: str, then: str) -> None:
    """Only a volume that the controller or the scheduler bound, and that is in use, has others asked."""
    claim = pvc("c", "uid", "1Gi", "v", "Bound", None, BC)
    volume = pv("v", "1Gi", "uid", "c", phase, "Retain", "", marks)
    case = Case(
        "",
        [volume],
        [claim],
        [replace(volume, status=replace(volume.status, phase=then))],
        prepare=lambda world: world.controller._writer.claims.remove("default/c"),
    )
    check_sync_volume(case)


def test_a_claim_that_only_the_server_knows() -> None:
    claim = pvc("c", "uid", "1Gi", "v", "Bound", None, BC)
    volume = pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)
    case = Case("", [volume], (), None, [claim], prepare=lambda world: world.store.create(claim))
    world = check_sync_volume(case)
    with pytest.raises(NotFoundError):
        world.controller._parameters.claim_informer.lister.get("default/c")


def test_an_unknown_reclaim_policy_is_a_warning() -> None:
    event = "Warning VolumeUnknownReclaimPolicy Volume has unrecognized PersistentVolumeReclaimPolicy"
    check_sync_volume(
        Case(
            "6-10",
            [pv("v", "1Gi", "uid", "c", "Bound", "Wrong", "", BBC)],
            (),
            [
                pv(
                    "v",
                    "1Gi",
                    "uid",
                    "c",
                    "Failed",
                    "Wrong",
                    "",
                    BBC,
                    message="Volume has unrecognized PersistentVolumeReclaimPolicy",
                )
            ],
            events=(event,),
        )
    )


# ---- until nothing happens any more ----


def test_a_volume_without_a_phase_gets_bound() -> None:
    world = World(pv("v", "1Gi", phase="Pending"), pvc("c", "uid", "1Gi"))
    world.controller.settle()
    assert world.volumes() == [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)]
    assert world.claims() == [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)]


def test_two_volumes_bound_to_one_claim() -> None:
    world = World(
        pv("v1", "1Gi", "uid", "c", "Bound", "Retain", "", BBC),
        pv("v2", "1Gi", "uid", "c", "Bound", "Retain", "", BBC),
        pvc("c", "uid", "1Gi", "v2", "Bound", None, CHOSEN),
    )
    world.controller.settle()
    assert world.volumes() == [free("v1"), pv("v2", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)]
    assert world.claims() == [pvc("c", "uid", "1Gi", "v2", "Bound", None, CHOSEN)]


def test_a_migrated_volume_says_so_and_is_left_to_the_driver() -> None:
    driver = "csi.example.com"
    volume = pv("v", "1Gi", "uid", "c", "Bound", "Delete", "", BBC | DP)
    marks = BBC | DP | {"pv.kubernetes.io/migrated-to": driver}
    check_sync_volume(
        Case(
            "",
            [volume],
            (),
            [pv("v", "1Gi", "uid", "c", "Released", "Delete", "", marks)],
            events=None,
            world={"migrated": dict.fromkeys(DP.values(), driver)},
        )
    )
    back = pv("v", "1Gi", "uid", "c", "Bound", "Delete", "", marks)
    check_sync_volume(Case("", [back], (), []))
