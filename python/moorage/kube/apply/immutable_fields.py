"""Refuses changes of fields that the API server does not let change (kubernetes v1.36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError, shorten

from ..model.admission_policies import RuntimeClass
from ..model.karpenter import NodeClaim, NodePool
from ..model.meta import Object, Struct
from ..model.pod import PREEMPTS, Container, Pod, PodSpec
from ..model.resource_claims import ResourceClaim, ResourceClaimTemplate
from ..model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from ..model.workload import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
)
from ..plain import plain
from ..read.object_defaults import missing_tolerations
from ..workloads.deployment_rollout import comparable

_FIXED = "field is immutable"
_OF_STATEFUL_SET = (
    "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
    "are forbidden"
)
_OF_CLAIM = (
    "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)
_OF_POD = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_JOB_FIELDS = {
    "selector": "selector",
    "completion_mode": "completionMode",
    "pod_failure_policy": "podFailurePolicy",
    "success_policy": "successPolicy",
    "backoff_limit_per_index": "backoffLimitPerIndex",
    "managed_by": "managedBy",
}
_CLASS_FIELDS = {"parameters": "parameters", "provisioner": "provisioner", "reclaim_policy": "reclaimPolicy"}


def check_update(old: Object, new: Object) -> None:
    """Check that a new state of an object changes no immutable field.

    Parameters
    ----------
    old, new : Object
        With defaults.

    Raises
    ------
    InputError
        It does; the text is that of the API server.
    """
    for kinds, check in _CHECKS:
        if type(new) in kinds and type(old) is type(new):
            check(old, new)


def _check_same(old: Any, new: Any, path: str) -> None:
    """Check that a value is the same as before, in whatever spelling."""
    if old != new and comparable(old) != comparable(new):
        value = msgspec.json.encode(plain(new)).decode()
        raise InputError(f"Invalid value: {shorten(value)}: {_FIXED}", path=path)


def _check_selector(old: Any, new: Any) -> None:
    _check_same(old.spec.selector, new.spec.selector, "spec.selector")


def _check_custom(old: Object, new: Object) -> None:
    from ..validate.custom_schemas import check_custom  # few clusters have Karpenter

    check_custom(new, old)


def _check_stateful_set(old: StatefulSet, new: StatefulSet) -> None:
    if _fixed_part(old) != _fixed_part(new):
        raise InputError(_OF_STATEFUL_SET, path="spec")


def _fixed_part(obj: StatefulSet) -> Any:
    spec = obj.spec
    claims = [
        (one.metadata.name, one.metadata.labels, one.metadata.annotations, _claim_part(one.spec))
        for one in spec.volume_claim_templates
    ]
    policy = spec.pod_management_policy or "OrderedReady"
    return comparable([spec.selector, claims]), spec.service_name, policy


def _claim_part(spec: Any) -> Any:
    return replace(spec, volume_mode=spec.volume_mode or "Filesystem")


def _check_job(old: Job, new: Job) -> None:
    before, after = old.spec, new.spec
    is_elastic = before.completion_mode == "Indexed" and after.completions == after.parallelism
    if not is_elastic:
        _check_same(before.completions, after.completions, "spec.completions")
    for name, path in _JOB_FIELDS.items():
        _check_same(getattr(before, name), getattr(after, name), f"spec.{path}")
    kept = _schedulable(before.template, after.template) if before.suspend else before.template
    _check_same(kept, after.template, "spec.template")


def _schedulable(old: PodTemplateSpec, new: PodTemplateSpec) -> PodTemplateSpec:
    """Return the template of a suspended Job with what may change: where its pods may run, and what they
    request."""
    spec = replace(
        _with_each(old.spec, new.spec, "resources"),
        node_selector=new.spec.node_selector,
        affinity=new.spec.affinity,
        tolerations=new.spec.tolerations,
        scheduling_gates=new.spec.scheduling_gates,
    )
    meta = replace(old.metadata, labels=new.metadata.labels, annotations=new.metadata.annotations)
    return replace(old, metadata=meta, spec=spec)


def _with_each(old: PodSpec, new: PodSpec, field: str) -> PodSpec:
    """Return a spec whose containers have a field of those of another one."""

    def changed(before: tuple[Container, ...], after: tuple[Container, ...]) -> tuple[Container, ...]:
        if len(before) != len(after):
            return before
        return tuple(
            replace(one, **{field: getattr(other, field)}) for one, other in zip(before, after, strict=True)
        )

    return replace(
        old,
        containers=changed(old.containers, new.containers),
        init_containers=changed(old.init_containers, new.init_containers),
    )


def _check_claim(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
    before = replace(
        _claim_part(old.spec),
        resources=new.spec.resources,
        volume_attributes_class_name=new.spec.volume_attributes_class_name,
        volume_name=old.spec.volume_name or new.spec.volume_name,
    )
    if old.spec.storage_class_name is None and not old.spec.volume_name:
        before = replace(before, storage_class_name=new.spec.storage_class_name)
    if before != _claim_part(new.spec):
        raise InputError(_OF_CLAIM, path="spec")


def _check_volume(old: PersistentVolume, new: PersistentVolume) -> None:
    for name in ("csi", "gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "cinder"):
        if getattr(old.spec, name) != getattr(new.spec, name):
            text = "Forbidden: spec.persistentvolumesource is immutable after creation"
            raise InputError(text, path="spec.persistentvolumesource")
    mode = "Filesystem"
    _check_same(old.spec.volume_mode or mode, new.spec.volume_mode or mode, "spec.volumeMode")
    if old.spec.node_affinity is not None:
        _check_same(old.spec.node_affinity, new.spec.node_affinity, "spec.nodeAffinity")


def _check_pod(old: Pod, new: Pod) -> None:
    before, after = old.spec, new.spec
    admitted = list(missing_tolerations(()))  # those of pods without a node
    own = [one for one in before.tolerations if one not in admitted]
    is_kept = all(one in after.tolerations for one in own)
    allowed = replace(
        _with_each(before, after, "image"),
        active_deadline_seconds=after.active_deadline_seconds,
        tolerations=after.tolerations if is_kept else before.tolerations,
        node_name=before.node_name or after.node_name,
    )
    if before.scheduling_gates:
        names = {one.name for one in before.scheduling_gates}
        selectors = (before.node_selector or {}).items() <= (after.node_selector or {}).items()
        allowed = replace(
            allowed,
            scheduling_gates=tuple(one for one in after.scheduling_gates if one.name in names),
            node_selector=after.node_selector if selectors else before.node_selector,
            affinity=after.affinity,
        )
    if allowed != after and comparable(allowed) != comparable(after):
        raise InputError(_OF_POD, path="spec")


def _check_priority_class(old: PriorityClass, new: PriorityClass) -> None:
    if old.value != new.value:
        raise InputError("Forbidden: may not be changed in an update.", path="value")
    before, after = (each.preemption_policy or PREEMPTS for each in (old, new))
    _check_same(before, after, "preemptionPolicy")


def _check_storage_class(old: StorageClass, new: StorageClass) -> None:
    for name, path in _CLASS_FIELDS.items():
        if getattr(old, name) != getattr(new, name):
            raise InputError(f"Forbidden: updates to {path} are forbidden.", path=path)
    _check_same(old.volume_binding_mode, new.volume_binding_mode, "volumeBindingMode")


def _check_runtime_class(old: RuntimeClass, new: RuntimeClass) -> None:
    _check_same(old.handler, new.handler, "handler")


def _check_spec(old: Any, new: Any) -> None:
    _check_same(old.spec, new.spec, "spec")


_CHECKS: tuple[tuple[tuple[type[Struct], ...], Callable[[Any, Any], None]], ...] = (
    ((StatefulSet,), _check_stateful_set),
    ((Job,), _check_job),
    ((PersistentVolumeClaim,), _check_claim),
    ((PersistentVolume,), _check_volume),
    ((Pod,), _check_pod),
    ((PriorityClass,), _check_priority_class),
    ((StorageClass,), _check_storage_class),
    ((RuntimeClass,), _check_runtime_class),
    ((ResourceClaim, ResourceClaimTemplate), _check_spec),
    ((Deployment, ReplicaSet, DaemonSet), _check_selector),
    ((NodePool, NodeClaim), _check_custom),
)
