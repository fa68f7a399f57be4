"""Pods in flight, from their pop to the end of their attempt, and the events that happened meanwhile.

kube-scheduler v1.36, backend/queue/active_queue.go. Upstream keeps one list of pods and events; here a pod
knows how many events had happened when it was popped.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterator
from copy import copy
from itertools import islice
from typing import Any, cast

from moorage.framework.plugin.events import ClusterEvent

from .queued_pod_info import Place, QueuedPodInfo

Observed = tuple[ClusterEvent, Any, Any]
"""An event with its old and its new object."""


Flight = tuple[int, QueuedPodInfo, Place]
"""The number of the first event after the pod's pop, the pod, and where it was popped from."""


class InFlight:
    """Pods by UID in the order in which they were popped."""

    def __init__(self) -> None:
        self._flights: OrderedDict[str, Flight] = OrderedDict()
        self._events: deque[Observed] = deque()
        self._dropped = 0  # events that no pod asks for any more

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (info for _, info, _ in self._flights.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod of a UID, where it is in flight."""
        flight = self._flights.get(uid)
        return None if flight is None else flight[1]

    @property
    def events(self) -> list[Observed]:
        """The events that are kept, in order."""
        return list(self._events)

    def add(self, info: QueuedPodInfo, place: Place) -> bool:
        """A pod was popped; false where one of its UID is in flight, which goes on."""
        flight = (self._dropped + len(self._events), info, place)
        return self._flights.setdefault(info.pod.metadata.uid, flight) is flight

    def save(self) -> object:
        """Pods and events, for `undo`."""
        flights = [(uid, flight, copy(flight[1])) for uid, flight in self._flights.items()]
        return flights, self._events.copy(), self._dropped

    def undo(self, saved: object) -> None:
        """Be as at `save`."""
        flights, events, self._dropped = cast(Any, saved)
        self._events = events.copy()
        for _, (_, info, _), then in flights:
            info.take_over(then)
        self._flights = OrderedDict((uid, flight) for uid, flight, _ in flights)

    def rebuild(self, waiting: Container[str]) -> None:
        """Keep the pods that do not wait in the queue; each may receive an event a second time."""
        self._flights = OrderedDict(
            (uid, (self._dropped, info, place))
            for uid, (_, info, place) in self._flights.items()
            if uid not in waiting
        )

    def observe(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Something happened while a pod is in flight."""
        self._events.append((event, old, new))

    def since_pop(self, uid: str) -> Iterator[Observed]:
        """What happened since the pod of this UID, which is in flight, was popped."""
        return islice(self._events, self._flights[uid][0] - self._dropped, None)

    def place(self, uid: str) -> Place | None:
        """Where the pod of a UID was popped from; None for one that is not in flight."""
        flight = self._flights.get(uid)
        return None if flight is None else flight[2]

    def done(self, *uids: str) -> None:
        """The attempts of these pods have ended; UIDs that are not in flight are ignored."""
        for uid in uids:
            self._flights.pop(uid, None)
        if self._events:
            first = next(iter(self._flights.values()))[0] if self._flights else None
            while self._events and (first is None or self._dropped < first):
                self._events.popleft()
                self._dropped += 1
