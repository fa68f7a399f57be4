"""What follows for a cluster that is read from its objects beside nodes and pods: new objects are admitted,
workloads have their templates and turns, claims and budgets what they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from ..admission.chain import NewPods, is_new
from ..admission.resource_quotas import without_counted_usage
from ..admission.siblings import Siblings
from ..apiserver.overlay import key_of
from ..apiserver.refusals import Origin, Refusals
from ..model.admission_registration import MutatingAdmissionPolicy
from ..model.cluster import Cluster, seconds
from ..model.meta import Object
from ..model.pod import Pod
from ..model.storage import PersistentVolumeClaim
from ..model.workload import WORKLOADS
from ..workloads.disruption import with_statuses
from ..workloads.ownership import PodIndex
from ..workloads.seen_failures import SeenFailures
from ..workloads.stateful_pods import ephemeral_claims
from .cluster_builder import Completed, is_single
from .recognize_templates import recognize_templates


def put_in_turn(cluster: Cluster, objects: Iterable[Object], before: Mapping[str, Object]) -> None:
    """Sort the workloads of a cluster, and note after which of them the single pods of files come.

    Workloads whose objects nobody has changed come first, the oldest of them before the others. Those that
    are new or changed follow in the order of the files, and single pods of manifests stand among them.

    Parameters
    ----------
    cluster : Cluster
        Its `others` and `turns` are changed.
    objects : iterable of Object
        In the order of the files.
    before : mapping of str to Object
        By ``Kind namespace/name``, objects as they were before a file has changed them.
    """
    slots = [at for at, obj in enumerate(cluster.others) if isinstance(obj, WORKLOADS)]
    if not slots:
        return
    workloads = {obj.full_name: obj for obj in map(cluster.others.__getitem__, slots)}
    turns = (obj for obj in objects if (is_single(obj) if type(obj) is Pod else isinstance(obj, WORKLOADS)))
    new = {
        obj.full_name: obj
        for obj in turns
        if obj.metadata.creation_timestamp is None or (before and obj.full_name in before)
    }
    pods = {pod.key for pod in cluster.pods} if any(isinstance(obj, Pod) for obj in new.values()) else ()
    old = [obj for name, obj in workloads.items() if name not in new]
    old.sort(key=lambda obj: seconds(obj.metadata.creation_timestamp or "0001-01-01T00:00:00Z"))
    last = old[-1].full_name if old else ""
    for name, obj in new.items():
        if name in workloads:
            old.append(workloads[name])
            last = name
        elif isinstance(obj, Pod) and obj.key in pods:
            cluster.turns[obj.key] = last
    for at, obj in zip(slots, old, strict=True):
        cluster.others[at] = obj


def refuse_objects(
    new_pods: NewPods, objects: list[Object], completed: Completed, refusals: Refusals
) -> None:
    """Take the objects of a change that are no pods through the chain of admission; they are replaced by what
    is stored.

    Raises
    ------
    RefusedObjectsError
        Some are refused.
    """
    places: dict[str, Origin] = {}
    for obj, error in new_pods.refused_objects(objects):
        places = places or dict(zip(map(key_of, completed.objects), completed.places, strict=True))
        if key_of(obj) in places:  # a namespace that objects imply is there already
            refusals.add(error, obj, places[key_of(obj)])
    refusals.raise_any()


def settled(cluster: Cluster, completed: Completed, refusals: Refusals, like_siblings: bool) -> Cluster:
    """Return a cluster with what follows from its objects; see `build_cluster`."""
    there = (pod for pod in chain(cluster.pods, cluster.finished) if not is_new(pod))
    cluster.others = without_counted_usage(cluster.others, there)
    new_pods = NewPods(cluster, refusals.gates, completed.before, completed.texts)
    cluster.pods = new_pods.admit(cluster.pods)
    cluster.refused = new_pods.refused
    admitted: list[list[Any]] = [cluster.others]
    if new_pods.has_policies:
        admitted += (cluster.nodes, cluster.namespaces)
    for others in admitted:
        refuse_objects(new_pods, others, completed, refusals)
    cluster.warnings += new_pods.notes()
    namespaces, listed_templates = cluster.known_namespaces, {key_of(obj) for obj in cluster.others}
    cluster = recognize_templates(cluster, completed.before, PodIndex(cluster.pods + cluster.finished))
    cluster.known_namespaces = namespaces
    cluster.inferred = frozenset(map(key_of, cluster.others)) - listed_templates
    cluster.siblings = Siblings()
    if like_siblings:
        known = [pod for pod in (*cluster.pods, *cluster.finished) if not is_new(pod)]
        objects = [*cluster.others, *cluster.namespaces]
        cluster.siblings = Siblings(known, objects, completed.before)
        if any(isinstance(obj, MutatingAdmissionPolicy) for obj in objects):  # few clusters have one
            from ..admission.policy.policy_plugins import as_each_makes_it

            cluster.siblings.as_each_makes_it = as_each_makes_it
    cluster.failures = SeenFailures.of([*cluster.others, *cluster.namespaces], cluster.pods, completed.before)
    put_in_turn(cluster, completed.objects, completed.before)
    listed = {obj.key for obj in cluster.others if isinstance(obj, PersistentVolumeClaim)}
    claims = {claim.key: claim for claim in reversed([*ephemeral_claims(cluster.pods)])}
    cluster.others += [claim for key, claim in reversed(claims.items()) if key not in listed]
    cluster.others = with_statuses(cluster)
    return cluster
