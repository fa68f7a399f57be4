"""ReservationStore: reservations of the resources of deleted pods for the pods that replace them.

A placeholder pod represents a reservation on its node. It is free until the pod that replaces the deleted pod
is assumed or bound; then it is matched (Gödel).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from moorage._core.binder import binder_pods
from moorage._core.state.cluster_state import ClusterState
from moorage.compat.godel import (
    Reservation,
    deployment_of,
    node_name_of,
    occupies,
    placeholder_key,
    placeholder_of,
    placeholder_pod,
    reserved_pod,
    wants_reservation,
)
from moorage.errors import CacheError
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import Deployment

from .cache_handler import CacheHandler
from .stores import Store, StoreName

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
