"""Which pods are evicted together: one pod by itself, or all pods of a group that asks for that.

kube-scheduler v1.37, framework/preemption/types.go; KEP-5710 (spec.disruptionMode). Pods of other groups are
evicted one by one and by their own priority, as in v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moorage.framework.handle import FrameworkHandle
from moorage.framework.pod_groups import PodGroups
from moorage.objects.pod import Pod
from moorage.objects.pod_group import UnitKey, group_of

from .eligibility import priority_of
from .importance import Unit, by_importance


def groups_of(handle: FrameworkHandle) -> PodGroups | None:
    """What is known of pod groups, where pods of a group belong together."""
    return handle.shared(PodGroups) if handle.groups_pods else None


class Units:
    """The units of a cluster as it is now. False where each pod is one, as no group is only evicted whole."""

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cache = handle.cache
        self._groups = groups_of(handle)
        self._whole: Mapping[UnitKey, int] = {} if self._groups is None else self._groups.whole
        self._pods: dict[UnitKey, dict[str, Pod]] = {}
        self._made: dict[UnitKey, Unit] = {}

    def __bool__(self) -> bool:
        return bool(self._whole)

    def concern(self, pods: Iterable[Pod]) -> bool:
        """Whether one of these pods cannot be evicted by itself."""
        return any(self._key(pod) is not None for pod in pods)

    def priority_of(self, pod: Pod) -> int:
        """The priority of the unit that a pod belongs to."""
        key = self._key(pod)
        return priority_of(pod) if key is None else self._whole[key]

    def of(self, pods: Iterable[Pod]) -> list[Unit]:
        """The units that the pods of a node belong to, in the order of the first of each. A group has all its
        pods that have a node, on whichever."""
        found: dict[str | UnitKey, list[Pod]] = {}
        for pod in pods:
            found.setdefault(self._key(pod) or pod.metadata.uid, []).append(pod)
        return [
            Unit((there[0],), priority_of(there[0])) if isinstance(key, str) else self._group(key, there)
            for key, there in found.items()
        ]

    def _key(self, pod: Pod) -> UnitKey | None:
        """The group that a pod is only evicted with."""
        key = group_of(pod) if self._whole else None
        return key if key in self._whole else None

    def _group(self, key: UnitKey, there: Sequence[Pod]) -> Unit:
        """A group of which the cache shows these pods; informers may not know them."""
        assert self._groups is not None
        if key not in self._pods:
            known = [pod for pod in self._groups.members(key) if self._cache.state.has_pod(pod)]
            self._pods[key] = {pod.metadata.uid: self._cache.get_pod(pod) for pod in known}
        pods = self._pods[key]
        before = len(pods)
        pods.update((pod.metadata.uid, pod) for pod in there)
        if key not in self._made or len(pods) > before:
            self._made[key] = Unit(tuple(by_importance(pods.values())), self._whole[key], True)
        return self._made[key]
