"""Which objects become workloads of Kueue, and which (v0.17, pkg/controller/jobframework)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha1

import msgspec
from msgspec.structs import replace

from moorage.errors import located, nearest_or_known
from moorage.grouped import grouped
from moorage.kube.model.kueue import (
    LocalQueue,
    PodSet,
    PriorityClassRef,
    Workload,
    WorkloadPriorityClass,
    WorkloadSpec,
)
from moorage.kube.model.meta import Object, ObjectMeta, whole_number
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import (
    DEFAULT_QUEUE,
    KUEUE,
    QUEUE,
    CustomObject,
    Job,
    LeaderWorkerSet,
    PodTemplateSpec,
    StatefulSet,
    full_kind,
)
from moorage.kube.read.object_defaults import priority_classes
from moorage.kube.workloads.kind_table import QUEUED
from moorage.kube.workloads.ownership import controller_reference

from ..workloads import JOB_UID
from .pod_sets import of_groups, of_job, of_values, pod_set

_PRIORITY = f"{KUEUE}/priority-class"
POD_GROUP, _TOTAL = f"{KUEUE}/pod-group-name", f"{KUEUE}/pod-group-total-count"
INDEX = f"{KUEUE}/component-workload-index"
"""The annotation of a workload of one group of a LeaderWorkerSet: which group it is of."""
_LONGEST = 253 - 6
_MANAGED = QUEUED | {
    "Job.batch",
    "Deployment.apps",
    "StatefulSet.apps",
    "LeaderWorkerSet.leaderworkerset.x-k8s.io",
}
"""Kinds that become workloads: what they control becomes none of its own."""


class JobWorkloads:
    """Makes workloads of jobs.

    Parameters
    ----------
    objects : iterable of Object
        Of them the classes of priorities count, and LocalQueues.
    frameworks : frozenset of str, optional
        The kinds that become workloads, as Kueue's configuration names them.
    """

    def __init__(self, objects: Iterable[Object], frameworks: frozenset[str] | None = None) -> None:
        self._frameworks = frameworks
        objects = [*objects]
        self._classes: dict[str, int] = {}
        pod_classes = priority_classes(objects).values()
        self._pod_classes = {each.name: each.value for each in pod_classes}
        self._default_priority = min([each.value for each in pod_classes if each.global_default], default=0)
        self._defaults: set[str] = set()
        for obj in objects:
            if isinstance(obj, WorkloadPriorityClass):
                self._classes[obj.name] = obj.value
            elif isinstance(obj, LocalQueue) and obj.name == DEFAULT_QUEUE:
                self._defaults.add(obj.namespace)

    def workload(self, units: Sequence[Object]) -> Workload | None:
        """Return the workload of a job, or of the pods of a group; None without a queue, for what is part of
        another, and until a group is complete.

        Raises
        ------
        InputError
            A field of an object has a wrong type.
        """
        first = units[0]
        if not self.queue_of(first) or _is_controlled(first):
            return None
        with located(obj=first.full_name):
            pod_sets = _sets_of(first)
        name, is_group = workload_name(first), False
        if isinstance(first, Pod) and (group := first.metadata.labels.get(POD_GROUP)):
            total = whole_number(first.metadata.annotations.get(_TOTAL, ""))
            if total is not None and len(units) < total:
                return None
            roles = grouped((role_of(each), each) for each in units if isinstance(each, Pod))
            pod_sets = [_of_pod(each[0], role, len(each)) for role, each in sorted(roles.items())]
            name, is_group = group, True
        ref, priority = self._priority(first, pod_sets)
        return Workload(
            metadata=_meta(units, name, is_group),
            spec=WorkloadSpec(
                pod_sets=tuple(pod_sets),
                queue_name=self.queue_of(first),
                priority=priority,
                priority_class_ref=ref,
            ),
        )

    def refusal(self, workload: Workload) -> str:
        """Return why Kueue does not make a workload, as its class of priority is not there; "" if it does."""
        ref = workload.spec.priority_class_ref
        classes = self._classes if ref is not None and ref.group == KUEUE else self._pod_classes
        if ref is None or ref.name in classes:
            return ""
        listed = f"; kubectl get {ref.kind.lower()}es -o yaml lists those of a cluster"
        hint = nearest_or_known(ref.name, classes) or listed
        return f'{ref.kind}.{ref.group} "{ref.name}" not found, so Kueue makes no Workload{hint}'

    def queue_of(self, obj: Object) -> str:
        """Return the queue that an object names, or has by default; "" for none, or for a kind that is not
        managed."""
        if self._frameworks is not None and framework_of(obj) not in self._frameworks:
            return ""
        named = obj.metadata.labels.get(QUEUE, "")
        if named or full_kind(obj.kind, obj.api_version) not in _MANAGED or _is_controlled(obj):
            return named
        return DEFAULT_QUEUE if (obj.namespace or "default") in self._defaults else ""

    def _priority(self, obj: Object, pod_sets: list[PodSet]) -> tuple[PriorityClassRef | None, int]:
        """Return the class that a job names, or else its first pods that name one, and its priority."""
        if name := obj.metadata.labels.get(_PRIORITY, ""):
            ref = PriorityClassRef(group=KUEUE, kind="WorkloadPriorityClass", name=name)
            return ref, self._classes.get(name, 0)
        names = [each.template.spec.priority_class_name for each in pod_sets]
        if name := next(filter(None, names), ""):
            ref = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=name)
            return ref, self._pod_classes.get(name, 0)
        return None, self._default_priority


def _is_controlled(obj: Object) -> bool:
    """Whether an object is part of another that becomes a workload."""
    owner = obj.metadata.controller()
    return owner is not None and full_kind(owner.kind, owner.api_version) in _MANAGED


def framework_of(obj: Object) -> str:
    """Return how Kueue's configuration names a kind."""
    group, kind = obj.api_version.rpartition("/")[0], obj.kind.lower()
    return kind if group in ("", "apps") else f"{group}/{kind}"


def workload_name(obj: Object) -> str:
    """Return the name of the workload of an object, as Kueue makes it of its kind, name and UID."""
    group, index = obj.api_version.rpartition("/")[0], obj.metadata.annotations.get(INDEX)
    name = obj.name if index is None else f"{obj.name}-{index}"
    digest = sha1("\n".join((obj.kind, group, name, obj.metadata.uid)).encode()).hexdigest()
    return f"{f'{obj.kind.lower()}-{name}'[:_LONGEST]}-{digest[:5]}"


def _meta(units: Sequence[Object], name: str, is_group: bool) -> ObjectMeta:
    """Return the metadata of a workload, which each pod of a group owns, and none controls."""
    meta, owners = units[0].metadata, [owner for each in units for owner in controller_reference(each)]
    return ObjectMeta(
        name=name,
        namespace=meta.namespace or "default",
        uid=f"workload-{meta.uid or units[0].key}-{name}",
        creation_timestamp=meta.creation_timestamp,
        labels={JOB_UID: meta.uid} if meta.uid else {},
        annotations={key: value for key, value in meta.annotations.items() if key == INDEX},
        owner_references=tuple([replace(each, controller=None) for each in owners] if is_group else owners),
    )


def _sets_of(obj: Object) -> list[PodSet]:
    """Return the sets of pods of an object; of a LeaderWorkerSet those of one group."""
    if isinstance(obj, Job):
        return of_job(obj)
    if isinstance(obj, Pod):
        return [_of_pod(obj)]
    if isinstance(obj, StatefulSet):
        return [pod_set("main", 1 if obj.spec.replicas is None else obj.spec.replicas, obj.spec.template)]
    if isinstance(obj, LeaderWorkerSet):
        return of_groups(obj)
    assert isinstance(obj, CustomObject)
    return of_values(msgspec.json.decode(obj.document))


def _of_pod(pod: Pod, name: str = "main", count: int = 1) -> PodSet:
    meta = ObjectMeta(annotations=pod.metadata.annotations)
    return pod_set(name, count, PodTemplateSpec(metadata=meta, spec=pod.spec))


def role_of(pod: Pod) -> str:
    """Return by which name the set of a pod in a group goes: pods that are alike have one."""
    spec = replace(pod.spec, scheduling_gates=(), node_name="")
    return sha1(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:8]
