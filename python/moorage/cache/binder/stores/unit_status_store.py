"""UnitStatusStore: what is known of units, the pods that are scheduled together or alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from moorage._core.services.binder_store import Undo
from moorage._core.services.running_pods import RunningPods
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.godel import SINGLE_POD_UNIT, pod_group_unit, unit_key
from moorage.objects.model.pod_group import GROUP_ANNOTATION, PodGroup

from ..cache_handler import CacheHandler
from .common import Store, StoreName


class SchedulingStatus(IntEnum):
    """How far a unit is."""

    UNKNOWN = 0
    PENDING = 1
    SCHEDULED = 2
    TIMEOUT = 3


_STATUS = {
    "Pending": SchedulingStatus.PENDING,
    "PreScheduling": SchedulingStatus.PENDING,
    "Scheduled": SchedulingStatus.SCHEDULED,
    "Running": SchedulingStatus.SCHEDULED,
    "Finished": SchedulingStatus.SCHEDULED,
    "Failed": SchedulingStatus.SCHEDULED,
    "Timeout": SchedulingStatus.TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit's status, and the UIDs of its pods that are assumed or bound, sorted."""

    status: SchedulingStatus = SchedulingStatus.UNKNOWN
    running_pods: tuple[str, ...] = ()


def _key(group: PodGroup) -> str:
    return pod_group_unit(group.namespace, group.name)


class UnitStatusStore(RunningPods, Store):
    """Status and running pods by unit key."""

    name = StoreName.UNIT_STATUS

    def __init__(self, state: ClusterState, handler: CacheHandler, undo: Undo) -> None:
        super().__init__(state, handler, undo, unit_key, GROUP_ANNOTATION, SINGLE_POD_UNIT)
        self._status: dict[str, SchedulingStatus] = {}

    def clone(self, state: ClusterState, undo: Undo) -> Self:
        out = super().clone(state, undo)
        out._status = self._status.copy()
        return out

    def get_unit_scheduling_status(self, key: str) -> SchedulingStatus:
        return self._status.get(key, SchedulingStatus.UNKNOWN)

    def set_unit_scheduling_status(self, key: str, status: SchedulingStatus) -> None:
        self.undo.put(self._status, key, SchedulingStatus(status))

    def get_unit_status(self, key: str) -> UnitStatus:
        return UnitStatus(self.get_unit_scheduling_status(key), self.running(key))

    def add_pod_group(self, group: PodGroup) -> None:
        status = _STATUS.get(group.status.phase, SchedulingStatus.UNKNOWN)
        self.set_unit_scheduling_status(_key(group), status)

    def update_pod_group(self, old: PodGroup, new: PodGroup) -> None:
        self.delete_pod_group(old)
        self.add_pod_group(new)

    def delete_pod_group(self, group: PodGroup) -> None:
        self.undo.drop(self._status, _key(group))
