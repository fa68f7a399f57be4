"""The stores of a BinderCache: budgets, units, deletion markers, pods, reservations; its settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import ClassVar, Self

from moorage._core.base.resources import PodGates
from moorage._core.base.selectors import LabelSelectorMatcher
from moorage._core.binder import binder_pods
from moorage._core.binder.binder_pods import BinderPods
from moorage._core.binder.binder_store import BinderStore
from moorage._core.binder.deleted_markers import DeletedMarkers
from moorage._core.binder.running_pods import RunningPods
from moorage._core.state.cluster_state import ClusterState
from moorage.arguments import check_fields
from moorage.errors import CacheError
from moorage.kube import Pod, PodDisruptionBudget, PodGroup
from moorage.kube.model.pod_group import GROUP_ANNOTATION
from moorage.kube.model.workload import Deployment
from moorage.lazy import NamedTuple

from .godel import (
    SINGLE_POD_UNIT,
    Reservation,
    deployment_of,
    node_name_of,
    occupies,
    placeholder_key,
    placeholder_of,
    placeholder_pod,
    pod_group_unit,
    reserved_pod,
    unit_key,
    wants_reservation,
)

# ---- cache handler -----------------------------------------------------------------------------------------
#
# CacheHandler: the settings of a BinderCache.

ASSUMED_POD_EXPIRATION = 900.0
POD_ASSUMED_TTL = 300.0
DELETED_MARKER_TTL = 600.0
RESERVATION_TTL = 60.0
PERIOD = 10.0


@dataclass(frozen=True, slots=True)
class CacheHandler:
    """The settings of a BinderCache. Times are in seconds on `clock`; the defaults are Gödel's.

    Attributes
    ----------
    scheduler_name : str
        The component that owns a partition of the nodes.
    pod_assumed_ttl : float
        Seconds for which a pod stays assumed after `finish_binding`.
    assumed_pod_expiration : float
        Time to live of an assumed pod before `finish_binding`.
    deleted_marker_ttl : float
        Seconds for which the mark lives that a pod is to be deleted.
    reservation_ttl : float
        Seconds for which the resources of a deleted pod remain reserved without a Reservation.
    period : float
        Seconds between two removals of expired pods, markers and reservations.
    clock : callable
        Returns the time in seconds.
    stop : threading.Event
        Ends the thread that removes expired entries.
    resource_reservation : bool
        The feature gate ResourceReservation.
    gates : PodGates
        Feature gates that affect how pods are read.
    """

    scheduler_name: str = "godel-binder"
    pod_assumed_ttl: float = POD_ASSUMED_TTL
    assumed_pod_expiration: float = ASSUMED_POD_EXPIRATION
    deleted_marker_ttl: float = DELETED_MARKER_TTL
    reservation_ttl: float = RESERVATION_TTL
    period: float = PERIOD
    clock: Callable[[], float] = time.monotonic
    stop: threading.Event = field(default_factory=threading.Event)
    resource_reservation: bool = False
    gates: PodGates = field(default_factory=PodGates)

    def __post_init__(self) -> None:
        check_fields(self, least=0)


# ---- stores ------------------------------------------------------------------------------------------------
#
# The stores of a BinderCache for disruption budgets, units, deletion markers and pods.
#
# A unit is a set of pods that are scheduled together: a PodGroup or a single pod (Gödel).


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
        """Return the budgets in the namespace of a pod that select the pod."""
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


# ---- reservation store -------------------------------------------------------------------------------------
#
# ReservationStore: reservations of the resources of deleted pods for the pods that replace them.
#
# A placeholder pod represents a reservation on its node. It is free until the pod that replaces the deleted
# pod
# is assumed or bound; then it is matched (Gödel).

PodOp = Callable[[Pod], None]
NEVER = float("inf")


class Identifier(NamedTuple):
    """The key of a reservation: placeholder name, key of the placeholder pod, node name."""

    placeholder: str
    pod_key: str
    node_name: str

    def __str__(self) -> str:
        return "/".join(self)


class ReservationInfo(NamedTuple):
    """A placeholder pod and its state.

    Attributes
    ----------
    placeholder_pod : Pod
    matched : str
        The UID of the pod that matches the placeholder; "" for a free one.
    deadline : float
        Seconds on the handler's clock; `NEVER` for a placeholder with a Reservation.
    """

    placeholder_pod: Pod
    matched: str = ""
    deadline: float = NEVER


def identifier(pod: Pod) -> Identifier:
    """Return the key of the reservation that a pod represents as a placeholder, or requests.

    Raises
    ------
    CacheError
        A part of the key is empty.
    """
    key = Identifier(placeholder_of(pod), placeholder_key(pod), node_name_of(pod))
    for value, what in zip(key, ("placeholder", "placeholder podKey", "node name"), strict=True):
        if not value:
            raise CacheError(f"failed to get reservation identifier, empty {what}")
    return key


class ReservationStore(Store):
    """Reservations by identifier.

    A free placeholder pod is in the ledger, so that it uses resources of its node; a matched one is not.
    Successive pods with one name have the same identifier and different UIDs. An event about one of them
    does not affect the placeholder of another.

    Attributes
    ----------
    enter, leave : callable
        Add a placeholder pod to the other stores, and remove it from them.
    """

    name = StoreName.RESERVATION

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler)
        self._infos: dict[Identifier, ReservationInfo] = {}
        self._deployments: dict[str, bool] = {}
        self.enter: PodOp
        self.leave: PodOp

    def get_available_placeholder_pod(self, pod: Pod) -> Pod:
        """Return the free placeholder pod that a pod requests.

        Raises
        ------
        CacheError
            The pod requests none, there is none, or it is matched.
        """
        key = identifier(pod)
        info = self._infos.get(key)
        if info is None:
            raise CacheError(f"reservation info {key} not found")
        if info.matched:
            raise CacheError("reservation placeholder is already matched")
        return info.placeholder_pod

    # ---- deployments that request reservations

    def set_deployment(self, deployment: Deployment) -> None:
        """Record whether a Deployment requests that the resources of its deleted pods are reserved."""
        if wants_reservation(deployment):
            self.state.journal.put(self._deployments, deployment.key, True)
        else:
            self.delete_deployment(deployment)

    def delete_deployment(self, deployment: Deployment) -> None:
        """Remove a Deployment, if it is there."""
        self.state.journal.drop(self._deployments, deployment.key)

    # ---- events of pods, before the other stores handle them

    def assume_pod(self, pod: Pod) -> None:
        """Match the placeholder that a pod requests.

        Parameters
        ----------
        pod : Pod
            Ignored if it does not request a placeholder.

        Raises
        ------
        CacheError
            The placeholder is missing, or matched by another pod.
        """
        key = self._requested(pod)
        if key is None:
            return
        info = self._infos.get(key)
        if info is None:
            raise CacheError("failed to get reservationInfo when assume pod, reservation info not found")
        if info.matched not in ("", pod.metadata.uid):
            raise CacheError("reservation placeholder is already matched")
        self._match(key, pod.metadata.uid)

    def bind_pod(self, pod: Pod) -> None:
        """Match the placeholder that a bound pod requests, if it is free."""
        key = self._requested(pod)
        if key is not None and key in self._infos and not self._infos[key].matched:
            self._match(key, pod.metadata.uid)

    def release(self, pod: Pod) -> None:
        """Free the placeholder of an assumed pod that was forgotten or expired."""
        key = self._requested(pod)
        if key is not None and key in self._infos and self._infos[key].matched == pod.metadata.uid:
            info = self._infos[key]
            self._reserve(info.placeholder_pod, NEVER if info.deadline == NEVER else self._deadline())

    def delete_pod(self, pod: Pod) -> None:
        """Reserve the resources of a confirmed pod that is deleted, if it or its Deployment requests that."""
        is_wanted = wants_reservation(pod) or self._deployments.get(deployment_of(pod), False)
        if not (is_wanted and pod.spec.node_name and placeholder_of(pod)):
            return
        fake = placeholder_pod(pod)
        if identifier(fake) not in self._infos:
            self._reserve(fake, self._deadline())

    def _deadline(self) -> float:
        """Return the deadline of a placeholder that is reserved now, without a Reservation."""
        return self.handler.clock() + min(self.handler.pod_assumed_ttl, self.handler.reservation_ttl)

    @staticmethod
    def _requested(pod: Pod) -> Identifier | None:
        """Return the key of the reservation that a pod requests, None if it requests none."""
        key = Identifier(placeholder_of(pod), placeholder_key(pod), node_name_of(pod))
        return key if all(key) else None

    # ---- Reservations

    def add_reservation(self, reservation: Reservation) -> None:
        """Reserve the resources of a Reservation object.

        Parameters
        ----------
        reservation : Reservation
            Ignored if it does not occupy resources.
        """
        if not occupies(reservation):
            return
        fake = reserved_pod(reservation)
        info = self._info_of(fake)
        if info is not None and info.deadline != NEVER:  # the placeholder exists already
            self.state.journal.put(self._infos, identifier(fake), info._replace(deadline=NEVER))
        else:
            self._reserve(fake)

    def update_reservation(self, old: Reservation, new: Reservation) -> None:
        """Replace a Reservation, or match its placeholder with the owner if it occupies nothing any more."""
        if occupies(new):
            if occupies(old):
                self.delete_reservation(old)
            self._reserve(reserved_pod(new))
        elif occupies(old):
            fake = reserved_pod(old)
            owner = binder_pods.find_uid(self.state, new.status.current_owners.uid)
            if owner is not None and self._info_of(fake) is not None:
                self._match(identifier(fake), owner.metadata.uid)

    def delete_reservation(self, reservation: Reservation) -> None:
        """Remove the placeholder of a Reservation."""
        fake = reserved_pod(reservation)
        if self._info_of(fake) is not None:
            self._drop(identifier(fake))

    def clean(self, now: float) -> None:
        """Remove expired placeholders, except those matched by a pod that is in the cache.

        Parameters
        ----------
        now : float
            Seconds on the handler's clock.
        """
        for key in [key for key, info in self._infos.items() if info.deadline < now]:
            matched = self._infos[key].matched
            if not matched or binder_pods.find_uid(self.state, matched) is None:
                self._drop(key)

    # ---- placeholders

    def _info_of(self, fake: Pod) -> ReservationInfo | None:
        """Return the reservation of a placeholder pod; None if there is none or it is that of another pod."""
        info = self._infos.get(identifier(fake))
        return info if info is not None and info.placeholder_pod.metadata.uid == fake.metadata.uid else None

    def _reserve(self, fake: Pod, deadline: float = NEVER) -> None:
        """Add a free placeholder, replacing others with the same identifier or the same pod."""
        key = identifier(fake)
        held = binder_pods.find(self.state, fake)
        if held is not None and identifier(held) != key:
            self._drop(identifier(held))
        if self._info_of(fake) is None:
            self._drop(key)
        self.state.journal.put(self._infos, key, ReservationInfo(fake, deadline=deadline))
        if binder_pods.find(self.state, fake) is None:
            self.enter(fake)

    def _match(self, key: Identifier, uid: str) -> None:
        """Match a placeholder with the pod that has a UID."""
        info = self._infos.get(key)
        if info is None:
            return
        self.state.journal.put(self._infos, key, info._replace(matched=uid))
        self._leave(key, info.placeholder_pod)

    def _drop(self, key: Identifier) -> None:
        """Remove a placeholder."""
        info = self._infos.get(key)
        if info is not None:
            self.state.journal.drop(self._infos, key)
            self._leave(key, info.placeholder_pod)

    def _leave(self, key: Identifier, fake: Pod) -> None:
        """Remove a placeholder pod from the other stores, if the pod there has the identifier."""
        held = binder_pods.find(self.state, fake)
        if held is not None and identifier(held) == key:
            self.leave(fake)
