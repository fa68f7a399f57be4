"""Whose a volume is (component-helpers/storage/volume), and `ClaimMatcher` against a search through all
volumes."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.doors.engine import (
    ClaimMatcher,
    reaches_node,
    suitable_volumes,
)
from tests.volume.binding.binder_kit import (
    PV_1A,
    PV_1A_BOUND,
    UNBOUND,
    Kit,
    claim,
    put,
    storage_class,
    volume,
)
from tests.words import BOUND_BY_CONTROLLER

from moorage.engine.volume import (
    VolumeError,
    get_bind_volume_to_claim,
    is_delay_binding_mode,
    is_volume_bound_to_claim,
)
from moorage.kube import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)


@pytest.mark.parametrize(
    ("name", "delayed"), [("", False), ("gone", False), ("immediateClass", False), ("waitClass", True)]
)
def test_delay_binding_mode(name: str, delayed: bool) -> None:
    assert is_delay_binding_mode(claim("one", "1G", name), Kit().classes) is delayed


def test_a_class_that_does_not_say() -> None:
    classes = Kit().classes
    put(classes, storage_class("odd", None))
    with pytest.raises(VolumeError, match=r'^VolumeBindingMode not set for StorageClass "odd"$'):
        is_delay_binding_mode(claim("one", "1G", "odd"), classes)


# ---- whose a volume is -------------------------------------------------------------------------------------

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


# ---- many volumes ---

values = st.sampled_from(["1", "2", "3"])
labels = st.dictionaries(st.sampled_from(["zone", "host"]), values)
requirements = st.builds(
    lambda key, operator, some: NodeSelectorRequirement(
        key=key, operator=operator, values=tuple(some) if operator.endswith("n") else ()
    ),
    st.sampled_from(["zone", "host"]),
    st.sampled_from(["In", "In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(values, min_size=1, max_size=2),
)
terms = st.builds(
    lambda some: NodeSelectorTerm(match_expressions=tuple(some)), st.lists(requirements, max_size=2)
)
affinities = st.none() | st.builds(
    lambda some: VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(some))),
    st.lists(terms, min_size=1, max_size=2),
)
references = st.none() | st.sampled_from([
    ObjectReference(namespace="testns", name="unbound-pvc"),
    ObjectReference(namespace="testns", name="unbound-pvc", uid="pvc-uid"),
    ObjectReference(namespace="testns", name="another"),
])  # fmt: skip


@st.composite
def volumes(draw: st.DrawFn) -> list[PersistentVolume]:
    made = []
    for place in range(draw(st.integers(0, 8))):
        one = volume(f"pv{place}", draw(st.sampled_from(["1M", "1G", "2G", "3G"])))
        bound = draw(references) if draw(st.integers(0, 4)) == 0 else None
        phase = draw(st.sampled_from(["Available", "Available", "Available", "Released"]))
        spec = replace(one.spec, claim_ref=bound, node_affinity=draw(affinities))
        made.append(replace(one, spec=spec, status=PersistentVolumeStatus(phase=phase)))
    return made


def search(
    held: list[PersistentVolume], labels: dict[str, str], excluded: Container[str]
) -> PersistentVolume | None:
    """As FindMatchingVolume: the first that was bound beforehand, else the first of the smallest."""
    best, best_size = None, 0
    for one, size, was_bound in suitable_volumes(UNBOUND, held):
        if one.name in excluded:
            continue
        if was_bound:
            return one if reaches_node(one, labels) else None
        if (best is None or size < best_size) and reaches_node(one, labels):
            best, best_size = one, size
    return best


@settings(deadline=None)
@given(volumes(), st.lists(labels, min_size=1, max_size=3), st.sets(st.integers(0, 7)))
def test_the_same_volume(held: list[PersistentVolume], nodes: list[dict[str, str]], taken: set[int]) -> None:
    matcher, excluded = ClaimMatcher(UNBOUND, held), {f"pv{place}" for place in taken}
    for its in nodes:
        assert matcher.find(its, excluded) is search(held, its, excluded)
