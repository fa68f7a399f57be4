"""What present-day controllers do for claims that no volume suits: give them the default class, and say for
which pods they wait."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    CHOSEN,
    FAILED,
    PLUGIN,
    Case,
    World,
    check_sync_claim,
    free,
    known,
    made_by,
    pv,
    pvc,
)
from tests.core.make import pod
from tests.doors.engine import BETA_STORAGE_CLASS
from tests.volume.make import uses

from moorage.objects import ObjectMeta, Pod, StorageClass

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def default(
    name: str, created: str | None = "2024-01-01T00:00:00Z", mark: str = DEFAULT_CLASS, value: str = "true"
) -> StorageClass:
    meta = ObjectMeta(name=name, creation_timestamp=created, annotations={mark: value})
    return StorageClass(metadata=meta, provisioner=PLUGIN, volume_binding_mode="Immediate")


CLAIM = pvc("c", "uid", "1Gi")
LATER = "2023-12-31T23:30:00-01:00"

CASES = [
    Case("no default class", [], [CLAIM], events=FAILED, others=[default("d", value="yes")]),
    *(
        Case(
            f"{len(classes)} classes, {given} is given",
            [],
            [CLAIM],
            then_claims=[pvc("c", "uid", "1Gi", class_name=given)],
            events=None,
            others=classes,
        )
        for given, classes in [
            ("d", [default("d")]),
            ("beta", [default("beta", mark="storageclass.beta.kubernetes.io/is-default-class")]),
            ("b", [default("c"), default("b"), default("d")]),
            ("newest", [default("a"), default("newest", LATER), default("b")]),
        ]
    ),
    Case(
        "a volume that suits goes before it",
        [free("v")],
        [CLAIM],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", {"pv.kubernetes.io/bound-by-controller": "yes"})],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
        others=[default("d")],
    ),
    Case(
        'a claim of class ""',
        [],
        [pvc("c", "uid", "1Gi", class_name="")],
        events=FAILED,
        others=[default("d")],
    ),
    Case(
        'a claim of class "" by annotation',
        [],
        [pvc("c", "uid", "1Gi", "", "Pending", None, {BETA_STORAGE_CLASS: ""})],
        events=FAILED,
        others=[default("d")],
    ),
    Case(
        "a claim that names its volume",
        [],
        [pvc("c", "uid", "1Gi", "v")],
        events=None,
        others=[default("d")],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_claims_without_a_class_become_what_upstreams_cases_say(case: Case) -> None:
    check_sync_claim(case)


def test_a_claim_is_provisioned_by_its_default_class() -> None:
    """It comes back with its class, and is looked at again."""
    world = World(CLAIM, default("d"))
    world.controller.settle()
    assert world.claims() == [pvc("c", "uid", "1Gi", "pvc-uid", "Bound", "d", made_by() | CHOSEN)]


WAITING = pvc("c", "uid", "1Gi", class_name="wait")
FIRST = "Normal WaitForFirstConsumer waiting for first consumer to be created before binding"


def user(name: str, claim: str = "c", on: str = "", phase: str = "") -> Pod:
    one = pod(name, on=on, volumes=(uses(claim=claim), uses(claim=claim)))
    return replace(one, status=replace(one.status, phase=phase))


@pytest.mark.parametrize(
    ("pods", "event"),
    [
        ([user("p", "other"), user("q", on="n"), user("r", phase="Failed")], FIRST),
        ([user("p"), user("q", on="n")], "Normal WaitForPodScheduled waiting for pod p to be scheduled"),
        ([user("q"), user("p")], "Normal WaitForPodScheduled waiting for pods p,q to be scheduled"),
        (
            [pod("c", volumes=(uses(ephemeral="e"),))],
            "Normal WaitForPodScheduled waiting for pod c to be scheduled",
        ),
    ],
    ids=["none", "one", "two", "ephemeral"],
)
def test_whom_a_claim_waits_for(pods: list[Pod], event: str) -> None:
    claim = pvc("c-e", "uid", "1Gi", class_name="wait") if pods[0].spec.volumes[0].ephemeral else WAITING
    check_sync_claim(Case("waits", [], [claim], events=(event,), others=pods))


def test_a_pod_that_is_being_deleted_is_not_waited_for() -> None:
    world = World(WAITING, user("p"))
    world.store.delete(Pod, "p", "default", grace_period_seconds=30)
    controller = known(world)
    controller.sync_claim(controller._writer.claims.get("default/c"))
    assert world.events() == [FIRST]
