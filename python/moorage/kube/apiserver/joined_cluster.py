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
    spaces = {one.name for one in before.namespaces if one.metadata.deletion_timestamp is None}
    if not are_manifests(objects) or (skipped and before.skipped):
        return None
    if any(default_namespace(one) not in spaces for one in objects):
        return None
    names = {(one.kind, default_namespace(one), one.name) for one in objects}
    short = {name for _, _, name in names}
    others = [
        one for one in before.others if one.name in short and (one.kind, one.namespace, one.name) in names
    ]
    pods = chain(before.pods, before.finished) if any(isinstance(one, Pod) for one in objects) else ()
    if any(one.name in short and ("Pod", one.namespace, one.name) in names for one in pods):
        return None
    completed = complete(
        [*others, *objects],
        [*[Origin(argument=STORED)] * len(others), *origins],
        [one for one in before.others if isinstance(one, PriorityClass)],
        texts={at + len(others): text for at, text in texts.items()},
        refusals=Refusals(STORED, check),
    )
    if completed.left_out or completed.suspended or completed.told:
        return None
    kept = {id(one) for one in others}
    new = [one for one in completed.objects if id(one) not in kept]
    joined = _with(before, new)
    if not _is_known(before, joined, new, completed.before):
        return None
    made = NewPods(joined) if any(isinstance(one, Pod) for one in new) else None
    single = [] if made is None else made.admit([one for one in new if isinstance(one, Pod)])
    joined.refused = [*before.refused, *(() if made is None else made.refused)]
    joined.pods = [*before.pods, *single] if single else before.pods
    turns = {} if made is None else _turns(joined, new, {one.key for one in single})
    joined.turns = before.turns | turns
    joined.warnings = [*before.warnings, *completed.warnings, *skipped_warnings(skipped, {})]
    joined.skipped = dict(skipped) or before.skipped
    written = [one for one in new if not isinstance(one, Pod)]
    joined.joined = Joined(before, written, single, turns)
    return joined


def are_manifests(objects: Sequence[Object]) -> bool:
    """Whether objects are manifests of kinds that can be joined to a cluster."""
    return bool(objects) and all(
        isinstance(one, JOINED)
        and one.name
        and not (one.metadata.uid or one.metadata.resource_version or one.metadata.creation_timestamp)
        and not (isinstance(one, Job) and one.spec.suspend)
        and not (isinstance(one, Pod) and (one.spec.node_name or one.status.phase in FINISHED))
        and not (isinstance(one, Pod) and one.namespace == "kube-system")
        for one in objects
    )


def _with(before: Cluster, new: Sequence[Object]) -> Cluster:
    """Return a cluster with other objects than pods, in the place of those of their names."""
    names = {(one.kind, one.namespace, one.name) for one in new}
    short = {name for _, _, name in names}
    kept = [
        one
        for one in before.others
        if one.name not in short or (one.kind, one.namespace, one.name) not in names
    ]
    others = [*kept, *(one for one in new if not isinstance(one, Pod))]
    return replace(before, others=others, siblings=before.siblings.copy())


def _turns(joined: Cluster, new: Sequence[Object], admitted: Collection[str]) -> dict[str, str]:
    """Return after which workload single pods come; see `put_in_turn`."""
    own, turns = {id(one) for one in new}, dict[str, str]()
    workloads = [one for one in joined.others if isinstance(one, WORKLOADS)]
    earlier = [one for one in workloads if id(one) not in own]
    last = f"{earlier[-1].kind} {earlier[-1].key}" if earlier else ""
    for one in new if workloads else ():
        if isinstance(one, WORKLOADS):
            last = f"{one.kind} {one.key}"
        elif isinstance(one, Pod) and one.key in admitted and is_single(one):
            turns[one.key] = last
    return turns


def _is_known(before: Cluster, joined: Cluster, new: Sequence[Object], changed: Mapping[str, Object]) -> bool:
    """Whether nothing follows from new objects beside themselves: no quota counts them, no template is
    recognized, and no budget or claim comes or changes."""
    spaces = {one.namespace for one in new}
    near = [one for one in before.others if one.namespace in spaces]
    depends = any(isinstance(one, ResourceQuota) for one in near) or any(
        isinstance(one, _CHECKED)
        or (isinstance(one, PodDisruptionBudget) and not one.metadata.resource_version)
        for one in before.others
    )
    if depends or any(ephemeral_claims([one for one in new if isinstance(one, Pod)])):
        return False
    around = [one for one in near if isinstance(one, _TEMPLATES)]
    mine = [one for one in new if isinstance(one, WORKLOADS)]
    listed = replace(joined, others=[*mine, *around], pods=[], finished=[], warnings=[])
    found = recognize_templates(listed, changed, before.pods_by_owner)
    return found.others == listed.others and not found.warnings
