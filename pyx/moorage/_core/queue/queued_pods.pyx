"""The parts of the scheduling queue that every pod passes: its entry, and the active queue in the order of
PrioritySort. They are not thread-safe; the queue has a lock.

kube-scheduler v1.36, framework/types.go and backend/queue/active_queue.go.
"""

from enum import Enum
from heapq import heapify, heappop, heappush, merge

cimport cython
from libc.math cimport INFINITY, NAN, isnan
from libc.stdint cimport int64_t

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


cdef object IN_ACTIVE = Place.ACTIVE


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
        cdef QueuedPodInfo out = QueuedPodInfo.__new__(QueuedPodInfo)
        out.assign(self)
        return out

    def assign(self, QueuedPodInfo other not None):
        """Copy all fields of another entry of the pod.

        Parameters
        ----------
        other : QueuedPodInfo
        """
        _assign(self, other)

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

    def note_ready(self, double time):
        """Note that the pod, or the pods of the group, enter the active queue, perhaps for the first time.

        Parameters
        ----------
        time : float
            Seconds.
        """
        if isnan(self.first_ready):
            self.first_ready = time

    cpdef int note_failure(self, plugins, double time) except -1:
        """Note that the last attempt has failed, so that the pod returns to the queue.

        Parameters
        ----------
        plugins : tuple of (frozenset of str, frozenset of str)
            The plugins that rejected the pod, and those among them that answered Pending. Both are empty
            after an error.
        time : float
            Seconds.
        """
        self.unschedulable_plugins, self.pending_plugins = plugins
        self.timestamp, self.until, self.gating_plugin = time, 0, ""
        self.was_flushed, self.flushed_at = False, -INFINITY
        if self.unschedulable_plugins or self.pending_plugins:
            self.unschedulable_count += 1
            self.consecutive_errors_count = 0
        else:
            self.consecutive_errors_count += 1
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

    def __copy__(self):
        cdef QueuedGroupInfo out = QueuedGroupInfo.__new__(QueuedGroupInfo)
        out.assign(self)
        return out

    def assign(self, QueuedPodInfo other not None):
        """Copy all fields of another entry of the group.

        Parameters
        ----------
        other : QueuedGroupInfo
        """
        _assign(self, other)
        self.members = (<QueuedGroupInfo?>other).members.copy()

    cpdef int join(self, QueuedPodInfo info) except -1:
        """Add a pod.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        if info is None:
            raise TypeError("a pod is None")
        info.unit, info.place, info.order = self.unit, self.place, self.order
        if not self.size:
            self.pod = info.pod
        self.members[info.uid] = info
        self.size = len(self.members)
        return 0

    cpdef int part(self, QueuedPodInfo info) except -1:
        """Remove a pod, which keeps its `unit`.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        if info is None:
            raise TypeError("a pod is None")
        del self.members[info.uid]
        self.size = len(self.members)
        info.place = None
        for other in self.members.values():
            self.pod = (<QueuedPodInfo>other).pod
            break
        return 0

    def note_ready(self, double time):
        for info in (self, *self.members.values()):
            if isnan((<QueuedPodInfo>info).first_ready):
                (<QueuedPodInfo>info).first_ready = time

    def clear(self):
        """Forget the pods."""
        self.members, self.size = {}, 0

    def move_to(self, place):
        """Note the place of the group, and its order there, in its pods.

        Parameters
        ----------
        place : Place or None
        """
        cdef QueuedPodInfo info
        self.place = place
        for info in self.members.values():
            info.place, info.order = place, self.order

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

    cpdef list ordered(self):
        """Return the pods by `group_order`."""
        cdef QueuedPodInfo info, last = None
        members = list(self.members.values())
        for info in members:
            if last is not None and not _precedes(last, info):
                members.sort(key=group_order)
                break
            last = info
        return members


cdef str entry_key(QueuedPodInfo info):
    """Return the key of a pod."""
    if info.made_key is None:
        info.made_key = key_of(info.pod)
    return info.made_key


cdef inline object _uid(QueuedPodInfo info):
    """Return the UID of a pod."""
    return info.uid


def entries_of(dict infos not None, pods):
    """Iterate over the queue entries of those of some pods that have one.

    Parameters
    ----------
    infos : dict of str to QueuedPodInfo
        By UID.
    pods : iterable of Pod

    Yields
    ------
    QueuedPodInfo
        The caller may remove it from `infos`.
    """
    for pod in pods if infos else ():
        info = infos.get(UID.of(METADATA.of(pod)))
        if info is not None:
            yield info


cdef int _assign(QueuedPodInfo to, QueuedPodInfo other) except -1:
    """Copy all fields of an entry to another one; neither may be None."""
    if to is None or other is None:
        raise TypeError("a pod is None")
    to.pod, to.uid, to.made_key, to.unit = other.pod, other.uid, other.made_key, other.unit
    to.place, to.origin = other.place, other.origin
    to.unschedulable_plugins, to.pending_plugins = other.unschedulable_plugins, other.pending_plugins
    to.gating_plugin, to.was_flushed = other.gating_plugin, other.was_flushed
    to.timestamp, to.first_ready, to.flushed_at = other.timestamp, other.first_ready, other.flushed_at
    to.attempts, to.order, to.until = other.attempts, other.order, other.until
    to.group, to.size = other.group, other.size
    to.unschedulable_count = other.unschedulable_count
    to.consecutive_errors_count = other.consecutive_errors_count
    to.slot, to.seat, to.cursor = other.slot, other.seat, other.cursor


def copies_of(dict infos not None):
    """Return copies of queue entries.

    Parameters
    ----------
    infos : dict of str to QueuedPodInfo
        By UID.

    Returns
    -------
    dict of str to QueuedPodInfo
        In the same order.
    """
    cdef QueuedPodInfo info, new
    cdef dict out = infos.copy()
    for uid, info in infos.items():
        new = QueuedPodInfo.__new__(QueuedPodInfo)
        _assign(new, info)
        out[uid] = new
    return out


def assign_all(dict infos not None, dict copies not None):
    """Copy all fields of the copies of queue entries back to the entries.

    Parameters
    ----------
    infos, copies : dict of str to QueuedPodInfo
        By UID.
    """
    cdef QueuedPodInfo info
    for uid, info in infos.items():
        _assign(info, <QueuedPodInfo?>copies[uid])


def by_order(dict infos not None):
    """Return queue entries in the order in which they entered their places.

    Parameters
    ----------
    infos : dict of str to QueuedPodInfo
        By UID.

    Returns
    -------
    list of QueuedPodInfo
    """
    cdef QueuedPodInfo info
    cdef int64_t last = 0
    for info in infos.values():
        if info is None:
            raise TypeError("a pod is None")
        if info.order < last:
            return sorted(infos.values(), key=_order)
        last = info.order
    return list(infos.values())


def _order(QueuedPodInfo info not None):
    """Return the number of an entry."""
    return info.order


cdef class KeyedHeap:
    """A heap of pods by UID, the lowest rank first. Ranks are unique.

    A removed pod stays in the heap until it reaches the top, or until removed pods outnumber the others.

    Attributes
    ----------
    entries : dict of str to tuple
        Rank, UID and pod of each pod in the heap, by UID.
    """

    def __cinit__(self):
        self.entries, self.heap = {}, []

    def __len__(self):
        return len(self.entries)

    def __iter__(self):
        """Iterate in the order in which the pods would be popped."""
        return iter([info for _, _, info in sorted(self.entries.values())])

    cpdef add(self, rank, QueuedPodInfo info):
        """Add a pod whose UID is not in the heap.

        Parameters
        ----------
        rank : comparable
            Unique.
        info : QueuedPodInfo
        """
        if info is None:
            raise TypeError("a pod is None")
        uid = _uid(info)
        entry = self.entries[uid] = (rank, uid, info)
        heappush(self.heap, entry)

    cpdef remove(self, str uid):
        """Remove the pod of a UID.

        Parameters
        ----------
        uid : str

        Raises
        ------
        KeyError
            The heap has no such pod.
        """
        del self.entries[uid]
        if len(self.heap) > 2 * len(self.entries) + SPARE:
            self.heap = list(self.entries.values())
            heapify(self.heap)

    cpdef tuple peek(self):
        """Return rank and pod of the first entry; IndexError if the heap is empty."""
        cdef tuple entry
        while self.heap:
            entry = self.heap[0]
            if self.entries.get(entry[1]) is entry:
                return entry[0], entry[2]
            heappop(self.heap)
        raise IndexError("the heap is empty")

    cpdef QueuedPodInfo pop(self):
        """Remove and return the first pod; IndexError if the heap is empty."""
        cdef QueuedPodInfo info = self.peek()[1]
        del self.entries[heappop(self.heap)[1]]
        return info

    def pop_many(self, Py_ssize_t limit):
        """Remove and return the first pods.

        Parameters
        ----------
        limit : int
            The number of pods at most.

        Returns
        -------
        list of QueuedPodInfo
        """
        cdef Py_ssize_t n = min(limit, len(self.entries))
        return [self.pop() for _ in range(n)]


cdef class Lane:
    """The pods of one priority: a list for timestamps that arrive in order, a heap for the others."""

    cdef list pods              # in order from `first` on; None in place of a removed pod
    cdef Py_ssize_t first, removed, size
    cdef Py_ssize_t gone        # number of pods that have left the beginning of `pods`
    cdef double last_timestamp  # of the last pod of `pods`, with its order
    cdef int64_t last_order
    cdef KeyedHeap out_of_order

    def __cinit__(self):
        self.pods, self.out_of_order, self.last_timestamp = [], KeyedHeap(), -INFINITY

    cdef list listed(self):
        """Return the pods in the order in which they would be popped."""
        in_order = [info for info in self.pods[self.first :] if info is not None]
        return list(merge(in_order, self.out_of_order, key=_position))

    cdef int add(self, QueuedPodInfo info) except -1:
        """Add a pod whose UID is not in the lane."""
        self.size += 1
        if self.first == len(self.pods):
            self.last_timestamp = -INFINITY
        if info.timestamp > self.last_timestamp or (
            info.timestamp == self.last_timestamp and info.order > self.last_order
        ):
            info.slot = self.gone + len(self.pods)
            self.last_timestamp, self.last_order = info.timestamp, info.order
            self.pods.append(info)
        else:
            info.slot = -1
            self.out_of_order.add(_position(info), info)
        return 0

    cdef int remove(self, QueuedPodInfo info) except -1:
        """Remove a pod that is in the lane."""
        cdef Py_ssize_t at
        self.size -= 1
        if info.slot < 0:
            self.out_of_order.remove(_uid(info))
            return 0
        self.pods[info.slot - self.gone] = None
        self.removed += 1
        if 2 * self.removed > len(self.pods) - self.first + SPARE:
            self.pods = [info for info in self.pods[self.first :] if info is not None]
            self.first = self.removed = self.gone = 0
            for at in range(len(self.pods)):
                (<QueuedPodInfo>self.pods[at]).slot = at
        return 0

    cdef list pop_many(self, Py_ssize_t limit):
        """Remove and return the first pods, at most `limit`."""
        cdef Py_ssize_t n = min(limit, self.size)
        self.size -= n
        if self.removed or self.out_of_order.entries:
            return [self.pop() for _ in range(n)]
        infos = self.pods[self.first : self.first + n]
        self.first += n
        self.trim()
        return infos

    cdef QueuedPodInfo peek(self):
        """Return the first pod."""
        cdef QueuedPodInfo info
        while self.first < len(self.pods) and self.pods[self.first] is None:
            self.first += 1
            self.removed -= 1
        if self.first < len(self.pods):
            info = self.pods[self.first]
            if not self.out_of_order.entries or _position(info) < self.out_of_order.peek()[0]:
                return info
        return self.out_of_order.peek()[1]

    cdef QueuedPodInfo pop(self):
        """Remove and return the first pod; the caller counts."""
        cdef QueuedPodInfo info = self.peek()
        if info.slot < 0:
            return self.out_of_order.pop()
        self.first += 1
        self.trim()
        return info

    cdef int trim(self) except -1:
        """Drop the pods that have left the list, once they outnumber the others."""
        if 2 * self.first > len(self.pods) + SPARE or self.first == len(self.pods):
            del self.pods[: self.first]
            self.gone += self.first
            self.first = 0
        return 0


cpdef tuple _position(QueuedPodInfo info):
    """Return the key by which the pods of one priority are ordered: timestamp, then number of the entry."""
    return info.timestamp, info.order


cdef inline object _priority(QueuedPodInfo info):
    """Return the priority of a pod."""
    return PRIORITY.of(SPEC.of(info.pod)) or 0


cdef class PriorityLanes:
    """A queue in the order of PrioritySort.

    Timestamps mostly arrive in order, so most pods enter at the end of the lane of their priority and leave
    at its beginning.

    Attributes
    ----------
    size : int
        The number of pods.
    """

    def __cinit__(self):
        self.lanes = {}

    def __iter__(self):
        """Iterate in the order in which the pods would be popped."""
        cdef Lane lane
        listed = []
        for priority in sorted(self.lanes, reverse=True):
            lane = self.lanes[priority]
            listed += lane.listed()
        return iter(listed)

    @property
    def next(self):
        """The next pod; None without pods."""
        cdef Lane lane
        if not self.lanes:
            return None
        lane = self.lanes[max(self.lanes)]
        return lane.peek()

    @property
    def stored(self):
        """The number of stored entries, those of removed pods included."""
        cdef Lane lane
        return sum([len(lane.pods) + len(lane.out_of_order.heap) for lane in self.lanes.values()])

    def rank(self, QueuedPodInfo info not None):
        """Return a unique key of the pod's position in the order; lower keys first.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        comparable
        """
        return -_priority(info), info.timestamp, info.order

    cpdef add(self, QueuedPodInfo info):
        """Add a pod whose UID is not in the queue.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        if info is None:
            raise TypeError("a pod is None")
        priority = _priority(info)
        lane = self.lanes.get(priority)
        if lane is None:
            lane = self.lanes[priority] = Lane()
        (<Lane>lane).add(info)
        self.size += 1

    def fill(self, list infos not None):
        """Add the pods that are in the active queue, or in no place.

        Parameters
        ----------
        infos : list of QueuedPodInfo
            Their UIDs are not in the queue.

        Returns
        -------
        list of QueuedPodInfo
            The other pods.
        """
        cdef QueuedPodInfo info
        cdef list others = []
        for info in infos:
            if info is None:
                raise TypeError("a pod is None")
            if info.place is None or info.place is IN_ACTIVE:
                info.place = IN_ACTIVE
                self.add(info)
            else:
                others.append(info)
        return others

    def remove(self, QueuedPodInfo info not None):
        """Remove a pod that is in the queue.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        priority = _priority(info)
        cdef Lane lane = self.lanes[priority]
        lane.remove(info)
        self.size -= 1
        if not lane.size:
            del self.lanes[priority]

    def pop_many(self, Py_ssize_t limit):
        """Remove and return the first pods, at most `limit`: those of the highest priority.

        Parameters
        ----------
        limit : int
            Largest number of pods.

        Returns
        -------
        list of QueuedPodInfo
        """
        if not self.lanes:
            return []
        priority = max(self.lanes)
        cdef Lane lane = self.lanes[priority]
        infos = lane.pop_many(limit)
        self.size -= len(infos)
        if not lane.size:
            del self.lanes[priority]
        return infos

    def pop_alike(self, Py_ssize_t limit):
        """Remove and return the first entries of the highest priority, all of pods or all of groups.

        Parameters
        ----------
        limit : int
            Largest number of pods; the last group may exceed it.

        Returns
        -------
        list of QueuedPodInfo
        """
        cdef list infos = []
        cdef QueuedPodInfo info
        cdef Lane lane
        cdef Py_ssize_t count = 0
        if not self.lanes:
            return infos
        priority = max(self.lanes)
        lane = self.lanes[priority]
        is_grouped = lane.peek().unit is not None
        while lane.size and count < limit:
            info = lane.peek()
            if (info.unit is not None) != is_grouped:
                break
            infos.append(lane.pop())
            count += info.size
            lane.size -= 1
            self.size -= 1
        if not lane.size:
            del self.lanes[priority]
        return infos


cdef bint _precedes(QueuedPodInfo one, QueuedPodInfo other) except -1:
    """Whether a pod comes before another one by `group_order`."""
    if _priority(one) != _priority(other):
        return _priority(one) > _priority(other)
    if one.attempts != other.attempts:
        return one.attempts > other.attempts
    return one.timestamp < other.timestamp or (one.timestamp == other.timestamp and one.key < other.key)


def group_order(QueuedPodInfo info not None):
    """Return the key that orders the pods of a group: higher priority first, then more attempts, then the
    earlier timestamp, then the name (kube-scheduler v1.37, PodGroupMemberPodsOrderingFunc).

    Parameters
    ----------
    info : QueuedPodInfo

    Returns
    -------
    (int, int, float, str)
    """
    return -_priority(info), -info.attempts, info.timestamp, info.key
