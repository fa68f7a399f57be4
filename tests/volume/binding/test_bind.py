"""Assuming and binding the volumes of a pod, beside the rows of `tables.txt`: what stays as it is, and
upstream's cases of waiting (binder_test.go)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import metrics, with_annotations
from tests.volume.binding.binder_kit import (
    BOUND,
    NODE1,
    PROVISIONED,
    PV_1A,
    PV_1A_BOUND,
    PV_BOUND,
    SELECTED,
    UNBOUND,
    Found,
    Kit,
    at,
    capacity,
    finished,
    pod,
    pod_volumes,
    put,
    volume,
)
from tests.volume.samples import value
from tests.words import BOUND_BY_CONTROLLER, SELECTED_NODE

from moorage.engine.volume import (
    BindingInfo,
    BindTimeoutError,
    DynamicProvision,
    PodVolumes,
    RunningBinding,
    VolumeError,
)
from moorage.kube import Object, Pod
from moorage.store import ConflictError

# ---- assuming ----------------------------------------------------------------------------------------------


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
    found = PodVolumes([BindingInfo(PV_1A, UNBOUND)], [DynamicProvision(PROVISIONED, room)])
    kit.binder.assume_pod_volumes(pod(UNBOUND, PROVISIONED), "node1", found)
    assert PV_1A.spec.claim_ref is None
    assert BOUND_BY_CONTROLLER not in PV_1A.metadata.annotations
    assert SELECTED_NODE not in PROVISIONED.metadata.annotations
    assert found.dynamic_provisions is not None
    assert found.dynamic_provisions[0].node_capacity is room


def test_reverting_restores_the_objects_of_the_informers() -> None:
    kit = Kit().fill(PV_1A, UNBOUND, PROVISIONED)
    found = PodVolumes([BindingInfo(PV_1A, UNBOUND)], [DynamicProvision(PROVISIONED)])
    kit.binder.assume_pod_volumes(pod(UNBOUND, PROVISIONED), "node1", found)
    for _ in range(2):
        kit.binder.revert_assumed_pod_volumes(found)
        assert kit.pvs.get_pv("pv-node1a") is PV_1A
        assert kit.pvcs.get_pvc("testns/provisioned-pvc") is PROVISIONED
    kit.binder.revert_assumed_pod_volumes(PodVolumes())


# ---- binding -----------------------------------------------------------------------------------------------

A = BindingInfo(PV_1A_BOUND, UNBOUND)
FINISHED, GOT = finished(UNBOUND, "pv-node1a"), finished(SELECTED, "pv-bound")
PV_GOT = volume("pv-bound", "1Gi", to=GOT)
DROPPED = with_annotations(PROVISIONED, {"other": "yes"})
NO_BINDINGS = 'failed to get cached bindings for pod "testns/test-pod"'


def asked(wanted: Pod, volumes: PodVolumes) -> RunningBinding:
    return RunningBinding(wanted, wanted.spec.node_name, volumes, 10.0)


def test_check_without_the_pod_or_the_node() -> None:
    kit = Kit()
    with pytest.raises(VolumeError, match=r'^pod does not exist any more: pod "test-pod" not found$'):
        kit.binder.is_binding_complete(asked(pod(), pod_volumes(([], []))))
    with pytest.raises(VolumeError, match=r'^failed to get node "gone": node "gone" not found$'):
        kit.binder.is_binding_complete(asked(pod(node="gone"), pod_volumes(([], []))))


# ---- in time -----------------------------------------------------------------------------------------------


def later(*objects: Object) -> Callable[[Kit], None]:
    def fill(kit: Kit) -> None:
        kit.fill(*objects)

    return fill


GONE_CLAIM = 'failed to check binding: could not find v1.PersistentVolumeClaim "testns/unbound-pvc"'


def drop_pod(kit: Kit) -> None:
    kit.pods.indexer.remove(pod().key)
    kit.decisions.delete_bindings(pod())


def drop_labels(kit: Kit) -> None:
    put(kit.nodes, replace(NODE1, metadata=replace(NODE1.metadata, labels={})))


STATIC: Found = ([A], [])
DYNAMIC: Found = ([], [SELECTED])
# name: what was assumed; what happens after 5 seconds; the second in which it is over, and the error
RUNS: dict[str, tuple[Found, Callable[[Kit], Any] | None, int, str | None]] = {
    "nothing-decided": ((None, None), None, 0, NO_BINDINGS),
    "nothing-to-bind": (([], []), None, 1, None),
    "static-pv-succeeds-after-time": (
        STATIC, later(at(PV_1A_BOUND, 2), at(FINISHED, 2)), 5, None),
    "dynamic-pv-succeeds-after-time": (DYNAMIC, later(PV_GOT, at(GOT, 3)), 5, None),
    "pod-deleted-after-time": (STATIC, drop_pod, 5, 'pod does not exist any more: pod "test-pod" not found'),
    "times-out": (STATIC, None, 10, "context deadline exceeded"),
    "check-fails": (STATIC, lambda kit: kit.pvcs.remove(UNBOUND.key), 5, GONE_CLAIM),
    "provisioning-fails": (
        DYNAMIC, later(at(DROPPED, 3)), 5, 'provisioning failed for PVC "provisioned-pvc"'),
}  # fmt: skip


def start(found: Found) -> tuple[Kit, PodVolumes]:
    kit = Kit().fill(pod(), PV_1A, UNBOUND, PROVISIONED)
    for binding in found[0] or ():
        kit.pvs.assume(binding.pv)
    for wanted in found[1] or ():
        kit.pvcs.assume(wanted)
    kit.decisions.update_bindings(pod(), "node1", *deepcopy(found))
    return kit, pod_volumes(found)


@pytest.mark.parametrize("old", [False, True], ids=["v1.36", "v1.14"])
@pytest.mark.parametrize("case", RUNS)
def test_binding_ends_in_upstreams_cases(case: str, old: bool) -> None:
    found, action, end, error = RUNS[case]
    kit, volumes = start(found)
    if action is not None:
        kit.actions[5.0] = lambda: action(kit)
    failed = value(metrics.VOLUME_SCHEDULING_STAGE_FAILED, "bind")

    def bind() -> None:
        if old:
            kit.old.bind_pod_volumes(pod())
        else:
            kit.binder.bind_pod_volumes(pod(), volumes)

    if error is None:
        bind()
    else:
        with pytest.raises(VolumeError) as caught:
            bind()
        assert isinstance(caught.value, BindTimeoutError) == (case == "times-out")
        if old:
            error = {
                "pod-deleted-after-time": 'pod "testns/test-pod" does not exist any more',
                "times-out": "timed out waiting for the condition",
                "provisioning-fails": ('selectedNode annotation value "" not set to scheduled node "node1"'),
            }.get(case, error)
        assert str(caught.value) == (error if old or end == 0 else f"binding volumes: {error}")
    assert kit.now == end
    assert value(metrics.VOLUME_SCHEDULING_STAGE_FAILED, "bind") == failed + (error is not None)


def test_a_node_that_loses_its_labels() -> None:
    kit, volumes = start(STATIC)
    kit.actions[1.0] = lambda: kit.fill(at(PV_1A_BOUND, 2))
    kit.actions[5.0] = lambda: drop_labels(kit)
    with pytest.raises(VolumeError, match='node affinity doesn\'t match node "node1"'):
        kit.binder.bind_pod_volumes(pod(), volumes)
    assert kit.now == 5.0


def test_a_provisioned_volume_out_of_reach() -> None:
    kit, volumes = start(DYNAMIC)
    kit.actions[4.0] = lambda: drop_labels(kit)
    kit.actions[5.0] = lambda: kit.fill(PV_GOT, at(GOT, 3))
    with pytest.raises(VolumeError, match='pv "pv-bound" node affinity'):
        kit.binder.bind_pod_volumes(pod(), volumes)


def test_bound_by_the_controller_before() -> None:
    kit, volumes = start(STATIC)
    kit.fill(at(PV_1A_BOUND, 2))
    with pytest.raises(ConflictError):
        kit.binder.bind_pod_volumes(pod(), volumes)
    assert kit.now == 0.0


def test_one_step_at_a_time() -> None:
    kit, volumes = start(STATIC)
    kit.now = 100.0
    running = kit.binder.begin(pod(node=""), volumes, "node1")
    assert running.deadline == 110.0
    assert volumes.static_bindings == [BindingInfo(at(PV_1A_BOUND, 2), UNBOUND)]
    assert not kit.binder.check(running)
    kit.fill(at(PV_1A_BOUND, 2), at(FINISHED, 2))
    kit.now = 110.0
    assert kit.binder.check(running)


def test_after_a_failure_the_next_search_finds_what_was_written() -> None:
    kit, volumes = start(STATIC)
    with pytest.raises(BindTimeoutError):
        kit.binder.bind_pod_volumes(pod(UNBOUND), volumes)
    kit.binder.revert_assumed_pod_volumes(volumes)
    kit.fill(at(PV_1A_BOUND, 2), volume("pv-small", "1G"))
    claims = kit.binder.get_pod_volume_claims(pod(UNBOUND))
    found, reasons = kit.binder.find_pod_volumes(pod(UNBOUND), claims, NODE1)
    assert found.static_bindings == [BindingInfo(at(PV_1A_BOUND, 2), UNBOUND)]
    assert reasons == ()


def test_the_old_lists_have_what_was_written() -> None:
    kit, _ = start(([A], [SELECTED]))
    kit.actions[5.0] = lambda: kit.fill(at(PV_1A_BOUND, 2), at(FINISHED, 2), PV_GOT, at(GOT, 3))
    kit.old.bind_pod_volumes(pod())
    assert kit.decisions.get_bindings(pod(), "node1") == [BindingInfo(at(PV_1A_BOUND, 2), UNBOUND)]
    assert kit.decisions.get_provisioned_pvcs(pod(), "node1") == [at(SELECTED, 2)]
