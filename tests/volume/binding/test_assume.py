"""Upstream's cases of assuming what was found for a pod's volumes (binder_test.go)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    VOLUME_SCHEDULING_STAGE_FAILED,
    with_annotations,
)
from tests.volume.binding.binder_kit import (
    BOUND,
    PROVISIONED,
    PROVISIONED2,
    PV_1A,
    PV_1A_BOUND,
    PV_1B,
    PV_1B_BOUND,
    PV_BOUND,
    UNBOUND,
    UNBOUND2,
    Kit,
    at,
    capacity,
    pod,
)
from tests.volume.samples import value

from moorage.objects import PersistentVolume
from moorage.volume import (
    BindingInfo,
    DynamicProvision,
    PodVolumes,
    VolumeError,
)

A, B = BindingInfo(PV_1A, UNBOUND), BindingInfo(PV_1B, UNBOUND2)
# name: what was found; the volumes and claims as held by the caches; what is bound then, or None on failure
CASES: dict[str, tuple[list[BindingInfo], list[Any], list[Any], list[PersistentVolume] | None]] = {
    "one-binding": ([A], [], [PV_1A, UNBOUND], [PV_1A_BOUND]),
    "two-bindings": ([A, B], [], [PV_1A, PV_1B, UNBOUND, UNBOUND2], [PV_1A_BOUND, PV_1B_BOUND]),
    "pv-already-bound": ([BindingInfo(PV_1A_BOUND, UNBOUND)], [], [PV_1A_BOUND, UNBOUND], [PV_1A_BOUND]),
    "tmpupdate-failed": ([A, B], [], [PV_1A, UNBOUND, UNBOUND2], None),
    "one-binding,one-pvc-provisioned": ([A], [PROVISIONED], [PV_1A, UNBOUND, PROVISIONED], [PV_1A_BOUND]),
    "one-binding,one-provision-tmpupdate-failed": (
        [A], [PROVISIONED, PROVISIONED2], [PV_1A, UNBOUND, PROVISIONED, at(PROVISIONED2, 2)], None),
}  # fmt: skip


@pytest.mark.parametrize("old", [False, True], ids=["v1.36", "v1.14"])
@pytest.mark.parametrize("case", CASES)
def test_volumes_of_a_pod_are_assumed_in_upstreams_cases(case: str, old: bool) -> None:
    bindings, claims, held, outcome = CASES[case]
    kit, wanted = Kit().fill(*held), pod(*(one.pvc for one in bindings), *claims, node="")
    found = PodVolumes(list(bindings), [DynamicProvision(one) for one in claims] or None)
    kit.decisions.update_bindings(wanted, "node1", list(bindings), list(claims) or None)

    def assume() -> bool:
        return (
            kit.old.assume_pod_volumes(wanted, "node1")
            if old
            else kit.binder.assume_pod_volumes(wanted, "node1", found)
        )

    if outcome is None:
        failed = value(VOLUME_SCHEDULING_STAGE_FAILED, "assume")
        with pytest.raises(VolumeError):
            assume()
        assert value(VOLUME_SCHEDULING_STAGE_FAILED, "assume") == failed + 1
        expected, provisions = list(bindings), list(claims) or None
        for obj in held:
            cache: Any = kit.pvs if isinstance(obj, PersistentVolume) else kit.pvcs
            assert cache.get(obj.key) is obj
    else:
        assert not assume()
        expected = [BindingInfo(volume, one.pvc) for volume, one in zip(outcome, bindings, strict=True)]
        provisions = [with_annotations(one, {SELECTED_NODE: "node1"}) for one in claims]
        assert [kit.pvs.get_pv(volume.name) for volume in outcome] == outcome
        assert [kit.pvcs.get_pvc(one.key) for one in claims] == provisions
        assert [kit.pvs.get_api_pv(one.pv.name) for one in bindings] == [one.pv for one in bindings]
    if old:
        assert kit.decisions.get_bindings(wanted, "node1") == expected
        assert kit.decisions.get_provisioned_pvcs(wanted, "node1") == provisions
    else:
        assert found.static_bindings == expected
        given = found.dynamic_provisions
        assert (None if given is None else [one.pvc for one in given]) == provisions


def test_a_pod_whose_claims_are_bound_has_nothing_to_assume() -> None:
    kit, wanted = Kit().fill(BOUND, PV_BOUND), pod(BOUND)
    found = PodVolumes()
    assert kit.binder.assume_pod_volumes(wanted, "node1", found)
    assert found == PodVolumes()
    assert kit.old.assume_pod_volumes(wanted, "node1")
    assert kit.decisions.get_decisions(wanted) is None


def test_a_claim_that_is_gone_is_not_bound() -> None:
    kit = Kit()
    assert not kit.binder.assume_pod_volumes(pod(BOUND), "node1", PodVolumes())
    assert not kit.old.assume_pod_volumes(pod(BOUND), "node1")
    assert kit.decisions.get_bindings(pod(BOUND), "node1") == []


def test_what_was_found_stays_as_it_is() -> None:
    kit = Kit().fill(PV_1A, UNBOUND, PROVISIONED)
    room = capacity("room")
    found = PodVolumes([A], [DynamicProvision(PROVISIONED, room)])
    kit.binder.assume_pod_volumes(pod(UNBOUND, PROVISIONED), "node1", found)
    assert PV_1A.spec.claim_ref is None
    assert BOUND_BY_CONTROLLER not in PV_1A.metadata.annotations
    assert SELECTED_NODE not in PROVISIONED.metadata.annotations
    assert found.dynamic_provisions is not None
    assert found.dynamic_provisions[0].node_capacity is room


def test_reverting_restores_the_objects_of_the_informers() -> None:
    kit = Kit().fill(PV_1A, UNBOUND, PROVISIONED)
    found = PodVolumes([A], [DynamicProvision(PROVISIONED)])
    kit.binder.assume_pod_volumes(pod(UNBOUND, PROVISIONED), "node1", found)
    for _ in range(2):
        kit.binder.revert_assumed_pod_volumes(found)
        assert kit.pvs.get_pv("pv-node1a") is PV_1A
        assert kit.pvcs.get_pvc("testns/provisioned-pvc") is PROVISIONED
    kit.binder.revert_assumed_pod_volumes(PodVolumes())
