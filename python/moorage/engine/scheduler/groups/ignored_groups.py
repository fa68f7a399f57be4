"""What the scheduler ignores of pod groups, because feature gates are off; and groups that do not exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from moorage._core.base.fields import unfinished_group_of
from moorage._core.decide.bulk_operations import not_assumed
from moorage._core.queue.in_flight import pods_of
from moorage.engine.framework import FrameworkHandle
from moorage.engine.framework.plugin.group_index import PodGroups
from moorage.errors import nearest, number_of
from moorage.kube import AnyGroup, CompositePodGroup, Object, Pod, PodGroup
from moorage.kube.model.pod_group import COMPOSITE, unit_name
from moorage.kube.releases.feature_gates import releases_with

from ..scheduler_parts import SchedulerParts

GROUPS = (
    f"scheduled one by one: pod groups need Kubernetes {' or '.join(releases_with('GenericWorkload'))} "
    "and the gate GenericWorkload=true"
)
TREES = "so groups that belong to one are scheduled one by one: the gate CompositePodGroup is off"
TOPOLOGIES = "a topology that is ignored: the gate TopologyAwareWorkloadScheduling is off"


def group_warnings(scheduler: SchedulerParts) -> list[str]:
    """Return a sentence about each part of groups that is ignored while pods of groups wait, and each group
    that does not exist.

    Parameters
    ----------
    scheduler : SchedulerParts
        Has received all events.
    """
    handle, client = scheduler.handle, scheduler.client
    groups: list[PodGroup] = client.list(PodGroup)[0]
    every: list[AnyGroup] = [*groups, *client.list(CompositePodGroup)[0]]
    waiting = pods_of([*chain(*scheduler.queue.pending_pods())])
    waiting = [waiting[at] for at in not_assumed(scheduler.cache.state, waiting)]
    parts = ignored_groups(handle, every) if any(map(unfinished_group_of, waiting)) else {}
    ignored = [f"{number} {text}." for text, number in parts.items()]
    lost = groups_without_top(scheduler.groups, every) if every else []
    return [*ignored, *lost, *pods_without_group(handle, groups, waiting)]


def ignored_groups(handle: FrameworkHandle, objects: Iterable[Object]) -> dict[str, int]:
    """Return what a scheduler ignores of the groups among some objects.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the gates of the scheduler.
    objects : iterable of Object
        Others than groups do not matter.

    Returns
    -------
    dict of str to int
        What comes after the number in a sentence, to the number. One sentence at most is about pod groups:
        where they are ignored, so is all that they say.
    """
    listed = [obj for obj in objects if isinstance(obj, PodGroup | CompositePodGroup)]
    groups = sum(isinstance(group, PodGroup) for group in listed)
    trees = len(listed) - groups
    found: dict[str, int] = {}
    if not handle.groups_pods:
        if groups:
            whose = "its" if groups == 1 else "their"
            found[f"PodGroup{_are(groups)} ignored, so {whose} pods are {GROUPS}"] = groups
        return found
    if trees and not handle.has_trees:
        found[f"CompositePodGroup{_are(trees)} ignored, {TREES}"] = trees
    return found | ignored_topologies(handle, listed)


def ignored_topologies(handle: FrameworkHandle, groups: Iterable[AnyGroup]) -> dict[str, int]:
    """Return what a scheduler ignores of groups that it places as groups; see `ignored_groups`."""
    bound = 0 if handle.places_groups else sum(bool(group.topology_keys) for group in groups)
    return {f"group{' has' if bound == 1 else 's have'} {TOPOLOGIES}": bound} if bound else {}


def pods_without_group(handle: FrameworkHandle, groups: Iterable[PodGroup], pods: Iterable[Pod]) -> list[str]:
    """Return a sentence about each group that pending pods name and that does not exist.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the gates of the scheduler.
    groups : iterable of PodGroup
        All groups.
    pods : iterable of Pod
        All pods.
    """
    known = {group.key for group in groups}
    named = Counter(key for pod in pods if not pod.spec.node_name for key in unfinished_group_of(pod))
    missing = {key: number for key, number in sorted(named.items()) if key not in known}
    if handle.groups_pods:
        return [_waiting(name, number, known) for name, number in missing.items()]
    if known or not missing:  # `ignored_groups` says it
        return []
    number = sum(missing.values())
    return [f"{number_of(number, 'pod of a pod group is', 'pods of pod groups are')} {GROUPS}."]


def groups_without_top(index: PodGroups, groups: Iterable[AnyGroup]) -> list[str]:
    """Return a sentence about each group that names a composite group which does not exist, or belongs to
    itself: pods of such a tree wait.

    Parameters
    ----------
    index : PodGroups
        Of the scheduler. Without the gate for composite groups there are no trees.
    groups : iterable of PodGroup or CompositePodGroup
        All groups.
    """
    found: list[str] = []
    for group in groups:
        name, above = f"{group.kind} {group.key}", index.ancestors(group.unit)
        if above and index.known(above[0]) is None:
            lacks = f"{name} belongs to {COMPOSITE} {unit_name(above[0])}, which does not exist"
            found.append(f"{lacks}: create it as scheduling.k8s.io/v1alpha3.")
        if group.unit in above:
            found.append(f"{name} belongs to itself, so that its pods wait: change its parent.")
    return found


def _waiting(group: str, number: int, known: Iterable[str]) -> str:
    pods = number_of(number, "pod waits", "pods wait")
    near = nearest(group, known) or ": create it as scheduling.k8s.io/v1beta1"
    return f"{pods} for PodGroup {group}, which does not exist{near}."


def _are(number: int) -> str:
    return " is" if number == 1 else "s are"
