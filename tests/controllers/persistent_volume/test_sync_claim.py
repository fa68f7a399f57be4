"""One synchronization of a claim: the tables of upstream's binder_test.go."""

from __future__ import annotations

import pytest
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    BC,
    CHOSEN,
    FAILED,
    MISMATCH,
    NODE1,
    Case,
    check_sync_claim,
    free,
    pv,
    pvc,
)

from moorage.objects import LabelSelector, LabelSelectorRequirement

LABELS = LabelSelector(match_labels={"foo": "true"})
BAD = LabelSelector(match_expressions=(LabelSelectorRequirement(key="foo", operator="Is"),))


UNBOUND = [
    Case(
        "1-1 any volume",
        [free("v")],
        [pvc("c", "uid", "1Gi")],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
        None,
    ),
    Case("1-2 too small", [free("v")], [pvc("c", "uid", "10Gi")], events=FAILED),
    Case(
        "1-3 status Bound",
        [free("v")],
        [pvc("c", "uid", "10Gi", "", "Bound")],
        then_claims=[pvc("c", "uid", "10Gi")],
        events=FAILED,
    ),
    Case(
        "1-4 the smallest",
        [free("v1", "10Gi"), free("v2")],
        [pvc("c", "uid", "1Gi")],
        [free("v1", "10Gi"), pv("v2", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v2", "Bound", None, CHOSEN)],
    ),
    Case(
        "1-5 bound beforehand by name",
        [pv("v1", "10Gi", "", "c", "Available"), free("v2")],
        [pvc("c", "uid", "1Gi")],
        [pv("v1", "10Gi", "uid", "c", "Bound"), free("v2")],
        [pvc("c", "uid", "1Gi", "v1", "Bound", None, CHOSEN, capacity="10Gi")],
    ),
    Case(
        "1-6 bound beforehand by UID",
        [pv("v1", "10Gi", "uid", "c", "Available"), free("v2")],
        [pvc("c", "uid", "1Gi")],
        [pv("v1", "10Gi", "uid", "c", "Bound"), free("v2")],
        [pvc("c", "uid", "1Gi", "v1", "Bound", None, CHOSEN, capacity="10Gi")],
    ),
    Case(
        "1-7 bound beforehand to another of that name",
        [pv("v", "1Gi", "other", "c", "Available")],
        [pvc("c", "uid", "1Gi")],
        events=FAILED,
    ),
    Case(
        "1-8 crash after the first write",
        [pv("v", "1Gi", "uid", "c", "Available", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi")],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
    ),
    Case(
        "1-9 crash after the second write",
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi")],
        None,
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
    ),
    Case(
        "1-10 crash after the third write",
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        None,
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
    ),
    Case(
        "1-11 selector",
        [free("v1"), free("v2", labels={"foo": "true"})],
        [pvc("c", "uid", "1Gi", selector=LABELS)],
        [free("v1"), pv("v2", "1Gi", "uid", "c", "Bound", "Retain", "", BBC, labels={"foo": "true"})],
        [pvc("c", "uid", "1Gi", "v2", "Bound", None, CHOSEN, selector=LABELS)],
    ),
    Case(
        "1-12 selector that nothing matches",
        [free("v1"), free("v2", labels={"foo": "false"})],
        [pvc("c", "uid", "1Gi", selector=LABELS)],
        events=FAILED,
    ),
    Case(
        "1-13 class that waits",
        [free("v", class_name="wait")],
        [pvc("c", "uid", "1Gi", class_name="wait")],
        events=("Normal WaitForFirstConsumer waiting for first consumer to be created before binding",),
    ),
    Case(
        "1-14 class that waits, bound beforehand",
        [pv("v", "1Gi", "", "c", "Available", "Retain", "wait")],
        [pvc("c", "uid", "1Gi", class_name="wait")],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "wait")],
        [pvc("c", "uid", "1Gi", "v", "Bound", "wait", CHOSEN)],
    ),
    Case(
        "1-15 the volume that is named, not the smallest",
        [free("v1", "10Gi"), free("v2")],
        [pvc("c", "uid", "1Gi", "v1")],
        [pv("v1", "10Gi", "uid", "c", "Bound", "Retain", "", BBC), free("v2")],
        [pvc("c", "uid", "1Gi", "v1", "Bound", None, BC, capacity="10Gi")],
    ),
    Case(
        "1-16 access modes of the volume that is named",
        [free("v")],
        [pvc("c", "uid", "1Gi", "v", access_modes=("ReadWriteMany",))],
        events=('Warning VolumeMismatch Cannot bind to requested volume "v": incompatible accessMode',),
    ),
    Case(
        "1-17 volumes that are not available",
        [
            pv("v1", "1Gi", phase="Pending"),
            pv("v2", "1Gi", phase="Failed"),
            pv("v3", "1Gi", phase="Released"),
            pv("v4", "1Gi"),
        ],
        [pvc("c", "uid", "1Gi")],
        events=FAILED,
    ),
    Case(
        "1-18 node selected, volume bound beforehand",
        [pv("v", "1Gi", "uid", "c", "Available", "Retain", "wait")],
        [pvc("c", "uid", "1Gi", "", "Pending", "wait", NODE1)],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "wait")],
        [pvc("c", "uid", "1Gi", "v", "Bound", "wait", NODE1 | CHOSEN)],
    ),
    Case(
        "class that does not say when",
        [],
        [pvc("c", "uid", "1Gi", class_name="no-mode")],
        error='VolumeBindingMode not set for StorageClass "no-mode"',
    ),
    Case(
        "a malformed selector",
        [free("v")],
        [pvc("c", "uid", "1Gi", selector=BAD)],
        error='Error finding PV for claim "default/c": error creating internal label selector for claim: ',
    ),
]

NAMED = [
    Case("2-1 no such volume", [], [pvc("c", "uid", "10Gi", "v")], events=None),
    Case(
        "2-2 no such volume, status Bound",
        [],
        [pvc("c", "uid", "10Gi", "v", "Bound")],
        then_claims=[pvc("c", "uid", "10Gi", "v")],
        events=None,
    ),
    Case(
        "2-3 free volume",
        [free("v")],
        [pvc("c", "uid", "1Gi", "v")],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, BC)],
    ),
    Case(
        "2-4 bound beforehand by name",
        [pv("v", "1Gi", "", "c", "Available")],
        [pvc("c", "uid", "1Gi", "v")],
        [pv("v", "1Gi", "uid", "c", "Bound")],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, BC)],
    ),
    Case(
        "2-5 bound beforehand by UID",
        [pv("v", "1Gi", "uid", "c", "Available")],
        [pvc("c", "uid", "1Gi", "v")],
        [pv("v", "1Gi", "uid", "c", "Bound")],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, BC)],
    ),
    Case(
        "2-6 bound to another claim",
        [pv("v", "1Gi", "other", "other", "Bound")],
        [pvc("c", "uid", "1Gi", "v", "Bound")],
        then_claims=[pvc("c", "uid", "1Gi", "v")],
        events=None,
    ),
    Case(
        "2-7 bound to another claim, by the controller",
        [pv("v", "1Gi", "other", "other", "Bound")],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, BBC)],
        error='Invalid binding of claim "default/c" to volume "v": volume already claimed by "default/other"',
        events=None,
    ),
    Case(
        "2-8 the selector does not count",
        [free("v")],
        [pvc("c", "uid", "1Gi", "v", selector=LABELS)],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, BC, selector=LABELS)],
    ),
    Case(
        "2-9 too small",
        [free("v")],
        [pvc("c", "uid", "2Gi", "v", "Bound")],
        then_claims=[pvc("c", "uid", "2Gi", "v")],
        events=(f'{MISMATCH[0]} "v": requested PV is too small',),
    ),
    Case(
        "2-10 another class",
        [free("v", class_name="gold")],
        [pvc("c", "uid", "1Gi", "v", "Bound")],
        then_claims=[pvc("c", "uid", "1Gi", "v")],
        events=(f'{MISMATCH[0]} "v": storageClassName does not match',),
    ),
    Case(
        "being deleted",
        [free("v", deletion="2026-01-01T00:00:00Z")],
        [pvc("c", "uid", "1Gi", "v")],
        events=(f'{MISMATCH[0]} "v": the volume is marked for deletion "v"',),
    ),
]

BOUND = [
    Case(
        "3-1 names no volume",
        [],
        [pvc("c", "uid", "10Gi", "", "Bound", None, CHOSEN)],
        then_claims=[pvc("c", "uid", "10Gi", "", "Lost", None, CHOSEN)],
        events=(
            "Warning ClaimLost Bound claim has lost reference to PersistentVolume. "
            "Data on the volume is lost!",
        ),
    ),
    Case(
        "3-2 no such volume",
        [],
        [pvc("c", "uid", "10Gi", "v", "Bound", None, CHOSEN)],
        then_claims=[pvc("c", "uid", "10Gi", "v", "Lost", None, CHOSEN)],
        events=("Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",),
    ),
    Case("3-2 again", [], [pvc("c", "uid", "10Gi", "v", "Lost", None, CHOSEN)], events=None),
    Case(
        "3-3 volume that is free",
        [free("v")],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
    ),
    Case(
        "3-4 volume of another of that name",
        [pv("v", "1Gi", "other", "c", "Available")],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        then_claims=[pvc("c", "uid", "1Gi", "v", "Lost", None, CHOSEN)],
        events=(
            "Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly",
        ),
    ),
    Case(
        "3-5 only the phases are wrong",
        [pv("v", "1Gi", "uid", "c", "Available", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
        None,
    ),
    Case(
        "3-6 volume of another claim",
        [pv("v", "1Gi", "other", "other", "Bound")],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        then_claims=[pvc("c", "uid", "1Gi", "v", "Lost", None, CHOSEN)],
        events=("Warning ClaimMisbound",),
    ),
    Case(
        "3-7 the selector does not count",
        [free("v")],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN, selector=LABELS)],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN, selector=LABELS)],
    ),
    Case(
        "volume bound to the claim by name only",
        [pv("v", "1Gi", "", "c", "Available")],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        then_claims=[pvc("c", "uid", "1Gi", "v", "Lost", None, CHOSEN)],
        events=("Warning ClaimMisbound",),
    ),
    Case(
        "everything is right",
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
        events=None,
    ),
    Case(
        "a volume that was resized",
        [pv("v", "5Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
        events=None,
    ),
    Case(
        "a volume without a capacity",
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC, capacity={})],
        [pvc("c", "uid", "1Gi", "v", "Pending", None, CHOSEN)],
        error='PersistentVolume "v" is without a storage capacity',
    ),
]


@pytest.mark.parametrize("case", UNBOUND, ids=str)
def test_unbound_claims_become_what_upstreams_cases_say(case: Case) -> None:
    check_sync_claim(case)


@pytest.mark.parametrize("case", NAMED, ids=str)
def test_claim_that_names_its_volume(case: Case) -> None:
    check_sync_claim(case)


@pytest.mark.parametrize("case", BOUND, ids=str)
def test_bound_claims_become_what_upstreams_cases_say(case: Case) -> None:
    check_sync_claim(case)
