"""Upstream's cases of writing bindings and waiting for them (binder_test.go)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import VOLUME_SCHEDULING_STAGE_FAILED
from tests.volume.binding.binder_kit import (
    NODE1,
    PROVISIONED,
    PROVISIONED2,
    PV_1A,
    PV_1A_BOUND,
    PV_1B,
    PV_1B_BOUND,
    SELECTED,
    UNBOUND,
    UNBOUND2,
    Kit,
    at,
    claim,
    finished,
    pod,
    put,
    volume,
)
from tests.volume.samples import value

from moorage.errors import MoorageError
from moorage.objects import Object, PersistentVolume, PersistentVolumeClaim, Pod
from moorage.store import ConflictError
from moorage.volume import (
    BindingInfo,
    BindTimeoutError,
    DynamicProvision,
    PodVolumes,
    RunningBinding,
    VolumeError,
)

SELECTED2 = claim("provisioned-pvc2", "1Gi", "waitClassWithProvisioner", selected="node1")
A, B = BindingInfo(PV_1A_BOUND, UNBOUND), BindingInfo(PV_1B_BOUND, UNBOUND2)
Found = tuple[list[BindingInfo] | None, list[PersistentVolumeClaim] | None]


def decided(bindings: list[BindingInfo] | None, claims: list[PersistentVolumeClaim] | None) -> PodVolumes:
    provisions = None if claims is None else [DynamicProvision(one) for one in claims]
    return PodVolumes(None if bindings is None else list(bindings), provisions)


# ---- writing -----------------------------------------------------------------------------------------------

NO_BINDINGS = 'failed to get cached bindings for pod "testns/test-pod"'
NO_PROVISIONS = 'failed to get cached claims to provision for pod "testns/test-pod"'
# name: what is assumed; what the API server has instead of the original; the error; what is written by then
WRITES: dict[str, tuple[Found, list[Object], str | None, list[Object]]] = {
    "nothing-decided": ((None, None), [], NO_BINDINGS, []),
    "no-bindings": ((None, []), [], NO_BINDINGS, []),
    "no-provisionings": (([], None), [], NO_PROVISIONS, []),
    "nothing-to-do": (([], []), [], None, []),
    "one-binding": (([A], []), [], None, [PV_1A_BOUND]),
    "two-bindings": (([A, B], []), [], None, [PV_1A_BOUND, PV_1B_BOUND]),
    "api-already-updated": (([A], []), [PV_1A_BOUND], None, [PV_1A_BOUND]),
    "api-update-failed": (([A, B], []), [at(PV_1B, 2)], "the object has been modified", [PV_1A_BOUND]),
    "one-provisioned-pvc": (([], [SELECTED]), [], None, [SELECTED]),
    "provision-api-update-failed": (
        ([], [SELECTED, SELECTED2]), [at(PROVISIONED2, 2)], "the object has been modified", [SELECTED]),
    "binding-succeed,provision-fails": (
        ([A], [SELECTED]), [at(PROVISIONED, 2)], "the object has been modified", [PV_1A_BOUND]),
    "binding-fails,nothing-provisioned": (
        ([A], [SELECTED]), [at(PV_1A, 2)], "the object has been modified", []),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITES)
def test_bindings_are_written_in_upstreams_cases(case: str) -> None:
    (bindings, claims), held, error, written = WRITES[case]
    kit = Kit().fill(PV_1A, PV_1B, PROVISIONED, PROVISIONED2)
    volumes, assumed = decided(bindings, claims), [one.pv for one in bindings or ()]
    for one in assumed:
        kit.pvs.assume(one)
    for wanted in claims or ():
        kit.pvcs.assume(wanted)
    kit.api.objects.update({f"{obj.kind}/{obj.key}": obj for obj in held})
    before = dict(kit.api.objects)
    if error is None:
        kit.binder.begin(pod(), volumes)
    else:
        with pytest.raises(MoorageError) as caught:
            kit.binder.begin(pod(), volumes)
        assert str(caught.value) == error
    # What was written is the API server's, known, and still assumed; the rest is as the informers have it.
    names = [f"{obj.kind}/{obj.key}" for obj in written]
    assert kit.api.objects == before | dict(zip(names, (at(obj, 2) for obj in written), strict=True))
    if volumes.static_bindings is None or volumes.dynamic_provisions is None:
        return
    lists: list[Any] = [one.pv for one in volumes.static_bindings]
    lists += [one.pvc for one in volumes.dynamic_provisions]
    for obj, original in zip(lists, [*assumed, *(claims or ())], strict=True):
        cache: Any = kit.pvs if isinstance(obj, PersistentVolume) else kit.pvcs
        known = f"{obj.kind}/{obj.key}" in names
        assert obj == (at(original, 2) if known else original)
        assert cache.get(obj.key) is (original if known else cache.get_api_obj(obj.key))


# ---- checking ----------------------------------------------------------------------------------------------

FINISHED, FINISHED2 = finished(UNBOUND, "pv-node1a"), finished(UNBOUND2, "pv-node1b")
PREBOUND = replace(UNBOUND, spec=replace(UNBOUND.spec, volume_name="pv-node1a"))
GOT = finished(SELECTED, "pv-bound")
PV_GOT = volume("pv-bound", "1Gi", to=GOT)


def held_as(volume: PersistentVolume, **reference: str) -> PersistentVolume:
    held = replace(volume.spec.claim_ref, **reference) if reference and volume.spec.claim_ref else None
    return replace(volume, spec=replace(volume.spec, claim_ref=held))


def marked(**annotations: str) -> PersistentVolumeClaim:
    return replace(PROVISIONED, metadata=replace(PROVISIONED.metadata, annotations=annotations))


# name: what was written; what the informers have; True, False for "wait", or the error
CHECKS: dict[str, tuple[Found, list[Object], bool | str]] = {
    "nothing-decided": ((None, None), [], NO_BINDINGS),
    "no-bindings": ((None, []), [], NO_BINDINGS),
    "no-provisionings": (([], None), [], NO_PROVISIONS),
    "nothing-to-bind": (([], []), [], True),
    "binding-bound": (([A], []), [PV_1A_BOUND, FINISHED], True),
    "binding-prebound": (([A], []), [PV_1A_BOUND, PREBOUND], False),
    "binding-unbound": (([A], []), [PV_1A_BOUND, UNBOUND], False),
    "binding-pvc-not-exists": (
        ([A], []), [PV_1A_BOUND],
        'failed to check binding: could not find v1.PersistentVolumeClaim "testns/unbound-pvc"'),
    "binding-pv-not-exists": (
        ([A], []), [FINISHED], 'failed to check binding: could not find v1.PersistentVolume "pv-node1a"'),
    "binding-older": (([BindingInfo(at(PV_1A_BOUND, 2), UNBOUND)], []), [PV_1A, FINISHED], False),
    "binding-newer": (([A], []), [at(PV_1A_BOUND, 2), FINISHED], True),
    "versions-are-numbers": (([BindingInfo(at(PV_1A_BOUND, 9), UNBOUND)], []),
                             [at(PV_1A_BOUND, 10), FINISHED], True),
    "claimref-nil": (([A], []), [held_as(PV_1A_BOUND), FINISHED], 'ClaimRef got reset for pv "pv-node1a"'),
    "claimref-uid-empty": (
        ([A], []), [held_as(PV_1A_BOUND, uid=""), FINISHED], 'ClaimRef got reset for pv "pv-node1a"'),
    "binding-other-node": (
        ([A], []), [volume("pv-node1a", node="node2", to=UNBOUND), FINISHED],
        'pv "pv-node1a" node affinity doesn\'t match node "node1": no matching NodeSelectorTerms'),
    "one-bound,one-unbound": (([A, B], []), [PV_1A_BOUND, PV_1B_BOUND, FINISHED, UNBOUND2], False),
    "two-bound": (([A, B], []), [PV_1A_BOUND, PV_1B_BOUND, FINISHED, FINISHED2], True),
    "later-ones-are-not-looked-at": (([A, B], []), [PV_1A_BOUND, UNBOUND], False),
    "provisioning-pvc-bound": (([], [SELECTED]), [GOT, PV_GOT], True),
    "provisioning-pvc-unbound": (([], [SELECTED]), [SELECTED], False),
    "provisioning-older": (([], [at(SELECTED, 2)]), [PROVISIONED], False),
    "provisioning-pvc-not-exists": (
        ([], [SELECTED]), [],
        'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "testns/provisioned-pvc"'),
    "provisioning-annotations-nil": (
        ([], [SELECTED]), [marked()], 'selectedNode annotation reset for PVC "provisioned-pvc"'),
    "provisioning-selected-node-dropped": (
        ([], [SELECTED]), [marked(other="yes")], 'provisioning failed for PVC "provisioned-pvc"'),
    "provisioning-wrong-node": (
        ([], [SELECTED]), [marked(**{"volume.kubernetes.io/selected-node": "wrong"})],
        'provisioning failed for PVC "provisioned-pvc"'),
    "provisioning-other-node": (
        ([], [SELECTED]), [GOT, volume("pv-bound", "1Gi", "node2", to=GOT)],
        'pv "pv-bound" node affinity doesn\'t match node "node1": no matching NodeSelectorTerms'),
    "binding-bound,provisioning-unbound": (([A], [SELECTED]), [PV_1A_BOUND, FINISHED, SELECTED], False),
    "provisioning-pvc-bound,pv-not-found": (([], [SELECTED]), [GOT], False),
}  # fmt: skip


def asked(wanted: Pod, volumes: PodVolumes) -> RunningBinding:
    return RunningBinding(wanted, wanted.spec.node_name, volumes, 10.0)


@pytest.mark.parametrize("case", CHECKS)
def test_bindings_are_checked_in_upstreams_cases(case: str) -> None:
    (bindings, claims), held, outcome = CHECKS[case]
    kit, wanted = Kit().fill(pod(), *held), pod()
    running = asked(wanted, decided(bindings, claims))
    if isinstance(outcome, bool):
        assert kit.binder.check(running) is outcome
    else:
        with pytest.raises(VolumeError) as caught:
            kit.binder.check(running)
        assert str(caught.value) == f"binding volumes: {outcome}"


def test_check_without_the_pod_or_the_node() -> None:
    kit = Kit()
    with pytest.raises(VolumeError, match=r'^pod does not exist any more: pod "test-pod" not found$'):
        kit.binder.is_binding_complete(asked(pod(), decided([], [])))
    with pytest.raises(VolumeError, match=r'^failed to get node "gone": node "gone" not found$'):
        kit.binder.is_binding_complete(asked(pod(node="gone"), decided([], [])))


# ---- in time -----------------------------------------------------------------------------------------------


def later(*objects: Object) -> Callable[[Kit], None]:
    def fill(kit: Kit) -> None:
        kit.fill(*objects)

    return fill


GONE_CLAIM = 'failed to check binding: could not find v1.PersistentVolumeClaim "testns/unbound-pvc"'


def drop_pod(kit: Kit) -> None:
    kit.pods._indexer.remove(pod().key)
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
        DYNAMIC, later(at(marked(other="yes"), 3)), 5, 'provisioning failed for PVC "provisioned-pvc"'),
}  # fmt: skip


def start(found: Found) -> tuple[Kit, PodVolumes]:
    kit = Kit().fill(pod(), PV_1A, UNBOUND, PROVISIONED)
    for binding in found[0] or ():
        kit.pvs.assume(binding.pv)
    for wanted in found[1] or ():
        kit.pvcs.assume(wanted)
    kit.decisions.update_bindings(pod(), "node1", *deepcopy(found))
    return kit, decided(*found)


@pytest.mark.parametrize("old", [False, True], ids=["v1.36", "v1.14"])
@pytest.mark.parametrize("case", RUNS)
def test_binding_ends_in_upstreams_cases(case: str, old: bool) -> None:
    found, action, end, error = RUNS[case]
    kit, volumes = start(found)
    if action is not None:
        kit.actions[5.0] = lambda: action(kit)
    failed = value(VOLUME_SCHEDULING_STAGE_FAILED, "bind")

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
    assert value(VOLUME_SCHEDULING_STAGE_FAILED, "bind") == failed + (error is not None)


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
