"""The waiting pods of each pod group: when one is popped, all of them are."""

from __future__ import annotations

from moorage.objects.model.pod_group import UnitKey, group_of

from .queued_pod_info import QueuedPodInfo


def in_unit(info: QueuedPodInfo) -> tuple[int, float, int]:
    """The order of the pods of a group: by priority, then by when each was first ready."""
    return -(info.pod.spec.priority or 0), info.initial_attempt_timestamp or 0.0, info.order


class Units:
    """Pods with a group by UID, by group; wherever in the queue they are.

    Parameters
    ----------
    is_on : bool
        False where groups are ignored (gate GenericWorkload): then no pod enters.
    """

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on
        self.members: dict[UnitKey, dict[str, QueuedPodInfo]] = {}

    def enter(self, info: QueuedPodInfo) -> None:
        """A pod entered the queue."""
        info.unit = group_of(info.pod)
        if info.unit is not None:
            self.members.setdefault(info.unit, {})[info.pod.metadata.uid] = info

    def leave(self, info: QueuedPodInfo) -> None:
        """A pod of a group left the queue; its `unit` stays."""
        assert info.unit is not None
        members = self.members[info.unit]
        del members[info.pod.metadata.uid]
        if not members:
            del self.members[info.unit]

    def mates(self, unit: UnitKey | None) -> list[QueuedPodInfo]:
        """The waiting pods of a group, in order of entry."""
        members = {} if unit is None else self.members.get(unit, {})
        return sorted(members.values(), key=lambda info: info.order)
