"""Upstream's cases of finding volumes for a pod on a node (binder_test.go), asked of both binders."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
    VOLUME_SCHEDULING_STAGE_FAILED,
    with_annotations,
)
from tests.volume.binding.binder_kit import (
    BOUND,
    IMMEDIATE_BOUND,
    IMMEDIATE_UNBOUND,
    NO_PROVISIONER,
    NODE1,
    NODE2,
    PREBOUND,
    PROVISIONED,
    PROVISIONED2,
    PV_1A,
    PV_1B,
    PV_2,
    PV_BOUND,
    PV_BOUND_IMMEDIATE,
    PV_BOUND_IMMEDIATE_2,
    SELECTED,
    TOPO_MISMATCH,
    UNBOUND,
    UNBOUND2,
    Kit,
    capacity,
    claim,
    driver,
    ephemeral_pod,
    lister,
    pod,
    put,
    storage_class,
    volume,
)
from tests.volume.samples import value

from moorage.objects import LabelSelector, LabelSelectorRequirement, Object, OwnerReference, StorageClass
from moorage.volume import (
    BindingInfo,
    DynamicProvision,
    PodVolumes,
    VolumeBinder,
    VolumeError,
)

TO_1A, TO_1B = (UNBOUND, PV_1A), (UNBOUND2, PV_1B)
NOT_BOUND_YET = "pod has unbound immediate PersistentVolumeClaims"
GONE = 'error getting PVC "testns/bound-pvc": could not find v1.PersistentVolumeClaim "testns/bound-pvc"'

# name: the pod's claims; further objects; what is bound, what is provisioned; the reasons, or the error
CASES: dict[str, tuple[list[Any], list[Object], list[Any], list[Any], tuple[str, ...] | str]] = {
    "no-volumes": ([], [], [], [], ()),
    "pvc-not-found": (["bound-pvc"], [], [], [], GONE),
    "bound-pvc": ([BOUND], [PV_BOUND], [], [], ()),
    "bound-pvc,pv-not-exists": ([BOUND], [], [], [], (VOLUME_MISSING,)),
    "prebound-pvc": ([PREBOUND], [PV_1A], [], [], NOT_BOUND_YET),
    "unbound-pvc,pv-same-node": ([UNBOUND], [PV_2, PV_1A, PV_1B], [TO_1A], [], ()),
    "unbound-pvc,pv-different-node": ([UNBOUND], [PV_2], [], [], (BIND_CONFLICT,)),
    "two-unbound-pvcs": ([UNBOUND, UNBOUND2], [PV_1A, PV_1B], [TO_1A, TO_1B], [], ()),
    "two-unbound-pvcs,order-by-size": ([UNBOUND2, UNBOUND], [PV_1A, PV_1B], [TO_1A, TO_1B], [], ()),
    "two-unbound-pvcs,partial-match": ([UNBOUND, UNBOUND2], [PV_1A], [TO_1A], [], (BIND_CONFLICT,)),
    "one-bound,one-unbound": ([UNBOUND, BOUND], [PV_BOUND, PV_1A], [TO_1A], [], ()),
    "one-bound,one-unbound,no-match": ([UNBOUND, BOUND], [PV_BOUND, PV_2], [], [], (BIND_CONFLICT,)),
    "one-prebound,one-unbound": ([UNBOUND, PREBOUND], [PV_1A, PV_1B], [], [], NOT_BOUND_YET),
    "immediate-bound-pvc": ([IMMEDIATE_BOUND], [PV_BOUND_IMMEDIATE], [], [], ()),
    "immediate-bound-pvc-wrong-node": ([IMMEDIATE_BOUND], [PV_BOUND_IMMEDIATE_2], [], [], (NODE_CONFLICT,)),
    "immediate-unbound-pvc": ([IMMEDIATE_UNBOUND], [], [], [], NOT_BOUND_YET),
    "immediate-unbound,delayed-bound": ([IMMEDIATE_UNBOUND, BOUND], [PV_BOUND], [], [], NOT_BOUND_YET),
    "immediate-unbound,delayed-unbound": ([IMMEDIATE_UNBOUND, UNBOUND], [PV_1A], [], [], NOT_BOUND_YET),
    "one-provisioned": ([PROVISIONED], [], [], [PROVISIONED], ()),
    "two-unbound,one-matched,one-provisioned": ([UNBOUND, PROVISIONED], [PV_1A], [TO_1A], [PROVISIONED], ()),
    "one-bound,one-provisioned": ([BOUND, PROVISIONED], [PV_BOUND], [], [PROVISIONED], ()),
    "one-binding,one-selected-node": ([UNBOUND, SELECTED], [PV_1A], [TO_1A], [SELECTED], ()),
    "selected-first": ([PROVISIONED2, SELECTED], [], [], [SELECTED, PROVISIONED2], ()),
    "immediate-unbound,one-provisioned": ([IMMEDIATE_UNBOUND, PROVISIONED], [], [], [], NOT_BOUND_YET),
    "immediate-bound,one-provisioned": (
        [IMMEDIATE_BOUND, PROVISIONED], [PV_BOUND_IMMEDIATE], [], [PROVISIONED], ()),
    "invalid-provisioner": ([NO_PROVISIONER], [], [], [], (BIND_CONFLICT,)),
    "volume-topology-unsatisfied": ([TOPO_MISMATCH], [], [], [], (BIND_CONFLICT,)),
    "both-conflicts": (
        [UNBOUND, IMMEDIATE_BOUND], [PV_BOUND_IMMEDIATE_2], [], [], (NODE_CONFLICT, BIND_CONFLICT)),
    "unbound-and-missing": ([UNBOUND, BOUND], [], [], [], (BIND_CONFLICT, VOLUME_MISSING)),
    "the-first-bound-decides": (
        [IMMEDIATE_BOUND, BOUND], [PV_BOUND_IMMEDIATE_2], [], [], (NODE_CONFLICT,)),
    "class-without-mode": (
        [claim("odd", "1G", "odd")], [], [], [], 'VolumeBindingMode not set for StorageClass "odd"'),
}  # fmt: skip


def filled(claims: list[Any], objects: list[Object]) -> Kit:
    kit = Kit().fill(*(one for one in claims if not isinstance(one, str)), *objects)
    put(kit.classes, storage_class("odd", None, "test-provisioner"))
    return kit


@pytest.mark.parametrize("case", CASES)
def test_volumes_of_a_pod_are_found_in_upstreams_cases(case: str) -> None:
    claims, objects, bound, provisioned, outcome = CASES[case]
    binder, wanted = filled(claims, objects).binder, pod(*claims)
    if outcome == NOT_BOUND_YET:
        assert binder.get_pod_volume_claims(wanted).unbound_immediate
    elif isinstance(outcome, str):
        with pytest.raises(VolumeError) as caught:
            binder.get_pod_volume_claims(wanted)
        assert str(caught.value) == outcome
    else:
        found, reasons = binder.find_pod_volumes(wanted, binder.get_pod_volume_claims(wanted), NODE1)
        assert reasons == outcome
        bindings = [BindingInfo(pv, pvc) for pvc, pv in bound] or None
        assert found == PodVolumes(bindings, [DynamicProvision(pvc) for pvc in provisioned] or None)


@pytest.mark.parametrize("case", CASES)
def test_find_as_of_v1_14(case: str) -> None:
    claims, objects, bound, provisioned, outcome = CASES[case]
    kit, wanted = filled(claims, objects), pod(*claims)
    if isinstance(outcome, tuple) and VOLUME_MISSING in outcome:
        outcome = 'could not find v1.PersistentVolume "pv-bound"'
    if isinstance(outcome, str):
        with pytest.raises(VolumeError) as caught:
            kit.old.find_pod_volumes(wanted, NODE1)
        assert str(caught.value) == outcome
        assert kit.decisions.get_decisions(wanted) is None
        return
    answer = kit.old.find_pod_volumes(wanted, NODE1)
    assert answer == (BIND_CONFLICT not in outcome, NODE_CONFLICT not in outcome)
    bindings = [BindingInfo(pv, pvc) for pvc, pv in bound] or None
    assert kit.decisions.get_bindings(wanted, "node1") == bindings
    assert kit.decisions.get_provisioned_pvcs(wanted, "node1") == (provisioned or None)


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
    for _ in range(50):
        again, reasons = kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)
        assert again.static_bindings is not None
        assert again.static_bindings[0].pv is assumed
        assert reasons == ()
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
    wanted = ephemeral_pod()
    theirs = claim("test-pod-scratch", "1G", "waitClass")
    kit = Kit().fill(theirs, PV_1A)
    with pytest.raises(VolumeError, match="^PVC testns/test-pod-scratch was not created for pod "
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
    without = VolumeBinder(changed(kit.sources, class_lister=lister(StorageClass)))
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
