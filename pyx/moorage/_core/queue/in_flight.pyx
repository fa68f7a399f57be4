"""The pods in flight: from their pop to the end of their attempt, with the events of that time.

kube-scheduler v1.36, backend/queue/active_queue.go. Not thread-safe; the queue has a lock.
"""

import numpy as np

from libc.stdint cimport int64_t

from moorage._core.base cimport Notice
from moorage._core.queue.queued_pods cimport QueuedPodInfo, entry_key


cdef class InFlight:
    """Pods in flight, in the order in which they were popped, and the events since the first pop.

    Upstream has one list of pods and events; here each pod has the number of events before its pop. These
    numbers grow along the pods, so that the first pod tells which events are needed.
    """

    def __cinit__(self):
        self.pods, self.log = {}, []

    def __len__(self):
        return len(self.pods)

    def __contains__(self, uid):
        return uid in self.pods

    def __iter__(self):
        return iter(self.pods.values())

    def get(self, str uid):
        """Return the pod in flight of a UID, or None."""
        return self.pods.get(uid)

    cdef bint has(self, QueuedPodInfo info) except -1:
        """Whether an entry of the queue is in flight."""
        return info is not None and self.pods.get(info.uid) is info

    cdef int64_t first(self) except -1:
        """Return the number of the first event that a pod may still need."""
        for info in self.pods.values():
            return (<QueuedPodInfo>info).cursor
        return self.dropped + len(self.log)

    cdef list since(self, int64_t number):
        """Return the events from a number on, as (ClusterEvent, old object, new object)."""
        cdef Notice change
        cdef Py_ssize_t first = number - self.dropped
        return [(event, change.old, change.new) for event, change in self.log[first:]]

    @property
    def events(self):
        """The events that some pod in flight may still need, in order."""
        return self.since(self.first())

    cdef bint take(self, QueuedPodInfo info, place) except -1:
        """Add a pod that was popped from a place; return False, and do nothing, if one of its UID is in
        flight."""
        if info.uid in self.pods:
            return False
        info.cursor, info.origin = self.dropped + len(self.log), place
        self.pods[info.uid] = info
        return True

    cdef int drop(self) except -1:
        """Drop the events that no pod needs, once they outnumber the others."""
        cdef Py_ssize_t gone = <Py_ssize_t>(self.first() - self.dropped) if self.log else 0
        if 2 * gone > len(self.log):
            del self.log[:gone]
            self.dropped += gone
        return 0

    cdef int leave(self, QueuedPodInfo info) except -1:
        """End the attempt of a pod in flight."""
        del self.pods[info.uid]
        if not self.pods:
            self.dropped += len(self.log)
            self.log.clear()
        return 0

    def observe(self, event, Notice change not None):
        """Record an event for the pods in flight; its objects are made when somebody reads them."""
        if self.pods:
            self.log.append((event, change))

    def save(self):
        """Return pods and events, for `undo`."""
        cdef int64_t first = self.first()
        pods = [(info, (<QueuedPodInfo>info).__copy__()) for info in self.pods.values()]
        return pods, self.log[<Py_ssize_t>(first - self.dropped) :], first

    def undo(self, saved):
        """Restore the state of `save`."""
        pods, log, self.dropped = saved
        for info, then in pods:
            (<QueuedPodInfo?>info).assign(then)
        self.pods, self.log = {(<QueuedPodInfo>info).uid: info for info, _ in pods}, (<list?>log).copy()

    def copy_from(self, InFlight other not None):
        """Take copies of the pods of another log, and its events."""
        pods, self.log, self.dropped = other.save()
        self.pods = {(<QueuedPodInfo>copied).uid: copied for _, copied in pods}

    def rebuild(self, waiting):
        """Remove the pods whose UIDs wait in the queue. The others may receive an event a second time."""
        cdef int64_t first = self.first()
        self.pods = {uid: info for uid, info in self.pods.items() if uid not in waiting}
        for info in self.pods.values():
            (<QueuedPodInfo>info).cursor = first


def pods_of(infos not None):
    """Return the pod of each queue entry."""
    return [(<QueuedPodInfo?>info).pod for info in infos]


def keys_of(infos not None):
    """Return ``namespace/name`` of each queue entry."""
    return [entry_key(<QueuedPodInfo?>info) for info in infos]


def attempts_of(list infos not None):
    """Return how often pods were tried, since when they wait, and how many of them a timer has freed.

    Returns
    -------
    attempts : (len(infos),) int64 array
    since : (len(infos),) float64 array
        `QueuedPodInfo.initial_attempt_timestamp`, in seconds; NaN without one.
    flushed : int
        The number of pods with `QueuedPodInfo.was_flushed`.
    """
    cdef Py_ssize_t at, count = len(infos), flushed = 0
    cdef QueuedPodInfo info
    attempts, since = np.empty(count, dtype=np.int64), np.empty(count)
    cdef int64_t[::1] tried = attempts
    cdef double[::1] ready = since
    for at in range(count):
        info = <QueuedPodInfo?>infos[at]
        tried[at], ready[at] = info.attempts, info.first_ready
        flushed += info.was_flushed
    return attempts, since, flushed
