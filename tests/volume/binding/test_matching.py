"""Which volumes claims match (component-helpers/storage/volume): upstream's cases, whose a volume is, and
`ClaimMatcher` against a search through all volumes."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests import make as kit
from tests.doors.engine import (
    ClaimMatcher,
    find_matching_volume,
    has_access_modes,
    reaches_node,
    suitable_volumes,
)
from tests.volume.binding.binder_kit import (
    PV_1A,
    PV_1A_BOUND,
    UNBOUND,
    Kit,
    claim,
    on,
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
    PersistentVolumeClaim,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


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


# ---- on a node ---------------------------------------------------------------------------------------------


def wide(
    name: str, size: str, node: str = "", *, to: str = "", attributes: str | None = None, **more: Any
) -> PersistentVolume:
    spec: Any = {
        "accessModes": [RWO, ROX],
        "volumeAttributesClassName": attributes,
        "status": {"phase": "Available"},
    }
    spec |= {"claimRef": {"namespace": "testns", "name": to}} if to else {}
    spec |= {"nodeAffinity": on(node)} if node else {}
    return kit.volume(name, "wait", size, **spec | more)


VOLUMES = [
    wide("affinity-pv", "100G", "value1"),
    wide("affinity-pv2", "150G", "value1"),
    wide("affinity-prebound", "100G", "value1", to="claim02"),
    wide("affinity-pv3", "200G", "value3"),
    wide("affinity-pv4", "200G", "value4", status={"phase": "Failed"}),
    wide("affinity-pv-gold", "300G", "value5", attributes="gold"),
    wide("prebound-gold", "100G", "value5", to="claim04", attributes="gold"),
]


def wanted(
    name: str = "claim01",
    modes: tuple[str, ...] = (RWO,),
    attributes: str | None = None,
    size: str = "100G",
    **spec: Any,
) -> PersistentVolumeClaim:
    spec |= {"accessModes": modes, "volumeAttributesClassName": attributes}
    return kit.claim(f"testns/{name}", "wait", "", size, **spec)


@pytest.mark.parametrize(("one", "node", "excluded", "found"), [
    (wanted(), "value1", (), "affinity-pv"),
    (wanted("claim02"), "value1", (), "affinity-prebound"),
    (wanted(), "value1", ("affinity-pv",), "affinity-pv2"),
    (wanted(), "value1", ("affinity-pv", "affinity-pv2"), None),
    (wanted(modes=(RWX,)), "value1", (), None),
    (wanted(), "value2", (), None),
    (wanted("claim02"), "value3", (), None),
    (wanted(), "value4", (), None),
    (wanted(), "value3", (), "affinity-pv3"),
    (wanted(attributes="gold"), "value5", (), "affinity-pv-gold"),
    (wanted(attributes="silver"), "value5", (), None),
    (wanted("claim04", attributes="silver"), "value5", (), None),
    (wanted("claim04", attributes="gold"), "value5", (), "prebound-gold"),
    (wanted("claim02", size="120G"), "value1", (), "affinity-pv2"),
], ids=["match", "prebound", "exclusion", "all-excluded", "access-mode", "affinity", "prebound-affinity",
        "not-available", "bad-and-good-affinity", "gold", "silver", "prebound-silver", "prebound-gold",
        "too-small-prebound-does-not-end-the-search"])  # fmt: skip
def test_with_a_node(
    one: PersistentVolumeClaim, node: str, excluded: tuple[str, ...], found: str | None
) -> None:
    got = ClaimMatcher(one, VOLUMES).find({"nodeKey": node}, excluded)
    assert (got and got.name) == found


def test_without_a_node_only_what_was_bound_beforehand_is_delayed() -> None:
    assert find_matching_volume(wanted(), VOLUMES, True) is None
    found = find_matching_volume(wanted("claim02"), VOLUMES, True)
    assert found is VOLUMES[2]


@pytest.mark.parametrize(("bound", "to", "found"), [
    ("", "", "pv1"),
    ("pv1", "another", "pv5"),
    ("pv8", "claim01", "pv8"),
    ("small", "claim01", "pv1"),
])  # fmt: skip
def test_volumes_bound_beforehand(bound: str, to: str, found: str) -> None:
    sizes = {"small": "1Mi", "pv1": "1Gi", "pv5": "5Gi", "pv8": "8Gi"}
    held = [wide(name, size, "", to=to if name == bound else "") for name, size in sizes.items()]
    got = find_matching_volume(wanted(size="1Gi"), held, False)
    assert got is not None
    assert got.name == found


@pytest.mark.parametrize(("modes", "has"), [
    ((RWX,), True), ((RWO, RWX), True), ((ROX,), False), ((RWX, ROX), False),
])  # fmt: skip
def test_a_volume_has_all_access_modes_that_a_claim_asks_for(modes: tuple[str, ...], has: bool) -> None:
    assert has_access_modes(wide("pv", "1Gi", accessModes=[RWO, RWX]), wanted(modes=modes)) is has


def test_a_volume_that_is_being_deleted_is_nobodys() -> None:
    for going, has in (({}, True), ({"deletionTimestamp": "2020-01-01T00:00:00Z"}, False)):
        held = wide("pv", "1Gi", to="claim01", metadata=going)
        found = find_matching_volume(wanted(size="1Gi"), [held], False)
        assert (found is held) is has


def test_labels_and_modes_of_the_volume() -> None:
    plain, block = wide("pv", "1Gi"), wide("block", "1Gi", volumeMode="Block")
    labelled = wide("labelled", "2Gi", metadata={"labels": {"a": "b"}})
    held = [block, plain, labelled]
    assert find_matching_volume(wanted(size="1Gi"), held, False) is plain
    picky = wanted(size="1Gi", selector={"matchLabels": {"a": "b"}})
    assert find_matching_volume(picky, held, False) is labelled
    assert find_matching_volume(wanted(size="1Gi", volumeMode="Block"), held, False) is block


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
