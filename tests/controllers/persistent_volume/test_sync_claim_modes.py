"""One synchronization of a claim, further tables of binder_test.go: classes, and what volumes are like."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    BC,
    CHOSEN,
    FAILED,
    MISMATCH,
    Case,
    check_sync_claim,
    free,
    pv,
    pvc,
)

CLASSES = [
    Case(
        "13-1 the class before the size",
        [free("v1"), free("v2", "10Gi", "gold")],
        [pvc("c", "uid", "1Gi", class_name="gold")],
        [free("v1"), pv("v2", "10Gi", "uid", "c", "Bound", "Retain", "gold", BBC)],
        [pvc("c", "uid", "1Gi", "v2", "Bound", "gold", CHOSEN, capacity="10Gi")],
    ),
    Case(
        "13-2 no class before the size",
        [free("v1", "1Gi", "gold"), free("v2", "10Gi")],
        [pvc("c", "uid", "1Gi")],
        [free("v1", "1Gi", "gold"), pv("v2", "10Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v2", "Bound", None, CHOSEN, capacity="10Gi")],
    ),
    Case(
        "13-3 one of two classes",
        [free("v1", "1Gi", "silver"), free("v2", "10Gi", "gold")],
        [pvc("c", "uid", "1Gi", class_name="gold")],
        [free("v1", "1Gi", "silver"), pv("v2", "10Gi", "uid", "c", "Bound", "Retain", "gold", BBC)],
        [pvc("c", "uid", "1Gi", "v2", "Bound", "gold", CHOSEN, capacity="10Gi")],
    ),
    *(
        Case(
            f"{name} class {given!r} is none",
            [free("v1", "1Gi", "silver"), free("v2", "10Gi")],
            [pvc("c", "uid", "1Gi", class_name=given)],
            [free("v1", "1Gi", "silver"), pv("v2", "10Gi", "uid", "c", "Bound", "Retain", "", BBC)],
            [pvc("c", "uid", "1Gi", "v2", "Bound", given, CHOSEN, capacity="10Gi")],
        )
        for name, given in (("13-4", ""), ("13-5", None))
    ),
]


def modes(name: str, mode: str, bound: str = "", named: str = "") -> Case:
    """A claim and a volume of one mode: bound, whoever names whom."""
    return Case(
        name,
        [pv("v", "1Gi", "", bound, "Available", volume_mode=mode)],
        [pvc("c", "uid", "1Gi", named, volume_mode=mode)],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", {} if bound else BBC, volume_mode=mode)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, BC if named else CHOSEN, volume_mode=mode)],
    )


BLOCK: dict[str, Any] = {"volume_mode": "Block"}
FILE: dict[str, Any] = {"volume_mode": "Filesystem"}
NO_PLUGIN = {"plugins": ()}
PROVISIONING_FAILED = ("Warning ProvisioningFailed",)
MODES = [
    modes("14-1 block", "Block"),
    modes("14-2 file", "Filesystem"),
    Case(
        "14-3 file volume, block claim",
        [free("v", **FILE)],
        [pvc("c", "uid", "1Gi", **BLOCK)],
        events=FAILED,
    ),
    Case(
        "14-4 block volume, file claim",
        [free("v", **BLOCK)],
        [pvc("c", "uid", "1Gi", **FILE)],
        events=FAILED,
    ),
    Case(
        "14-5 right class, wrong mode",
        [free("v", class_name="gold", **BLOCK)],
        [pvc("c", "uid", "1Gi", class_name="gold", **FILE)],
        events=PROVISIONING_FAILED,
        world=NO_PLUGIN,
    ),
    Case(
        "14-5-1 right mode, wrong class",
        [free("v", class_name="silver", **BLOCK)],
        [pvc("c", "uid", "1Gi", class_name="gold", **BLOCK)],
        events=PROVISIONING_FAILED,
        world=NO_PLUGIN,
    ),
    Case(
        "14-5-2 named, wrong class",
        [free("v", class_name="silver", **BLOCK)],
        [pvc("c", "uid", "1Gi", "v", class_name="gold", **BLOCK)],
        events=MISMATCH,
    ),
    modes("14-7 volume names block claim", "Block", bound="c"),
    Case(
        "14-8 named, wrong mode",
        [free("v", **FILE)],
        [pvc("c", "uid", "1Gi", "v", **BLOCK)],
        events=(f'{MISMATCH[0]} "v": incompatible volumeMode',),
    ),
    Case(
        "14-8-1 volume names claim of another mode",
        [pv("v", "1Gi", "", "c", "Available", **FILE)],
        [pvc("c", "uid", "1Gi", **BLOCK)],
        events=FAILED,
    ),
    modes("14-9 block claim names volume", "Block", named="v"),
    modes("14-10 file volume names claim", "Filesystem", bound="c"),
    modes("14-11 file claim names volume", "Filesystem", named="v"),
    modes("14-12 each names the other", "Filesystem", bound="c", named="v"),
]


@pytest.mark.parametrize("case", CLASSES, ids=str)
def test_claims_with_classes_become_what_upstreams_cases_say(case: Case) -> None:
    check_sync_claim(case)


@pytest.mark.parametrize("case", MODES, ids=str)
def test_claims_are_bound_to_volumes_of_their_mode(case: Case) -> None:
    check_sync_claim(case)


def test_fewer_access_modes_go_before_a_smaller_volume() -> None:
    exact = free("exact", "10Gi")
    wide = free("wide", "1Gi", access_modes=("ReadWriteOnce", "ReadOnlyMany"))
    world = check_sync_claim(
        Case(
            "",
            [wide, exact],
            [pvc("c", "uid", "1Gi")],
            [wide, pv("exact", "10Gi", "uid", "c", "Bound", "Retain", "", BBC)],
            [pvc("c", "uid", "1Gi", "exact", "Bound", None, CHOSEN, capacity="10Gi")],
        )
    )
    assert world.events() == []
