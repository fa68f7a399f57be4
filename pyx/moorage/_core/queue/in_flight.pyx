"""The pods in flight: from their pop to the end of their attempt, with the events of that time.

kube-scheduler v1.36, backend/queue/active_queue.go. Not thread-safe; the queue has a lock.
"""

import numpy as np

from libc.stdint cimport int64_t

from moorage._core.base cimport STATUS, Field, Notice
from moorage._core.queue.queued_pods cimport QueuedPodInfo, entry_key

cdef Field NOMINATED_NODE_NAME = Field("nominated_node_name")
cdef enum:
    SPARE = 32  # so many empty seats stay
    FEW = 8     # so many seats are searched one by one


cdef class Numbers:
    """The numbers 1, 2, 3, …, one at each `next`; the position can be saved.

    Attributes
    ----------
    last : int
        The last number; 0 before the first.
    """

    def __next__(self):
        self.last += 1
        return self.last


cdef class InFlight:
    """Pods in flight, in the order in which they were popped, and the events since the first pop.

    Upstream has one list of pods and events; here each pod has the number of events before its pop.

    Most pods are popped and leave together, and are known by their entries. They are looked up by UID, once
    somebody asks for one.
    """

    def __cinit__(self):
        self.seats, self.log, self.before = [], [], {}

    def __len__(self):
        return self.n

    def __contains__(self, uid):
        return self.n > 0 and uid in self.by_uid()

    def __iter__(self):
        return iter(self.listed())

    cdef list listed(self):
        """Return the pods in their order."""
        return [info for info in self.seats if info is not None]

    cdef dict by_uid(self):
        """Return the pods by UID, in their order."""
        cdef QueuedPodInfo info
        if self.known is None:
            self.known = {info.uid: info for info in self.listed()}
        return self.known

    def get(self, str uid):
        """Return the pod in flight of a UID, or None.

        Parameters
        ----------
        uid : str
            UID of a pod.

        Returns
        -------
        QueuedPodInfo or None
        """
        cdef QueuedPodInfo info
        if self.known is not None or len(self.seats) > FEW:
            return self.by_uid().get(uid)
        for info in self.seats:
            if info is not None and info.uid == uid:
                return info
        return None

    def has(self, QueuedPodInfo info not None):
        """Whether an entry of the queue is in flight.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        return _has(self, info)

    def note_addition(self):
        """Note that a pod is added to the queue, which may have the UID of one in flight."""
        self.may_repeat = self.n > 0

    @property
    def events(self):
        """The events that some pod in flight may still need, in order."""
        return self._from(self.first)

    cdef list _from(self, Py_ssize_t first):
        """Return the events from an index on, with the objects of notices."""
        cdef Py_ssize_t at
        cdef tuple entry
        cdef Notice notice
        for at in range(first, len(self.log)):
            entry = <tuple>self.log[at]
            if len(entry) == 2:
                notice = entry[1]
                self.log[at] = entry[0], notice.old, notice.new
        return self.log[first:]

    def take(self, list infos not None, place, dict waiting not None):
        """Add popped pods; they wait no longer.

        Parameters
        ----------
        infos : list of QueuedPodInfo
        place : Place
            The place they were popped from.
        waiting : dict of str to QueuedPodInfo
            All waiting pods by UID, from which they are removed; empty if they have been.

        Returns
        -------
        list of QueuedPodInfo
            Those of whose UID a pod is in flight already, which stays.
        """
        cdef QueuedPodInfo info
        cdef int64_t cursor = self.dropped + len(self.log)
        cdef Py_ssize_t before = self.n
        cdef list discarded = []
        cdef dict known = self.by_uid() if self.may_repeat or self.known is not None else None
        _leave_waiting(infos, waiting)
        for info in infos:
            info.place = None
            info.attempts += 1
            if known is not None:
                if info.uid in known:
                    discarded.append(info)
                    continue
                known[info.uid] = info
            info.cursor, info.origin, info.seat = cursor, place, len(self.seats)
            self.seats.append(info)
            self.n += 1
        self._count(cursor, self.n - before)
        return discarded

    cdef int _count(self, int64_t cursor, int64_t more) except -1:
        """Change the number of pods for which an event is the first."""
        n = self.before.get(cursor, 0) + more
        if n:
            self.before[cursor] = n
        else:
            self.before.pop(cursor, None)
        return 0

    def save(self):
        """Return pods and events, for `undo`."""
        pods = [(info, (<QueuedPodInfo>info).__copy__()) for info in self.listed()]
        return pods, self.events, self.dropped + self.first

    def undo(self, saved):
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        pods, events, self.dropped = saved
        self.log, self.first = list(events), 0
        for info, then in pods:
            (<QueuedPodInfo?>info).assign(then)
        self._set([info for info, _ in pods])

    def copy_from(self, InFlight other not None):
        """Take copies of the pods of another log, and its events.

        Parameters
        ----------
        other : InFlight
        """
        self.log, self.first, self.dropped = other.events, 0, other.dropped + other.first
        self._set([(<QueuedPodInfo>info).__copy__() for info in other.listed()])

    cdef int _set(self, list infos) except -1:
        """Replace the pods."""
        cdef QueuedPodInfo info
        self._seat(infos)
        self.known, self.before, self.may_repeat = None, {}, self.n > 0
        for info in infos:
            self._count(info.cursor, 1)
        return 0

    cdef int _seat(self, list infos) except -1:
        """Number the pods, which are in their order."""
        cdef Py_ssize_t at
        for at in range(len(infos)):
            (<QueuedPodInfo?>infos[at]).seat = at
        self.seats, self.n = infos, len(infos)
        return 0

    def rebuild(self, waiting):
        """Remove the pods that wait in the queue. The others may receive an event a second time.

        Parameters
        ----------
        waiting : container of str
            The UIDs of the pods that wait.
        """
        cdef QueuedPodInfo info
        cdef list infos = [info for info in self.listed() if (<QueuedPodInfo>info).uid not in waiting]
        for info in infos:
            info.cursor = self.dropped + self.first
        self._set(infos)

    def observe(self, event, old, new):
        """Record an event for the pods in flight, if there are any.

        Parameters
        ----------
        event : ClusterEvent
        old, new : object or None
            The object of the event before and after it.
        """
        if self.n:
            self.log.append((event, old, new))

    def observe_run(self, event, notices):
        """Record an event of the leading objects that were added, or that were changed; see `observe`.

        Parameters
        ----------
        event : ClusterEvent or None
            None: it is not recorded.
        notices : iterable of Notice
            Of objects. The first tells whether additions are recorded.

        Returns
        -------
        int
            Their number.
        """
        cdef Notice notice
        cdef Py_ssize_t n = 0
        cdef bint records = event is not None and self.n > 0, adds
        for notice in notices:
            if n == 0:
                adds = notice.is_addition
            if notice.is_deletion or notice.is_addition != adds:
                break
            if records:
                self.log.append((event, notice))
            n += 1
        return n

    def observe_evictions(self, evictions, changed, deleted):
        """Record that pods were changed and then deleted. The objects are made where they are read.

        Parameters
        ----------
        evictions : iterable of (Notice, Notice)
            The change and the deletion of each pod.
        changed, deleted : ClusterEvent or None
            Their events; None: it is not recorded.
        """
        if not self.n:
            return
        for change, deletion in evictions:
            if changed is not None:
                self.log.append((changed, <Notice?>change))
            if deleted is not None:
                self.log.append((deleted, <Notice?>deletion))

    def since_pop(self, str uid not None):
        """Return the events since the pop of a pod that is in flight, by its UID.

        Parameters
        ----------
        uid : str
            UID of a pod.

        Returns
        -------
        list of Observed
        """
        cdef QueuedPodInfo info = self.by_uid()[uid]
        return self._from(<Py_ssize_t>(info.cursor - self.dropped))

    def place(self, QueuedPodInfo info not None):
        """Return the place that a pod was popped from; None if it is not in flight.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        Place or None
        """
        return info.origin if _has(self, info) else None

    def done(self, *uids):
        """End the attempts of pods by their UIDs, and drop the events that no other pod needs.

        UIDs that are not in flight are ignored.
        """
        self.finish([self.get(uid) for uid in uids] if self.n else [])

    cpdef finish(self, list infos):
        """End the attempts of pods by their entries; see `done`.

        Parameters
        ----------
        infos : list of (QueuedPodInfo or None)
            Those that are not in flight are ignored.
        """
        cdef int64_t cursor = -1, n = 0
        cdef QueuedPodInfo info
        if infos is None:
            raise TypeError("a list of pods is wanted")
        for info in infos:
            if info is None or not _has(self, info):
                continue
            if info.cursor != cursor:
                if n:
                    self._count(cursor, -n)
                cursor, n = info.cursor, 0
            _leave(self, info)
            n += 1
        if n:
            self._count(cursor, -n)
        self._tidy()
        if len(self.log) > self.first:
            self._drop()

    cdef int _tidy(self) except -1:
        """Drop the seats that are empty, once they outnumber the pods."""
        if len(self.seats) > 2 * self.n + SPARE or not self.n:
            self._seat(self.listed())
        if not self.n:
            self.known, self.may_repeat = None, False
        return 0

    cdef bint is_as_popped(self, QueuedPodInfo info, latest) except -1:
        """Whether a pod in flight is as it was popped and not nominated, and no event since then concerns it;
        pods of groups need no event."""
        if not _has(self, info) or latest is not info.pod:
            return False
        if info.unit is None and info.cursor != self.dropped + len(self.log):
            return False
        return not NOMINATED_NODE_NAME.of(STATUS.of(info.pod))

    cdef int _drop(self) except -1:
        """Drop the events before the first that a pod in flight needs."""
        cdef int64_t needed = self.dropped + len(self.log)
        for number in self.before:  # ascending
            needed = number
            break
        while self.dropped + self.first < needed:
            self.log[self.first] = None
            self.first += 1
        if 2 * self.first > len(self.log):
            del self.log[: self.first]
            self.dropped += self.first
            self.first = 0
        return 0


cdef inline bint _has(InFlight flying, QueuedPodInfo info) noexcept:
    """Whether an entry of the queue is in flight."""
    return 0 <= info.seat < len(flying.seats) and flying.seats[info.seat] is info


cdef int _leave(InFlight flying, QueuedPodInfo info) except -1:
    """Remove a pod that is in flight; the caller counts the events that it needs."""
    flying.seats[info.seat] = None
    flying.n -= 1
    if flying.known is not None:
        del flying.known[info.uid]
    return 0


cdef int _leave_waiting(list infos, dict waiting) except -1:
    """Remove pods from the waiting ones by UID, unless they have been removed before."""
    cdef QueuedPodInfo info
    if len(waiting) == len(infos):  # all pods
        waiting.clear()
        return 0
    for info in infos:
        waiting.pop(info.uid, None)
    return 0


def pods_of(infos not None):
    """Return the pod of each queue entry.

    Parameters
    ----------
    infos : iterable of QueuedPodInfo

    Returns
    -------
    list of Pod
    """
    return [(<QueuedPodInfo?>info).pod for info in infos]


def keys_of(infos not None):
    """Return the key of each queue entry.

    Parameters
    ----------
    infos : iterable of QueuedPodInfo

    Returns
    -------
    list of str
        ``namespace/name`` of each pod.
    """
    return [entry_key(<QueuedPodInfo?>info) for info in infos]


def attempts_of(list infos not None):
    """Return how often pods were tried, since when they wait, and how many of them a timer has freed.

    Parameters
    ----------
    infos : list of QueuedPodInfo

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
