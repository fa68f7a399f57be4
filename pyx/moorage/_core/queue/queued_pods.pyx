# cython: auto_pickle=False
"""The parts of the scheduling queue that every pod passes: its entry, and the active queue in the order of
PrioritySort. They are not thread-safe; the queue has a lock.

kube-scheduler v1.36, framework/types.go and backend/queue/active_queue.go.
"""

from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import chain

cimport cython
from libc.math cimport INFINITY, NAN, isnan

from moorage._core.base cimport METADATA, SPEC, UID, Field
from moorage._core.base.fields cimport key_of

cdef enum:
    SPARE = 32  # so many removed pods stay in a lane or a heap of any size

cdef frozenset NO_PLUGINS = frozenset()
cdef Field PRIORITY = Field("priority")


class Place(Enum):
    """The place of a pod in the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"

    __hash__ = object.__hash__  # by identity: the hash of Enum is slower


class Strategy(Enum):
    """The way in which an event moves a pod: not at all, after its backoff, or at once (upstream
    queueingStrategy)."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


@cython.no_gc
cdef class QueuedPodInfo:
    """A pod in the queue (kube-scheduler v1.36, framework/types.go).

    Parameters
    ----------
    pod : Pod
    timestamp : float
    **fields
        Other attributes.

    Attributes
    ----------
    pod : Pod
        Its latest state that the queue knows.
    uid, key : str
        UID of the pod, and ``namespace/name``, which stay the same.
    timestamp : float
        When the pod entered the queue or last returned to it, in seconds.
    attempts : int
        The number of times it was popped.
    unschedulable_count, consecutive_errors_count : int
        The number of rejections, and of errors since the last rejection. Backoff grows with them.
    initial_attempt_timestamp : float or None
        When the pod first entered the active queue, in seconds.
    unschedulable_plugins, pending_plugins : frozenset of str
        The plugins that rejected the last attempt or gate the pod; and those of them that answered Pending.
    gating_plugin : str
        The plugin whose PreEnqueue gates the pod, or "".
    was_flushed : bool
        The pod was moved because it had been unschedulable for too long.
    flushed_at : float
        When the timeout of unschedulable pods last reached it since its last attempt, in seconds; minus
        infinity before, and in releases that do not note it.
    place : Place or None
        Set by the queue, as the attributes below. None outside the queue.
    order : int
        The number of its entry into that place.
    until : int
        The end of its backoff in microseconds; 0 where it was not computed.
    unit : tuple of str, or None
        Namespace and name of the pod group that it is tried with.
    group : QueuedGroupInfo or None
        The entry of that group, from their pop to the end of the group's attempt.
    size : int
        The number of pods: 1.
    """

    def __cinit__(self):
        self.size = 1
        self.unschedulable_plugins = self.pending_plugins = NO_PLUGINS
        self.gating_plugin, self.first_ready, self.flushed_at = "", NAN, -INFINITY

    def __init__(self, pod, double timestamp=0.0, **fields):
        self.pod, self.uid, self.timestamp = pod, UID.of(METADATA.of(pod)), timestamp
        for name, value in fields.items():
            setattr(self, name, value)

    def __copy__(self):
        cdef QueuedPodInfo out = type(self).__new__(type(self))
        out.assign(self)
        return out

    def __repr__(self):
        about = self.unit if self.pod is None else self.pod
        return f"<{type(self).__name__} of {about!r}: {self.place}, {self.attempts} attempts>"

    cdef int assign(self, QueuedPodInfo other) except -1:
        """Copy all fields of another entry of the same pod or group."""
        if other is None:
            raise TypeError("a pod is None")
        self.pod, self.uid, self.made_key, self.unit = other.pod, other.uid, other.made_key, other.unit
        self.place, self.origin = other.place, other.origin
        self.unschedulable_plugins, self.pending_plugins = other.unschedulable_plugins, other.pending_plugins
        self.gating_plugin, self.was_flushed = other.gating_plugin, other.was_flushed
        self.timestamp, self.first_ready = other.timestamp, other.first_ready
        self.flushed_at = other.flushed_at
        self.attempts, self.order, self.until = other.attempts, other.order, other.until
        self.group, self.size = other.group, other.size
        self.unschedulable_count = other.unschedulable_count
        self.consecutive_errors_count = other.consecutive_errors_count
        self.slot, self.cursor = other.slot, other.cursor
        return 0

    @property
    def key(self):
        """``namespace/name`` of the pod. It is kept, so that all maps of a run share one string."""
        return entry_key(self)

    @property
    def initial_attempt_timestamp(self):
        """When the pod first entered the active queue, in seconds; None before."""
        return None if isnan(self.first_ready) else self.first_ready

    @initial_attempt_timestamp.setter
    def initial_attempt_timestamp(self, value):
        self.first_ready = NAN if value is None else value

    @property
    def rejectors(self):
        """Unschedulable and pending plugins."""
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins

    cdef list listed(self):
        """Return the pods of the entry."""
        return [self]

    cpdef list ordered(self):
        """Return the pods of the entry, in the order in which they are tried."""
        return [self]

    cdef int move_to(self, place) except -1:
        """Note the place of the entry, and its order there, in its pods."""
        self.place = place
        return 0

    cdef int note_ready(self, double time) except -1:
        """Note that the pods of the entry enter the active queue, perhaps for the first time; in seconds."""
        if isnan(self.first_ready):
            self.first_ready = time
        return 0

    cpdef int note_failure(self, plugins, double time, bint is_error) except -1:
        """Note that the last attempt has failed, so that the entry returns to the queue.

        Parameters
        ----------
        plugins : tuple of (frozenset of str, frozenset of str)
            The plugins that rejected the pod, and those among them that answered Pending. Both are empty
            after an error, and for a group.
        time : float
            Seconds.
        is_error : bool
        """
        self.unschedulable_plugins, self.pending_plugins = plugins
        self.timestamp, self.until, self.gating_plugin = time, 0, ""
        self.was_flushed, self.flushed_at = False, -INFINITY
        self.unschedulable_count += not is_error
        if is_error:
            self.consecutive_errors_count += 1
        else:
            self.consecutive_errors_count = 0
        return 0


@cython.no_gc
cdef class QueuedGroupInfo(QueuedPodInfo):
    """A pod group, or a tree of groups, in the queue: its pods wait, are gated, back off and leave as one
    (kube-scheduler v1.37, framework/types.go QueuedPodGroupInfo).

    Its attributes are those of an entry, of the group as a whole. Its pods have its place and its order.

    Parameters
    ----------
    unit : tuple of str
        Namespace and name of the group.
    timestamp : float
        When its first pod came, in seconds.

    Attributes
    ----------
    members : dict of str to QueuedPodInfo
        The waiting pods by UID, in the order in which they came.
    pod : Pod or None
        The first of them.
    uid : str
        Differs from those of pods.
    size : int
        Their number.
    """

    def __cinit__(self):
        self.members, self.size = {}, 0

    def __init__(self, tuple unit not None, double timestamp):
        self.unit, self.uid, self.timestamp = unit, "\0".join(unit), timestamp

    cdef int assign(self, QueuedPodInfo other) except -1:
        QueuedPodInfo.assign(self, other)
        self.members = (<QueuedGroupInfo?>other).members.copy()
        return 0

    cdef int join(self, QueuedPodInfo info) except -1:
        """Add a pod."""
        info.unit, info.place, info.order = self.unit, self.place, self.order
        if not self.size:
            self.pod = info.pod
        self.members[info.uid] = info
        self.size = len(self.members)
        return 0

    cdef int part(self, QueuedPodInfo info) except -1:
        """Remove a pod, which keeps its `unit`."""
        del self.members[info.uid]
        self.size = len(self.members)
        info.place = None
        for other in self.members.values():
            self.pod = (<QueuedPodInfo>other).pod
            break
        return 0

    cdef int clear(self) except -1:
        """Forget the pods."""
        self.members, self.size = {}, 0
        return 0

    cdef list listed(self):
        return list(self.members.values())

    cpdef list ordered(self):
        return sorted(self.members.values(), key=group_order)

    cdef int move_to(self, place) except -1:
        cdef QueuedPodInfo info
        self.place = place
        for info in self.members.values():
            info.place, info.order = place, self.order
        return 0

    cdef int note_ready(self, double time) except -1:
        cdef QueuedPodInfo info
        for info in self.members.values():
            info.note_ready(time)
        return QueuedPodInfo.note_ready(self, time)

    cdef list released(self):
        """Return the pods by `group_order`; they leave the group, whose attempt they begin. Their `order` is
        that in which they came."""
        cdef QueuedPodInfo info
        members = self.ordered()
        for at, info in enumerate(self.members.values()):
            info.group, info.order = self, at
        self.clear()
        self.place = None
        self.attempts += 1
        return members


def group_order(QueuedPodInfo info not None):
    """Return the key that orders the pods of a group: higher priority first, then more attempts, then the
    earlier timestamp, then the name (kube-scheduler v1.37, PodGroupMemberPodsOrderingFunc).

    Returns
    -------
    (int, int, float, str)
    """
    return -_priority(info), -info.attempts, info.timestamp, info.key


cdef str entry_key(QueuedPodInfo info):
    """Return the key of a pod."""
    if info.made_key is None:
        info.made_key = key_of(info.pod)
    return info.made_key


cdef inline object _priority(QueuedPodInfo info):
    """Return the priority of a pod."""
    return PRIORITY.of(SPEC.of(info.pod)) or 0


cpdef tuple _position(QueuedPodInfo info):
    """Return the key by which the entries of one priority are ordered: timestamp, then number."""
    return info.timestamp, info.order


cdef class Waiting:
    """Entries that wait in one place.

    Attributes
    ----------
    size : int
        Their number.
    """

    def add(self, QueuedPodInfo entry not None):
        """Add an entry that is not here."""
        self.enter(entry)

    def remove(self, QueuedPodInfo entry not None):
        """Remove an entry that is here."""
        self.leave(entry)

    @property
    def next(self):
        """The first entry; None without any, and where entries have no order."""
        return self.first()

    cdef int enter(self, QueuedPodInfo entry) except -1:
        raise NotImplementedError

    cdef int leave(self, QueuedPodInfo entry) except -1:
        raise NotImplementedError

    cdef QueuedPodInfo first(self):
        return None

    cdef int drop(self, QueuedPodInfo first) except -1:
        """Remove the first entry, which `first` has returned."""
        raise NotImplementedError

    cpdef list pop(self, Py_ssize_t limit):
        """Remove and return the first entries, all of pods or all of groups.

        Parameters
        ----------
        limit : int
            Largest number of pods; the last group may exceed it.
        """
        cdef QueuedPodInfo entry, last = None
        cdef list entries = []
        while limit > 0:
            entry = self.first()
            if entry is None or (last is not None and (entry.unit is None) != (last.unit is None)):
                break
            self.drop(entry)
            entries.append(entry)
            limit -= entry.size
            last = entry
        return entries


cdef class KeyedHeap(Waiting):
    """A heap of entries, the lowest rank first.

    A removed entry stays in the heap until it reaches the top, or until those outnumber the others.

    Parameters
    ----------
    rank : callable
        Returns the rank of an entry, a tuple. Ranks are unique.
    """

    def __cinit__(self, rank not None):
        self.entries, self.heap, self.rank = {}, [], rank

    def __iter__(self):
        """Iterate in the order in which the entries would be popped."""
        return iter([info for _, _, info in sorted(self.entries.values())])

    @property
    def stored(self):
        """The number of stored entries, removed ones included."""
        return len(self.heap)

    cdef int enter(self, QueuedPodInfo entry) except -1:
        self.size += 1
        item = self.entries[entry.uid] = (self.rank(entry), entry.uid, entry)
        heappush(self.heap, item)
        return 0

    cdef int leave(self, QueuedPodInfo entry) except -1:
        del self.entries[entry.uid]
        self.size -= 1
        if len(self.heap) > 2 * self.size + SPARE:
            self.heap = list(self.entries.values())
            heapify(self.heap)
        return 0

    cdef QueuedPodInfo first(self):
        cdef tuple item
        while self.heap:
            item = self.heap[0]
            if self.entries.get(item[1]) is item:
                return item[2]
            heappop(self.heap)
        return None

    cdef int drop(self, QueuedPodInfo first) except -1:
        heappop(self.heap)
        del self.entries[first.uid]
        self.size -= 1
        return 0


cdef class Lane(Waiting):
    """Entries that mostly arrive in the order of their ranks: a list for these, a heap for the others.

    Parameters
    ----------
    rank : callable
        As that of `KeyedHeap`.
    """

    def __cinit__(self, rank not None):
        self.rank, self.pods, self.out_of_order = rank, [], KeyedHeap(rank)

    def __iter__(self):
        """Iterate in the order in which the entries would be popped."""
        in_order = [info for info in self.pods[self.begin :] if info is not None]
        return iter(sorted([*in_order, *self.out_of_order], key=self.rank))

    @property
    def stored(self):
        """The number of stored entries, removed ones included."""
        return len(self.pods) + self.out_of_order.stored

    cdef int enter(self, QueuedPodInfo entry) except -1:
        cdef tuple rank = self.rank(entry)
        self.size += 1
        if self.begin == len(self.pods) or rank > self.last:
            entry.slot = self.gone + len(self.pods)
            self.last = rank
            self.pods.append(entry)
        else:
            entry.slot = -1
            self.out_of_order.enter(entry)
        return 0

    cdef int leave(self, QueuedPodInfo entry) except -1:
        cdef Py_ssize_t at = entry.slot - self.gone
        if entry.slot < 0:
            self.out_of_order.leave(entry)
            self.size -= 1
            return 0
        if not 0 <= at < len(self.pods) or self.pods[at] is not entry:
            raise KeyError(entry.uid)
        self.size -= 1
        self.pods[at] = None
        self.removed += 1
        if 2 * self.removed > len(self.pods) - self.begin + SPARE:
            self.pods = [info for info in self.pods[self.begin :] if info is not None]
            self.begin = self.removed = self.gone = 0
            for at in range(len(self.pods)):
                (<QueuedPodInfo>self.pods[at]).slot = at
        return 0

    cdef QueuedPodInfo first(self):
        cdef QueuedPodInfo info, late = self.out_of_order.first() if self.out_of_order.size else None
        while self.begin < len(self.pods) and self.pods[self.begin] is None:
            self.begin += 1
            self.removed -= 1
        if self.begin == len(self.pods):
            return late
        info = self.pods[self.begin]
        return info if late is None or self.rank(info) < self.rank(late) else late

    cdef int drop(self, QueuedPodInfo first) except -1:
        self.size -= 1
        if first.slot < 0:
            return self.out_of_order.drop(first)
        self.begin += 1
        if 2 * self.begin > len(self.pods) + SPARE or self.begin == len(self.pods):
            del self.pods[: self.begin]
            self.gone += self.begin
            self.begin = 0
        return 0


cdef class PriorityLanes(Waiting):
    """A queue in the order of PrioritySort.

    Timestamps mostly arrive in order, so most pods enter at the end of the lane of their priority and leave
    at its beginning. `pop` returns those of the highest priority.
    """

    def __cinit__(self):
        self.lanes = {}

    def __iter__(self):
        """Iterate in the order in which the entries would be popped."""
        return chain.from_iterable([self.lanes[priority] for priority in sorted(self.lanes, reverse=True)])

    @property
    def stored(self):
        """The number of stored entries, removed ones included."""
        cdef Lane lane
        return sum([lane.stored for lane in self.lanes.values()])

    def rank(self, QueuedPodInfo entry not None):
        """Return a unique key of an entry's position in the order, a tuple; lower keys first."""
        return -_priority(entry), entry.timestamp, entry.order

    cdef int enter(self, QueuedPodInfo entry) except -1:
        priority = _priority(entry)
        lane = self.lanes.get(priority)
        if lane is None:
            lane = self.lanes[priority] = Lane(_position)
        self.size += 1
        return (<Lane>lane).enter(entry)

    cdef int leave(self, QueuedPodInfo entry) except -1:
        cdef Lane lane = self.lanes[_priority(entry)]
        lane.leave(entry)
        return self.left(lane, _priority(entry), 1)

    cdef QueuedPodInfo first(self):
        return (<Lane>self.lanes[max(self.lanes)]).first() if self.lanes else None

    cpdef list pop(self, Py_ssize_t limit):
        cdef list entries = []
        cdef Lane lane
        if self.lanes:
            priority = max(self.lanes)
            lane = self.lanes[priority]
            entries = lane.pop(limit)
            self.left(lane, priority, len(entries))
        return entries

    cdef int left(self, Lane lane, priority, Py_ssize_t number) except -1:
        """Account for entries that have left a lane."""
        self.size -= number
        if not lane.size:
            del self.lanes[priority]
        return 0
