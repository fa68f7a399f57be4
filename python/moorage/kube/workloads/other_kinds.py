"""What controllers of other projects make of their workloads.

The ReplicaSets, ReplicationControllers and StatefulSets make the pods. A change of a template is not rolled
out: the strategies of these kinds are their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ..model.meta import LabelSelector, Object, ObjectMeta
from ..model.other_workloads import DeploymentConfig, LeaderWorkerSet, Rollout
from ..model.workload import (
    PodTemplateSpec,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
)
from .deployment_rollout import comparable
from .naming import template_hash
from .ownership import controller_reference, refers_to

Parent = Rollout | DeploymentConfig | LeaderWorkerSet
PARENTS = (Rollout, DeploymentConfig, LeaderWorkerSet)
_HASH = "rollouts-pod-template-hash"
_CONFIG, _DEPLOYMENT = "deploymentconfig", "deployment"
_LWS = "leaderworkerset.sigs.k8s.io/"
_NAME, _GROUP, _WORKER = f"{_LWS}name", f"{_LWS}group-index", f"{_LWS}worker-index"
_TOPOLOGY = f"{_LWS}exclusive-topology", f"{_LWS}subgroup-exclusive-topology"
_OWN_LABELS = frozenset({_HASH, _CONFIG, _DEPLOYMENT})


def is_simulated(obj: Object) -> bool:
    """Whether the template of a workload of another project is all that its pods follow from.

    Returns
    -------
    bool
        True for all other kinds. False for a Rollout whose template is elsewhere, and a LeaderWorkerSet whose
        groups have a topology of their own.
    """
    if isinstance(obj, Rollout):
        return obj.spec.workload_ref is None
    if isinstance(obj, DeploymentConfig):
        return obj.spec.template is not None
    if isinstance(obj, LeaderWorkerSet):
        return not any(key in obj.metadata.annotations for key in _TOPOLOGY)
    return True


def changed_template(obj: Object) -> str:
    """Return the text that a changed template is not rolled out."""
    return f"the changed template of {obj.kind} {obj.name} is not rolled out: its strategy is not simulated"


def is_child(obj: Parent, one: Object) -> bool:
    """Whether the controller of a workload has made an object.

    Returns
    -------
    bool
        The StatefulSets of a LeaderWorkerSet are known by a label, as those of workers are owned by a pod.
    """
    if isinstance(obj, LeaderWorkerSet):
        return one.namespace == obj.namespace and one.metadata.labels.get(_NAME) == obj.name
    return one.namespace == obj.namespace and refers_to(one.metadata.controller(), obj)


def next_children(obj: Parent, owned: Sequence[Object]) -> list[Object] | None:
    """Return what the controller of a workload creates or scales next.

    Parameters
    ----------
    obj : Rollout, DeploymentConfig or LeaderWorkerSet
        With defaults.
    owned : sequence of Object
        Those of `is_child`.

    Returns
    -------
    list of Object or None
        New ones have no UID. None if the template has changed.
    """
    if isinstance(obj, LeaderWorkerSet):
        return _groups(obj, owned)
    template = obj.spec.template or PodTemplateSpec()
    sets = [one for one in owned if isinstance(one, ReplicaSet | ReplicationController)]
    replicas = obj.spec.replicas or 0
    if not sets:
        if isinstance(obj, Rollout):
            return [_replica_set(obj, replicas)]
        return [_replication_controller(obj, replicas)]
    same = [one for one in sets if _has_template(one.spec.template, template)]
    if not same:
        return None
    missing = replicas - sum(one.spec.replicas or 0 for one in sets)
    latest = max(same, key=lambda one: (one.metadata.creation_timestamp or "", one.name))
    return _scaled(latest, max(0, (latest.spec.replicas or 0) + missing))


def _scaled(one: Any, replicas: int) -> list[Object]:
    spec = one.spec
    return [] if spec.replicas == replicas else [replace(one, spec=replace(spec, replicas=replicas))]


def _has_template(one: PodTemplateSpec | None, other: PodTemplateSpec) -> bool:
    """Whether two templates are equal but for the labels that the controllers add."""
    ours, its = (
        replace(each, metadata=_without_own(each.metadata)) for each in (one or PodTemplateSpec(), other)
    )
    return ours == its or bool(comparable(ours) == comparable(its))


def _without_own(meta: ObjectMeta) -> ObjectMeta:
    labels = meta.labels.items()
    kept = {key: value for key, value in labels if key not in _OWN_LABELS and not key.startswith(_LWS)}
    return ObjectMeta(labels=kept)


def _labelled(template: PodTemplateSpec, labels: dict[str, str]) -> PodTemplateSpec:
    meta = template.metadata
    return replace(template, metadata=replace(meta, labels=meta.labels | labels))


def _meta(obj: Object, name: str, labels: dict[str, str]) -> ObjectMeta:
    references = controller_reference(obj)
    return ObjectMeta(name=name, namespace=obj.namespace, labels=labels, owner_references=references)


def _replica_set(obj: Rollout, replicas: int) -> ReplicaSet:
    mark = {_HASH: template_hash(obj.spec.template)}
    template = _labelled(obj.spec.template, mark)
    selector = obj.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=_meta(obj, f"{obj.name}-{mark[_HASH]}", template.metadata.labels),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=replace(selector, match_labels=selector.match_labels | mark),
            template=template,
        ),
    )


def _replication_controller(obj: DeploymentConfig, replicas: int) -> ReplicationController:
    name = f"{obj.name}-{max(1, obj.status.latest_version)}"
    marks = {_CONFIG: obj.name, _DEPLOYMENT: name}
    template = _labelled(obj.spec.template or PodTemplateSpec(), marks)
    selector = (obj.spec.selector or {}) | marks
    spec = ReplicationControllerSpec(replicas=replicas, selector=selector, template=template)
    return ReplicationController(metadata=_meta(obj, name, template.metadata.labels), spec=spec)


# ---- LeaderWorkerSet ---------------------------------------------------------------------------------------


def _groups(obj: LeaderWorkerSet, owned: Iterable[Object]) -> list[Object] | None:
    """Return the StatefulSets to create or scale: that of the leaders, and those of the workers by group."""
    sets = {one.name: one for one in owned if isinstance(one, StatefulSet)}
    groups, parts = obj.spec.replicas or 0, obj.spec.leader_worker_template
    leader = parts.leader_template or parts.worker_template
    wanted = {obj.name: _stateful_set(obj, obj.name, leader, {_WORKER: "0"}, range(groups))}
    for group in range(groups):
        name, ordinals = f"{obj.name}-{group}", range(1, parts.size or 1)
        if ordinals:
            wanted[name] = _stateful_set(obj, name, parts.worker_template, {_GROUP: str(group)}, ordinals)
    steps: list[Object] = []
    for name, one in wanted.items():
        present = sets.get(name)
        if present is None:
            steps.append(one)
        elif not _has_template(present.spec.template, one.spec.template):
            return None
        else:
            steps += _scaled(present, one.spec.replicas or 0)
    return steps + [scaled for name, one in sets.items() if name not in wanted for scaled in _scaled(one, 0)]


def _stateful_set(
    obj: LeaderWorkerSet, name: str, template: PodTemplateSpec, marks: dict[str, str], ordinals: range
) -> StatefulSet:
    labels = {_NAME: obj.name} | marks
    spec = StatefulSetSpec(
        replicas=len(ordinals),
        selector=LabelSelector(match_labels=labels),
        template=_labelled(template, labels),
        ordinals=StatefulSetOrdinals(start=ordinals.start) if ordinals.start else None,
        pod_management_policy="Parallel",
    )
    return StatefulSet(metadata=_meta(obj, name, labels), spec=spec)
