"""The stores of a BinderCache for disruption budgets, units, deletion markers and pods.

A unit is a set of pods that are scheduled together: a PodGroup or a single pod (Gödel).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar, NamedTuple, Self

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage._core.binder.binder_pods import BinderPods
from moorage._core.binder.binder_store import BinderStore
from moorage._core.binder.deleted_markers import DeletedMarkers
from moorage._core.binder.running_pods import RunningPods
from moorage._core.state.cluster_state import ClusterState
from moorage.compat.godel import SINGLE_POD_UNIT, node_name_of, pod_group_unit, unit_key
from moorage.errors import CacheError
from moorage.kube import Pod, PodDisruptionBudget, PodGroup
from moorage.kube.model.pod_group import GROUP_ANNOTATION

from .cache_handler import CacheHandler


class StoreName(StrEnum):
    """The names of the stores, in the order of Gödel."""

    PDB = "PdbStore"
    RESERVATION = "ReservationStore"
    UNIT_STATUS = "UnitStatusStore"
    DELETED_MARKER = "DeletedMarkerStore"
    NODE = "NodeStore"
    POD = "PodStore"


class Store(BinderStore):
    """A part of a BinderCache.

    Parameters
    ----------
    state : ClusterState
        The state of the cache.
    handler : CacheHandler
        The settings of the cache.

    Attributes
    ----------
    name : StoreName
    """

    name: ClassVar[StoreName]

    def clone(self, state: ClusterState) -> Self:
        """Return a copy over another state; dict attributes are copied."""
        out = super().clone(state)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(out, name, value.copy())
        return out


# ---- disruption budgets ------------------------------------------------------------------------------------


class Budget(NamedTuple):
    """A disruption budget with its parsed selector."""

    pdb: PodDisruptionBudget
    selector: LabelSelectorMatcher


class PdbStore(Store):
    """Disruption budgets by ``namespace/name``."""

    name = StoreName.PDB

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler)
        self._budgets: dict[str, Budget] = {}

    def set_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Add or replace a budget.

        Raises
        ------
        ValueError
            The selector is invalid.
        """
        held = self._budgets.get(pdb.key)
        known = held is not None and held.pdb.spec.selector == pdb.spec.selector
        selector = held.selector if held is not None and known else LabelSelectorMatcher(pdb.spec.selector)
        self.state.journal.put(self._budgets, pdb.key, Budget(pdb, selector))

    def delete_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Remove a budget, if it is there."""
        self.state.journal.drop(self._budgets, pdb.key)

    @property
    def pdbs(self) -> list[PodDisruptionBudget]:
        """Return all budgets, sorted by key."""
        return [self._budgets[key].pdb for key in sorted(self._budgets)]

    def pdbs_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets in the namespace of a pod that select the pod.

        Returns
        -------
        list of PodDisruptionBudget
            Sorted by key.
        """
        meta = pod.metadata
        return [
            self._budgets[key].pdb
            for key in sorted(self._budgets)
            if self._budgets[key].pdb.namespace == meta.namespace
            and self._budgets[key].selector.matches(meta.labels)
        ]


# ---- units -------------------------------------------------------------------------------------------------


class SchedulingStatus(IntEnum):
    """The scheduling phase of a unit."""

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
    """The scheduling phase and the running pods of a unit.

    Attributes
    ----------
    status : SchedulingStatus
    running_pods : tuple of str
        UIDs of the pods of the unit that are assumed or bound, sorted.
    """

    status: SchedulingStatus = SchedulingStatus.UNKNOWN
    running_pods: tuple[str, ...] = ()


def _key(group: PodGroup) -> str:
    """Return the unit key of a pod group."""
    return pod_group_unit(group.namespace, group.name)


class UnitStatusStore(Store, RunningPods):
    """Scheduling status and running pods by unit key."""

    name = StoreName.UNIT_STATUS

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler, unit_key, GROUP_ANNOTATION, SINGLE_POD_UNIT)
        self._status: dict[str, SchedulingStatus] = {}

    def get_unit_scheduling_status(self, key: str) -> SchedulingStatus:
        """Return the status of a unit.

        Returns
        -------
        SchedulingStatus
            UNKNOWN for an unknown unit.
        """
        return self._status.get(key, SchedulingStatus.UNKNOWN)

    def set_unit_scheduling_status(self, key: str, status: SchedulingStatus) -> None:
        """Set the status of a unit."""
        self.state.journal.put(self._status, key, SchedulingStatus(status))

    def get_unit_status(self, key: str) -> UnitStatus:
        """Return the status and the running pods of a unit."""
        return UnitStatus(self.get_unit_scheduling_status(key), self.running(key))

    def add_pod_group(self, group: PodGroup) -> None:
        """Set the status of a unit by the phase of its pod group."""
        status = _STATUS.get(group.status.phase, SchedulingStatus.UNKNOWN)
        self.set_unit_scheduling_status(_key(group), status)

    def update_pod_group(self, old: PodGroup, new: PodGroup) -> None:
        """Remove the status of the old pod group, and set that of the new one."""
        self.delete_pod_group(old)
        self.add_pod_group(new)

    def delete_pod_group(self, group: PodGroup) -> None:
        """Remove the status of a unit."""
        self.state.journal.drop(self._status, _key(group))


# ---- markers and pods --------------------------------------------------------------------------------------


class DeletedMarkerStore(Store, DeletedMarkers):
    """Marks of pods that are to be deleted for a preemptor, by UID of the pod."""

    name = StoreName.DELETED_MARKER

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler, node_name_of)


class PodStore(Store, BinderPods):
    """Pods by UID."""

    name = StoreName.POD

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler, node_name_of)

    def get_pod(self, pod: Pod) -> Pod:
        """Return the object of a pod, see `BinderCache.get_pod`.

        Raises
        ------
        CacheError
            The pod is not in the cache.
        """
        held = self.find_named(pod)
        if held is None:
            self.find(pod)  # raises another error text for an empty UID
            raise CacheError(f"pod {pod.key} does not exist in binder cache")
        return held
