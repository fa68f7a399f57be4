"""Volumes for a pod on a node, beside the rows of `tables.txt`; capacities (binder_test.go)."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import VOLUME_SCHEDULING_STAGE_FAILED, with_annotations
from tests.volume.binding.binder_kit import (
    BOUND,
    NODE1,
    NODE2,
    PROVISIONED,
    PV_1A,
    PV_2,
    PV_BOUND,
    SELECTED,
    UNBOUND,
    UNBOUND2,
    Kit,
    Listed,
    capacity,
    claim,
    driver,
    pod,
    volume,
)
from tests.volume.samples import value
from tests.words import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE

from moorage.engine.volume import BindingInfo, DynamicProvision, PodVolumes, VolumeBinder, VolumeError
from moorage.kube import LabelSelector, LabelSelectorRequirement, OwnerReference, StorageClass


def test_without_claims_nothing_is_kept_or_dropped() -> None:
    kit = Kit()
    kit.decisions.update_bindings(pod(), "node1", [], [])
    assert kit.old.find_pod_volumes(pod(), NODE1) == (True, True)
    assert kit.decisions.get_bindings(pod(), "node1") == []


def test_a_node_selected_elsewhere_ends_the_search_and_drops_what_was_decided() -> None:
    kit, wanted = Kit().fill(UNBOUND, SELECTED, PV_2, BOUND, PV_BOUND), pod(UNBOUND, SELECTED, BOUND)
    kit.decisions.update_bindings(wanted, "node2", [], [])
    assert kit.old.find_pod_volumes(wanted, NODE2) == (False, False)
    assert kit.decisions.get_decisions(wanted) == {}
    claims = kit.binder.get_pod_volume_claims(wanted)
    assert kit.binder.find_pod_volumes(wanted, claims, NODE2) == (
        PodVolumes(),
        (NODE_CONFLICT, BIND_CONFLICT),
    )


def test_the_assumed_volume_is_the_claims_and_nobody_elses() -> None:
    kit, wanted = Kit().fill(PV_2, PV_1A, volume("pv-node1c"), UNBOUND, UNBOUND2), pod(UNBOUND)
    found, _ = kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)
    assert not kit.binder.assume_pod_volumes(wanted, "node1", found)
    assumed = kit.pvs.get_pv("pv-node1a")
    assert found.static_bindings == [BindingInfo(assumed, UNBOUND)]
    again, reasons = kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)
    assert again.static_bindings is not None
    assert (again.static_bindings[0].pv is assumed, reasons) == (True, ())
    other = pod(UNBOUND2)
    seen, _ = kit.binder.find_pod_volumes(other, kit.binder.get_pod_volume_claims(other), NODE1)
    assert seen.static_bindings == [BindingInfo(volume("pv-node1c"), UNBOUND2)]
    # The same claim elsewhere has its volume already: no other one is looked at.
    claims = kit.binder.get_pod_volume_claims(wanted)
    assert kit.binder.find_pod_volumes(wanted, claims, NODE2) == (PodVolumes(), (BIND_CONFLICT,))


def test_the_volumes_are_those_of_the_time_when_the_claims_were_looked_at() -> None:
    kit, wanted = Kit().fill(PV_1A, UNBOUND), pod(UNBOUND)
    claims = kit.binder.get_pod_volume_claims(wanted)
    kit.pvs.remove(PV_1A.key)
    assert kit.binder.find_pod_volumes(wanted, claims, NODE1)[1] == ()


def test_ephemeral_volumes_have_claims_of_the_pods_own() -> None:
    wanted = pod(ephemeral={})
    theirs = claim("test-pod-vol0", "1G", "waitClass")
    kit = Kit().fill(theirs, PV_1A)
    with pytest.raises(VolumeError, match="^PVC testns/test-pod-vol0 was not created for pod "
                       r"testns/test-pod \(pod is not owner\)$"):  # fmt: skip
        kit.binder.get_pod_volume_claims(wanted)
    owner = OwnerReference(kind="Pod", name="test-pod", uid="pod-uid", controller=True)
    mine = replace(theirs, metadata=replace(theirs.metadata, owner_references=(owner,)))
    kit = Kit().fill(mine, PV_1A)
    found, reasons = kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)
    assert (found.static_bindings, reasons) == ([BindingInfo(PV_1A, mine)], ())


def test_errors_are_counted() -> None:
    kit, wanted = Kit().fill(PROVISIONED), pod(PROVISIONED)
    claims = kit.binder.get_pod_volume_claims(wanted)
    before = value(VOLUME_SCHEDULING_STAGE_FAILED, "predicate")
    without = VolumeBinder(changed(kit.sources, class_lister=Listed(StorageClass)))
    with pytest.raises(VolumeError, match=r'^failed to find storage class "waitClassWithProvisioner"$'):
        without.find_pod_volumes(wanted, claims, NODE1)
    annotated = with_annotations(PROVISIONED, {"volume.beta.kubernetes.io/storage-class": ""})
    claims.unbound_delayed[:] = [annotated]
    del claims.__dict__["matchers"]
    with pytest.raises(VolumeError, match=r'^no class for claim "testns/provisioned-pvc"$'):
        kit.binder.find_pod_volumes(wanted, claims, NODE1)
    assert value(VOLUME_SCHEDULING_STAGE_FAILED, "predicate") == before + 2


def test_a_claims_selector_that_cannot_be_read() -> None:
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Bogus"),))
    odd = replace(UNBOUND, spec=replace(UNBOUND.spec, selector=wrong))
    kit = Kit().fill(odd, PV_1A)
    claims = kit.binder.get_pod_volume_claims(pod(odd))
    with pytest.raises(VolumeError, match=r"^error creating internal label selector for claim: "
                       'testns/unbound-pvc: "Bogus" is not a valid label selector operator$'):  # fmt: skip
        kit.binder.find_pod_volumes(pod(odd), claims, NODE1)


# ---- capacity ----------------------------------------------------------------------------------------------

HERE, THERE = (LabelSelector(match_labels={"nodeKey": node}) for node in ("node1", "node2"))
WRONG = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Bogus"),))
# name: the objects, and the place of the one that is found
CAPACITY: dict[str, tuple[list[Any], int | None]] = {
    "network-attached": ([capacity("net")], 0),
    "local-storage": ([capacity("local", topology=HERE)], 0),
    "multiple": ([capacity("far", topology=THERE), capacity("near", topology=HERE), capacity("net")], 1),
    "no-storage": ([], None),
    "wrong-node": ([capacity("far", topology=THERE)], None),
    "no-node": ([capacity("nowhere", topology=None)], None),
    "wrong-selector": ([capacity("odd", topology=WRONG)], None),
    "wrong-storage-class": ([capacity("other", its_class="waitClass")], None),
    "insufficient-storage": ([capacity("small", "1Mi")], None),
    "insufficient-volume-size": ([capacity("sliced", "1Gi", "1Mi")], None),
    "sufficient-volume-size": ([capacity("sliced", None, "1Gi")], 0),
    "zero-storage": ([capacity("empty", "0")], None),
    "zero-volume-size": ([capacity("empty", "1Gi", "0")], None),
    "nil-storage": ([capacity("unknown", None)], None),
}


@pytest.mark.parametrize("case", CAPACITY)
def test_a_claim_is_provisioned_where_there_is_enough_capacity(case: str) -> None:
    objects, place = CAPACITY[case]
    kit, wanted = Kit().fill(PROVISIONED, driver(), *objects), pod(PROVISIONED)
    claims = kit.binder.get_pod_volume_claims(wanted)
    found, reasons = kit.binder.find_pod_volumes(wanted, claims, NODE1)
    if place is None:
        assert (found, reasons) == (PodVolumes(), (NOT_ENOUGH_SPACE,))
    else:
        assert reasons == ()
        assert found.dynamic_provisions == [DynamicProvision(PROVISIONED, objects[place])]


@pytest.mark.parametrize("case", CAPACITY)
@pytest.mark.parametrize("its_driver", [None, driver(None), driver(False)], ids=["none", "unsaid", "out"])
def test_capacity_of_drivers_that_do_not_tell(case: str, its_driver: Any) -> None:
    kit, wanted = Kit().fill(PROVISIONED, *CAPACITY[case][0]), pod(PROVISIONED)
    if its_driver is not None:
        kit.fill(its_driver)
    found, reasons = kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)
    assert (found.dynamic_provisions, reasons) == ([DynamicProvision(PROVISIONED)], ())


def test_a_claim_that_asks_for_nothing_always_fits() -> None:
    spec = replace(PROVISIONED.spec, resources=type(PROVISIONED.spec.resources)())
    nothing = replace(PROVISIONED, spec=spec)
    kit, wanted = Kit().fill(nothing, driver()), pod(nothing)
    assert kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)[1] == ()
