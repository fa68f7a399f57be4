"""ReservationStore: reserves the resources of deleted pods for the pods that replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from moorage._core.services import binder_pods
from moorage._core.state.cluster_state import ClusterState
from moorage.errors import CacheError
from moorage.objects.model.godel import Reservation, node_name_of
from moorage.objects.model.pod import Pod
from moorage.objects.model.reservation import (
    deployment_of,
    occupies,
    placeholder_key,
    placeholder_of,
    placeholder_pod,
    reserved_pod,
    wants_reservation,
)
from moorage.objects.model.workload import Deployment

from .cache_handler import CacheHandler
from .stores import Store, StoreName

PodOp = Callable[[Pod], None]
NEVER = float("inf")


class Identifier(NamedTuple):
    """Key of a reservation: its placeholder, the key of its placeholder pod, its node."""

    placeholder: str
    pod_key: str
    node_name: str

    def __str__(self) -> str:
        return "/".join(self)


class ReservationInfo(NamedTuple):
    """A placeholder pod, the UID of the pod that has replaced it, and its deadline in seconds (`NEVER` with a
    Reservation)."""

    placeholder_pod: Pod
    matched: str = ""
    deadline: float = NEVER


def identifier(pod: Pod) -> Identifier:
    """The key of the reservation that a pod is the placeholder of, or asks for.

    Parameters
    ----------
    pod : Pod

    Raises
    ------
    CacheError
        A part of the key is empty.
    """
    found = Identifier(placeholder_of(pod), placeholder_key(pod), node_name_of(pod))
    for value, what in zip(found, ("placeholder", "placeholder podKey", "node name"), strict=True):
        if not value:
            raise CacheError(f"failed to get reservation identifier, empty {what}")
    return found


class ReservationStore(Store):
    """Reservations by identifier.

    A free placeholder is a pod in the ledger, so that its node is charged; a matched one is not. Successive
    pods of one name have the same identifier and different UIDs: an event about one of them does not concern
    the placeholder of another.

    Attributes
    ----------
    enter, leave : callable
        Add a placeholder pod to the other stores, and remove it.
    """

    name = StoreName.RESERVATION

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler)
        self._infos: dict[Identifier, ReservationInfo] = {}
        self._deployments: dict[str, bool] = {}
        self.enter: PodOp
        self.leave: PodOp

    def get_available_placeholder_pod(self, pod: Pod) -> Pod:
        found = identifier(pod)
        info = self._infos.get(found)
        if info is None:
            raise CacheError(f"reservation info {found} not found")
        if info.matched:
            raise CacheError("reservation placeholder is already matched")
        return info.placeholder_pod

    # ---- deployments that ask for it

    def set_deployment(self, deployment: Deployment) -> None:
        """Add or replace a Deployment.

        Parameters
        ----------
        deployment : Deployment
        """
        if wants_reservation(deployment):
            self.state.journal.put(self._deployments, deployment.key, True)
        else:
            self.delete_deployment(deployment)

    def delete_deployment(self, deployment: Deployment) -> None:
        self.state.journal.drop(self._deployments, deployment.key)

    # ---- pods, before the other stores get the event

    def assume_pod(self, pod: Pod) -> None:
        """Match the placeholder that a pod asks for.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            The placeholder is missing, or matched by another pod.
        """
        found = self._asked_for(pod)
        if found is None:
            return
        info = self._infos.get(found)
        if info is None:
            raise CacheError("failed to get reservationInfo when assume pod, reservation info not found")
        if info.matched not in ("", pod.metadata.uid):
            raise CacheError("reservation placeholder is already matched")
        self._match(found, pod.metadata.uid)

    def bind_pod(self, pod: Pod) -> None:
        """Match the placeholder of a pod that was reported as bound, if it is free."""
        found = self._asked_for(pod)
        if found is not None and found in self._infos and not self._infos[found].matched:
            self._match(found, pod.metadata.uid)

    def release(self, pod: Pod) -> None:
        """Free the placeholder of an assumed pod that was forgotten or expired."""
        found = self._asked_for(pod)
        if found is not None and found in self._infos and self._infos[found].matched == pod.metadata.uid:
            info = self._infos[found]
            self._reserve(info.placeholder_pod, NEVER if info.deadline == NEVER else self._deadline())

    def delete_pod(self, pod: Pod) -> None:
        """Reserve the resources of a confirmed pod that is deleted, if it asks for that."""
        is_wanted = wants_reservation(pod) or self._deployments.get(deployment_of(pod), False)
        if not (is_wanted and pod.spec.node_name and placeholder_of(pod)):
            return
        fake = placeholder_pod(pod)
        if identifier(fake) not in self._infos:
            self._reserve(fake, self._deadline())

    def _deadline(self) -> float:
        return self.handler.clock() + min(self.handler.pod_assumed_ttl, self.handler.reservation_ttl)

    @staticmethod
    def _asked_for(pod: Pod) -> Identifier | None:
        found = Identifier(placeholder_of(pod), placeholder_key(pod), node_name_of(pod))
        return found if all(found) else None

    # ---- Reservations

    def add_reservation(self, reservation: Reservation) -> None:
        if not occupies(reservation):
            return
        fake = reserved_pod(reservation)
        info = self._info_of(fake)
        if info is not None and info.deadline != NEVER:  # the placeholder exists already
            self.state.journal.put(self._infos, identifier(fake), info._replace(deadline=NEVER))
        else:
            self._reserve(fake)

    def update_reservation(self, old: Reservation, new: Reservation) -> None:
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
        fake = reserved_pod(reservation)
        if self._info_of(fake) is not None:
            self._drop(identifier(fake))

    def clean(self, now: float) -> None:
        """Drop the placeholders without a Reservation whose deadline has passed and which no known pod
        matches."""
        for found in [found for found, info in self._infos.items() if info.deadline < now]:
            matched = self._infos[found].matched
            if not matched or binder_pods.find_uid(self.state, matched) is None:
                self._drop(found)

    # ---- placeholders

    def _info_of(self, fake: Pod) -> ReservationInfo | None:
        """The reservation of this placeholder pod; None also where another pod's has the identifier."""
        info = self._infos.get(identifier(fake))
        return info if info is not None and info.placeholder_pod.metadata.uid == fake.metadata.uid else None

    def _reserve(self, fake: Pod, deadline: float = NEVER) -> None:
        """Add a free placeholder. It replaces one of another pod with its identifier, and one of its pod with
        another identifier."""
        found = identifier(fake)
        held = binder_pods.find(self.state, fake)
        if held is not None and identifier(held) != found:
            self._drop(identifier(held))
        if self._info_of(fake) is None:
            self._drop(found)
        self.state.journal.put(self._infos, found, ReservationInfo(fake, deadline=deadline))
        if binder_pods.find(self.state, fake) is None:
            self.enter(fake)

    def _match(self, found: Identifier, uid: str) -> None:
        """Match a placeholder with the pod of a UID."""
        info = self._infos.get(found)
        if info is None:
            return
        self.state.journal.put(self._infos, found, info._replace(matched=uid))
        self._leave(found, info.placeholder_pod)

    def _drop(self, found: Identifier) -> None:
        """Drop a placeholder."""
        info = self._infos.get(found)
        if info is not None:
            self.state.journal.drop(self._infos, found)
            self._leave(found, info.placeholder_pod)

    def _leave(self, found: Identifier, fake: Pod) -> None:
        held = binder_pods.find(self.state, fake)
        if held is not None and identifier(held) == found:
            self.leave(fake)
