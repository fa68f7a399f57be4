"""Which objects become workloads of Kueue, and which (v0.17, pkg/controller/jobframework)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha1

import msgspec
from msgspec.structs import replace

from moorage.errors import located, nearest
from moorage.kube.model.kueue import (
    LocalQueue,
    PodSet,
    PriorityClassRef,
    Workload,
    WorkloadPriorityClass,
    WorkloadSpec,
)
from moorage.kube.model.meta import Object, ObjectMeta, OwnerReference, whole_number
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import (
    DEFAULT_QUEUE,
    KUEUE,
    QUEUE,
    CustomObject,
    Deployment,
    Job,
    LeaderWorkerSet,
    PodTemplateSpec,
    StatefulSet,
    full_kind,
)
from moorage.kube.read.object_defaults import priority_classes
from moorage.kube.workloads.kind_table import QUEUED

from ..workloads import JOB_UID
from .pod_sets import of_groups, of_job, of_values, pod_set

_PRIORITY = f"{KUEUE}/priority-class"
POD_GROUP, _TOTAL = f"{KUEUE}/pod-group-name", f"{KUEUE}/pod-group-total-count"
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

    def workloads(self, objects: Iterable[Object]) -> list[Workload]:
        """Return the workloads of objects that name a queue, in the order of the objects; those of groups of
        pods that are complete come last.

        Raises
        ------
        InputError
            A field of an object has a wrong type.
        """
        workloads: list[Workload] = []
        groups: dict[tuple[str, str], list[Pod]] = {}
        for obj in objects:
            if not self.queue_of(obj) or _is_controlled(obj):
                continue
            if isinstance(obj, Pod) and (name := obj.metadata.labels.get(POD_GROUP)):
                groups.setdefault((obj.namespace, name), []).append(obj)
                continue
            workloads += self.made_of(obj)
        for (_, name), pods in groups.items():
            total = whole_number(pods[0].metadata.annotations.get(_TOTAL, ""))
            if total is None or len(pods) >= total:
                workload = self._workload(pods[0], _roles(pods), "")
                workloads.append(replace(workload, metadata=_meta(pods[0], name)))
        return workloads

    def made_of(self, obj: Object) -> list[Workload]:
        """Return the workloads of a job."""
        with located(obj=obj.full_name):
            sets = list(_sets_of(obj))
        is_numbered = obj.kind in ("LeaderWorkerSet", "Deployment")
        return [self._workload(obj, each, f"-{at}" if is_numbered else "") for at, each in enumerate(sets)]

    def refusal(self, workload: Workload) -> str:
        """Return why Kueue does not make a workload, as its class of priority is not there; "" if it does."""
        ref = workload.spec.priority_class_ref
        classes = self._classes if ref is not None and ref.group == KUEUE else self._pod_classes
        if ref is None or ref.name in classes:
            return ""
        hint = nearest(ref.name, classes)
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

    def _workload(self, obj: Object, pod_sets: list[PodSet], suffix: str) -> Workload:
        ref, priority = self._priority(obj, pod_sets)
        spec = WorkloadSpec(
            pod_sets=tuple(pod_sets),
            queue_name=self.queue_of(obj),
            priority=priority,
            priority_class_ref=ref,
        )
        return Workload(metadata=_meta(obj, workload_name(obj, suffix)), spec=spec)

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


def workload_name(obj: Object, suffix: str = "") -> str:
    """Return the name of the workload of an object, as Kueue makes it of its kind, name and UID."""
    group = obj.api_version.rpartition("/")[0]
    name = f"{obj.name}{suffix}"
    digest = sha1("\n".join((obj.kind, group, name, obj.metadata.uid)).encode()).hexdigest()
    return f"{f'{obj.kind.lower()}-{name}'[:_LONGEST]}-{digest[:5]}"


def _meta(obj: Object, name: str) -> ObjectMeta:
    meta = obj.metadata
    owner = OwnerReference(
        api_version=obj.api_version, kind=obj.kind, name=obj.name, uid=meta.uid, controller=True
    )
    return ObjectMeta(
        name=name,
        namespace=meta.namespace or "default",
        uid=f"workload-{meta.uid or obj.key}-{name}",
        creation_timestamp=meta.creation_timestamp,
        labels={JOB_UID: meta.uid} if meta.uid else {},
        owner_references=(owner,),
    )


def _sets_of(obj: Object) -> Iterator[list[PodSet]]:
    """Yield the sets of pods of each workload of an object; each pod of a Deployment is one."""
    if isinstance(obj, Job):
        yield of_job(obj)
    elif isinstance(obj, Pod):
        yield [_of_pod(obj)]
    elif isinstance(obj, StatefulSet):
        yield [pod_set("main", 1 if obj.spec.replicas is None else obj.spec.replicas, obj.spec.template)]
    elif isinstance(obj, Deployment):
        for _ in range(1 if obj.spec.replicas is None else obj.spec.replicas):
            yield [pod_set("main", 1, obj.spec.template)]
    elif isinstance(obj, LeaderWorkerSet):
        groups = 1 if obj.spec.replicas is None else obj.spec.replicas
        yield from [of_groups(obj)] * groups
    elif isinstance(obj, CustomObject) and obj.full_kind in QUEUED:
        yield of_values(msgspec.json.decode(obj.document))


def _of_pod(pod: Pod, name: str = "main", count: int = 1) -> PodSet:
    meta = ObjectMeta(annotations=pod.metadata.annotations)
    return pod_set(name, count, PodTemplateSpec(metadata=meta, spec=pod.spec))


def _roles(pods: list[Pod]) -> list[PodSet]:
    """Return the pods of a group by what they are: a set for each spec."""
    roles: dict[str, list[Pod]] = {}
    for pod in pods:
        role = sha1(msgspec.json.encode(pod.spec, order="deterministic")).hexdigest()[:8]
        roles.setdefault(role, []).append(pod)
    return [_of_pod(each[0], role, len(each)) for role, each in sorted(roles.items())]
