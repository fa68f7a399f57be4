"""Upstream's cases of the helpers that match claims and volumes (component-helpers/storage/volume)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import ClaimMatcher, find_matching_volume, has_access_modes
from tests.volume.binding.binder_kit import (
    Kit,
    claim,
    lister,
    put,
    storage_class,
    volume,
)

from moorage.objects import (
    LabelSelector,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeStatus,
    StorageClass,
)
from moorage.volume import VolumeError, is_delay_binding_mode

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


@pytest.mark.parametrize(
    ("name", "delayed"), [("", False), ("gone", False), ("immediateClass", False), ("waitClass", True)]
)
def test_delay_binding_mode(name: str, delayed: bool) -> None:
    assert is_delay_binding_mode(claim("one", "1G", name), Kit().classes) is delayed


def test_a_class_that_does_not_say() -> None:
    classes = lister(StorageClass)
    put(classes, storage_class("odd", None, "some"))
    with pytest.raises(VolumeError, match=r'^VolumeBindingMode not set for StorageClass "odd"$'):
        is_delay_binding_mode(claim("one", "1G", "odd"), classes)


# ---- on a node ---------------------------------------------------------------------------------------------


def wide(
    name: str, size: str, node: str, *, to: str = "", phase: str = "Available", attributes: str | None = None
) -> PersistentVolume:
    one = volume(name, size, node, "wait")
    held = ObjectReference(namespace="testns", name=to) if to else None
    spec = replace(one.spec, access_modes=(RWO, ROX), claim_ref=held, volume_attributes_class_name=attributes)
    return replace(one, spec=spec, status=PersistentVolumeStatus(phase=phase))


VOLUMES = [
    wide("affinity-pv", "100G", "value1"),
    wide("affinity-pv2", "150G", "value1"),
    wide("affinity-prebound", "100G", "value1", to="claim02"),
    wide("affinity-pv3", "200G", "value3"),
    wide("affinity-pv4", "200G", "value4", phase="Failed"),
    wide("affinity-pv-gold", "300G", "value5", attributes="gold"),
    wide("prebound-gold", "100G", "value5", to="claim04", attributes="gold"),
]


def wanted(
    name: str = "claim01", modes: tuple[str, ...] = (RWO,), attributes: str | None = None, size: str = "100G"
) -> PersistentVolumeClaim:
    one = claim(name, size, "wait")
    return replace(one, spec=replace(one.spec, access_modes=modes, volume_attributes_class_name=attributes))


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
    one = volume("pv")
    one = replace(one, spec=replace(one.spec, access_modes=(RWO, RWX)))
    assert has_access_modes(one, wanted(modes=modes)) is has


def test_a_volume_that_is_being_deleted_is_nobodys() -> None:
    one = wide("pv", "1Gi", "", to="claim01")
    going = replace(one, metadata=replace(one.metadata, deletion_timestamp="2020-01-01T00:00:00Z"))
    for has, held in ((True, one), (False, going)):
        found = find_matching_volume(wanted(size="1Gi"), [held], False)
        assert (found is held) is has


def test_labels_and_modes_of_the_volume() -> None:
    plain, block = wide("pv", "1Gi", ""), wide("block", "1Gi", "")
    block = replace(block, spec=replace(block.spec, volume_mode="Block"))
    labelled = wide("labelled", "2Gi", "")
    labelled = replace(labelled, metadata=replace(labelled.metadata, labels={"a": "b"}))
    one = wanted(size="1Gi")
    picky = replace(one, spec=replace(one.spec, selector=LabelSelector(match_labels={"a": "b"})))
    as_block = replace(one, spec=replace(one.spec, volume_mode="Block"))
    held = [block, plain, labelled]
    assert find_matching_volume(one, held, False) is plain
    assert find_matching_volume(picky, held, False) is labelled
    assert find_matching_volume(as_block, held, False) is block
