"""Puts objects over earlier ones, and refuses changes that the API server does not let be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError, examples, shorten

from ..admission.manifest_rules import check_applied
from ..admission.validate_object import validate
from ..model.autoscaling import NodeClaim, NodePool
from ..model.meta import LAST_APPLIED, Object, ObjectMeta, Struct, whole_number
from ..model.node import Node
from ..model.pod import PREEMPTS, Container, Pod, PodSpec
from ..model.policy import ResourceQuota, RuntimeClass
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
from ..read.object_defaults import default_namespace, missing_tolerations
from ..workloads.deployment_rollout import comparable
from .apply_manifest import apply_manifest, has_last_applied
from .refusals import Origin, label

T = TypeVar("T", bound=Object)

_EXAMPLES = 3


def replace_object(old: Object, new: T) -> T:
    """Return the object that replaces another one.

    The new object counts whole; nothing is merged (see `apply_manifest`). What the API server sets stays: the
    status, the node of a bound pod, the volume of a bound claim, and the UID, creation timestamp and resource
    version where the new object has none. A newer reading of the same object (equal UIDs, a higher resource
    version) counts with its status and node.

    Parameters
    ----------
    old : Object
        The object so far.
    new : Object
        An object of the same kind, namespace and name.
    """
    if is_newer(new, old):
        return new
    meta = new.metadata
    changes: dict[str, Any] = {"metadata": _replace_metadata(old.metadata, meta)}
    if "status" in new.__struct_fields__:
        changes["status"] = old.status  # type: ignore[attr-defined]
    if isinstance(old, Pod) and isinstance(new, Pod) and old.spec.node_name:
        changes["spec"] = replace(new.spec, node_name=old.spec.node_name)
    if isinstance(old, PersistentVolumeClaim) and isinstance(new, PersistentVolumeClaim):
        changes["spec"] = replace(new.spec, volume_name=old.spec.volume_name or new.spec.volume_name)
    return replace(new, **changes)


def _replace_metadata(old: ObjectMeta, new: ObjectMeta) -> ObjectMeta:
    return replace(
        new,
        uid=new.uid or old.uid,
        creation_timestamp=new.creation_timestamp or old.creation_timestamp,
        resource_version=new.resource_version or old.resource_version,
    )


def is_newer(obj: Object, other: Object) -> bool:
    """Whether an object is a newer reading of another one from the same API server.

    Parameters
    ----------
    obj, other : Object
        Objects of the same kind, namespace and name.
    """
    meta, before = obj.metadata, other.metadata
    return bool(meta.uid) and meta.uid == before.uid and _version(meta) > _version(before) >= 0


def _version(meta: ObjectMeta) -> int:
    """The resource version; -1 without one that can be compared."""
    version = whole_number(meta.resource_version, 64)
    return -1 if version is None else version


class ListedTwiceError(InputError):
    """An argument has two objects of one name that differ, so nobody knows which one counts."""


class Overlay:
    """Objects in reading order, of which a later one changes an earlier one of the same name.

    A manifest of a later argument of `load` is applied to it by `apply_manifest`; an object without a text
    replaces it by `replace_object`. Objects that are listed twice in one argument must be equal, or readings
    of one API server, of which the newest counts.

    Parameters
    ----------
    objects : list of Object
        All objects in reading order.
    origins : sequence of Origin
        Origin of each object.
    texts : mapping of int to bytes
        By index, the manifests as JSON texts.

    Attributes
    ----------
    before : dict of str to Object
        By `key_of`, the objects that were changed, as they were first.
    applied : set of str
        Those that were changed by a manifest; see `check_update`.
    """

    def __init__(self, objects: list[Object], origins: Sequence[Origin], texts: Mapping[int, bytes]) -> None:
        self._objects = objects
        self._origins = origins
        self._texts = texts
        self._places: dict[tuple[str, str, str], int] = {}
        self._indexed = 0
        self._replaced: dict[int, tuple[Object, int]] = {}  # what counts at an index, and where it is from
        self._dropped: set[int] = set()
        self._ignored: list[str] = []
        self._merged: list[str] = []  # objects of which nothing was removed, as nobody knows what was applied
        self.before: dict[str, Object] = {}
        self.applied: set[str] = set()

    def put(self, at: int) -> None:
        """Put an object over the earlier one of its name.

        Parameters
        ----------
        at : int
            Index of the object; an earlier one has the same kind, namespace and name.

        Raises
        ------
        ListedTwiceError
            The object differs from another one in the same argument.
        InputError
            The object, or what becomes of the earlier one, is invalid.
        """
        new = self._objects[at]
        first = self._first(at)
        old, place = self._replaced.get(first, (self._objects[first], first))
        self._dropped.add(at)
        if _is_equal(new, old):
            return
        if self._origins[at].argument == self._origins[place].argument:
            validate(new)
            if is_newer(new, old):
                self._replaced[first] = new, at
            elif not is_newer(old, new):
                raise ListedTwiceError("listed twice, and different" + _where(self._origins[place]))
            return
        changed = self._changed(old, at)
        self._ignored += _ignored(new, changed, self._origins[at])
        if changed is not new:
            self.before.setdefault(key_of(old), old)
        self._replaced[first] = changed, at

    def _changed(self, old: Object, at: int) -> Object:
        """Return an object after the one at an index was applied."""
        new, text = self._objects[at], self._texts.get(at)
        if text is None or is_newer(new, old):
            validate(new)
            return replace_object(old, new)
        if not has_last_applied(old):
            self._merged.append(label(new.kind, new.namespace, new.name, self._origins[at]))
        self.applied.add(key_of(old))
        changed = apply_manifest(old, text)
        check_applied(old, changed, text)
        validate(changed)
        return changed

    def _first(self, at: int) -> int:
        """The index of the first object with the name of the one at `at`."""
        for index in range(self._indexed, at):
            obj = self._objects[index]
            self._places.setdefault((obj.full_kind, default_namespace(obj), obj.name), index)
        self._indexed = max(self._indexed, at)
        obj = self._objects[at]
        return self._places[obj.full_kind, default_namespace(obj), obj.name]

    def result(self) -> tuple[list[Object], Sequence[Origin]]:
        """Return the objects that count, and their origins.

        Nodes and pods are at the places of the first ones, as a change does not make them younger. Others are
        where they were changed last: controllers follow the changes in that order.
        """
        if not self._dropped:
            return self._objects, self._origins
        listed: list[tuple[int, int, Object]] = []
        for at, obj in enumerate(self._objects):
            if at not in self._dropped:
                obj, place = self._replaced.get(at, (obj, at))
                listed.append((at if isinstance(obj, Node | Pod) else place, place, obj))
        listed.sort(key=itemgetter(0))
        return [obj for _, _, obj in listed], [self._origins[place] for _, place, _ in listed]

    def warnings(self) -> list[str]:
        """Return warnings about what later objects have, or lack, and earlier ones keep."""
        warnings = []
        if self._ignored:
            text = "Status and node of an object that is applied again stay, so these are not read"
            warnings.append(f"{text}: {examples(self._ignored, _EXAMPLES)}.")
        if self._merged:
            text = f"Without the annotation {LAST_APPLIED}, nothing is removed that a new manifest lacks"
            warnings.append(f"{text}: {examples(self._merged, _EXAMPLES)}.")
        return warnings


def key_of(obj: Object) -> str:
    """Return kind, namespace and name of an object, also of one without defaults.

    Returns
    -------
    str
        ``Kind namespace/name``.
    """
    return f"{obj.kind} {default_namespace(obj)}/{obj.name}"


def _is_equal(obj: Object, other: Object) -> bool:
    """Whether two objects of one name are equal, also if only one of them names its namespace ``default``."""
    named = replace(obj.metadata, namespace=other.namespace)
    return replace(obj, metadata=named) == other


def _where(origin: Origin) -> str:
    return f" in {origin.source}, {label('', '', '', origin)}" if origin.source else ""


def _ignored(new: Object, replaced: Object, origin: Origin) -> list[str]:
    """The fields of an object that do not count."""
    fields = []
    status = getattr(new, "status", None)
    if status is not None and status != type(status)() and status != getattr(replaced, "status", None):
        fields.append("status")
    if isinstance(new, Pod) and isinstance(replaced, Pod):
        node = new.spec.node_name
        if node and node != replaced.spec.node_name:
            fields.append("spec.nodeName")
    return [f"{path} of {label(new.kind, new.namespace, new.name, origin)}" for path in fields]


# ---- immutable fields --------------------------------------------------------------------------------------
#
# Refuses changes of fields that the API server does not let change (kubernetes v1.36).

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
    from .custom_schemas import check_custom  # few clusters have Karpenter

    check_custom(new, old)


def _check_stateful_set(old: StatefulSet, new: StatefulSet) -> None:
    if _fixed_part(old) != _fixed_part(new):
        raise InputError(_OF_STATEFUL_SET, path="spec")


def _fixed_part(obj: StatefulSet) -> Any:
    spec = obj.spec
    claims = [
        (
            template.metadata.name,
            template.metadata.labels,
            template.metadata.annotations,
            _claim_part(template.spec),
        )
        for template in spec.volume_claim_templates
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
            replace(container, **{field: getattr(other, field)})
            for container, other in zip(before, after, strict=True)
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
    own = [item for item in before.tolerations if item not in admitted]
    is_kept = all(item in after.tolerations for item in own)
    allowed = replace(
        _with_each(before, after, "image"),
        active_deadline_seconds=after.active_deadline_seconds,
        tolerations=after.tolerations if is_kept else before.tolerations,
        node_name=before.node_name or after.node_name,
    )
    if not (before.node_selector or after.node_selector):
        allowed = replace(allowed, node_selector=after.node_selector)
    if before.scheduling_gates:
        names = {item.name for item in before.scheduling_gates}
        selectors = (before.node_selector or {}).items() <= (after.node_selector or {}).items()
        allowed = replace(
            allowed,
            scheduling_gates=tuple(item for item in after.scheduling_gates if item.name in names),
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
        _check_same(getattr(old, name), getattr(new, name), path)
    _check_same(old.volume_binding_mode, new.volume_binding_mode, "volumeBindingMode")


def _check_runtime_class(old: RuntimeClass, new: RuntimeClass) -> None:
    _check_same(old.handler, new.handler, "handler")


def _check_quota(old: ResourceQuota, new: ResourceQuota) -> None:
    _check_same(old.spec.scopes, new.spec.scopes, "spec.scopes")


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
    ((ResourceQuota,), _check_quota),
    ((ResourceClaim, ResourceClaimTemplate), _check_spec),
    ((Deployment, ReplicaSet, DaemonSet), _check_selector),
    ((NodePool, NodeClaim), _check_custom),
)
