"""What the scheduler ignores of pod groups, because feature gates are off."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.framework import FrameworkHandle
from moorage.objects import CompositePodGroup, Object, PodGroup
from moorage.releases.feature_gates import releases_with

GROUPS = (
    f"pods are scheduled one by one: groups take Kubernetes {' or '.join(releases_with('GenericWorkload'))} "
    "with the gate GenericWorkload=true"
)
TREES = "so groups that belong to one are scheduled one by one: the gate CompositePodGroup is off"
TOPOLOGIES = "a topology that is ignored: the gate TopologyAwareWorkloadScheduling is off"


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
    listed = [one for one in objects if isinstance(one, PodGroup | CompositePodGroup)]
    groups = sum(isinstance(one, PodGroup) for one in listed)
    trees = len(listed) - groups
    bound = sum(bool(one.topology_keys) for one in listed)
    found: dict[str, int] = {}
    if not handle.groups_pods:
        if groups:
            whose = "its" if groups == 1 else "their"
            found[f"PodGroup{_are(groups)} ignored, so {whose} {GROUPS}"] = groups
        return found
    if trees and not handle.has_trees:
        found[f"CompositePodGroup{_are(trees)} ignored, {TREES}"] = trees
    if bound and not handle.places_groups:
        found[f"PodGroup{' has' if bound == 1 else 's have'} {TOPOLOGIES}"] = bound
    return found


def _are(number: int) -> str:
    return " is" if number == 1 else "s are"
