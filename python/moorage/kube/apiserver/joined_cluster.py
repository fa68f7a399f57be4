"""Joins objects of further files to a cluster that was read.

What comes out is what `build_cluster` makes of all objects, for what these files have most: workloads, pods
and services. Nothing is looked at again that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ..model.autoscaling import HorizontalPodAutoscaler
from ..model.cluster import Cluster, Joined
from ..model.meta import Object
from ..model.pod import Pod
from ..model.policy import PodDisruptionBudget, ResourceQuota
from ..model.resource_claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from ..model.workload import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    Job,
    PriorityClass,
    ReplicaSet,
    Service,
    StatefulSet,
)
from ..read.cluster_builder import WORKLOADS, complete, is_single, skipped_warnings
from ..read.object_defaults import default_namespace
from ..read.recognize_templates import recognize_templates
from ..workloads.ownership import FINISHED
from ..workloads.stateful_pods import ephemeral_claims
from .admission import NewPods
from .refusals import STORED, Check, Origin, Refusals

JOINED = (Deployment, StatefulSet, DaemonSet, Job, Pod, Service, HorizontalPodAutoscaler)
"""The kinds of which no object changes what is known of others."""
_CHECKED = (DeviceClass, ResourceClaim, ResourceClaimTemplate)
_TEMPLATES = (ReplicaSet, ControllerRevision)


def join(
    before: Cluster,
    objects: Sequence[Object],
    origins: Sequence[Origin],
    texts: Mapping[int, bytes],
    skipped: Mapping[str, int],
    check: Check | None = None,
) -> Cluster | None:
    """Return a cluster with further objects; None where all have to be looked at together.

    Parameters
    ----------
    objects, origins, texts, skipped, check
        As for `build_cluster`, of the further objects alone.

    Raises
    ------
    InputError
        As for `build_cluster`.
    """
    spaces = {obj.name for obj in before.namespaces if obj.metadata.deletion_timestamp is None}
    if not are_manifests(objects) or (skipped and before.skipped):
        return None
    if any(default_namespace(obj) not in spaces for obj in objects):
        return None
    names = {(obj.kind, default_namespace(obj), obj.name) for obj in objects}
    short = {name for _, _, name in names}
    others = [
        obj for obj in before.others if obj.name in short and (obj.kind, obj.namespace, obj.name) in names
    ]
    pods = chain(before.pods, before.finished) if any(isinstance(obj, Pod) for obj in objects) else ()
    if any(obj.name in short and ("Pod", obj.namespace, obj.name) in names for obj in pods):
        return None
    completed = complete(
        [*others, *objects],
        [*[Origin(argument=STORED)] * len(others), *origins],
        [obj for obj in before.others if isinstance(obj, PriorityClass)],
        texts={at + len(others): text for at, text in texts.items()},
        refusals=Refusals(STORED, check),
    )
    if completed.left_out or completed.suspended or completed.warned:
        return None
    kept = {id(obj) for obj in others}
    new = [obj for obj in completed.objects if id(obj) not in kept]
    joined = _with(before, new)
    if not _is_known(before, joined, new, completed.before):
        return None
    new_pods = NewPods(joined) if any(isinstance(obj, Pod) for obj in new) else None
    single = [] if new_pods is None else new_pods.admit([obj for obj in new if isinstance(obj, Pod)])
    joined.refused = [*before.refused, *(() if new_pods is None else new_pods.refused)]
    joined.pods = [*before.pods, *single] if single else before.pods
    turns = {} if new_pods is None else _turns(joined, new, {obj.key for obj in single})
    joined.turns = before.turns | turns
    joined.warnings = [*before.warnings, *completed.warnings, *skipped_warnings(skipped, {})]
    joined.skipped = dict(skipped) or before.skipped
    written = [obj for obj in new if not isinstance(obj, Pod)]
    joined.joined = Joined(before, written, single, turns)
    return joined


def are_manifests(objects: Sequence[Object]) -> bool:
    """Whether objects are manifests of kinds that can be joined to a cluster."""
    return bool(objects) and all(
        isinstance(obj, JOINED)
        and obj.name
        and not (obj.metadata.uid or obj.metadata.resource_version or obj.metadata.creation_timestamp)
        and not (isinstance(obj, Job) and obj.spec.suspend)
        and not (isinstance(obj, Pod) and (obj.spec.node_name or obj.status.phase in FINISHED))
        and not (isinstance(obj, Pod) and obj.namespace == "kube-system")
        for obj in objects
    )


def _with(before: Cluster, new: Sequence[Object]) -> Cluster:
    """Return a cluster with other objects than pods, in the place of those of their names."""
    names = {(obj.kind, obj.namespace, obj.name) for obj in new}
    short = {name for _, _, name in names}
    kept = [
        obj
        for obj in before.others
        if obj.name not in short or (obj.kind, obj.namespace, obj.name) not in names
    ]
    others = [*kept, *(obj for obj in new if not isinstance(obj, Pod))]
    return replace(before, others=others, siblings=before.siblings.copy())


def _turns(joined: Cluster, new: Sequence[Object], admitted: Collection[str]) -> dict[str, str]:
    """Return after which workload single pods come; see `put_in_turn`."""
    own, turns = {id(obj) for obj in new}, dict[str, str]()
    workloads = [obj for obj in joined.others if isinstance(obj, WORKLOADS)]
    earlier = [obj for obj in workloads if id(obj) not in own]
    last = f"{earlier[-1].kind} {earlier[-1].key}" if earlier else ""
    for obj in new if workloads else ():
        if isinstance(obj, WORKLOADS):
            last = f"{obj.kind} {obj.key}"
        elif isinstance(obj, Pod) and obj.key in admitted and is_single(obj):
            turns[obj.key] = last
    return turns


def _is_known(before: Cluster, joined: Cluster, new: Sequence[Object], changed: Mapping[str, Object]) -> bool:
    """Whether nothing follows from new objects beside themselves: no quota counts them, no template is
    recognized, and no budget or claim comes or changes."""
    spaces = {obj.namespace for obj in new}
    near = [obj for obj in before.others if obj.namespace in spaces]
    depends = any(isinstance(obj, ResourceQuota) for obj in near) or any(
        isinstance(obj, _CHECKED)
        or (isinstance(obj, PodDisruptionBudget) and not obj.metadata.resource_version)
        for obj in before.others
    )
    if depends or any(ephemeral_claims([obj for obj in new if isinstance(obj, Pod)])):
        return False
    around = [obj for obj in near if isinstance(obj, _TEMPLATES)]
    mine = [obj for obj in new if isinstance(obj, WORKLOADS)]
    listed = replace(joined, others=[*mine, *around], pods=[], finished=[], warnings=[])
    recognized = recognize_templates(listed, changed, before.pods_by_owner)
    return recognized.others == listed.others and not recognized.warnings
