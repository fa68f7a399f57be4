"""Pods that wait for an event: rejected ones, and gated ones, which PreEnqueue rejects.

kube-scheduler v1.36, backend/queue/unschedulable_pods.go.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, takewhile
from typing import NamedTuple

from .queued_pod_info import QueuedPodInfo, microseconds


class Rejection(NamedTuple):
    """The profile of a pod and the plugins that rejected it, which decide the events that can move the pod.

    Attributes
    ----------
    scheduler_name : str
        Of the profile.
    unschedulable_plugins : frozenset of str
        The plugins that rejected the pod.
    pending_plugins : frozenset of str
        Those among them that returned Pending.
    gating_plugin : str
        The plugin whose PreEnqueue gates the pod, or "".
    """

    scheduler_name: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str


def rejection_of(info: QueuedPodInfo) -> Rejection:
    """Return the rejection of a pod.

    Parameters
    ----------
    info : QueuedPodInfo

    Returns
    -------
    Rejection
    """
    return Rejection(
        info.pod.spec.scheduler_name, info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    )


Members = dict[str, QueuedPodInfo]


class UnschedulablePods:
    """Unschedulable pods by UID and by rejection.

    Attributes
    ----------
    by_rejection : dict of Rejection to dict
        The pods of each rejection by UID, in the order in which they entered; none of the dicts is empty.
    """

    def __init__(self) -> None:
        self.by_rejection: dict[Rejection, Members] = {}
        self._members: dict[str, tuple[Rejection, Members]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod. Its rejection must not change while it is here.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        rejection = rejection_of(info)
        members = self.by_rejection.setdefault(rejection, {})
        uid = info.pod.metadata.uid
        members[uid] = info
        self._members[uid] = rejection, members

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        uid = info.pod.metadata.uid
        rejection, members = self._members.pop(uid)
        del members[uid]
        if not members:
            del self.by_rejection[rejection]

    def select(self, wanted: Callable[[Rejection], bool] = lambda rejection: True) -> list[QueuedPodInfo]:
        """Return the pods of some rejections, in the order in which they entered.

        Parameters
        ----------
        wanted : callable
            True for the rejections to select; by default all.

        Returns
        -------
        list of QueuedPodInfo
        """
        selected = [members.values() for rejection, members in self.by_rejection.items() if wanted(rejection)]
        if len(selected) == 1:
            return list(selected[0])
        return sorted(chain.from_iterable(selected), key=lambda info: info.order)

    def older_than(self, end: int) -> list[QueuedPodInfo]:
        """Return the pods, gated ones too, that returned to the queue before a time.

        Parameters
        ----------
        end : int
            Microseconds.

        Returns
        -------
        list of QueuedPodInfo
            In the order in which they entered.
        """
        older: list[QueuedPodInfo] = []
        for rejection, members in self.by_rejection.items():
            pods = members.values()
            if rejection.gating_plugin:
                older += (info for info in pods if microseconds(info.timestamp) < end)
            else:  # pods enter on their return to the queue, so in order of timestamp
                older += takewhile(lambda info: microseconds(info.timestamp) < end, pods)
        return sorted(older, key=lambda info: info.order)

    def oldest(self, gated: bool) -> float | None:
        """Return the earliest timestamp of the pods, in seconds; None if there are none.

        Parameters
        ----------
        gated : bool
            Whether gated pods count.

        Returns
        -------
        float or None
        """
        times = [
            min(info.timestamp for info in members.values())
            if rejection.gating_plugin
            else next(iter(members.values())).timestamp
            for rejection, members in self.by_rejection.items()
            if gated or not rejection.gating_plugin
        ]
        return min(times, default=None)
