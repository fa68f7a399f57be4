"""PodGroups: index of the pod groups of a cluster and their pods."""

from __future__ import annotations

import math
from collections.abc import Mapping

from moorage.objects import Pod, PodGroup, UnitKey, group_of
from moorage.objects.workloads.ownership import FINISHED

from .handle import FrameworkHandle

INDEX = "podGroup"


def _by_group(pod: Pod) -> tuple[str, ...]:
    key = None if pod.status.phase in FINISHED else group_of(pod)
    return () if key is None else ("/".join(key),)


class PodGroups:
    """The pod groups known to the informers, with an index of their pods.

    Plugins of a scheduler share one instance through `FrameworkHandle.shared`.

    Parameters
    ----------
    handle : FrameworkHandle
        Handle of the scheduler's framework.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cluster = handle.cache.state
        self._groups = handle.informers.informer(PodGroup).indexer
        self._pods = handle.informers.informer(Pod).indexer
        self._pods.add_index(INDEX, _by_group, is_lasting=True)
        self._changes = self._groups.follow()
        self._whole: dict[UnitKey, int] = {}
        self._lowest = self._lowest_of_whole = math.inf
        self._read = -1

    def get(self, key: UnitKey) -> PodGroup | None:
        """Return a pod group, or None if it does not exist.

        Parameters
        ----------
        key : UnitKey
            Namespace and name.

        Returns
        -------
        PodGroup or None
        """
        group: PodGroup | None = self._groups.get("/".join(key))
        return group

    @property
    def whole(self) -> Mapping[UnitKey, int]:
        """Priority by group, of the groups whose pods are only evicted together."""
        self._refresh()
        return self._whole

    @property
    def lowest_priority(self) -> float:
        """The lowest priority of any group; infinity without groups."""
        self._refresh()
        return self._lowest

    @property
    def lowest_priority_of_whole(self) -> float:
        """The lowest priority of the groups in `whole`; infinity without such groups."""
        self._refresh()
        return self._lowest_of_whole

    def _refresh(self) -> None:
        if self._read == self._changes.head:
            return
        self._read = self._changes.head
        groups = [(unit, unit.spec.priority or 0) for unit in self._groups.likenesses()]
        self._whole = {(unit.namespace, unit.name): rank for unit, rank in groups if unit.is_disrupted_whole}
        self._lowest = min((rank for _, rank in groups), default=math.inf)
        self._lowest_of_whole = min(self._whole.values(), default=math.inf)

    def size(self, key: UnitKey) -> int:
        """Return the number of pods of a group that have not finished.

        Parameters
        ----------
        key : UnitKey
            Namespace and name of the group.

        Returns
        -------
        int
        """
        count: int = self._pods.count(INDEX, "/".join(key))
        return count

    def pending(self, key: UnitKey) -> list[Pod]:
        """Return the pods of a group that have no node and are not being deleted.

        The order is by priority, then by age (kube-scheduler v1.36: by priority and first attempt).

        Parameters
        ----------
        key : UnitKey
            Namespace and name of the group.

        Returns
        -------
        list of Pod
        """
        pods = [
            pod
            for pod in self.members(key)
            if not (pod.spec.node_name or pod.metadata.deletion_timestamp or self._cluster.has_pod(pod))
        ]
        return sorted(
            pods, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "")
        )

    def members(self, key: UnitKey) -> list[Pod]:
        """Return the pods of a group that have not finished.

        Parameters
        ----------
        key : UnitKey
            Namespace and name of the group.

        Returns
        -------
        list of Pod
        """
        pods: list[Pod] = self._pods.by_index(INDEX, "/".join(key))
        return pods

    def scheduled(self, *keys: UnitKey) -> list[list[Pod]]:
        """Return the pods of groups that have a node or are assumed.

        Parameters
        ----------
        *keys : UnitKey
            Namespace and name of each group.

        Returns
        -------
        list of list of Pod
            By group.
        """
        found: list[list[Pod]] = self._pods.select(INDEX, map("/".join, keys), self._cluster.has_pod)
        return found
