"""Pods in flight, from their pop to the end of their attempt, and the events of that time.

kube-scheduler v1.36, backend/queue/active_queue.go. Upstream has one list of pods and events; here each pod
has the number of events before its pop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterator
from copy import copy
from itertools import islice
from typing import Any, cast

from moorage.framework import ClusterEvent

from .queued_pod_info import Place, QueuedPodInfo

Observed = tuple[ClusterEvent, Any, Any]
"""An event with its old and its new object."""


PoppedPod = tuple[int, QueuedPodInfo, Place]
"""The number of the first event after the pod's pop, the pod, and the place it was popped from."""


class InFlight:
    """Pods in flight by UID, in the order in which they were popped."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, PoppedPod] = OrderedDict()
        self._events: deque[Observed] = deque()
        self._dropped = 0  # number of dropped events: no pod in flight needs them

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (info for _, info, _ in self._pods.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod in flight of a UID, or None.

        Parameters
        ----------
        uid : str
            UID of a pod.

        Returns
        -------
        QueuedPodInfo or None
        """
        popped = self._pods.get(uid)
        return None if popped is None else popped[1]

    @property
    def events(self) -> list[Observed]:
        """The events that some pod in flight may still need, in order."""
        return list(self._events)

    def add(self, info: QueuedPodInfo, place: Place) -> bool:
        """Add a popped pod.

        Parameters
        ----------
        info : QueuedPodInfo
        place : Place
            The place it was popped from.

        Returns
        -------
        bool
            False if a pod of its UID is in flight already; that one stays.
        """
        popped = (self._dropped + len(self._events), info, place)
        return self._pods.setdefault(info.pod.metadata.uid, popped) is popped

    def save(self) -> object:
        """Return pods and events, for `undo`."""
        pods = [(uid, popped, copy(popped[1])) for uid, popped in self._pods.items()]
        return pods, self._events.copy(), self._dropped

    def undo(self, saved: object) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        pods, events, self._dropped = cast(Any, saved)
        self._events = events.copy()
        for _, (_, info, _), then in pods:
            info.assign(then)
        self._pods = OrderedDict((uid, popped) for uid, popped, _ in pods)

    def rebuild(self, waiting: Container[str]) -> None:
        """Remove the pods that wait in the queue. The others may receive an event a second time.

        Parameters
        ----------
        waiting : container of str
            The UIDs of the pods that wait.
        """
        self._pods = OrderedDict(
            (uid, (self._dropped, info, place))
            for uid, (_, info, place) in self._pods.items()
            if uid not in waiting
        )

    def observe(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Record an event for the pods in flight.

        Parameters
        ----------
        event : ClusterEvent
        old, new : object or None
            The object of the event before and after it.
        """
        self._events.append((event, old, new))

    def since_pop(self, uid: str) -> Iterator[Observed]:
        """Return the events since the pop of a pod that is in flight, by its UID.

        Parameters
        ----------
        uid : str
            UID of a pod.

        Returns
        -------
        iterator of Observed
        """
        return islice(self._events, self._pods[uid][0] - self._dropped, None)

    def place(self, uid: str) -> Place | None:
        """Return the place that the pod of a UID was popped from; None if it is not in flight.

        Parameters
        ----------
        uid : str
            UID of a pod.

        Returns
        -------
        Place or None
        """
        popped = self._pods.get(uid)
        return None if popped is None else popped[2]

    def done(self, *uids: str) -> None:
        """End the attempts of pods by their UIDs, and drop the events that no other pod needs.

        UIDs that are not in flight are ignored.
        """
        for uid in uids:
            self._pods.pop(uid, None)
        if self._events:
            first = next(iter(self._pods.values()))[0] if self._pods else None
            while self._events and (first is None or self._dropped < first):
                self._events.popleft()
                self._dropped += 1
