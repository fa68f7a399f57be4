"""Pods that wait for an event: rejected ones, and gated ones that PreEnqueue keeps out.

kube-scheduler v1.36, backend/queue/unschedulable_pods.go.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, takewhile
from typing import NamedTuple

from .queued_pod_info import QueuedPodInfo, microseconds


class Group(NamedTuple):
    """What decides which events can move a pod; pods that have it in common are looked at together."""

    scheduler_name: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str


def group_of(info: QueuedPodInfo) -> Group:
    return Group(
        info.pod.spec.scheduler_name, info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    )


Members = dict[str, QueuedPodInfo]


class UnschedulablePods:
    """Pods by UID, by what keeps them here.

    Attributes
    ----------
    groups : dict of Group to dict
        Every pod, in groups of which none is empty; within a group in order of entry.
    """

    def __init__(self) -> None:
        self.groups: dict[Group, Members] = {}
        self._members: dict[str, tuple[Group, Members]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, info: QueuedPodInfo) -> None:
        """What its group is made of must not change while the pod is here."""
        group = group_of(info)
        members = self.groups.setdefault(group, {})
        uid = info.pod.metadata.uid
        members[uid] = info
        self._members[uid] = group, members

    def remove(self, info: QueuedPodInfo) -> None:
        uid = info.pod.metadata.uid
        group, members = self._members.pop(uid)
        del members[uid]
        if not members:
            del self.groups[group]

    def select(self, wanted: Callable[[Group], bool] = lambda group: True) -> list[QueuedPodInfo]:
        """The pods of some groups (by default of all), in order of entry."""
        found = [members.values() for group, members in self.groups.items() if wanted(group)]
        if len(found) == 1:
            return list(found[0])
        return sorted(chain.from_iterable(found), key=lambda info: info.order)

    def older_than(self, end: int) -> list[QueuedPodInfo]:
        """The pods, gated ones too, that came back before this time in microseconds, in order of entry."""
        found: list[QueuedPodInfo] = []
        for group, members in self.groups.items():
            pods = members.values()
            if group.gating_plugin:
                found += (info for info in pods if microseconds(info.timestamp) < end)
            else:  # these came back when they entered, so in order of time
                found += takewhile(lambda info: microseconds(info.timestamp) < end, pods)
        return sorted(found, key=lambda info: info.order)

    def oldest(self, gated: bool) -> float | None:
        """When the pod came back that is here for the longest; gated ones count where they are asked for."""
        times = [
            min(info.timestamp for info in members.values())
            if group.gating_plugin
            else next(iter(members.values())).timestamp
            for group, members in self.groups.items()
            if gated or not group.gating_plugin
        ]
        return min(times, default=None)
