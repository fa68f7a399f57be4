"""Eviction units: one pod, or all pods of a group whose disruption mode asks for that.

kube-scheduler v1.37, framework/preemption/types.go; KEP-5710 (spec.disruptionMode). Pods of other groups are
evicted one by one: for a pod by their own priority, as in v1.36, and for a group by that of their group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moorage.framework import FrameworkHandle
from moorage.framework.plugin.group_index import PodGroups
from moorage.objects import Pod, UnitKey, group_of

from .importance import Unit, by_importance, priority_of


def groups_of(handle: FrameworkHandle) -> PodGroups | None:
    """Return the index of pod groups; None where groups are ignored."""
    return handle.shared(PodGroups) if handle.groups_pods else None


class Units:
    """The eviction units of a cluster at present. False if each pod is a unit of its own.

    Parameters
    ----------
    handle : FrameworkHandle
    for_group : bool
        Whether the preemptor is a group.
    """

    def __init__(self, handle: FrameworkHandle, for_group: bool = False) -> None:
        self._for_group = for_group
        self._cache = handle.cache
        self._groups = groups_of(handle)
        self._whole: Mapping[UnitKey, int] = {} if self._groups is None else self._groups.whole
        self._pods: dict[UnitKey, dict[str, Pod]] = {}
        self._made: dict[UnitKey, Unit] = {}

    def __bool__(self) -> bool:
        return bool(self._whole)

    def has_group_among(self, pods: Iterable[Pod]) -> bool:
        """Whether one of these pods is evicted with its group only."""
        return any(self._key(pod) is not None for pod in pods)

    def priority_of(self, pod: Pod) -> int:
        """Return the priority of the unit that a pod belongs to."""
        key = self._key(pod)
        return self._single(pod).priority if key is None else self._whole[key]

    def of(self, pods: Iterable[Pod]) -> list[Unit]:
        """Return the units that some pods of a node belong to.

        Parameters
        ----------
        pods : iterable of Pod

        Returns
        -------
        list of Unit
            In the order of the first pod of each. A group has all its pods that have a node, on any node.
        """
        found: dict[str | UnitKey, list[Pod]] = {}
        for pod in pods:
            found.setdefault(self._key(pod) or pod.metadata.uid, []).append(pod)
        return [
            self._single(members[0]) if isinstance(key, str) else self._group(key, members)
            for key, members in found.items()
        ]

    def _key(self, pod: Pod) -> UnitKey | None:
        """The group that a pod is only evicted with, or None."""
        key = group_of(pod) if self._whole else None
        return key if key in self._whole else None

    def _single(self, pod: Pod) -> Unit:
        """A pod that is evicted by itself."""
        key = group_of(pod) if self._for_group else None
        group = self._groups.get(key) if self._groups is not None and key is not None else None
        priority = priority_of(pod) if group is None else group.spec.priority or 0
        return Unit((pod,), priority, key is not None)

    def _group(self, key: UnitKey, here: Sequence[Pod]) -> Unit:
        """The unit of a group, some of whose pods the cache shows here; informers may not know them yet."""
        assert self._groups is not None
        if key not in self._pods:
            known = [pod for pod in self._groups.members(key) if self._cache.state.has_pod(pod)]
            self._pods[key] = {pod.metadata.uid: self._cache.get_pod(pod) for pod in known}
        pods = self._pods[key]
        before = len(pods)
        pods.update((pod.metadata.uid, pod) for pod in here)
        if key not in self._made or len(pods) > before:
            self._made[key] = Unit(tuple(by_importance(pods.values())), self._whole[key], True)
        return self._made[key]
