"""Stores of a BinderCache: disruption budgets, units, markers and pods."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar, NamedTuple, Self

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage._core.services.binder_pods import BinderPods
from moorage._core.services.binder_store import BinderStore
from moorage._core.services.deleted_markers import DeletedMarkers
from moorage._core.services.running_pods import RunningPods
from moorage._core.state.cluster_state import ClusterState
from moorage.errors import CacheError
from moorage.objects import Pod, PodDisruptionBudget, PodGroup
from moorage.objects.model.godel import SINGLE_POD_UNIT, node_name_of, pod_group_unit, unit_key
from moorage.objects.model.pod_group import GROUP_ANNOTATION

from .cache_handler import CacheHandler


class StoreName(StrEnum):
    """The stores, in Gödel's order."""

    PDB = "PdbStore"
    RESERVATION = "ReservationStore"
    UNIT_STATUS = "UnitStatusStore"
    DELETED_MARKER = "DeletedMarkerStore"
    NODE = "NodeStore"
    POD = "PodStore"


class Store(BinderStore):
    """A part of a BinderCache that can be found by its name; a clone has copies of its dicts."""

    name: ClassVar[StoreName]

    def clone(self, state: ClusterState) -> Self:
        out = super().clone(state)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(out, name, value.copy())
        return out


# ---- disruption budgets ------------------------------------------------------------------------------------


class Budget(NamedTuple):
    """A disruption budget and the matcher of its selector."""

    pdb: PodDisruptionBudget
    selector: LabelSelectorMatcher


class PdbStore(Store):
    """Budgets by ``namespace/name``."""

    name = StoreName.PDB

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler)
        self._budgets: dict[str, Budget] = {}

    def set_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Add or replace a budget.

        Parameters
        ----------
        pdb : PodDisruptionBudget

        Raises
        ------
        ValueError
            The selector cannot be read.
        """
        held = self._budgets.get(pdb.key)
        known = held is not None and held.pdb.spec.selector == pdb.spec.selector
        selector = held.selector if held is not None and known else LabelSelectorMatcher(pdb.spec.selector)
        self.state.journal.put(self._budgets, pdb.key, Budget(pdb, selector))

    def delete_pdb(self, pdb: PodDisruptionBudget) -> None:
        self.state.journal.drop(self._budgets, pdb.key)

    @property
    def pdbs(self) -> list[PodDisruptionBudget]:
        """All budgets, by key."""
        return [self._budgets[key].pdb for key in sorted(self._budgets)]

    def pdbs_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that select a pod, by key.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        list of PodDisruptionBudget
            Of the namespace of the pod.
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
    """The phase of a unit."""

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
    """The status of a unit.

    Attributes
    ----------
    status : SchedulingStatus
    running_pods : tuple of str
        UIDs of the pods of the unit that are assumed or bound, sorted.
    """

    status: SchedulingStatus = SchedulingStatus.UNKNOWN
    running_pods: tuple[str, ...] = ()


def _key(group: PodGroup) -> str:
    return pod_group_unit(group.namespace, group.name)


class UnitStatusStore(Store, RunningPods):
    """Status and running pods by unit key."""

    name = StoreName.UNIT_STATUS

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler, unit_key, GROUP_ANNOTATION, SINGLE_POD_UNIT)
        self._status: dict[str, SchedulingStatus] = {}

    def get_unit_scheduling_status(self, key: str) -> SchedulingStatus:
        """The status of a unit; UNKNOWN for one that is not known.

        Parameters
        ----------
        key : str
            Unit key.
        """
        return self._status.get(key, SchedulingStatus.UNKNOWN)

    def set_unit_scheduling_status(self, key: str, status: SchedulingStatus) -> None:
        """Set the status of a unit.

        Parameters
        ----------
        key : str
            Unit key.
        status : SchedulingStatus
        """
        self.state.journal.put(self._status, key, SchedulingStatus(status))

    def get_unit_status(self, key: str) -> UnitStatus:
        """Status and running pods of a unit.

        Parameters
        ----------
        key : str
            Unit key.
        """
        return UnitStatus(self.get_unit_scheduling_status(key), self.running(key))

    def add_pod_group(self, group: PodGroup) -> None:
        status = _STATUS.get(group.status.phase, SchedulingStatus.UNKNOWN)
        self.set_unit_scheduling_status(_key(group), status)

    def update_pod_group(self, old: PodGroup, new: PodGroup) -> None:
        self.delete_pod_group(old)
        self.add_pod_group(new)

    def delete_pod_group(self, group: PodGroup) -> None:
        self.state.journal.drop(self._status, _key(group))


# ---- markers and pods --------------------------------------------------------------------------------------


class DeletedMarkerStore(Store, DeletedMarkers):
    """Markers by the victim's UID."""

    name = StoreName.DELETED_MARKER

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler, node_name_of)


class PodStore(Store, BinderPods):
    """Pods by UID."""

    name = StoreName.POD

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler, node_name_of)

    def get_pod(self, pod: Pod) -> Pod:
        """The object of a pod, see `BinderCache.get_pod`."""
        held = self.find_named(pod)
        if held is None:
            self.find(pod)  # an empty UID has a text of its own
            raise CacheError(f"pod {pod.metadata.uid} does not exist in binder cache")
        return held
