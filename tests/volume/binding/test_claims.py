"""Whom a volume belongs to, and a volume as it is when bound to a claim."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import BOUND_BY_CONTROLLER
from tests.volume.binding.binder_kit import PV_1A, PV_1A_BOUND, UNBOUND

from moorage.objects import ObjectReference, PersistentVolume
from moorage.volume import (
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
    CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    get_bind_volume_to_claim,
    is_volume_bound_to_claim,
)

NAME, NAMESPACE, UID = UNBOUND.name, UNBOUND.namespace, UNBOUND.metadata.uid


def held_by(**reference: Any) -> PersistentVolume:
    return replace(PV_1A, spec=replace(PV_1A.spec, claim_ref=ObjectReference(**reference)))


@pytest.mark.parametrize(
    ("volume", "is_bound"),
    [
        (PV_1A, False),
        (held_by(name=NAME, namespace=NAMESPACE), True),
        (held_by(name=NAME, namespace=NAMESPACE, uid=UID), True),
        (held_by(name=NAME, namespace=NAMESPACE, uid="another"), False),
        (held_by(name="another", namespace=NAMESPACE, uid=UID), False),
        (held_by(name=NAME, namespace="another", uid=UID), False),
        (held_by(name=NAME), False),
    ],
    ids=["free", "beforehand", "bound", "UID", "name", "namespace", "no namespace"],
)
def test_whose_a_volume_is(volume: PersistentVolume, is_bound: bool) -> None:
    assert is_volume_bound_to_claim(volume, UNBOUND) is is_bound


def test_a_free_volume_is_bound_by_the_controller() -> None:
    before = replace(PV_1A)
    bound, is_new = get_bind_volume_to_claim(PV_1A, UNBOUND)
    assert (bound, is_new) == (replace(PV_1A_BOUND, status=PV_1A.status), True)
    assert before == PV_1A


def test_a_volume_that_the_user_bound_gets_the_uid_alone() -> None:
    bound, is_new = get_bind_volume_to_claim(held_by(name=NAME, namespace=NAMESPACE), UNBOUND)
    assert is_new
    assert bound.spec.claim_ref == PV_1A_BOUND.spec.claim_ref
    assert BOUND_BY_CONTROLLER not in bound.metadata.annotations


def test_a_bound_volume_is_the_same() -> None:
    bound, is_new = get_bind_volume_to_claim(PV_1A_BOUND, UNBOUND)
    assert bound is PV_1A_BOUND
    assert not is_new


def test_the_names_of_the_tags_are_upstreams() -> None:
    assert (
        CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
        CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
        CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    ) == (
        "kubernetes.io/created-for/pvc/namespace",
        "kubernetes.io/created-for/pvc/name",
        "kubernetes.io/created-for/pv/name",
    )
